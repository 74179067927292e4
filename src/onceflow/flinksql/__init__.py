"""Flink's SQL, run by Spark: statements, tables and queries become jobs.

Must not know: how an epoch commits, the journal, the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from onceflow.job import Job
from onceflow.options.arguments import checked


@checked
def sql(script: str | Path, *, settings: Mapping[str, str] = MappingProxyType({})) -> list[Job]:
    """The jobs that a script of Flink's SQL makes: one for each INSERT, and one for each statement set.

    Each is a ``Job``: ``for job in of.sql(Path("fraud.sql")): job.run()``. A SELECT alone makes none.

    Args:
        script: Statements as text, or a file of them.
        settings: As ``onceflow sql -D``: they go before what the script SETs.

    Raises:
        ConfigurationError: A statement that cannot be understood or is refused, with its line and column; or the extra
            ``[sql]`` is not installed.
    """
    from onceflow.program import require_sql  # noqa: PLC0415 - a package's name loads nothing

    require_sql()
    from onceflow.flinksql.script import Script  # noqa: PLC0415 - it needs sqlglot, and loads Spark

    text = script.read_text(encoding="utf-8") if isinstance(script, Path) else script
    made = Script(settings)
    return [answer.pipeline.job for answer in made.run(text) if answer.pipeline is not None]
