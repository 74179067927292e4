"""A plain shell for SQL: statements over several lines, each to its semicolon, with a history.

Must not know: what statements mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory

from onceflow.cli.pipelines import run_here
from onceflow.errors import OnceflowError
from onceflow.masking import in_text, is_secret

_HISTORY = Path("~/.local/state/onceflow/sql_history")
_OPTION = re.compile(r"'((?:[^']|'')*)'\s*=\s*('(?:[^']|'')*')")
_HELP = """Statements end with ; and may go over several lines.
An INSERT runs its job here until Ctrl-C; a SELECT shows its rows.
SHOW TABLES;  DESCRIBE t;  SHOW CREATE TABLE t;  EXPLAIN …;  SET;  QUIT;"""


def shell(flags: Mapping[str, str]) -> None:
    """Take statements until QUIT or Ctrl-D."""
    from onceflow import program  # noqa: PLC0415 - what follows loads Spark
    from onceflow.flinksql.script import Script  # noqa: PLC0415

    program.show_log()
    script = Script(flags)
    lines: PromptSession[str] = PromptSession(history=_history(_HISTORY.expanduser()))
    typer.echo("Flink's SQL on Spark; HELP; says how, QUIT; or Ctrl-D ends it")
    while True:
        try:
            text = _statement(lines)
        except EOFError:
            return
        except KeyboardInterrupt:
            continue
        word = text.strip().rstrip(";").strip().upper()
        if word in ("QUIT", "EXIT"):
            return
        if word == "HELP":
            typer.echo(_HELP)
        elif word:
            _take(script, text)


class _History(FileHistory):
    """Statements without such as hold a secret."""

    def store_string(self, string: str) -> None:
        if not any(is_secret(key) for key, _ in _OPTION.findall(string)) and in_text(string) == string:
            super().store_string(string)


def _history(path: Path) -> FileHistory:
    """The file of the statements, for its owner's eyes alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.chmod(0o600)  # one from before this was so
    return _History(str(path))


def _statement(lines: PromptSession[str]) -> str:
    """Lines up to the one that ends with a semicolon; one of a statement set ends with its END."""
    text = lines.prompt("sql> ")
    while text.strip() and not _is_whole(text):
        text += "\n" + lines.prompt("   > ")
    return text


def _is_whole(text: str) -> bool:
    told = " ".join(text.upper().split())
    if not told.endswith(";"):
        return False
    return "STATEMENT SET" not in told or told.endswith(("END;", "END ;"))


def _take(script: object, text: str) -> None:
    from onceflow.flinksql.script import Script  # noqa: PLC0415
    from onceflow.flinksql.select_rows import show  # noqa: PLC0415

    assert isinstance(script, Script)  # noqa: S101 - the type is loaded late
    try:
        for answer in script.run(text):
            for line in answer.lines:
                typer.echo(line)
            if answer.query is not None:
                show(script, answer.query, typer.echo)
            if answer.pipeline is not None:
                script.jobs.clear()  # it runs here, and is over when the next comes
                run_here(answer.pipeline, until="stopped", takeover=None, ending=False)
    except OnceflowError as error:
        typer.echo(f"error: {error}", err=True)
