"""onceflow's own tables in a user's database: attempts, staged rows, the ledger, marks.

Must not know: who writes into them and when.

* ``onceflow_attempts`` has a row for each attempt of a task that has staged rows: whose they are, whether they may be
  merged still, and from the last look before a decision on, by which participant. An end of an attempt and a write of
  it take the same row's lock, so one that was ended cannot go on.
* ``<target>_onceflow_staged`` has the rows, under their attempt's id: the target's columns, and a hash of each row.
  Rows of other columns of the same target have a table of their own, with letters of those before the ending.
* ``onceflow_ledger`` has a row for each epoch that was merged: the proof of a commit. Its key is what keeps an epoch
  from being merged twice.
* ``<target>_onceflow_sequence`` has, of a target whose changes are ordered, the sequence of each key's newest change,
  of deleted keys too. Nothing of it is removed by itself.
* ``onceflow_marks`` and ``onceflow_identity``: marks of jobs, of names and of tables of sequences, and the lasting id
  of these tables.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    Text,
    insert,
    inspect,
    select,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.types import TypeEngine

from onceflow.connectors.database.columns import SEQUENCE_COLUMNS
from onceflow.errors import RecoveryError, advised

VERSION = 1
"""Of the shape of these tables."""

ID = "onceflow_attempt"
HASH = "onceflow_hash"
DELETE = "onceflow_delete"
SEQUENCE = SEQUENCE_COLUMNS
"""The columns of a staging table that its target does not have: ``DELETE`` where rows may mean deletes, ``SEQUENCE``
where they are ordered."""

OPEN, PREPARED, ABORTED = "open", "prepared", "aborted"

INNODB: dict[str, Any] = {"mysql_engine": "InnoDB", "mariadb_engine": "InnoDB"}
_NAME_LIMIT = 63
_SUFFIX, _OF_SEQUENCES = "_onceflow_staged", "_onceflow_sequence"


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables that do not depend on a target."""

    attempts: Table
    ledger: Table
    marks: Table
    identity: Table

    @property
    def all(self) -> tuple[Table, ...]:
        """Every one."""
        return self.attempts, self.ledger, self.marks, self.identity


def tables(schema: str | None) -> Tables:
    """The tables in a schema, None for the connection's own."""
    data = MetaData(schema=schema)
    return Tables(
        attempts=Table(
            "onceflow_attempts",
            data,
            Column("id", String(32), primary_key=True),
            Column("prefix", String(200), nullable=False),
            Column("job", String(64), nullable=False, index=True),
            Column("incarnation", BigInteger, nullable=False),
            Column("epoch", BigInteger, nullable=False),
            Column("sink", String(200), nullable=False),
            Column("shard", Integer, nullable=False),
            Column("attempt", Integer, nullable=False),
            Column("staged", String(200), nullable=False),
            Column("rows", BigInteger, nullable=False),
            Column("state", String(10), nullable=False),
            Column("sealed", String(32), nullable=True, index=True),
            **INNODB,
        ),
        ledger=Table(
            "onceflow_ledger",
            data,
            Column("job", String(64), primary_key=True),
            Column("sink", String(200), primary_key=True),
            Column("epoch", BigInteger, primary_key=True, autoincrement=False),
            Column("incarnation", BigInteger, nullable=False),
            Column("handle", String(32), nullable=False, unique=True),
            Column("rows", BigInteger, nullable=False),
            Column("hash", Numeric(30, 0), nullable=False),
            **INNODB,
        ),
        marks=Table(
            "onceflow_marks",
            data,
            Column("id", String(64), primary_key=True),
            Column("mark", Text, nullable=False),
            **INNODB,
        ),
        identity=Table(
            "onceflow_identity",
            data,
            Column("one", Integer, primary_key=True, autoincrement=False),
            Column("id", String(32), nullable=False),
            Column("version", Integer, nullable=False),
            **INNODB,
        ),
    )


def attempt_row(attempt_id: str, **more: object) -> dict[str, Any]:
    """A row of the attempts.

    Args:
        attempt_id: Its id.
        more: What is known of it, by column.
    """
    row = {"prefix": "", "job": "", "incarnation": 0, "epoch": -1, "sink": "", "shard": 0, "attempt": 0, "staged": ""}
    return {"id": attempt_id, "rows": 0, "state": OPEN} | row | more


def make(engine: Engine, mine: Tables) -> None:
    """Make the tables that are not there, and their identity. Several may do so at once.

    The identity is made last: where it is there, all were. A ledger that was made again would be taken for proof that
    nothing is committed.

    Raises:
        RecoveryError: Some were dropped.
    """
    have = set(inspect(engine).get_table_names(schema=mine.attempts.schema))
    gone = [table.name for table in mine.all if table.name not in have]
    if gone and mine.identity.name in have and _has_identity(engine, mine):
        raise RecoveryError(
            f"{', '.join(gone)} was dropped: what was committed cannot be told any more",
            harmless="for the data: nothing was started, and no table was made again",
            cause=f"{mine.identity.name} says that all of onceflow's tables were made",
            action="restore it from a backup. Or, with no job undone, drop all of onceflow's tables: jobs then are new "
            f"ones to this database ({advised('as-new')})",
        )
    for table in mine.all:
        if table.name not in have:
            _create(engine, table)
    with engine.begin() as connection:
        if connection.execute(select(mine.identity.c.id)).first() is None:
            _insert_identity(connection, mine)


def _has_identity(engine: Engine, mine: Tables) -> bool:
    with engine.begin() as connection:
        return connection.execute(select(mine.identity.c.id)).first() is not None


def _create(engine: Engine, table: Table) -> None:
    try:
        table.create(engine, checkfirst=True)
    except Exception:
        # Another start may have made it in between; if not, this one says why.
        if not inspect(engine).has_table(table.name, schema=table.schema):
            raise


def _insert_identity(connection: Connection, mine: Tables) -> None:
    try:
        with connection.begin_nested():
            connection.execute(insert(mine.identity).values(one=1, id=uuid.uuid4().hex, version=VERSION))
    except IntegrityError:
        pass  # another start was first


def staging_name(target: str) -> str:
    """What the staging table of a target is called; short enough for every database: PostgreSQL counts bytes."""
    return _name(target, _SUFFIX)


def sequence_name(target: str) -> str:
    """What the table of a target's sequences is called, likewise."""
    return _name(target, _OF_SEQUENCES)


def sequence_mark(name: str) -> str:
    """The mark that says that a table of sequences was made; who changes a target's sequences holds its row."""
    return hashlib.sha256(f"sequence\0{name}".encode()).hexdigest()


def _name(target: str, suffix: str) -> str:
    if len((target + suffix).encode()) <= _NAME_LIMIT:
        return target + suffix
    told = f"_{uuid.uuid5(uuid.NAMESPACE_OID, target).hex[:8]}{suffix}"
    return target.encode()[: _NAME_LIMIT - len(told)].decode(errors="ignore") + told


def staging_variant(name: str, columns: Iterable[str]) -> str:
    """Another staging table of the same target, for rows of these columns."""
    stem = name.removesuffix(_SUFFIX).encode()[: _NAME_LIMIT - len(_SUFFIX) - 9].decode(errors="ignore")
    told = json.dumps(sorted(columns))
    return f"{stem}_{uuid.uuid5(uuid.NAMESPACE_OID, told).hex[:8]}{_SUFFIX}"


def is_staging(found: str, name: str) -> bool:
    """Whether a table has a target's staging table's name, or may be another one of the same target."""
    stem = staging_variant(name, ()).removesuffix(_SUFFIX)[:-8]
    return found == name or re.fullmatch(f"{re.escape(stem)}[0-9a-f]{{8}}{_SUFFIX}", found) is not None


def staging_table(name: str, schema: str | None, columns: Sequence[tuple[str, TypeEngine[Any]]]) -> Table:
    """A staging table with these columns of its target: nullable, without defaults and constraints."""
    return Table(
        name,
        MetaData(schema=schema),
        Column(ID, String(32), nullable=False, index=True),
        *(Column(column, kind, nullable=True) for column, kind in columns),
        Column(HASH, BigInteger, nullable=False),
        **INNODB,
    )
