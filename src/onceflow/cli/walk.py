"""``onceflow walk``: one small job step by step on a real Kafka, and what each step leaves.

Must not know: how the walk is made.
"""

from __future__ import annotations

import dataclasses
import signal
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceflow.cli.output import OutputForm, OutputOption, tell_json
from onceflow.local.jars import broker_jars, java_executable, on_one_line, spark_jars

if TYPE_CHECKING:
    from onceflow.demo.walk import Step


def walk(
    auto: Annotated[bool, typer.Option("--auto", help="Do not wait for Enter between the steps.")] = False,
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Show how an epoch commits: a small job on a real Kafka, stopped at each step, killed once, and recovered."""
    from onceflow.demo.walk import walk as take  # noqa: PLC0415 - it loads Spark

    # As Ctrl-C does: end by an exception, so that everything that was started is ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    typer.echo("a Kafka and the job are started; the first steps take half a minute", err=True)
    java_executable()
    broker_jars(on_one_line(sys.stderr))
    spark_jars(on_one_line(sys.stderr))
    steps: list[dict[str, Any]] = []

    def show(step: Step) -> None:
        steps.append(dataclasses.asdict(step) | {"seen": dict(step.seen)})
        if output is OutputForm.TEXT:
            typer.echo(f"\n{len(steps)}. {step.title}\n")
            typer.echo(textwrap.fill(step.text, 100, initial_indent="   ", subsequent_indent="   ") + "\n")
            for name, value in step.seen:
                typer.echo(f"   {name:<22} {value}")
        if not auto:
            typer.echo("\n   Enter: go on", err=True)
            sys.stdin.readline()

    with tempfile.TemporaryDirectory(prefix="onceflow-walk-") as folder:
        good = take(show, Path(folder))
    if output is OutputForm.JSON:
        tell_json({"steps": steps, "verdict": "PASS" if good else "FAIL"})
    else:
        typer.echo("\nevery count is there once" if good else "\nthe counts are not as they should be")
    raise typer.Exit(0 if good else 1)
