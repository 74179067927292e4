"""A request to stop at each moment of an epoch: real driver, rules and journal; Spark and the sink are in memory."""

import threading
import traceback

import pytest

from onceflow.checkpoint.identity import JobIdentity
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.errors import EpochFailedError
from onceflow.execution.collect import Ran
from onceflow.execution.driver import Driver
from onceflow.execution.failures import EpochEnded
from onceflow.execution.means import Surroundings
from onceflow.execution.stop import StopRequested
from onceflow.storage.store import Store
from onceflow.twophase.coordinator import Coordinator
from onceflow.twophase.layout import Layout
from onceflow.twophase.messages import Reply, Surveyed
from onceflow.twophase.participants import Participant, TaskReport
from onceflow.twophase.records import Decide
from tests.support.histories import part

JOB = JobIdentity("a" * 12, "file:///checkpoint", "cluster", "onceflow")
WITHIN_S = 30.0
FRAME = object()  # nobody looks into it


class Sink:
    """A committer in memory, and a place where an epoch may be held."""

    def __init__(self, reached):
        self.reached = reached
        self.committed, self.aborted, self.rounds = [], [], 0
        self.silent = False

    def expires_after_s(self):
        return None

    def lingering(self, *_):
        return []

    def seal(self, reports, run):
        return [Participant(r.sink, str(r.task), r.parts, r.transaction) for r in reports]

    def check(self, *_):
        self.reached("checking")

    def commit(self, participants):
        self.reached("committing")
        self.rounds += 1
        if self.silent:
            return {p.id: Reply.RETRY for p in participants}
        self.committed += [p.sink for p in participants]
        return {p.id: Reply.COMMITTED for p in participants}

    def abort(self, participants):
        self.aborted += [p.sink for p in participants]

    def abort_run(self, _):
        pass

    def marks(self):
        return None

    def close(self):
        pass


class Sources:
    """A source that is as it was."""

    def sizes(self, _checkpoint, _epoch):
        return [1]

    def survey(self, *_, **__):
        return Surveyed(Layout()), None

    def look_again(self, *_):
        return None

    def explain(self, _):
        return None


class Deciding(Journal):
    """The real one; tells when a decision is about to be appended."""

    reached = staticmethod(lambda _: None)

    def append(self, record):
        if isinstance(record, Decide):
            self.reached("deciding")
        return super().append(record)


class Job:
    """A job whose first epoch is asked to stop at a moment of it."""

    def __init__(self, folder, moment=None, *, job_is_there=True):
        self.moment, self.job_is_there = moment, job_is_there
        self.runs = self.cancels = 0
        self.fails = None
        store = Store(folder / "onceflow" / "journal")
        store.make()
        self.journal, self.sink = Deciding(store), Sink(self.reached)
        self.journal.reached = self.reached
        rules, around = Coordinator(["s"]), Surroundings.of_process(1)
        checkpoint = SparkCheckpoint.at(folder)
        self.driver = Driver(JOB, self.journal, checkpoint, {"s": self.sink}, JOB.checkpoint, rules, around)
        self.driver.take_over()
        self.driver.settle(self.run, Sources(), cuts=True)
        (folder / "offsets").mkdir()
        for epoch in (0, 1):
            (folder / "offsets" / str(epoch)).write_text(f"v1\n{{}}\n{epoch}")

    def reached(self, moment):
        if moment == self.moment:
            self.driver.stop.request(self.cancel)

    def cancel(self):
        self.cancels += 1

    def run(self, *_):
        self.runs += 1
        self.reached("running")
        if self.fails is not None:
            raise self.fails
        if self.cancels and self.job_is_there:
            raise RuntimeError("Job 0 cancelled as part of cancellation of all jobs")
        return Ran([TaskReport("s", 0, 0, (part(0),), {"id": "x"})], ["s"], 1, [""])

    def decided(self):
        return [entry.record.epoch for entry in self.journal.read() if isinstance(entry.record, Decide)]


@pytest.fixture
def job(tmp_path):
    made = []

    def make(*args, **more):
        made.append(Job(tmp_path, *args, **more))
        return made[-1]

    yield make
    for each in made:
        each.driver.close()


def test_nobody_asks(job):
    """The epoch is decided and committed, so what the other tests say is the request's doing."""
    made = job()
    made.driver(FRAME, 0)
    assert (made.decided(), made.sink.committed, made.sink.aborted, made.runs) == ([0], ["s"], [], 1)


def test_what_is_old_is_purged_when_an_epoch_is_committed(job, monkeypatch):
    """No file goes, and no receipt is written, between a decision and its commit, for which consumers wait."""
    made, said = job(), []
    made.journal.reached = made.sink.reached = said.append
    purge = made.journal.purge
    monkeypatch.setattr(made.journal, "purge", lambda: (said.append("purging"), purge()))
    made.driver(FRAME, 0)
    assert said == ["checking", "deciding", "committing", "purging"]


def test_before_an_epoch(job):
    """It does not begin: nothing runs, and the job ends as one that was stopped."""
    made = job()
    made.driver.stop.request(made.cancel)
    assert made.driver.wait_outside(WITHIN_S)
    with pytest.raises(StopRequested):
        made.driver(FRAME, 0)
    assert isinstance(made.driver.failure, StopRequested)
    assert (made.runs, made.cancels, made.decided()) == (0, 0, [])


def test_while_the_plan_runs(job):
    """Spark's jobs are cancelled, what was written is aborted, nothing is decided, and the error is not Spark's."""
    made = job("running")
    with pytest.raises(StopRequested) as raised:
        made.driver(FRAME, 0)
    assert "Job 0 cancelled" not in "".join(traceback.format_exception(raised.value)), "Java gets no long text"
    assert isinstance(made.driver.failure, StopRequested)
    assert (made.runs, made.cancels, made.decided(), made.sink.committed) == (1, 1, [], [])


def test_before_the_plans_job_is_there(job):
    """The cancel finds nothing, so the plan runs to its end: its transactions are aborted and not decided."""
    made = job("running", job_is_there=False)
    with pytest.raises(StopRequested):
        made.driver(FRAME, 0)
    assert (made.cancels, made.decided(), made.sink.committed, made.sink.aborted) == (1, [], [], ["s"])


def test_while_the_epoch_is_checked(job):
    """Not decided yet: aborted, to be run again."""
    made = job("checking")
    with pytest.raises(StopRequested):
        made.driver(FRAME, 0)
    assert (made.cancels, made.decided(), made.sink.committed, made.sink.aborted) == (0, [], [], ["s"])


@pytest.mark.parametrize("moment", ["deciding", "committing"])
def test_behind_the_last_look(job, moment):
    """Consumers wait for it: it is decided and committed, and only the next epoch is refused."""
    made = job(moment)
    made.driver(FRAME, 0)
    assert (made.cancels, made.decided(), made.sink.committed, made.sink.aborted) == (0, [0], ["s"], [])
    assert made.driver.failure is None
    with pytest.raises(StopRequested):
        made.driver(FRAME, 1)
    assert made.runs == 1


def test_giving_up_ends_a_decided_epoch_that_has_no_answer(job):
    """Asked to stop it goes on sending; given up it ends, aborts nothing, and the next start rolls it forward."""
    made, ended, again = job(), [], threading.Event()
    made.sink.silent = True
    made.sink.reached = lambda moment: again.set() if moment == "committing" and made.sink.rounds > 2 else None

    def epoch():
        with pytest.raises(StopRequested):
            made.driver(FRAME, 0)
        ended.append(made.driver.failure)

    thread = threading.Thread(target=epoch, daemon=True)
    thread.start()
    assert again.wait(WITHIN_S)
    made.driver.stop.request(made.cancel)
    again.clear()
    assert again.wait(WITHIN_S), "it goes on sending"
    assert ended == []
    made.driver.stop.give_up()
    thread.join(WITHIN_S)
    assert isinstance(ended[0], StopRequested)
    assert made.driver.wait_outside(WITHIN_S)
    assert (made.cancels, made.decided(), made.sink.committed, made.sink.aborted) == (0, [0], [], [])


LONG = (
    "An error occurred while calling o1.collectToPython.\n: org.apache.spark.SparkException: no\n" + "\tat x\n" * 9_999
)


@pytest.mark.parametrize("watched", [True, False])
def test_spark_is_told_of_an_error_in_one_line(job, caplog, watched):
    """However long its cause is, which Java's stack would not hold; kept whole, and logged where nobody waits."""
    made = job()
    made.fails, made.driver.is_watched = RuntimeError(LONG), watched
    with pytest.raises(EpochEnded) as raised:
        made.driver(FRAME, 0)
    text = "".join(traceback.format_exception(raised.value))
    assert "onceflow.errors.EpochFailedError: epoch 0 failed before its decision: org.apache.spark" in text
    assert len(text) < 2_000
    assert isinstance(made.driver.failure, EpochFailedError)
    assert made.driver.failure.__cause__ is made.fails
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert told == ([] if watched else [f": {made.driver.failure}"])


def test_a_mistake_of_ours_is_logged_whole(job, caplog):
    """What is no error of ours has no message that explains it: its traceback does."""
    made = job()
    made.sink.reached = lambda _: [].pop()
    made.sink.check = lambda *_: None
    with pytest.raises(EpochEnded, match="IndexError: pop from empty list"):
        made.driver(FRAME, 0)
    (told,) = [record for record in caplog.records if record.exc_info]
    assert told.exc_info[0] is IndexError
