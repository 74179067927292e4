"""A commit that is complete but for its last word: the transaction of the check, kept until the decision.

Must not know: what is written in it, decisions, the journal.

What was tried is thrown away where a database offers no more: then the merge runs twice, and what somebody else writes
in between may refuse the second one. PostgreSQL can be asked to end an idle transaction by itself
(``idle_in_transaction_session_timeout``), so there it is kept: a driver that is stopped or cut off holds its locks for
that long at most, and whoever waits for one of them is more patient than that. Nothing hangs on it: what is staged is
there until the transaction has committed, and a transaction that is gone is one that was not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from onceflow.connectors.database.urls import LOCK_TIMEOUT_S
from onceflow.twophase.participants import Participant

HELD_S = LOCK_TIMEOUT_S // 2
"""How long the server keeps it for a driver that says nothing, in seconds: less than others wait for a lock."""


class HeldCommit:
    """At most one transaction, of one participant. The epoch's thread keeps and releases it; another may end it."""

    def __init__(self) -> None:
        self._held: tuple[str, Connection] | None = None

    @staticmethod
    def is_offered(connection: Connection) -> bool:
        """Whether the database ends a transaction by itself whose driver says nothing more."""
        return connection.dialect.name == "postgresql"

    def keep(self, handle: str, connection: Connection) -> None:
        """Keep a connection with its transaction.

        Args:
            handle: Of the participant that it commits.
            connection: In the transaction. It is this one's from here on.

        Raises:
            DBAPIError: The database did not take the bound; nothing is kept.
        """
        self.release()
        connection.execute(text(f"set local idle_in_transaction_session_timeout = '{HELD_S}s'"))
        self._held = handle, connection

    def end(self, handle: str) -> bool:
        """Commit what is kept of a participant; False where nothing is.

        Raises:
            DBAPIError: No answer, or it is gone. Whether it has committed says the ledger.
        """
        held, self._held = self._held, None
        if held is None:
            return False
        if held[0] != handle:
            _undo(held[1])
            return False
        try:
            held[1].commit()
        finally:
            _undo(held[1])  # closes: there is nothing to undo where it has committed
        return True

    def release(self) -> None:
        """Undo what is kept."""
        held, self._held = self._held, None
        if held is not None:
            _undo(held[1])

    def release_of(self, participants: Sequence[Participant]) -> None:
        """Undo it if it is one of these participants'."""
        held = self._held
        if held is not None and held[0] in {p.handle for p in participants}:
            self.release()


def _undo(connection: Connection) -> None:
    with suppress(DBAPIError):
        connection.close()
