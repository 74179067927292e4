"""From INSERTs to jobs: tables become views of Spark's, queries become outputs, and tables that are written, sinks.

Must not know: how an epoch commits, how a script is run or shown.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_type_hints

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import DataType

from onceflow.checkpoint.place import Place
from onceflow.connectors.contract import Sink
from onceflow.connectors.kafka.source import KafkaSource
from onceflow.errors import ConfigurationError
from onceflow.flinksql import kafka_tables, other_tables
from onceflow.flinksql.catalogue import DefinedTable, Names, key_fields
from onceflow.flinksql.first_of_key import keep_first
from onceflow.flinksql.kinds import BOOLEAN, BYTES, DATE, DOUBLE, STRING, TIMESTAMP, Kind, fits, quoted
from onceflow.flinksql.operands import cut
from onceflow.flinksql.pieces import literal
from onceflow.flinksql.problems import Position, refused, wrong
from onceflow.flinksql.queries import translate
from onceflow.flinksql.relations import KEEP, SEQUENCE, Query
from onceflow.flinksql.settings import NAME, SERVERS, ScriptSettings
from onceflow.flinksql.statements import Insert
from onceflow.formats.debezium_format import DELETED, SEQUENCED
from onceflow.job import Job
from onceflow.options.checkpointing import Checkpointing
from onceflow.options.job_options import JobOptions
from onceflow.options.layers import DEFAULT, PYTHON, Effective
from onceflow.spark.interpreter import works_among_others
from onceflow.spark.plan import EVERY_ROW
from onceflow.storage.locations import is_elsewhere

SESSION: Mapping[str, str] = {
    # Local times are UTC: what has no zone is not moved by one, and no local time is missing or twice.
    "spark.sql.session.timeZone": "UTC",
    # As Flink: a CAST that fails stops the job, names are compared by the letter, of a key given twice the last counts.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
}
"""What a session of a job of SQL is told."""

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]")
DEFAULT_FOLDER = "checkpoints"
_PREFIX = "sink.transactional-id-prefix"
_PLAIN: Mapping[Any, Kind] = {
    str: STRING,
    int: Kind("BIGINT"),
    float: DOUBLE,
    bool: BOOLEAN,
    bytes: BYTES,
    date: DATE,
    datetime: TIMESTAMP,
    Decimal: Kind("DECIMAL", 38, 18),
}


@dataclass(frozen=True, eq=False)
class Written:
    """One INSERT, understood.

    Attributes:
        insert: As it was written.
        table: What it writes.
        query: What it writes there.
        sql: That, with the table's columns and types.
    """

    insert: Insert
    table: DefinedTable
    query: Query
    sql: str


@dataclass(frozen=True)
class Pipeline:
    """One job of a script.

    Attributes:
        job: The job.
        at: Where it stands in the script.
        inserts: What it writes.
        bounded: It ends by itself.
        notes: What is to be said at its start.
    """

    job: SqlJob
    at: Position
    inserts: tuple[Written, ...]
    bounded: bool
    notes: tuple[str, ...]


class _Options(JobOptions):
    """Those of a job of a script: what SET says is a layer, and the job has a folder of its own."""

    def __init__(self, of: JobOptions, name: str, flags: Mapping[str, str], said: Mapping[str, str]) -> None:
        super().__init__(of.checkpointing, of.restart)
        self.__dict__.update(name=name, flags=dict(flags), script=dict(said))

    def layers(
        self, flags: Mapping[str, str], script: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, Effective]:
        """As ever, with the script's own."""
        found = super().layers({**self.__dict__["flags"], **flags}, {**self.__dict__["script"], **script})
        place = found["checkpointing.location"]
        folder, name = str(place.value).removeprefix("file://"), self.__dict__["name"]
        at = f"{folder}/{name}" if is_elsewhere(folder) else str(Path(folder) / name)
        return found | {"checkpointing.location": replace(place, value=at)}


class SqlJob(Job):
    """A job that a script makes.

    Args:
        name: Its name, which is also that of its folder.
        settings: What the script has SET, and the command line says.
        transactional_id_prefix: As of any job.
        output_mode: As of any job.
    """

    def __init__(
        self,
        name: str,
        *,
        settings: ScriptSettings,
        transactional_id_prefix: str = "onceflow",
        output_mode: Literal["append", "update"] = "append",
    ) -> None:
        super().__init__(
            name,
            checkpointing=Checkpointing(DEFAULT_FOLDER),
            transactional_id_prefix=transactional_id_prefix,
            output_mode=output_mode,
            spark=dict(SESSION) | settings.of_spark(),
        )
        self._layers = settings.of_jobs()

    @property
    def options(self) -> JobOptions:
        """What its operator may change."""
        return _Options(super().options, self.name, *self._layers)

    def settings(self) -> dict[str, Effective]:
        """Every setting, and who said it."""
        return self.options.layers({})


def understood(insert: Insert, names: Names) -> Written:
    """Understand an INSERT: its table, its query, and whether the one fits the other.

    Raises:
        ConfigurationError: It does not.
    """
    table = names.sink(insert.table, insert.table_at)
    query = translate(insert.query, names)
    if query.static:
        raise refused(
            insert.query.at, "an INSERT that reads no stream", "a job here is a stream", "read a kafka or datagen table"
        )
    if query.session is not None and query.window:
        raise refused(
            insert.query.at,
            "SESSION without GROUP BY",
            "Spark makes sessions of what it groups",
            "GROUP BY window_start, …",
        )
    _require_changes_taken(insert, table, query)
    return Written(insert, table, query, _as_table(insert, table, query))


def _require_changes_taken(insert: Insert, table: DefinedTable, query: Query) -> None:
    keyed = _key_of(table)
    if query.sequenced and (table.options.connector != "jdbc" or not keyed):
        raise refused(
            insert.at,
            f"INSERT INTO {insert.table} of another table's changes",
            "nothing there knows which change of a row is the newest",
            "write a jdbc table with that table's PRIMARY KEY",
        )
    if not query.updating or not keyed:
        return
    columns = insert.columns or tuple(each.name for each in table.written)
    told = {columns[i] for i in query.keys if i < len(columns)}
    if told != set(keyed):
        raise refused(
            insert.at,
            f"a PRIMARY KEY ({', '.join(keyed)}) of rows known by ({', '.join(sorted(told)) or 'something else'})",
            "a row would replace one of another group, or never be replaced",
            "make the columns of GROUP BY the PRIMARY KEY, and select all of them",
        )


def _key_of(table: DefinedTable) -> tuple[str, ...]:
    """By which columns a row of it replaces another."""
    return table.definition.primary_key if table.options.connector in ("upsert-kafka", "jdbc") else ()


def _as_table(insert: Insert, table: DefinedTable, query: Query) -> str:
    """The query with the columns of the table, in their types."""
    written_columns = {each.name: each for each in table.written}
    targets = insert.columns or tuple(written_columns)
    for name in targets:
        if name not in written_columns:
            raise wrong(insert.table_at, f"{table.name} has no column {name} to write", action="name another one")
    if len(set(targets)) != len(targets):
        twice = next(name for name in targets if targets.count(name) > 1)
        raise wrong(insert.table_at, f"column {twice} is named twice", action="name each column once")
    if len(targets) != len(query.columns):
        raise wrong(
            insert.query.at,
            f"{table.name} takes {len(targets)} columns ({', '.join(targets)}), and the query gives "
            f"{len(query.columns)} ({', '.join(column.name for column in query.columns)})",
            action="select as many, or name the columns: INSERT INTO t (a, b) SELECT …",
        )
    given = dict(zip(targets, query.columns, strict=True))
    selected = []
    for name, definition in written_columns.items():
        assert definition.kind is not None  # noqa: S101 - a written column has a type
        text = _as_column(insert, table, name, definition.kind, given.get(name), sequenced=query.sequenced)
        selected.append(f"{text} AS {quoted(name)}")
    selected += [quoted(name) for name, there in ((KEEP, query.keep), (SEQUENCE, query.sequenced)) if there]
    return f"SELECT {', '.join(selected)} FROM (\n{query.sql}\n)"


def _as_column(insert: Insert, table: DefinedTable, name: str, kind: Kind, given: Any, *, sequenced: bool) -> str:
    if given is None:
        text = f"CAST(NULL AS {kind.spark()})"
    else:
        if not fits(given.kind, kind):
            raise wrong(
                insert.query.at,
                f"{insert.table}.{name} is {kind}, and the query gives {given.kind}",
                action="write a CAST",
            )
        text = quoted(given.name)
        if given.kind.spark() != kind.spark() or kind.is_number:  # Spark's ROUND, too, gives what the column is
            text = f"CAST({text} AS {kind.spark()})"
        if kind.is_time and given.kind.is_time and (given.kind.precision or 0) > (kind.precision or 0):
            text = cut(text, kind)
    if not kind.nullable or name in table.definition.primary_key:
        failure = f"raise_error('a null in {insert.table}.{name}, which is NOT NULL')".replace("`", "")
        filled = f"coalesce({text}, {failure})"
        # Of a change that deletes there may be no more than its key.
        is_whole = not sequenced or name in table.definition.primary_key
        text = filled if is_whole else f"CASE WHEN {quoted(KEEP)} THEN {filled} ELSE {text} END"
    return text


def pipeline(inserts: Sequence[Insert], at: Position, names: Names, settings: ScriptSettings) -> Pipeline:
    """One job of INSERTs that commit together.

    Raises:
        ConfigurationError: They cannot.
    """
    parts = tuple(understood(insert, names) for insert in inserts)
    _require_one_mode(parts)
    name = job_name(inserts, settings)
    prefixes = _prefixes(parts)
    updating = any(part.query.output_mode == "update" for part in parts)
    job = SqlJob(
        name,
        settings=settings,
        transactional_id_prefix=prefixes[0] if prefixes else "onceflow",
        output_mode="update" if updating else "append",
    )
    tables = {table: names.tables[table] for part in parts for table in part.query.tables}
    streams = [table for table in tables.values() if not table.seen.static]
    bounded = {table.is_bounded for table in streams}
    if len(bounded) > 1:
        raise refused(at, "bounded and unbounded tables in one job", "it would never end", "bound all, or none")
    reading = Reading(names, settings, tables)
    sinks = {part: _sink(part, settings) for part in parts}

    @job.stream(sinks=list(sinks.values()), sources=list(reading.sources.values()))
    def script(spark: SparkSession) -> dict[Sink, DataFrame]:
        reading.load(spark, [part.query for part in parts])
        return {sink: _rows(spark, part) for part, sink in sinks.items()}

    notes = _notes(parts, tables, settings, job)
    return Pipeline(job, at, parts, bounded == {True}, notes)


def job_name(inserts: Sequence[Insert], settings: ScriptSettings) -> str:
    """Who a job is: what the script calls it, or what it writes."""
    said = settings.get(NAME)
    name = said if said is not None else "insert-into_" + "_".join(dict.fromkeys(each.table for each in inserts))
    return _NO_NAME.sub("-", name)


def _prefixes(parts: Sequence[Written]) -> list[str]:
    """Those that the tables name, in the order of the INSERTs: the first is the job's."""
    named = [part.table.options.values.get(_PREFIX) for part in parts]
    return list(dict.fromkeys(prefix for prefix in named if prefix is not None))


def _require_one_mode(parts: Sequence[Written]) -> None:
    updating = [part for part in parts if part.query.output_mode == "update"]
    waiting = [part for part in parts if not part.query.updating and (part.query.window or part.query.steps)]
    if updating and waiting:
        raise refused(
            updating[0].insert.at,
            f"INSERT INTO {updating[0].insert.table}, which updates, with INSERT INTO {waiting[0].insert.table}, which "
            "waits for windows,",
            "one job of Spark's has one output mode",
            "write them outside of the set: two jobs",
        )
    twice = [part.insert.table for part in parts]
    for part in parts:
        if twice.count(part.insert.table) > 1:
            raise refused(
                part.insert.at,
                f"two INSERTs into {part.insert.table} in one job",
                "a sink has one output",
                "write UNION ALL",
            )


def _sink(part: Written, settings: ScriptSettings) -> Sink:
    table = part.table
    # The sink's name is part of what is decided: a table keeps it as long as it keeps its own.
    name = _NO_NAME.sub("-", table.name)
    if table.options.connector in ("kafka", "upsert-kafka"):
        columns = {"key"} if key_fields(table) else set()
        columns |= {each.metadata or "" for each in table.metadata if not each.virtual}
        return kafka_tables.sink_of(table, settings.get(SERVERS), columns=columns, name=name)
    return other_tables.sink_of(table, name=name, deletes=part.query.keep, sequenced=part.query.sequenced)


def _rows(spark: SparkSession, part: Written) -> DataFrame:
    """What a sink gets."""
    table = part.table
    try:
        rows = spark.sql(part.sql)
    except AnalysisException as error:
        raise _not_planned(part.insert.query.at, error) from error
    if table.options.connector not in ("kafka", "upsert-kafka"):
        return other_tables.rows_of(table, rows, keep=part.query.keep, sequenced=part.query.sequenced)
    if part.query.keep and table.options.connector == "kafka":
        rows = rows.where(f"{quoted(KEEP)}")
    key, value = kafka_tables.written_of(table)
    if part.query.keep and table.options.connector == "upsert-kafka":
        value = F.when(F.col(f"`{KEEP}`"), value)  # else null, a tombstone
    columns = [value.alias("value")]
    if key is not None:
        columns.append(key.alias("key"))
    for each in table.metadata:
        if each.metadata == "timestamp" and not each.virtual:
            columns.append(F.col(quoted(each.name)).alias("timestamp"))
        if each.metadata == "headers" and not each.virtual:
            columns.append(F.map_entries(F.col(quoted(each.name))).alias("headers"))
    return rows.select(*columns)


def _not_planned(at: Position, error: AnalysisException) -> ConfigurationError:
    return wrong(
        at,
        f"Spark does not plan this query: {str(error).splitlines()[0]}",
        action="write it otherwise; EXPLAIN shows what Spark got",
    )


class Reading:
    """The tables of a job as views of Spark's."""

    def __init__(self, names: Names, settings: ScriptSettings, tables: Mapping[str, DefinedTable]) -> None:
        self._names, self._tables = names, tables
        self.sources: dict[str, KafkaSource] = {
            name: kafka_tables.source_of(table, settings.get(SERVERS), settings.max_ahead)
            for name, table in tables.items()
            if table.options.connector == "kafka"
        }

    def load(self, spark: SparkSession, queries: Sequence[Query]) -> None:
        """Make the views."""
        for key, value in SESSION.items():
            spark.conf.set(key, value)
        for name, path in self._names.own.items():
            found, kind = function_at(path)
            spark.udf.register(name, found, None if hasattr(found, "returnType") else kind.spark())
        for name, table in self._tables.items():
            source = self.sources.get(name)
            rows = source.load(spark) if source is not None else other_tables.load(spark, table)
            seen_columns(rows, table, from_kafka=source is not None).createOrReplaceTempView(quoted(name))
        self.load_steps(spark, queries)

    def load_steps(self, spark: SparkSession, queries: Sequence[Query]) -> None:
        """Make the views of what SQL cannot say."""
        for query in queries:
            for step in query.steps:
                keep_first(spark.sql(step.sql), step).createOrReplaceTempView(quoted(step.view))


def seen_columns(rows: DataFrame, table: DefinedTable, *, from_kafka: bool) -> DataFrame:
    """What a query sees of a table: its columns in their order, the computed ones too, with its watermark."""
    if from_kafka:
        rows = rows.select(*_of_record(table))
    computed = {each.name: each.sql for each in table.computed}
    for name, sql in computed.items():
        rows = rows.selectExpr("*", f"{sql} AS {quoted(name)}")
    behind = [quoted(name) for name in (KEEP, SEQUENCE) if table.seen.changes_by]
    rows = rows.selectExpr(*seen_texts(table), *behind)
    watermark = table.definition.watermark
    if watermark is not None:
        # The watermark is the table's: Spark would let a query's WHERE take rows out before they move it.
        rows = rows.withWatermark(watermark.column, f"{table.delay_ms} milliseconds").where(EVERY_ROW)
    return rows


def seen_texts(table: DefinedTable) -> list[str]:
    """Each column that a query sees. A null for an event time stops the job, as in Flink: Spark would drop the row."""
    watermark, texts = table.definition.watermark, []
    for each in table.seen.columns:
        name = quoted(each.name)
        if watermark is None or each.name != watermark.column:
            texts.append(name)
            continue
        failure = literal(f"a null in {table.name}.{each.name}, the event time; COALESCE it in a computed column")
        texts.append(f"coalesce({name}, raise_error({failure})) AS {name}")
    return texts


def _of_record(table: DefinedTable) -> list[Any]:
    """Columns from the struct of the value, that of the key, and metadata."""
    values, keys = table.options.values, key_fields(table)
    apart = keys if values.get("value.fields-include") == "EXCEPT_KEY" else ()
    prefix, form = values.get("key.fields-prefix", ""), values.get("value.format", values.get("format"))
    columns = []
    for each in table.physical:
        if each.name in apart:
            column = (
                F.col("key") if values["key.format"] == "raw" else F.col("key").getField(each.name.removeprefix(prefix))
            )
        else:
            column = F.col("value") if form == "raw" else F.col("value").getField(each.name)
        columns.append(column.alias(each.name))
    for each in table.metadata:
        column = F.col(str(each.metadata))
        if each.metadata == "headers":
            column = F.map_from_entries(column)
        assert each.kind is not None  # noqa: S101 - metadata has a type
        columns.append(column.cast(each.kind.spark()).alias(each.name))
    if table.seen.changes_by:
        columns += [(~F.col("value").getField(DELETED)).alias(KEEP), F.col(SEQUENCED).alias(SEQUENCE)]
    return columns


def _notes(
    parts: Sequence[Written], tables: Mapping[str, DefinedTable], settings: ScriptSettings, job: SqlJob
) -> tuple[str, ...]:
    """What a start says."""
    notes = list(settings.notes)
    told = job.settings()
    interval, folder = told["checkpointing.interval"], told["checkpointing.location"]
    if interval.source == DEFAULT:
        notes.append(f"'{interval.setting.flink}' is not set: {interval.text}")
    if folder.source == PYTHON:
        notes.append(f"'{folder.setting.flink}' is not set: checkpoints are in {Path(DEFAULT_FOLDER).absolute()}")
    for table in {**tables, **{part.insert.table: part.table for part in parts}}.values():
        notes += table.options.notes
    if others := _prefixes(parts)[1:]:
        rest = ", ".join(map(repr, others))
        notes.append(f"all sinks have the '{_PREFIX}' {job.transactional_id_prefix!r}, of the first INSERT; not {rest}")
    for part in parts:
        values, table = part.table.options.values, part.table
        notes += [f"INSERT INTO {table.name}: {note}" for note in part.query.notes]
        if table.options.connector in ("kafka", "upsert-kafka") and "sink.delivery-guarantee" not in values:
            given = "at-least-once" if told["checkpointing.mode"].value == "AT_LEAST_ONCE" else "exactly-once"
            prefix = "with a prefix and without" if _PREFIX in values else "without"
            notes.append(
                f"table {table.name}: {prefix} 'sink.delivery-guarantee' it is {given}; in Flink at-least-once"
            )
        if part.query.updating and not _key_of(table):
            notes.append(f"table {table.name} gets each changed row as one more row; Flink refuses that")
    return tuple(dict.fromkeys(notes))


def standing(of: Pipeline) -> tuple[str, ...]:
    """Who a job is, and where it goes on: what a start says first."""
    checkpointing = of.job.checkpointing
    location = checkpointing.location
    where = "runs"  # elsewhere it takes the job's own Java, or the store's answer, to know more
    if not is_elsewhere(location):
        newest = Place.at(location, checkpointing.retain).checkpoint.newest_commit()
        where = "begins, where its tables say" if newest is None else f"goes on behind epoch {newest}"
    told = [f"{where}: checkpoint {location}"]
    told += [f"INSERT INTO {part.insert.table} of {part.insert.at}" for part in of.inserts]
    return tuple(told)


def function_at(path: str) -> tuple[Any, Kind]:
    """A function of the user's, and what it gives.

    Args:
        path: ``module.name``.

    Raises:
        ConfigurationError: There is none, or it does not say what it gives.
    """
    module, _, name = path.rpartition(".")
    if "" not in sys.path and not works_among_others():
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"there is no function {path}: {error}",
            cause="CREATE FUNCTION … AS 'module.name' names it"
            + (
                "; others may write to the working folder, so it is not looked for there"
                if works_among_others()
                else ""
            ),
            action="write the module's name, a dot and the function's; modules are looked for as Python does",
        ) from None
    if hasattr(found, "returnType"):  # PySpark's udf
        return found, _of_spark(found.returnType, path)
    if not callable(found) or not inspect.isfunction(found):
        raise ConfigurationError(f"{path} is no function", action="name a plain function, or one of PySpark's udf")
    given = get_type_hints(found).get("return")
    kind = _PLAIN.get(given) or next((_PLAIN[t] for t in getattr(given, "__args__", ()) if t in _PLAIN), None)
    if kind is None:
        raise ConfigurationError(
            f"{path} does not say what it gives",
            cause=f"its return annotation is {given!r}",
            action="write -> str, int, float, bool, bytes, date, datetime or Decimal; or take PySpark's udf",
        )
    return found, kind


def _of_spark(kind: DataType, path: str) -> Kind:
    plain: Mapping[str, Callable[[Any], Kind]] = {
        "string": lambda _: STRING,
        "integer": lambda _: Kind("INT"),
        "long": lambda _: Kind("BIGINT"),
        "double": lambda _: DOUBLE,
        "float": lambda _: Kind("FLOAT"),
        "boolean": lambda _: BOOLEAN,
        "binary": lambda _: BYTES,
        "date": lambda _: DATE,
        "timestamp": lambda _: TIMESTAMP,
        "decimal": lambda of: Kind("DECIMAL", of.precision, of.scale),
    }
    if kind.typeName() not in plain:
        raise ConfigurationError(f"{path} gives {kind.simpleString()}", action="give one of the plain types")
    return plain[kind.typeName()](kind)


__all__ = ["Pipeline", "SqlJob", "pipeline"]
