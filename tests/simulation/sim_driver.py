"""The real driver in a simulated world: rules, journal, committer and requests; fake broker, disk, Spark and clock.

Must not know: which faults there are, or what must hold. What is modelled here is Spark: how it plans epochs, writes
``offsets/`` and ``commits/``, runs tasks and gives up attempts; and the writers, request by request.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

from onceflow.checkpoint import journal as journal_module
from onceflow.checkpoint.identity import JobIdentity
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.spark_checkpoint import SparkCheckpoint
from onceflow.errors import OnceflowError, PreCommitError
from onceflow.kafka import oracle
from onceflow.runtime import driver as driver_module
from onceflow.runtime.driver import Driver
from onceflow.sink import kafka_committer as committer_module
from onceflow.sink.kafka_committer import KafkaCommitter
from onceflow.twophase.committable import Committable, Participant
from onceflow.twophase.coordinator import Coordinator, Mode
from onceflow.twophase.messages import Action, RunPlan
from onceflow.twophase.state import Input, State
from onceflow.twophase.transactional_id import name_transaction
from tests.simulation.checks import JOB, PREFIX, Row, Watch
from tests.simulation.fake_broker import CONCURRENT, FakeBroker, FakeClient, fetch
from tests.simulation.fake_files import FakeStore, Files
from tests.simulation.world import ASK, CHANGE, LOOK, SEND, Actor, Chooser, Events, Killed, World

TIMEOUT_S = 60.0


class SparkError(Exception):
    """Spark's query ends: another one wrote the file that it was about to write."""


class TaskFailed(Exception):  # noqa: N818 - what Spark calls it
    """An attempt at a task failed."""


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
        remembers: At one in so many moments a record or an id is gone.
        sound: At one in so many moments the disk spoils a record of the journal.
        max_epoch: Producer epochs before a producer id rotates.
        most_starts: Drivers that are started before the faults end.
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

    @property
    def records(self) -> int:
        return 4 * self.epochs


def wanted(records: range) -> list[int]:
    """Source records that pass the plan's filter: some epochs have no output at all."""
    return [r for r in records if r not in (8, 9, 10)]


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
        self.zombies: list[Iterator[Any]] = []
        self.runs = 0
        self.started = 0
        self.errors: list[BaseException] = []
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
        self.watch.power_cuts += 1
        self.zombies.clear()
        for files in (self.journal, self.offsets, self.commits):
            for name in files.unsynced:
                if self.world.chooser.draw("lost to the power cut", [True, False]):
                    self.world.say(f"    the power cut takes {name}")
                    self.world.marks.add("the power cut took a file")
                    files.lose(name)
            files.settle()
        if not self.watch.rotten:
            left = sorted(self.journal.content.items())
            self.watch.read_again((int(n[:-5]), journal_module.decode(d, int(n[:-5])).record) for n, d in left)

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
            driver = SimDriver(self, actor)
            driver.start()
            Query(self, driver).run()
        except (OnceflowError, SparkError) as error:
            self.errors.append(error)
            raise

    def store(self, folder: str, files: Files, created: Callable[[str, bytes], None] = lambda _, __: None) -> FakeStore:
        """One process's access to a folder."""

        def carry(what: str, effect: Callable[[], Any]) -> Any:
            options = CHANGE if what.startswith(("create", "replace", "remove")) else LOOK
            return self.world.request(what, effect, options)

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

    # -- the source and the plan --------------------------------------------------------------------------------------

    def rows(self, epoch: int, records: range, salt: int, incarnation: int) -> dict[Participant, list[Row]]:
        """What one run of the plan gives for each sink and shard; other runs than those of salt 0 give other rows."""
        turn = salt + incarnation * self.plan.renumbers
        out: dict[Participant, list[Row]] = {
            Participant((sink, n)): [] for sink in self.plan.sinks for n in range(self.plan.shards)
        }
        for sink, n in out:
            for record in wanted(records):
                # The seventh and eighth record leave a shard empty; other runs of a plan that is not deterministic
                # also move rows between shards.
                shard = (turn if record in (6, 7) else record // 2 + turn) % self.plan.shards
                if shard == n:
                    out[Participant((sink, n))].append(Row(record, epoch, sink, n, salt))
        return out


class WatchedCoordinator(Coordinator):
    """Leaves a mark at every step that it takes."""

    world: World

    def _step(self, happened: Input, memory: Any) -> Action:
        self.world.marks.add(f"{self.state.name} + {happened.name}")
        action = super()._step(happened, memory)
        if self.world.trace is not None:
            self.world.say(f"    [{self.state.name}] {happened.value}")
        return action


class _Now:
    """Stands in the place of a ThreadPoolExecutor: the call is made at once."""

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def shutdown(self, **_: Any) -> None:
        """There is nothing to end."""


class SimCommitter(KafkaCommitter):
    """The real one, without a mark outside the checkpoint."""

    def write_mark(self, mark: str) -> None:
        """Marks are tested elsewhere."""


class SimCheckpoint(SparkCheckpoint):
    """The real one over fake folders."""

    def __init__(self, scene: Scene) -> None:
        self.folder = SimpleNamespace()  # type: ignore[assignment]
        self._offsets = scene.store("offsets", scene.offsets)
        self._commits = scene.store("commits", scene.commits)
        self._stateful = scene.plan.stateful

    def is_stateful(self) -> bool:
        return self._stateful


class SimDriver(Driver):
    """The real driver; only the plan's run is modelled."""

    ignores_delivery_errors = False  # a mutant sets it

    def __init__(self, scene: Scene, actor: Actor) -> None:
        self.scene = scene
        self.actor = actor
        client = FakeClient(scene.broker, scene.network, actor.name, lambda: scene.world.sleep(0.1))
        committers = {
            sink: SimCommitter(client, sink, f"out-{sink}", PREFIX, JOB, int(TIMEOUT_S * 1000))  # type: ignore[arg-type]
            for sink in scene.plan.sinks
        }
        sinks = [SimpleNamespace(name=sink, writer_factory=lambda: None) for sink in scene.plan.sinks]
        identity = JobIdentity(JOB, "checkpoint", FakeClient.cluster_id, PREFIX)
        journal = Journal(scene.store("journal", scene.journal, scene.created), retain=scene.plan.retain)
        super().__init__(identity, journal, SimCheckpoint(scene), sinks, committers, "checkpoint")  # type: ignore[arg-type]
        self._coordinator = WatchedCoordinator(committers)
        self._coordinator.world = scene.world
        self._threads = _Now()  # type: ignore[assignment]
        self._give_up = Events(scene.world)  # type: ignore[assignment]
        self.state: int | None = None

    def _perform(self, action: Action) -> Any:
        scene, memory = self.scene, self._coordinator.memory
        if self.incarnation:
            scene.watch.incarnations[self.actor.name] = self.incarnation
        finishing = self._coordinator.state is State.FINISHING or memory.mode is Mode.ROLL_FORWARD
        (scene.watch.rolling.add if finishing else scene.watch.rolling.discard)(self.actor.name)
        return super()._perform(action)

    def _append_start(self, action: Any) -> Any:
        event = super()._append_start(action)
        self.scene.watch.incarnations[self.actor.name] = event.history.incarnation
        return event

    def __call__(self, batch: Any, epoch: int) -> None:
        self.state = None
        if self.scene.world.chooser.draw("sweep", [False, False, False, True]):
            self.sweep()
        super().__call__(batch, epoch)

    def _collect(self, action: RunPlan) -> list[Committable]:
        scene = self.scene
        scene.runs += 1
        salt = 0 if scene.plan.deterministic else scene.world.chooser.draw("salt", [scene.runs, scene.runs, 0])
        if self.state is None:
            self.state = salt  # the first run of a call builds the state
        records: Any = self._plan
        rows = scene.rows(action.epoch, records, salt, self.incarnation)
        done: dict[Participant, Committable] = {}
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
                        raise PreCommitError(str(error)) from error
                    tasks[who] = self._task(who, action, attempts[who], rows[who], who in action.silent)
        except BaseException as error:
            if not isinstance(error, Killed) or scene.world.chooser.draw("workers survive", [True, False]):
                scene.zombies += tasks.values()
            raise
        if not action.write:
            return list(done.values())
        sealed: list[Committable] = []
        for name, committer in self._committers.items():
            sealed += committer.seal([c for c in done.values() if c.sink == name])
        return sorted(sealed, key=lambda c: c.participant)

    def _task(self, who: Participant, action: RunPlan, attempt: int, rows: list[Row], silent: bool) -> Iterator[Any]:
        """One attempt at one sink's part of one task, request by request; its value is the committable."""
        broker, (sink, shard) = self.scene.broker, who
        digest = sum(hash((r.record, r.run)) & 0xFFFFFFFF for r in rows)
        if silent or not rows:
            return Committable(sink, shard, attempt, len(rows), digest, None)
        name = name_transaction(PREFIX, JOB, self.incarnation, sink, shard, action.epoch, attempt)
        code, pid, epoch = yield from self._ask(lambda: broker.init(name, TIMEOUT_S), f"init {name}")
        if code:
            raise TaskFailed(f"init {name}: {code}")
        partitions, witness = set(), {}
        for row in rows:
            partition = (f"out-{sink}", row.record % 2)
            code, offset = yield from self._ask(
                lambda row=row, partition=partition: broker.produce(name, pid, epoch, partition, row),
                f"write {name} {row}",
            )
            if code:
                if self.ignores_delivery_errors:
                    continue
                raise TaskFailed(f"write {name}: {code}")
            partitions.add(partition)
            witness = {"topic": partition[0], "partition": partition[1], "offset": offset}
        return Committable(
            sink,
            shard,
            attempt,
            len(rows),
            digest,
            {
                "id": name,
                "producer_id": pid,
                "producer_epoch": epoch,
                "partitions": sorted([t, p] for t, p in partitions),
                "witness": witness,
            },
        )

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


@dataclass
class Query:
    """Spark's query: plans an epoch, calls ``foreachBatch``, records it, and plans the next."""

    scene: Scene
    driver: SimDriver
    records: range = field(default_factory=lambda: range(0))

    def run(self) -> None:
        """Until the source is read to its end."""
        epoch = self._first()
        while epoch is not None:
            self.driver(self.records, epoch)
            self._record(epoch)
            epoch = self._plan(epoch + 1, self.records.stop)

    def _first(self) -> int | None:
        scene = self.scene
        offsets, commits = scene.offsets.numbers(), scene.commits.numbers()
        if not offsets:
            return self._plan(0, 0)
        newest = offsets[-1]
        first, last = map(int, scene.offsets.content[str(newest)].decode().split("-"))
        self.records = range(first, last)
        if commits and commits[-1] == newest:
            return self._plan(newest + 1, last)
        return newest

    def _plan(self, epoch: int, first: int) -> int | None:
        scene = self.scene
        if first >= scene.plan.records:
            return None
        scene.world.point(f"plan {epoch}")
        size = scene.world.chooser.draw("size", [4, 4, 2, 3])
        self.records = range(first, min(first + size, scene.plan.records))
        if str(epoch) in scene.offsets.content:
            raise SparkError(f"offsets/{epoch} is there already")
        scene.offsets.put(str(epoch), f"{self.records.start}-{self.records.stop}".encode())
        scene.world.say(f"    offsets/{epoch} = {self.records}")
        scene.world.point(f"offsets/{epoch} is written")
        return epoch

    def _record(self, epoch: int) -> None:
        scene = self.scene
        scene.world.point(f"foreachBatch({epoch}) returned")
        if str(epoch) in scene.commits.content:
            raise SparkError(f"commits/{epoch} is there already")
        scene.commits.put(str(epoch), b"v1")
        scene.world.say(f"    commits/{epoch}")
        scene.watch.recorded(
            epoch, wanted(self.records), scene.plan.sinks, self.driver.state if scene.plan.stateful else None
        )
        scene.world.point(f"commits/{epoch} is written")


@contextlib.contextmanager
def simulated() -> Iterator[None]:
    """The real modules, with the world's clock, a fake fetch, and no log."""
    clock = SimpleNamespace(monotonic=lambda: CLOCK[0].now, sleep=lambda s: CLOCK[0].sleep(s))  # noqa: PLW0108
    loggers = [logging.getLogger(name) for name in ("onceflow.runtime.driver", "onceflow.sink.kafka_committer")]
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
        mock.patch.object(driver_module, "time", clock),
        mock.patch.object(committer_module, "time", clock),
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
