"""``onceflow init [FOLDER]``: a job, its settings and its test, to start from.

Must not know: what is in them. They lie in ``starter/``; a ``.txt`` behind a name keeps them from being modules.
"""

from __future__ import annotations

from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from onceflow.cli.output import OutputForm, OutputOption, tell_json
from onceflow.errors import ConfigurationError


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where; it is made if it is not there.")] = Path(),
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Write a job, its settings and its test into FOLDER, to start from; nothing that is there is written over."""
    texts = {
        each.name.removesuffix(".txt"): each.read_text("utf-8")
        for each in resources.files("onceflow").joinpath("cli/starter").iterdir()
    }
    there = [name for name in sorted(texts) if (folder / name).exists()]
    if there:
        raise ConfigurationError(
            f"{folder} has {', '.join(there)} already",
            harmless="always: nothing was written",
            cause="onceflow init was here before, or the folder is another project's",
            action="name another folder",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise ConfigurationError(
            f"{folder} cannot be written: {error.strerror}",
            harmless="for what was there: nothing of it was changed",
            cause="a right is missing, or something else is in its place",
            action="name another folder",
        ) from None
    if output is OutputForm.JSON:
        tell_json({"folder": str(folder), "files": sorted(texts)})
        return
    typer.echo(f"{folder}: {', '.join(sorted(texts))}")
    install = "" if find_spec("pytest") else "`pip install pytest`, then "
    typer.echo(f"Next, in that folder: {install}`pytest` tries the job on a Kafka of its own; job.py tells the rest.")
