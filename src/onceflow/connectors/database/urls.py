"""A database's URL: what is taken, which database it is of, and an engine for it. Here alone one is chosen.

Must not know: sinks, staging, decisions, what any of the databases does.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from types import MappingProxyType

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from onceflow.connectors.database.mysql import MariaDb, MySql
from onceflow.connectors.database.postgresql import PostgreSql
from onceflow.connectors.database.sqlite import Sqlite
from onceflow.connectors.database.system import Database
from onceflow.errors import ConfigurationError, RefusedSettingError

_DATABASES: Mapping[str, Database] = MappingProxyType(
    {"postgresql": PostgreSql(), "mysql": MySql(), "mariadb": MariaDb(), "sqlite": Sqlite()}
)
"""Each database, by SQLAlchemy's word, with which a URL begins."""


def database_named(name: str) -> Database:
    """The database that a URL which begins so is of."""
    return _DATABASES[name]


def database_of(of: Connection | Engine) -> Database:
    """The database that a connection is to; a URL that says mysql reaches MariaDB as well."""
    return database_named("mariadb" if getattr(of.dialect, "is_mariadb", False) else of.dialect.name)


def database_that_said(error: DBAPIError) -> Database:
    """The database of an error, by the driver that it comes from. What came from none of them is read as SQL's own."""
    modules = {each.__module__.partition(".")[0] for each in type(error.orig).__mro__}
    return next((each for each in _DATABASES.values() if each.module in modules), _DATABASES["postgresql"])


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
    name = url.get_backend_name()
    if name not in _DATABASES:
        raise ConfigurationError(
            f"DatabaseSink does not write to {name!r}",
            action=f"use one of {', '.join(_DATABASES)}, or write a sink of your own (docs/sinks.md)",
        )
    database = _DATABASES[name]
    if "+" in url.drivername and url.get_driver_name() != database.driver:
        raise ConfigurationError(
            f"DatabaseSink writes to {name} by {database.driver}, not by {url.get_driver_name()}",
            action=f"leave the driver out of the URL: {name}://...",
        )
    strange = sorted(set(url.query) - database.parameters)
    if strange:
        raise RefusedSettingError(
            f"the URL's parameter {', '.join(strange)} is refused: only what says where and as whom is taken",
            cause="parameters of drivers can read files, run statements, or loosen what a commit rests on",
            action=f"leave it out; taken are: {', '.join(sorted(database.parameters)) or 'none'}",
        )
    database.require_taken(url)
    if importlib.util.find_spec(database.module) is None:
        raise ConfigurationError(
            f"writing to {name} needs the driver {database.module}, which is not installed",
            action=f"install onceflow with its extra [{database.extra}]",
        )
    return url.set(drivername=f"{name}+{database.driver}")


def engine_of(url: URL, *, lasting: bool) -> Engine:
    """An engine whose transactions are durable when they are committed.

    Args:
        url: From ``checked_url``.
        lasting: For the driver: several threads use it. Else for a task: one connection.
    """
    database = database_named(url.get_backend_name())
    engine = create_engine(url, hide_parameters=True, **database.settings(url, lasting=lasting))
    database.listen(engine)
    return engine
