"""Tables of databases against receipts: the ledger epoch by epoch, and the rows of a table as a whole.

Must not know: how receipts are kept. A row does not say of which epoch it is; so the rows of a table that is only added
to are counted and summed, and compared with the sum of all that the ledger has of this sink.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onceflow.audit import hashes
from onceflow.audit.chain import Chain, chosen
from onceflow.audit.findings import Findings
from onceflow.audit.hashes import U64, Texts

if TYPE_CHECKING:
    from sqlalchemy import Connection

_LEDGER_EPOCHS = 100_000
_TOGETHER = 10_000
_MASK = (1 << 64) - 1
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
Fields = Sequence[Sequence[str]]


def check(
    sink: Mapping[str, Any],
    receipts: Sequence[Mapping[str, Any]],
    known: Callable[[], Chain],
    findings: Findings,
    *,
    whole: bool,
) -> None:
    """Compare a database sink's ledger and table with the receipts.

    Args:
        sink: ``name``, ``url`` (SQLAlchemy's, with the login), ``schema``, ``table``, ``table_schema``, ``key``.
        receipts: The epochs that are checked.
        known: Reads all that is decided by now: what the ledger has by then is decided before.
        findings: Where what is wrong goes.
        whole: All epochs are asked for, so the table is looked at, too.
    """
    from sqlalchemy import create_engine, make_url  # noqa: PLC0415 - only where a sink is a database
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415

    name, url = sink["name"], make_url(sink["url"])
    decided = [(b, p) for b in receipts for p in b["participants"] if p["sink"] == name]
    rows = sum(p["rows"] for _, p in decided)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        findings.add(
            "unknown", f"sink {name}: {rows} rows were not looked at: there is no file {url.database}", rows, name
        )
        return
    engine = create_engine(url, isolation_level=_isolation(url.get_backend_name()))
    try:
        with engine.connect() as connection:
            if url.get_backend_name() == "sqlite":
                connection.exec_driver_sql("BEGIN")  # ledger and table of one moment
            _check(connection, sink, decided, known, findings, whole=whole)
            connection.rollback()
    except SQLAlchemyError as error:
        said = str(error.__cause__ or error).splitlines()[0]
        findings.add("unknown", f"sink {name}: {rows} rows were not looked at: {said}", rows, name)
    finally:
        engine.dispose()


def _isolation(database: str) -> Any:
    return "AUTOCOMMIT" if database == "sqlite" else "REPEATABLE READ"


def _check(
    connection: Connection,
    sink: Mapping[str, Any],
    decided: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    now_known: Callable[[], Chain],
    findings: Findings,
    *,
    whole: bool,
) -> None:
    from sqlalchemy import inspect  # noqa: PLC0415
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415

    jobs = {body["job"] for body in now_known().receipts}
    ledger = [row for job in sorted(jobs) for row in _ledger(connection, sink, job)]
    held = {(row["job"], row["epoch"]): row for row in ledger}
    for body, p in decided:
        _entry(sink["name"], body, p, held.get((body["job"], body["epoch"])), len(ledger), findings)
    chain = now_known()
    known = {(body["job"], body["epoch"]) for body in chain.receipts} | chain.decided.keys()
    oldest = min((body["epoch"] for body in chain.receipts), default=0)
    for (job, epoch), row in held.items():
        if (job, epoch) not in known and epoch >= oldest:
            told = f"sink {sink['name']}: the ledger has epoch {epoch} with {row['rows']} rows, and no receipt has it"
            findings.add("foreign", told, int(row["rows"]), sink["name"], epoch)
    if whole and not sink["key"]:
        shapes = [fields for body, _ in decided if (fields := body["sinks"][sink["name"]].get("fields"))]
        held_by = {**chain.decided, **{(body["job"], body["epoch"]): body for body in chain.receipts}}
        exact = {
            who: _hash_of(p) for who, of in held_by.items() for p in of["participants"] if p["sink"] == sink["name"]
        }
        try:
            _table(connection, sink, shapes, ledger, exact, findings)
        except SQLAlchemyError:
            connection.rollback()
            if inspect(connection).has_table(sink["table"], schema=sink["table_schema"]):
                raise
            rows = sum(int(row["rows"]) for row in ledger)
            told = f"sink {sink['name']}: there is no table {sink['table']}, of which its ledger counts {rows} rows"
            findings.add("missing", told, rows, sink["name"])
    elif whole and decided:
        told = f"sink {sink['name']}: an upserted table shows the newest row of each key: its ledger alone is compared"
        findings.add("note", told, sum(p["rows"] for _, p in decided), sink["name"])


def _ledger(connection: Connection, sink: Mapping[str, Any], job: str) -> list[Mapping[str, Any]]:
    from sqlalchemy import column, select, table  # noqa: PLC0415

    names = ("job", "sink", "epoch", "handle", "rows", "hash")
    ledger = table("onceflow_ledger", *map(column, names), schema=sink["schema"])
    asked = select(ledger).where(ledger.c.job == job, ledger.c.sink == sink["name"]).order_by(ledger.c.epoch)
    return [dict(row) for row in connection.execute(asked).mappings()]


def _entry(
    name: str,
    body: Mapping[str, Any],
    p: Mapping[str, Any],
    row: Mapping[str, Any] | None,
    entries: int,
    findings: Findings,
) -> None:
    epoch, told = body["epoch"], f"sink {name}, epoch {body['epoch']}"
    if row is None and (said := chosen(body, p)):
        findings.add("note", f"{told}: the ledger does not have it ({said})", p["rows"], name, epoch)
        return
    if row is None:
        if entries >= _LEDGER_EPOCHS:
            findings.add("unknown", f"{told}: the ledger has forgotten it", p["rows"], name, epoch)
        else:
            findings.add("missing", f"{told}: the ledger does not have it, {p['rows']} rows", p["rows"], name, epoch)
        return
    if (str(row["handle"]), int(row["rows"])) != (p["handle"], p["rows"]) or not _is(row["hash"], _hash_of(p)):
        findings.add("changed", f"{told}: the ledger's entry is not what was decided", p["rows"], name, epoch)
        return
    findings.rows += p["rows"]


def _hash_of(p: Mapping[str, Any]) -> int:
    attempts = p["transaction"].get("attempts", ())  # the sink may have been of another kind then
    return sum(int(each[2]) for each in attempts if len(each) == 3 and isinstance(each[2], int)) & _MASK


def _is(held: Any, hashed: int) -> bool:
    """Whether a ledger's hash is this one. SQLite keeps it as a float does, whatever it gives back."""
    return int(held) == hashed if isinstance(held, Decimal) else float(held) == float(hashed)


def _table(
    connection: Connection,
    sink: Mapping[str, Any],
    shapes: Sequence[Fields],
    ledger: Sequence[Mapping[str, Any]],
    exact: Mapping[tuple[str, int], int],
    findings: Findings,
) -> None:
    """The table as a whole: as many rows as the ledger has, with the sum of their hashes."""
    name = sink["name"]
    rows = sum(int(row["rows"]) for row in ledger)
    digest = sum(exact.get((row["job"], row["epoch"]), int(row["hash"])) for row in ledger) & _MASK
    if not shapes:
        return
    if any(not isinstance(row["hash"], Decimal) and (row["job"], row["epoch"]) not in exact for row in ledger):
        told = f"sink {name}: of epochs without a receipt its ledger has no exact hash, so rows are not compared"
        findings.add("unknown", told, rows, name)
        return
    if any(shape != shapes[0] for shape in shapes):
        findings.add(
            "unknown", f"sink {name}: its columns changed between epochs, so rows are not compared", rows, name
        )
        return
    other = unread(shapes[0])
    found, count = _sum(connection, sink, [] if other else shapes[0])
    findings.read += count
    where = f"sink {name}, table {sink['table']}"
    if count < rows:
        told = f"{where}: {rows - count} of the {rows} rows that its ledger counts are not there"
        findings.add("missing", told, rows - count, name)
    elif count > rows:
        told = f"{where}: {count - rows} rows more than its ledger counts: somebody else wrote them"
        findings.add("foreign", told, count - rows, name)
        told = f"{where}: beside rows of somebody else, whether these {rows} are as they were decided cannot be told"
        findings.add("unknown", told, rows, name)
    elif other:
        told = f"{where}: all {rows} rows are there; they are not compared: it keeps another form of {', '.join(other)}"
        findings.add("unknown", told, rows, name)
    elif found != digest:
        told = f"{where}: all {rows} rows are there, and not all are those that were decided: at least one was changed"
        findings.add("changed", told, 1, name)


def _sum(connection: Connection, sink: Mapping[str, Any], fields: Fields) -> tuple[int, int]:
    """The sum of the hashes of all rows, and how many there are."""
    from sqlalchemy import column, func, select, table  # noqa: PLC0415

    of = table(sink["table"], *(column(name) for name, _ in fields), schema=sink["table_schema"])
    if not fields:
        return 0, int(connection.execute(select(func.count()).select_from(of)).scalar_one())
    total = count = 0
    streamed = connection.execution_options(yield_per=_TOGETHER).execute(select(*of.c))
    for rows in streamed.partitions():
        count += len(rows)
        total += int(hash_rows(fields, list(zip(*rows, strict=True))).sum(dtype=np.uint64))
    return total & _MASK, count


# -- a row's hash ---------------------------------------------------------------------------------


def unread(fields: Fields) -> list[str]:
    """Columns of which no hash can be made: what is kept of them has another form than what was written."""
    return [f"{column} ({kind})" for column, kind in fields if _reader(kind) is None]


def hash_rows(fields: Fields, columns: Sequence[Sequence[Any]], destination: str = "") -> U64:
    """The hash of each row, as the job made it of the values that it wrote.

    Args:
        fields: Names and types, as Spark spells them.
        columns: The values of each, as a database's driver gives them.
        destination: What is hashed before them, "" for nothing.
    """
    found = hashes.seeds(len(columns[0]))
    if destination:
        found[:] = hashes.add_texts(hashes.seeds(1), Texts.of([destination.encode()]))[0]
    for (_, kind), values in zip(fields, columns, strict=True):
        add = _reader(kind)
        if add is None:
            raise ValueError(f"no hash is made of {kind}")
        found = add(found, values)
        found = hashes.add_ints(found, np.array([v is None for v in values]))
    return found


def _reader(kind: str) -> Callable[[U64, Sequence[Any]], U64] | None:
    """What goes on with a column of this type, None where a database may keep another form of it."""
    if kind.startswith(("string", "varchar", "char")):
        return lambda found, values: hashes.add_texts(found, Texts.of([_octets(v) for v in values]))
    if kind.startswith("decimal"):
        precision, _, scale = kind.partition("(")[2].rstrip(")").partition(",")
        return lambda found, values: _decimals(found, values, int(precision), int(scale or 0))
    return _READERS.get(kind)


def _octets(value: Any) -> bytes | None:
    return None if value is None else value.encode() if isinstance(value, str) else bytes(value)


def _numbers(add: Callable[..., U64], read: Callable[[Any], int]) -> Callable[[U64, Sequence[Any]], U64]:
    def go_on(found: U64, values: Sequence[Any]) -> U64:
        nulls = np.array([v is None for v in values])
        return add(found, np.array([0 if v is None else read(v) for v in values], np.int64), nulls)

    return go_on


def _double(value: Any) -> int:
    number = float(value) + 0.0  # there is but one zero
    return int(struct.unpack("<q", struct.pack("<d", math.nan if math.isnan(number) else number))[0])


def _float(value: Any) -> int:
    number = float(value) + 0.0
    return int(struct.unpack("<i", struct.pack("<f", math.nan if math.isnan(number) else number))[0])


def _days(value: Any) -> int:
    day = dt.date.fromisoformat(value) if isinstance(value, str) else value
    return int((day - _EPOCH.date()).days)


def _micros(value: Any) -> int:
    moment = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
    since = (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + int(since.microseconds)


def _decimals(found: U64, values: Sequence[Any], precision: int, scale: int) -> U64:
    unscaled = [None if v is None else int(Decimal(str(v)).scaleb(scale).to_integral_value()) for v in values]
    if precision <= 18:
        nulls = np.array([v is None for v in unscaled])
        return hashes.add_longs(found, np.array([v or 0 for v in unscaled], np.int64), nulls)
    return hashes.add_texts(found, Texts.of([None if v is None else _big(v) for v in unscaled]))


def _big(value: int) -> bytes:
    """As few bytes of two's complement as will do, the highest first."""
    return value.to_bytes((value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)


_READERS: Mapping[str, Callable[[U64, Sequence[Any]], U64]] = {
    "binary": lambda found, values: hashes.add_texts(found, Texts.of([_octets(v) for v in values])),
    "boolean": _numbers(hashes.add_ints, int),
    "tinyint": _numbers(hashes.add_ints, int),
    "smallint": _numbers(hashes.add_ints, int),
    "int": _numbers(hashes.add_ints, int),
    "bigint": _numbers(hashes.add_longs, int),
    "float": _numbers(hashes.add_ints, _float),
    "double": _numbers(hashes.add_longs, _double),
    "date": _numbers(hashes.add_ints, _days),
    "timestamp": _numbers(hashes.add_longs, _micros),
    "timestamp_ntz": _numbers(hashes.add_longs, _micros),
}
