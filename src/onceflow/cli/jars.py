"""``onceflow jars``: the jars that a Spark of one's own needs.

Must not know: jobs.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from onceflow.cli.output import OutputForm, OutputOption, tell_json
from onceflow.local.jars import on_one_line, s3_jars, spark_jars


def jars(
    s3: Annotated[bool, typer.Option("--s3", help="And of Hadoop's S3A, for a checkpoint in S3.")] = False,
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Print the paths of Spark's Kafka connector, for spark-submit --jars "$(onceflow jars)"."""
    show = on_one_line(sys.stderr)
    paths = [str(path) for path in [*spark_jars(show), *(s3_jars(show) if s3 else [])]]
    if output is OutputForm.JSON:
        tell_json({"jars": paths})
    else:
        typer.echo(",".join(paths))
