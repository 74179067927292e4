"""What Spark gives for the expressions and queries of rows_data, in the form in which Flink's answers are kept."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession

from onceflow.errors import ConfigurationError
from onceflow.flinksql.kinds import Kind
from onceflow.flinksql.parsing import parse
from onceflow.flinksql.pipelines import SESSION
from onceflow.flinksql.queries import translate
from onceflow.flinksql.relations import KEEP, Query
from onceflow.flinksql.script import Script
from tests.sql.rows import given, is_collection, records

_CHUNK = 60
_WIDE = Context(prec=60)


@dataclass
class Ours:
    """One answer.

    Attributes:
        refused: What was said against it.
        kinds: The types of what it gives.
        rows: Its value in each row, or, of a query, its rows; ``{"fails": …}`` where it stops the job.
    """

    refused: str = ""
    kinds: tuple[Kind, ...] = ()
    rows: list[Any] = field(default_factory=list)


def script() -> Script:
    """One that knows the table."""
    columns = ", ".join(f"`{name}` {of['type']}" for name, of in given().items())
    text = f"CREATE TABLE t ({columns}, WATERMARK FOR et AS et - INTERVAL '1' SECOND) WITH ('connector' = 'kafka', "
    text += "'topic' = 't', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json');"
    text += "CREATE VIEW minutes AS SELECT window_time AS rowtime, COUNT(*) AS n "
    text += "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(et), INTERVAL '1' MINUTE)) "
    text += "GROUP BY window_start, window_end, window_time;"
    made = Script()
    for statement in parse(text):
        made.take(statement)
    return made


class OnSpark:
    """Answers of Spark's.

    Args:
        spark: A session.
        folder: Where the rows may be written.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark.newSession()
        for key, value in SESSION.items():
            self._spark.conf.set(key, value)
        self._names = script().names
        self.types: dict[str, tuple[str, str]] = {}
        """Where a DECIMAL of Spark's is of another type than is said of it."""
        path = folder / "rows.json"
        path.write_text("\n".join(records()) + "\n")
        columns = given()
        kinds = {each.name: each.kind for each in self._names.tables["t"].seen.columns}
        schema = ", ".join(
            f"raw_{name} {kinds[name].spark() if is_collection(of['type']) else 'STRING'}"
            for name, of in columns.items()
        )
        casts = [f"CAST(raw_{name} AS {kind.spark()}) AS `{name}`" for name, kind in kinds.items()]
        self._spark.read.schema(schema).json(str(path)).selectExpr(*casts).createTempView(self._view)
        self.count = len(columns["id"]["values"])

    @property
    def _view(self) -> str:
        return self._names.tables["t"].seen.view

    def expressions(self, texts: Sequence[str], failing: Mapping[str, Collection[int]]) -> dict[str, Ours]:
        """Of each expression its value in each row; in those that are known to fail it is not asked for."""
        found: dict[str, Ours] = {}
        for text in texts:
            try:
                query = self._translated(f"SELECT {text} FROM t")
            except ConfigurationError as error:
                found[text] = Ours(refused=str(error))
                continue
            kinds = tuple(column.kind for column in query.columns)
            found[text] = Ours(kinds=kinds, rows=[None] * self.count)
        taken = [text for text in texts if not found[text].refused]
        for begin in range(0, len(taken), _CHUNK):
            self._fill(found, taken[begin : begin + _CHUNK], list(range(self.count)), failing)
        return found

    def failure(self, text: str, row: int) -> Any:
        """Of an expression what it gives in one row: where it fails ``{"fails": …}``."""
        found = {text: Ours(rows=[None] * self.count)}
        self._fill(found, [text], [row], {})
        return found[text].rows[row]

    def _fill(
        self, found: dict[str, Ours], texts: list[str], ids: list[int], failing: Mapping[str, Collection[int]]
    ) -> None:
        selected = ", ".join(f"{_but(text, failing)} AS `c{i}`" for i, text in enumerate(texts))
        where = f"id IN ({', '.join(map(str, ids))})"
        query = self._translated(f"SELECT id AS row_id, {selected} FROM t WHERE {where}")
        try:
            rows = self._rows(query)
        except Exception as error:
            if len(texts) > 1:
                middle = len(texts) // 2
                self._fill(found, texts[:middle], ids, failing)
                self._fill(found, texts[middle:], ids, failing)
            elif len(ids) > 1:
                middle = len(ids) // 2
                self._fill(found, texts, ids[:middle], failing)
                self._fill(found, texts, ids[middle:], failing)
            else:
                found[texts[0]].rows[ids[0]] = {"fails": str(error).splitlines()[0][:160]}
            return
        for row in rows:
            for i, text in enumerate(texts):
                value = shown(row[i + 1], query.columns[i + 1].kind)
                found[text].rows[row[0]] = {"fails": "known"} if row[0] in failing.get(text, ()) else value

    def query(self, text: str) -> Ours:
        """Of a query its rows."""
        try:
            query = self._translated(text)
        except ConfigurationError as error:
            return Ours(refused=str(error))
        kinds = tuple(column.kind for column in query.columns)
        try:
            values = [[shown(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in self._rows(query)]
        except Exception as error:
            return Ours(kinds=kinds, rows=[{"fails": str(error).splitlines()[0][:160]}])
        return Ours(kinds=kinds, rows=sorted(values, key=repr))

    def _rows(self, query: Query) -> list[Row]:
        """Rows; times as text, since Python's begin a year later."""
        rows = self._spark.sql(query.sql)
        given = dict(rows.dtypes)
        if query.keep:
            rows = rows.where(f"`{KEEP}`")
        names = [f"`{column.name}`" for column in query.columns]
        times = [column.kind.is_time or column.kind.name == "DATE" for column in query.columns]
        self.types |= {
            f"{query.sql}: {column.name}": (given[column.name], column.kind.spark())
            for column in query.columns
            if column.kind.name == "DECIMAL" and given[column.name].upper() != column.kind.spark().replace(", ", ",")
        }
        return rows.selectExpr(
            *(f"CAST({name} AS STRING)" if is_time else name for name, is_time in zip(names, times, strict=True))
        ).collect()

    def _translated(self, text: str) -> Query:
        (statement,) = parse(text)
        return translate(statement.query, self._names)


def _but(text: str, failing: Mapping[str, Collection[int]]) -> str:
    """The expression, not looked at in the rows in which it fails."""
    rows = failing.get(text)
    return f"CASE WHEN id NOT IN ({', '.join(map(str, rows))}) THEN {text} END" if rows else text


def shown(value: Any, kind: Kind) -> Any:
    """A value as text, or collections of texts."""
    match value:
        case str() if kind.is_time:
            return local_time(value.replace(" ", "T"))
        case bool():
            return str(value).lower()
        case bytes() | bytearray():
            return bytes(value).hex()
        case float():
            return number(value, single=kind.name == "FLOAT")
        case int():
            return str(value)
        case Decimal():
            return format(value.quantize(Decimal(1).scaleb(-(kind.scale or 0)), context=_WIDE), "f")
        case Row():
            return [shown(each, of) for each, of in zip(value, kind.inner, strict=True)]
        case dict():
            of, to = kind.inner
            return sorted([[shown(key, of), shown(each, to)] for key, each in value.items()], key=repr)
        case list():
            return [shown(each, kind.inner[0]) for each in value]
    assert value is None or isinstance(value, str), value
    return value


def number(value: float, *, single: bool) -> str:
    """A floating-point number; a single one as the double that it is."""
    if single and math.isfinite(value):
        value = struct.unpack("f", struct.pack("f", value))[0]
    return repr(value)


def local_time(text: str) -> str:
    """A time with as many digits as it needs, as Python and as Java write it."""
    text = text.removesuffix("Z")
    seconds, point, digits = text.partition(".")
    if seconds.count(":") == 1:
        seconds += ":00"
    digits = digits.rstrip("0")
    return seconds + (point + digits if digits else "")


def as_kept(value: Any, kind: str) -> Any:
    """One of Flink's values in the form of ours."""
    if value is None or isinstance(value, dict):
        return value
    if kind.startswith("TIMESTAMP"):
        return local_time(value)
    return number(float(value), single=True) if kind == "FLOAT" else value


def same_type(ours: Kind, flinks: str) -> bool:
    """Whether two types are one: text has no length here, and what a time moves is no part of its type."""
    flinks = re.sub(r" NOT NULL| \*ROWTIME\*", "", flinks)
    flinks = re.sub(r"\b(?:VAR)?CHAR\(\d+\)", "STRING", flinks)
    return str(ours) == re.sub(r"\b(?:VAR)?BINARY\(\d+\)", "BYTES", flinks)
