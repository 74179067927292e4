"""``onceflow demo``: the fraud job on a real Kafka, killed three times, and the proof that nothing was lost or doubled.

Must not know: how the demo works.
"""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from onceflow.cli.output import OutputForm, OutputOption, tell_json
from onceflow.local.jars import broker_jars, java_executable, on_one_line, spark_jars


def demo(
    records: Annotated[int, typer.Option(min=5_000, help="Payments that the job gets to see.")] = 100_000,
    seed: Annotated[int, typer.Option(help="The same seed makes the same payments.")] = 1,
    chaos: Annotated[bool, typer.Option("--chaos/--no-chaos", help="Kill the job twice and the broker once.")] = True,
    sql: Annotated[bool, typer.Option("--sql", help="The same job as a script of SQL, examples/fraud.sql.")] = False,
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Run the fraud job exactly once through kill -9, and prove it. Exit code 0 only for verdict PASS."""
    typer.echo(
        "a Kafka, a generator of payments and the fraud job are started; it takes one to three minutes", err=True
    )
    from onceflow.demo.report import what_next  # noqa: PLC0415 - all of it loads Spark
    from onceflow.demo.run import run_demo  # noqa: PLC0415
    from onceflow.demo.show import open_view  # noqa: PLC0415

    # As Ctrl-C does: end by an exception, so that everything that was started is ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    java_executable()
    broker_jars(on_one_line(sys.stderr))
    spark_jars(on_one_line(sys.stderr))
    with open_view(to_stderr=output is OutputForm.JSON) as board:
        report = run_demo(board, records=records, seed=seed, chaos=chaos, sql=sql)
    typer.echo(report.as_text(), err=output is OutputForm.JSON)
    if report.verdict == "PASS":
        typer.echo(what_next(sql=sql), err=output is OutputForm.JSON)
    if output is OutputForm.JSON:
        tell_json(report.as_json())
    raise typer.Exit(0 if report.verdict == "PASS" else 1)
