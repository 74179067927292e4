"""The rows of a SELECT, as they come: for people, without a checkpoint.

Must not know: jobs, sinks, how an epoch commits.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from onceflow.checkpoint.schemas import KeptSchemas
from onceflow.connectors.kafka.source import explain, malformed_in
from onceflow.errors import ConfigurationError, UnknownSchemaError
from onceflow.flinksql.pipelines import SESSION, Reading
from onceflow.flinksql.relations import KEEP, SEQUENCE, WINDOW, Query
from onceflow.flinksql.script import Script
from onceflow.formats.schemas import WantedSchema, asking, wanted_by
from onceflow.launch.schemas import StartSchemas
from onceflow.masking import in_one_line
from onceflow.spark.session import make_session
from onceflow.storage.store import Store

_HIDDEN = (KEEP, WINDOW, SEQUENCE)
_CONDITION = re.compile(r"\[([A-Z][A-Z_.]+)\] [^\n]*")
"""How Spark 4.2 begins what it says of an error."""


def show(script: Script, query: Query, say: Callable[[str], None]) -> None:
    """Show a query's rows until there are no more, or until Ctrl-C."""
    session = make_session("onceflow sql", dict(SESSION) | script.settings.of_spark(), lambda _: None)
    tables = {name: script.names.tables[name] for name in query.tables}
    reading = Reading(script.names, script.settings, tables)
    for note in query.notes:
        say(f"-- {note}")
    say(f"-- {', '.join(column.name for column in query.columns)}")
    streams = [table for table in tables.values() if not table.seen.static]
    bounded = bool(streams) and all(table.is_bounded for table in streams)
    with tempfile.TemporaryDirectory(prefix="onceflow-select-") as folder:
        schemas = Store(Path(folder) / "schemas")
        schemas.make()
        wanted: list[WantedSchema] = []
        while True:
            with contextlib.closing(StartSchemas(KeptSchemas(schemas), wanted)) as known, asking(known):
                reading.load(session, [query])
                known.keep()
            try:
                return _rows_to(query, session, say, f"{folder}/query", bounded=bounded)
            except UnknownSchemaError as error:  # a new one in the middle of the stream
                wanted.append(wanted_by(error))


def _lines(rows: Sequence[Sequence[Any]]) -> list[str]:
    """Each row in a line: what it is, and its values."""
    return [
        f"{mark}[{', '.join('NULL' if value is None else in_one_line(str(value)) for value in row)}]"
        for mark, *row in rows
    ]


def _rows_to(query: Query, session: SparkSession, say: Callable[[str], None], folder: str, *, bounded: bool) -> None:
    rows = session.sql(query.sql)
    mark = "'+U'" if query.updating else "'+I'"
    if query.sequenced:  # each change is shown
        mark = f"IF(`{KEEP}`, '+U', '-D')"
    elif query.keep:
        rows = rows.where(f"`{KEEP}`")
    texts = (f"CAST(`{name}` AS STRING) AS `{name}`" for name in rows.columns if name not in _HIDDEN)
    rows = rows.selectExpr(mark, *texts)
    if not rows.isStreaming:
        for line in _lines(rows.collect()):
            say(line)
        return

    def show(batch: DataFrame, _: int) -> None:
        for line in _lines(batch.collect()):
            say(line)

    writing = rows.writeStream.outputMode(query.output_mode).foreachBatch(show)
    writing = writing.option("checkpointLocation", folder)
    running = (writing.trigger(availableNow=True) if bounded else writing.trigger(processingTime="1 second")).start()
    malformed = _Malformed(say)
    try:
        while not running.awaitTermination(0.5):  # type: ignore[arg-type]  # it takes fractions of a second
            malformed.look(running)
        malformed.look(running)
        _tell_of_waiting(running, say)
    except KeyboardInterrupt:
        say("-- ended")
    except StreamingQueryException as error:
        raise (explain(str(error)) or _failed(str(error))) from None
    finally:
        running.stop()


class _Malformed:
    """Says of each epoch what was left out of it, since it could not be read."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._shown = say, -1

    def look(self, query: StreamingQuery) -> None:
        for progress in query.recentProgress:
            if progress.batchId <= self._shown:
                continue
            self._shown = progress.batchId
            for source, found in malformed_in(progress.observedMetrics):
                first = "".join(f", the first: {place}" for place in found.first[:1])
                self._say(f"-- {found.records} malformed records of {source.describe()} are left out{first}")


def _tell_of_waiting(query: StreamingQuery, say: Callable[[str], None]) -> None:
    """Say what a bounded query has kept: rows that only a later watermark would let out."""
    last = query.lastProgress
    kept = 0 if last is None else sum(each.numRowsTotal for each in last.stateOperators)
    watermark = None if last is None else last.eventTime.get("watermark")
    if kept and watermark is not None:
        say(f"-- the watermark is at {watermark}: what it has not passed is not shown ({kept} rows are in the state)")


def _failed(text: str) -> ConfigurationError:
    # Around what has failed Spark puts what failed by that, and behind it Java's stack and the plan.
    said = next((each[0] for each in _CONDITION.finditer(text) if each[1] != "STREAM_FAILED"), text.partition("\n")[0])
    return ConfigurationError(
        f"the query ended: {said}",
        harmless="always: a SELECT writes nothing",
        cause="a value that an expression does not take, a function of yours, or a table that cannot be read",
        action="correct the statement, or what it reads",
    )
