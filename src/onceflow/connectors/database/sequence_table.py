"""The table of a target's sequences: its shape, and that it is made once.

Must not know: what the order of changes is, staged rows, epochs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Column, Engine, MetaData, SmallInteger, String, Table, inspect

from onceflow.connectors.database import marks
from onceflow.connectors.database import tables as own
from onceflow.connectors.database.introspection import column_types, told_type
from onceflow.connectors.database.target import Target
from onceflow.errors import ConfigurationError, RecoveryError

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import ReflectedColumn


def of_target(target: Target, schema: str | None, found: Mapping[str, ReflectedColumn]) -> Table | None:
    """The table: the target's key, a sequence, the newest row's hash and attempt, and whether it means a delete.

    Args:
        target: The target.
        schema: Of onceflow's own tables.
        found: The target's columns.

    Returns:
        It, or None where the target's rows are not ordered.
    """
    if target.sequence is None:
        return None
    return Table(
        target.sequence,
        MetaData(schema=schema),
        *(Column(name, found[name]["type"], primary_key=True, autoincrement=False) for name in target.key),
        *(Column(name, BigInteger, nullable=True) for name in own.SEQUENCE),
        Column(own.ID, String(32), nullable=False),
        Column(own.HASH, BigInteger, nullable=False),
        Column(own.DELETE, SmallInteger, nullable=True),
        **own.INNODB,
    )


def make(engine: Engine, mine: own.Tables, table: Table, who: str, target: Target) -> None:
    """Make it, once: an empty one would let changes win that are older than what is there.

    Args:
        engine: The database's.
        mine: onceflow's tables beside it.
        table: The table.
        who: Whose it is, for errors.
        target: The target.

    Raises:
        RecoveryError: It was dropped.
        ConfigurationError: It is of another key, or rows of other columns are ordered by it.
    """
    kept, mark = mine.marks, own.sequence_mark(table.name)
    before = marks.read(engine, kept, mark)
    if inspect(engine).has_table(table.name, schema=table.schema):
        with engine.begin() as connection:
            have = column_types(connection, table.schema, table.name)
        wanted = {c.name: told_type(c.type, engine.dialect) for c in table.columns}
        if strange := sorted(name for name in {*wanted, *have} if wanted.get(name) != have.get(name)):
            raise ConfigurationError(
                f"{who}: {table.name} has another shape than its target: {', '.join(strange)}",
                harmless="for the data: nothing was started",
                cause="the key, or the type of one of its columns, was changed",
                action=f"alter {table.name} in the same way; or drop it together with its target's rows",
            )
    elif before is not None:
        raise RecoveryError(
            f"{who}: {table.name} was dropped: which changes are older than what {target.name} has cannot be told",
            harmless="for the data: nothing was started, and it was not made again",
            cause=f"{kept.name} says that it was made",
            action="restore it from a backup. Or, where the target is filled anew from the beginning: empty the "
            f"target, delete the row of {kept.name} whose id is {mark}, and start a new job",
        )
    else:
        table.create(engine, checkfirst=True)
    had, have_now = set(json.loads(before or "[]")), set(target.columns)
    if had - have_now:
        raise ConfigurationError(
            f"{who}: rows of {target.name} are ordered together with columns that the output does not have: "
            f"{', '.join(sorted(had - have_now))}",
            harmless="for the data: nothing was started",
            cause="another sink writes them, and its newer row would leave this one's columns out as older; or the "
            "output had them before",
            action="let one sink write all columns; or, where no other sink writes the table, delete the row of "
            f"{kept.name} whose id is {mark} and drop {table.name}: any change then wins once against what is there",
        )
    told = json.dumps(sorted(have_now))
    marks.keep(engine, kept, mark, told)
    if had and had != have_now:
        marks.write(engine, kept, mark, told)
