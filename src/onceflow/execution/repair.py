"""Spark's ``offsets/``, kept what the journal proves, whatever a power cut or a driver that slept has made of them.

Must not know: the rules, sinks. It puts files right; whether an epoch is run or taken back, the rules say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.errors import EpochFailedError, FencedError
from onceflow.execution.job_log import JobLog
from onceflow.twophase.records import DecidedEpoch


class Repair:
    """That of one start.

    Args:
        checkpoint: Spark's side of the checkpoint.
        journal: The checkpoint's journal.
        job_id: The job's.
        fenced: Makes the error for a newer start.
        log: The job's.
    """

    def __init__(
        self, checkpoint: SparkCheckpoint, journal: Journal, job_id: str, fenced: Callable[[], FencedError], log: JobLog
    ) -> None:
        self._checkpoint = checkpoint
        self._journal = journal
        self._job_id = job_id
        self._fenced = fenced
        self._log = log
        self._ran: dict[int, str] = {}

    def at_start(self, *, undone: bool) -> None:
        """Put right what a power cut left empty or took, and what was written over since.

        Args:
            undone: An epoch is decided and not done: what is missing of Spark's files is looked at behind its commit.
        """
        self._checkpoint.mend(self._journal.decided_offsets, refusing=not undone)
        done = self._done()
        for epoch in self._checkpoint.other_than(done):
            self._checkpoint.put_right(epoch, done[epoch])
        self._journal.passed.adopt(max(done.items(), default=None))
        self._ran = done

    def before_epoch(self, *, first: bool) -> None:
        """Put right what a driver that slept has written over ``offsets/`` of the epoch before.

        Spark has read it when its query began: written over between this start's own look and that, it has Spark begin
        the first epoch at another place. So that one is not run; behind it Spark goes by what it has in memory.

        Args:
            first: No epoch of this start is done yet.

        Raises:
            EpochFailedError: Spark may have read what was written over.
        """
        other = self._checkpoint.other_than(self._ran)
        for epoch in other:
            self._put_right(epoch, self._ran[epoch])
        if other and first:
            raise EpochFailedError(
                f"offsets/{other[-1]} was written over while this start began, and Spark may have read it: the epoch "
                "behind it could read records once more, or leave some out",
                harmless="always for the data: nothing of the epoch was run, and the file is right again",
                cause="a driver of an older start slept while it planned an epoch, and woke up now",
                action="start the job again; it goes on from what is decided",
                epoch=other[-1],
            )

    def ran(self, epoch: int, offsets: str) -> None:
        """The epoch was run over this range."""
        self._ran = {epoch: offsets}

    def behind_epoch(self, epoch: int, offsets: str, decided: DecidedEpoch | None) -> None:
        """See before the return that ``offsets/<epoch>`` is what was run, and keep it where no decision does."""
        if decided is None or decided.epoch != epoch:
            self._journal.passed.note(epoch, offsets)
        if self._checkpoint.offsets(epoch) != offsets:
            self._put_right(epoch, offsets)

    def restore(self, epoch: int, offsets: str, before: str) -> None:
        """Make ``offsets/<epoch>`` what was decided, and where it begins what it began behind, unless that is ""."""
        self._put_right(epoch, offsets)
        if before:
            self._begin_at(epoch, before)

    def take_back(self, epoch: int, planned: Sequence[int], before: str) -> None:
        """Take back Spark's plan of an epoch, which is then planned anew, behind ``before`` unless that is ""."""
        self._log.warning("Spark's plan of epoch %d is taken back: it is not decided, and is planned anew", epoch)
        self._checkpoint.take_back(epoch, planned)
        if before:
            self._begin_at(epoch, before)

    def _begin_at(self, epoch: int, before: str) -> None:
        self._checkpoint.set_start(epoch, before)
        self._ran[epoch - 1] = before  # which stands in its file now, whatever it had read

    def _put_right(self, epoch: int, offsets: str) -> None:
        if self._journal.is_replaced():
            raise self._fenced()
        self._checkpoint.put_right(epoch, offsets)

    def _done(self) -> dict[int, str]:
        """What epochs of this job have read, as the journal proves it: those decided, and the last one without."""
        found = {each.epoch: each.offsets for each in self._journal.decided_epochs(self._job_id)}
        moved = self._journal.decided_offsets()  # where an operator has given up rows, behind the decision
        found |= {epoch: moved[epoch] for epoch in found if epoch in moved}
        passed = self._journal.passed.newest()
        if passed is not None and passed[0] not in found:
            found[passed[0]] = passed[1]
        newest = self._checkpoint.newest_commit()
        return {} if newest is None else {n: text for n, text in found.items() if newest - 1 <= n <= newest}
