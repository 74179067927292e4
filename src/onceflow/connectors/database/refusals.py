"""What a database's error means: the row, a right, the connection, or a wait that ended.

Must not know: sinks' tables, staging, decisions. Never tells a row's values: only names of constraints and columns.
"""

from __future__ import annotations

import re
from enum import Enum

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from onceflow.errors import ConfigurationError, DatabaseRightsError, DatabaseUnavailableError, OnceflowError


class Refusal(Enum):
    """What a database would not do, by what helps."""

    ROW = "row"
    """A row that a constraint or a type does not take: it would not at the next try either."""
    RIGHT = "right"
    """A right is missing, or a table is gone or has changed: somebody has to see to it."""
    PASSING = "passing"
    """No answer, a lock that did not come, a deadlock: trying again is right."""


# PostgreSQL's SQLSTATEs; classes are two characters.
_RIGHT = {"42501", "42P01", "42703", "3F000", "42883", "42804", "25006", "28000", "28P01", "3D000"}
# Of constraints and types, of a view's check option, of limits (a row that is too long for an index), and raised.
_ROW_CLASSES = {"21", "22", "23", "44", "54", "P0"}
# What these say may have a row's values in it.
_UNSAID_CLASSES = {"21", "22", "23", "P0"}
_RAISED = re.compile(r"PL/pgSQL function (\S+?)\(")
# What was prepared, by a driver that prepares what it says often, is not on the connection, or there already.
_POOLED = {"26000", "42P05"}
_GONE = {"42P01", "42703", 1146, 1054}
_PASSING = {"25P03", "55P03", "57014", "57P01", "57P02", "57P03"}
_PASSING_CLASSES = {"08", "40", "53", "58"}
# A statement's time-out, a limit of the settings (temp_file_limit): of the same rows again at each start.
_BROKEN_OFF = {"57014", "53400"}
# SQLite's primary codes: ERROR, CORRUPT, TOOBIG, MISMATCH, MISUSE, FORMAT, RANGE, NOTADB.
_SQLITE_STAYS = {1, 11, 18, 20, 21, 24, 25, 26}
# A login that is refused has no SQLSTATE: the server's words, which a server of another language says otherwise.
_NO_LOGIN = ("authentication failed", "no pg_hba.conf entry", "does not exist", "no password supplied", "not permitted")
# MySQL's and MariaDB's numbers.
_MYSQL_RIGHT = {1044, 1045, 1049, 1054, 1142, 1143, 1146, 1227, 1290, 1370}
_MYSQL_PASSING = {1053, 1205, 1213, 1927, 2002, 2003, 2006, 2013, 2014, 2055, 1021, 1041, 1040, 1114}
_MYSQL_ROW = {1048, 1062, 1118, 1264, 1265, 1292, 1364, 1366, 1369, 1406, 1451, 1452, 1644, 1690, 3140, 3819, 4025}
_FOREIGN_KEY = {"23503", 1451, 1452}


def refusal(error: DBAPIError) -> Refusal:
    """What would help against an error of a statement or a connection."""
    if _is_pooled(error):
        return Refusal.RIGHT
    if error.connection_invalidated:
        return Refusal.PASSING
    code = _code(error)
    if isinstance(code, str):
        if code in _RIGHT:
            return Refusal.RIGHT
        if code in _PASSING or code[:2] in _PASSING_CLASSES:
            return Refusal.PASSING
        return Refusal.ROW if code[:2] in _ROW_CLASSES or _raised_in(error) else Refusal.RIGHT
    if isinstance(code, int):
        if code in _MYSQL_PASSING:
            return Refusal.PASSING
        return Refusal.ROW if code in _MYSQL_ROW else Refusal.RIGHT
    if isinstance(error, IntegrityError | DataError):
        return Refusal.ROW
    said = str(error.orig)
    if type(error.orig).__module__.startswith("sqlite3"):
        return Refusal.RIGHT if any(each in said for each in ("no such", "readonly", "no column")) else Refusal.PASSING
    return Refusal.RIGHT if any(each in said for each in _NO_LOGIN) else Refusal.PASSING


def _code(error: DBAPIError) -> str | int | None:
    """PostgreSQL's SQLSTATE; MySQL's number, whose errors have both, and it says more. SQLite has neither here."""
    number = error.orig.args[0] if error.orig is not None and error.orig.args else None
    state = getattr(error.orig, "sqlstate", None)
    return number if isinstance(number, int) else state if isinstance(state, str) else None


def _raised_in(error: DBAPIError) -> str | None:
    """The function, of a trigger, in which PostgreSQL met the error."""
    found = _RAISED.match(getattr(getattr(error.orig, "diag", None), "context", None) or "")
    return found[1] if found else None


def answer_of(error: DBAPIError) -> str:
    """The code of what a database breaks off of what passes, and would break off again; "" where waiting is right.

    No answer, no room, a lock, a deadlock and whatever is not known to stay are waited for.
    """
    code = _code(error)
    if error.connection_invalidated or refusal(error) is not Refusal.PASSING:
        return ""
    if isinstance(code, str):
        return code if code in _BROKEN_OFF else ""
    number = getattr(error.orig, "sqlite_errorcode", None)
    stays = isinstance(number, int) and number & 0xFF in _SQLITE_STAYS
    return str(getattr(error.orig, "sqlite_errorname", number)) if stays else ""


def is_gone(error: DBAPIError) -> bool:
    """Whether a table or a column is not there: one of onceflow's own is made again by the next start."""
    return _code(error) in _GONE or any(each in str(error.orig) for each in ("no such table", "no column named"))


def by_foreign_key(error: DBAPIError) -> bool:
    """Whether a row is refused that names another one which is not there."""
    return _code(error) in _FOREIGN_KEY or "FOREIGN KEY constraint failed" in str(error.orig)


def told_of(error: DBAPIError, who: str, what: str) -> OnceflowError:
    """The error of a question that was not answered, or of a change that was not made.

    Args:
        error: The database's.
        who: Whom it is told of: "sink payments: the database"; with its address where the settings are new.
        what: What it was asked to do.
    """
    if answer := answer_of(error):
        return DatabaseUnavailableError(
            f"{who} broke off when asked to {what}: {words(error)}",
            harmless="for the data: what is decided stays staged, and the next start goes on",
            cause="a limit of the server or of the login (statement_timeout, temp_file_limit), somebody who has "
            "cancelled the statement, or a file of the database that is spoiled",
            action="raise the limit or see to the database; then start the job again",
            refusal=f"{who} ({answer})",
        )
    if refusal(error) is Refusal.PASSING:
        return DatabaseUnavailableError(
            f"{who} did not answer when asked to {what}: {words(error)}",
            harmless="for the data: what is decided stays staged, and the next start goes on",
            cause="the database is down, is not reached, or somebody holds a lock",
            action="see to the database, or correct the URL; then start the job again. If it is gone for good, take "
            "the sink out of the job: a start then says how what is decided for it is given up",
        )
    if _is_pooled(error):
        return by_pooler(f"{who} refused to {what}: {words(error)}")
    return DatabaseRightsError(
        f"{who} refused to {what}: {words(error)}",
        harmless="for the data: nothing was changed",
        cause="the login is wrong, a right is missing, or a table is not there or was altered",
        action="grant what docs/databases.md lists, put the table right, or correct the URL or schema=; then start the "
        "job again",
    )


def by_pooler(what: str) -> ConfigurationError:
    """The error of a connection that is another one in its next transaction."""
    return ConfigurationError(
        what,
        harmless="for the data: nothing was changed",
        cause="the URL leads to a pooler that gives each transaction another connection (pgbouncer with "
        "pool_mode=transaction): what a connection was told before is not there, also not what a commit rests on",
        action="connect to the server itself, or through a pooler of sessions (pool_mode=session)",
    )


def _is_pooled(error: DBAPIError) -> bool:
    return _code(error) in _POOLED or (_code(error) == "08P01" and "statement pooling mode" in str(error.orig))


def words(error: DBAPIError) -> str:
    """The error in a line that has no row's values in it."""
    diagnosed = getattr(error.orig, "diag", None)
    kind = type(error.orig).__name__
    if diagnosed is not None and getattr(diagnosed, "sqlstate", None):
        named = (
            (_raised_in(error), "function"),
            (diagnosed.constraint_name, "constraint"),
            (diagnosed.column_name, "column"),
            (diagnosed.table_name, "table"),
        )
        about = ", ".join(f"{what} {name}" for name, what in named if name)
        said = diagnosed.sqlstate[:2] not in _UNSAID_CLASSES and _raised_in(error) is None
        primary = diagnosed.message_primary or "" if said else ""
        return ": ".join(part for part in (f"{kind} ({diagnosed.sqlstate})", primary, about) if part)
    number = error.orig.args[0] if error.orig is not None and error.orig.args else ""
    if isinstance(number, int):
        return f"{kind} ({number})"
    # SQLite names the constraint's columns, never values.
    tells = isinstance(error, IntegrityError) or refusal(error) is not Refusal.ROW
    return f"{kind}: {' '.join(str(error.orig).split())}" if tells else kind
