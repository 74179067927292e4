"""Tables of jdbc, iceberg, print and datagen: the sources and sinks that their options mean.

Must not know: queries, jobs, Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

from onceflow.connectors.contract import Sink
from onceflow.connectors.database.sink import DatabaseSink
from onceflow.connectors.lake.sinks import IcebergSink
from onceflow.flinksql.catalogue import DefinedTable
from onceflow.flinksql.kinds import Kind, quoted
from onceflow.flinksql.printing import PrintSink
from onceflow.flinksql.problems import refused, whole_number, wrong
from onceflow.flinksql.relations import KEEP, SEQUENCE
from onceflow.options.durations import duration_ms

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

GONE = "$gone"
_DATABASES = {"postgresql": "postgresql", "mysql": "mysql", "mariadb": "mariadb", "sqlite": "sqlite"}
_DRIVERS = {
    "postgresql": "org.postgresql.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "sqlite": "org.sqlite.JDBC",
}
"""By name: Java looks for drivers among its own jars only, and not among Spark's."""
_RATE = 10_000


def sink_of(table: DefinedTable, *, name: str, deletes: bool, sequenced: bool) -> Sink:
    """What writes a table.

    Args:
        table: The table.
        name: The sink's name in the job.
        deletes: Rows may say that theirs is gone.
        sequenced: Rows say which of several is the newest.
    """
    values = table.options.values
    match table.options.connector:
        case "print":
            return PrintSink(name, values.get("print-identifier", ""))
        case "jdbc":
            key = list(table.definition.primary_key) or None
            gone = GONE if deletes and key is not None else None
            return DatabaseSink(
                _url(table),
                values["table-name"],
                key=key,
                delete_when=gone,
                sequence_by=SEQUENCE if sequenced else None,
                name=name,
                schema=values.get("onceflow.schema"),
            )
        case _:
            properties = {key: value for key, value in values.items() if key.startswith("s3.")}
            told = {
                "catalog-type": "type",
                "uri": "uri",
                "warehouse": "warehouse",
                "credential": "credential",
                "token": "token",
            }
            properties |= {to: values[key] for key, to in told.items() if key in values}
            where = f"{values.get('catalog-database', 'default')}.{values.get('catalog-table', table.name)}"
            return IcebergSink(values["catalog-name"], where, properties=properties, name=name)


def rows_of(table: DefinedTable, rows: DataFrame, *, keep: bool, sequenced: bool) -> DataFrame:
    """What the sink gets of rows that have the table's columns."""
    columns = [F.col(quoted(each.name)) for each in table.written]
    if table.options.connector in ("jdbc", "iceberg"):
        # A TIMESTAMP has no zone there, either.
        columns = [
            column.cast("timestamp_ntz").alias(each.name)
            if each.kind is not None and each.kind.name == "TIMESTAMP"
            else column
            for column, each in zip(columns, table.written, strict=True)
        ]
    if keep and table.options.connector == "jdbc" and table.definition.primary_key:
        order = [F.col(quoted(SEQUENCE))] if sequenced else []
        return rows.select(*columns, (~F.col(f"`{KEEP}`")).alias(GONE), *order)
    if keep:
        rows = rows.where(quoted(KEEP))
    return rows.select(*columns)


def _url(table: DefinedTable) -> str:
    """SQLAlchemy's URL of JDBC's. What is told of an error is never the URL itself: it may have a password."""
    values = table.options.values
    text, at = values["url"], table.options.positions["url"]
    backend, between, rest = text.removeprefix("jdbc:").partition(":")
    if not text.startswith("jdbc:") or not between or backend not in _DATABASES:
        raise wrong(
            at, "'url' is no JDBC URL of a database that is known here", action="write jdbc:postgresql://host/database"
        )
    if backend == "sqlite":
        return f"sqlite:///{rest}"
    parts = urlsplit(f"{backend}:{rest}")
    if parts.query:
        raise refused(
            at, "a 'url' with parameters", "they are JDBC's", "remove them; user and password have options of their own"
        )
    user, password = values.get("username"), values.get("password")
    login = (
        ""
        if user is None
        else quote(user, safe="") + ("" if password is None else f":{quote(password, safe='')}") + "@"
    )
    return f"{_DATABASES[backend]}://{login}{parts.netloc}{parts.path}"


def load(spark: SparkSession, table: DefinedTable) -> DataFrame:
    """What a job reads of a table."""
    return _jdbc(spark, table) if table.options.connector == "jdbc" else _generated(spark, table)


def _jdbc(spark: SparkSession, table: DefinedTable) -> DataFrame:
    values = table.options.values
    options = {"url": values["url"], "dbtable": values["table-name"]}
    told = {"username": "user", "password": "password", "scan.fetch-size": "fetchsize"}
    options |= {to: values[key] for key, to in told.items() if key in values}
    _url(table)  # of a database that is known
    driver = _DRIVERS[values["url"].split(":")[1]]
    try:
        rows = spark.read.format("jdbc").options(**options, driver=driver).load()
    except Exception as error:
        if "ClassNotFoundException" not in str(error):
            raise
        raise wrong(
            table.options.positions["url"],
            f"there is no driver {driver} to read {table.name}",
            action="name its jar in ONCEFLOW_JARS",
        ) from None
    kinds = {each.name: each.kind for each in table.physical}
    return rows.select(
        *(F.col(quoted(name)).cast(kind.spark()).alias(name) for name, kind in kinds.items() if kind is not None)
    )


# -- datagen: values follow from the row's number, so that an epoch that is run again has the same ---------------------


def _generated(spark: SparkSession, table: DefinedTable) -> DataFrame:
    rate = _number(table, "rows-per-second", _RATE)
    rows = spark.readStream.format("rate").option("rowsPerSecond", str(rate)).load()
    given = table.options.values
    sequences = [each.name for each in table.physical if given.get(f"fields.{each.name}.kind") == "sequence"]
    limits = [
        _number(table, f"fields.{name}.end", 0) - _number(table, f"fields.{name}.start", 0) + 1 for name in sequences
    ]
    if "number-of-rows" in given:
        limits.append(_number(table, "number-of-rows", 0))
    if limits:
        rows = rows.where(F.col("value") < min(limits))
    columns = [_value(table, each.name, each.kind, i) for i, each in enumerate(table.physical) if each.kind is not None]
    return rows.select(*columns)


def _number(table: DefinedTable, key: str, default: int) -> int:
    given = table.options.values.get(key)
    return default if given is None else whole_number(table.options.positions[key], key, given)


def _value(table: DefinedTable, name: str, kind: Kind, number: int) -> Column:
    values = table.options.values
    if values.get(f"fields.{name}.kind") == "sequence":
        return (F.col("value") + _number(table, f"fields.{name}.start", 0)).cast(kind.spark()).alias(name)
    noise = F.xxhash64(F.col("value"), F.lit(number))
    match kind.name:
        case "STRING":
            length = _number(table, f"fields.{name}.length", 100)
            found: Any = F.substring(F.repeat(F.sha2(noise.cast("string"), 256), length // 64 + 1), 1, length)
        case "BOOLEAN":
            found = F.pmod(noise, F.lit(2)) == 0
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            past = values.get(f"fields.{name}.max-past", "0 ms")
            span = duration_ms(f"{past} ms" if past.isdecimal() else past)
            found = F.timestamp_millis(F.unix_millis("timestamp") - F.pmod(noise, F.lit(span + 1)))
        case _ if kind.is_number:
            least, most = _bounds(table, name, kind)
            found = (F.lit(least) + F.pmod(noise, F.lit(most - least + 1))).cast(kind.spark())
        case _:
            raise refused(
                table.definition.at, f"a datagen column of {kind}", "it is not taken yet", "compute it from another"
            )
    column: Column = found.alias(name)
    return column


def _bounds(table: DefinedTable, name: str, kind: Kind) -> tuple[int, int]:
    widths = {"TINYINT": 7, "SMALLINT": 15, "INT": 31}
    most = 2 ** widths[kind.name] - 1 if kind.name in widths else 10**6
    if kind.name == "DECIMAL":
        most = 10 ** min((kind.precision or 10) - (kind.scale or 0), 15) - 1
    return _number(table, f"fields.{name}.min", 0), _number(table, f"fields.{name}.max", most)
