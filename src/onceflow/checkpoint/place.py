"""A checkpoint with all that is kept there, from its location.

Must not know: a job, its sinks, how a query runs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Self

from onceflow.checkpoint.failures import Failures
from onceflow.checkpoint.identity import FILE as IDENTITY_FILE
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.row_limits import KeptRowLimits
from onceflow.checkpoint.schemas import FOLDER, KeptSchemas
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.checkpoint.statistics import Statistics
from onceflow.storage.locations import file_uri, local_path
from onceflow.storage.store import Store
from onceflow.twophase.records import HistoryError

OURS = "onceflow"
"""The folder inside the checkpoint that is ours; the rest is Spark's."""

PARTS = (".metadata.crc", "metadata", "offsets", "commits", "sources", "state", OURS)
"""What is a job's in the folder of its checkpoint: other things may lie there."""

TRAIL = "audit"
"""The folder in ours that has the audit's receipts."""


@dataclass(frozen=True, slots=True)
class Place:
    """A checkpoint.

    Attributes:
        uri: Its one name, for messages and ``job.json``.
        checkpoint: Spark's files.
        ours: Our folder, with ``job.json``.
        records: The journal's folder.
        journal: The journal.
        statistics: What the newest epochs were like.
        failures: What the job has failed by.
    """

    uri: str
    checkpoint: SparkCheckpoint
    ours: Store
    records: Store
    journal: Journal
    statistics: Statistics
    failures: Failures

    @classmethod
    def at(cls, location: str | os.PathLike[str], retain: int) -> Self:
        """The checkpoint at a location on a POSIX file system; nothing is made there.

        Args:
            location: A path or a ``file:`` URI.
            retain: How many epochs back records are kept.

        Raises:
            ConfigurationError: The location is refused.
        """
        folder = local_path(location)
        return cls.on(Store(folder), file_uri(folder), retain)

    @classmethod
    def on(cls, store: Store, uri: str, retain: int) -> Self:
        """The checkpoint in a store.

        Args:
            store: Its folder.
            uri: Its one name.
            retain: As of ``at``.
        """
        ours = store.below(OURS)
        records = ours.below("journal")
        told = Statistics(ours.below("statistics")), Failures(ours.below("failures"))
        return cls(uri, SparkCheckpoint(store), ours, records, Journal(records, retain=retain), *told)

    @property
    def trail(self) -> Store:
        """The folder of the audit's receipts."""
        return self.ours.below(TRAIL)

    @property
    def schemas(self) -> KeptSchemas:
        """The schemas that the job reads and writes by."""
        return KeptSchemas(self.ours.below(FOLDER))

    @property
    def row_limits(self) -> KeptRowLimits:
        """What the systems of the job's sinks took of a row."""
        return KeptRowLimits(self.ours)

    def is_empty(self) -> bool:
        """Whether nothing is here of any job or query: a place where a new job begins."""
        return IDENTITY_FILE not in self.ours.names() and not self.records.names() and not self.checkpoint.has_run()

    def has_begun(self) -> bool:
        """Whether a job's name is here: whose checkpoint it is was settled once."""
        return IDENTITY_FILE in self.ours.names()

    def has_undone(self) -> bool:
        """Whether a decided epoch is not recorded as done; two of them are the start's business, too."""
        try:
            return self.journal.history()[0].undone(self.checkpoint.newest_commit()) is not None
        except HistoryError:
            return True
