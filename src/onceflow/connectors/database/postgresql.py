"""PostgreSQL: its sessions, types, tables, rows, errors and rights.

Must not know: sinks, epochs, decisions.
"""

from __future__ import annotations

import io
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql import types as spark
from sqlalchemy import URL, Connection, Engine, Select, TableClause, text
from sqlalchemy import types as sql
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError

from onceflow.connectors.database import types
from onceflow.connectors.database.statements import named, on_conflict, quoted
from onceflow.connectors.database.system import LOCK_TIMEOUT_S, ON_COLUMNS, Database, Needed, Refusal
from onceflow.connectors.database.target import Target

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

HELD_S = LOCK_TIMEOUT_S // 2
"""How long the server keeps an idle transaction for a driver that says nothing, in seconds: less than others wait."""

_TOLD = text("select set_config('onceflow.session', :told, false)")
_HEARD = text("select coalesce(current_setting('onceflow.session', true), '')")
_KINDS = {
    "f": "it is a foreign table, or has one as a partition: what is written there is not of the same transaction",
    "v": "it is a view, and nobody sees here where its rows go",
}
_PERSISTENCES = {"u": "it is UNLOGGED, or a partition of it is: a crash empties it", "t": "it is TEMPORARY"}
# A partitioned table and its partitions, each of which is a table of its own kind.
_WHOLE = (
    "with recursive whole as (select oid, relkind, relpersistence from pg_catalog.pg_class "
    "where oid = to_regclass(:table) union all "
    "select p.oid, p.relkind, p.relpersistence from whole join pg_catalog.pg_inherits i on i.inhparent = whole.oid "
    "join pg_catalog.pg_class p on p.oid = i.inhrelid where whole.relkind = 'p') "
)
# SQLSTATEs; classes are two characters.
_RIGHT = {"42501", "42P01", "42703", "3F000", "42883", "42804", "25006", "28000", "28P01", "3D000"}
# Of constraints and types, of a view's check option, of limits (a row that is too long for an index), and raised.
_ROW_CLASSES = {"21", "22", "23", "44", "54", "P0"}
# What these say may have a row's values in it.
_UNSAID_CLASSES = {"21", "22", "23", "P0"}
_RAISED = re.compile(r"PL/pgSQL function (\S+?)\(")
# What was prepared, by a driver that prepares what it says often, is not on the connection, or there already.
_POOLED = {"26000", "42P05"}
_PASSING = {"25P03", "55P03", "57014", "57P01", "57P02", "57P03"}
_PASSING_CLASSES = {"08", "40", "53", "58"}
# A statement's time-out, a limit of the settings (temp_file_limit): of the same rows again at each start.
_BROKEN_OFF = {"57014", "53400"}
# A login that is refused has no SQLSTATE: the server's words, which a server of another language says otherwise.
_NO_LOGIN = ("authentication failed", "no pg_hba.conf entry", "does not exist", "no password supplied", "not permitted")
# How a right is asked for, by what it is on.
_ASKED = {"SCHEMA": "has_schema_privilege", "TABLE": "has_table_privilege", "SEQUENCE": "has_sequence_privilege"}


class PostgreSql(Database):
    """PostgreSQL."""

    driver, module, extra = "psycopg", "psycopg", "postgres"
    parameters = frozenset(
        {"host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "application_name"}
        | {"target_session_attrs", "channel_binding", "gssencmode"}
    )
    json_takes_nul = False
    blurring = MappingProxyType({**Database.blurring, postgresql.CITEXT: "citext takes letters of both cases for one"})
    refuses_nul = True
    takes_nan = takes_infinity = True
    ends_idle = True
    takes_back_tables = holds_by_merge = True
    upserts_by_any_key = fills_nulls = False
    counts_upserts = True
    refusing = _NO_LOGIN

    # -- connections and sessions -----------------------------------------------------------------

    def settings(self, url: URL, *, lasting: bool) -> dict[str, Any]:
        # Else a server that is cut off in silence is waited for, for hours.
        waits = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
        waits = waits if "connect_timeout" in url.query else waits | {"connect_timeout": 10}
        # What is loaded is UTF-8, whatever the encoding of the database or the user's and the environment's settings.
        return super().settings(url, lasting=lasting) | {"connect_args": {**waits, "client_encoding": "utf8"}}

    def begin_session(self, connection: Any, record: object) -> None:
        with connection.cursor() as cursor:
            # A user's or database's own settings may be looser; a pre-commit that is not on disk is none.
            cursor.execute(
                "select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit')"
                " in ('off', 'local')"
            )
            cursor.execute(f"set lock_timeout = '{LOCK_TIMEOUT_S}s'")
            cursor.execute("set timezone = 'UTC'")
            # From version 14 on a server notices in the middle of a long merge that its driver is gone, not at its end.
            cursor.execute(
                "select set_config(name, '2s', false) from pg_settings where name = 'client_connection_check_interval'"
            )
        connection.commit()

    def sessions_last(self, engine: Engine) -> bool:
        """As the port says; it costs a query where no pooler is.

        A pooler is told by the number of the server's process, which is not the one that the connection began with. One
        of transactions gives the first connection's to the second, or another one to the first while the second has
        that. Settings by which a commit waits for the disk, or a lock is not waited for, are then somebody else's.
        """
        with engine.connect() as one:
            with one.begin():
                if one.scalar(text("select pg_backend_pid()")) == one.connection.dbapi_connection.info.backend_pid:  # type: ignore[union-attr]
                    return True
            mine = uuid.uuid4().hex
            with engine.connect() as other:
                with one.begin():
                    one.execute(_TOLD, {"told": mine})
                with other.begin():
                    heard = [other.scalar(_HEARD)]
                    with one.begin():
                        kept = one.scalar(_HEARD)
                with other.begin():  # of a pooler that takes the one which was longest unused
                    heard.append(other.scalar(_HEARD))
                with one.begin():
                    one.execute(_TOLD, {"told": ""})
        return mine not in heard and kept == mine

    # -- types and values -------------------------------------------------------------------------

    def column_for(self, kind: spark.DataType) -> sql.TypeEngine[Any]:
        return postgresql.JSONB() if isinstance(kind, types.NESTED) else types.usual_column(kind)

    def takes(self, kind: spark.DataType, column: sql.TypeEngine[Any]) -> bool:
        if isinstance(kind, spark.TimestampType):
            return _with_zone(column) and _exact(column)
        if isinstance(kind, spark.TimestampNTZType):
            return isinstance(column, sql.DateTime) and not _with_zone(column) and _exact(column)
        without_bound = isinstance(kind, spark.DecimalType) and types.is_decimal(column) and column.precision is None
        return without_bound or types.usually_takes(kind, column)

    def sent(self, kind: spark.DataType, value: Column) -> Column:
        # COPY reads it as text.
        return F.concat(F.lit("\\x"), F.hex(value)) if isinstance(kind, spark.BinaryType) else value

    # -- tables as they are -----------------------------------------------------------------------

    def cutting(self, connection: Connection, schema: str | None, table: str) -> dict[str, str]:
        query = (
            "select attname, pg_catalog.format_type(atttypid, atttypmod) from pg_catalog.pg_attribute "
            "where attrelid = to_regclass(:table) and attnum > 0 and atttypid in ('name'::regtype, '\"char\"'::regtype)"
        )
        found = connection.execute(text(query), {"table": quoted(connection, schema, table)})
        return {str(name): str(kind) for name, kind in found}

    def schema_of(self, connection: Connection, schema: str | None, table: str) -> str | None:
        if schema is not None:
            return schema
        query = (
            "select n.nspname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace "
            "where c.oid = to_regclass(:table)"
        )
        found = connection.execute(text(query), {"table": quoted(connection, None, table)}).scalar()
        return None if found is None else str(found)

    def replacing_rules(self, connection: Connection, schema: str | None, table: str) -> list[str]:
        query = (
            "select rulename from pg_catalog.pg_rewrite where ev_class = to_regclass(:table) and is_instead "
            "and ev_type in ('2', '3', '4') and ev_enabled <> 'D' order by rulename"
        )
        return [str(name) for (name,) in connection.execute(text(query), {"table": quoted(connection, schema, table)})]

    def collation(self, connection: Connection, schema: str | None, table: str, name: str) -> str | None:
        """Of a collation that is not deterministic, which a unique index may have of its own."""
        query = (
            "with c as (select attnum, attcollation from pg_catalog.pg_attribute "
            "where attrelid = to_regclass(:table) and attname = :name) "
            "select l.collname from pg_catalog.pg_collation l where not l.collisdeterministic and l.oid in "
            "(select attcollation from c union select k.of from c, pg_catalog.pg_index i, "
            "unnest(i.indkey::int2[], i.indcollation::oid[]) as k(number, of) "
            "where i.indrelid = to_regclass(:table) and i.indisunique and k.number = c.attnum)"
        )
        found = connection.execute(text(query), {"table": quoted(connection, schema, table), "name": name}).scalar()
        return None if found is None else str(found)

    def triggers(self, connection: Connection, schema: str | None, table: str) -> list[str]:
        # A row goes to a partition, whose triggers see it as the table's own do. It does not count a row that one
        # skips.
        query = (
            f"{_WHOLE} select tgname || "  # noqa: S608 - two constants
            "case when w.oid = to_regclass(:table) then '' else ' (of ' || w.oid::regclass || ')' end "
            "from whole w join pg_catalog.pg_trigger t on t.tgrelid = w.oid "
            "where not tgisinternal and tgenabled <> 'D' "
            "and (w.oid = to_regclass(:table) or coalesce(to_jsonb(t) ->> 'tgparentid', '0') = '0') order by 1"
        )
        return [str(name) for (name,) in connection.execute(text(query), {"table": quoted(connection, schema, table)})]

    def forgetful(self, connection: Connection) -> str | None:
        for setting in ("fsync", "full_page_writes"):
            if connection.exec_driver_sql(f"show {setting}").scalar() == "off":
                return f"{setting}=off"
        return None

    def hiding(self, connection: Connection, schema: str | None, table: str) -> bool:
        query = text("select row_security_active(to_regclass(:table))")
        return bool(connection.execute(query, {"table": quoted(connection, schema, table)}).scalar())

    def passing(self, connection: Connection, schema: str | None, table: str) -> str | None:
        query = f"{_WHOLE} select relkind::text, relpersistence::text from whole"  # noqa: S608 - two constants
        found = connection.execute(text(query), {"table": quoted(connection, schema, table)}).all()
        whys = (_KINDS.get(kind) or _PERSISTENCES.get(persistence) for kind, persistence in found)
        return next((why for why in whys if why), None)

    # -- rows -------------------------------------------------------------------------------------

    def load(self, connection: Connection, schema: str | None, table: str, rows: pa.RecordBatch) -> None:
        """By COPY of CSV that Arrow writes: values are quoted, nulls are not, so an empty text is no null."""
        import pyarrow as pa  # noqa: PLC0415 - only in a worker
        from pyarrow import csv  # noqa: PLC0415

        into, columns = named(connection, schema, table, rows)
        # The shortest text of a float is another number where the column is a double.
        kinds = pa.schema([pa.field(f.name, pa.float64()) if f.type == pa.float32() else f for f in rows.schema])
        file = io.BytesIO()
        csv.write_csv(rows.cast(kinds), file, csv.WriteOptions(include_header=False, quoting_style="all_valid"))
        driver: Any = connection.connection.driver_connection
        dialect = connection.dialect
        errors = dialect.loaded_dbapi
        try:
            with driver.cursor() as cursor, cursor.copy(f"COPY {into} ({columns}) FROM STDIN (FORMAT csv)") as copying:
                copying.write(file.getbuffer())
        except errors.Error as error:  # past SQLAlchemy, which would have made one of its own
            lost = bool(driver.broken)
            raise DBAPIError.instance(
                "COPY", None, error, errors.Error, hide_parameters=True, connection_invalidated=lost, dialect=dialect
            ) from None

    def insertion(self, into: TableClause, target: Target, source: Select[Any]) -> Any:
        return on_conflict(postgresql.insert, into, target, source)

    def bound(self, connection: Connection) -> None:
        connection.execute(text(f"set local idle_in_transaction_session_timeout = '{HELD_S}s'"))

    def require_constraints(self, connection: Connection) -> None:
        connection.execute(text("set constraints all immediate"))

    def lock(self, connection: Connection, name: str) -> None:
        connection.execute(text(f"lock table {name} in access exclusive mode"))

    # -- errors -----------------------------------------------------------------------------------

    def code(self, error: DBAPIError) -> str | None:
        """The SQLSTATE."""
        state = getattr(error.orig, "sqlstate", None)
        return state if isinstance(state, str) else None

    def meaning(self, error: DBAPIError) -> Refusal | None:
        code = self.code(error)
        if code is None:
            return None
        if code in _RIGHT:
            return Refusal.RIGHT
        if code in _PASSING or code[:2] in _PASSING_CLASSES:
            return Refusal.PASSING
        return Refusal.ROW if code[:2] in _ROW_CLASSES or _raised_in(error) else Refusal.RIGHT

    def is_pooled(self, error: DBAPIError) -> bool:
        code = self.code(error)
        return code in _POOLED or (code == "08P01" and "statement pooling mode" in str(error.orig))

    def broken_off(self, error: DBAPIError) -> str:
        code = self.code(error)
        return code if code in _BROKEN_OFF else ""

    def is_gone(self, error: DBAPIError) -> bool:
        return self.code(error) in ("42P01", "42703")

    def by_foreign_key(self, error: DBAPIError) -> bool:
        return self.code(error) == "23503"

    def words(self, error: DBAPIError) -> str:
        diagnosed = getattr(error.orig, "diag", None)
        if diagnosed is None or not getattr(diagnosed, "sqlstate", None):
            return ""
        named_ = (
            (_raised_in(error), "function"),
            (diagnosed.constraint_name, "constraint"),
            (diagnosed.column_name, "column"),
            (diagnosed.table_name, "table"),
        )
        about = ", ".join(f"{what} {name}" for name, what in named_ if name)
        said = diagnosed.sqlstate[:2] not in _UNSAID_CLASSES and _raised_in(error) is None
        primary = diagnosed.message_primary or "" if said else ""
        kind = type(error.orig).__name__
        return ": ".join(part for part in (f"{kind} ({diagnosed.sqlstate})", primary, about) if part)

    # -- rights -----------------------------------------------------------------------------------

    def unnumbered(self, connection: Connection, target: Target) -> list[Needed]:
        query = (
            "select distinct n.nspname, s.relname from pg_catalog.pg_attrdef d "
            "join pg_catalog.pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum "
            "join pg_catalog.pg_depend p on p.classid = 'pg_catalog.pg_attrdef'::regclass and p.objid = d.oid "
            "and p.refclassid = 'pg_catalog.pg_class'::regclass "
            "join pg_catalog.pg_class s on s.oid = p.refobjid and s.relkind = 'S' "
            "join pg_catalog.pg_namespace n on n.oid = s.relnamespace "
            "where d.adrelid = to_regclass(:table) and a.attname <> all(:written) "
            # In an order of its own the server might ask it of what is no sequence.
            "and not case when s.relkind = 'S' then has_sequence_privilege(s.oid, 'USAGE, UPDATE') else true end "
            "order by 1, 2"
        )
        table = quoted(connection, target.schema, target.table)
        found = connection.execute(text(query), {"table": table, "written": list(target.columns)})
        return [Needed("USAGE", "SEQUENCE", str(schema), str(name)) for schema, name in found]

    def may_insert(self, connection: Connection, schema: str | None, table: str, names: Sequence[str]) -> set[str]:
        query = (
            "select attname from pg_catalog.pg_attribute where attrelid = to_regclass(:table) and attnum > 0 "
            "and not attisdropped and has_column_privilege(attrelid, attnum, 'INSERT')"
        )
        found = connection.execute(text(query), {"table": quoted(connection, schema, table)})
        return {str(name) for (name,) in found} & set(names)

    def user(self, connection: Connection) -> tuple[str, str]:
        name = str(connection.execute(text("select current_user")).scalar_one())
        return name, quoted(connection, name)

    def missing(self, connection: Connection, error: DBAPIError, needed: Sequence[Needed]) -> Iterator[Needed]:
        for each in needed:
            yield from _lacks(connection, each)


def _raised_in(error: DBAPIError) -> str | None:
    """The function, of a trigger, in which the server met the error."""
    found = _RAISED.match(getattr(getattr(error.orig, "diag", None), "context", None) or "")
    return found[1] if found else None


def _with_zone(column: sql.TypeEngine[Any]) -> bool:
    return isinstance(column, sql.DateTime) and bool(column.timezone)


def _exact(column: sql.TypeEngine[Any]) -> bool:
    """It rounds to a column's precision without a word."""
    return getattr(column, "precision", None) in (None, 6)


def _lacks(connection: Connection, needed: Needed) -> Iterator[Needed]:
    """The server knows, also of a table in a schema that this user may not use."""
    asked = {"schema": needed.schema, "name": needed.name, "right": needed.right}
    if needed.kind == "SCHEMA":
        # Of the search_path only schemas are looked through that this user may use.
        query = "select oid from pg_catalog.pg_namespace where nspname = coalesce(:schema, current_schema())"
    else:
        query = (
            "select c.oid from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace "
            "where c.relname = :name and n.nspname = coalesce(:schema, current_schema())"
        )
    found = connection.execute(text(query), asked).scalar()
    if found is None:
        return
    asked["thing"] = found
    if connection.execute(text(f"select {_ASKED[needed.kind]}(cast(:thing as oid), :right)"), asked).scalar():
        return
    given: set[str] = set()
    if needed.right in ON_COLUMNS:
        query = (
            "select attname from pg_catalog.pg_attribute where attrelid = :thing and attnum > 0 "
            "and not attisdropped and has_column_privilege(cast(:thing as oid), attnum, :right)"
        )
        given = set(connection.execute(text(query), asked).scalars())
    columns = tuple(name for name in needed.columns if name not in given)
    if columns or not given:  # which columns it is about is not known yet: then any is enough
        yield replace(needed, columns=columns if given else ())
