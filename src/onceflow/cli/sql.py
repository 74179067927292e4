"""``onceflow sql``: run a script of Flink's SQL, a statement, or a shell; or see whether a script would run.

Must not know: what statements mean.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onceflow import __version__, program
from onceflow.cli.config import ConfigOption, SettingsOption, read_settings
from onceflow.cli.pipelines import run_here, tell
from onceflow.cli.starting import AsNewOption, ClaimOption, UntilOption, takeover_of
from onceflow.errors import ConfigurationError
from onceflow.findings import Checks

if TYPE_CHECKING:
    from onceflow.flinksql.pipelines import Pipeline

log = logging.getLogger(__name__)


def sql(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A script.", show_default=False)] = None,
    statement: Annotated[
        list[str] | None, typer.Option("-e", metavar="STATEMENT", help="Statements; behind FILE, if one is given.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="See whether it would run: parse, plan, ask the topics; write nothing.")
    ] = False,
    job: Annotated[str | None, typer.Option(help="Run this one of its jobs only.")] = None,
    until: UntilOption = "stopped",
    claim: ClaimOption = False,
    as_new: AsNewOption = False,
    settings: SettingsOption = None,
    config: ConfigOption = None,
) -> None:
    """Run Flink's SQL on Spark, exactly once: a FILE, statements with -e, or a shell (docs/sql.md)."""
    takeover = takeover_of(claim=claim, as_new=as_new)
    flags = read_settings(settings, config)
    program.require_sql()
    if file is not None and not file.is_file():
        raise ConfigurationError(f"there is no file {file}", action="give the path of a script")
    if file is None and not statement:
        if check:
            raise typer.BadParameter("--check takes a FILE, or statements with -e")
        from onceflow.cli.shell import shell  # noqa: PLC0415 - it loads prompt_toolkit

        shell(flags)
        return
    program.show_log()
    log.info("onceflow %s runs %s", __version__, file or "statements")
    text = ";\n".join([*([file.read_text(encoding="utf-8")] if file is not None else []), *(statement or [])])
    pipelines = _taken(text, flags, showing=job is None, quiet=check)
    if job is not None:
        pipelines = [each for each in pipelines if each.job.name == job]
        if not pipelines:
            raise ConfigurationError(f"the script makes no job {job!r}", action="--check tells the names of its jobs")
    if check:
        _check(pipelines)
        return
    if len(pipelines) > 1:
        raise typer.Exit(_run_each(pipelines, _again(sys.argv[1:])))
    for each in pipelines:
        run_here(each, until=until, takeover=takeover)


def _taken(text: str, flags: dict[str, str], *, showing: bool, quiet: bool) -> list[Pipeline]:
    """Every statement done; the jobs that come of them."""
    from onceflow.flinksql.script import Script  # noqa: PLC0415 - it loads Spark

    pipelines, script = [], Script(flags)
    for answer in script.run(text):
        if answer.pipeline is not None:
            pipelines.append(answer.pipeline)
        if answer.query is not None and showing and not quiet:
            from onceflow.flinksql.select_rows import show  # noqa: PLC0415 - it loads Spark

            show(script, answer.query, typer.echo)
        for line in answer.lines if showing else ():
            typer.echo(line)
    return pipelines


def _check(pipelines: Sequence[Pipeline]) -> None:
    checks = Checks()
    for each in pipelines:
        with checks.one():
            tell(each)
            each.job.check()
            typer.echo(f"job {each.job.name} would start; nothing was started, made or changed")
    checks.end()


def _again(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-P", "-m", "onceflow", *arguments]


def _run_each(pipelines: Sequence[Pipeline], command: Sequence[str]) -> int:
    """Each job as a process of its own; the first exit code that is not 0, when all have ended."""
    names = [each.job.name for each in pipelines]
    log.info("the script makes %d jobs, each a process of its own: %s", len(names), ", ".join(names))
    running = [subprocess.Popen([*command, "--job", name]) for name in names]

    def pass_on(number: int, _: object) -> None:
        for process in running:
            process.send_signal(number)

    before = signal.signal(signal.SIGTERM, pass_on), signal.signal(signal.SIGINT, lambda *_: None)
    try:
        codes = [process.wait() for process in running]
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])
    return next((code if code > 0 else 128 - code for code in codes if code), 0)
