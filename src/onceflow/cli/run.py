"""``onceflow run FILE``: find the job in a file and run it.

Must not know: what a job does.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from onceflow import program
from onceflow.cli.output import Output, OutputOption, tell_json
from onceflow.errors import ConfigurationError
from onceflow.job import Job, Stopped, Takeover

_MODULE = "__onceflow_job__"
"""The name that FILE's module gets: not ``__main__``, so that its own ``job.main()`` does not start."""


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Python file that makes a Job.", show_default=False)],
    job: Annotated[str | None, typer.Option(help="The job's name, if FILE makes several.")] = None,
    bounded: Annotated[bool, typer.Option("--bounded", help="Take what is there and end.")] = False,
    claim: Annotated[
        bool, typer.Option("--claim", help="The checkpoint was moved or put back on purpose: go on with it.")
    ] = False,
    as_new: Annotated[
        bool, typer.Option("--as-new", help="The checkpoint is a copy: go on from it as another, independent job.")
    ] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Run the job that FILE makes, until it is stopped by SIGTERM or Ctrl-C."""
    if claim and as_new:
        raise typer.BadParameter("--claim and --as-new are two different things; give one of them")
    takeover: Takeover | None = "claim" if claim else "as-new" if as_new else None
    found = find_job(file, job)

    def tell(reason: str, exit_code: int) -> None:
        if output is Output.JSON:
            tell_json({"job": found.name, "file": str(file), "reason": reason, "exit_code": exit_code})

    program.show_log()
    try:
        found.run(until="caught-up" if bounded else "stopped", takeover=takeover)
    except Stopped as stopped:
        tell(str(stopped), 128 + stopped.signal)
        program.end(stopped.signal, clean=stopped.clean)
    tell("caught up" if bounded else "ended", 0)


def find_job(file: Path, name: str | None = None) -> Job:
    """Run FILE and take the job that it made.

    Modules beside FILE can be imported by it, as with ``python FILE``.

    Args:
        file: The file.
        name: The job's name; None if there is only one.

    Raises:
        ConfigurationError: There is no such file, or not exactly one such job in it.
    """
    if not file.is_file():
        raise ConfigurationError(f"there is no file {file}", action="give the path of a Python file that makes a Job")
    sys.path.insert(0, str(file.absolute().parent))
    # Not kept in sys.modules: Spark's workers get functions of a module that they cannot import by value.
    made: dict[str, Any] = runpy.run_path(str(file), run_name=_MODULE)
    jobs = list({id(value): value for value in made.values() if isinstance(value, Job)}.values())
    names = ", ".join(sorted(one.name for one in jobs))
    if not jobs:
        raise ConfigurationError(
            f"{file} makes no job",
            cause="no global variable of it is an onceflow.Job",
            action='make one, for example job = onceflow.Job("name", checkpointing=...), outside of any function',
        )
    chosen = jobs if name is None else [one for one in jobs if one.name == name]
    if not chosen:
        raise ConfigurationError(f"{file} makes no job {name!r}", cause=f"its jobs are {names}", action="name one")
    if len(chosen) > 1:
        raise ConfigurationError(
            f"{file} makes {len(jobs)} jobs: {names}",
            cause=f"--job is {name or 'not given'}",
            action="name one with --job; jobs of one file need different names",
        )
    return chosen[0]
