"""The rows of a SELECT, as they come: for people, without a checkpoint.

Must not know: jobs, sinks, how an epoch commits.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from onceflow.flinksql.pipelines import SESSION, Reading
from onceflow.flinksql.relations import KEEP, WINDOW, Query
from onceflow.flinksql.script import Script
from onceflow.spark.session import make_session

_HIDDEN = (KEEP, WINDOW)


def show(script: Script, query: Query, say: Callable[[str], None]) -> None:
    """Show a query's rows until there are no more, or until Ctrl-C."""
    session = make_session("onceflow sql", dict(SESSION) | script.settings.of_spark(), lambda _: None)
    tables = {name: script.names.tables[name] for name in query.tables}
    reading = Reading(script.names, script.settings, tables)
    reading.load(session, [query])
    for note in query.notes:
        say(f"-- {note}")
    say(f"-- {', '.join(column.name for column in query.columns)}")
    streams = [table for table in tables.values() if not table.seen.static]
    _rows_to(query, session, say, bounded=bool(streams) and all(table.is_bounded for table in streams))


def _lines(rows: Sequence[Sequence[Any]], *, updating: bool) -> list[str]:
    mark = "+U" if updating else "+I"
    return [f"{mark}[{', '.join('NULL' if value is None else str(value) for value in row)}]" for row in rows]


def _rows_to(query: Query, session: SparkSession, say: Callable[[str], None], *, bounded: bool) -> None:
    rows = session.sql(query.sql)
    if query.keep:
        rows = rows.where(f"`{KEEP}`")
    texts = (f"CAST(`{name}` AS STRING) AS `{name}`" for name in rows.columns if name not in _HIDDEN)
    rows = rows.selectExpr(*texts)
    if not rows.isStreaming:
        for line in _lines(rows.collect(), updating=False):
            say(line)
        return

    def told(batch: DataFrame, _: int) -> None:
        for line in _lines(batch.collect(), updating=query.updating):
            say(line)

    with tempfile.TemporaryDirectory(prefix="onceflow-select-") as folder:
        writing = rows.writeStream.outputMode("update" if query.updating else "append").foreachBatch(told)
        writing = writing.option("checkpointLocation", folder)
        running = (
            writing.trigger(availableNow=True) if bounded else writing.trigger(processingTime="1 second")
        ).start()
        try:
            running.awaitTermination()
        except KeyboardInterrupt:
            say("-- ended")
        finally:
            running.stop()
