"""The driver's side of a lake sink: one change of the table for each epoch, with an entry in its ledger.

Must not know: Spark, the journal, how files were written, any particular format. It works from participants alone.

A participant covers all tasks of an epoch. Its commit is one version of the table, which names the epoch's files and
says so in the table's ledger, both or neither. It is tried on the newest version only, and only after the ledger there
was looked at: so it takes effect once, whatever was answered, and whoever else changes the table. What was decided and
is to be ended gets an entry of its own first: after it no commit that is still on its way can take effect.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from onceflow.connectors.contract import Committer, Run
from onceflow.connectors.inspection import Inspectable, Inspection
from onceflow.connectors.lake.inspection import LakeInspection
from onceflow.connectors.lake.marks import LakeMarks
from onceflow.connectors.lake.refusals import lacks_right
from onceflow.connectors.lake.staged import AttemptName, LakeAttempt, LakeSealed, LakeStaged, Moment, new_id
from onceflow.connectors.lake.table import BeatenError, Committed, LakeTable, Ledger, LedgerEntry, TableView
from onceflow.connectors.lake.translating import Translating, translated
from onceflow.connectors.marks import Marks
from onceflow.connectors.older import checkpoint_is_older, put_back
from onceflow.connectors.staged import NOT_UNDERSTOOD
from onceflow.errors import LakeRightsError, OnceflowError, PreCommitError, RecoveryError
from onceflow.twophase.messages import Evidence, Outcome, Reply
from onceflow.twophase.participants import Participant, ParticipantId, TaskReport

log = logging.getLogger(__name__)

_TRIES = 6
"""How often one call tries a change that somebody was faster with; the driver calls again without end."""
_PAUSE_S = 0.05
_OFTEN_S = 30.0
_OFTEN = 10
"""So many commits in a row, each within so many seconds of the one before, are worth a word."""


class LakeCommitter(Committer, Inspectable):
    """Commits or ends what was written for one sink.

    Args:
        table: The connection's; it is let go of with this object.
        shape: Of the table, as this start's files are written for it; None where only what is decided is finished.
        prefix: The job's prefix.
        job_id: The job's id.
        sink: The sink's name.
    """

    def __init__(
        self, table: LakeTable, shape: Callable[[], Mapping[str, Any]], prefix: str, job_id: str, sink: str
    ) -> None:
        self._table = table
        self._shape = shape
        self._job_id = job_id
        self._sink = sink
        self._marks = LakeMarks(table, prefix, job_id, self._translating)
        self._refused = ""
        self._seat = ""
        self._undecided = set[str]()
        self._known_to_be_named = set[AttemptName]()
        self._last_commit_s, self._soon = -1e9, 0

    # -- at a start -------------------------------------------------------------------------------

    def preflight(self) -> None:
        """Write beside the table, and begin this job's ledger in it, if it has none: what a commit needs."""
        probe = AttemptName.new(self._job_id, self._sink, Moment(0, 0), 0, 0)
        with self._translating("write beside it"):
            self._table.staging.begin(probe)
            self._table.staging.end(probe)
        if self._table.look() is not None:
            self._take_seat()

    def known(self, handles: Collection[str]) -> Collection[str]:
        """Those that the table's ledger, or its history, has."""
        return self.known_of(self._sink, handles)

    def known_of(self, sink: str, handles: Collection[str]) -> Collection[str]:
        """Likewise: each sink of a table has a ledger of its own there."""
        view = self._seen()
        ledger = view.ledger(self._job_id, sink)
        return [handle for handle in handles if _known(view, ledger, handle)]

    def marks(self) -> Marks:
        """Those of the job, beside the table."""
        return self._marks

    def close(self) -> None:
        """Let go of the table."""
        self._table.close()

    # -- an epoch ---------------------------------------------------------------------------------

    def seal(self, reports: Sequence[TaskReport], run: Run) -> list[Participant]:
        """One participant of all tasks, under a handle that nothing else ever has."""
        if not reports:
            return []
        attempts = []
        for told in (report.transaction or {} for report in reports):
            name = AttemptName.read(self._job_id, self._sink, str(told["attempt"]))
            if name is None:
                raise AssertionError(f"no attempt of this sink: {told['attempt']}")
            attempts.append(LakeAttempt(name, int(told["rows"]), str(told["digest"])))
        handle = run.handles.get(self._sink, min(a.name.id for a in attempts))  # an attempt is in one participant only
        sealed = LakeSealed.of_run(run, self._sink, handle=handle, seat=self._take_seat(), shape=self._shape())
        staged = LakeStaged(self._seen().table_id, tuple(attempts), sealed)
        self._undecided.add(handle)
        parts = tuple(part for report in reports for part in report.parts)
        return [Participant(self._sink, handle, parts, staged.to_json())]

    def check(self, participants: Sequence[Participant], run: Run, age_s: float) -> str | None:  # noqa: ARG002
        """Look at what was written and at the table, and end the run's other attempts.

        Raises:
            PreCommitError: The table was altered since the start.
            CheckpointConflictError: The table is older than the checkpoint, or the checkpoint than the table.
        """
        after = run.newest.get(self._sink)
        if not participants and after is None:
            self._end_others(run, frozenset())
            return None
        view = self._seen()
        ledger = view.ledger(self._job_id, self._sink)
        held = None if ledger is None else ledger.newest
        if (
            participants
            and held is not None
            and held.moment.epoch >= run.epoch
            and held.moment.incarnation >= run.claimed
        ):
            raise checkpoint_is_older(self._sink, self._table.where, run, held.moment.epoch, held.moment.incarnation)
        if after is not None and not _known(view, ledger, after):
            raise put_back(self._sink, self._table.where, run, None if held is None else held.moment.epoch)
        if not participants:
            self._end_others(run, frozenset())
            return None
        if ledger is None:
            return f"this job's ledger in {self._table.where} is gone: somebody removed it"
        for p in participants:
            staged = LakeStaged.of(p)
            if staged is None or staged.sealed is None:
                return f"{p.handle} is not of this sink"
            if staged.sealed.seat != ledger.seat or staged.system != view.table_id:
                return f"{self._table.where} was made again, or its ledger was, while the epoch ran"
            if staged.rows != p.rows:
                return f"the tasks told of {p.rows} rows and wrote {staged.rows}"
            wrong = self._written(staged)[1]
            if wrong is not None:
                return wrong
            altered = view.objection(staged.sealed.shape)
            if altered is not None:
                raise PreCommitError(
                    f"sink {self._sink}: epoch {run.epoch} was not decided, since {self._table.where} was altered: "
                    f"{altered}",
                    harmless="always: nothing of the epoch is visible, and it is run again",
                    cause="the start looked at the table as it was before",
                    action="start the job again: it looks at the table as it is now, and says what does not fit",
                    epoch=run.epoch,
                )
        self._end_others(run, frozenset(a.name for a in LakeStaged.attempts_of(participants)))
        return None

    def _end_others(self, run: Run, mine: frozenset[AttemptName]) -> None:
        """End those of the run that lost; of one that still runs, the list is gone when it asks."""
        with self._translating("list what is written beside it"):
            found = self._table.staging.attempts(run.job_id, self._sink)
        lost = [n for n in found if n.moment == (run.incarnation, run.epoch) and n not in mine]
        if lost:
            self._end(lost)

    def commit(self, participants: Sequence[Participant]) -> Mapping[ParticipantId, Reply]:
        """A version of the table for each."""
        return {p.id: self._commit_one(p) for p in participants}

    def _commit_one(self, participant: Participant) -> Reply:
        staged = LakeStaged.of(participant)
        if staged is None or staged.sealed is None:
            return Reply.SUSPECT
        self._undecided.discard(participant.handle)
        for turn in range(_TRIES):
            try:
                reply = self._try(participant, staged, staged.sealed)
            except LakeRightsError as error:
                self._refused = error.what
                return Reply.REFUSED
            except BeatenError:
                reply = None  # somebody's commit came first: ours is tried on top of it
            except Exception as error:  # noqa: BLE001 - it may have been done: the ledger is looked at first
                self._refused = self._table.words(error)
                if lacks_right(error):
                    return Reply.REFUSED
                log.info("sink %s: a commit got no answer, and is tried again: %s", participant.sink, self._refused)
                return Reply.RETRY
            if reply is not None:
                return reply
            if turn < _TRIES - 1:
                time.sleep(_PAUSE_S * 2**turn)
        return Reply.RETRY

    def _try(self, participant: Participant, staged: LakeStaged, sealed: LakeSealed) -> Reply | None:
        # What takes time comes before the look: the shorter the way to the change, the less often others are faster.
        files, wrong = self._written(staged)
        view = self._seen()
        known = self._in_ledger(view, participant, staged, sealed)
        if known is not None:
            if known.outcome is not Outcome.COMMITTED:
                return Reply.SUSPECT
            self._tidy(staged)
            return Reply.COMMITTED
        if wrong is not None:
            return Reply.SUSPECT
        objection = view.objection(sealed.shape)
        if objection is not None:
            self._refused = objection
            return Reply.REFUSED
        ledger = view.ledger(staged.job, participant.sink)
        if ledger is None:
            return Reply.SUSPECT
        newest = Committed(sealed.moment, sealed.handle)
        told = {
            "job": staged.job,
            "sink": participant.sink,
            "epoch": str(sealed.moment.epoch),
            "start": str(sealed.moment.incarnation),
            "rows": str(staged.rows),
            "digest": f"{participant.digest:016x}",
            "handle": sealed.handle,
        }
        ids = tuple(a.name.id for a in staged.attempts)
        view.change(LedgerEntry(staged.job, participant.sink, Ledger(ledger.seat, newest), ids, properties=told), files)
        self._tidy(staged)
        self._tell_if_often()
        return Reply.COMMITTED

    def _tell_if_often(self) -> None:
        now = time.monotonic()
        self._soon = self._soon + 1 if now - self._last_commit_s < _OFTEN_S else 0
        self._last_commit_s = now
        if self._soon == _OFTEN:
            log.warning(
                "sink %s: %s gets a new version more often than every %g s, and each makes it slower to read and to "
                "change. Let epochs take longer (interval=), and have its files compacted and its versions expired",
                self._sink,
                self._table.where,
                _OFTEN_S,
            )

    def _tidy(self, staged: LakeStaged) -> None:
        """The table names the files now; what is left of their lists would be looked at by each sweep."""
        with suppress(Exception):
            for a in staged.attempts:
                self._table.staging.tidy(a.name)

    def refusal(self, participants: Sequence[Participant]) -> OnceflowError:
        """The error for commits that went on being refused."""
        epochs = LakeStaged.epochs_of(participants)
        return RecoveryError(
            f"sink {self._sink}: the commit of what is decided for epoch {', '.join(map(str, epochs))} to "
            f"{self._table.where} is refused: {self._refused}",
            harmless="for the data: its files stay beside the table, and the next start commits them",
            cause="a right was taken away, or the table was dropped or altered after the decision",
            action="give the right back, or alter the table back to what it was; then start the job again. "
            "`onceflow txn resolve` shows what is decided",
        )

    def abort(self, participants: Sequence[Participant]) -> None:
        """End exactly these and remove their files. Best effort."""
        for p in participants:
            staged = LakeStaged.of(p)
            if staged is not None:
                with suppress(Exception):
                    self.end(staged, decided=staged.sealed is not None and p.handle not in self._undecided)

    def end(self, staged: LakeStaged, *, decided: bool) -> None:
        """End what was written, unless it is committed.

        Args:
            staged: What.
            decided: It may be: somebody may be committing it at this moment.

        Raises:
            Exception: It may be open still.
        """
        if decided and not self._fenced(staged):
            return
        self._end([a.name for a in staged.attempts])
        if staged.sealed is not None:
            self._undecided.discard(staged.sealed.handle)

    def _end(self, names: Sequence[AttemptName]) -> None:
        """Remove files; never those that the table names, whoever thinks that they are nobody's."""
        view = self._table.look()
        for name in names:
            if self._never_committed(view, name):
                with self._translating("remove what is written beside it"):
                    self._table.staging.end(name)

    def _fenced(self, staged: LakeStaged) -> bool:
        """Make sure that it is never committed, if it is not; whether it is not."""
        job, sink = staged.job, staged.attempts[0].name.sink
        ids = frozenset(
            a.name.id for a in staged.attempts if staged.sealed is None or a.name.id == staged.sealed.handle
        )
        for turn in range(_TRIES):
            view = self._seen()
            ledger = view.ledger(job, sink)
            if ledger is None:
                return False
            if view.ended(job, sink, ids) == ids:
                return True
            if staged.sealed is not None:
                known = self._standing(view, sink, staged, staged.sealed)
                if known is not None:
                    return known.outcome is Outcome.ABORTED
            elif not all(self._never_committed(view, a.name) for a in staged.attempts):
                return False
            told = {"job": job, "sink": sink, "ended": ",".join(sorted(ids))}
            try:
                view.change(LedgerEntry(job, sink, ledger, ended=ids, properties=told), ())
            except BeatenError:
                time.sleep(_PAUSE_S * 2**turn)
            # It is looked at again in any case: what is ended gives up its files.
        return False

    def abort_run(self, run: Run) -> None:
        """End all attempts of a run, none of which is decided."""
        with suppress(Exception):
            self._end_others(run, frozenset())

    def can_finish(self, participant: Participant) -> bool:
        """What another sink has written for the same table can be committed by this one."""
        staged = LakeStaged.of(participant)
        if staged is None:
            return False
        view = self._table.look()
        return view is not None and view.table_id == staged.system

    # -- what is known ----------------------------------------------------------------------------

    def outcomes(self, participants: Sequence[Participant]) -> Mapping[ParticipantId, Evidence]:
        """What the table's ledger says, and then what is beside it."""
        return {p.id: self._outcome(p) for p in participants}

    def _outcome(self, participant: Participant) -> Evidence:
        staged = LakeStaged.of(participant)
        if staged is None or not staged.attempts:
            return Evidence(Outcome.UNKNOWN, f"it is not understood: {NOT_UNDERSTOOD}")
        sealed = staged.sealed
        if sealed is None:
            there = [a for a in staged.attempts if self._table.staging.has(a.name)]
            return Evidence(Outcome.OPEN if there else Outcome.ABORTED, "it was never decided")
        # What is beside the table first: a commit that ends in between has tidied up, and then stands in the ledger.
        with self._translating("look at what is written beside it"):
            _, wrong = self._written(staged)
        known = self._in_ledger(self._seen(), participant, staged, sealed)
        if known is not None:
            if known.outcome is Outcome.COMMITTED:
                self._tidy(staged)
            return known
        if wrong is None:
            return Evidence(Outcome.OPEN, "its files are there, and the table does not name them")
        return Evidence(Outcome.ABORTED, f"the table's ledger does not have it, and it can never be committed: {wrong}")

    def _in_ledger(
        self, view: TableView, participant: Participant, staged: LakeStaged, sealed: LakeSealed
    ) -> Evidence | None:
        if participant.handle != sealed.handle:
            return Evidence(Outcome.UNKNOWN, "its handle is not that of what was written")
        return self._standing(view, participant.sink, staged, sealed)

    def _standing(self, view: TableView, sink: str, staged: LakeStaged, sealed: LakeSealed) -> Evidence | None:
        """What the table says of it; None where that proves that it is not committed, and may be."""
        ledger = view.ledger(staged.job, sink)
        if staged.system != view.table_id:
            return Evidence(Outcome.UNKNOWN, f"it was written for a table with the id {staged.system}; this is another")
        newest = None if ledger is None or ledger.seat != sealed.seat else ledger.newest
        if newest is not None and newest.handle == sealed.handle:
            return Evidence(Outcome.COMMITTED, "the table's ledger has it")
        gone = ledger is None or ledger.seat != sealed.seat
        if gone or (newest is not None and _passed(newest.moment, sealed.moment, sealed.claimed)):
            # Its entry may have been followed by others, or be gone with the ledger: the history may have it.
            if view.knows(sealed.handle):
                return Evidence(Outcome.COMMITTED, "the table's history has it")
            if newest is None:
                return Evidence(Outcome.UNKNOWN, "the table's ledger of this job is gone: somebody removed it")
            return Evidence(
                Outcome.UNKNOWN,
                f"the table's ledger has epoch {newest.moment.epoch} of start {newest.moment.incarnation} of this job "
                "and sink, and its history does not have this one",
            )
        if view.ended(staged.job, sink, frozenset(a.name.id for a in staged.attempts)):
            return Evidence(Outcome.ABORTED, "the table's ledger says that it was ended")
        if sealed.after and not _known(view, ledger, sealed.after):
            return Evidence(
                Outcome.UNKNOWN,
                "the table does not know the epoch before it, which this job had committed: it was put back to an "
                "older state",
            )
        return None

    def _written(self, staged: LakeStaged) -> tuple[list[Mapping[str, Any]], str | None]:
        """All files, and why they are not what the tasks told of, or None: then there are all of them."""
        files = list[Mapping[str, Any]]()
        for a in staged.attempts:
            listed = self._table.staging.listed(a.name, a.digest)
            if listed is None:
                return [], f"the list of files of attempt {a.name.text} is gone or has changed"
            if sum(int(file["rows"]) for file in listed) != a.rows:
                return [], f"attempt {a.name.text} told of {a.rows} rows, and its files have another number"
            files += listed
        missing = self._table.staging.missing([str(f["path"]) for f in files], [int(f["size"]) for f in files])
        return files, None if missing is None else f"its file {missing} is gone, or has another size"

    def inspection(self) -> Inspection:
        """What operators' tools see of the job here."""
        return LakeInspection(self._table, self._job_id, self._outcome, self.end)

    def lingering(self, incarnation: int, spared: Sequence[Participant]) -> Sequence[Participant]:
        """Attempts of older incarnations of this job that are not ended, without the spared ones."""
        keep = {a.name for a in LakeStaged.attempts_of(spared)}
        with self._translating("list what is written beside it"):
            found = [
                name
                for name in self._table.staging.attempts(self._job_id)
                if name.moment.incarnation < incarnation and name not in keep and name not in self._known_to_be_named
            ]
        if not found:
            return []
        view = self._table.look()
        table = "" if view is None else view.table_id
        safe = [name for name in found if self._never_committed(view, name)]
        return [Participant(self._sink, name.id, (), LakeStaged.found(table, [name]).to_json()) for name in safe]

    def _never_committed(self, view: TableView | None, name: AttemptName) -> bool:
        """Whether no version of the table names the files of an attempt; of one that is in no undone decision."""
        if view is None:
            return False  # nothing is written before there is a table: somebody took it away, and may bring it back
        ledger = view.ledger(name.job, name.sink)
        if ledger is not None and (ledger.newest is None or not _passed(ledger.newest.moment, name.moment, 0)):
            return True  # nothing of its run was committed yet
        with self._translating("look which files it names"):
            data = frozenset(self._table.staging.data_of(name))
            if not view.named(data):
                return True
        self._known_to_be_named.add(name)  # it is committed; its driver died before it had tidied up
        self._table.staging.tidy(name)
        return False

    # -- parts ------------------------------------------------------------------------------------

    def _seen(self) -> TableView:
        view = self._table.look()
        if view is None:
            raise LakeRightsError(
                f"{self._table.where} of sink {self._sink} is not there",
                harmless="for the data: nothing was changed",
                cause="it was dropped, or never made",
                action="bring the table back, then start the job again",
            )
        return view

    def _take_seat(self) -> str:
        """This job's ledger in the table, begun if there is none."""
        for turn in range(_TRIES if not self._seat else 0):
            view = self._seen()
            ledger = view.ledger(self._job_id, self._sink)
            if ledger is not None:
                self._seat = ledger.seat
                break
            try:
                begun = Ledger(new_id())
                told = {"job": self._job_id, "sink": self._sink, "begun": begun.seat}
                view.change(LedgerEntry(self._job_id, self._sink, begun, properties=told), ())
            except BeatenError:
                time.sleep(_PAUSE_S * 2**turn)
            except Exception as error:  # noqa: BLE001 - whatever it was: the next start looks again
                raise self._unavailable("begin this job's ledger in it", error) from None
        if not self._seat:
            raise self._unavailable("begin this job's ledger in it", BeatenError("others were always faster"))
        return self._seat

    def _translating(self, what: str) -> Translating:
        return Translating(self._table, self._sink, what)

    def _unavailable(self, what: str, error: BaseException) -> OnceflowError:
        return translated(self._table, self._sink, what, error)


def _known(view: TableView, ledger: Ledger | None, handle: str) -> bool:
    """Whether a table knows a commit; the newest its ledger has when its history has forgotten it."""
    newest = None if ledger is None else ledger.newest
    return (newest is not None and newest.handle == handle) or view.knows(handle)


def _passed(newest: Moment, asked: Moment, claimed: int) -> bool:
    """Whether a table that has committed the newest may never commit the asked one after it.

    An older start's, an older epoch's, or another one of the same epoch: a replay's while the first was still on its
    way would double it. What is of a start before a claim does not count.
    """
    return newest.incarnation >= claimed and (asked <= newest or asked.epoch == newest.epoch)
