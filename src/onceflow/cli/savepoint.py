"""``onceflow savepoint create | list | show | verify | export | dispose``: a checkpoint's epoch, kept apart.

Must not know: what a savepoint consists of, how a running job is held.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceflow.cli.help import PLAIN, Group
from onceflow.cli.job_file import find_job
from onceflow.cli.open_checkpoint import place_of
from onceflow.cli.output import OutputForm, OutputOption, tell_json
from onceflow.control.client import AnsweringJob, find, held, running
from onceflow.masking import in_one_line
from onceflow.options.auditing import Auditing
from onceflow.spark.locations import place_at

if TYPE_CHECKING:
    from onceflow.checkpoint.place import Place
    from onceflow.operations.savepoints.manifest import Manifest
    from onceflow.operations.savepoints.writing import Taken
    from onceflow.storage.files import Where

_RESCALE = "onceflow savepoint rescale"

app = typer.Typer(help="Keep a job's epoch apart from its checkpoint, and look after what is kept.", cls=Group, **PLAIN)

JobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="A running job's name; or the Python file that makes the job, or its checkpoint's folder.",
        show_default=False,
    ),
]
PathArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="The savepoint's folder, a path, hdfs://… or s3://….", show_default=False)
]


@app.command()
def create(
    job: JobArgument,
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="The savepoint's folder: a path, or a URI on HDFS or in S3; it must not be there.",
            show_default=False,
        ),
    ],
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Make a savepoint of the newest epoch that is done. A running job goes on; its next epoch waits a moment."""
    say_made(path, taken_of(job, path), output)


@app.command(name="list")
def list_(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A folder with savepoints in it, or one.", show_default=False)
    ],
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """List the savepoints in a folder, the oldest first; then, in S3, what is being made or was not finished."""
    from onceflow.operations.savepoints.reading import found, unfinished  # noqa: PLC0415 - it takes its time to load

    savepoints, parts = found(path), unfinished(path)
    if output is OutputForm.JSON:
        told_parts = [{"path": str(at), "by": who} for at, who in parts]
        tell_json({"savepoints": [_as_json(at, manifest) for at, manifest in savepoints], "unfinished": told_parts})
        return
    for at, manifest in savepoints:
        typer.echo(_line(at, manifest))
    for at, who in parts:
        typer.echo(f"{at}  is being made, or was not finished, by {who}; dispose removes what a dead process has left")


@app.command()
def show(path: PathArgument, output: OutputOption = OutputForm.TEXT) -> None:
    """Show what a savepoint says of itself. Its files are not read: that is verify."""
    from onceflow.operations.savepoints.reading import read  # noqa: PLC0415 - as in list

    manifest = read(path)
    if output is OutputForm.JSON:
        tell_json(_as_json(path, manifest) | {"offsets": manifest.offsets, "files": _files(manifest)})
        return
    for name, value in _as_json(path, manifest).items():
        typer.echo(in_one_line(f"{name:<11} {'-' if value in (None, '') else value}"))
    typer.echo(in_one_line(f"{'offsets':<11} " + " ".join(manifest.offsets.splitlines()[2:])))


@app.command()
def verify(path: PathArgument, output: OutputOption = OutputForm.TEXT) -> None:
    """Compare all of a savepoint's files with what they were; with ONCEFLOW_AUDIT_KEY_FILE its signature, too."""
    from onceflow.operations.savepoints.reading import verify as compare  # noqa: PLC0415 - as in list

    key = Auditing.from_environment().key
    manifest = compare(path, key)
    if output is OutputForm.JSON:
        tell_json(_as_json(path, manifest) | {"signed": key is not None})
    else:
        whose = "signed with this key" if key else "whose it is nothing proves (no key)"
        typer.echo(f"{len(manifest.files)} files, {manifest.size:,} bytes: as they were; {whose}")


@app.command()
def export(
    path: PathArgument,
    to: Annotated[str, typer.Argument(metavar="TO", help="The copy's folder.", show_default=False)],
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Copy a savepoint, so that the copy shares no file with a checkpoint: to take it elsewhere, S3 and HDFS too."""
    from onceflow.operations.savepoints.writing import export as copy  # noqa: PLC0415 - as in list

    manifest = copy(path, to, Auditing.from_environment().key)
    if output is OutputForm.JSON:
        tell_json(_as_json(to, manifest))
    else:
        typer.echo(_line(to, manifest))


@app.command()
def dispose(path: PathArgument, output: OutputOption = OutputForm.TEXT) -> None:
    """Delete a savepoint. Checkpoints, also those that went on from it, keep all that they need.

    In S3 it also removes what a dead process has left of a savepoint, or of a checkpoint that it made of one.
    """
    from onceflow.operations.savepoints.writing import dispose as delete  # noqa: PLC0415 - as in list

    left = delete(path)
    if output is OutputForm.JSON:
        tell_json({"path": str(path), "left": left})
    else:
        typer.echo(f"{path} is gone" if not left else f"of {path} is left what is none of its files: {', '.join(left)}")


@app.command()
def rescale(
    path: PathArgument,
    to: Annotated[str, typer.Argument(metavar="TO", help="The new savepoint's folder.", show_default=False)],
    partitions: Annotated[int, typer.Argument(metavar="PARTITIONS", help="Shuffle partitions.", min=1)],
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Make a savepoint with the same state in another number of shuffle partitions. It starts Spark."""
    from onceflow.operations.savepoints.rescaling import rescale as remake  # noqa: PLC0415 - it loads Spark
    from onceflow.spark import hadoop  # noqa: PLC0415 - likewise
    from onceflow.spark.session import make_session  # noqa: PLC0415 - likewise

    for location in (path, to):
        hadoop.begin(location, _RESCALE, {})
    session = make_session(_RESCALE, {}, lambda _: None)
    try:
        say_made(to, remake(session, path, to, partitions, Auditing.from_environment().key), output)
    finally:
        session.stop()


def taken_of(job: str, path: str) -> Taken:
    """Make a savepoint of a job: held, where one runs on its checkpoint."""
    from onceflow.operations.savepoints.writing import create as make  # noqa: PLC0415 - as in list

    name, place, runs = checkpoint_of(job)
    hold: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext if runs is None else partial(held, runs)
    return make(place, path, name, held=hold, key=Auditing.from_environment().key)


def checkpoint_of(job: str) -> tuple[str, Place, AnsweringJob | None]:
    """A job's name ("" for a folder), its checkpoint, and the job that runs on it, if one does."""
    name = ""
    if job.endswith(".py"):
        found = find_job(Path(job))
        name, place = found.name, place_of(found)
    elif Path(job).is_dir() or "://" in job:
        place = place_at(job, 1)
    else:
        runs = find(job)
        return job, place_at(runs.checkpoint, 1), runs
    here = next((each for each in running() if each.checkpoint == place.uri), None)
    return name or (here.name if here else ""), place, here


def say_made(path: str, taken: Taken, output: OutputForm) -> None:
    """Say what was made, and how long the job waited for it."""
    if output is OutputForm.JSON:
        times = {"held_s": round(taken.held_s, 3), "took_s": round(taken.took_s, 3)}
        tell_json(_as_json(path, taken.manifest) | times)
    else:
        typer.echo(_line(path, taken.manifest))
        typer.echo(f"the job's files were held for {taken.held_s:.3f} s; it took {taken.took_s:.1f} s")


def _line(path: Where, of: Manifest) -> str:
    name = f"job {of.job} ({of.job_id})" if of.job else f"job {of.job_id}"
    return in_one_line(f"{path}  {of.created_at}  {name}  epoch {of.epoch}  {len(of.files)} files  {of.size:,} bytes")


def _as_json(path: Where, of: Manifest) -> dict[str, Any]:
    told = {f.name: getattr(of, f.name) for f in dataclasses.fields(of) if f.name not in ("files", "offsets")}
    return {"path": str(path)} | told | {"files": len(of.files), "bytes": of.size}


def _files(of: Manifest) -> dict[str, Any]:
    return {path: dataclasses.asdict(held_) for path, held_ in of.files.items()}
