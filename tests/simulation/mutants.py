"""The protocol with one rule broken at a time, and which invariant must notice it.

Must not know: why a rule is there (the protocol says so). A mutant that no invariant notices means that the simulation
proves nothing about that rule.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from onceflow import errors
from onceflow.checkpoint import identity
from onceflow.checkpoint import journal as journal_module
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.receipts import Receipts
from onceflow.connectors.database.committer import DatabaseCommitter
from onceflow.connectors.inspection import Phase
from onceflow.connectors.kafka import committer as kafka_committer
from onceflow.connectors.kafka import oracle, transactions
from onceflow.errors import CheckpointCorruptError, CheckpointStoreError
from onceflow.execution import stop
from onceflow.execution.committing import Committing
from onceflow.execution.driver import Driver
from onceflow.execution.preparing import Preparing
from onceflow.execution.repair import Repair
from onceflow.execution.source_check import Sources
from onceflow.launch import taking_over
from onceflow.operations.transactions import aborting, inventory
from onceflow.operations.transactions.inventory import JournalVerdict
from onceflow.twophase import coordinator as coordinator_module
from onceflow.twophase import runs
from onceflow.twophase.coordinator import Coordinator
from onceflow.twophase.layout import Layout, Remade
from onceflow.twophase.memory import Mode
from onceflow.twophase.messages import (
    Append,
    Appended,
    Evidence,
    Outcome,
    Reply,
    Sealed,
    Superseded,
    Unanswered,
    Voided,
)
from onceflow.twophase.records import Decide, History, LayoutRecord, Start
from onceflow.twophase.state import TABLE, Input, State
from tests.simulation import sim_driver, sim_operator
from tests.simulation.checks import JOB
from tests.simulation.fake_broker import COMPLETE, EMPTY, NONE, FakeBroker
from tests.simulation.sim_driver import SimCheckpoint, SimCommitter, Tasks

Patches = contextlib.AbstractContextManager[Any]


@dataclass(frozen=True)
class Mutant:
    """A broken rule.

    Attributes:
        name: What is broken, as the protocol's readers would say it.
        caught_by: The invariants of which one must notice it.
        patches: What breaks it.
        focus: Faults under which it shows; empty: under all.
        fixed: The plan under which it shows.
    """

    name: str
    caught_by: tuple[str, ...]
    patches: Callable[[], list[Patches]]
    focus: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @contextlib.contextmanager
    def broken(self) -> Iterator[None]:
        """The rule is broken inside."""
        with contextlib.ExitStack() as stack:
            for patch in self.patches():
                stack.enter_context(patch)
            yield


def _steps(state: State, **steps: State) -> Patches:
    return mock.patch.dict(TABLE[state], {Input[name]: after for name, after in steps.items()})


def _no_journal() -> list[Patches]:
    def append(self: Journal, record: Any) -> Any:
        return Appended()

    return [mock.patch.object(Journal, "append", append)]


def _commit_before_decision() -> list[Patches]:
    real = Driver._perform

    def perform(self: Driver, action: Any) -> Any:
        if isinstance(action, Append) and isinstance(action.record, Decide):
            committing = self._committing
            for name, of in committing.finishers.by_sink(action.record.participants).items():
                committing.committers[name].commit(of)
        return real(self, action)

    return [mock.patch.object(Driver, "_perform", perform)]


def _write_again_although_decided() -> list[Patches]:
    real = Driver._append_start

    def start(self: Driver) -> Any:
        event = real(self)
        history = event.history
        return replace(event, history=History(history.incarnation, history.job_id, layout=history.layout))

    return [mock.patch.object(Driver, "_append_start", start)]


def _trusting_append() -> list[Patches]:
    def append(self: Journal, record: Any) -> Any:
        place, _, data = self._encode(record)
        answer = self._try_to_create(place, data)
        if answer:
            return Unanswered(answer)
        return self._appended(place, record, data)

    def void(self: Journal, record: Any) -> Any:
        return Voided()

    return [mock.patch.object(Journal, "append", append), mock.patch.object(Journal, "append_void", void)]


def _void_elsewhere() -> list[Patches]:
    real = Journal.append_void

    def void(self: Journal, record: Any) -> Any:
        self._tail = max(self._slots(), default=0) + 0
        self._disputed = ("", Start(0), b"")
        return real(self, record)

    return [mock.patch.object(Journal, "append_void", void)]


def _incarnation_ignored() -> list[Patches]:
    real = Journal.append

    def append(self: Journal, record: Any) -> Any:
        self._tail = max(self._slots(), default=0)
        return real(self, record)

    return [
        mock.patch.object(Journal, "append", append),
        mock.patch.object(Journal, "is_newest", return_value=True),
        mock.patch.object(Journal, "_mine_is_there", return_value=True),
    ]


def _checksum_swallowed() -> list[Patches]:
    def read(self: Journal) -> Any:
        entries = []
        for slot in self._slots():
            with contextlib.suppress(CheckpointCorruptError):
                entries.append(self._read_slot(slot))
        return entries

    def adopt(self: Journal, entries: Any) -> None:
        real(self, entries)
        self._tail = max(self._slots(), default=0)

    real = Journal._adopt
    return [mock.patch.object(Journal, "read", read), mock.patch.object(Journal, "_adopt", adopt)]


def _purge_fails_append() -> list[Patches]:
    def appended(self: Journal, place: int, record: Any, data: bytes) -> Any:
        if max(self._slots()) != place:
            return Superseded()
        self._note(place, record, data)
        self._purge()
        return Appended()

    return [mock.patch.object(Journal, "_appended", appended)]


def _aborts_none_is_aborted() -> list[Patches]:
    real = Coordinator._read_aborted

    def aborted(self: Coordinator) -> Any:
        if self.state is State.DISCARDING:
            return Input.ABORTED, replace(self.memory, mode=Mode.WHOLE, visible=frozenset())
        return real(self)

    return [
        _steps(State.BEGINNING_REPLAY, APPENDED=State.DISCARDING),
        _steps(State.DISCARDING, ABORTED=State.PREPARING),
        mock.patch.object(Coordinator, "_read_aborted", aborted),
    ]


def _abort_by_v3() -> list[Patches]:
    def abort(client: Any, handles: Any) -> Any:
        return transactions._end(client, handles, commit=False, version={"max_version": 3})

    return [mock.patch.object(transactions, "abort", abort)]


def _any_incarnation() -> list[Patches]:
    real = SimCommitter.lingering

    def lingering(self: SimCommitter, incarnation: int, spared: Any) -> Any:
        return real(self, 10**9, spared)

    return [
        mock.patch.object(SimCommitter, "lingering", lingering),
        _steps(State.LISTED, SUPERSEDED=State.SWEEPING),
    ]


def _spares_own_sink_only() -> list[Patches]:
    real = SimCommitter.lingering

    def lingering(self: SimCommitter, incarnation: int, spared: Any) -> Any:
        return real(self, incarnation, [c for c in spared if c.sink == self._sink])

    return [mock.patch.object(SimCommitter, "lingering", lingering)]


def _absence_is_abort() -> list[Patches]:
    real = oracle.ask

    def ask(*of: Any) -> Any:
        evidence = real(*of)
        lost = evidence.outcome is Outcome.UNKNOWN and not evidence.passing
        return replace(evidence, outcome=Outcome.ABORTED) if lost else evidence

    return [mock.patch.object(oracle, "ask", ask)]


def _described_abort_believed() -> list[Patches]:
    real = SimCommitter._outcome

    def outcome(self: SimCommitter, transaction: Any, described: Any) -> Evidence:
        found = described.get(transaction.handle.transactional_id)
        if found is not None and found.state == COMPLETE[False]:
            return Evidence(Outcome.ABORTED, "DescribeTransactions says so")
        return real(self, transaction, described)

    return [mock.patch.object(SimCommitter, "_outcome", outcome)]


def _fenced_is_success() -> list[Patches]:
    return [mock.patch.dict(transactions.COMMIT_REPLIES, {90: Reply.COMMITTED})]


def _epoch_used_twice() -> list[Patches]:
    real = FakeBroker.init

    def init(self: FakeBroker, name: str, timeout: float = 60.0, by: str = "writer") -> Any:
        found = self.transactions.get(name)
        if found is not None and found.state in (EMPTY, COMPLETE[True]):
            return NONE, found.pid, found.epoch
        return real(self, name, timeout, by)

    return [mock.patch.object(FakeBroker, "init", init)]


def _delivery_error_ignored() -> list[Patches]:
    return [mock.patch.object(Tasks, "ignores_delivery_errors", True)]


def _last_report_dropped() -> list[Patches]:
    real = Tasks.__call__

    def run_tasks(self: Tasks, *of: Any) -> Any:
        ran = real(self, *of)
        return replace(ran, reports=ran.reports[:-1])

    return [
        mock.patch.object(Tasks, "__call__", run_tasks),
        mock.patch.object(runs, "unreported", return_value=None),
    ]


def _last_participant_dropped() -> list[Patches]:
    real = Preparing.seal

    def seal(self: Preparing, action: Any, run: Any) -> Any:
        sealed = real(self, action, run)
        return Sealed(sealed.participants[:-1]) if isinstance(sealed, Sealed) else sealed

    return [
        mock.patch.object(Preparing, "seal", seal),
        mock.patch.object(runs, "uncovered", return_value=None),
    ]


def _counts_for_nothing() -> list[Patches]:
    """Nothing compares what was written with what is reported, nor parts with participants."""
    return [
        mock.patch.object(sim_driver, "miscounted", return_value=None),
        mock.patch.object(runs, "unreported", return_value=None),
        mock.patch.object(runs, "uncovered", return_value=None),
    ]


def _part_in_two_groups() -> list[Patches]:
    real = Tasks._grouping

    def grouping(self: Tasks) -> list[list[int]]:
        groups = real(self)
        groups[0] = sorted({*groups[0], *groups[-1]})
        return groups

    return [mock.patch.object(Tasks, "_grouping", grouping), *_counts_for_nothing()]


def _writes(rows: Callable[..., Any]) -> list[Patches]:
    """A task writes other rows than those of the parts that are not silent."""
    return [mock.patch.object(Tasks, "_to_write", rows), *_counts_for_nothing()]


def _silent_as_a_whole() -> list[Patches]:
    def to_write(self: Tasks, who: Any, action: Any, parts: Any) -> Any:
        held = any((who[0], n) in action.silent for n in parts) or not action.write
        return [] if held else [row for of in parts.values() for row in of]

    return _writes(to_write)


def _written_as_a_whole() -> list[Patches]:
    def to_write(self: Tasks, who: Any, action: Any, parts: Any) -> Any:
        held = all((who[0], n) in action.silent for n in parts) or not action.write
        return [] if held else [row for of in parts.values() for row in of]

    return _writes(to_write)


def _silent_by_the_groups_of_before() -> list[Patches]:
    real, last = Tasks._grouping, {}

    def grouping(self: Tasks) -> list[list[int]]:
        before, last[self] = last.get(self, ()), real(self)
        self.found = {n: task for task, group in enumerate(before) for n in group}
        return last[self]

    def to_write(self: Tasks, who: Any, action: Any, parts: Any) -> Any:
        silent = {(sink, self.found[n]) for sink, n in action.silent}
        return [row for of in parts.values() for row in of] if action.write and who not in silent else []

    return [mock.patch.object(Tasks, "_grouping", grouping), *_writes(to_write)]


def _last_row_not_written() -> list[Patches]:
    real = Tasks._to_write

    def to_write(self: Tasks, who: Any, action: Any, parts: Any) -> Any:
        rows = real(self, who, action, parts)
        return rows[:-1] if len({row.partition for row in rows}) > 1 else rows

    return _writes(to_write)


def _numbers_of_tasks() -> list[Patches]:
    return [mock.patch.object(Tasks, "_number", lambda _self, _partition, task: task)]


def _numbers_below_the_union() -> list[Patches]:
    def number(self: Tasks, partition: int, _: int) -> int:
        return partition % (self.scene.plan.partitions // 2)

    return [mock.patch.object(Tasks, "_number", number), *_counts_for_nothing()]


def _lingering_left() -> list[Patches]:
    return [mock.patch.object(Committing, "abort_lingering")]


def _offsets_ignored() -> list[Patches]:
    def read(self: Coordinator, epoch: int, offsets: str, stateful: bool, newest: int | None) -> Any:
        undone = self.memory.undone
        return real(self, epoch, undone.offsets if undone is not None else offsets, stateful, newest)

    real = Coordinator._read_epoch
    return [
        mock.patch.object(SimCheckpoint, "put_right"),
        mock.patch.object(SimCheckpoint, "sync", return_value=None),
        mock.patch.object(Coordinator, "_read_epoch", read),
    ]


def _digests_ignored() -> list[Patches]:
    return [
        mock.patch.object(runs, "differing_sinks", return_value={}),
        mock.patch.object(runs, "_different_parts", return_value=""),
        mock.patch.object(runs, "find_again", lambda visible, _: frozenset(p.id for p in visible)),
    ]


def _replayed_in_the_same_call() -> list[Patches]:
    # What a stop means at each moment of an epoch knows no plan behind a decision either.
    behind = {stop.StopInput.RUN: (stop.StopState.RUNNING, stop.StopAnswer.GO_ON)}
    return [
        _steps(State.JUDGING, LOST_AFTER_RUN=State.BEGINNING_REPLAY),
        mock.patch.dict(cast("dict[Any, Any]", stop.TABLE[stop.StopState.DECIDED]), behind),
    ]


def _visible_parts_written_again() -> list[Patches]:
    return [mock.patch.object(runs, "find_again", return_value=frozenset())]


def _parts_by_number() -> list[Patches]:
    return [mock.patch.object(runs, "find_again", lambda visible, _: frozenset(p.id for p in visible))]


def _purged_without_receipts() -> list[Patches]:
    return [mock.patch.object(Receipts, "keep", return_value=None)]


def _no_durability() -> list[Patches]:
    return [mock.patch.object(Journal, "_make_durable", return_value=None)]


def _sleeping_start_believed() -> list[Patches]:
    def start(self: Journal, job_id: str, _above: int = 0, _left: str = "", *_more: object) -> Any:
        while True:
            history, entries = self.history()
            self._adopt(entries)
            record = Start(history.incarnation + 1, job_id)
            place, nonce, data = self._encode(record)
            with contextlib.suppress(CheckpointStoreError):
                try:
                    self._store.create(journal_module._name(place), data)
                except FileExistsError:
                    self._note(place, record, self._store.read(journal_module._name(place)))
                    return history.then(record)
            if self._nonce_at(place) == nonce:
                self._note(place, record, data)
                return history.then(record)

    return [mock.patch.object(Journal, "start", start)]


def _running_aborted_without_a_claim() -> list[Patches]:
    def choose(ours: Any, ids: Any, *, claim: bool) -> Any:
        return [
            t
            for t in ours
            if t.seen.phase is Phase.OPEN and t.standing in (JournalVerdict.LINGERING, JournalVerdict.RUNNING)
        ]

    return [mock.patch.object(aborting, "choose", choose)]


def _decided_taken_for_lingering() -> list[Patches]:
    def standing(origin: Any, _handle: str, history: History, _show: Any) -> JournalVerdict:
        return JournalVerdict.LINGERING if origin.incarnation < history.incarnation else JournalVerdict.RUNNING

    return [mock.patch.object(inventory, "standing_of", standing)]


def _listed_before_the_claim() -> list[Patches]:
    def abort(operator: Any, ids: Any, *, claim: bool) -> None:
        chosen = aborting.doomed(operator, ids, claim=claim)
        if claim:
            operator.start()
        for system in operator.systems:
            system.inspection.abort([t.seen for t in chosen])

    return [mock.patch.object(sim_operator, "abort", abort)]


def _choice_without_a_start() -> list[Patches]:
    def start(self: Any) -> History:
        history, entries = self.journal.history()
        self.journal._adopt(entries)
        return history

    return [mock.patch.object(sim_operator.SimOperator, "start", start)]


def _retriable(kind: type, value: bool) -> Callable[[], list[Patches]]:
    return lambda: [mock.patch.object(kind, "retriable", value)]


def _layouts_forgotten() -> list[Patches]:
    real = History.recalled

    def recalled(self: History, record: Any) -> History:
        return self if isinstance(record, LayoutRecord) else real(self, record)

    return [mock.patch.object(History, "recalled", recalled)]


def _topics_by_bare_name() -> list[Patches]:
    def remade(then: Layout, now: Layout) -> Iterator[Remade]:
        known = {topic.name: topic for source in then.sources for topic in source.topics}
        for source in now.sources:
            for topic in source.topics:
                if topic.name in known and known[topic.name].id != topic.id:
                    yield Remade(topic.name, known[topic.name].id, topic.id)

    real = Sources._look

    def look(self: Sources, i: int, needed: str, end: str, known: Layout | None) -> Any:
        if known is not None:
            topics = tuple({topic.name: topic for source in known.sources for topic in source.topics}.values())
            known = Layout(tuple(replace(source, topics=topics) for source in known.sources))
        return real(self, i, needed, end, known)

    return [mock.patch.object(Sources, "_look", look), mock.patch.object(runs, "remade", remade)]


def _sources_before_the_decided() -> list[Patches]:
    def require_early(place: Any, sources: Any, plan: Any) -> None:
        with mock.patch.object(Place, "has_undone", return_value=False):
            real(place, sources, plan)

    real = taking_over.require_early
    return [
        mock.patch.object(taking_over, "finish_decided", return_value=None),
        mock.patch.object(taking_over, "require_early", require_early),
    ]


def _lost_epoch_from_its_end() -> list[Patches]:
    survey = coordinator_module.Survey
    return [mock.patch.object(Coordinator, "_survey", return_value=survey(again=False))]


def _failed_run_does_not_look() -> list[Patches]:
    return [
        _steps(State.PREPARING, RUN_FAILED=State.ABORTING),
        _steps(State.CHECKING, UNSOUND=State.ABORTING),
        mock.patch.object(Driver, "true_cause", lambda _, error: error),
    ]


def _recorded_since_ignored() -> list[Patches]:
    real = Coordinator._read_epoch

    def read(self: Coordinator, epoch: int, offsets: str, stateful: bool, _: int | None) -> Any:
        return real(self, epoch, offsets, stateful, None)

    return [mock.patch.object(Coordinator, "_read_epoch", read)]


def _decided_plan_taken_back() -> list[Patches]:
    real = Coordinator._plan_left

    def left(self: Coordinator, m: Any) -> Any:
        return real(self, m) if m.undone is None else (m.undone.epoch, "")

    return [mock.patch.object(Coordinator, "_plan_left", left)]


def _plan_behind_left() -> list[Patches]:
    real = Coordinator._plan_left

    def left(self: Coordinator, m: Any) -> Any:
        return real(self, m) if m.undone is None else None

    return [mock.patch.object(Coordinator, "_plan_left", left)]


def _accepted_by_number() -> list[Patches]:
    def by_number(visible: Any, _: Any) -> frozenset[Any]:
        return frozenset(p.id for p in visible)

    return [mock.patch.object(runs, "find_by_origin", by_number)]


def _newest_of_the_last_decision() -> list[Patches]:
    def newest(self: History, below: int | None = None) -> Any:
        decided = self.decided
        return {} if decided is None or (below is not None and decided.epoch >= below) else decided.newest()

    return [mock.patch.object(History, "newest", newest)]


SLEEPING: Mapping[str, Any] = {"sleeps_in_rename": True}
"""A driver may sleep inside Spark's exists-check and rename of ``offsets/N``."""

QUIET: Mapping[str, Any] = {"edits": False, "operator": False, "sound": 0, "remembers": 0}
EDITED: Mapping[str, Any] = {"edits": True, "sound": 0, "operator": False}
OPERATOR: Mapping[str, Any] = {"edits": False, "operator": True, "sound": 0, "remembers": 0}

_TABLES = {"databases": ("a", "b")}
_LIVES = QUIET | {"databases": ("b",), "lives": 3, "most_starts": 8}

_REGROUPED = (("die", "one"), QUIET | {"partitions": 4, "renumbers": True, "deterministic": True})

MUTANTS = (
    Mutant("no journal", ("1",), _no_journal),
    Mutant("commit before the decision", ("1",), _commit_before_decision),
    Mutant("write again although decided", ("3", "2"), _write_again_although_decided),
    Mutant(
        "no roll forward",
        ("refusals", "4", "nothing lost"),
        lambda: [mock.patch.object(History, "undone", return_value=None)],
    ),
    Mutant("an append is not read back", ("2",), _trusting_append, ("unanswered", "late")),
    Mutant(
        "void at another place than the disputed one",
        ("2", "6", "refusals"),
        _void_elsewhere,
        ("unanswered", "lost"),
        QUIET,
    ),
    Mutant("abort after the decision", ("2",), lambda: [_steps(State.DECIDING, UNANSWERED=State.ABORTING)]),
    Mutant(
        "a failed purge is told as a failed append",
        ("2",),
        _purge_fails_append,
        ("unanswered",),
        QUIET | {"retain": 1, "epochs": 5},
    ),
    Mutant(
        "a creation that raised is believed without a sync",
        ("3", "6", "refusals"),
        _no_durability,
        ("unanswered", "power"),
        QUIET,
    ),
    Mutant(
        "decided on what is not durable",
        ("refusals", "3", "4", "nothing lost"),
        lambda: [_steps(State.CHECKING, SOUND=State.DECIDING), _steps(State.RECORDING, APPENDED=State.DECIDING)],
        ("power", "die-after"),
    ),
    Mutant("incarnation ignored", ("6",), _incarnation_ignored),
    Mutant("a start that lost its place goes on", ("6", "2", "3", "refusals"), _sleeping_start_believed, ("pause",)),
    Mutant("checksum error swallowed", ("3", "2", "4"), _checksum_swallowed, ("die-after",), {"sound": 4}),
    Mutant("offsets of the decision ignored", ("4", "3", "nothing lost"), _offsets_ignored, ("power", "die-after")),
    Mutant(
        "survivors committed before outcomes are known",
        ("outcomes first",),
        lambda: [
            _steps(State.READY, EPOCH_DECIDED=State.COMMITTING),
            _steps(State.RESTORING, OFFSETS_SAME=State.FINISHING),
        ],
        ("die", "one"),
    ),
    Mutant("an abort's NONE taken as aborted", ("3",), _aborts_none_is_aborted),
    Mutant("absence taken as abort", ("3",), _absence_is_abort, ("die", "one", "twice", "pause"), {"remembers": 1}),
    Mutant(
        "a described CompleteAbort taken as the outcome", ("3",), _described_abort_believed, ("pause", "die", "wait")
    ),
    Mutant("fenced counted as success", ("4",), _fenced_is_success),
    Mutant("abort by v3 alone", ("one epoch, one transaction",), _abort_by_v3),
    Mutant("one producer epoch for two transactions", ("one epoch, one transaction",), _epoch_used_twice),
    Mutant("abort by prefix of any incarnation", ("6", "2"), _any_incarnation, ("pause", "die")),
    Mutant("the sweep spares its own sink's decided transactions only", ("2",), _spares_own_sink_only, ("die", "one")),
    Mutant("lingering transactions left open", ("5",), _lingering_left),
    Mutant("delivery error ignored", ("4",), _delivery_error_ignored),
    Mutant("last task's report dropped", ("4",), _last_report_dropped),
    Mutant("purged without receipts", ("receipts",), _purged_without_receipts),
    Mutant("last participant dropped", ("4",), _last_participant_dropped),
    Mutant("a partition is taken by two tasks", ("3",), _part_in_two_groups),
    Mutant(
        "a shard is silent as a whole where one of its parts is", ("4", "nothing lost"), _silent_as_a_whole, *_REGROUPED
    ),
    Mutant("a shard is written whole where not all of it is silent", ("3",), _written_as_a_whole, *_REGROUPED),
    Mutant(
        "silent is what the tasks that found it take now",
        ("3", "4", "nothing lost"),
        _silent_by_the_groups_of_before,
        *_REGROUPED,
    ),
    Mutant("a row is counted and not written", ("4",), _last_row_not_written),
    Mutant("parts have the numbers of tasks", ("refusals",), _numbers_of_tasks, *_REGROUPED),
    Mutant(
        "parts are numbered anew in each branch of a union",
        ("3", "4", "nothing lost"),
        _numbers_below_the_union,
        *_REGROUPED,
    ),
    Mutant("visible parts written again", ("3",), _visible_parts_written_again),
    Mutant(
        "visible parts found by their number",
        ("3", "4", "nothing lost"),
        _parts_by_number,
        ("die", "one"),
        {"renumbers": True},
    ),
    Mutant(
        "digests not compared", ("8",), _digests_ignored, ("die", "one"), {"stateful": True, "deterministic": False}
    ),
    Mutant(
        "replayed in the call that ran the plan",
        ("8",),
        _replayed_in_the_same_call,
        ("one", "wait"),
        {"stateful": True, "deterministic": False},
    ),
    Mutant("a fenced driver asks to be started again", ("advice",), _retriable(errors.FencedError, True), ("pause",)),
    Mutant(
        "a loss that the next start writes again is called final",
        ("advice",),
        _retriable(errors.TransactionLostError, False),
        ("one",),
    ),
    Mutant(
        "a disk that did not answer is called final",
        ("refusals",),
        _retriable(errors.CheckpointStoreError, False),
        ("lost",),
    ),
    Mutant(
        "txn abort takes what the newest start may still decide",
        ("6", "2"),
        _running_aborted_without_a_claim,
        ("pause",),
        OPERATOR,
    ),
    Mutant("txn abort takes what is decided", ("2",), _decided_taken_for_lingering, ("pause", "die"), OPERATOR),
    Mutant(
        "txn abort --claim lists before its start",
        ("2", "3"),
        _listed_before_the_claim,
        ("pause",),
        OPERATOR | {"epochs": 2, "stateful": False},
    ),
    Mutant(
        "a choice is recorded without a start of its own",
        ("refusals",),
        _choice_without_a_start,
        ("pause", "die", "one"),
        OPERATOR | {"remembers": 1},
    ),
    Mutant(
        "an older copy of the checkpoint is gone on with",
        ("3",),
        lambda: [mock.patch.object(taking_over, "require_not_rewound", return_value={})],
        ("pause", "die"),
        OPERATOR,
    ),
    Mutant(
        "a lost checkpoint is taken for a new job's",
        ("3",),
        lambda: [
            mock.patch.object(taking_over, "require_not_lost", return_value=None),
            mock.patch.object(identity, "secrets", SimpleNamespace(token_hex=lambda _: f"{JOB}again")),
        ],
        ("die",),
        OPERATOR,
    ),
    Mutant(
        "a claim does not go on above the newest start",
        ("3", "5", "ends"),
        lambda: [mock.patch.object(taking_over, "_claimed_incarnation", return_value=0)],
        ("pause", "die"),
        OPERATOR,
    ),
    Mutant(
        "what stands at Spark's positions is not compared",
        ("nothing lost", "3", "4", "refusals"),  # or an exchanged topic is told as one that was made again
        lambda: [mock.patch.object(coordinator_module, "what_moved", return_value=None)],
        ("die",),
        EDITED,
    ),
    Mutant(
        "what stands at Spark's positions is purged",
        ("nothing lost", "3", "4", "ends"),
        _layouts_forgotten,
        ("die",),
        EDITED | {"retain": 1, "epochs": 5, "keeps": 30, "most_starts": 8},  # a purge comes behind an epoch's commit
    ),
    Mutant("topics are told by their bare names", ("refusals",), _topics_by_bare_name, ("die",), EDITED),
    Mutant(
        "the sources are looked at before what is decided is finished",
        ("decided rows",),
        _sources_before_the_decided,
        ("die",),
        EDITED | {"keeps": 6},
    ),
    Mutant(
        "a lost epoch's source is looked at from the epoch's end",
        ("advice", "ends"),
        _lost_epoch_from_its_end,
        ("die", "one"),
        EDITED | {"keeps": 6, "operator": True},
    ),
    Mutant(
        "an error is told without a look whether a newer start took over",
        ("advice",),
        _failed_run_does_not_look,
        ("pause",),
    ),
    Mutant(
        "an undone epoch that Spark has recorded since is taken for undone",
        ("refusals",),
        _recorded_since_ignored,
        ("pause",),
        QUIET,
    ),
    Mutant("the plan of a decided epoch is taken back", ("refusals", "3"), _decided_plan_taken_back, ("die",)),
    Mutant("a plan behind an undone epoch is left there", ("refusals", "advice"), _plan_behind_left, ("power",), QUIET),
    Mutant(
        "an epoch that outlived its transactions is not cut smaller",
        ("ends",),
        lambda: [_steps(State.ABORTING, ABORTED_TOO_LONG=State.FAILED)],
        ("die",),
        {"slow": 25.0},
    ),
    Mutant(
        "offsets/N of an epoch that is done is not compared with its decision",
        ("nothing lost", "3"),
        lambda: [mock.patch.object(Repair, "_done", return_value={})],
        ("pause",),
        SLEEPING,
    ),
    Mutant(
        "offsets/N of an epoch that is undone is left as it is",
        ("ends", "advice"),
        lambda: [mock.patch.object(Repair, "restore")],
        ("pause",),
        SLEEPING,
    ),
    Mutant(
        "offsets/N is not looked at by the driver that runs the epoch",
        ("nothing lost", "3"),
        lambda: [mock.patch.object(Repair, "behind_epoch"), mock.patch.object(Repair, "before_epoch")],
        ("pause",),
        SLEEPING,
    ),
    Mutant(
        "accepted state is found by its task's number",
        ("3", "4", "nothing lost"),
        _accepted_by_number,
        ("die", "one"),
        {"operator": True, "accepts": True, "deterministic": False, "renumbers": True, "sound": 0, "edits": False},
    ),
    Mutant(
        "a database is not asked for the newest epoch before the decision",
        ("put back",),
        lambda: [mock.patch.object(DatabaseCommitter, "_require_known")],
        ("back",),
        _LIVES,
    ),
    Mutant(
        "a purge forgets a quiet sink's newest epoch",
        ("put back", "nothing lost"),
        _newest_of_the_last_decision,
        ("back",),
        _LIVES | {"quiet": True, "epochs": 4},
    ),
    Mutant(
        "a commit without an answer is not looked up in the ledger",
        ("ends", "refusals", "3"),
        lambda: [mock.patch.object(DatabaseCommitter, "_in_ledger", return_value=None)],
        ("unanswered", "late", "die-after"),
        QUIET | _TABLES,
    ),
)
assert kafka_committer.transactions is transactions  # the committer must see the patched functions
