"""``onceflow checkpoints JOB``, ``exceptions JOB``: what a job's epochs were like, and what it has failed by.

Must not know: where it is kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onceflow.cli.job_file import find_job
from onceflow.cli.output import OutputForm, OutputOption, tell_json
from onceflow.control.client import find
from onceflow.spark.locations import place_at

if TYPE_CHECKING:
    from onceflow.checkpoint.statistics import EpochStatistics
    from onceflow.operations.checkpoints.overview import Overview

_LOOK_EVERY_S = 0.5


JobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="The Python file that makes the job, its checkpoint's folder or URI, or the name of one that runs.",
        show_default=False,
    ),
]
NameOption = Annotated[str | None, typer.Option("--job", help="The job's name, if a file makes several.")]


def place_of(of: str, job: str | None) -> str:
    """Where the checkpoint of a job is, by its file or its name; or the folder itself."""
    if Path(of).is_dir() or "://" in of:
        return of
    return find_job(Path(of), job).checkpointing.location if of.endswith(".py") else find(of).checkpoint


def checkpoints(
    of: JobArgument,
    job: NameOption = None,
    last: Annotated[int, typer.Option(help="So many epochs of the history.", min=1)] = 20,
    watch: Annotated[bool, typer.Option("--watch", help="Then each new epoch, until Ctrl-C.")] = False,
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Show what a job's epochs were like: how many, how long, how much, and why some failed."""
    from onceflow.operations.checkpoints.overview import overview  # noqa: PLC0415 - it takes its time to load

    location = place_of(of, job)
    found = overview(location, place_at)
    shown = dataclasses.replace(found, history=found.history[-last:])
    if output is OutputForm.JSON:
        tell_json(dataclasses.asdict(shown))
    else:
        for line in lines(shown):
            typer.echo(line)
    with contextlib.suppress(KeyboardInterrupt):
        seen = found.history
        while watch:
            time.sleep(_LOOK_EVERY_S)
            now = overview(location, place_at).history
            for each in now[now.index(seen[-1]) + 1 if seen and seen[-1] in now else 0 :]:
                if output is OutputForm.JSON:
                    tell_json(dataclasses.asdict(each))
                else:
                    typer.echo(epoch_line(each))
            seen = now


def exceptions(
    of: JobArgument,
    job: NameOption = None,
    last: Annotated[int, typer.Option(help="So many of the newest.", min=1)] = 20,
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Show what a job has failed by: when, in which epoch, by what, and what the restart strategy did."""
    from onceflow.operations.checkpoints.overview import failures  # noqa: PLC0415 - it takes its time to load

    location = place_of(of, job)
    found = failures(location, place_at)[-last:]
    if output is OutputForm.JSON:
        tell_json({"exceptions": [dataclasses.asdict(each) for each in found]})
    for each in found if output is OutputForm.TEXT else ():
        epoch = "" if each.epoch is None else f"epoch {each.epoch}  "
        typer.echo(f"{each.at}  {epoch}{each.error}: {each.what}  ->  {each.followed_by}  (pid {each.pid})")


def lines(found: Overview) -> list[str]:
    """An overview for people."""
    failed = ", ".join(f"{number} {name}" for name, number in found.failed.items())
    number = sum(found.failed.values())
    told = [
        found.uri,
        f"completed {found.completed}, failed {number}{failed and f' ({failed})'}, restored {found.restored}",
    ]
    if found.summary:
        told += ["", f"{'':<14} {'minimum':>12} {'average':>12} {'maximum':>12}"]
        told += [
            f"{name:<14} {spread.minimum:>12,g} {spread.average:>12,g} {spread.maximum:>12,g}"
            for name, spread in found.summary.items()
        ]
    if found.history:
        told += ["", *map(epoch_line, found.history)]
    return told


def epoch_line(each: EpochStatistics) -> str:
    """An epoch in one line."""
    phases = ", ".join(f"{name} {spent:.0f}" for name, spent in each.phases_ms.items())
    parts = [
        f"{each.triggered_at}  epoch {each.epoch}  {each.status}{each.reason and f' ({each.reason})'}",
        f"{sum(each.records_in.values()):,} in, {sum(each.rows_out.values()):,} out, {each.participants} participants",
        "" if each.duration_ms is None else f"{each.duration_ms:,} ms ({phases or 'nothing to do'})",
        "" if each.state_rows is None else f"state {each.state_rows:,} rows, {each.state_bytes or 0:,} bytes",
        f"watermark {each.watermark}" if each.watermark else "",
        "" if each.lag is None else f"lag {each.lag:,}",
        f"late {', '.join(f'{rows:,} in {operator}' for operator, rows in each.late.items())}" if each.late else "",
        f"incarnation {each.incarnation}",
        f"{each.failure}: {each.what}" if each.failure else "",
    ]
    return "  ".join(filter(None, parts))
