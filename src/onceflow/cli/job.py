"""``onceflow job delete FILE``: a job, with all that is kept of it.

Must not know: what is kept, or where.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceflow.cli.help import PLAIN, Group
from onceflow.cli.job_file import find_job
from onceflow.cli.open_checkpoint import begin_java
from onceflow.cli.output import OutputForm, OutputOption, tell_json
from onceflow.control.client import running
from onceflow.errors import ConfigurationError
from onceflow.spark.locations import place_at

if TYPE_CHECKING:
    from onceflow.operations.transactions.deletion import Deletion

app = typer.Typer(help="A job as a whole.", cls=Group, **PLAIN)


@app.callback()
def _options() -> None:
    """A job as a whole."""


@app.command()
def delete(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The Python file that makes the Job.", show_default=False)
    ],
    job: Annotated[str | None, typer.Option("--job", help="The job's name, if FILE makes several.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this it is only told.")] = False,
    give_up_decided: Annotated[
        bool,
        typer.Option("--give-up-decided", help="Also where an epoch is decided and not finished: its rows are lost."),
    ] = False,
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Delete a job: its checkpoint, its marks, what its sinks keep beside, its open transactions.

    What it has made visible stays. A new job of its name begins where its sources say.
    """
    from onceflow.operations.transactions.access import Operator  # noqa: PLC0415 - it takes its time to load
    from onceflow.operations.transactions.deletion import delete as delete_job  # noqa: PLC0415
    from onceflow.operations.transactions.deletion import look, undecided  # noqa: PLC0415

    found = find_job(file, job)
    about = (found.checkpointing, found.transactional_id_prefix, found.sinks, found.name)
    begin_java(found)
    with Operator(*about, deletes=True, opened=place_at) as operator:
        runs = next((each for each in running() if each.checkpoint == operator.uri), None)
        if runs is not None:
            raise ConfigurationError(
                f"job {found.name} is not deleted: it runs (pid {runs.pid})",
                harmless="always: nothing was changed",
                cause=f"it is {runs.state}",
                action=f"end it first: onceflow stop {found.name}",
            )
        if yes:
            seen = delete_job(operator, undecided_only=not give_up_decided)
        else:
            seen = look(operator)
            if seen.undone is not None and not give_up_decided:
                raise undecided(seen)
    if output is OutputForm.JSON:
        tell_json(_as_json(seen) | {"job": found.name, "deleted": yes})
        return
    typer.echo(f"job {found.name} ({seen.job_id}) {'is deleted' if yes else 'would be deleted'}:")
    typer.echo(f"  checkpoint {seen.checkpoint}: {seen.files:,} files, {seen.size:,} bytes")
    for each in seen.open:
        typer.echo(f"  {each.standing} transaction {each.seen.id}: aborted" if yes else f"  {each.seen.id} is open")
    typer.echo(f"  marks, and what is kept beside, of {', '.join(seen.sinks) or 'no sink'}")
    if not yes:
        typer.echo("nothing was changed; --yes does it")


def _as_json(seen: Deletion) -> dict[str, Any]:
    return {
        "job_id": seen.job_id,
        "checkpoint": seen.checkpoint,
        "files": seen.files,
        "bytes": seen.size,
        "transactions": [each.seen.id for each in seen.open],
        "undone_epoch": seen.undone,
        "sinks": list(seen.sinks),
    }
