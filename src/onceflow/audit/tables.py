"""Tables of databases against receipts: the ledger epoch by epoch, and the rows of a table as a whole.

Must not know: how receipts are kept. A row does not say of which epoch it is; so the rows of a table that is only added
to are counted and summed, and compared with the sum of all that the ledger has of this sink.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import os
import stat
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from onceflow.audit import hashes, keyed
from onceflow.audit.chain import Chain, chosen
from onceflow.audit.findings import Findings
from onceflow.audit.hashes import U64, Texts

if TYPE_CHECKING:
    from sqlalchemy import Connection

_LEDGER_EPOCHS = 100_000
_TOGETHER = 10_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EXACT = Context(prec=80)
"""Spark's decimals have up to 38 digits, Python's arithmetic rounds to 28."""
Fields = Sequence[Sequence[str]]


def check(
    sink: Mapping[str, Any],
    receipts: Sequence[Mapping[str, Any]],
    known: Callable[[], Chain],
    findings: Findings,
    key: bytes | None = None,
    former: Collection[str] = (),
    *,
    whole: bool,
) -> set[str]:
    """Compare a database sink's ledger and table with the receipts.

    Args:
        sink: ``name``, ``url`` (SQLAlchemy's, with the login), ``schema``, ``table``, ``table_schema``, ``key``.
        receipts: The epochs that are checked.
        known: Reads all that is decided by now: what the ledger has by then is decided before.
        findings: Where what is wrong goes.
        key: The audit's, of which the key of each job's rows is made; None looks at no keyed digest.
        former: Sinks that the job does not have now: where this ledger knows one, it may be this sink's older name.
        whole: All epochs are asked for, so the table is looked at, too.

    Returns:
        Those older names.
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
        return set()
    if url.get_backend_name() == "sqlite" and (strange := _strange_journal(Path(str(url.database)).resolve())):
        told = f"{strange} is of another user than the database, and whoever opens that next takes it for its content"
        findings.add("changed", f"sink {name}: {rows} rows were not looked at: {told}", rows, name)
        return set()
    engine = create_engine(url, isolation_level=_isolation(url.get_backend_name()))
    try:
        with engine.connect() as connection:
            if url.get_backend_name() == "sqlite":
                # Somebody may have put bytes there that are no text: they are read, and have another form.
                held: Any = connection.connection.dbapi_connection
                held.text_factory = lambda data: data.decode(errors="surrogateescape")
                connection.exec_driver_sql("BEGIN")  # ledger and table of one moment
            older = _older_names(connection, sink, receipts, former)
            decided += [(b, p) for b in receipts for p in b["participants"] if p["sink"] in older]
            _check(connection, sink, older, decided, known, findings, key, whole=whole)
            connection.rollback()
            return set(older)
    except SQLAlchemyError as error:
        said = str(error.__cause__ or error).splitlines()[0]
        findings.add("unknown", f"sink {name}: {rows} rows were not looked at: {said}", rows, name)
    finally:
        engine.dispose()
    return set()


def _strange_journal(database: Path) -> Path | None:
    """What somebody has laid beside a database of SQLite: by a look at that it would be written into it."""
    about = database.stat()
    users, shared = {0, os.geteuid(), about.st_uid}, bool(about.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    for ending in ("-journal", "-wal", "-shm"):
        beside = database.with_name(database.name + ending)
        with contextlib.suppress(OSError):  # it is not there; what else is wrong with the folder SQLite tells
            laid = beside.lstat()
            if not stat.S_ISREG(laid.st_mode) or not (shared or laid.st_uid in users):
                return beside
    return None


def _older_names(
    connection: Connection, sink: Mapping[str, Any], receipts: Sequence[Mapping[str, Any]], former: Collection[str]
) -> list[str]:
    """Names that the sink had: those under which this ledger has rows for the same table."""
    to = {
        name: rule.get("destination") for body in receipts for name, rule in body["sinks"].items() if rule.get("fields")
    }
    mine = sink.get("destination", to.get(sink["name"]))
    same = [name for name in sorted(former) if to.get(name) and to.get(name) == mine]
    jobs = {body["job"] for body in receipts}
    return [name for name in same if any(_ledger(connection, {**sink, "name": name}, job) for job in sorted(jobs))]


def _isolation(database: str) -> Any:
    return "AUTOCOMMIT" if database == "sqlite" else "REPEATABLE READ"


def _check(
    connection: Connection,
    sink: Mapping[str, Any],
    older: Sequence[str],
    decided: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    now_known: Callable[[], Chain],
    findings: Findings,
    key: bytes | None,
    *,
    whole: bool,
) -> None:
    from sqlalchemy import inspect  # noqa: PLC0415
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415

    jobs = sorted({body["job"] for body in now_known().receipts})
    ledger: list[Mapping[str, Any]] = []
    for name in (sink["name"], *older):
        found = [row for job in jobs for row in _ledger(connection, {**sink, "name": name}, job)]
        ledger += [row for row in found if _is_entry(row)]
        if not all(map(_is_entry, found)):
            findings.add("changed", f"sink {name}: its ledger has an entry that no job makes", 0, name)
    held = {(row["job"], row["epoch"], row["sink"]): row for row in ledger}
    before = findings.rows
    for body, p in decided:
        _entry(p["sink"], body, p, held.get((body["job"], body["epoch"], p["sink"])), len(ledger), findings)
    seen = findings.rows - before
    chain = now_known()
    bodies = {**chain.decided, **{(body["job"], body["epoch"]): body for body in chain.receipts}}
    for name in (sink["name"], *older):
        _strange_entries(name, [row for row in ledger if row["sink"] == name], bodies, findings)
    if whole and not sink["key"]:
        shapes = [fields for body, p in decided if (fields := body["sinks"][p["sink"]].get("fields"))]
        exact = {(*who, p["sink"]): _hash_of(p) for who, of in bodies.items() for p in of["participants"]}
        try:
            with_key = None if key is None else _keyed_total((sink["name"], *older), chain, held, key)
            compared = _table(connection, sink, shapes, ledger, exact, with_key, findings)
            if compared == "keyed":
                findings.keyed += seen
            elif compared == "by hash" and key is not None and seen:
                told = f"sink {sink['name']}: its rows are not compared by the key: the newest receipt's total is of "
                told += "other rows than the ledger's: the key is younger than some, or an epoch has no receipt yet"
                findings.add("unknown", told, seen, sink["name"])
        except _OtherFormError:
            told = f"sink {sink['name']}, table {sink['table']}: a value has a form that its column's type never gives"
            findings.add("changed", told, 1, sink["name"])
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
    found = [dict(row) for row in connection.execute(asked).mappings()]
    # MariaDB takes 'PAYMENTS' for 'payments', and its key of the ledger does too or, made again, does not.
    return [row for row in found if (row["job"], row["sink"]) == (job, sink["name"])]


def _is_entry(row: Mapping[str, Any]) -> bool:
    """Whether a row of the ledger is of the form that a job writes: SQLite keeps anything in any column."""
    whole = isinstance(row["epoch"], int) and isinstance(row["rows"], int)
    return whole and isinstance(row["hash"], int | float | Decimal) and math.isfinite(row["hash"])


def _strange_entries(
    name: str,
    ledger: Sequence[Mapping[str, Any]],
    bodies: Mapping[tuple[str, int], Mapping[str, Any]],
    findings: Findings,
) -> None:
    """Entries that no job makes, and those of which nobody knows.

    Args:
        name: The sink's.
        ledger: What it has of the sink.
        bodies: The receipts, and what is decided and has none, by job and epoch.
        findings: Where what is wrong goes.
    """
    if len({(row["job"], row["epoch"]) for row in ledger}) < len(ledger):
        findings.add("changed", f"sink {name}: its ledger has an epoch twice", 0, name)
    if any(int(row["rows"]) < 0 for row in ledger):
        findings.add("changed", f"sink {name}: its ledger has an entry of less than no rows", 0, name)
    # A replay may have left this sink without rows that it had got.
    known = {which for which, of in bodies.items() if of.get("replays") or _has(of, name)}
    oldest = min((body["epoch"] for body in bodies.values() if "hash" in body), default=0)
    for row in ledger:
        epoch = row["epoch"]
        if (row["job"], epoch) not in known and (epoch >= oldest or epoch < 0):
            told = f"sink {name}: the ledger has epoch {epoch} with {row['rows']} rows, and no receipt has it"
            findings.add("foreign", told, int(row["rows"]), name, epoch)


def _has(body: Mapping[str, Any], name: str) -> bool:
    return any(p["sink"] == name for p in body["participants"])


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
    return sum(int(each[2]) for each in attempts if len(each) == 3 and isinstance(each[2], int)) & hashes.MASK


def _is(held: Any, hashed: int) -> bool:
    """Whether a ledger's hash is this one. SQLite keeps it as a float does, whatever it gives back."""
    return int(held) == hashed if isinstance(held, Decimal) else float(held) == float(hashed)


def _table(
    connection: Connection,
    sink: Mapping[str, Any],
    shapes: Sequence[Fields],
    ledger: Sequence[Mapping[str, Any]],
    exact: Mapping[tuple[str, int, str], int],
    with_key: _Keyed | None,
    findings: Findings,
) -> Literal["keyed", "by hash", "not"]:
    """The table as a whole: as many rows as the ledger has, with the sum of their hashes.

    Returns:
        By what its rows are found to be those that were decided: the keyed digest, too; their hashes alone; or not at
        all, which is told but where no receipt names a column.
    """
    name = sink["name"]
    rows = sum(int(row["rows"]) for row in ledger)
    digest = sum(exact.get((row["job"], row["epoch"], row["sink"]), int(row["hash"])) for row in ledger) & hashes.MASK
    if not shapes:
        return "not"
    on_its_word = [row for row in ledger if (row["job"], row["epoch"], row["sink"]) not in exact]
    if any(not isinstance(row["hash"], Decimal) for row in on_its_word):
        told = f"sink {name}: of epochs without a receipt its ledger has no exact hash, so rows are not compared"
        findings.add("unknown", told, rows, name)
        return "not"
    if any(shape != shapes[0] for shape in shapes):
        findings.add(
            "unknown", f"sink {name}: its columns changed between epochs, so rows are not compared", rows, name
        )
        return "not"
    other = unread(shapes[0])
    if why := _shown_by_login(connection, sink):
        told = (
            f"sink {name}: the {rows} rows of {sink['table']} were not looked at: {why}, so others may see other ones"
        )
        findings.add("unknown", told, rows, name)
        return "not"
    found, made, count = _sum(connection, sink, [] if other else shapes[0], with_key)
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
    elif with_key is not None and with_key.rows == rows:
        if made == with_key.digest:
            return "keyed"
        told = f"{where}: all {rows} rows are there, and at least one was changed and made to fit the digest of before"
        findings.add("changed", told, 1, name)
    elif on_its_word:
        # Who edits a row of any epoch makes one of these entries fit: nothing else has what stood there.
        told = f"{where}: all {rows} rows are there, with the sum of hashes that the ledger has; of {len(on_its_word)} "
        told += "epochs without a receipt that is its own word, so no row is proven by it"
        findings.add("unknown", told, rows, name)
    else:
        return "by hash"
    return "not"


@dataclass(frozen=True, slots=True)
class _Keyed:
    """All that a sink got since it has keyed digests: the key of the job's rows, how many, and their digest."""

    key: bytes = field(repr=False)
    rows: int
    digest: int


def _keyed_total(
    names: Sequence[str], chain: Chain, held: Collection[tuple[str, int, str]], key: bytes
) -> _Keyed | None:
    """By the newest receipt of an epoch that the ledger has, of each of the sink's names; None where one is missing."""
    jobs = {job for job, *_ in held}
    if len(jobs) != 1:
        return None
    of_rows, rows, digest = keyed.key_of_rows(key, min(jobs)), 0, 0
    for name in names:
        there = [body for body in chain.receipts if (body["job"], body["epoch"], name) in held]
        if not there:
            continue
        told = there[-1]["sinks"].get(name, {}).get("total")
        if not isinstance(told, list) or len(told) != 3 or not isinstance(told[0], int):
            return None
        made = keyed.kept(of_rows, told[1]) if told[2] == keyed.id_of(of_rows) else None
        if made is None:
            return None
        rows, digest = rows + told[0], (digest + made) & keyed.MASK
    return _Keyed(of_rows, rows, digest)


def _shown_by_login(connection: Connection, sink: Mapping[str, Any]) -> str:
    """Why a database may show a table otherwise to others than to this login; "" where it does not."""
    from sqlalchemy import inspect, text  # noqa: PLC0415

    name, schema, system = sink["table"], sink["table_schema"], connection.dialect.name
    if system == "postgresql":
        asked = text("select relkind::text, relrowsecurity from pg_catalog.pg_class where oid = to_regclass(:name)")
        quote = connection.dialect.identifier_preparer.quote_identifier
        found = connection.execute(asked, {"name": ".".join(quote(part) for part in (schema, name) if part)}).first()
        if found is not None and found[1]:
            return "it has row level security"
        return "it is a view" if found is not None and found[0] in "vmf" else ""
    if system != "sqlite" and name in inspect(connection).get_view_names(schema):
        return "it is a view"
    return ""


def _sum(
    connection: Connection, sink: Mapping[str, Any], fields: Fields, with_key: _Keyed | None
) -> tuple[int, int, int]:
    """The sum of the hashes of all rows, that of their keyed digests (0 without a key), and how many there are."""
    from sqlalchemy import column, func, select, table  # noqa: PLC0415

    of = table(sink["table"], *(column(name) for name, _ in fields), schema=sink["table_schema"])
    if not fields:
        return 0, 0, int(connection.execute(select(func.count()).select_from(of)).scalar_one())
    total = made = count = 0
    streamed = connection.execution_options(yield_per=_TOGETHER).execute(select(*of.c))
    for rows in streamed.partitions():
        count += len(rows)
        columns = list(zip(*rows, strict=True))
        try:
            total += int(hash_rows(fields, columns).sum(dtype=np.uint64))
            if with_key is not None:
                made += sum(keyed.digests(with_key.key, "", netstrings(fields, columns)))
        except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
            raise _OtherFormError from error
    return total & hashes.MASK, made & keyed.MASK, count


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


def netstrings(fields: Fields, columns: Sequence[Sequence[Any]]) -> list[list[bytes]]:
    """The values of each column as a keyed digest's message has them; arguments as of ``hash_rows``."""
    return [_netstrings(kind, values) for (_, kind), values in zip(fields, columns, strict=True)]


def _netstrings(kind: str, values: Sequence[Any]) -> list[bytes]:
    if kind.startswith(("string", "varchar", "char", "binary")):
        return keyed.texts([_octets(value) for value in values])
    if kind.startswith("decimal") and _precision(kind)[0] > 18:
        told = [None if v is None else f"{_unscaled(v, _precision(kind)[1])}E-{_precision(kind)[1]}" for v in values]
        return keyed.texts([None if each is None else str(Decimal(each)).encode() for each in told])
    read = _reader(kind)
    if read is None:
        raise ValueError(f"no message is made of {kind}")
    return keyed.numbers(read(hashes.seeds(len(values)), values), [value is None for value in values])


def _precision(kind: str) -> tuple[int, int]:
    precision, _, scale = kind.partition("(")[2].rstrip(")").partition(",")
    return int(precision), int(scale or 0)


def _reader(kind: str) -> Callable[[U64, Sequence[Any]], U64] | None:
    """What goes on with a column of this type, None where a database may keep another form of it."""
    if kind.startswith(("string", "varchar", "char")):
        return lambda found, values: hashes.add_texts(found, Texts.of([_octets(v) for v in values]))
    if kind.startswith("decimal"):
        return lambda found, values: _decimals(found, values, *_precision(kind))
    return _READERS.get(kind)


def _octets(value: Any) -> bytes | None:
    if value is not None and not isinstance(value, str | bytes | bytearray | memoryview):
        raise _OtherFormError
    return None if value is None else value.encode() if isinstance(value, str) else bytes(value)


def _numbers(add: Callable[..., U64], read: Callable[[Any], int]) -> Callable[[U64, Sequence[Any]], U64]:
    def go_on(found: U64, values: Sequence[Any]) -> U64:
        nulls = np.array([v is None for v in values])
        return add(found, np.array([0 if v is None else read(v) for v in values], np.int64), nulls)

    return go_on


def _whole(value: Any) -> int:
    """A number that is one of an integer's type: a fraction, or a text that says one, is somebody else's."""
    if isinstance(value, str | bytes) or int(value) != value:
        raise _OtherFormError
    return int(value)


class _OtherFormError(ValueError):
    """A value is none that this column's type has."""


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
    unscaled = [None if v is None else _unscaled(v, scale) for v in values]
    if precision <= 18:
        nulls = np.array([v is None for v in unscaled])
        return hashes.add_longs(found, np.array([v or 0 for v in unscaled], np.int64), nulls)
    return hashes.add_texts(found, Texts.of([None if v is None else _big(v) for v in unscaled]))


def _unscaled(value: Any, scale: int) -> int:
    scaled = Decimal(str(value)).scaleb(scale, _EXACT)
    if not isinstance(value, float) and scaled != scaled.to_integral_value():
        raise _OtherFormError
    return int(scaled.to_integral_value())


def _big(value: int) -> bytes:
    """As few bytes of two's complement as will do, the highest first."""
    return value.to_bytes((value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)


_READERS: Mapping[str, Callable[[U64, Sequence[Any]], U64]] = {
    "binary": lambda found, values: hashes.add_texts(found, Texts.of([_octets(v) for v in values])),
    "boolean": _numbers(hashes.add_ints, _whole),
    "tinyint": _numbers(hashes.add_ints, _whole),
    "smallint": _numbers(hashes.add_ints, _whole),
    "int": _numbers(hashes.add_ints, _whole),
    "bigint": _numbers(hashes.add_longs, _whole),
    "float": _numbers(hashes.add_ints, _float),
    "double": _numbers(hashes.add_longs, _double),
    "date": _numbers(hashes.add_ints, _days),
    "timestamp": _numbers(hashes.add_longs, _micros),
    "timestamp_ntz": _numbers(hashes.add_longs, _micros),
}
