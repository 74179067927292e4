"""What statements of several databases have in common: quoted names, an upsert by its key, rows put in many at a time.

Must not know: any particular database, what the rows are, attempts, decisions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, TableClause

from onceflow.connectors.database.target import Target

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_A_STATEMENT = 5_000


def quoted(connection: Connection, *parts: str | None) -> str:
    """A name of these parts as the server takes it. Without a schema it is the table that is found by it.

    SQLAlchemy's own way writes percent signs twice, for a driver that puts values into a statement.
    """
    by = connection.dialect.identifier_preparer
    each = (part.replace(by.escape_quote, by.escape_to_quote) for part in parts if part)
    return ".".join(f"{by.initial_quote}{part}{by.final_quote}" for part in each)


def named(connection: Connection, schema: str | None, table: str, rows: pa.RecordBatch) -> tuple[str, str]:
    """A table and its columns that rows are loaded into, as the server takes them."""
    return quoted(connection, schema, table), ", ".join(quoted(connection, name) for name in rows.schema.names)


def on_conflict(insert: Any, into: TableClause, target: Target, source: Select[Any]) -> Any:
    """Insert what a query gives; where the target has a key, a row replaces the one with the same key.

    Args:
        insert: A dialect's own, which has a word for conflicts.
        into: The target.
        target: Its columns and key.
        source: The query.
    """
    statement = insert(into).from_select(list(target.columns), source)
    if not target.key:
        return statement
    if not target.rest:
        return statement.on_conflict_do_nothing(index_elements=list(target.key))
    changed = {name: statement.excluded[name] for name in target.rest}
    return statement.on_conflict_do_update(index_elements=list(target.key), set_=changed)


def insert_rows(connection: Connection, into: str, columns: str, mark: str, rows: pa.RecordBatch) -> None:
    """Insert rows by a driver's own way for many.

    Args:
        connection: Within a transaction.
        into: The table, as the driver takes it.
        columns: Its columns, likewise.
        mark: The driver's sign for a value.
        rows: Of which each value is as the driver passes it on unchanged.
    """
    statement = f"INSERT INTO {into} ({columns}) VALUES ({', '.join([mark] * rows.num_columns)})"  # noqa: S608
    for first in range(0, len(rows), _ROWS_A_STATEMENT):
        piece = rows.slice(first, _ROWS_A_STATEMENT)
        values = list(zip(*(column.to_pylist() for column in piece.columns), strict=True))
        connection.exec_driver_sql(statement, values)


def in_utc(values: pa.Array) -> pa.Array:
    """Times of UTC, because they lose their zone on the way; other values as they are."""
    import pyarrow as pa  # noqa: PLC0415 - only in a worker

    if not pa.types.is_timestamp(values.type):
        return values
    return values.cast(pa.timestamp("us", None if values.type.tz is None else "UTC"))
