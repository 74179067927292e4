"""A commit that is complete but for its last word: the transaction of the check, kept until the decision.

Must not know: what is written in it, decisions, the journal.

What was tried is thrown away where a database offers no more: then the merge runs twice, and what somebody else writes
in between may refuse the second one. PostgreSQL can be asked to end an idle transaction by itself
(``idle_in_transaction_session_timeout``), so there it is kept: a driver that is stopped or cut off holds its locks for
that long at most, and whoever waits for one of them is more patient than that. Nothing hangs on it: what is staged is
there until the transaction has committed, and a transaction that is gone is one that was not kept.

Of one job in one database one is kept: two sinks may write the same row (a key, a counter of a trigger), and the second
would wait for the first, which waits for the decision. No database sees that as a deadlock.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from onceflow.twophase.participants import Participant

_lock = threading.Lock()
_all = weakref.WeakSet["HeldCommit"]()


class HeldCommit:
    """At most one transaction, of one participant. The epoch's thread keeps and releases it; another may end it.

    Attributes:
        of: The job, and the tables' lasting id.
    """

    def __init__(self, *of: str) -> None:
        self.of = of
        self._held: tuple[str, Connection] | None = None
        with _lock:
            _all.add(self)

    def keep(self, handle: str, connection: Connection) -> None:
        """Keep a connection with its transaction, which is bound.

        Args:
            handle: Of the participant that it commits.
            connection: In the transaction. It is this one's from here on.
        """
        self.release()
        with _lock:
            self._held = handle, connection

    def end(self, handle: str) -> bool:
        """Commit what is kept of a participant; False where nothing is.

        Raises:
            DBAPIError: No answer, or it is gone. Whether it has committed says the ledger.
        """
        held = self._taken()
        if held is None:
            return False
        # Without a transaction a commit would say that all is well, and have done nothing.
        if held[0] != handle or not held[1].in_transaction():
            _undo(held[1])
            return False
        try:
            held[1].commit()
        finally:
            with suppress(DBAPIError):
                held[1].close()
        return True

    def release(self) -> None:
        """Undo what is kept."""
        held = self._taken()
        if held is not None:
            _undo(held[1])

    def release_of(self, participants: Sequence[Participant]) -> None:
        """Undo it if it is one of these participants'."""
        held = self._held
        if held is not None and held[0] in {p.handle for p in participants}:
            self.release()

    def release_others(self) -> None:
        """Undo what other sinks of the job keep in this database."""
        with _lock:
            others = [each for each in _all if each is not self and each.of == self.of]
        for each in others:
            each.release()

    def _taken(self) -> tuple[str, Connection] | None:
        with _lock:
            held, self._held = self._held, None
        return held


def _undo(connection: Connection) -> None:
    """Hang up: the server then takes it back. An answer to a ROLLBACK may not come, and nobody needs it."""
    with suppress(DBAPIError):
        connection.invalidate()
    with suppress(DBAPIError):
        connection.close()
