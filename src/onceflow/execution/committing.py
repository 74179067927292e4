"""What the driver asks of its sinks' committers: seal, check, commit, abort, and what became of what was decided.

Must not know: the rules, Spark, the journal, how a sink commits. One order is kept here: of what is decided together,
what expires first is committed first, and nothing before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from itertools import groupby

from onceflow import crash_points as crash
from onceflow.connectors.contract import Committer, Run, evidence_of
from onceflow.errors import OnceflowError
from onceflow.execution.finishers import Finishers
from onceflow.execution.job_log import JobLog
from onceflow.execution.stop import Stop
from onceflow.twophase.messages import Evidence, Reply
from onceflow.twophase.participants import Participant, ParticipantId, TaskReport
from onceflow.twophase.records import History

_ASK_EVERY_S = 0.2
_PAUSE_S = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_TELL_EVERY = 30


class Committing:
    """That of one start.

    Args:
        committers: Of the sinks that take part, by name. They are closed with this object.
        threads: For what goes out to several sinks at once.
        stop: How the job is asked to stop: it ends each pause.
        epoch: The epoch in work.
        log: The job's.
    """

    def __init__(
        self,
        committers: Mapping[str, Committer],
        threads: Executor,
        stop: Stop,
        epoch: Callable[[], int],
        log: JobLog,
    ) -> None:
        self.committers = dict(committers)
        self.finishers = Finishers(self.committers, epoch)
        self.evidence: dict[ParticipantId, Evidence] = {}
        """What was last told of outcomes."""
        self._threads = threads
        self._stop = stop
        self._epoch = epoch
        self._log = log

    def in_order(self) -> Collection[Committer]:
        """The committers, by their sinks' names."""
        return [self.committers[name] for name in sorted(self.committers)]

    def seal(self, reports: Sequence[TaskReport], run: Run) -> tuple[Participant, ...]:
        """The participants of what tasks report, in the order of their ids.

        Raises:
            Exception: What is reported is not what may be decided.
        """
        sealed: list[Participant] = []
        for name, committer in self.committers.items():
            sealed += committer.seal([report for report in reports if report.sink == name], run)
        self.finishers.sealed(sealed)
        return tuple(sorted(sealed, key=lambda p: p.id))

    def check(self, participants: Sequence[Participant], run: Run, age_s: float) -> str | None:
        """Why these cannot be decided, or None. Where nothing is to be decided nobody is asked.

        Args:
            participants: All of the epoch.
            run: The run that made them.
            age_s: How long ago it began.
        """
        if not participants:
            return None
        for name, committer in self.committers.items():
            problem = committer.check([p for p in participants if p.sink == name], run, age_s)
            if problem is not None:
                return problem
        return None

    def commit(self, participants: Sequence[Participant], again: int) -> dict[ParticipantId, Reply]:
        """Send one commit for each.

        Args:
            participants: All that is decided and not known to be committed.
            again: So many rounds went before; a pause grows with them.

        Raises:
            StopRequested: The epoch is given up.
        """
        pause = _PAUSE_S[min(again, len(_PAUSE_S) - 1)]
        if pause:
            self._stop.pause(pause)
        if again and again % _TELL_EVERY == 0:
            self._log.warning(
                "epoch %d is decided and %d commits have no answer yet (round %d); the decision stands and they are "
                "sent again",
                self._epoch(),
                len(participants),
                again,
            )
        replies: dict[ParticipantId, Reply] = {}
        ordered = sorted(participants, key=self.finishers.kept_for_s)
        for together in crash.parted("D6", self._epoch(), ordered):
            for _, wave in groupby(together, key=self.finishers.kept_for_s):
                replies |= self._wave(list(wave), set(replies.values()) - {Reply.COMMITTED})
        crash.reach("D6a", self._epoch())
        return replies

    def _wave(self, wave: Sequence[Participant], before: set[Reply]) -> dict[ParticipantId, Reply]:
        """Commit what is kept for equally long; nothing where what expires sooner is not committed yet.

        So what never expires cannot be visible while the rest of its epoch is lost.
        """
        if before:
            answer = Reply.REFUSED if before == {Reply.REFUSED} else Reply.RETRY
            return {p.id: answer for p in wave}
        by_sink = self.finishers.by_sink(wave)
        waiting = [self._threads.submit(self.committers[name].commit, of) for name, of in by_sink.items()]
        return {who: reply for future in waiting for who, reply in future.result().items()}

    def outcomes(self, participants: Sequence[Participant], *, again: bool) -> Mapping[ParticipantId, Evidence]:
        """What is known of each now; ``again``: not for the first time, so after a pause."""
        if again:
            self._stop.pause(_ASK_EVERY_S)
        self.evidence = {}
        for name, of in self.finishers.by_sink(participants).items():
            self.evidence |= evidence_of(self.committers[name], of)
        return self.evidence

    def refusal(self, participants: Iterable[Participant]) -> OnceflowError:
        """Why these are refused: the system of the one that expires first knows which right is missing."""
        ordered = sorted(participants, key=self.finishers.kept_for_s)
        finisher, of = next(iter(self.finishers.by_sink(ordered).items()))
        return self.committers[finisher].refusal(of)

    def abort_own(self, participants: Sequence[Participant], run: Run) -> None:
        """Abort all that this run has opened, by exact handle. What cannot be reached stays open, and is told."""
        for name, committer in self.committers.items():
            try:
                committer.abort([p for p in participants if p.sink == name])
                committer.abort_run(run)
            except OnceflowError as error:
                self._log.warning("transactions of epoch %d stay open until the next start: %s", run.epoch, error.what)

    def discard(self, participants: Sequence[Participant]) -> None:
        """Abort what was found open of a replaced set, by exact handle.

        Its outcomes are asked next, and whatever is still open comes back here.
        """
        for name, of in self.finishers.by_sink(participants).items():
            self.committers[name].abort(of)
        self._stop.pause(_ASK_EVERY_S)

    def lingering(self, incarnation: int, spared: Sequence[Participant]) -> dict[str, tuple[Participant, ...]]:
        """What is open of incarnations before this one, by the sink whose committer has listed it.

        Every committer is told all that is spared: sinks may share a cluster, and one lists what another's wrote.
        """
        found = {name: tuple(committer.lingering(incarnation, spared)) for name, committer in self.committers.items()}
        crash.reach("S2", incarnation)
        return found

    def abort_lingering(self, found: Mapping[str, Sequence[Participant]]) -> None:
        """Abort exactly these."""
        for name, doomed in found.items():
            if doomed:
                self._log.info("sink %s: aborting %d transactions that older incarnations left open", name, len(doomed))
                self.committers[name].abort(doomed)

    def without_given_up(self, history: History) -> History:
        """The history without rows that an operator has given up, of sinks that the job has no more.

        Nobody can be asked for them, nor can the epoch's plan write them again.
        """
        decided = history.decided
        if decided is None:
            return history
        nobodys = {p.sink for p in decided.effective if self.finishers.of(p) is None}
        kept = {p.sink for p in decided.effective if p.id not in decided.counted}
        gone = nobodys - kept
        if not gone:
            return history
        rows = sum(p.rows for p in decided.effective if p.sink in gone)
        self._log.warning(
            "epoch %d goes on without sink %s, which the job has no more: an operator has given up %d rows",
            decided.epoch,
            ", ".join(sorted(gone)),
            rows,
        )
        return replace(history, decided=decided.without(gone))

    def close(self) -> None:
        """End threads and connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for committer in self.committers.values():
            committer.close()
