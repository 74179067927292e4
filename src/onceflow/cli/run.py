"""``onceflow run FILE`` and ``onceflow check FILE``: run the job of a file, or see whether it would start.

Must not know: what a job does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from onceflow import __version__, program
from onceflow.cli.config import ConfigOption, PresetOption, SettingsOption, read_settings
from onceflow.cli.job_file import blamed_on, find_job
from onceflow.cli.output import OutputForm, OutputOption, tell_json
from onceflow.cli.resume import resume
from onceflow.cli.starting import AsNewOption, ClaimOption, UntilOption, takeover_of
from onceflow.supervision.signals import Stopped

log = logging.getLogger(__name__)


FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="A Python file that makes a Job.", show_default=False)
]
JobOption = Annotated[str | None, typer.Option(help="The job's name, if FILE makes several.")]


def run(
    file: FileArgument,
    job: JobOption = None,
    until: UntilOption = "stopped",
    claim: ClaimOption = False,
    as_new: AsNewOption = False,
    savepoint: Annotated[
        str | None,
        typer.Option(
            "--from-savepoint",
            "-s",
            metavar="PATH",
            help="Begin from a savepoint, or from CHECKPOINT@EPOCH, as a new job; with --claim, as the old one.",
            show_default=False,
        ),
    ] = None,
    no_state: Annotated[
        bool,
        typer.Option(
            "--allow-non-restored-state",
            help="With -s: take the savepoint's positions alone; the plan's state begins empty.",
        ),
    ] = False,
    partial: Annotated[
        bool,
        typer.Option(
            "--allow-partial-windows",
            help="With --allow-non-restored-state: publish windows that began before it, without what was left behind.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With -s: do not ask.")] = False,
    preset: PresetOption = None,
    settings: SettingsOption = None,
    config: ConfigOption = None,
    supervise: Annotated[
        bool,
        typer.Option(
            "--supervise",
            help="By a process of its own, which starts it again as its restart strategy says when it dies.",
        ),
    ] = False,
    detached: Annotated[
        bool, typer.Option("--detached", help="Supervised and in the background; return once it runs.")
    ] = False,
    log_file: Annotated[
        Path | None,
        typer.Option("--log", help="The file for the log of a job that is supervised or detached.", show_default=False),
    ] = None,
    within: Annotated[float, typer.Option(help="So many seconds --detached waits until the job runs.", min=0)] = 120.0,
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Run the job that FILE makes, until it is stopped by SIGTERM or Ctrl-C."""
    takeover = takeover_of(claim=claim, as_new=as_new)
    if log_file is not None and not supervise and not detached:
        raise typer.BadParameter("--log is for a job that is supervised or detached; else redirect its output")
    if savepoint is None and no_state:
        raise typer.BadParameter(
            "it says what is taken of a savepoint: give -s", param_hint="--allow-non-restored-state"
        )
    if partial and not no_state:
        raise typer.BadParameter(
            "it is about windows whose state is left behind: give --allow-non-restored-state",
            param_hint="--allow-partial-windows",
        )
    if savepoint is not None:
        _require_alone(as_new=as_new, claim=claim, no_state=no_state, asks=not yes, aside=supervise or detached)
    flags = read_settings(settings, config, preset)
    if supervise or detached:
        again = [str(file), *(["--job", job] if job else []), *["--until", until]]
        again += [word for key, value in flags.items() for word in ("-D", f"{key}={value}")]
        first = [*again, f"--{takeover}"] if takeover else again
        if savepoint is not None:  # the first process takes it, and whose the checkpoint is stands in it then
            first += ["-s", savepoint, "--yes", *(["--allow-non-restored-state"] if no_state else [])]
            first += ["--allow-partial-windows"] if partial else []
        if detached:
            _detach(first, log_file or _log_of(file, job, flags), within, output)
        else:
            tail = ["--output", output]
            _supervise([*first, *tail], [*again, *tail], log_file)
        return
    program.show_log()
    log.info("onceflow %s runs %s", __version__, file)
    found = find_job(file, job)
    if savepoint is not None:
        resume(found, savepoint, flags, claim=claim, with_state=not no_state, partial=partial, yes=yes)
        takeover = None  # whose the checkpoint is stands in it now

    def tell(reason: str, exit_code: int) -> None:
        if output is OutputForm.JSON:
            with contextlib.suppress(OSError):  # its disk is full: the exit code says it, too
                tell_json({"job": found.name, "file": str(file), "reason": reason, "exit_code": exit_code})

    try:
        with blamed_on(file):
            found.run(until=until, takeover=takeover, settings=flags)
    except Stopped as stopped:
        tell(str(stopped), 128 + stopped.signal)
        program.end(stopped.signal, clean=stopped.clean)
    tell("caught up" if until == "caught-up" else "ended", 0)


def _require_alone(*, as_new: bool, claim: bool, no_state: bool, asks: bool, aside: bool) -> None:
    if as_new or (claim and no_state):
        raise typer.BadParameter("a run from a savepoint is a new job, or with --claim the old one, as it was")
    if aside and asks:
        raise typer.BadParameter("nobody can be asked there: try it without, then give --yes", param_hint="-s")


def _command(*arguments: str) -> list[str]:
    """``onceflow run`` as another process; -P: what lies in the working folder is no module of Python's."""
    return [sys.executable, "-P", "-m", "onceflow", "run", *arguments]


def _supervise(first: Sequence[str], again: Sequence[str], log_file: Path | None) -> None:
    from onceflow.supervision.log_file import opened  # noqa: PLC0415 - the same
    from onceflow.supervision.parent import Supervision  # noqa: PLC0415 - a plain run needs none of it

    program.show_log()
    to = None if log_file is None else opened(log_file)
    sys.exit(Supervision(_command(*first), _command(*again), to, log_file).run())


def _log_of(file: Path, job: str | None, flags: Mapping[str, str]) -> Path:
    """The file for the log of the job that FILE makes; what is wrong with FILE is told here, before it is started."""
    from onceflow.checkpoint.place import Place  # noqa: PLC0415 - a plain run needs none of it
    from onceflow.storage.locations import is_elsewhere  # noqa: PLC0415 - the same
    from onceflow.supervision.log_file import default  # noqa: PLC0415 - the same

    found = find_job(file, job)
    where = str(found.options.under(flags).checkpointing.location)
    return default(found.name, where if is_elsewhere(where) else Place.at(where, 1).uri)


def _detach(first: Sequence[str], log_file: Path, within: float, output: OutputForm) -> None:
    from onceflow.supervision.detached import start  # noqa: PLC0415 - a plain run needs none of it

    path = log_file.absolute()
    found = start(_command(*first, "--supervise", "--log", str(path)), path, within)
    if output is OutputForm.JSON:
        tell_json(dataclasses.asdict(found) | {"log": str(path)})
    elif found.exit_code:
        typer.echo(
            f"the job did not come up: exit code {found.exit_code}; the end of its log, {path}:\n{found.said}", err=True
        )
    elif found.exit_code == 0:
        typer.echo(f"the job has ended; its log is {path}")
    else:
        typer.echo(f"job {found.job} is {found.state} (pid {found.pid}, supervised by {found.supervisor}); log {path}")
    if found.exit_code:
        sys.exit(found.exit_code)


def check(file: FileArgument, job: JobOption = None, output: OutputOption = OutputForm.TEXT) -> None:
    """See whether the job that FILE makes would start: brokers, topics, rights, its plan and its checkpoint.

    Nothing is made, changed or started; a job that runs goes on. Exit code 0 if it would start.
    """
    program.show_log()
    log.info("onceflow %s checks %s", __version__, file)
    found = find_job(file, job)
    with blamed_on(file):
        found.check()
    if output is OutputForm.JSON:
        tell_json({"job": found.name, "file": str(file), "reason": "would start", "exit_code": 0})
    else:
        typer.echo(f"job {found.name} would start; nothing was started, made or changed")
