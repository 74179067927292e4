"""The mark outside of the checkpoint while a job runs: written again every hour, and never over a newer one."""

import threading
from dataclasses import dataclass, field

import pytest

from onceflow.checkpoint.identity import JobIdentity, Mark, NameMark
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.errors import FencedError
from onceflow.execution import sweeper
from onceflow.execution.driver import Driver
from onceflow.execution.marks import write_mark
from onceflow.execution.means import Surroundings
from onceflow.execution.running import RunningJob
from onceflow.storage.store import Store
from onceflow.twophase.coordinator import Coordinator
from onceflow.twophase.messages import Appended
from onceflow.twophase.participants import Part, Participant
from onceflow.twophase.records import Decide

JOB = JobIdentity("a" * 12, "file:///checkpoint", "cluster", "onceflow")
TURNS = sweeper.SWEEPS_A_MARK
WITHIN_S = 30.0


@dataclass
class Outside:
    """Only what is looked at of a committer: what keeps the mark, and a sweep, which waits until its turn is called."""

    mark: str | None = None
    writes: int = 0
    names: list[tuple[str, str]] = field(default_factory=list)
    clocked: bool = False
    entered: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def marks(self):
        return self

    def read(self):
        return self.mark

    def write(self, mark):
        self.mark = mark
        self.writes += 1

    def read_name(self, name):
        return dict(self.names).get(name)

    def write_name(self, name, mark):
        self.names.append((name, mark))

    def lingering(self, *_):
        if self.clocked:
            self.entered.release()
            self.turn.acquire()
        return []

    def close(self):
        pass


class Idle:
    """A query to which no record comes, and what else a job lets go of at its end."""

    isActive = True  # noqa: N815 - Spark's name
    runId = "run"  # noqa: N815 - likewise
    stopped = False

    @property
    def _jsq(self):
        return self

    def sparkSession(self):  # noqa: N802 - likewise
        return self

    def sparkContext(self):  # noqa: N802 - likewise
        return self

    def stop(self):
        self.stopped = True

    def close(self, **_):
        pass


def journal(tmp_path):
    store = Store(tmp_path / "journal")
    store.make()
    return Journal(store)


@pytest.fixture
def outside():
    return Outside()


@pytest.fixture
def driver(tmp_path, outside):
    """One that has just taken over; its first mark is written."""
    rules, around = Coordinator(["s"]), Surroundings.of_process(1)
    files = (journal(tmp_path), SparkCheckpoint.at(tmp_path))
    made = Driver(JOB, *files, {"s": outside}, JOB.checkpoint, rules, around, name="hourly")
    made.take_over()
    marks_written(made)
    assert outside.writes == 1
    yield made
    made.close()


@pytest.fixture
def idle(driver, outside, monkeypatch):
    """A job that runs without an epoch; ``turns(outside, n)`` is its clock."""
    monkeypatch.setattr(sweeper, "EVERY_S", 0.0)
    outside.clocked = True
    query = Idle()
    job = RunningJob(query, driver, [], query, query, lambda: None)
    assert outside.entered.acquire(timeout=WITHIN_S)
    yield job
    job._sweeper._ended.set()
    outside.turn.release(10)
    job.close()


def turns(outside, count):
    """Let so many sweeps pass; the next one has come when it returns, so all that they do is asked for."""
    for _ in range(count):
        outside.turn.release()
        assert outside.entered.acquire(timeout=WITHIN_S)


def marks_written(driver):
    """Wait for marks that were asked for."""
    driver._marks._thread.submit(lambda: None).result(WITHIN_S)


def test_it_is_due_every_hour():
    """What the error for a lost mark says of a job that runs."""
    assert TURNS * sweeper.EVERY_S == 3_600


def test_an_idle_job_writes_its_mark_again_when_it_is_due(driver, outside, idle):
    """Kafka has forgotten it: nothing happens before the interval has passed, and then it is there again, each time."""
    was, outside.mark = outside.mark, None
    turns(outside, TURNS - 1)
    marks_written(driver)
    assert (outside.mark, outside.writes) == (None, 1)
    turns(outside, 1)
    marks_written(driver)
    assert (outside.mark, outside.writes) == (was, 2)
    turns(outside, TURNS)
    marks_written(driver)
    assert (outside.mark, outside.writes) == (was, 3)
    assert Mark.loads(was) == Mark(driver.incarnation, driver._journal.start_nonce, -1)


def test_a_replaced_driver_writes_no_mark_when_it_is_due(driver, outside, idle, tmp_path):
    """The sweep of that very turn finds the newer start and ends the job; the mark stays the newer one's."""
    newer = journal(tmp_path)
    turns(outside, TURNS - 1)
    outside.mark = theirs = Mark(newer.start(JOB.job_id).incarnation, newer.start_nonce, -1).dumps()
    outside.turn.release()
    idle._sweeper._thread.join(WITHIN_S)
    assert not idle._sweeper._thread.is_alive()
    marks_written(driver)
    assert (outside.mark, outside.writes) == (theirs, 1)
    assert isinstance(driver.failure, FencedError)
    assert idle.query.stopped


def test_a_sleeper_does_not_write_over_a_newer_starts_mark(driver, outside, tmp_path):
    """It slept between its sweep and the mark: what is read just before the write tells."""
    newer = journal(tmp_path)
    outside.mark = theirs = Mark(newer.start(JOB.job_id).incarnation, newer.start_nonce, -1).dumps()
    driver.refresh_mark()
    marks_written(driver)
    assert outside.mark == theirs


def test_a_name_is_marked_when_something_is_decided_and_again_with_each_refresh(driver, outside):
    """Before that nothing was written that a new job would write again; and Kafka forgets this mark, too."""
    driver.refresh_mark()
    marks_written(driver)
    assert outside.names == []
    for epoch in (0, 1):
        driver._marks.write(epoch, driver.incarnation)
    marks_written(driver)
    mark = NameMark({JOB.job_id: JOB.checkpoint}).dumps()
    assert outside.names == [("hourly", mark)]
    driver._marks.write_again(1, driver.incarnation)
    marks_written(driver)
    assert outside.names == [("hourly", mark)] * 2


def test_a_checkpoint_of_before_is_marked_by_its_next_start(tmp_path, outside, driver):
    """What it has decided is in its journal; from this start on its loss is noticed."""
    journal(tmp_path).start(JOB.job_id)
    store = journal(tmp_path)
    began = store.start(JOB.job_id)
    of = (Participant("s", "h", (Part("s", 0, 1, 7),), {}),)
    assert store.append(Decide(began.incarnation, 0, "v1\n{}\n", ("s",), of)) == Appended()
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").write_text("v1")
    around, files = Surroundings.of_process(1), (journal(tmp_path), SparkCheckpoint.at(tmp_path))
    next_one = Driver(JOB, *files, {"s": outside}, JOB.checkpoint, Coordinator(["s"]), around, name="hourly")
    try:
        next_one._append_start()
        marks_written(next_one)
    finally:
        next_one.close()
    assert outside.names == [("hourly", NameMark({JOB.job_id: JOB.checkpoint}).dumps())]


@pytest.mark.parametrize(
    ("found", "written", "stays"),
    [
        (None, Mark(2, "n", 5), False),
        ("no mark", Mark(2, "n", 5), False),
        (Mark(2, "n", 5), Mark(2, "n", 5), False),
        (Mark(2, "n", 4), Mark(2, "n", 5), False),
        (Mark(1, "m", 9), Mark(2, "n", 5), False),  # an older copy that was claimed: the newest start counts
        (Mark(3, "o", -1), Mark(2, "n", 5), True),
        (Mark(2, "n", 6), Mark(2, "n", 5), True),  # decided after the refresh had looked
    ],
)
def test_which_mark_is_the_newer_one(found, written, stays):
    """By start, then by epoch: an older copy of the checkpoint must not pass as the newest one."""
    outside = Outside(found.dumps() if isinstance(found, Mark) else found)
    write_mark(outside, written)
    assert outside.mark == (found if stays else written).dumps()
