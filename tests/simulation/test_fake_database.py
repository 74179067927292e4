"""The fake database is held against real ones: one story, step by step, and each answer compared.

Must not know: what the answers should be; the tests of the committer do. Of an error its class is compared, and whether
it names what was put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest

from onceflow.connectors.contract import Run
from onceflow.connectors.database.committer import DatabaseCommitter
from onceflow.connectors.database.tables import OPEN, PREPARED
from onceflow.errors import OnceflowError, WriterFencedError
from onceflow.testing.trial import PREFIX, Start
from onceflow.twophase.participants import Part, Participant, TaskReport
from tests.simulation.fake_database import TARGET, FakeDatabase, FakeEngine, hashed
from tests.support import postgres
from tests.support.lives import InFolder, System
from tests.support.lives_postgres import USER, OnPostgres
from tests.support.lives_sqlite import SqliteWorld

JOB = "a" * 12


class Side(Protocol):
    """A database with the committer of one sink, and what a task and an owner do to it."""

    def committer(self, start: int) -> Any: ...

    def begin(self, run: Run, number: int) -> Callable[[Sequence[int]], TaskReport]: ...

    def back_up(self) -> None: ...

    def put_back(self) -> None: ...

    def truncate(self) -> None: ...

    def rows(self) -> list[int]: ...


class Real:
    """A real one.

    Args:
        system: The database.
    """

    def __init__(self, system: System) -> None:
        self._system, self.truncate = system, system.forget
        self._start: Start | None = None

    def committer(self, start: int) -> Any:
        if self._start is None or self._start.incarnation != start:
            self._closed()
            self._start = Start(self._system.world, JOB, start)
        return self._start.committer

    def begin(self, run: Run, number: int) -> Callable[[Sequence[int]], TaskReport]:
        start = self._start
        assert start is not None
        writer = start.open(number, epoch=run.epoch)

        def write(rows: Sequence[int]) -> TaskReport:
            writer.write(self._system.world.rows([str(row) for row in rows]))
            return start.report(writer.prepare(), [str(row) for row in rows], number)

        return write

    def back_up(self) -> None:
        self._closed()
        self._system.back_up(0)

    def put_back(self) -> None:
        self._closed()
        self._system.put_back(0)

    def rows(self) -> list[int]:
        return sorted(map(int, self._system.world.visible()))

    def _closed(self) -> None:
        if self._start is not None:
            self._start.close()
        self._start = None


class Fake:
    """The simulation's."""

    def __init__(self) -> None:
        self._database = FakeDatabase("payments")
        self.truncate = self._database.truncate

    def committer(self, start: int) -> DatabaseCommitter:
        engine: Any = FakeEngine(self._database)
        told = (PREFIX, JOB, "payments", TARGET.table)
        return DatabaseCommitter(engine, self._database.tables, self._database.name, lambda: TARGET, *told)

    def begin(self, run: Run, number: int) -> Callable[[Sequence[int]], TaskReport]:
        made = self._database.open(run, number, 0)

        def write(rows: Sequence[int]) -> TaskReport:
            values = [(row, run.epoch, number, 0) for row in rows]
            for some, state in ((values[:-1], OPEN), (values[-1:], PREPARED)):
                if not self._database.stage(made, some, state):
                    raise WriterFencedError("it was ended", action="none")
            told = {"attempt": made, "rows": len(rows), "hash": sum(map(hashed, values)) & ((1 << 64) - 1)}
            return TaskReport("payments", number, 0, (Part("payments", number, len(rows), 0),), told)

        return write

    def back_up(self) -> None:
        self._backup = len(self._database.past)

    def put_back(self) -> None:
        self._database.put_back(len(self._database.past) - self._backup)

    def rows(self) -> list[int]:
        return sorted(record for record, *_ in self._database.content.rows.values())


@dataclass
class Story:
    """Performs steps on one side, and writes down what is answered."""

    side: Side
    said: list[tuple[Any, ...]] = field(default_factory=list)
    start: int = 1
    newest: str = ""
    claimed: int = 0

    def run(self, epoch: int) -> Run:
        return Run(JOB, PREFIX, self.start, epoch, {"payments": self.newest} if self.newest else {}, self.claimed)

    def _tell(self, what: str, step: Callable[[Any], Any]) -> None:
        try:
            self.said.append((what, step(self.side.committer(self.start))))
        except OnceflowError as error:
            named = [word for word in ("newest epoch any more", "older than its sinks") if word in error.what]
            self.said.append((what, type(error).__name__, *named))

    def stage(self, epoch: int, *shards: Sequence[int]) -> list[Participant]:
        committer = self.side.committer(self.start)
        begun = [self.side.begin(self.run(epoch), number) for number in range(len(shards))]
        reports = [write(rows) for write, rows in zip(begun, shards, strict=True)]
        return list(committer.seal(reports, self.run(epoch)))

    def check(self, epoch: int, of: Sequence[Participant]) -> None:
        self._tell("check", lambda committer: committer.check(of, self.run(epoch), 0.0) is None)

    def commit(self, of: Sequence[Participant]) -> None:
        self._tell("commit", lambda committer: [reply.name for reply in committer.commit(of).values()])
        self.said.append(("rows", self.side.rows()))

    def abort(self, of: Sequence[Participant]) -> None:
        self._tell("abort", lambda committer: committer.abort(of))

    def ask(self, of: Sequence[Participant]) -> None:
        self._tell("outcomes", lambda committer: [each.outcome.name for each in committer.outcomes(of).values()])
        self._tell("known", lambda committer: len(committer.known([p.handle for p in of])))

    def linger(self, *spared: Participant) -> None:
        self._tell("lingering", lambda committer: len(committer.lingering(self.start, spared)))

    def epoch(self, epoch: int, *shards: Sequence[int]) -> list[Participant]:
        of = self.stage(epoch, *shards)
        self.check(epoch, of)
        self.ask(of)
        self.commit(of)
        self.ask(of)
        self.newest = of[0].handle
        return of


def commits(s: Story) -> None:
    """Committed once, whoever says it again, and however late an abort comes."""
    of = s.epoch(0, [1, 2], [3])
    s.commit(of)
    s.abort(of)
    s.ask(of)
    s.epoch(1, [4])


def aborts(s: Story) -> None:
    """What was aborted is never committed, and its evidence stays; a writer that goes on is fenced."""
    of = s.stage(0, [1, 2])
    s.abort(of)
    s.check(0, of)
    s.commit(of)
    s.ask(of)
    late = s.side.begin(s.run(0), 1)
    s.check(0, s.stage(0, [3]))
    with pytest.raises(WriterFencedError):
        late([4, 5])


def lingers(s: Story) -> None:
    """A newer start ends what an older one has left, but for what is spared."""
    decided, left = s.stage(0, [1]), s.stage(0, [2, 3])
    s.linger()
    s.start = 2
    s.linger(*decided)
    s.abort(left)
    s.linger(*decided)
    s.commit(decided)


def put_back(s: Story) -> None:
    """What does not know its newest epoch is told in the check, in the commit and by its outcome; quiet or not."""
    s.epoch(0, [1])
    s.side.back_up()
    before = s.epoch(1, [2, 3])
    s.side.put_back()
    s.start = 2
    s.ask(before)
    s.check(2, [])
    of = s.stage(2, [4])
    s.check(2, of)
    s.commit(of)
    s.ask(of)


def put_back_between(s: Story) -> None:
    """Behind the decision: what is staged is gone with what it was put back from, or stands where it stood."""
    s.epoch(0, [1])
    of = s.stage(1, [2])
    s.side.back_up()
    s.check(1, of)
    s.commit(of)
    s.side.put_back()
    s.ask(of)
    s.commit(of)
    s.ask(of)


def gone(s: Story) -> None:
    """Nothing is left of what is decided: nobody knows what became of it."""
    s.epoch(0, [1])
    s.side.back_up()
    of = s.stage(1, [2])
    s.check(1, of)
    s.side.put_back()
    s.commit(of)
    s.ask(of)


def truncated(s: Story) -> None:
    """Without its ledger it knows nothing."""
    of = s.epoch(0, [1])
    s.side.truncate()
    s.ask(of)
    s.check(1, s.stage(1, [2]))


def older_checkpoint(s: Story) -> None:
    """An epoch that another start has committed is not committed again, until it is claimed."""
    s.epoch(0, [1])
    first = s.newest
    s.epoch(1, [2])
    s.start, s.newest = 2, first
    of = s.stage(1, [3])
    s.check(1, of)
    s.commit(of)
    s.ask(of)
    s.abort(of)
    s.claimed = 2
    s.epoch(1, [3])


STORIES = (commits, aborts, lingers, put_back, put_back_between, gone, truncated, older_checkpoint)


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """A real PostgreSQL."""
    with postgres.running() as running:
        running.execute(f"create role {USER} login")
        yield running


def _compared(story: Callable[[Story], None], real: Side) -> None:
    of_real, of_fake = Story(real), Story(Fake())
    story(of_real)
    story(of_fake)
    assert of_fake.said == of_real.said


@pytest.mark.parametrize("story", STORIES, ids=lambda s: s.__name__)
def test_the_fake_answers_as_sqlite_does(story):
    """The same steps get the same answers from a file and from the simulation's database."""
    system = InFolder(SqliteWorld)
    try:
        _compared(story, Real(system))
    finally:
        system.close()


@pytest.mark.faults
@pytest.mark.parametrize("story", STORIES, ids=lambda s: s.__name__)
def test_the_fake_answers_as_postgresql_does(story, server):
    """Likewise, where a check keeps its transaction for the commit."""
    system = OnPostgres(server)
    try:
        _compared(story, Real(system))
    finally:
        system.close()
