"""``onceflow list``, ``info``, ``stop``, ``cancel``: the jobs of this user that run on this machine.

Must not know: how they are found or asked.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from onceflow.cli.job_file import find_job
from onceflow.cli.output import OutputForm, OutputOption, tell_json
from onceflow.cli.savepoint import say_made
from onceflow.control.client import AnsweringJob, find, order, running
from onceflow.control.registry import folder
from onceflow.options.auditing import Auditing
from onceflow.spark.locations import place_at

JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="The job's name, or the Python file that makes it.", show_default=False)
]


def list_(output: OutputOption = OutputForm.TEXT) -> None:
    """List the jobs of this user that run on this machine."""
    jobs = running()
    if output is OutputForm.JSON:
        tell_json({"jobs": [_as_json(job) for job in jobs]})
    elif not jobs:
        typer.echo(
            f"no job of this user runs on this machine (looked at: {folder()}); one that was "
            "just started shows up within seconds",
            err=True,
        )
    for job in jobs if output is OutputForm.TEXT else ():
        epoch = "no epoch yet" if job.epoch is None else f"epoch {job.epoch}"
        typer.echo(f"{job.name}  {job.state}  pid {job.pid}  since {job.started_at}  {epoch}  {job.checkpoint}")


def info(job: JobArgument, output: OutputOption = OutputForm.TEXT) -> None:
    """Show how a running job stands."""
    found = _as_json(find(_named(job)))
    if output is OutputForm.JSON:
        tell_json(found)
        return
    for name, value in found.items():
        said = " (how its transactional ids begin)" if name == "writes_as" and value else ""
        typer.echo(f"{name:<11} {'-' if value in (None, '') else value}{said}")


def stop(
    job: JobArgument,
    within: Annotated[float, typer.Option(help="So many seconds are waited for it.", min=0)] = 60.0,
    to: Annotated[
        str | None,
        typer.Option("--savepoint", metavar="PATH", help="Then make a savepoint of it there.", show_default=False),
    ] = None,
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """End a running job behind the epoch that is in work, and wait until it has ended."""
    if to is None:
        _order(job, "stop", within, output)
        return
    from onceflow.operations.savepoints.writing import create, require_free  # noqa: PLC0415 - it takes its time to load

    require_free(to)  # before the job is ended for it
    found = find(_named(job))
    order(found, "stop", within)
    say_made(to, create(place_at(found.checkpoint, 1), to, found.name, key=Auditing.from_environment().key), output)


def cancel(
    job: JobArgument,
    within: Annotated[float, typer.Option(help="So many seconds are waited for it.", min=0)] = 30.0,
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """End a running job at once: an epoch that is not decided is aborted, and run again by the next start."""
    _order(job, "cancel", within, output)


def _order(job: str, what: Literal["stop", "cancel"], within: float, output: OutputForm) -> None:
    found = find(_named(job))
    order(found, what, within)
    if output is OutputForm.JSON:
        tell_json({"name": found.name, "state": "ENDED", "pid": found.pid})
    else:
        typer.echo(f"job {found.name} (pid {found.pid}) has ended")


def _named(job: str) -> str:
    """A job's name, which a file of it tells as well."""
    return find_job(Path(job)).name if job.endswith((".py", ".sql")) else job


def _as_json(job: AnsweringJob) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(job).items() if name != "socket"}
