"""A checkpoint with all that is kept there, from its location.

Must not know: a job, its sinks, how a query runs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Self

from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.checkpoint.store import LocalStore, file_uri, local_path
from onceflow.twophase.records import HistoryError

OURS = "onceflow"
"""The folder inside the checkpoint that is ours; the rest is Spark's."""


@dataclass(frozen=True, slots=True)
class Place:
    """A checkpoint.

    Attributes:
        uri: Its one name, for messages and ``job.json``.
        checkpoint: Spark's files.
        ours: Our folder, with ``job.json``.
        records: The journal's folder.
        journal: The journal.
    """

    uri: str
    checkpoint: SparkCheckpoint
    ours: LocalStore
    records: LocalStore
    journal: Journal

    @classmethod
    def at(cls, location: str | os.PathLike[str], retain: int) -> Self:
        """The checkpoint at a location; nothing is made there.

        Args:
            location: A path or a ``file:`` URI.
            retain: How many epochs back records are kept.

        Raises:
            ConfigurationError: The location is refused.
        """
        folder = local_path(location)
        ours = LocalStore(folder / OURS)
        records = LocalStore(ours.folder / "journal")
        return cls(file_uri(folder), SparkCheckpoint.at(folder), ours, records, Journal(records, retain=retain))

    def has_undone(self) -> bool:
        """Whether a decided epoch is not recorded as done; two of them are the start's business, too."""
        try:
            return self.journal.history()[0].undone(self.checkpoint.newest_commit()) is not None
        except HistoryError:
            return True
