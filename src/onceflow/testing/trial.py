"""What the conformance suite works with: the world a user gives it, and the steps of a job's start on a sink.

Must not know: any particular sink, Spark, the journal, what the suite demands.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import multiprocessing
import os
import signal
import sys
import traceback
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from types import FrameType
from typing import TYPE_CHECKING, Any, Self
from unittest import SkipTest

from onceflow.connectors.contract import Committer, Run, Shard, Sink, Writer, WriterFactory
from onceflow.twophase.messages import Evidence, Outcome, Reply
from onceflow.twophase.participants import Part, Participant, ParticipantId, TaskReport
from onceflow.waiting import turns

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX = "conformance"
_LOOK_EVERY_S = 0.05
_ANOTHER_PROCESS_WITHIN_S = 120.0


class World(ABC):
    """A sink, and what may be asked of its system. It must pickle: another process gets it too.

    Several checks may share one: each writes rows and jobs of its own.

    Attributes:
        patience_s: How long is waited for what the system has promised and does not show yet.
        secrets: Texts that must stand in nothing that is kept, logged or shown: the sink's passwords.
    """

    patience_s: float = 30.0
    secrets: Sequence[str] = ()

    @abstractmethod
    def sink(self) -> Sink:
        """The sink, made anew; every call gives the same output of the same system."""

    @abstractmethod
    def rows(self, keys: Sequence[str]) -> pa.RecordBatch:
        """A row for each key, with the columns that ``Sink.columns`` gives; the key can be read in the output again."""

    @abstractmethod
    def visible(self) -> Sequence[str]:
        """The keys of all rows that a reader of the output sees now, each as often as it is there."""

    def rows_saying(self, keys: Sequence[str], word: str) -> pa.RecordBatch:  # noqa: ARG002 - for those that can
        """Rows like those of ``rows`` which say this word in another column."""
        raise SkipTest("its world cannot make rows that differ beside their keys (World.rows_saying)")

    def says(self) -> Mapping[str, str]:
        """What a reader sees each key's row say, of those that ``rows_saying`` has made."""
        raise SkipTest("its world cannot tell what rows say (World.says)")

    def output(self) -> Any:
        """The output's columns, a ``StructType`` of Spark, for a sink whose connection has a ``make_output``."""
        return None

    def refused(self, keys: Sequence[str]) -> pa.RecordBatch:  # noqa: ARG002 - for those that can
        """Rows like those of ``rows``, of which the system refuses one: too large, or of a kind it does not take."""
        raise SkipTest("its world cannot make a row that the system refuses (World.refused)")

    def open_transactions(self, job_id: str) -> int:  # noqa: ARG002 - for those that can tell
        """How many transactions of a job are open in the system, by another way than the committer's."""
        raise SkipTest("its world cannot tell which transactions are open (World.open_transactions)")

    def expire(self, participants: Sequence[Participant]) -> None:  # noqa: ARG002 - for those that can
        """Let the system's own time-out take these, and return when it has."""
        raise SkipTest("its world cannot let a transaction expire (World.expire)")

    def second_sink(self) -> Sink:
        """A sink of another name over the same output of the same system, as a job may have beside ``sink``."""
        raise SkipTest("its world has no sink of another name over the same output (World.second_sink)")

    def never_was(self, participant: Participant) -> Participant:
        """The participant of a transaction that never was, made from a true one: every text in it is another."""
        return replace(
            participant, handle=f"{participant.handle}-never", transaction=_other_texts(participant.transaction)
        )


def _other_texts(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _other_texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_other_texts(item) for item in value]
    return f"{value}-never" if isinstance(value, str) else value


class Start:
    """One start of a job on a sink: what its driver and its tasks do, step by step.

    Args:
        world: The world.
        sink: The sink; the world's if it is None.
        job_id: The job's id.
        incarnation: The number of the start.
        attach: Connect as one who only finishes what is decided.
    """

    def __init__(
        self, world: World, job_id: str, incarnation: int = 1, *, sink: Sink | None = None, attach: bool = False
    ) -> None:
        sink = sink or world.sink()
        self._world, self._sink_name = world, sink.name
        self.newest: dict[str, str] = {}
        self.claimed = 0
        self._job_id, self.incarnation = job_id, incarnation
        self.connection = sink.attach() if attach else sink.connect()
        fields = world.output()
        if fields is not None:
            self.connection.make_output(fields)
        self._committer = self.connection.committer(PREFIX, job_id) if sink.participates else None

    @property
    def committer(self) -> Committer:
        """The committer; only of a sink that takes part in the decision."""
        if self._committer is None:
            raise RuntimeError("this sink takes no part in the decision")
        return self._committer

    def close(self) -> None:
        """End as a driver does: its committer first."""
        if self._committer is not None:
            self._committer.close()
        self.connection.close()

    def run(self, epoch: int = 0) -> Run:
        """A run of an epoch, which comes behind what was committed, and behind a claim, if there was one."""
        return Run(self._job_id, PREFIX, self.incarnation, epoch, dict(self.newest), self.claimed)

    def open(self, number: int = 0, attempt: int = 0, epoch: int = 0, factory: WriterFactory | None = None) -> Writer:
        """The writer of a shard, as its task opens it."""
        factory = factory or self.connection.writer_factory()
        return factory(Shard(self.run(epoch), number, attempt))

    def write(self, keys: Sequence[str], number: int = 0, attempt: int = 0, epoch: int = 0) -> TaskReport:
        """Write and pre-commit a shard; its writer is gone when this returns, and what is left went through JSON."""
        writer = self.open(number, attempt, epoch)
        for part in (keys[: len(keys) // 2], keys[len(keys) // 2 :]):
            if part:
                writer.write(self._world.rows(part))
        return self.report(writer.prepare(), keys, number, attempt)

    def put(self, keys: Sequence[str], word: str, epoch: int = 0) -> Mapping[str, Any] | None:
        """Write and pre-commit rows that say a word, as the first shard of an epoch; what its writer prepared."""
        writer = self.open(epoch=epoch)
        writer.write(self._world.rows_saying(keys, word))
        return writer.prepare()

    def report(
        self, transaction: Mapping[str, Any] | None, keys: Sequence[str], number: int = 0, attempt: int = 0
    ) -> TaskReport:
        """What a task hands to the driver."""
        if transaction is not None and not isinstance(transaction, Mapping):
            raise AssertionError(
                f"prepare gives {type(transaction).__name__}; it must give a dict of JSON values, or None where the "
                "sink takes no part in the decision"
            )
        digest = sum(map(_digest, keys)) % (1 << 64)
        part = Part(self._sink_name, number, len(keys), digest, f"shard {number}")
        return TaskReport.loads(TaskReport(self._sink_name, number, attempt, (part,), transaction).dumps())

    def seal(self, reports: Sequence[TaskReport], epoch: int = 0) -> list[Participant]:
        """Seal what an epoch's tasks have prepared, and go through the journal's JSON."""
        return [through_json(p) for p in self.committer.seal(reports, self.run(epoch))]

    def prepare(self, *shards: Sequence[str], epoch: int = 0) -> list[Participant]:
        """Write and pre-commit shards of an epoch, numbered from 0, and seal them."""
        return self.seal([self.write(keys, number, epoch=epoch) for number, keys in enumerate(shards)], epoch)


def _digest(key: str) -> int:
    return int.from_bytes(key.encode()[-8:])


def through_json(participant: Participant) -> Participant:
    """What is left of a participant after it was written down and read again."""
    return Participant.from_json(json.loads(json.dumps(participant.to_json(), allow_nan=False)))


class Trial:
    """One check's job, rows and starts; and how it looks at the world. A context manager: it ends all starts.

    Args:
        world: The world.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.job_id = uuid.uuid4().hex[:12]
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *of_error: object) -> None:
        self._open.close()

    def keys(self, count: int = 4) -> list[str]:
        """Keys of rows that nobody else writes."""
        return [uuid.uuid4().hex for _ in range(count)]

    def start(
        self, incarnation: int = 1, *, job_id: str | None = None, sink: Sink | None = None, attach: bool = False
    ) -> Start:
        """Start the job, or another one, on a connection of its own."""
        start = Start(self.world, job_id or self.job_id, incarnation, sink=sink, attach=attach)
        self._open.callback(start.close)
        return start

    # -- what is demanded -------------------------------------------------------------------------

    def demand(self, holds: object, why: str) -> None:
        """Say what is broken, unless it holds."""
        if not holds:
            raise AssertionError(why)

    def none_visible(self, keys: Collection[str], when: str) -> None:
        """No row of these can be seen."""
        seen = self._seen(keys)
        self.demand(not seen, f"{when}, {seen.total()} of {len(keys)} rows are visible; none may be")

    def all_visible_once(self, keys: Collection[str], when: str) -> None:
        """Each row of these can be seen, once."""
        for _ in self.patience():
            seen = self._seen(keys)
            if len(seen) == len(keys):
                break
        lost, doubled = len(keys) - len(seen), sum(times > 1 for times in seen.values())
        self.demand(not lost, f"{when}, {lost} of {len(keys)} rows are not visible")
        self.demand(not doubled, f"{when}, {doubled} of {len(keys)} rows are visible more than once")

    def shown_as(self, keys: Collection[str], word: str, when: str) -> None:
        """Each row of these is there once, and says this word."""
        self.all_visible_once(keys, when)
        said = self.world.says()
        others = sorted({said.get(key, "nothing") for key in keys} - {word})
        self.demand(not others, f"{when}, rows that must say {word!r} say {', '.join(map(repr, others))}")

    def _seen(self, keys: Collection[str]) -> Counter[str]:
        mine = set(keys)
        return Counter(key for key in self.world.visible() if key in mine)

    def outcomes_are(self, outcome: Outcome, start: Start, participants: Sequence[Participant], when: str) -> None:
        """The system's word for each is this one, with what it rests on."""
        for who, evidence in self.outcomes(start, participants).items():
            self.demand(
                evidence.outcome is outcome,
                f"{when}, the outcome of {_name(who)} is {evidence.outcome.name} ({evidence.why}); "
                f"it must be {outcome.name}",
            )

    def outcomes(self, start: Start, participants: Sequence[Participant]) -> Mapping[ParticipantId, Evidence]:
        """Ask, and again while it may still become known. What is proven rests on something."""
        for _ in self.patience():
            found = start.committer.outcomes(participants)
            self.demand(found.keys() == {p.id for p in participants}, "outcomes does not answer for each")
            if not any(e.outcome is Outcome.UNKNOWN and e.passing for e in found.values()):
                break
        for who, evidence in found.items():
            proven = evidence.outcome in (Outcome.COMMITTED, Outcome.ABORTED)
            self.demand(not proven or evidence.why.strip(), f"{evidence.outcome.name} of {_name(who)} rests on nothing")
        return found

    # -- what a driver does -----------------------------------------------------------------------

    def send_commits(self, start: Start, participants: Sequence[Participant]) -> dict[ParticipantId, Reply]:
        """Commit, and again while there is no answer."""
        replies: dict[ParticipantId, Reply] = {}
        left = list(participants)
        for _ in self.patience():
            answers = start.committer.commit(left)
            self.demand(answers.keys() == {p.id for p in left}, "commit does not answer for each")
            replies |= answers
            left = [p for p in left if answers[p.id] is Reply.RETRY]
            if not left:
                return replies
        raise AssertionError(f"a commit was answered with RETRY for {self.world.patience_s:g} s")

    def commit(self, start: Start, participants: Sequence[Participant], when: str = "at its commit") -> None:
        """Commit all; where an answer proves nothing, the outcome must. It is the newest of its sink from then on."""
        replies = self.send_commits(start, participants)
        suspect = [p for p in participants if replies[p.id] is not Reply.COMMITTED]
        if suspect:
            self.outcomes_are(Outcome.COMMITTED, start, suspect, when)
        start.newest |= {p.sink: p.handle for p in participants}

    def abort(self, start: Start, participants: Sequence[Participant], when: str = "after its abort") -> None:
        """Abort all, again while one is still open; then each is proven aborted."""
        for _ in self.patience():
            start.committer.abort(participants)
            found = self.outcomes(start, participants)
            if not any(e.outcome is Outcome.OPEN for e in found.values()):
                break
        self.outcomes_are(Outcome.ABORTED, start, participants, when)

    def ends_aborted(self, start: Start, participants: Sequence[Participant], when: str) -> None:
        """Somebody has aborted these in another way."""
        for _ in self.patience():
            if not any(e.outcome is Outcome.OPEN for e in self.outcomes(start, participants).values()):
                break
        self.outcomes_are(Outcome.ABORTED, start, participants, when)

    def patience(self) -> Iterator[None]:
        """Turns of looking, at least one, for as long as the world's patience lasts."""
        for _ in turns(self.world.patience_s, _LOOK_EVERY_S):
            yield


def _name(who: ParticipantId) -> str:
    return f"sink {who[0]}, {who[1]}"


# -- another process ------------------------------------------------------------------------------


def elsewhere(work: Callable[..., Any], *args: Any, dies: bool = False) -> Any:
    """Do work in another process, which knows nothing of this one's memory; its answer, as JSON values.

    Args:
        work: A function of a module.
        args: Its arguments; they pickle.
        dies: The process kills itself when the answer is out, with all that it still holds open.
    """
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(theirs, dies, work, *args), daemon=True)
    process.start()
    theirs.close()
    try:
        if not mine.poll(_ANOTHER_PROCESS_WITHIN_S):
            raise AssertionError(f"another process gave no answer for {_ANOTHER_PROCESS_WITHIN_S:g} s")
        said = json.loads(mine.recv_bytes())
    except EOFError:
        raise AssertionError("another process ended without an answer") from None
    finally:
        if not dies:
            process.join(_ANOTHER_PROCESS_WITHIN_S)
        process.kill()
        process.join()
        mine.close()
    if "error" in said:
        raise AssertionError(f"in another process: {said['error']}")
    return said["answer"]


def forked(work: Callable[[], Any]) -> Any:
    """Do work in a fork of this process, which has nothing open: its answer, as JSON values; None if it was killed."""
    heard, said = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            told = {"answer": work()}
        except BaseException:  # noqa: BLE001 - the one who waits is told
            told = {"error": traceback.format_exc()}
        os.write(said, json.dumps(told).encode())
        os._exit(0)
    os.close(said)
    with os.fdopen(heard) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    answer = json.loads(text) if text else {"answer": None}
    if "error" in answer:
        raise AssertionError(f"in another process: {answer['error']}")
    return answer["answer"]


@contextlib.contextmanager
def each_line(of: type, call: Callable[[], object]) -> Iterator[None]:
    """Before each line of a class's module that this thread runs, call something.

    Args:
        of: The class.
        call: What is called.
    """
    file = inspect.getfile(of)

    def look(frame: FrameType, event: str, arg: object) -> Any:  # noqa: ARG001 - what Python calls
        if frame.f_code.co_filename != file:
            return None
        if event == "line":
            call()
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        yield
    finally:
        sys.settrace(before)


def _answer(connection: Connection, dies: bool, work: Callable[..., Any], *args: Any) -> None:
    try:
        said = {"answer": work(*args)}
    except Exception:  # noqa: BLE001 - whatever it was, the one who waits is told
        said = {"error": traceback.format_exc()}
    connection.send_bytes(json.dumps(said).encode())
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)
    connection.close()
