"""``onceflow jars``: the jars that a Spark of one's own needs.

Must not know: jobs.
"""

from __future__ import annotations

import sys

import typer

from onceflow.cli.output import Output, OutputOption, tell_json
from onceflow.local.jars import on_one_line, spark_jars


def jars(output: OutputOption = Output.TEXT) -> None:
    """Print the paths of Spark's Kafka connector, for spark-submit --jars "$(onceflow jars)"."""
    paths = [str(path) for path in spark_jars(on_one_line(sys.stderr))]
    if output is Output.JSON:
        tell_json({"jars": paths})
    else:
        typer.echo(",".join(paths))
