"""``onceflow doctor [FILE]``: what is wrong with the machine, or with a job and all that it stands on.

Must not know: what is looked at.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onceflow.cli.config import ConfigOption, PresetOption, SettingsOption, read_settings
from onceflow.cli.job_file import find_job
from onceflow.cli.output import OutputForm, OutputOption, tell_json
from onceflow.findings import Finding, Level
from onceflow.options.durations import duration_ms

if TYPE_CHECKING:
    from onceflow.operations.doctor.examination import Examined

DOWNTIME = "3 min"
"""As long as a machine's restart."""


def doctor(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="The Python file that makes the Job; without it the machine alone."),
    ] = None,
    job: Annotated[str | None, typer.Option("--job", help="The job's name, if FILE makes several.")] = None,
    downtime: Annotated[
        str, typer.Option(help="How long the job may be down: what time-outs and retentions have to bear.")
    ] = DOWNTIME,
    preset: PresetOption = None,
    settings: SettingsOption = None,
    config: ConfigOption = None,
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Look at the machine and, with FILE, at the job's brokers, topics, rights, time-outs and checkpoint.

    Nothing is changed, and a job that runs goes on. Exit code 1 if an error was found.
    """
    from onceflow.operations.doctor.examination import examine  # noqa: PLC0415 - it loads Spark
    from onceflow.operations.doctor.machine import examine_machine  # noqa: PLC0415

    flags = read_settings(settings, config, preset)
    looked_at = "this machine"
    with _silent():
        if file is None:
            found = list(examine_machine({}))
        else:
            about, timeout_s = _about(file, job, flags)
            found = examine(about, timeout_s, duration_ms(downtime) / 1000)
            looked_at += f"; of job {about.name} {about.parts()}"
    if output is OutputForm.JSON:
        tell_json({"findings": [dataclasses.asdict(each) for each in found], "exit_code": _code(found)})
    else:
        for line in lines(found, looked_at):
            typer.echo(line)
    raise typer.Exit(_code(found))


def lines(found: Sequence[Finding], looked_at: str) -> Iterator[str]:
    """Findings for people."""
    for each in found:
        yield f"{each.level}: {each.what}"
        for name, said in (("why", each.why), ("setting", each.setting), ("do", each.command)):
            if said:
                yield f"  {name}: {said}"
    numbers = Counter(each.level for each in found)
    told = ", ".join(f"{numbers[level]} {level}{'s' * (numbers[level] > 1)}" for level in Level if numbers[level])
    yield f"{told or 'nothing is wrong'} (looked at: {looked_at})"


def _code(found: Sequence[Finding]) -> int:
    return int(any(each.level is Level.ERROR for each in found))


@contextmanager
def _silent() -> Iterator[None]:
    """What a start would warn of is told as findings."""
    log = logging.getLogger("onceflow")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _about(file: Path, job: str | None, flags: dict[str, str]) -> tuple[Examined, float]:
    """The job that is looked at, and after how many seconds its epochs are given up (0 where no setting says so)."""
    from onceflow.operations.doctor.examination import Examined  # noqa: PLC0415 - it loads Spark

    found = find_job(file, job)
    checkpointing = found.options.under(flags).checkpointing
    timeout = found.options.layers(flags).get("checkpointing.timeout")
    about = (found.name, found.transactional_id_prefix, checkpointing)
    examined = Examined(*about, found.sinks, found.sources, found.spark_settings)
    return examined, 0.0 if timeout is None else timeout.value / 1000
