"""The tree of commands.

Must not know: what the commands do.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

import onceflow
from onceflow.cli import (
    audit,
    checkpoints,
    class_archive,
    config,
    demo,
    dev,
    doctor,
    init,
    jars,
    job,
    jobs,
    run,
    savepoint,
    sql,
    txn,
    walk,
)
from onceflow.cli.help import PLAIN, Group
from onceflow.program import DEBUG, keep_files_private

_FOR_OTHERS = ("init", "jars", "class-archive")
"""Commands whose files others may use, too: a project, and a cache."""

app = typer.Typer(
    help="End-to-end exactly-once for PySpark Structured Streaming.",
    cls=Group,
    **PLAIN,
)
app.command("init")(init.init)
app.command("run")(run.run)
app.command("config")(config.config)
app.command("audit")(audit.audit)
app.command("checkpoints")(checkpoints.checkpoints)
app.command("exceptions")(checkpoints.exceptions)
app.command("list")(jobs.list_)
app.command("info")(jobs.info)
app.command("stop")(jobs.stop)
app.command("cancel")(jobs.cancel)
app.command("check")(run.check)
app.command("doctor")(doctor.doctor)
app.command("sql")(sql.sql)
app.command("demo")(demo.demo)
app.command("walk")(walk.walk)
app.command("jars")(jars.jars)
app.command("class-archive")(class_archive.class_archive)
app.add_typer(dev.app, name="dev")
app.add_typer(savepoint.app, name="savepoint")
app.add_typer(txn.app, name="txn")
app.add_typer(job.app, name="job")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"onceflow {onceflow.__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help=f"Show an error's traceback, as {DEBUG}=1 does.")] = False,
) -> None:
    """Options of every command."""
    if debug:
        os.environ[DEBUG] = "1"
    if context.invoked_subcommand not in _FOR_OTHERS:
        keep_files_private()
