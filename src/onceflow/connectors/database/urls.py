"""A database's URL: what is taken, and an engine for it. The only file that knows drivers and their settings.

Must not know: sinks, staging, decisions.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import Engine, NullPool, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from onceflow.errors import ConfigurationError, RefusedSettingError

LOCK_TIMEOUT_S = 30
"""How long a statement waits for another's lock before it is tried again from the beginning."""

_DRIVERS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "postgresql": ("psycopg", "psycopg", "postgres"),
        "mysql": ("pymysql", "pymysql", "mysql"),
        "mariadb": ("pymysql", "pymysql", "mysql"),
        "sqlite": ("pysqlite", "sqlite3", "sqlite"),
    }
)
"""Of each database: SQLAlchemy's driver, its module, and the extra that installs it."""

# Only what says where and as whom. Others read files, run statements or code (service, passfile, options,
# read_default_file, init_command, local_infile, uri), or loosen what the commit rests on.
_PARAMETERS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "postgresql": frozenset(
            {"host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "application_name"}
            | {"target_session_attrs", "channel_binding", "gssencmode"}
        ),
        "mysql": frozenset({"charset", "unix_socket", "connect_timeout", "ssl_ca", "ssl_cert", "ssl_key"}),
        "mariadb": frozenset({"charset", "unix_socket", "connect_timeout", "ssl_ca", "ssl_cert", "ssl_key"}),
        "sqlite": frozenset(),
    }
)


_UNICODE = {"utf8mb4", "utf8mb3", "utf8"}
"""What MySQL calls UTF-8; the older two refuse some texts, loudly."""


def checked_url(text: str) -> URL:
    """A URL that may be connected to, with the driver that is used for its database.

    Raises:
        ConfigurationError: It is no URL of a database that is known, or its driver is not installed.
        RefusedSettingError: It has a parameter that is not taken.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        # Not the text: it may hold a password.
        raise ConfigurationError(
            "DatabaseSink's url is no URL of a database",
            action='write for example "postgresql://user:password@host:5432/database" or "sqlite:////folder/file.db"',
        ) from None
    database = url.get_backend_name()
    if database not in _DRIVERS:
        raise ConfigurationError(
            f"DatabaseSink does not write to {database!r}",
            action=f"use one of {', '.join(_DRIVERS)}, or write a sink of your own (docs/sinks.md)",
        )
    driver, module, extra = _DRIVERS[database]
    if "+" in url.drivername and url.get_driver_name() != driver:
        raise ConfigurationError(
            f"DatabaseSink writes to {database} by {driver}, not by {url.get_driver_name()}",
            action=f"leave the driver out of the URL: {database}://...",
        )
    strange = sorted(set(url.query) - _PARAMETERS[database])
    if strange:
        raise RefusedSettingError(
            f"the URL's parameter {', '.join(strange)} is refused: only what says where and as whom is taken",
            cause="parameters of drivers can read files, run statements, or loosen what a commit rests on",
            action=f"leave it out; taken are: {', '.join(sorted(_PARAMETERS[database])) or 'none'}",
        )
    charset = str(url.query.get("charset", "utf8mb4"))
    if charset.lower() not in _UNICODE:
        raise RefusedSettingError(
            f"the URL's charset={charset} is refused: not every text of a row has a form in it",
            cause="it is what the connection speaks, not what the table keeps",
            action="leave it out: utf8mb4 is used",
        )
    if importlib.util.find_spec(module) is None:
        raise ConfigurationError(
            f"writing to {database} needs the driver {module}, which is not installed",
            action=f"install onceflow with its extra [{extra}]",
        )
    if database == "sqlite" and url.database in (None, "", ":memory:"):
        raise ConfigurationError(
            "a SQLite database in memory is gone with its process",
            action="name a file: sqlite:////folder/file.db",
        )
    return url.set(drivername=f"{database}+{driver}")


def engine_of(url: URL, *, lasting: bool) -> Engine:
    """An engine whose transactions are durable when they are committed.

    Args:
        url: From ``checked_url``.
        lasting: For the driver: several threads use it. Else for a task: one connection.
    """
    database = url.get_backend_name()
    # Of a wider isolation the look at the target's types would be of before its lock, whatever the user's default is.
    settings: dict[str, Any] = {"pool_pre_ping": True, "isolation_level": "READ COMMITTED"}
    if not lasting:
        settings |= {"pool_size": 1, "max_overflow": 0}
    if database == "postgresql":
        # Else a server that is cut off in silence is waited for, for hours.
        waits = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
        waits = waits if "connect_timeout" in url.query else waits | {"connect_timeout": 10}
        # What is loaded is UTF-8, whatever the encoding of the database or the user's and the environment's settings.
        settings["connect_args"] = {**waits, "client_encoding": "utf8"}
    if database == "sqlite":
        settings = {"poolclass": NullPool, "connect_args": {"timeout": LOCK_TIMEOUT_S}}
    engine = create_engine(url, hide_parameters=True, **settings)
    if database == "sqlite":
        _begin_immediate(engine)
    else:
        # Before SQLAlchemy's own first look, by which it quotes names as the mode says.
        event.listen(engine, "connect", _SESSIONS[database], insert=True)
    return engine


def _begin_immediate(engine: Engine) -> None:
    # sqlite3 opens transactions when it likes to; a reader that becomes a writer is refused at once, without waiting.
    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        connection.execute("pragma synchronous=full")

    @event.listens_for(engine, "begin")
    def begun(connection: Any) -> None:
        connection.exec_driver_sql("begin immediate")


def _postgresql_session(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        # A user's or database's own settings may be looser; a pre-commit that is not on disk is none.
        cursor.execute(
            "select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit')"
            " in ('off', 'local')"
        )
        cursor.execute(f"set lock_timeout = '{LOCK_TIMEOUT_S}s'")
        cursor.execute("set timezone = 'UTC'")
        # A server notices in the middle of a long merge that its driver is gone, instead of at its end (version 14).
        cursor.execute(
            "select set_config(name, '2s', false) from pg_settings where name = 'client_connection_check_interval'"
        )
    connection.commit()


def _mysql_session(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        # What a value means must not hang on the server's or the user's modes: some make null of an empty text. By
        # NO_AUTO_VALUE_ON_ZERO 0 is 0 where a column counts by itself.
        cursor.execute("set session sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION'")
        cursor.execute(f"set session innodb_lock_wait_timeout = {LOCK_TIMEOUT_S}")
        cursor.execute("set session time_zone = '+00:00'")
        cursor.execute("set session transaction isolation level read committed")
    connection.commit()


_SESSIONS = {"postgresql": _postgresql_session, "mysql": _mysql_session, "mariadb": _mysql_session}
