"""What the driver writes into the journal, and tells outside beside it: starts, decisions, what undoes them.

Must not know: the rules, sinks, what is decided.
"""

from __future__ import annotations

from onceflow import crash_points as crash
from onceflow.checkpoint.identity import JobIdentity
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.errors import CheckpointStoreError
from onceflow.execution.job_log import JobLog
from onceflow.execution.marks import StartMarks
from onceflow.twophase.messages import Adopted, Append, Appended, AppendVoid, Confirmed, Event, Synced, Unanswered
from onceflow.twophase.records import Decide, History, Replay, ReplayBegin, Start


class Recording:
    """That of one start.

    Args:
        journal: The checkpoint's journal.
        checkpoint: Spark's side of the checkpoint.
        identity: Whose checkpoint it is.
        marks: Told of each start and decision.
        log: The job's.
    """

    def __init__(
        self, journal: Journal, checkpoint: SparkCheckpoint, identity: JobIdentity, marks: StartMarks, log: JobLog
    ) -> None:
        self._journal = journal
        self._checkpoint = checkpoint
        self._identity = identity
        self._marks = marks
        self._log = log

    def start(self, above: int, said: Start) -> History:
        """Append this start; what the journal says behind it.

        Args:
            above: Its number is greater than this.
            said: What it says beside its number and its job.
        """
        history = self._journal.start(self._identity.job_id, above, self._identity.left, said)
        if self._journal.is_newest():  # else an older mark would take the place of a newer start's
            self._marks.write(history.decided.epoch if history.decided else -1, history.incarnation)
        return history

    def sync(self, epoch: int) -> Event:
        """Have ``offsets/<epoch>`` outlive a power cut: the decision holds its bytes."""
        try:
            self._checkpoint.sync(epoch)
        except CheckpointStoreError as error:
            return Unanswered(error.what)
        return Synced()

    def append(self, action: Append) -> Event:
        """Append a record. Of a decision the mark outside is told, beside the epoch."""
        record = action.record
        result = self._journal.append(record)
        if isinstance(record, ReplayBegin | Replay) and isinstance(result, Appended):
            self._log.warning("epoch %d: %s", record.epoch, _in_words(record))
        if isinstance(record, Decide) and isinstance(result, Appended):
            self._marks.write(record.epoch, record.incarnation)
            crash.reach("D5", record.epoch)
        return result

    def append_void(self, action: AppendVoid) -> Event:
        """Append that an epoch is not decided, unless it is."""
        result = self._journal.append_void(action.record)
        if isinstance(result, Adopted):  # it is decided after all, so an older copy must be noticed from here on
            self._marks.write(action.record.epoch, action.record.incarnation)
        return result

    def confirm(self) -> Event:
        """Look whether this start is the newest."""
        try:
            return Confirmed(newest=self._journal.is_newest())
        except CheckpointStoreError as error:
            return Unanswered(error.what)


def _in_words(record: ReplayBegin | Replay) -> str:
    """A replay's record, for the log."""
    if isinstance(record, ReplayBegin):
        return "a decided transaction is proven lost: its records are written again from the checkpoint's offsets"
    return (
        f"written again: {len(record.participants)} new transactions are decided, {len(record.kept)} of before are kept"
    )
