"""The job in a user's file: found, and what the file raises told without the frames that are not the user's.

Must not know: what a job does, typer.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onceflow.errors import ConfigurationError, OnceflowError

if TYPE_CHECKING:
    from onceflow.job import Job

_MODULE = "__onceflow_job__"
"""The name that FILE's module gets: not ``__main__``, so that its own ``job.main()`` does not start."""

_NOT_THEIRS = ("onceflow", "pyspark", "py4j")


def find_job(file: Path, name: str | None = None) -> Job:
    """Run FILE and take the job that it made.

    Modules beside FILE can be imported by it, as with ``python FILE``.

    Args:
        file: The file.
        name: The job's name; None if there is only one.

    Raises:
        ConfigurationError: There is no such file, it raised, or not exactly one such job is in it.
    """
    if not file.is_file():
        raise ConfigurationError(
            f"there is no file {file}", action="give the path of a Python file that makes a Job, or of a script of SQL"
        )
    from onceflow.job import Job  # noqa: PLC0415 - it loads Spark

    sys.path.insert(0, str(file.absolute().parent))
    if file.suffix == ".sql":
        from onceflow.flinksql import sql  # noqa: PLC0415 - it loads Spark

        made: dict[str, Any] = dict(enumerate(sql(file)))  # type: ignore[arg-type]  # only the values are looked at
    else:
        with blamed_on(file):
            # Not kept in sys.modules: Spark's workers get functions of a module that they cannot import by value.
            made = runpy.run_path(str(file), run_name=_MODULE)
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


@contextmanager
def blamed_on(file: Path) -> Iterator[None]:
    """What FILE's code raises inside, and what cannot be compiled of it, becomes an error with its own lines only.

    Raises:
        ConfigurationError: In the place of what FILE raised. Errors of onceflow, and those that came by no line of
            FILE, pass as they are.
    """
    try:
        yield
    except OnceflowError:
        raise
    except Exception as error:
        told = traceback.TracebackException.from_exception(error)
        names = [frame.filename for frame in told.stack]
        if str(file) in names:
            frames = [f for f in told.stack[names.index(str(file)) :] if _is_theirs(f.filename, file)]
        elif isinstance(error, SyntaxError) and error.filename == str(file):
            frames = []
        else:
            raise
        said = "".join(told.format_exception_only())
        if type(error).__module__.startswith("pyspark."):
            said = said.partition(";\n")[0]  # behind it comes Spark's plan
        lines = [*traceback.StackSummary.from_list(frames).format(), said]
        shown = "".join(lines).rstrip().replace("\n", "\n  ")
        raise ConfigurationError(
            f"{file} raised {type(error).__name__}\n  {shown}",
            action="mend it; --debug shows the whole traceback",
        ) from error


def _is_theirs(name: str, file: Path) -> bool:
    """Whether a frame tells the user something: neither Python's import nor the inside of Spark and onceflow."""
    inside = [where for package in _NOT_THEIRS for where in _folders(package)]
    return name == str(file) or not name.startswith(("<frozen", *inside))


def _folders(package: str) -> list[str]:
    spec = importlib.util.find_spec(package)
    return [f"{where}{os.sep}" for where in (spec.submodule_search_locations if spec else None) or ()]
