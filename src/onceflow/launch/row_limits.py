"""What sinks take of a row, for one start: as it is now, or as it was for an epoch that was decided.

Must not know: what a limit means, Spark, how an epoch commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onceflow.checkpoint.place import Place
from onceflow.connectors.contract import Sink
from onceflow.errors import CheckpointConflictError


class RowLimits:
    """Those of one start, or of who runs epochs again.

    An epoch that is decided and not done is run again with the limits of its own time, and with it the whole start: a
    plan has one set of them. The next start takes those that hold by then.

    Args:
        place: The checkpoint.
        again: Decided epochs are run again, whether they are done or not.
    """

    def __init__(self, place: Place, *, again: bool = False) -> None:
        self._place = place
        self._again = again
        self._told: dict[str, Any] = {}
        self._kept: dict[str, Any] | None = None

    def of(self, sink: Sink) -> Mapping[str, Any]:
        """What a sink's system takes.

        Raises:
            OnceflowError: The system did not answer, or the checkpoint's file is spoiled.
        """
        if self._kept is None:
            self._kept = self._place.row_limits.read()
            self._again = self._again or self._place.has_undone()
        if self._again and sink.name in self._kept:
            told: dict[str, Any] = self._kept[sink.name]
        else:
            told = dict(sink.row_limits())
        self._told[sink.name] = told
        return told

    def keep(self) -> None:
        """Keep what was told, before the query begins that goes by it.

        Raises:
            CheckpointConflictError: An epoch was decided by other limits since they were looked at.
            CheckpointStoreError: It could not be written.
        """
        if not self._told or self._told == self._kept:
            return
        if not self._again and self._kept and self._place.has_undone():
            raise CheckpointConflictError(
                "a driver of an older start has decided an epoch while this start looked at its sinks, and what they "
                "take of a row has changed since",
                harmless="always: what is decided is committed by the next start",
                cause="a table or a topic was altered while one start took over from another",
                action="start the job again",
            )
        self._place.row_limits.keep(self._told)
