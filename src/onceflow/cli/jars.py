"""``onceflow jars``: the jars that a Spark of one's own needs. ``onceflow class-archive``: makes jobs start sooner.

Must not know: jobs.
"""

from __future__ import annotations

import typer

from onceflow.cli.output import Output, OutputOption, tell_json
from onceflow.demo.training import make_archive
from onceflow.jars import spark_jars


def jars(output: OutputOption = Output.TEXT) -> None:
    """Print the paths of Spark's Kafka connector, for spark-submit --jars "$(onceflow jars)"."""

    def show(done: int, total: int) -> None:
        typer.echo(f"fetching jars: {done} of {total}", err=True)

    paths = [str(path) for path in spark_jars(show)]
    if output is Output.JSON:
        tell_json({"jars": paths})
    else:
        typer.echo(",".join(paths))


def class_archive(output: OutputOption = Output.TEXT) -> None:
    """Make Java's archive of Spark's classes for this user, once (half a minute, 180 MB): jobs start 4 s sooner.

    Sessions that onceflow makes on this machine find it by themselves. Another Java or PySpark needs another one.
    """
    path, made = make_archive()
    if output is Output.JSON:
        tell_json({"class_archive": str(path), "made": made})
    elif made:
        typer.echo(f"made {path}")
    else:
        typer.echo(f"{path} is there already")
