"""``onceflow jars``: the jars that a Spark of one's own needs.

Must not know: jobs.
"""

from __future__ import annotations

import typer

from onceflow.cli.output import Output, OutputOption, tell_json
from onceflow.local.jars import spark_jars


def jars(output: OutputOption = Output.TEXT) -> None:
    """Print the paths of Spark's Kafka connector, for spark-submit --jars "$(onceflow jars)"."""

    def show(done: int, total: int) -> None:
        typer.echo(f"fetching jars: {done} of {total}", err=True)

    paths = [str(path) for path in spark_jars(show)]
    if output is Output.JSON:
        tell_json({"jars": paths})
    else:
        typer.echo(",".join(paths))
