"""What a database's error means: the row, a right, the connection, or a wait that ended.

Must not know: sinks' tables, staging, decisions. Never tells a row's values: only names of constraints and columns.
"""

from __future__ import annotations

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from onceflow.connectors.database.system import Refusal
from onceflow.connectors.database.urls import database_that_said
from onceflow.errors import ConfigurationError, DatabaseRightsError, DatabaseUnavailableError, OnceflowError


def refusal(error: DBAPIError) -> Refusal:
    """What would help against an error of a statement or a connection."""
    database = database_that_said(error)
    if database.is_pooled(error):
        return Refusal.RIGHT
    if error.connection_invalidated:
        return Refusal.PASSING
    if meant := database.meaning(error):
        return meant
    if isinstance(error, IntegrityError | DataError):
        return Refusal.ROW
    return Refusal.RIGHT if any(each in str(error.orig) for each in database.refusing) else Refusal.PASSING


def answer_of(error: DBAPIError) -> str:
    """The code of what a database breaks off of what passes, and would break off again; "" where waiting is right.

    No answer, no room, a lock, a deadlock and whatever is not known to stay are waited for.
    """
    if error.connection_invalidated or refusal(error) is not Refusal.PASSING:
        return ""
    return database_that_said(error).broken_off(error)


def translated(error: DBAPIError, who: str, what: str) -> OnceflowError:
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
    if database_that_said(error).is_pooled(error):
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


def words(error: DBAPIError) -> str:
    """The error in a line that has no row's values in it."""
    if said := database_that_said(error).words(error):
        return said
    kind = type(error.orig).__name__
    # SQLite names the constraint's columns, never values.
    tells = isinstance(error, IntegrityError) or refusal(error) is not Refusal.ROW
    return f"{kind}: {' '.join(str(error.orig).split())}" if tells else kind
