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

from kafka import errors as kafka_errors
from kafka.admin import OffsetSpec

from onceflow.checkpoint.failures import Failures
from onceflow.checkpoint.identity import JobIdentity, write_identity
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.journal_codec import decode
from onceflow.checkpoint.place import Place as CheckpointPlace
from onceflow.checkpoint.receipts import Receipts
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.checkpoint.statistics import Statistics
from onceflow.connectors.contract import Guarantee, Run, Sink, SinkConnection
from onceflow.connectors.database.committer import DatabaseCommitter
from onceflow.connectors.database.tables import ABORTED, OPEN, PREPARED
from onceflow.connectors.kafka.client import TopicMetadata as KafkaTopic
from onceflow.connectors.kafka.committer import KafkaCommitter
from onceflow.connectors.kafka.group_offsets import name_group
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.prepared import Handle, PreparedTransaction, Witness, read_handle
from onceflow.connectors.kafka.source import explain
from onceflow.connectors.kafka.source_connection import KafkaSourceConnection
from onceflow.connectors.kafka.transactional_id import name_transaction
from onceflow.connectors.marks import Marks
from onceflow.connectors.source_contract import Connector
from onceflow.errors import (
    EpochFailedError,
    FencedError,
    KafkaUnavailableError,
    OnceflowError,
    PreCommitError,
    WriterFencedError,
)
from onceflow.execution.driver import Driver
from onceflow.execution.failures import EpochEnded, from_spark
from onceflow.execution.means import Means, Surroundings
from onceflow.execution.source_check import Sources
from onceflow.execution.stop import Stop
from onceflow.launch import request as of_start
from onceflow.launch import steps
from onceflow.launch.limit import epoch_limit
from onceflow.launch.starting import Starting
from onceflow.launch.steps import Do
from onceflow.options.checkpointing import Checkpointing
from onceflow.spark.plan import Leaf
from onceflow.storage.store import Store
from onceflow.twophase import layout as layout_module
from onceflow.twophase.coordinator import Coordinator
from onceflow.twophase.memory import Mode
from onceflow.twophase.messages import (
    Action,
    AskOutcomes,
    Check,
    Checked,
    Event,
    Evidence,
    Fail,
    Outcome,
    Outcomes,
    Ran,
    Ready,
    Reply,
    Return,
    RunFailed,
    RunPlan,
    Started,
    TakenOver,
)
from onceflow.twophase.participants import Part, Participant, ParticipantId, PartId, TaskReport, miscounted, parts_of
from onceflow.twophase.records import Decide, LayoutRecord, Replay, Resolve, Start
from onceflow.twophase.state import State
from tests.simulation.checks import JOB, OF_DATABASE, PREFIX, TIMEOUT_S, Lost, Row, Watch
from tests.simulation.edits import Job, Output, Place, Topic, from_text, in_positions, to_text
from tests.simulation.fake_broker import (
    CONCURRENT,
    FENCED,
    INVALID_EPOCH,
    INVALID_MAPPING,
    INVALID_STATE,
    ONGOING,
    FakeBroker,
    FakeClient,
)
from tests.simulation.fake_database import TARGET, Content, FakeDatabase, FakeEngine, hashed
from tests.simulation.fake_files import FakeStore, Files
from tests.simulation.judge import Judge
from tests.simulation.sim_operator import act
from tests.simulation.world import ASK, BACK, CHANGE, END, LOOK, SEND, Actor, Chooser, Killed, World

_TIMEOUT_MS = int(TIMEOUT_S * 1000)
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
        sinks, partitions: The layout.
        stateful: The plan keeps state.
        deterministic: The plan gives the same rows at every run.
        v5: The broker knows EndTxn v5.
        renumbers: Every start of the job numbers the partitions in another way.
        retain: Epochs kept in the journal.
        flaky: One in so many requests of a writer ends with its attempt given up.
        remembers: At one in so many moments a record or an id is gone; 0: never.
        sound: At one in so many moments the disk spoils a record of the journal; 0: never.
        max_epoch: Producer epochs before a producer id rotates.
        most_starts: Drivers that are started before the faults end.
        operator: A person is at work, too.
        accepts: That person takes other state for that of the decided rows.
        moves: Another run of a plan that is not deterministic moves rows between its partitions.
        edits: The job is edited between its starts, and its source topics are deleted and made again.
        keeps: At one in so many moments a source of an edited job changes.
        slow: Seconds between two records of a task; tasks run beside each other.
        together: How many tasks of a sink are committed as one, by one step; 0: each is by itself, as in Kafka.
        sleeps_in_rename: A driver may sleep where Spark has seen that offsets/N is not there and has not written it.
        databases: Of the sinks those that are tables, each of a database of its own; the others are topics.
        lives: At one in so many moments a database is put back, crashes or loses its ledger; 0: never.
        quiet: The last of the databases gets rows of the first records only.
    """

    epochs: int = 3
    sinks: tuple[str, ...] = ("a", "b")
    partitions: int = 2
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
    together: int = 0
    sleeps_in_rename: bool = False
    databases: tuple[str, ...] = ()
    lives: int = 0
    quiet: bool = False


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
        self.databases = {sink: self._database(sink) for sink in plan.databases}
        systems = {FakeClient.cluster_id if s not in self.databases else self.databases[s].name for s in plan.sinks}
        identity = JobIdentity(JOB, "checkpoint", ",".join(sorted(systems)), PREFIX)
        write_identity(FakeStore("onceflow", self.ours, lambda _, effect: effect()), identity)
        self.rules: dict[str, WatchedRules] = {}  # of the newest driver of each process
        self.zombies: list[Iterator[Any]] = []
        self.runs = 0
        self.started = 0
        self.errors: list[OnceflowError] = []
        self.acts = 0
        self.job = Job.of_two_outputs(chooser.draw) if plan.edits else Job.of_one_output(plan.sinks, 4 * plan.epochs)
        self.job.quiet = plan.databases[-1:] if plan.quiet else ()
        self.copy: Copy | None = None
        self.newest: Copy | None = None
        self.claims = False
        self.claiming: set[str] = set()  # processes that were started with --claim
        self.marks: dict[str, str] = {}
        self.shown: set[str] = set()  # handles of participants that were committed by one step
        self.judge = Judge(self)
        self.world.on_wait = self._time_passes
        self.world.on_power_cut = self._power_cut
        self.world.on_slow = self._markers_wait
        self.world.on_idle = self.broker.complete_all
        self.world.on_back = self._falls_back

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

    def _markers_wait(self, slow: bool) -> None:
        self.broker.slow = slow

    def _power_cut(self) -> None:
        self.zombies.clear()
        for database in self.databases.values():
            database.crash()
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
        self.watch.lost(self.lost())  # an epoch whose commits/N is gone is recovered, not asked for

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
            gone = self.world.chooser.draw("which", done)
            gone.gone = True
            self.watch.forgotten.add((gone.producer_id, gone.producer_epoch))
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

    # -- databases ----------------------------------------------------------------------------------------------------

    def _database(self, sink: str) -> FakeDatabase:
        def changed(before: Content, after: Content, by: str) -> None:
            self.watch.changed(sink, before, after, by)
            if before.ledger != after.ledger and self.watch.lost_now:
                self.watch.lost(self.lost())  # an older driver that slept in its commit has brought it back

        return FakeDatabase(sink, changed, lambda: self.world.chooser.draw("waits for the lock", [True, True, False]))

    def a_database_lives(self) -> None:
        """One of them is put back, crashes, or somebody empties its ledger."""
        database = self.databases[self.world.chooser.draw("database", list(self.plan.databases))]
        match self.world.chooser.draw("life", ["put back", "put back", "crash", "truncate"]):
            case "put back":
                self._put_database_back(database)
            case "crash":
                database.crash()
            case _:
                self._is_older(database, database.truncate, "lost its ledger")

    def _falls_back(self, what: str) -> None:
        """Between two requests a standby takes over that has not everything."""
        self._put_database_back(next(of for of in self.databases.values() if what.endswith(of.name)))

    def _put_database_back(self, database: FakeDatabase) -> None:
        commits = self.world.chooser.draw("commits", [1, 3, 9, 20, 50])
        self._is_older(database, lambda: database.put_back(commits), f"loses its last {commits} commits")

    def _is_older(self, database: FakeDatabase, happens: Callable[[], None], what: str) -> None:
        before = database.content
        happens()
        self.world.say(
            f"    {database.name} {what}: {len(database.content.ledger)} of {len(before.ledger)} in its ledger"
        )
        self.world.marks.add(f"a database {what.split(' last', maxsplit=1)[0]}")
        self.watch.put_back(database.sink, before, database.content)
        self.watch.lost(self.lost())
        self.judge.somebody_came()

    def bring_newest_back(self) -> None:
        """A person brings back what the databases had that were put back."""
        for sink in self.lost():
            database = self.databases[sink]
            self._is_older(database, database.bring_newest_back, "has what it had")

    def lost(self) -> Lost:
        """By sink and handle, what the checkpoint counts as committed, and its database does not know."""
        if self.watch.rotten:
            return {}
        newest = max(self.commits.numbers(), default=-1)
        missing = {s: self.watch.missing(s, of.content, newest) for s, of in self.databases.items()}
        if not any(missing.values()):
            return {}
        named = self.written_down()
        known = {s: {handle: at for handle, at in of.items() if handle in named} for s, of in missing.items()}
        return {sink: of for sink, of in known.items() if of}

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
            self._ended(actor, as_the_job_says(error))
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
        return self.journal, self.offsets, self.commits, self.initial, self.receipts, self.ours

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
        self.watch.lost(self.lost())  # a database may have been put back while there was another checkpoint
        self.judge.somebody_came()

    def exchange(self) -> None:
        """An older copy comes in the place of the checkpoint, which is set aside."""
        if self.copy is not None and not self.watch.older:
            newest, copy = self.take_copy(), self.copy
            self.put_back(copy)
            self.newest, self.watch.older = newest, True
            self.world.marks.add("operator: an older copy")

    def lose(self) -> None:
        """The checkpoint's folder is empty: deleted, not mounted, or another one; what was there is set aside.

        Where no sink knows yet that the job has written, nobody can tell this from a new job's place.
        """
        if name_group(PREFIX, NAME) in self.marks and not self.watch.older:
            newest = self.take_copy()
            self.put_back(Copy(self.world.steps, *({} for _ in self._checkpoint_folders())))
            self.newest, self.watch.older = newest, True
            self.world.marks.add("operator: the checkpoint is lost")

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

    def left_open(self) -> list[str]:
        """What is open in the sinks' systems."""
        staged = (of.content.attempts.items() for of in self.databases.values())
        attempts = [attempt for of in staged for attempt, (_, state) in of if state != ABORTED]
        return attempts + [t.name for t in self.broker.transactions.values() if t.state == ONGOING]

    def written_down(self) -> set[str]:
        """The handles that the journal or a receipt names."""
        entries = [decode(data, int(name[:-5])) for name, data in self.journal.content.items()]
        held = (entry.record.participants for entry in entries if isinstance(entry.record, Decide | Replay))
        store = FakeStore("receipts", self.receipts, lambda _, effect: effect())
        receipted = (receipt.participants for receipt in Receipts(store).read())
        handles = {p.handle for of in held for p in of} | {p.id[1] for of in receipted for p in of}
        return {handle for together in handles for handle in together.split(TOGETHER)}

    def _read_books(self) -> None:
        """The books are what is on the disk; with a spoiled record in it they stay as they were."""
        try:
            left = [(int(n[:-5]), decode(d, int(n[:-5]))) for n, d in sorted(self.journal.content.items())]
        except ValueError:
            self.watch.rotten = True
            return
        self.watch.rotten = False
        self.watch.read_again((place, entry.record) for place, entry in left)
        self.job.planned = ()
        for _, entry in left:
            if isinstance(entry.record, LayoutRecord):
                self.job.laid(entry.record.layout)

    # -- what a process is given ------------------------------------------------------------------------------------

    def client(self, actor: Actor) -> SimClient:
        """A process's connection to the cluster."""
        return SimClient(self, self.broker, self.network, actor.name, lambda: self.world.sleep(0.1))

    def described(self, client: SimClient) -> list[Sink]:
        """The job's sinks, over a connection."""
        kinds = ((SimDatabaseSink if sink in self.databases else SimSink, sink) for sink in self.sinks)
        return [kind(self, client, sink) for kind, sink in kinds]

    @property
    def sinks(self) -> tuple[str, ...]:
        """The sinks of the job as it is now."""
        return self.job.sinks

    def checkpoint(self) -> SimCheckpoint:
        """Spark's side of the checkpoint, for one process."""
        return SimCheckpoint(self)

    def _ended(self, actor: Actor, error: OnceflowError) -> None:
        self.errors.append(error)
        self.judge.ended(actor, self.rules.get(actor.name), error)

    def opened(self, unanswered: Callable[[], None] = lambda: None) -> CheckpointPlace:
        """The checkpoint, for one driver or one person.

        Args:
            unanswered: Called where the journal gave no answer.
        """
        records = self.store("journal", self.journal, self.created, unanswered)
        journal = Journal(records, retain=self.plan.retain)
        ours = self.store("onceflow", self.ours)
        told = Statistics(ours.below("statistics")), Failures(ours.below("failures"))
        return CheckpointPlace("checkpoint", self.checkpoint(), ours, records, journal, *told)

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

    def engine(self, who: str, database: FakeDatabase) -> FakeEngine:
        """A process's connection to a database."""

        def ask(what: str, effect: Callable[[], Any]) -> Any:
            return self.world.request(what, effect, (*ASK, BACK) if self.plan.lives else ASK)

        def is_late(ending: Callable[[], Any]) -> bool:
            return any(late.effect is ending for late in self.world.late)

        return FakeEngine(database, ask, lambda what, end: self.world.request(what, end, END), is_late, who)

    def created(self, name: str, data: bytes) -> None:
        """A file appeared in the journal."""
        place = int(name[:-5])
        entry = decode(data, place)
        self.world.say(f"    journal {place}: {entry.record}")
        self.watch.appended(place, entry.record)
        if isinstance(entry.record, Start) and entry.record.claim:
            self.watch.lost(self.lost())
        if isinstance(entry.record, Decide) and self.world.current is not None and self.databases:
            self.watch.decided_from(self.rules[self.world.current.name].checked_from, entry.record)
        if isinstance(entry.record, LayoutRecord):
            self.job.laid(entry.record.layout)
        if isinstance(entry.record, Decide):
            self.job.went_on()
        if isinstance(entry.record, Resolve):
            self.judge.somebody_came()

    # -- the source and the plan --------------------------------------------------------------------------------------

    def rows(
        self, epoch: int, sinks: tuple[str, ...], read: Reading, salt: int, incarnation: int
    ) -> tuple[dict[PartId, list[Row]], tuple[str, ...]]:
        """What each partition of one run of the plan gives to each sink, and what was read for it.

        Other runs than those of salt 0 give other rows.
        """
        partitions = self.plan.partitions
        turn = salt * self.plan.moves + incarnation * self.plan.renumbers
        told = self.plan.deterministic or not self.plan.moves  # else rows move, and no partition has an origin
        run = 1 if partitions > 2 else 2  # so many records in a row are of one partition
        out: dict[PartId, list[Row]] = {}
        for sink in sinks:
            records = read(sink)
            for n in range(partitions):
                # The seventh and eighth record leave a partition empty; other runs of a plan that is not deterministic
                # also move rows between partitions.
                mine = [r for r in records if (turn if r in (6, 7) else r // run + turn) % partitions == n]
                out[PartId((sink, n))] = [Row(record, epoch, sink, n, salt) for record in mine]
        return out, tuple(f"partition {(n - turn) % partitions}" if told else "" for n in range(partitions))


_WRAP = (1 << 64) - 1


@functools.cache
def _hashed(row: Row) -> int:
    """64 bits, as Spark's hash has; 32 of Python's own gave two parts one sum, once in a hundred thousand worlds."""
    return int.from_bytes(hashlib.blake2b(f"{row.record} {row.run}".encode(), digest_size=8).digest())


class WatchedRules(Coordinator):
    """The real rules of one driver; the world learns of every step that they take.

    Attributes:
        failed_at: The world's step at which it was last told that a run or a check failed; -1 for none.
        blind_at: The one at which the journal last gave no answer; likewise.
        checked_from: The one at which its last check began; likewise.
        ran_from: When its last run began.
    """

    def __init__(self, scene: Scene, actor: Actor, sinks: Collection[str]) -> None:
        super().__init__(sinks)
        self._scene, self._actor = scene, actor
        self._heard: tuple[Evidence, ...] = ()
        self.failed_at = self.blind_at = self.checked_from = -1
        self.ran_from = 0.0
        scene.rules[actor.name] = self

    def got_no_evidence(self) -> bool:
        """Whether brokers did not answer when outcomes were last asked for."""
        return any(evidence.passing for evidence in self._heard)

    def start(self) -> Action:
        return self._watched(self.state, super().start())

    def settle(self) -> Action:
        return self._watched(self.state, super().settle())

    def begin(self, epoch: int, offsets: str, *, stateful: bool, newest_commit: int | None = None) -> Action:
        before = self.state
        return self._watched(before, super().begin(epoch, offsets, stateful=stateful, newest_commit=newest_commit))

    def receive(self, event: Event) -> Action:
        before, scene = self.state, self._scene
        match event:
            case Started():
                scene.watch.incarnations[self._actor.name] = event.history.incarnation
                if self._actor.name in scene.claiming:
                    scene.claimed()
            case RunFailed() | Checked(problem=str()):
                self.failed_at = scene.world.steps  # it has looked at the journal since, and may have slept then
            case Outcomes():
                self._heard = tuple(event.found.values())
        return self._watched(before, super().receive(event))

    def _watched(self, before: State, action: Action) -> Action:
        world, watch, who = self._scene.world, self._scene.watch, self._actor.name
        assert self.happened is not None
        world.marks.add(f"{before.name} + {self.happened.name}")
        if world.trace is not None:
            world.say(f"    [{self.state.name}] {self.happened.value}")
        if isinstance(action, AskOutcomes):
            self._heard = ()
        if isinstance(action, Check):
            self.checked_from = world.steps
        if not isinstance(action, TakenOver | Ready | Return | Fail):
            if self.memory.history.incarnation:
                watch.incarnations[who] = self.memory.history.incarnation
            finishing = self.state is State.FINISHING or self.memory.mode is Mode.ROLL_FORWARD
            (watch.rolling.add if finishing else watch.rolling.discard)(who)
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
        self._waits_in = world

    def pause(self, seconds: float) -> None:
        self._waits_in.sleep(seconds)


class SimCommitter(KafkaCommitter):
    """The real one; its marks are always written, and at once; no right is missing.

    Args:
        marks: The marks outside of the checkpoint, by job.
    """

    def __init__(
        self,
        client: SimClient,
        sink: str,
        topic: str,
        prefix: str,
        job_id: str,
        timeout_ms: int,
        marks: dict[str, str],
    ) -> None:
        super().__init__(client, sink, topic, prefix, job_id, timeout_ms)
        self._outside = SimMarks(marks, prefix, job_id)

    def preflight(self) -> None:
        """All is allowed."""

    def marks(self) -> SimMarks:
        return self._outside


class SimMarks(Marks):
    """What Kafka keeps of one job.

    Args:
        kept: The world's marks.
        prefix, job_id: As of the committer.
    """

    def __init__(self, kept: dict[str, str], prefix: str, job_id: str) -> None:
        self._written_down = kept
        self._whose = f"{prefix} {job_id}"
        self._begins = prefix

    def read(self) -> str | None:
        return self._written_down.get(self._whose)

    def write(self, mark: str) -> None:
        self._written_down[self._whose] = mark

    def read_name(self, name: str) -> str | None:
        return self._written_down.get(name_group(self._begins, name))

    def write_name(self, name: str, mark: str) -> None:
        self._written_down[name_group(self._begins, name)] = mark


NAME = "a job"
"""What the job is called."""

TOGETHER = "+"
"""Between the handles of those that are committed as one."""


class GroupCommitter(SimCommitter):
    """Of a system that shows the rows of several tasks by one step: all that were open, or none.

    What a task has prepared is a transaction of the broker all the same, which expires, is listed, and is aborted by
    itself. One that is gone takes its group with it: the others are never shown.

    Args:
        scene: Says how many are one, and keeps which groups were shown.
    """

    def __init__(self, scene: Scene, client: SimClient, sink: str, *more: Any) -> None:
        super().__init__(client, sink, *more)
        self._scene = scene
        self._asked = client
        self._of_sink = sink

    def seal(self, reports: Sequence[TaskReport], run: Run) -> list[Participant]:
        left, sealed = super().seal(reports, run), []
        while left:
            together = []
            while left and len(together) < self._scene.plan.together:
                together.append(left.pop(left.index(self._scene.world.chooser.draw("together", left))))
            handle = TOGETHER.join(p.handle for p in together)
            held = {"members": [dict(p.transaction) for p in together]}
            sealed.append(Participant(self._of_sink, handle, parts_of(together), held))
        return sealed

    def can_finish(self, participant: Participant) -> bool:
        return all(super(GroupCommitter, self).can_finish(p) for p in _members(participant))

    def check(self, participants: Sequence[Participant], run: Run, age_s: float) -> str | None:
        return super().check([m for p in participants for m in _members(p)], run, age_s)

    def commit(self, participants: Sequence[Participant]) -> dict[ParticipantId, Reply]:
        replies = {}
        for p in participants:
            answer = self._asked.ask(f"commit group {p.handle}", lambda p=p: self._show(p))
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
            broker.end(name, pid, epoch, commit=True, by=self._asked.who)
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

    def __init__(self, scene: Scene, client: SimClient, name: str) -> None:
        self.name = name
        self._scene = scene
        self._link = client

    def expires_after_s(self) -> float:
        return TIMEOUT_S

    def connect(self) -> SimSinkConnection:
        return SimSinkConnection(self._scene, self._link, self.name)

    def columns(self, fields: Any) -> Any:
        raise NotImplementedError

    def describe(self) -> str:
        return self.name


class SimSinkConnection(SinkConnection):
    """The same, connected."""

    def __init__(self, scene: Scene, client: SimClient, name: str) -> None:
        self._scene, self._link, self._called = scene, client, name
        self.system_id = client.cluster_id

    def committer(self, prefix: str, job_id: str) -> SimCommitter:
        told = (
            self._link,
            self._called,
            f"out-{self._called}",
            prefix,
            job_id,
            int(TIMEOUT_S * 1000),
            self._scene.marks,
        )
        return GroupCommitter(self._scene, *told) if self._scene.plan.together else SimCommitter(*told)

    def writer_factory(self) -> Any:
        return None

    def read_name_mark(self, prefix: str, name: str) -> str | None:
        return self._scene.marks.get(name_group(prefix, name))

    def close(self) -> None:
        """There is nothing to close."""


class SimDatabaseCommitter(DatabaseCommitter):
    """The real one over a fake engine; a mark may get lost, as is allowed, and a name's never does.

    Args:
        scene: The world.
        actor: The process.
        sink: The sink's name.
        prefix, job_id: As of the real one.
    """

    def __init__(self, scene: Scene, actor: str, sink: str, prefix: str, job_id: str) -> None:
        database = scene.databases[sink]
        engine: Any = scene.engine(actor, database)
        told = (prefix, job_id, sink, TARGET.table)
        super().__init__(engine, database.tables, database.name, lambda: TARGET, *told)
        self._lossy = SimDatabaseMarks(scene, super().marks(), prefix, job_id)

    def preflight(self) -> None:
        """All is allowed."""

    def marks(self) -> SimDatabaseMarks:
        return self._lossy


class SimDatabaseMarks(SimMarks):
    """The real ones of a job; those of names are the world's.

    Args:
        scene: The world.
        real: Those of the real committer.
        prefix, job_id: As of the committer.
    """

    def __init__(self, scene: Scene, real: Marks, prefix: str, job_id: str) -> None:
        super().__init__(scene.marks, prefix, job_id)
        self._scene, self._real = scene, real

    def read(self) -> str | None:
        return self._real.read()

    def write(self, mark: str) -> None:
        # Of a job whose every mark was lost from the first on a start says that it cannot tell, which is meant so.
        if self.read() is None or self._scene.world.chooser.draw("mark", [True, False]):
            self._real.write(mark)

    def forget(self) -> None:
        self._real.forget()


class SimDatabaseSink(SimSink):
    """A table of a database."""

    def expires_after_s(self) -> None:  # type: ignore[override]
        return None

    def connect(self) -> SimDatabaseConnection:  # type: ignore[override]
        return SimDatabaseConnection(self._scene, self._link, self.name)


class SimDatabaseConnection(SimSinkConnection):
    """The same, connected."""

    def __init__(self, scene: Scene, client: SimClient, name: str) -> None:
        super().__init__(scene, client, name)
        self.system_id = scene.databases[name].name

    def committer(self, prefix: str, job_id: str) -> SimDatabaseCommitter:  # type: ignore[override]
        return SimDatabaseCommitter(self._scene, self._link.who, self._called, prefix, job_id)


class SourceAdmin:
    """Where a source asks its cluster; stands in the place of kafka-python's admin client, and raises as that does.

    Args:
        scene: The world.
        cluster: The cluster's id.
    """

    def __init__(self, scene: Scene, cluster: str) -> None:
        self._scene = scene
        self._cluster = cluster

    def describe_topics(self, names: Any) -> list[dict[str, Any]]:
        return self.ask(
            "topics",
            lambda: [
                {"name": name, "partitions": [{"partition_index": n} for n in range(topic.partitions)]}
                for name in names
                if (topic := self.topic(name)) is not None
            ],
        )

    def list_partition_offsets(self, wanted: Any, _: Any = None) -> dict[Any, Any]:
        def at(where: Any, spec: Any) -> int:
            topic = self.topic(where.topic)
            if topic is None or where.partition != 0:  # all records are in the first one
                return 0
            return topic.earliest if spec is OffsetSpec.EARLIEST else topic.size

        return self.ask("offsets", lambda: {p: SimpleNamespace(offset=at(p, spec)) for p, spec in wanted.items()})

    def topic(self, name: str) -> Topic | None:
        """A topic as it is now."""
        return self._scene.job.topics.get(Place(self._cluster, name))

    def ask(self, what: str, effect: Callable[[], Any]) -> Any:
        """A request to the cluster."""
        answer = self._scene.world.request(f"{what} of {self._cluster}", effect, ASK)
        if answer is None:
            raise kafka_errors.KafkaTimeoutError(f"no answer for {what} of {self._cluster}")
        return answer


class SourceClient:
    """A source's connection; stands in the place of a KafkaClient.

    Args:
        scene: The world.
        cluster: The cluster's id.
    """

    timeout_s = 0.0  # a partition without a leader is asked once: the world's clock is none that a wait moves

    def __init__(self, scene: Scene, cluster: str) -> None:
        self.cluster_id = cluster
        self.admin = SourceAdmin(scene, cluster)

    def brokers(self) -> list[int]:
        """There is one."""
        return [0]

    def close(self) -> None:
        """There is nothing to close."""

    def topics(self, names: Any) -> dict[str, KafkaTopic]:
        def effect() -> dict[str, KafkaTopic]:
            return {name: _told(name, topic) for name in names if (topic := self.admin.topic(name)) is not None}

        try:
            return self.admin.ask("topics", effect)
        except kafka_errors.KafkaError as error:
            raise KafkaUnavailableError(str(error)) from error


def _told(name: str, topic: Topic) -> KafkaTopic:
    return KafkaTopic(name, topic.id, dict.fromkeys(range(topic.partitions), 0))


class SimClient(FakeClient):
    """A connection to the cluster of the sinks, on which sources are, too."""

    def __init__(self, scene: Scene, *args: Any) -> None:
        super().__init__(*args)
        self.admin = SourceAdmin(scene, self.cluster_id)

    def topics(self, names: Any) -> dict[str, KafkaTopic]:
        found = super().topics(names)
        return {n: t if (source := self.admin.topic(n)) is None else _told(n, source) for n, t in found.items()}


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
    states = [layout_module.StateOperator(o.sinks, "counts", f"{o.reads.topic} {o.path}") for o in outputs]
    kept = [layout_module.Kept(o.sinks, "counts", ("n",)) for o in outputs]
    made = {str(n): SimSource(scene, o.reads) for n, o in enumerate(outputs)}
    connector = Connector(lambda kind, _: made[kind], explain)  # type: ignore[arg-type,return-value]
    return Sources(leaves, *((states, kept) if scene.plan.stateful else ([], [])), [connector])


class CheckpointFolder(Store):
    """Of the checkpoint's folder Spark's two logs, which are fake; nothing else is there."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(Path("checkpoint"))
        self._logs = {
            "offsets": scene.store("offsets", scene.offsets),
            "commits": scene.store("commits", scene.commits),
        }

    def below(self, name: str) -> Store:
        return self._logs.get(name) or Store(self.folder / name)


class SimCheckpoint(SparkCheckpoint):
    """The real one over fake folders."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        super().__init__(CheckpointFolder(scene))
        self._initial = scene.store("sources", scene.initial)

    def is_stateful(self) -> bool:
        return self.scene.plan.stateful

    def query_id(self) -> str:
        return "of the world's only query"

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


def _of_spark(_: Starting) -> None:
    """A step in which Spark, or the sinks' systems, are asked what this world answers elsewhere."""


def _never(*_: object) -> Any:
    raise AssertionError("there is no Spark in this world")


class Process:
    """One start of the job: its own list of steps, with this world's in the place of Spark's.

    Args:
        scene: The world.
        actor: The process.
    """

    def __init__(self, scene: Scene, actor: Actor) -> None:
        self._scene = scene
        self._actor = actor
        self.plan = of_start.StartRequest(
            NAME, Checkpointing("checkpoint"), PREFIX, takeover="claim" if scene.claims else None
        )
        self.means = Means(
            lambda _location, _retain: scene.opened(self._got_no_answer),
            lambda sinks: WatchedRules(scene, actor, sinks),
            lambda _sinks: Surroundings(SimStop(scene.world), lambda: float(scene.world.now), _Now(), _Now()),
        )
        if scene.claims:
            scene.claiming.add(actor.name)

    def _got_no_answer(self) -> None:
        """From here on it cannot be held to know what is in the journal."""
        rules = self._scene.rules.get(self._actor.name)
        if rules is not None:
            rules.blind_at = self._scene.world.steps

    def take_over(self) -> tuple[Driver, Sources]:
        """What comes before the sources and the plan are settled."""
        client = self._scene.client(self._actor)
        sinks = self._scene.described(client)

        def limit(starting: Starting) -> None:
            starting.result = None
            self.limit = epoch_limit(self.plan, sinks, self.means)

        def put_together(starting: Starting) -> None:
            starting.outputs = SimpleNamespace(sinks=sinks)  # type: ignore[assignment]
            starting.reads = sources_of(self._scene)

        def connect(starting: Starting) -> None:
            starting.connections = {sink.name: sink.connect() for sink in sinks}

        own: dict[str, Do] = {"function": limit, "plan": put_together, "sinks": connect}
        own |= dict.fromkeys(("process", "systems", "session", "interpreters", "family", "settle", "query"), _of_spark)
        starting = Starting(self.plan, sinks, session=_never, stream=_never, means=self.means)
        steps.start(starting, steps=[replace(step, start=own.get(step.name, step.start)) for step in steps.STEPS])
        return starting.driver, starting.reads

    def run(self) -> None:
        """To the end of the sources."""
        outputs = in_positions(self._scene.job.outputs)
        sinks = self._scene.sinks
        driver, sources = self.take_over()
        tasks = Tasks(self._scene, self._actor, sinks)
        driver.settle(tasks, sources, cuts=True)
        Query(self._scene, driver, tasks, outputs, self.limit.most).run()


class Tasks:
    """Runs a driver's plans, as Spark would: request by request, the tasks of an epoch beside each other.

    Args:
        scene: The world.
        actor: The driver's process.
        sinks: What each run writes to.
    """

    ignores_delivery_errors = False  # a mutant sets it

    def __init__(self, scene: Scene, actor: Actor, sinks: Sequence[str]) -> None:
        self.scene = scene
        self.actor = actor
        self.sinks = tuple(sinks)
        self.state: int | None = None
        self.job_id, self.incarnation = JOB, 0

    def __call__(self, read: Any, action: RunPlan, run: Run, _: int, __: Executor) -> Ran:
        """The epoch's tasks; each run groups its partitions otherwise."""
        self.job_id, self.incarnation = run.job_id, run.incarnation
        scene = self.scene
        scene.runs += 1
        scene.rules[self.actor.name].ran_from = scene.world.now
        salt = 0 if scene.plan.deterministic else scene.world.chooser.draw("salt", [scene.runs, scene.runs, 0])
        if self.state is None:
            self.state = salt  # the first run of a call builds the state
        rows, origins = scene.rows(action.epoch, self.sinks, read, salt, self.incarnation)
        groups = self._grouping()
        self._mark_spread(action, groups)
        takes = {(s, n): {i: rows[PartId((s, i))] for i in of} for s in self.sinks for n, of in enumerate(groups)}
        done: dict[tuple[str, int], TaskReport] = {}
        tasks = {who: self._task(who, action, 0, parts) for who, parts in takes.items()}
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
                    tasks[who] = self._task(who, action, attempts[who], takes[who])
        except BaseException as error:
            if not isinstance(error, Killed) or scene.world.chooser.draw("workers survive", [True, False]):
                scene.zombies += tasks.values()
            raise
        query: Query = read.__self__
        ends = frozenset(to_text(query.outputs, query.ends).splitlines()[2:])
        return Ran(tuple(done.values()), self.sinks, len(groups), origins, ends=ends)

    def _grouping(self) -> list[list[int]]:
        """The partitions that each task takes."""
        draw, partitions = self.scene.world.chooser.draw, range(self.scene.plan.partitions)
        tasks = draw("tasks", [len(partitions), *partitions[1:]])
        if tasks == len(partitions):
            return [[n] for n in partitions]
        groups: list[list[int]] = [[] for _ in range(tasks)]
        for n in partitions:
            draw("group", groups).append(n)
        return [group for group in groups if group]

    def _mark_spread(self, action: RunPlan, groups: Sequence[Sequence[int]]) -> None:
        memory, marks = self.scene.rules[self.actor.name].memory, self.scene.world.marks
        for sink in self.sinks:
            holding = [{n for n in group if (sink, n) in action.silent} for group in groups]
            if any(silent and len(silent) < len(group) for silent, group in zip(holding, groups, strict=True)):
                marks.add("a shard was silent in part")
            visible = [p for p in memory.undone.effective if p.id in memory.visible] if memory.undone else []
            if sum(map(bool, holding)) > 1 and [len(p.parts) > 1 for p in visible if p.sink == sink] == [True]:
                marks.add("the parts of one transaction were found again in two tasks")

    def _number(self, partition: int, task: int) -> int:
        """The number of a part; a mutant takes the task's."""
        return partition

    def _to_write(self, who: tuple[str, int], action: RunPlan, parts: Mapping[int, list[Row]]) -> list[Row]:
        """The rows that a task's writer gets."""
        held = (rows for n, rows in parts.items() if action.write and (who[0], n) not in action.silent)
        return [row for rows in held for row in rows]

    def _task(
        self, who: tuple[str, int], action: RunPlan, attempt: int, parts: Mapping[int, list[Row]]
    ) -> Iterator[Any]:
        """One attempt at one sink's share of one task, request by request; its value is the task's report."""
        broker, (sink, task) = self.scene.broker, who
        rows = self._to_write(who, action, parts)
        counted: dict[int, list[Row]] = {}
        for n, held in parts.items():
            counted.setdefault(self._number(n, task), []).extend(held)
        told = tuple(Part(sink, n, len(of), sum(map(_hashed, of)) & _WRAP) for n, of in counted.items() if of)
        silent = action.silent if action.write else frozenset(part.id for part in told)
        wrong = miscounted(told, silent, len(rows))
        if wrong is not None:
            raise TaskFailed(wrong)
        if not rows:
            return TaskReport(sink, task, attempt, told)
        if len({row.partition for row in rows}) > 1:
            self.scene.world.marks.add("a transaction was of several parts")
        if sink in self.scene.databases:
            staged = yield from self._stage(self.scene.databases[sink], action.epoch, task, attempt, rows)
            return TaskReport(sink, task, attempt, told, staged)
        name = name_transaction(PREFIX, self.job_id, self.incarnation, sink, task, action.epoch, attempt)
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
        return TaskReport(sink, task, attempt, told, prepared.to_json())

    def _stage(self, database: FakeDatabase, epoch: int, task: int, attempt: int, rows: Sequence[Row]) -> Iterator[Any]:
        """What a writer does in a database; its value is what it has prepared."""
        run = Run(self.job_id, PREFIX, self.incarnation, epoch)
        _, made = yield from self._ask(lambda: (0, database.open(run, task, attempt)), f"open in {database.name}")
        self.scene.watch.of[made, OF_DATABASE, self.incarnation] = list(rows)
        values = [(row.record, row.epoch, row.partition, row.run) for row in rows]
        for some, state in ((values[:-1], OPEN), (values[-1:], PREPARED)):
            staged, _ = yield from self._ask(
                lambda some=some, state=state: (database.stage(made, some, state), 0), f"stage {state} {made} {some}"
            )
            if not staged:
                raise TaskFailed(f"stage {made}: it was ended", fenced=True)
        return {"attempt": made, "rows": len(rows), "hash": sum(map(hashed, values)) & _WRAP}

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
        tasks: What the driver runs its plans by.
        outputs: What the plan gives, in the order of its positions.
        most: How many records each source may read for an epoch, or None.
    """

    def __init__(self, scene: Scene, driver: Driver, tasks: Tasks, outputs: Sequence[Output], most: int | None) -> None:
        self.scene = scene
        self.driver = driver
        self.tasks = tasks
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
            self.tasks.state = None
            if self.scene.world.chooser.draw("sweep", [False, False, False, True]):
                self.driver.sweep()
            try:
                self.driver(self.read, epoch)
            except EpochEnded:
                assert self.driver.failure is not None
                raise self.driver.failure from None
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
                found += (record for record in records if self.job.gives(sink, record))
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
        if self.scene.plan.sleeps_in_rename and self.scene.world.chooser.draw("sleep", [True, False]):
            self.scene.world.say(f"    sleeps before the rename of offsets/{epoch}")
            self.scene.world.pause()
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
        scene.watch.lost(scene.lost())
        self.job.went_on()
        if not self.job.gone:
            for sink in scene.watch.sinks_of(epoch) or self.tasks.sinks:
                records = [r for r in self.read(sink) if self.job.keeps(r)]
                scene.watch.recorded(epoch, sink, records, self.tasks.state if scene.plan.stateful else None)
        scene.world.point(f"commits/{epoch} is written")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No log: what is warned of is told by errors and by the trace, too."""
    log = logging.getLogger("onceflow")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)
