"""``onceflow run FILE -s PATH``: the job's checkpoint is made of a savepoint before it is started. It asks first.

Must not know: what a savepoint consists of, what a job does.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from onceflow.cli.open_checkpoint import begin_java, place_of
from onceflow.errors import ConfigurationError
from onceflow.masking import in_one_line
from onceflow.options.auditing import Auditing

if TYPE_CHECKING:
    from onceflow.job import Job


def resume(
    job: Job, savepoint: str, settings: Mapping[str, str], *, claim: bool, with_state: bool, partial: bool, yes: bool
) -> None:
    """Make a job's checkpoint of a savepoint; nothing, where that was done before.

    Args:
        job: The job that is to run.
        savepoint: A savepoint's folder, a path or a URI on HDFS or in S3; or ``CHECKPOINT@EPOCH``.
        settings: Given with the command: they may name the checkpoint.
        claim: The old job goes on.
        with_state: Its state is restored.
        partial: Windows of which a part was left behind are not held back.
        yes: Do not ask.
    """
    from onceflow.operations.savepoints import restoring, resuming  # noqa: PLC0415 - they take their time to load

    place = place_of(job, settings)
    begin_java(job, settings, savepoint)
    if restoring.already(place, resuming.id_of(savepoint), claim=claim, with_state=with_state):
        typer.echo(f"{place.uri} was made of it before: the job goes on there", err=True)
        return
    with resuming.opened(savepoint, place.checkpoint.where, Auditing.from_environment().key) as (path, manifest):
        begin_java(job, settings, manifest.checkpoint)
        again = resuming.written_again(path, manifest)
        left = None if with_state else restoring.left_behind(path, manifest, partial_windows=partial)
        for line in resuming.lines(manifest, again, claim=claim, left=left):
            typer.echo(line, err=True)
        if claim and manifest.job not in ("", job.name):
            typer.echo(in_one_line(f"the savepoint is of job {manifest.job}, and this is {job.name}"), err=True)
        if not yes and not sys.stdin.isatty():
            raise ConfigurationError(
                "nothing was done: there is no terminal to ask at",
                harmless="always: nothing was changed",
                cause="--yes was not given, and stdin is no terminal",
                action="read the lines above, then give --yes",
            )
        if not yes:
            typer.confirm("Go on?", abort=True, err=True)
        restoring.restore(path, manifest, place, claim=claim, with_state=with_state, partial_windows=partial)
