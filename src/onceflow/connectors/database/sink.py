"""DatabaseSink: what a user writes to send rows to a table.

Must not know: the journal, how epochs run. A description, in which nothing is open: what a start finds out stands in
``connection``, its writers in ``writer``, its committer in ``committer``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import BooleanType, StructType

from onceflow.connectors.contract import Guarantee, Sink, SinkConnection
from onceflow.connectors.database.columns import (
    SEQUENCE_COLUMNS,
    hashed,
    marker,
    orders,
    sent,
    sent_of_dead_letters,
    sequenced,
)
from onceflow.connectors.fields import without
from onceflow.errors import ConfigurationError
from onceflow.formats.contract import column_named
from onceflow.options.arguments import checked
from onceflow.twophase.names import SINK_NAME

if TYPE_CHECKING:
    from pyspark.sql import Column
    from sqlalchemy.engine import URL

    from onceflow.connectors.database.system import Database


class DatabaseSink(Sink):
    """Rows to a table of PostgreSQL, MySQL, MariaDB or SQLite, each once.

    Tasks stage rows in a table of their own; the driver shows those of an epoch by one local transaction that writes
    a ledger first. What is staged never expires. Needs the extra ``[postgres]``, ``[mysql]`` or ``[sqlite]``.

    Args:
        url: SQLAlchemy's URL of the database, with user and password: ``postgresql://user:password@host/database``,
            ``mysql://…``, ``mariadb://…``, ``sqlite:////folder/file.db``.
        table: The table, in ``schema`` or, as ``"schema.table"``, in another one.
        key: Upsert: the column or columns that a row is known by; a row replaces the one with the same key. They need a
            unique constraint. Without ``sequence_by`` an epoch may have one row for each key. None: append.
        delete_when: The name of a boolean column of the output, which is not written: where it is true, the row with
            that key is deleted; false or null is a row to write. Needs ``key``. None: no row means a delete.
        sequence_by: The name of a column of the output, which is not written: of a key's rows the one that it makes the
            newest stays, in an epoch and beside what the table has; one that is older than what was written or deleted
            before is left out. A whole number, a date or a ``timestamp``, of which the greater is the newer, or
            Debezium's ``debezium_sequence``. Two rows of one key that differ and that it does not order are refused, so
            is null. Needs ``key``. The newest sequence of each key, of deleted ones too, stands in
            ``<table>_onceflow_sequence``. None: nothing orders rows.
        schema: Where onceflow's own tables are (``onceflow_ledger``, ``onceflow_attempts``, …, and what is staged), and
            the table, if it names no other. None: the user's own.
        create_table: Make the table from the output's columns if it is not there; False refuses to start.
        schema_changes: ``"add"``: a start adds the output's columns that the table does not have, null in the rows that
            are there; never those of the key. ``"refuse"``: a start says which they are, and what adds them.
        name: The sink's name, unique in the job: letters, digits, ``.``, ``_``, ``-``. The table by default.
        on_refused: A sink for rows that the table's columns do not take, by their type, length or null, with a column
            ``reason`` before their own; in the same epoch and decision. None: one such row stops the job.

    Raises:
        RefusedSettingError: The URL has a parameter that is not taken.
        ConfigurationError: An argument that cannot work.
    """

    guarantee = Guarantee.EXACTLY_ONCE
    keeps_fields = True

    @checked
    def __init__(
        self,
        url: str,
        table: str,
        *,
        key: str | Sequence[str] | None = None,
        delete_when: str | None = None,
        sequence_by: str | None = None,
        schema: str | None = None,
        create_table: bool = False,
        schema_changes: Literal["refuse", "add"] = "refuse",
        name: str | None = None,
        on_refused: Sink | None = None,
    ) -> None:
        self.url = _taken(url)
        parts = table.split(".")
        if not 1 <= len(parts) <= 2 or not all(parts):
            raise ConfigurationError(
                f"DatabaseSink cannot write to a table {table!r}",
                action='name a table, or a schema and a table: "payments" or "bank.payments"',
            )
        self.schema = schema
        self.table = parts[-1]
        self.table_schema = parts[0] if len(parts) > 1 else schema
        self.key = () if key is None else (key,) if isinstance(key, str) else tuple(key)
        self.delete_when = delete_when
        self.sequence_by = sequence_by
        self.create_table = create_table
        self.on_refused = on_refused
        self.adds_columns = schema_changes == "add"
        self.name = table if name is None else name
        self.destination = ".".join(part for part in (self.table_schema, self.table) if part)
        if SINK_NAME.fullmatch(self.name) is None:
            raise ConfigurationError(
                f"a sink cannot be named {self.name!r}",
                cause="its name stands in the ledger and the journal: letters, digits, '.', '_' and '-', at most 100",
                action="give it another name with name=",
            )
        for argument, column, what in (
            ("delete_when", delete_when, "say what is deleted"),
            ("sequence_by", sequence_by, "say which row is the newest"),
        ):
            if column and not self.key:
                raise ConfigurationError(
                    f"sink {self.name}: {argument} needs a key",
                    cause="without one a row has nothing by which the one before it is found",
                    action="name the columns that a row is known by with key=",
                )
            if column in self.key:
                raise ConfigurationError(
                    f"sink {self.name}: {column!r} cannot be part of the key and {what}",
                    action=f"name another column with {argument}=",
                )
        if sequence_by and sequence_by == delete_when:
            raise ConfigurationError(
                f"sink {self.name}: {sequence_by!r} cannot say what is deleted and which row is the newest",
                action="name another column with sequence_by=",
            )

    @property
    def database(self) -> str:
        """Which database it is: SQLAlchemy's word."""
        return self.url.get_backend_name()

    @property
    def _database(self) -> Database:
        from onceflow.connectors.database.urls import database_named  # noqa: PLC0415 - it imports SQLAlchemy

        return database_named(self.database)

    @property
    def carries_secret(self) -> bool:
        """Whether its URL has a password."""
        return self.url.password is not None

    def describe(self) -> str:
        """The sink in a few words, without user and password."""
        return f"{self.database} table {self.destination} ({self.guarantee})"

    def columns(self, fields: StructType) -> list[Column]:
        """Each column in a form that is loaded fast, and the row's hash behind them."""
        missing = [name for name in self.key if name not in fields.names]
        if missing:
            raise ConfigurationError(
                f"sink {self.name} upserts by {', '.join(map(repr, missing))}, which its output does not have",
                cause=f"the output has {', '.join(fields.names)}",
                action="select the column in the stream function, or name another key",
            )
        taken = {"onceflow_attempt", "onceflow_hash", "onceflow_delete"}
        if self.sequence_by is not None:
            taken.update(SEQUENCE_COLUMNS)
        strange = sorted(taken.intersection(fields.names))
        if strange:
            raise ConfigurationError(
                f"the output of sink {self.name} has a column {', '.join(strange)}",
                cause="what is staged has a column of this name of its own",
                action="rename it in the stream function",
            )
        if self.delete_when is not None:
            self._require_marker(fields, self.delete_when)
        if self.sequence_by is not None:
            self._require_order(fields, self.sequence_by)
        rows = sent(without(fields, self.delete_when, self.sequence_by).fields, self._database)
        if self.delete_when is not None:
            rows.append(marker(self.delete_when).alias("onceflow_delete"))
        if self.sequence_by is not None:
            rows += sequenced(fields[self.sequence_by], self._database)
        return [*rows, hashed(fields.fields).alias("onceflow_hash")]

    def row_limits(self) -> Mapping[str, Any]:
        """What the table's columns take, by their names; nothing where the table is not there yet."""
        from sqlalchemy.exc import DBAPIError  # noqa: PLC0415 - the driver alone needs it

        from onceflow.connectors.database.introspection import found_table, required_columns  # noqa: PLC0415 - as above
        from onceflow.connectors.database.refusals import translated  # noqa: PLC0415 - as above
        from onceflow.connectors.database.refused_rows import limits_of  # noqa: PLC0415 - as above
        from onceflow.connectors.database.urls import database_of, engine_of  # noqa: PLC0415 - as above

        engine = engine_of(self.url, lasting=False)
        try:
            with engine.begin() as connection:
                schema, columns = found_table(connection, self.table_schema, self.table)
                required = required_columns(connection, schema, self.table) if columns else set()
                return limits_of(columns, required, database_of(connection))
        except DBAPIError as error:
            raise translated(error, f"sink {self.name}: the database", f"tell of table {self.destination}") from None
        finally:
            engine.dispose()

    def refused(self, fields: StructType, limits: Mapping[str, Any]) -> Column:
        """Why the table does not take a row, by a column's name; null where it does.

        Args:
            fields: The output's columns, with their types.
            limits: As of ``row_limits``.
        """
        from onceflow.connectors.database.refused_rows import reason  # noqa: PLC0415 - it imports SQLAlchemy

        written = without(fields, self.delete_when, self.sequence_by).fields
        deletes = None if self.delete_when is None else column_named(self.delete_when)
        why = reason(written, limits, self.key, self._database, deletes)
        if self.sequence_by is None:
            return why
        unordered = F.lit(f"column {self.sequence_by} says which row is the newest, and is null")
        return F.coalesce(why, F.when(column_named(self.sequence_by).isNull(), unordered))

    def dead_letter_columns(self, fields: StructType) -> list[Column]:
        """Each column, in a form that the database takes whatever a record has."""
        own = self.columns(fields)  # which refuses what cannot be
        letters = sent_of_dead_letters(without(fields, self.delete_when, self.sequence_by).fields, self._database)
        return letters + own[len(letters) :]

    def _require_order(self, fields: StructType, name: str) -> None:
        if name not in fields.names or not orders(fields[name].dataType):
            raise ConfigurationError(
                f"sink {self.name} orders rows by {name!r}, and the output has no such column by which they can be",
                cause=f"the output has {', '.join(f'{f.name} {f.dataType.simpleString()}' for f in fields.fields)}",
                action="select a whole number, a date or a timestamp in the stream function, or debezium_sequence as "
                "it is; or name another column with sequence_by=",
            )

    def _require_marker(self, fields: StructType, name: str) -> None:
        if name not in fields.names or not isinstance(fields[name].dataType, BooleanType):
            raise ConfigurationError(
                f"sink {self.name} deletes where {name!r} is true, and the output has no such boolean column",
                cause=f"the output has {', '.join(f'{f.name} {f.dataType.simpleString()}' for f in fields.fields)}",
                action="select it in the stream function, or name another column with delete_when=",
            )

    def connect(self) -> SinkConnection:
        """Connect; make onceflow's own tables where they are not there."""
        from onceflow.connectors.database.connection import DatabaseConnection  # noqa: PLC0415 - it knows this one

        return DatabaseConnection(self, making=True)

    def attach(self) -> SinkConnection:
        """Connect only."""
        from onceflow.connectors.database.connection import DatabaseConnection  # noqa: PLC0415 - it knows this one

        return DatabaseConnection(self, making=False)


def _taken(url: str) -> URL:
    if importlib.util.find_spec("sqlalchemy") is None:
        raise ConfigurationError(
            "DatabaseSink needs SQLAlchemy, which is not installed",
            action="install onceflow with the extra of the database: [postgres], [mysql] or [sqlite]",
        )
    from onceflow.connectors.database.urls import checked_url  # noqa: PLC0415 - it imports SQLAlchemy

    return checked_url(url)
