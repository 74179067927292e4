"""Shapes of tables as they are now: columns' types and collations, triggers, and whether a table keeps what it has.

Must not know: which tables are whose.
"""

from __future__ import annotations

import re

from sqlalchemy import Connection, inspect, text

_KINDS = {
    "f": "it is a foreign table, or has one as a partition: what is written there is not of the same transaction",
    "v": "it is a view, and nobody sees here where its rows go",
}
# A partitioned table and its partitions, each of which is a table of its own kind.
_WHOLE = (
    "with recursive whole as (select oid, relkind, relpersistence from pg_catalog.pg_class "
    "where oid = to_regclass(:table) union all "
    "select p.oid, p.relkind, p.relpersistence from whole join pg_catalog.pg_inherits i on i.inhparent = whole.oid "
    "join pg_catalog.pg_class p on p.oid = i.inhrelid where whole.relkind = 'p') "
)
_TRIGGERS = {
    # A row goes to a partition, whose triggers see it as the table's own do.
    "postgresql": f"{_WHOLE} select tgname || "  # noqa: S608 - two constants
    "case when w.oid = to_regclass(:table) then '' else ' (of ' || w.oid::regclass || ')' end "
    "from whole w join pg_catalog.pg_trigger t on t.tgrelid = w.oid "
    "where not tgisinternal and tgenabled <> 'D' "
    "and (w.oid = to_regclass(:table) or coalesce(to_jsonb(t) ->> 'tgparentid', '0') = '0') order by 1",
    # Who may not see them is told of none.
    "mysql": "select trigger_name from information_schema.triggers where event_object_table = :name "
    "and event_object_schema = coalesce(:schema, database()) order by trigger_name",
}
_SKIPS = re.compile(r"\braise\s*\(\s*ignore\b", re.IGNORECASE)
_COMMENTS = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
_PERSISTENCES = {"u": "it is UNLOGGED, or a partition of it is: a crash empties it", "t": "it is TEMPORARY"}


def column_types(connection: Connection, schema: str | None, table: str) -> dict[str, str]:
    """Each column's type, as two tables can be compared by."""
    found = inspect(connection).get_columns(table, schema=schema)
    return {c["name"]: c["type"].compile(connection.dialect) for c in found} | cutting(connection, schema, table)


def required_columns(connection: Connection, schema: str | None, table: str) -> set[str]:
    """Columns that take no null; also SQLite's number of a row, which it would make of one."""
    looking = inspect(connection)
    columns = looking.get_columns(table, schema=schema)
    found = {c["name"] for c in columns if not c["nullable"]}
    if connection.dialect.name == "sqlite":
        key = looking.get_pk_constraint(table, schema=schema)["constrained_columns"]
        found |= {c["name"] for c in columns if key == [c["name"]] and str(c["type"]).upper() == "INTEGER"}
    return found


def cutting(connection: Connection, schema: str | None, table: str) -> dict[str, str]:
    """Columns of types that look like texts without a bound and are PostgreSQL's own: they cut off in silence."""
    if connection.dialect.name != "postgresql":
        return {}
    query = (
        "select attname, pg_catalog.format_type(atttypid, atttypmod) from pg_catalog.pg_attribute "
        "where attrelid = to_regclass(:table) and attnum > 0 and atttypid in ('name'::regtype, '\"char\"'::regtype)"
    )
    found = connection.execute(text(query), {"table": quoted(connection, schema, table)})
    return {str(name): str(kind) for name, kind in found}


def quoted(connection: Connection, *parts: str | None) -> str:
    """A name of these parts as the server takes it. Without a schema it is the table that is found by it.

    SQLAlchemy's own way writes percent signs twice, for a driver that puts values into a statement.
    """
    by = connection.dialect.identifier_preparer
    each = (part.replace(by.escape_quote, by.escape_to_quote) for part in parts if part)
    return ".".join(f"{by.initial_quote}{part}{by.final_quote}" for part in each)


def schema_of(connection: Connection, schema: str | None, table: str) -> str | None:
    """The schema of a table: where none is named, the one in which it is found now; None where there is but one.

    What a name finds may change with every schema and table that somebody makes: PostgreSQL looks through a list.
    """
    if schema is not None or connection.dialect.name != "postgresql":
        return schema
    query = (
        "select n.nspname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace "
        "where c.oid = to_regclass(:table)"
    )
    found = connection.execute(text(query), {"table": quoted(connection, None, table)}).scalar()
    return None if found is None else str(found)


def replacing_rules(connection: Connection, schema: str | None, table: str) -> list[str]:
    """The rules by which PostgreSQL does something else than what a statement says; no count tells it."""
    if connection.dialect.name != "postgresql":
        return []
    query = (
        "select rulename from pg_catalog.pg_rewrite where ev_class = to_regclass(:table) and is_instead "
        "and ev_type in ('2', '3', '4') and ev_enabled <> 'D' order by rulename"
    )
    return [str(name) for (name,) in connection.execute(text(query), {"table": quoted(connection, schema, table)})]


def collation(connection: Connection, schema: str | None, table: str, name: str) -> str | None:
    """The collation by which a column's texts that differ may be equal, or None: then only what is the same is.

    PostgreSQL says it of a collation that is not deterministic (a unique index may have its own), SQLite compares bytes
    unless another one is named, and of MySQL's only those are exact that compare bytes and do not pad with spaces.
    """
    database = connection.dialect.name
    if database == "postgresql":
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
    if database == "sqlite":
        return _collation_of_index(connection, schema, table, name)
    query = (
        "select collation_name from information_schema.columns where table_name = :table "
        "and table_schema = coalesce(:schema, database()) and column_name = :name"
    )
    found = connection.execute(text(query), {"schema": schema, "table": table, "name": name}).scalar()
    exact = found is None or (str(found).endswith("_bin") and ("_nopad_" in str(found) or "_0900_" in str(found)))
    return None if exact else str(found)


def _collation_of_index(connection: Connection, schema: str | None, table: str, name: str) -> str | None:
    """SQLite: of the unique indexes that have the column, the first collation that is not of bytes."""
    quote = connection.dialect.identifier_preparer.quote_identifier
    inside = "" if schema is None else quote(schema) + "."
    for index in connection.exec_driver_sql(f"pragma {inside}index_list({quote(table)})").mappings().all():
        if index["unique"]:
            columns = connection.exec_driver_sql(f"pragma {inside}index_xinfo({quote(index['name'])})").mappings()
            for column in columns.all():
                if column["name"] == name and column["coll"].upper() != "BINARY":
                    return str(column["coll"]).upper()
    return None


def triggers(connection: Connection, schema: str | None, table: str) -> list[str]:
    """The names of a table's triggers, as far as this user may see them."""
    database = connection.dialect.name
    if database == "sqlite":
        return sorted(_of_sqlite(connection, schema, table))
    query = _TRIGGERS["mysql" if database == "mariadb" else database]
    asked = {"table": quoted(connection, schema, table), "schema": schema, "name": table}
    return [str(name) for (name,) in connection.execute(text(query), asked)]


def skipping(connection: Connection, schema: str | None, table: str) -> list[str]:
    """The triggers of a table that may skip a row that is there already, where no count tells: SQLite's RAISE(IGNORE).

    PostgreSQL does not count a row that a trigger skips, and MySQL's skip none.
    """
    if connection.dialect.name != "sqlite":
        return []
    found = _of_sqlite(connection, schema, table).items()
    # Also as it stands: what looks like the beginning of a comment may be a text.
    return sorted(name for name, said in found if any(map(_SKIPS.search, (said, _COMMENTS.sub(" ", said)))))


def _of_sqlite(connection: Connection, schema: str | None, table: str) -> dict[str, str]:
    inside = "" if schema is None else connection.dialect.identifier_preparer.quote_identifier(schema) + "."
    query = f"select name, sql from {inside}sqlite_master where type = 'trigger' and lower(tbl_name) = lower(:name)"  # noqa: S608
    return {str(name): str(said) for name, said in connection.execute(text(query), {"name": table})}


def forgetful(connection: Connection) -> str | None:
    """The server's setting by which it may lose a commit that it has answered, or None."""
    database = connection.dialect.name
    if database == "postgresql":
        for setting in ("fsync", "full_page_writes"):
            if connection.exec_driver_sql(f"show {setting}").scalar() == "off":
                return f"{setting}=off"
    elif database in ("mysql", "mariadb"):
        flushed = connection.exec_driver_sql("select @@innodb_flush_log_at_trx_commit").scalar()
        if flushed not in (1, "1"):
            return f"innodb_flush_log_at_trx_commit={flushed}"
    return None


def hiding(connection: Connection, schema: str | None, table: str) -> bool:
    """Whether a table may hide rows from this user, without a word."""
    if connection.dialect.name != "postgresql":
        return False
    query = text("select row_security_active(to_regclass(:table))")
    return bool(connection.execute(query, {"table": quoted(connection, schema, table)}).scalar())


def passing(connection: Connection, schema: str | None, table: str) -> str | None:
    """Why a table's rows are gone after a crash, or a transaction does not hold them; None when they last."""
    database = connection.dialect.name
    if database == "postgresql":
        query = f"{_WHOLE} select relkind::text, relpersistence::text from whole"  # noqa: S608 - two constants
        found = connection.execute(text(query), {"table": quoted(connection, schema, table)}).all()
        whys = (_KINDS.get(kind) or _PERSISTENCES.get(persistence) for kind, persistence in found)
        return next((why for why in whys if why), None)
    if database in ("mysql", "mariadb"):
        query = (
            "select engine from information_schema.tables where table_name = :table "
            "and table_schema = coalesce(:schema, database())"
        )
        engine = connection.execute(text(query), {"schema": schema, "table": table}).scalar()
        return None if str(engine).lower() == "innodb" else f"its engine is {engine}, which keeps no transactions"
    return None
