"""Straight into the target: a task merges its own rows when it is done.

Must not know: Spark, the journal, what is decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onceflow.connectors.database.keys import require_keys
from onceflow.connectors.database.merge import merge_whole
from onceflow.connectors.database.target import TargetError, objection
from onceflow.connectors.database.writer import DatabaseWriter

if TYPE_CHECKING:
    from sqlalchemy import Connection


class DirectWriter(DatabaseWriter):
    """Stages one attempt's rows, and merges them with its pre-commit, in one transaction."""

    def prepare(self) -> Mapping[str, Any]:
        """Merge, and say that this is all."""
        try:
            return super().prepare()
        except TargetError as error:
            raise objection(error, self._of.sink, self._shard.run.epoch) from None

    def _all_staged(self, connection: Connection, rows: int) -> None:
        target, ids, epoch = self._of.target, [self._id], self._shard.run.epoch
        require_keys(connection, self._of.schema, target, ids, self._of.sink, epoch)
        merge_whole(connection, self._of.schema, target, ids, rows)
