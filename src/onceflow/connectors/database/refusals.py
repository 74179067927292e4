"""What a database's error means: the row, a right, the connection, or a wait that ended.

Must not know: sinks' tables, staging, decisions. Never tells a row's values: only names of constraints and columns.
"""

from __future__ import annotations

from enum import Enum

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from onceflow.errors import DatabaseRightsError, DatabaseUnavailableError, OnceflowError


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
_ROW_CLASSES = {"21", "22", "23"}
_PASSING = {"25P03", "55P03", "57014", "57P01", "57P02", "57P03"}
_PASSING_CLASSES = {"08", "40", "53", "58"}
# A login that is refused has no SQLSTATE: the server's words, which a server of another language says otherwise.
_NO_LOGIN = ("authentication failed", "no pg_hba.conf entry", "does not exist", "no password supplied", "not permitted")
# MySQL's and MariaDB's numbers.
_MYSQL_RIGHT = {1044, 1045, 1049, 1054, 1142, 1143, 1146, 1227, 1290, 1370}
_MYSQL_PASSING = {1053, 1205, 1213, 1927, 2002, 2003, 2006, 2013, 2014, 2055, 1021, 1041, 1040, 1114}
_MYSQL_ROW = {1048, 1062, 1264, 1265, 1292, 1366, 1406, 1452, 3140, 3819, 4025, 1364}


def refusal(error: DBAPIError) -> Refusal:
    """What would help against an error of a statement or a connection."""
    if error.connection_invalidated:
        return Refusal.PASSING
    number = error.orig.args[0] if error.orig is not None and error.orig.args else None
    state = getattr(error.orig, "sqlstate", None)
    if isinstance(state, str) and not isinstance(number, int):  # MySQL's errors have both, and the number says more
        if state in _RIGHT:
            return Refusal.RIGHT
        if state in _PASSING or state[:2] in _PASSING_CLASSES:
            return Refusal.PASSING
        return Refusal.ROW if state[:2] in _ROW_CLASSES else Refusal.RIGHT
    if isinstance(number, int):
        if number in _MYSQL_PASSING:
            return Refusal.PASSING
        return Refusal.ROW if number in _MYSQL_ROW else Refusal.RIGHT
    if isinstance(error, IntegrityError | DataError):
        return Refusal.ROW
    said = str(error.orig)
    if type(error.orig).__module__.startswith("sqlite3"):
        return Refusal.RIGHT if any(each in said for each in ("no such", "readonly", "no column")) else Refusal.PASSING
    return Refusal.RIGHT if any(each in said for each in _NO_LOGIN) else Refusal.PASSING


def told_of(error: DBAPIError, who: str, what: str) -> OnceflowError:
    """The error of a question that was not answered, or of a change that was not made.

    Args:
        error: The database's.
        who: Whom it is told of: "sink payments: the database"; with its address where the settings are new.
        what: What it was asked to do.
    """
    if refusal(error) is Refusal.PASSING:
        return DatabaseUnavailableError(
            f"{who} did not answer when asked to {what}: {words(error)}",
            harmless="for the data: what is decided stays staged, and the next start goes on",
            cause="the database is down, is not reached, or somebody holds a lock",
            action="see to the database, or correct the URL; then start the job again. If it is gone for good, take "
            "the sink out of the job: a start then says how what is decided for it is given up",
        )
    return DatabaseRightsError(
        f"{who} refused to {what}: {words(error)}",
        harmless="for the data: nothing was changed",
        cause="the login is wrong, a right is missing, or a table is not there or was altered",
        action="grant what docs/databases.md lists, put the table right, or correct the URL or schema=; then start the "
        "job again",
    )


def words(error: DBAPIError) -> str:
    """The error in a line that has no row's values in it."""
    diagnosed = getattr(error.orig, "diag", None)
    kind = type(error.orig).__name__
    if diagnosed is not None and getattr(diagnosed, "sqlstate", None):
        named = (
            (diagnosed.constraint_name, "constraint"),
            (diagnosed.column_name, "column"),
            (diagnosed.table_name, "table"),
        )
        about = ", ".join(f"{what} {name}" for name, what in named if name)
        primary = diagnosed.message_primary or "" if diagnosed.sqlstate[:2] not in _ROW_CLASSES else ""
        return ": ".join(part for part in (f"{kind} ({diagnosed.sqlstate})", primary, about) if part)
    number = error.orig.args[0] if error.orig is not None and error.orig.args else ""
    if isinstance(number, int):
        return f"{kind} ({number})"
    # SQLite names the constraint's columns, never values.
    tells = isinstance(error, IntegrityError) or refusal(error) is not Refusal.ROW
    return f"{kind}: {' '.join(str(error.orig).split())}" if tells else kind
