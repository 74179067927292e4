"""Columns of the output that the target does not have yet: the statements that add them.

Must not know: when a target may be changed, epochs, what is staged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Engine, inspect, text
from sqlalchemy.exc import DBAPIError

from onceflow.connectors.database.refusals import words
from onceflow.connectors.database.statements import quoted
from onceflow.connectors.database.types import for_new
from onceflow.connectors.database.urls import database_of
from onceflow.connectors.fields import absent, without
from onceflow.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)


def addable(fields: StructType, found: Iterable[str], key: Sequence[str]) -> StructType:
    """Those columns that a table does not have; of the key none, which would be null in the rows that are there."""
    return absent(without(fields, *key), found)


def statements(engine: Engine, schema: str | None, table: str, fields: StructType) -> list[str]:
    """What adds these columns, one statement for each."""
    database = database_of(engine)
    kinds = [for_new(field.dataType, database).compile(engine.dialect) for field in fields]
    with engine.connect() as connection:
        of, names = quoted(connection, schema, table), [quoted(connection, field.name) for field in fields]
    # Of a timestamp MySQL would take for granted that it is not null, and the time of now.
    return [f"ALTER TABLE {of} ADD COLUMN {name} {kind} NULL" for name, kind in zip(names, kinds, strict=True)]


def add(engine: Engine, schema: str | None, table: str, fields: StructType, who: str) -> None:
    """Add these columns; one that another start has added meanwhile is there already.

    Raises:
        ConfigurationError: The database refuses it.
    """
    for field, statement in zip(fields, statements(engine, schema, table, fields), strict=True):
        try:
            with engine.begin() as connection:
                connection.execute(text(statement.replace(":", "\\:")))  # else a value's place
        except DBAPIError as error:
            if field.name in {column["name"] for column in inspect(engine).get_columns(table, schema=schema)}:
                continue
            raise ConfigurationError(
                f"{who}: column {field.name} was not added to its table: {words(error)}",
                harmless="for the data: nothing was started",
                cause='schema_changes="add", and the login does not own the table (MySQL, MariaDB: lacks ALTER), or '
                "somebody holds it",
                action=f"run it as its owner, then start the job again: {statement}",
            ) from None
        log.warning(
            "%s: column %s is added to its table, null in the rows that are there: %s", who, field.name, statement
        )
