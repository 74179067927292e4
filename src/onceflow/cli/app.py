"""The tree of commands.

Must not know: what the commands do.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

import onceflow
from onceflow.cli import class_archive, demo, dev, jars, run, txn
from onceflow.cli.main import DEBUG

app = typer.Typer(
    help="End-to-end exactly-once for PySpark Structured Streaming.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
app.command("run")(run.run)
app.command("demo")(demo.demo)
app.command("jars")(jars.jars)
app.command("class-archive")(class_archive.class_archive)
app.add_typer(dev.app, name="dev")
app.add_typer(txn.app, name="txn")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"onceflow {onceflow.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help=f"Show an error's traceback, as {DEBUG}=1 does.")] = False,
) -> None:
    """Options of every command."""
    if debug:
        os.environ[DEBUG] = "1"
