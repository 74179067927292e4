"""The real driver in a simulated world: rules, journal, committer and requests; fake broker, disk, Spark and clock.

Must not know: which faults there are, or what must hold. What is modelled here is Spark: how it plans epochs, writes
``offsets/`` and ``commits/``, runs tasks and gives up attempts; and the writers, request by request.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import math
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from onceflow.checkpoint import journal as journal_module
from onceflow.checkpoint.identity import JobIdentity, write_identity
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.place import Place as CheckpointPlace
from onceflow.checkpoint.receipts import Receipts
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.connectors.contract import Connector, Guarantee, Run, Sink, SinkConnection
from onceflow.connectors.kafka import committer as committer_module
from onceflow.connectors.kafka import inspection as inspection_module
from onceflow.connectors.kafka import offsets as offsets_module
from onceflow.connectors.kafka import oracle
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.client import Topic as KafkaTopic
from onceflow.connectors.kafka.committer import KafkaCommitter
from onceflow.connectors.kafka.offsets import Bounds
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.prepared import Handle, PreparedTransaction, Witness, read_handle
from onceflow.connectors.kafka.source import explain
from onceflow.connectors.kafka.source_connection import KafkaSourceConnection
from onceflow.connectors.kafka.transactional_id import name_transaction
from onceflow.errors import (
    EpochFailedError,
    FencedError,
    KafkaUnavailableError,
    OnceflowError,
    PreCommitError,
    WriterFencedError,
)
from onceflow.execution import launch
from onceflow.execution.driver import Driver
from onceflow.execution.failures import from_spark
from onceflow.execution.source_check import Sources
from onceflow.execution.stop import Stop
from onceflow.execution.surroundings import Surroundings
from onceflow.operations.transactions import aborting, resolution
from onceflow.spark.plan import Leaf
from onceflow.twophase import layout as layout_module
from onceflow.twophase.coordinator import Coordinator, Mode
from onceflow.twophase.messages import Action, Checked, Evidence, Outcome, Ran, Reply, RunPlan, Started
from onceflow.twophase.participants import Part, Participant, ParticipantId, PartId, TaskReport, parts_of
from onceflow.twophase.records import Decide, Planned, Replay, Resolve
from onceflow.twophase.state import Input, State
from tests.simulation.checks import JOB, PREFIX, TIMEOUT_S, Row, Watch
from tests.simulation.edits import Job, Output, Place, from_text, in_positions, to_text
from tests.simulation.fake_broker import (
    CONCURRENT,
    FENCED,
    INVALID_EPOCH,
    INVALID_MAPPING,
    INVALID_STATE,
    ONGOING,
    FakeBroker,
    FakeClient,
    fetch,
)
from tests.simulation.fake_files import FakeStore, Files
from tests.simulation.judge import Judge
from tests.simulation.sim_operator import act
from tests.simulation.world import ASK, CHANGE, LOOK, SEND, Actor, Chooser, Killed, World

_FENCED = frozenset({FENCED, INVALID_EPOCH, INVALID_MAPPING, INVALID_STATE})


class SparkError(Exception):
    """Spark's query ends."""

    @classmethod
    def two_queries(cls, file: str) -> SparkError:
        """Another query wrote the file that this one was about to write."""
        return cls(f"[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log: {file} is there already")


def as_the_job_says(error: Exception) -> OnceflowError:
    """What the job raises for an error that ended its query."""
    return from_spark(error, explain) or EpochFailedError(f"the query ended: {error}")


class TaskFailed(Exception):  # noqa: N818 - what Spark calls it
    """An attempt at a task failed; ``fenced``: its transaction was ended under its hands."""

    def __init__(self, what: str, *, fenced: bool = False) -> None:
        super().__init__(what)
        self.fenced = fenced


@dataclass
class Plan:
    """What a run of the simulation is about.

    Attributes:
        epochs: About how many there are: the source has four records for each.
        sinks, shards: The layout.
        stateful: The plan keeps state.
        deterministic: The plan gives the same rows at every run.
        v5: The broker knows EndTxn v5.
        renumbers: Every start of the job numbers the tasks in another way.
        retain: Epochs kept in the journal.
        flaky: One in so many requests of a writer ends with its attempt given up.
        remembers: At one in so many moments a record or an id is gone; 0: never.
        sound: At one in so many moments the disk spoils a record of the journal; 0: never.
        max_epoch: Producer epochs before a producer id rotates.
        most_starts: Drivers that are started before the faults end.
        operator: A person is at work, too.
        accepts: That person takes other state for that of the decided rows.
        moves: Another run of a plan that is not deterministic moves rows between its tasks.
        edits: The job is edited between its starts, and its source topics are deleted and made again.
        keeps: At one in so many moments a source of an edited job changes.
        slow: Seconds between two records of a task; tasks run beside each other.
        grouped: How many tasks of a sink are committed as one, by one step; 0: each is by itself, as in Kafka.
    """

    epochs: int = 3
    sinks: tuple[str, ...] = ("a", "b")
    shards: int = 2
    stateful: bool = False
    deterministic: bool = True
    v5: bool = True
    renumbers: bool = False
    retain: int = 2
    flaky: int = 60
    remembers: int = 12
    sound: int = 150
    max_epoch: int = 32766
    most_starts: int = 6
    operator: bool = False
    accepts: bool = False
    moves: bool = True
    edits: bool = False
    keeps: int = 60
    slow: float = 0.0
    grouped: int = 0


class Copy:
    """A copy of the checkpoint.

    Attributes:
        step: When it was taken.
        folders: Those that a copy has, in the order of ``Scene._checkpoint_folders``.
    """

    def __init__(self, step: int, *folders: dict[str, bytes]) -> None:
        self.step = step
        self.folders = folders


class Scene:
    """A checkpoint, a broker, a source, and the drivers that run on them.

    Args:
        plan: What the run is about.
        chooser: Who decides.
    """

    def __init__(self, plan: Plan, chooser: Chooser, *, scripted: bool = False, trace: list[str] | None = None) -> None:
        self.plan = plan
        self.world = World(chooser, scripted=scripted, trace=trace)
        self.watch = Watch(self.world)
        self.watch.began = {}
        self.broker = FakeBroker(lambda: self.world.now, self.watch, v5=plan.v5, max_epoch=plan.max_epoch)
        self.journal, self.offsets, self.commits = Files(), Files(), Files()
        self.initial, self.ours = Files(), Files()
        self.receipts = self.journal.below("receipts")
        identity = JobIdentity(JOB, "checkpoint", FakeClient.cluster_id, PREFIX)
        write_identity(FakeStore("onceflow", self.ours, lambda _, effect: effect()), identity)
        self.drivers: dict[str, SimDriver] = {}  # the newest of each process
        self.zombies: list[Iterator[Any]] = []
        self.runs = 0
        self.started = 0
        self.errors: list[OnceflowError] = []
        self.acts = 0
        self.job = Job.of_two_outputs(chooser.draw) if plan.edits else Job.of_one_output(plan.sinks, 4 * plan.epochs)
        self.copy: Copy | None = None
        self.newest: Copy | None = None
        self.claims = False
        self.claiming: set[str] = set()  # processes that were started with --claim
        self.marks: dict[str, str] = {}
        self.shown: set[str] = set()  # handles of participants that were committed by one step
        self.judge = Judge(self)
        self.world.on_wait = self._time_passes
        self.world.on_power_cut = self._power_cut
        self.world.on_slow = lambda slow: setattr(self.broker, "slow", slow)
        self.world.on_idle = self.broker.complete_all

    # -- faults that are not an answer ------------------------------------------------------------------------------

    def _time_passes(self, one: bool) -> None:
        if one:
            names = sorted(t.name for t in self.broker.transactions.values() if t.state == "Ongoing")
            if names:
                self.broker.transactions[self.world.chooser.draw("which", names)].began -= TIMEOUT_S + 5
        else:
            self.world.now += TIMEOUT_S + 5
        if self.broker.expire():
            self.world.marks.add("transactions expired")

    def _power_cut(self) -> None:
        self.zombies.clear()
        # Each folder loses what was written last, but for what somebody synced; and no commits/N outlives offsets/N:
        # that is refused, rightly, and a person has to look at it.
        for name in self.journal.unsynced:
            self._lose(self.journal, name, "journal")
        lost = [name for name in self.offsets.unsynced if self._lose(self.offsets, name, "offsets")]
        first = min(map(int, lost), default=math.inf)
        for name in self.commits.unsynced:
            self._lose(self.commits, name, "commits", surely=int(name) >= first)
        for name in self.receipts.unsynced:
            self._lose(self.receipts, name, "journal/receipts")
        for files in (self.journal, self.offsets, self.commits, self.receipts):
            files.settle()
        self._read_books()

    def _lose(self, files: Files, name: str, folder: str, *, surely: bool = False) -> bool:
        if files.later_stays(name) or not (surely or self.world.chooser.draw("lost to the power cut", [True, False])):
            return False
        self.world.say(f"    the power cut takes {folder}/{name}")
        self.world.marks.add("the power cut took a file")
        files.lose(name)
        return True

    def step_zombie(self) -> None:
        """A task of a dead driver, or an attempt that was given up, goes on by one request."""
        zombie = self.world.chooser.draw("zombie", self.zombies)
        try:
            next(zombie)
            self.world.marks.add("a zombie wrote")
        except (StopIteration, TaskFailed, PreCommitError) as end:
            if not isinstance(end, StopIteration):
                self.world.marks.add("a zombie was fenced")
            self.zombies.remove(zombie)

    def forget_something(self) -> None:
        """Retention or compaction takes a record whose transaction has ended, or an id expires."""
        done = [
            b
            for log in self.broker.logs.values()
            for b in log
            if not b.is_control_batch and not b.gone and any(m.producer_id == b.producer_id and m.is_control_batch
                                                            for m in log[b.next_offset :])
        ]  # fmt: skip
        idle = [t.name for t in self.broker.transactions.values() if t.state.startswith("Complete")]
        if done and self.world.chooser.draw("forget", ["record", "id"]) == "record":
            self.world.chooser.draw("which", done).gone = True
            self.watch.lost_evidence = True
            self.world.say("    a record is gone")
        elif idle:
            name = self.world.chooser.draw("which", idle)
            self.world.say(f"    {name} is forgotten")
            self.broker.forget(name)

    def duplicate_late(self) -> None:
        """A duplicate of a writer's first request arrives after the commit, and opens the handle again."""
        done = [t for t in self.broker.transactions.values() if t.state == "CompleteCommit"]
        if done:
            found = self.world.chooser.draw("which", done)
            self.broker.add(found.name, found.pid, found.epoch, min(found.partitions))
            self.world.marks.add("a late duplicate opened a committed transaction")
            self.world.say(f"    a late duplicate opens {found.name} {found.pid}/{found.epoch}")

    def rot(self) -> None:
        """The disk spoils a record of the journal."""
        name = self.world.chooser.draw("which", sorted(self.journal.content))
        self.world.say(f"    {name} is spoiled")
        self.journal.content[name] = self.journal.content[name][:-9]
        self.watch.rotten = True

    # -- a driver ---------------------------------------------------------------------------------------------------

    def start_driver(self) -> Actor:
        """A new process on the checkpoint."""
        self.started += 1
        actor = self.world.spawn(f"driver-{self.started}", self._run)
        self.watch.began[actor.name] = self.world.steps
        return actor

    def _run(self, actor: Actor) -> None:
        try:
            Process(self, actor).run()
        except (OnceflowError, SparkError) as error:
            driver = self.drivers.get(actor.name)
            self._ended(actor, driver, as_the_job_says(error))
            raise
        except Exception as error:
            bug = f"{actor.name} ends with {error!r}"
            if self.world.trace is not None:
                self.world.say(traceback.format_exc())
            self.world.check(False, "our errors", lambda: bug)

    def start_operator(self, what: str) -> Actor:
        """A person gives a command."""
        self.acts += 1
        actor = self.world.spawn(f"operator-{self.acts}", lambda actor: self._operate(actor, what))
        self.watch.began[actor.name] = self.world.steps
        return actor

    def _operate(self, actor: Actor, what: str) -> None:
        try:
            act(self, actor, what)
        except OnceflowError as error:
            said, mine = f"{actor.name}: {error}", self.watch.incarnations.get(actor.name, 0)
            if isinstance(error, FencedError):
                self.world.check(0 < mine < self.watch.newest, "refusals", lambda: said)
            raise
        except Exception as error:
            bug = f"{actor.name} ends with {error!r}"
            self.world.check(False, "our errors", lambda: bug)

    # -- copies of the checkpoint -------------------------------------------------------------------------------------

    def take_copy(self) -> Copy:
        """The whole checkpoint, at one moment."""
        return Copy(self.world.steps, *(files.copy() for files in self._checkpoint_folders()))

    def _checkpoint_folders(self) -> tuple[Files, ...]:
        return self.journal, self.offsets, self.commits, self.initial, self.receipts

    def put_back(self, copy: Copy) -> None:
        """A person ends all drivers and puts a copy in the checkpoint's place."""
        for actor in self.world.actors:
            actor.killed = True
        self.world.bury()
        self.world.land_all()
        self.world.say(f"    the copy of step {copy.step} is put back")
        for files, content in zip(self._checkpoint_folders(), copy.folders, strict=True):
            files.put_back(content)
        self._read_books()
        self.judge.somebody_came()

    def exchange(self) -> None:
        """An older copy comes in the place of the checkpoint, which is set aside."""
        if self.copy is not None and not self.watch.older:
            newest, copy = self.take_copy(), self.copy
            self.put_back(copy)
            self.newest, self.watch.older = newest, True
            self.world.marks.add("operator: an older copy")

    def put_newest_back(self) -> None:
        """What was set aside is the checkpoint again."""
        if self.newest is not None:
            self.put_back(self.newest)
            self.newest, self.watch.older = None, False
            self.world.marks.add("operator: the newest copy")

    def claimed(self) -> None:
        """A start with --claim is in the journal: what is here now is the checkpoint."""
        self.claims = False
        if self.watch.older and self.copy is not None:
            self.watch.claimed(self.copy.step)
            self.world.marks.add("operator: --claim")
        self.newest = None
        self.judge.somebody_came()

    def written_down(self) -> set[str]:
        """The handles that the journal or a receipt names."""
        entries = [journal_module.decode(data, int(name[:-5])) for name, data in self.journal.content.items()]
        held = (entry.record.participants for entry in entries if isinstance(entry.record, Decide | Replay))
        store = FakeStore("receipts", self.receipts, lambda _, effect: effect())
        receipted = (receipt.participants for receipt in Receipts(store).read())
        handles = {p.handle for of in held for p in of} | {p.id[1] for of in receipted for p in of}
        return {handle for together in handles for handle in together.split(TOGETHER)}

    def _read_books(self) -> None:
        """The books are what is on the disk; with a spoiled record in it they stay as they were."""
        try:
            left = [
                (int(n[:-5]), journal_module.decode(d, int(n[:-5]))) for n, d in sorted(self.journal.content.items())
            ]
        except ValueError:
            self.watch.rotten = True
            return
        self.watch.rotten = False
        self.watch.read_again((place, entry.record) for place, entry in left)
        self.job.planned = ()
        for _, entry in left:
            if isinstance(entry.record, Planned):
                self.job.laid(entry.record.layout)

    # -- what a process is given ------------------------------------------------------------------------------------

    def client(self, actor: Actor) -> FakeClient:
        """A process's connection to the cluster."""
        return SimClient(self, self.broker, self.network, actor.name, lambda: self.world.sleep(0.1))

    def committers(self, client: FakeClient) -> dict[str, SimCommitter]:
        """The job's, over a connection."""
        return {sink: SimSink(self, client, sink).connect().committer(PREFIX, JOB) for sink in self.sinks}

    @property
    def sinks(self) -> tuple[str, ...]:
        """The sinks of the job as it is now."""
        return self.job.sinks

    def checkpoint(self) -> SimCheckpoint:
        """Spark's side of the checkpoint, for one process."""
        return SimCheckpoint(self)

    def _ended(self, actor: Actor, driver: SimDriver | None, error: OnceflowError) -> None:
        self.errors.append(error)
        self.judge.ended(actor, driver, error)

    def store(
        self,
        folder: str,
        files: Files,
        created: Callable[[str, bytes], None] = lambda _, __: None,
        unanswered: Callable[[], None] = lambda: None,
    ) -> FakeStore:
        """One process's access to a folder."""

        def carry(what: str, effect: Callable[[], Any]) -> Any:
            options = CHANGE if what.startswith(("create", "replace", "remove")) else LOOK
            answer = self.world.request(what, effect, options)
            if answer is None:
                unanswered()
            return answer

        return FakeStore(folder, files, carry, created)

    def network(self, what: str, effect: Callable[[], Any]) -> Any:
        """A request to the broker."""
        return self.world.request(what, effect, SEND if what.startswith(("commit", "abort", "init")) else ASK)

    def created(self, name: str, data: bytes) -> None:
        """A file appeared in the journal."""
        place = int(name[:-5])
        entry = journal_module.decode(data, place)
        self.world.say(f"    journal {place}: {entry.record}")
        self.watch.appended(place, entry.record)
        if isinstance(entry.record, Planned):
            self.job.laid(entry.record.layout)
        if isinstance(entry.record, Decide):
            self.job.went_on()
        if isinstance(entry.record, Resolve):
            self.judge.somebody_came()

    # -- the source and the plan --------------------------------------------------------------------------------------

    def rows(
        self, epoch: int, sinks: tuple[str, ...], read: Reading, salt: int, incarnation: int
    ) -> tuple[dict[PartId, list[Row]], dict[PartId, str]]:
        """What one run of the plan gives for each sink and shard, and what was read for it.

        Other runs than those of salt 0 give other rows.
        """
        turn = salt * self.plan.moves + incarnation * self.plan.renumbers
        told = self.plan.deterministic or not self.plan.moves  # else rows move between tasks, and no task has an origin
        run = 1 if self.plan.grouped else 2  # so many records in a row are of one shard; groups need many shards
        out: dict[PartId, list[Row]] = {}
        origins: dict[PartId, str] = {}
        for sink in sinks:
            records = read(sink)
            for n in range(self.plan.shards):
                # The seventh and eighth record leave a shard empty; other runs of a plan that is not deterministic
                # also move rows between shards.
                mine = [r for r in records if (turn if r in (6, 7) else r // run + turn) % self.plan.shards == n]
                out[PartId((sink, n))] = [Row(record, epoch, sink, n, salt) for record in mine]
                origins[PartId((sink, n))] = f"part {(n - turn) % self.plan.shards}" if told else ""
        return out, origins


_WRAP = (1 << 64) - 1


@functools.cache
def _hashed(row: Row) -> int:
    """64 bits, as Spark's hash has; 32 of Python's own gave two parts one sum, once in a hundred thousand worlds."""
    return int.from_bytes(hashlib.blake2b(f"{row.record} {row.run}".encode(), digest_size=8).digest())


class WatchedCoordinator(Coordinator):
    """Leaves a mark at every step that it takes."""

    def __init__(self, world: World, sinks: Collection[str]) -> None:
        super().__init__(sinks)
        self._world = world

    def _step(self, happened: Input, memory: Any) -> Action:
        self._world.marks.add(f"{self.state.name} + {happened.name}")
        action = super()._step(happened, memory)
        if self._world.trace is not None:
            self._world.say(f"    [{self.state.name}] {happened.value}")
        return action


class _Now(Executor):
    """Makes every call at once."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **more))
        except Exception as error:
            future.set_exception(error)
        return future


class SimStop(Stop):
    """The real one; the waits between two attempts are the world's."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def pause(self, seconds: float) -> None:
        self._world.sleep(seconds)


class SimCommitter(KafkaCommitter):
    """The real one; its mark is always written, and at once; no right is missing.

    Args:
        marks: The marks outside of the checkpoint, by group.
    """

    def __init__(self, *args: Any) -> None:
        *args, self._marks = args
        super().__init__(*args)

    def preflight(self) -> None:
        """All is allowed."""

    def read_mark(self) -> str | None:
        return self._marks.get(self._mark_group())

    def write_mark(self, mark: str) -> None:
        self._marks[self._mark_group()] = mark


TOGETHER = "+"
"""Between the handles of those that are committed as one."""


class GroupCommitter(SimCommitter):
    """Of a system that shows the rows of several tasks by one step: all that were open, or none.

    What a task has prepared is a transaction of the broker all the same, which expires, is listed, and is aborted by
    itself. One that is gone takes its group with it: the others are never shown.

    Args:
        scene: Says how many are one, and keeps which groups were shown.
    """

    def __init__(self, scene: Scene, *args: Any) -> None:
        super().__init__(*args)
        self._scene = scene

    def seal(self, reports: Sequence[TaskReport], run: Run) -> list[Participant]:
        left, sealed = super().seal(reports, run), []
        while left:
            together = []
            while left and len(together) < self._scene.plan.grouped:
                together.append(left.pop(left.index(self._scene.world.chooser.draw("group", left))))
            handle = TOGETHER.join(p.handle for p in together)
            held = {"members": [dict(p.transaction) for p in together]}
            sealed.append(Participant(self._sink, handle, parts_of(together), held))
        return sealed

    def can_finish(self, participant: Participant) -> bool:
        return all(super(GroupCommitter, self).can_finish(p) for p in _members(participant))

    def check(self, participants: Sequence[Participant], run: Run, age_s: float) -> str | None:
        return super().check([m for p in participants for m in _members(p)], run, age_s)

    def commit(self, participants: Sequence[Participant]) -> dict[ParticipantId, Reply]:
        replies = {}
        for p in participants:
            answer = self._client.ask(f"commit group {p.handle}", lambda p=p: self._show(p))  # type: ignore[attr-defined]
            replies[p.id] = Reply.RETRY if answer is None else Reply.COMMITTED if answer else Reply.SUSPECT
        return replies

    def _show(self, participant: Participant) -> bool:
        """One step of the system."""
        if participant.handle in self._scene.shown:
            return True
        broker, handles = self._scene.broker, [read_handle(m.transaction) for m in _members(participant)]
        for handle in handles:
            assert isinstance(handle, Handle)
            found = broker.transactions.get(handle.transactional_id)
            at = None if found is None else (found.state, found.pid, found.epoch)
            if at != (ONGOING, handle.producer_id, handle.producer_epoch):
                return False
        for handle in handles:
            assert isinstance(handle, Handle)
            name, pid, epoch = handle.transactional_id, handle.producer_id, handle.producer_epoch
            broker.end(name, pid, epoch, commit=True, by=self._client.who)  # type: ignore[attr-defined]
        self._scene.shown.add(participant.handle)
        if len(handles) > 1:
            self._scene.world.marks.add("several tasks were shown by one step")
        return True

    def abort(self, participants: Sequence[Participant]) -> None:
        super().abort([m for p in participants for m in _members(p)])

    def outcomes(self, participants: Sequence[Participant]) -> dict[ParticipantId, Evidence]:
        found = super().outcomes([m for p in participants for m in _members(p)])
        return {p.id: _of_all([found[m.id] for m in _members(p)]) for p in participants}

    def lingering(self, incarnation: int, spared: Sequence[Participant]) -> list[Participant]:
        return super().lingering(incarnation, [m for p in spared for m in _members(p)])


def _members(participant: Participant) -> list[Participant]:
    """The transactions that are one participant; one that lingers is by itself."""
    held = participant.transaction.get("members")
    if held is None:
        return [participant]
    return [Participant(participant.sink, str(read_handle(each)), (), each) for each in held]


def _of_all(found: Sequence[Evidence]) -> Evidence:
    """What is known of a group: one that was shown was shown with all, and one that is gone can never be shown."""
    for outcome in (Outcome.COMMITTED, Outcome.ABORTED):
        for evidence in found:
            if evidence.outcome is outcome:
                return evidence
    unknown = [evidence for evidence in found if evidence.outcome is Outcome.UNKNOWN]
    if unknown:
        return replace(unknown[0], passing=all(evidence.passing for evidence in unknown))
    return found[0]


class SimSink(Sink):
    """A sink as a start needs it: the description.

    Args:
        scene: The world.
        client: The process's connection.
        name: The sink's name.
    """

    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(self, scene: Scene, client: FakeClient, name: str) -> None:
        self.name = name
        self._scene = scene
        self._client = client

    def expires_after_s(self) -> float:
        return TIMEOUT_S

    def connect(self) -> SimSinkConnection:
        return SimSinkConnection(self._scene, self._client, self.name)

    def columns(self, names: Any) -> Any:
        raise NotImplementedError

    def describe(self) -> str:
        return self.name


class SimSinkConnection(SinkConnection):
    """The same, connected."""

    def __init__(self, scene: Scene, client: FakeClient, name: str) -> None:
        self._scene, self._client, self._name = scene, client, name
        self.system_id = client.cluster_id

    def committer(self, prefix: str, job_id: str) -> SimCommitter:
        told = (self._client, self._name, f"out-{self._name}", prefix, job_id, int(TIMEOUT_S * 1000), self._scene.marks)
        return GroupCommitter(self._scene, *told) if self._scene.plan.grouped else SimCommitter(*told)

    def writer_factory(self) -> Any:
        return None

    def close(self) -> None:
        """There is nothing to close."""


class SourceClient:
    """Where a source asks its cluster; stands in the place of a KafkaClient and of its admin client.

    Args:
        scene: The world.
        cluster: The cluster's id.
    """

    def __init__(self, scene: Scene, cluster: str) -> None:
        self._scene = scene
        self.cluster_id = cluster
        self.admin = self

    def brokers(self) -> list[int]:
        """There is one."""
        return [0]

    def close(self) -> None:
        """There is nothing to close."""

    def topics(self, names: Any) -> dict[str, KafkaTopic]:
        return self._ask(
            "topics",
            lambda: {
                n: KafkaTopic(n, t.id, dict.fromkeys(range(t.partitions), 0))
                for n in names
                if (t := self._topic(n)) is not None
            },
        )

    def bounds(self, wanted: Any) -> dict[Partition, Bounds]:
        return self._ask(
            "bounds",
            lambda: {
                p: Bounds(t.earliest, t.size) if p.number == 0 else Bounds(0, 0)  # all records are in the first one
                for p in wanted
                if (t := self._topic(p.topic)) is not None
            },
        )

    def _topic(self, name: str) -> Any:
        return self._scene.job.topics.get(Place(self.cluster_id, name))

    def _ask(self, what: str, effect: Callable[[], Any]) -> Any:
        answer = self._scene.world.request(f"{what} of {self.cluster_id}", effect, ASK)
        if answer is None:
            raise KafkaUnavailableError(f"no answer for {what} of {self.cluster_id}")
        return answer


def bounds(admin: SourceClient, wanted: Any, **_: Any) -> dict[Partition, Bounds]:
    """Stands in the place of ``offsets.bounds``."""
    return admin.bounds(list(wanted))


class SimClient(FakeClient):
    """A connection to the cluster of the sinks, on which sources are, too."""

    def __init__(self, scene: Scene, *args: Any) -> None:
        super().__init__(*args)
        self._scene = scene
        self.admin = SourceClient(scene, self.cluster_id)

    def topics(self, names: Any) -> dict[str, KafkaTopic]:
        found = super().topics(names)
        for name in found:
            topic = self._scene.job.topics.get(Place(self.cluster_id, name))
            if topic is not None:
                found[name] = KafkaTopic(name, topic.id, dict.fromkeys(range(topic.partitions), 0))
        return found


class SimSource:
    """A KafkaSource as its connection needs it.

    Args:
        scene: The world.
        reads: What it reads.
    """

    group = None

    def __init__(self, scene: Scene, reads: Place) -> None:
        self._scene = scene
        self.system = reads.cluster
        self.topics = (reads.topic,)

    def reads(self, topic: str) -> bool:
        return topic in self.topics

    def connect(self) -> KafkaSourceConnection:
        return KafkaSourceConnection(SourceClient(self._scene, self.system))  # type: ignore[arg-type]


def sources_of(scene: Scene) -> Sources:
    """Of the job as it is now."""
    outputs = in_positions(scene.job.outputs)
    leaves = [Leaf(o.sinks, str(n), {"subscribe": o.reads.topic}, o.path) for n, o in enumerate(outputs)]
    states = [layout_module.State(o.sinks, "counts", f"{o.reads.topic} {o.path}") for o in outputs]
    made = {str(n): SimSource(scene, o.reads) for n, o in enumerate(outputs)}
    connector = Connector(lambda kind, _: made[kind], explain)  # type: ignore[arg-type,return-value]
    return Sources(leaves, states if scene.plan.stateful else [], [connector])


class SimCheckpoint(SparkCheckpoint):
    """The real one over fake folders."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        offsets, commits = scene.store("offsets", scene.offsets), scene.store("commits", scene.commits)
        super().__init__(Path("checkpoint"), offsets, commits)
        self._initial = scene.store("sources", scene.initial)

    def is_stateful(self) -> bool:
        return self.scene.plan.stateful

    def initial_offsets(self, source: int) -> str:
        try:
            return self._initial.read(str(source)).decode()
        except FileNotFoundError:
            return ""

    def set_start(self, epoch: int, before: str) -> None:
        if epoch > 0:
            super().set_start(epoch, before)
            return
        for number, line in enumerate(before.splitlines()[2:]):
            if line == "{}":
                continue  # it stays where it is
            self._initial.replace(str(number), line.encode())


class Process:
    """One start of the job: what ``Job.run`` and ``launch`` do, in their order. Stands in the place of a ``Plan``.

    Args:
        scene: The world.
        actor: The process.
    """

    prefix = PREFIX

    def __init__(self, scene: Scene, actor: Actor) -> None:
        self._scene = scene
        self._actor = actor
        self.takeover = "claim" if scene.claims else None
        if scene.claims:
            scene.claiming.add(actor.name)

    def place(self) -> CheckpointPlace:
        """The checkpoint; stands in the place of ``place_of``."""
        scene = self._scene
        records = scene.store("journal", scene.journal, scene.created, self._got_no_answer)
        journal = Journal(records, retain=scene.plan.retain)
        return CheckpointPlace("checkpoint", scene.checkpoint(), scene.store("onceflow", scene.ours), records, journal)

    def _got_no_answer(self) -> None:
        """From here on it cannot be held to know what is in the journal."""
        driver = self._scene.drivers.get(self._actor.name)
        if driver is not None:
            driver.blind_at = self._scene.world.steps

    def take_over(self) -> tuple[SimDriver, Sources]:
        """What comes before the sources and the plan are settled."""
        client = self._scene.client(self._actor)
        sinks = [SimSink(self._scene, client, name) for name in self._scene.sinks]
        sources = sources_of(self._scene)
        launch.finish_decided(sinks, self)  # type: ignore[arg-type]
        self.limit = launch.epoch_limit(self, sinks)  # type: ignore[arg-type]
        place = self.place()
        launch._foresee(place, sources)
        driver = launch._driver(place, {sink.name: sink.connect() for sink in sinks}, self)  # type: ignore[arg-type]
        driver.take_over()
        return driver, sources  # type: ignore[return-value]

    def run(self) -> None:
        """To the end of the sources."""
        outputs = in_positions(self._scene.job.outputs)
        driver, sources = self.take_over()
        driver.settle(driver.run_tasks, sources, cuts=True)
        Query(self._scene, driver, outputs, self.limit.most).run()


class SimDriver(Driver):
    """The real driver; and what runs its plans in Spark's place."""

    ignores_delivery_errors = False  # a mutant sets it

    def __init__(
        self,
        identity: JobIdentity,
        journal: Journal,
        checkpoint: SimCheckpoint,
        committers: Mapping[str, SimCommitter],
        uri: str,
        _: Coordinator,
        __: Surroundings,
        above: int = 0,
    ) -> None:
        self.scene = scene = checkpoint.scene
        rules = WatchedCoordinator(scene.world, committers)
        around = Surroundings(SimStop(scene.world), lambda: float(scene.world.now), _Now(), _Now())
        super().__init__(identity, journal, checkpoint, committers, uri, rules, around, above)
        assert scene.world.current is not None
        self.actor = scene.world.current
        self.sinks = tuple(committers)
        self.state: int | None = None
        self.ran_from = 0.0
        self.failed_at = self.blind_at = -1
        scene.drivers[self.actor.name] = self

    def got_no_evidence(self) -> bool:
        """Whether brokers did not answer when it last asked for outcomes."""
        return any(evidence.passing for evidence in self._evidence.values())

    def _perform(self, action: Action) -> Any:
        scene, memory = self.scene, self._coordinator.memory
        if self.incarnation:
            scene.watch.incarnations[self.actor.name] = self.incarnation
        finishing = self._coordinator.state is State.FINISHING or memory.mode is Mode.ROLL_FORWARD
        (scene.watch.rolling.add if finishing else scene.watch.rolling.discard)(self.actor.name)
        began = scene.world.steps
        event = super()._perform(action)
        if isinstance(event, Started):
            scene.watch.incarnations[self.actor.name] = event.history.incarnation
            if self.actor.name in scene.claiming:
                scene.claimed()
        if isinstance(event, Checked) and event.problem is not None and self._cause is None:
            self.failed_at = began  # it has looked at the journal since, and may have slept then
        return event

    def _failed_run(self, epoch: int, error: Exception) -> Any:
        self.failed_at = self.scene.world.steps
        return super()._failed_run(epoch, error)

    def __call__(self, batch: Any, epoch: int) -> None:
        self.state = None
        if self.scene.world.chooser.draw("sweep", [False, False, False, True]):
            self.sweep()
        super().__call__(batch, epoch)

    def run_tasks(self, read: Any, action: RunPlan, _: Run, __: Executor) -> Ran:
        """The epoch's tasks, request by request, beside each other."""
        scene = self.scene
        scene.runs += 1
        self.ran_from = scene.world.now
        salt = 0 if scene.plan.deterministic else scene.world.chooser.draw("salt", [scene.runs, scene.runs, 0])
        if self.state is None:
            self.state = salt  # the first run of a call builds the state
        rows, origins = scene.rows(action.epoch, self.sinks, read, salt, self.incarnation)
        done: dict[PartId, TaskReport] = {}
        tasks = {p: self._task(p, action, 0, rows[p], p in action.silent or not action.write) for p in rows}
        attempts = dict.fromkeys(tasks, 0)
        try:
            while tasks:
                who = scene.world.chooser.draw("task", list(tasks))
                try:
                    given_up = scene.world.chooser.draw("give up", [False] * scene.plan.flaky + [True])
                    if given_up and not scene.world.healing:
                        scene.zombies.append(tasks[who])
                        scene.world.marks.add("an attempt was given up")
                        raise TaskFailed("its executor was lost")
                    next(tasks[who])
                except StopIteration as end:
                    done[who] = end.value
                    del tasks[who]
                except TaskFailed as error:
                    attempts[who] += 1
                    if attempts[who] > 2:
                        kind = WriterFencedError if error.fenced else PreCommitError
                        raise kind(f"transaction of {who} could not be pre-committed: {error}") from error
                    tasks[who] = self._task(who, action, attempts[who], rows[who], who in action.silent)
        except BaseException as error:
            if not isinstance(error, Killed) or scene.world.chooser.draw("workers survive", [True, False]):
                scene.zombies += tasks.values()
            raise
        told = [replace(r, parts=tuple(replace(p, origin=origins[p.id]) for p in r.parts)) for r in done.values()]
        return Ran(tuple(told), self.sinks, scene.plan.shards)

    def _task(self, who: PartId, action: RunPlan, attempt: int, rows: list[Row], silent: bool) -> Iterator[Any]:
        """One attempt at one sink's part of one task, request by request; its value is the task's report."""
        broker, (sink, shard) = self.scene.broker, who
        digest = sum(_hashed(r) for r in rows) & _WRAP
        part = Part(sink, shard, len(rows), digest)
        if silent or not rows:
            return TaskReport(sink, shard, attempt, (part,))
        name = name_transaction(PREFIX, JOB, self.incarnation, sink, shard, action.epoch, attempt)
        code, pid, epoch = yield from self._ask(lambda: broker.init(name, TIMEOUT_S), f"init {name}")
        if code:
            raise TaskFailed(f"init {name}: {code}")
        began = self.scene.world.now
        partitions, witness = set(), Witness(Partition("", 0), 0)
        for n, row in enumerate(rows):
            partition = Partition(f"out-{sink}", row.record % 2)
            if self.scene.plan.slow:
                self.scene.world.now = max(self.scene.world.now, began + self.scene.plan.slow * n)
                broker.expire()
            code, offset = yield from self._ask(
                lambda row=row, partition=partition: broker.produce(name, pid, epoch, partition, row),
                f"write {name} {row}",
            )
            if code:
                if self.ignores_delivery_errors:
                    continue
                fatal = f"KafkaError{{FATAL,code=_FENCED,val=-144,str={code}}}" if code == FENCED else code
                raise TaskFailed(f"write {name}: {fatal}", fenced=code in _FENCED)
            partitions.add(partition)
            witness = Witness(partition, offset)
        prepared = PreparedTransaction(Handle(name, pid, epoch), frozenset(partitions), witness)
        return TaskReport(sink, shard, attempt, (part,), prepared.to_json())

    def _ask(self, effect: Callable[[], Any], what: str) -> Iterator[Any]:
        """A producer's request: sent once, and a step of the driver that waits for it, or of a zombie."""
        yield
        world, actor = self.scene.world, self.scene.world.current
        while True:
            if actor is self.actor:
                answer = world.request(what, effect, ASK)
                if answer is None:
                    if self.ignores_delivery_errors and what.startswith("write"):
                        return -1, -1
                    raise TaskFailed(f"{what}: no answer")
            else:
                world.say(f"zombie: {what}")
                answer = effect()
            if answer[0] != CONCURRENT:
                return answer
            self.scene.broker.complete_all()


Reading = Callable[[str], list[int]]
"""What an epoch's plan reads for a sink: the DataFrame that Spark hands to ``foreachBatch``."""


class Query:
    """Spark's query: plans an epoch, calls ``foreachBatch``, records it, and plans the next.

    Positions are found by their line's number alone.

    Args:
        scene: Where it runs.
        driver: What it calls.
        outputs: What the plan gives, in the order of its positions.
        most: How many records each source may read for an epoch, or None.
    """

    def __init__(self, scene: Scene, driver: SimDriver, outputs: Sequence[Output], most: int | None) -> None:
        self.scene = scene
        self.driver = driver
        self.job = scene.job
        self.outputs = outputs
        self.most = most
        self.begins = self.ends = [0] * len(outputs)

    def run(self) -> None:
        """Until the sources are read to their ends."""
        epoch = self._first()
        while epoch is not None:
            for output, first, last in zip(self.outputs, self.begins, self.ends, strict=True):
                if last < first:  # Spark plans the reading before it calls anybody
                    raise SparkError(f"Partition {output.reads.topic}-0 offset was changed from {first} to {last}")
            self.driver(self.read, epoch)
            self._record(epoch)
            epoch = self._next(epoch + 1)

    def read(self, sink: str) -> list[int]:
        """What the present epoch's plan gives for a sink."""
        found: list[int] = []
        for output, first, last in zip(self.outputs, self.begins, self.ends, strict=True):
            if sink in output.sinks:
                records = self.job.read(output, first, last)
                if records is None:
                    where = f"[{first}, {last}) for topic partition {output.reads.topic}-0"
                    raise SparkError(f"Could not read records in offset {where}")
                found += records
        return found

    def _first(self) -> int | None:
        offsets, commits = self.scene.offsets.numbers(), self.scene.commits.numbers()
        if not offsets:
            self.ends = self._initial()
            return self._next(0)
        newest = offsets[-1]
        self.ends = self._positions(newest)
        self.begins = self._positions(newest - 1) if newest > 0 else self._initial()
        return self._next(newest + 1) if commits and commits[-1] == newest else newest

    def _initial(self) -> list[int]:
        """Where the sources begin: Spark keeps it from the first time on."""
        content = self.scene.initial.content
        for number, output in enumerate(self.outputs):
            if str(number) not in content:
                earliest = self.job.topics[output.reads].earliest
                content[str(number)] = to_text([output], [earliest]).splitlines()[-1].encode()
        return self._checked("\n".join(["v1", "{}", *(content[str(n)].decode() for n in range(len(self.outputs)))]))

    def _positions(self, epoch: int) -> list[int]:
        text = self.scene.offsets.content.get(str(epoch))
        if text is None:
            raise SparkError(f"[MISSING_METADATA_FILE] batch {epoch} doesn't exist")
        return self._checked(text.decode())

    def _checked(self, text: str) -> list[int]:
        lines = list(from_text(text))
        if len(lines) != len(self.outputs):
            raise SparkError(
                f"There are [{len(lines)}] sources in the checkpoint offsets and now there are "
                f"[{len(self.outputs)}] sources requested by the query. Cannot continue."
            )
        for (topic, _), output in zip(lines, self.outputs, strict=True):
            if topic not in ("", output.reads.topic):
                raise SparkError(f"Partitions Set({topic}-0) have been deleted")
        return [at for _, at in lines]

    def _latest(self) -> list[int]:
        return [self.job.topics[output.reads].size for output in self.outputs]

    def _next(self, epoch: int) -> int | None:
        """Plan an epoch; None when the sources are read to their ends."""
        if self._latest() == self.ends:
            return None
        self.scene.world.point(f"plan {epoch}")
        text = self._plan()
        if str(epoch) in self.scene.offsets.content:
            raise SparkError.two_queries(f"offsets/{epoch}")
        self.scene.offsets.put(str(epoch), text.encode())
        self.scene.world.say(f"    offsets/{epoch} = {text.splitlines()[2:]!r}")
        self.scene.world.point(f"offsets/{epoch} is written")
        return epoch

    def _plan(self) -> str:
        for output, at, latest in zip(self.outputs, self.ends, self._latest(), strict=True):
            if latest < at:
                raise SparkError(f"Partition {output.reads.topic}-0 offset was changed from {at} to {latest}")
        self.begins, ends = self.ends, []
        for output, at, latest in zip(self.outputs, self.ends, self._latest(), strict=True):
            size = output.limit or self.scene.world.chooser.draw("size", [4, 4, 2, 3])
            ends.append(min(at + (size if self.most is None else min(size, self.most)), latest))
        self.ends = ends
        return to_text(self.outputs, self.ends)

    def _record(self, epoch: int) -> None:
        scene = self.scene
        scene.world.point(f"foreachBatch({epoch}) returned")
        if str(epoch) in scene.commits.content:
            raise SparkError.two_queries(f"commits/{epoch}")
        scene.commits.put(str(epoch), b"v1")
        scene.world.say(f"    commits/{epoch}")
        scene.watch.finished(epoch)
        self.job.went_on()
        if not self.job.gone:
            for sink in scene.watch.sinks_of(epoch) or self.driver.sinks:
                records = [r for r in self.read(sink) if self.job.keeps(r)]
                scene.watch.recorded(epoch, sink, records, self.driver.state if scene.plan.stateful else None)
        scene.world.point(f"commits/{epoch} is written")


_LOGGERS = (
    "onceflow.execution.driver",
    "onceflow.execution.launch",
    "onceflow.execution.ownership",
    "onceflow.connectors.kafka.committer",
    "onceflow.execution.source_check",
    "onceflow.connectors.kafka.source_connection",
)


@contextlib.contextmanager
def simulated() -> Iterator[None]:
    """The real modules, with the world's clock, a fake fetch, and no log."""

    def sleep(seconds: float = 0.1) -> None:
        CLOCK[0].sleep(seconds)

    def now() -> float:
        return float(CLOCK[0].now)

    clock = SimpleNamespace(monotonic=now, time=now, sleep=sleep)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    decode, decoded = journal_module.decode, {}

    def decode_once(data: bytes, place: int) -> Any:
        key = (data, place)
        if key not in decoded:
            if len(decoded) > 5000:
                decoded.clear()
            decoded[key] = decode(data, place)
        return decoded[key]

    with (
        mock.patch.object(launch, "Driver", SimDriver),
        mock.patch.object(launch, "place_of", lambda process: process.place()),
        mock.patch.object(offsets_module, "bounds", bounds),
        mock.patch.object(committer_module, "time", clock),
        mock.patch.object(aborting, "time", clock),
        mock.patch.object(resolution, "time", clock),
        mock.patch.object(inspection_module, "time", clock),
        mock.patch.object(KafkaClient, "wait_a_little", sleep),
        mock.patch.object(oracle, "_fetch", fetch),
        mock.patch.object(journal_module, "decode", decode_once),
    ):
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


CLOCK: list[Any] = [None]
"""The world of the present run."""
