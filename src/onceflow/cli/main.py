"""The entry point ``onceflow``: starts the command line and turns errors into lines and exit codes.

Must not know: any command. It imports typer late, so that an installation without it gets one clear line.

The exit codes are those of ``program.py``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import sys
from collections.abc import Sequence

from onceflow import program
from onceflow.errors import OnceflowError, advice_by_command


def main() -> None:
    """Run the command of ``sys.argv`` and end the process."""
    missing = [name for name in ("typer", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(
            f'the command line needs {" and ".join(missing)}, which come with the extra "cli": '
            "pip install '.[cli]' in onceflow's folder, or pip install typer rich"
        )
    from onceflow.cli.app import app  # noqa: PLC0415 - it imports typer

    arguments = sys.argv[1:]
    program.bear_a_full_log()
    try:
        with advice_by_command():
            app(arguments, prog_name="onceflow")
    except OnceflowError as error:
        if _wants_json(arguments):
            with contextlib.suppress(OSError):  # the exit code says it, too
                sys.stdout.write(json.dumps(_as_json(error)) + "\n")
        program.fail(error)


def _wants_json(arguments: Sequence[str]) -> bool:
    return "--output=json" in arguments or ("--output", "json") in itertools.pairwise(arguments)


def _as_json(error: OnceflowError) -> dict[str, object]:
    """An error as JSON: its kind, its four parts, whether the same job may be started again as it is; others beside."""
    return {
        "reason": "failed",
        "exit_code": program.exit_code(error),
        "error": type(error).__name__,
        "what": error.what,
        "harmless": error.harmless,
        "cause": error.cause,
        "action": error.action,
        "retriable": error.retriable,
        "others": [
            {"error": type(each).__name__, "what": each.what, "cause": each.cause, "action": each.action}
            for each in error.others
        ],
    }


if __name__ == "__main__":
    main()
