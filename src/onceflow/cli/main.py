"""The entry point ``onceflow``: starts the command line and turns errors into lines and exit codes.

Must not know: any command. It imports typer late, so that an installation without it gets one clear line.

Exit codes: 0 good, 1 failed, 2 wrong usage, 130 and 143 ended by SIGINT and SIGTERM.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import sys
from collections.abc import Sequence

from onceflow.errors import OnceflowError

DEBUG = "ONCEFLOW_DEBUG"


def main() -> None:
    """Run the command of ``sys.argv`` and end the process."""
    missing = [name for name in ("typer", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"the command line needs {' and '.join(missing)}: pip install 'onceflow[cli]'")
    from onceflow.cli.app import app  # noqa: PLC0415 - it imports typer

    arguments = sys.argv[1:]
    try:
        app(arguments, prog_name="onceflow")
    except OnceflowError as error:
        if os.environ.get(DEBUG):
            raise
        sys.stderr.write(f"error: {error}\n")
        if _wants_json(arguments):
            sys.stdout.write(json.dumps(_as_json(error)) + "\n")
        sys.exit(1)


def _wants_json(arguments: Sequence[str]) -> bool:
    return "--output=json" in arguments or ("--output", "json") in itertools.pairwise(arguments)


def _as_json(error: OnceflowError) -> dict[str, object]:
    """An error as JSON: its kind, its four parts, and whether the same job may be started again as it is."""
    return {
        "reason": "failed",
        "exit_code": 1,
        "error": type(error).__name__,
        "what": error.what,
        "harmless": error.harmless,
        "cause": error.cause,
        "action": error.action,
        "retriable": error.retriable,
    }


if __name__ == "__main__":
    main()
