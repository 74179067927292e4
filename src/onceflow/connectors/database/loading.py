"""Loading: Arrow batches into a table, by each database's own fast way; never row by row.

Must not know: what the rows are, attempts, decisions.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from onceflow.connectors.database.shapes import quoted

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_A_STATEMENT = 5_000


def load(connection: Connection, schema: str | None, table: str, rows: pa.RecordBatch) -> None:
    """Insert rows, whose columns are named as the table's, in the connection's transaction.

    Raises:
        DBAPIError: The database does not take them.
    """
    database = connection.dialect.name
    into = quoted(connection, schema, table)
    columns = ", ".join(quoted(connection, name) for name in rows.schema.names)
    if database == "postgresql":
        _copy(connection, f"COPY {into} ({columns}) FROM STDIN (FORMAT csv)", rows)
        return
    rows = _plain(rows, database)
    if database == "sqlite":
        mark = "?"
    else:  # this driver puts values into the statement
        mark, into, columns = "%s", into.replace("%", "%%"), columns.replace("%", "%%")
    statement = f"INSERT INTO {into} ({columns}) VALUES ({', '.join([mark] * rows.num_columns)})"  # noqa: S608
    for first in range(0, len(rows), _ROWS_A_STATEMENT):
        piece = rows.slice(first, _ROWS_A_STATEMENT)
        values = list(zip(*(column.to_pylist() for column in piece.columns), strict=True))
        connection.exec_driver_sql(statement, values)


def _plain(rows: pa.RecordBatch, database: str) -> pa.RecordBatch:
    """Values as the driver passes them on unchanged.

    Times lose their zone on the way, so they are of UTC; SQLite has none, so they are text.
    """
    import pyarrow as pa  # noqa: PLC0415 - only in a worker
    import pyarrow.compute as pc  # noqa: PLC0415

    columns = []
    for each in rows.columns:
        column = each
        if pa.types.is_timestamp(column.type):
            zoned = column.type.tz is not None
            column = column.cast(pa.timestamp("us", "UTC" if zoned else None))
            if database == "sqlite":
                column = pc.replace_substring(column.cast(pa.string()), "Z", "+00:00")
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, rows.schema.names)


def _copy(connection: Connection, statement: str, rows: pa.RecordBatch) -> None:
    """PostgreSQL's COPY of CSV that Arrow writes: values are quoted, nulls are not, so an empty text is no null."""
    import pyarrow as pa  # noqa: PLC0415 - only in a worker
    from pyarrow import csv  # noqa: PLC0415

    # The shortest text of a float is another number where the column is a double.
    schema = pa.schema([pa.field(f.name, pa.float64()) if f.type == pa.float32() else f for f in rows.schema])
    rows = rows.cast(schema)
    text = io.BytesIO()
    options = csv.WriteOptions(include_header=False, quoting_style="all_valid")
    csv.write_csv(rows, text, options)
    driver: Any = connection.connection.driver_connection
    errors = connection.dialect.loaded_dbapi
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copying:
            copying.write(text.getbuffer())
    except errors.Error as error:  # past SQLAlchemy, which would have made one of its own
        raise DBAPIError.instance(
            "COPY",
            None,
            error,
            errors.Error,
            hide_parameters=True,
            connection_invalidated=bool(driver.broken),
            dialect=connection.dialect,
        ) from None
