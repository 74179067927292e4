"""Of an upsert: whether each row that is staged has a whole key, and each key one row.

Must not know: the ledger, what is decided. Never tells a key's values.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, func, or_, select

from onceflow.connectors.database import tables as own
from onceflow.connectors.database.merge import staging
from onceflow.connectors.database.target import Target
from onceflow.errors import RowRefusedError


def require_keys(
    connection: Connection, schema: str | None, target: Target, attempts: Sequence[str], sink: str, epoch: int
) -> None:
    """Refuse rows by whose keys nothing would be found again, or of which one would replace another.

    SQLite and MySQL would keep one of two rows of a key, and say nothing; and a delete without a key deletes nothing.

    Args:
        connection: Within a transaction.
        schema: Of onceflow's own tables.
        target: Where the rows go.
        attempts: Whose rows.
        sink: The sink's name.
        epoch: The epoch.

    Raises:
        RowRefusedError: Naming the key's columns.
    """
    if not target.key:
        return
    held = staging(target, schema)
    keys, mine = [held.c[name] for name in target.key], held.c[own.ID].in_(attempts)
    named = ", ".join(target.key)
    twice = select(func.count()).where(mine).group_by(*keys).having(func.count() > 1)
    rows = 0 if target.sequence is not None else connection.execute(twice.limit(1)).scalar()
    if rows:
        raise RowRefusedError(
            f"sink {sink}: epoch {epoch} has {rows} rows of one key ({named}), and only one can stay",
            harmless="for the data: nothing of the epoch is visible",
            cause="an upsert has no order within an epoch, so nothing says which row is the newest",
            action="say which is the newest with sequence_by=; or leave one row for each key: aggregate with "
            "output_mode='update', or dropDuplicates with a watermark"
            + ("" if target.deletes else "; or leave key= away to append all"),
            epoch=epoch,
        )
    # Of deletes, and of others as well: that the target's columns take no null was looked at when the job was started.
    nameless = select(func.count()).where(mine, or_(*(each.is_(None) for each in keys)))
    rows = connection.execute(nameless).scalar()
    if rows:
        raise RowRefusedError(
            f"sink {sink}: epoch {epoch} has {rows} rows whose key ({named}) is null",
            harmless="for the data: nothing was written or deleted by them, and the epoch is not decided",
            cause="a null is equal to nothing: such a row would be added again and again, and such a delete would "
            "delete none, in silence",
            action="filter such rows in the stream function, or give them their key",
            epoch=epoch,
        )
