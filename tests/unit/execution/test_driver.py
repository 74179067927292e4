"""What a driver makes of a failed run: without Spark, on a real journal; of its committers only the time is asked."""

import logging
import time
from dataclasses import dataclass, field, replace

import pytest

from onceflow import crash_points as crash
from onceflow.checkpoint.identity import JobIdentity
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.errors import (
    CheckpointConflictError,
    CheckpointCorruptError,
    EpochTooLongError,
    FencedError,
    PreCommitError,
    TimeoutTooShortError,
    WriterFencedError,
)
from onceflow.execution.driver import Driver
from onceflow.execution.failures import EpochEnded
from onceflow.execution.means import Surroundings
from onceflow.storage.store import Store
from onceflow.twophase.coordinator import Coordinator
from onceflow.twophase.memory import Mode
from onceflow.twophase.messages import (
    AskOutcomes,
    Commit,
    Confirmed,
    ConfirmNewest,
    Evidence,
    Outcome,
    Reply,
    RunFailed,
    RunPlan,
    Unanswered,
)
from onceflow.twophase.records import Decide, Resolve, Start
from tests.support.advice import parts_of
from tests.support.histories import participant, read_history
from tests.support.shop import Shop

TIMEOUT_S = 100.0
JOB = JobIdentity("a" * 12, "file:///checkpoint", "cluster", "onceflow")


@dataclass
class Committer:
    """Only what is looked at."""

    timeout_s: float | None = TIMEOUT_S
    sent: list = field(default_factory=list)
    answer: Reply = Reply.COMMITTED
    able: bool = False

    def can_finish(self, _):
        return self.able

    def outcomes(self, participants):
        return {p.id: Evidence(Outcome.COMMITTED, "seen") for p in participants[:1]}

    def commit(self, participants):
        self.sent.append([p.id for p in participants])
        return {p.id: self.answer for p in participants}

    def expires_after_s(self):
        return self.timeout_s

    def marks(self):
        return None

    def close(self):
        pass


@dataclass
class Sources:
    """What each source read for an epoch."""

    read: tuple[int, ...]

    def sizes(self, *_):
        return list(self.read)

    def explain(self, _):
        return None


@pytest.fixture
def driver(tmp_path):
    store = Store(tmp_path / "journal")
    store.make()
    journal = Journal(store)
    committers = {"s": Committer(), "t": Committer(None)}
    rules, around = Coordinator(committers), Surroundings.of_process(len(committers))
    made = Driver(JOB, journal, SparkCheckpoint.at(tmp_path), committers, JOB.checkpoint, rules, around)
    journal.start(JOB.job_id)
    made._preparing.sources = Sources((1_000, 40))
    yield made
    made.close()


def failed(driver, error, age_s=TIMEOUT_S, mode=Mode.FRESH):
    """What is told of a run of epoch 4 that ended with this error after so long."""
    driver._preparing._began = time.monotonic() - age_s
    driver._coordinator.memory = replace(driver._coordinator.memory, mode=mode)
    return driver._preparing.failed(4, error)


EXPIRED = WriterFencedError("the transaction was ended")


def test_a_run_that_failed_by_itself_says_why(driver):
    """The first line of what was raised; without a text, its kind."""
    assert failed(driver, ValueError("boom\n  at x")) == RunFailed("boom")
    assert failed(driver, ValueError()) == RunFailed("ValueError")


def test_a_run_for_the_state_alone_is_told(driver, caplog):
    """It takes an epoch's time and writes nothing: else the log would only say that the first epoch is waited for."""
    with caplog.at_level(logging.INFO, "onceflow"):
        driver._perform(RunPlan(3))
        assert caplog.text == ""
        driver._perform(RunPlan(4, write=False))
    assert "epoch 4 is committed: its plan runs once more and writes nothing, for the state" in caplog.text


def test_who_is_the_newest_is_what_the_journal_says(driver, tmp_path):
    """A journal that cannot be read is no answer: it says neither."""
    assert driver._perform(ConfirmNewest()) == Confirmed(newest=True)
    Journal(Store(tmp_path / "journal")).start(JOB.job_id)
    assert driver._perform(ConfirmNewest()) == Confirmed(newest=False)
    (tmp_path / "journal").rename(tmp_path / "gone")
    (tmp_path / "journal").write_text("no folder")
    assert isinstance(driver._perform(ConfirmNewest()), Unanswered)


@pytest.mark.parametrize("error", [EXPIRED, PreCommitError("not proven")])
def test_a_run_that_outlived_its_transactions_is_to_be_cut(driver, error):
    """The cause becomes one that names the limit, so that the user sees it and the same start goes on."""
    driver._preparing.sources = Sources((3, 1))
    assert failed(driver, error) == RunFailed(error.what, 1)
    assert isinstance(driver._preparing.cause, EpochTooLongError)
    assert driver._preparing.cause.retriable
    assert driver._preparing.cause.facts["limit"] == 1


def test_a_run_that_failed_early_is_not_too_long(driver):
    """A writer was fenced long before the time-out: somebody else did it."""
    assert failed(driver, EXPIRED, TIMEOUT_S / 2) == RunFailed(EXPIRED.what)
    assert driver._preparing.cause is EXPIRED


def test_an_error_of_the_plan_is_not_too_long(driver):
    """However long it took: a smaller epoch would raise as well."""
    assert failed(driver, ValueError("boom"), 10 * TIMEOUT_S) == RunFailed("boom")


def test_where_nothing_expires_nothing_is_too_long(driver):
    """A system whose transactions never end."""
    del driver._committing.committers["s"]
    assert failed(driver, EXPIRED, 10**6) == RunFailed(EXPIRED.what)


@pytest.mark.parametrize(("read", "mode"), [((1, 0), Mode.FRESH), ((1_000,), Mode.WHOLE), ((1_000,), Mode.PARTS)])
def test_what_cannot_be_cut_needs_more_time(driver, read, mode):
    """One record, or a range that is decided: starting again, unchanged, would take as long."""
    driver._preparing.sources = Sources(read)
    assert failed(driver, EXPIRED, mode=mode) == RunFailed(EXPIRED.what, None)
    assert isinstance(driver._preparing.cause, TimeoutTooShortError)
    assert not driver._preparing.cause.retriable
    assert "raise transaction_timeout" in driver._preparing.cause.action


@pytest.mark.parametrize(("overtaken", "kind"), [(True, FencedError), (False, CheckpointCorruptError)])
def test_a_plan_that_is_gone_was_taken_back_by_a_newer_start(driver, tmp_path, overtaken, kind):
    """An older driver must not send anybody to look for a file that the newer one has removed."""
    history = replace(driver._coordinator.memory.history, incarnation=1)
    driver._coordinator.memory = replace(driver._coordinator.memory, history=history)
    if overtaken:
        Journal(Store(tmp_path / "journal")).start(JOB.job_id)
    with pytest.raises(EpochEnded, match=kind.__name__):
        driver(None, 3)
    assert isinstance(driver.failure, kind)


@pytest.mark.parametrize("armed", ["", "D6"])
def test_commits_are_sent_together_each_once(driver, tmp_path, monkeypatch, armed):
    """One request to each sink's committer for all of its transactions; where a test dies between two, the first alone.

    It is the same path: the reply of the first one counts, and it is not sent again with the others.
    """
    monkeypatch.setenv(crash.ARM, armed)
    monkeypatch.setenv(crash.MARK, str(tmp_path / "mark"))
    (tmp_path / "mark").write_text("D6 1\n")  # it was reached before, so nobody dies
    all_of_it = tuple(participant(n, sink=sink) for sink in "st" for n in range(3))
    assert driver._perform(Commit(all_of_it, 0)).replies == {p.id: Reply.COMMITTED for p in all_of_it}
    of = {sink: [p.id for p in all_of_it if p.sink == sink] for sink in "st"}
    expected = [of["s"][:1], of["s"][1:]] if armed else [of["s"]]
    assert driver._committing.committers["s"].sent == expected
    assert driver._committing.committers["t"].sent == [of["t"]]


@pytest.mark.parametrize(
    ("answer", "rest"),
    [(Reply.RETRY, Reply.RETRY), (Reply.SUSPECT, Reply.RETRY), (Reply.REFUSED, Reply.REFUSED)],
)
def test_what_expires_is_committed_first(driver, answer, rest):
    """What never expires waits for it, in whichever order they are decided: else it might be visible alone for ever."""
    expiring, lasting = driver._committing.committers["s"], driver._committing.committers["t"]
    expiring.answer = answer
    both = (participant(0, sink="t"), participant(1, sink="s"))
    assert driver._perform(Commit(both, 0)).replies == {both[0].id: rest, both[1].id: answer}
    assert (expiring.sent, lasting.sent) == ([[both[1].id]], [])
    expiring.answer = Reply.COMMITTED
    assert set(driver._perform(Commit(both, 0)).replies.values()) == {Reply.COMMITTED}
    assert lasting.sent == [[both[0].id]]


def test_an_outcome_that_is_not_told_is_unknown(driver):
    """A committer that leaves out what its system does not know: beside visible ones it must not count as written."""
    told, left_out = participant(0), participant(1)
    answer = driver._perform(AskOutcomes((told, left_out)))
    found = {who: evidence.outcome for who, evidence in answer.found.items()}
    assert found == {told.id: Outcome.COMMITTED, left_out.id: Outcome.UNKNOWN}


def test_rows_that_were_given_up_of_a_sink_that_is_gone(driver):
    """Nobody is asked for them; of a sink that is there, or of which not all were given up, everything counts."""
    gone, there, also = participant(0, sink="gone"), participant(1), participant(2, sink="gone")
    begun = [Start(1, JOB.job_id), Decide(1, 4, "offsets", ("gone", "s"), (gone, there, also))]

    def left(*counted):
        record = Resolve(1, 4, "count-as-written", tuple(p.id for p in counted), "somebody", "the disk is gone")
        decided = driver._committing.without_given_up(read_history([*begun, record] if counted else begun)).decided
        return decided.sinks, decided.effective

    assert left(gone, also) == (("s",), (there,))
    everything = (("gone", "s"), (gone, there, also))
    assert left() == left(gone) == left(there) == everything
    driver._committing.committers["s"].able = True
    assert left(gone, also) == everything, "a committer of the same system can finish them"


@pytest.mark.parametrize("late", [True, False])
def test_a_conflict_of_a_replay_is_weighed_against_what_it_replaces(tmp_path, late):
    """An older driver's commit that comes after its replay has begun passes; another start's rows do not."""
    shop = Shop(tmp_path)
    try:
        shop.dies_at("commit")
        shop.somebody("update ledger set state='aborted'")

        def found():
            if late:
                shop.somebody("update ledger set state='committed' where incarnation=1")
            raise CheckpointConflictError("the ledger holds epoch 0 of start 7", action="put the newest copy back")

        shop.meanwhile["check"] = found
        error = shop.run()
        if late:
            assert parts_of(error, PreCommitError, "epoch 0", "committed after all").retriable
            assert shop.run() is None
        else:
            assert (type(error), error.what) == (CheckpointConflictError, "the ledger holds epoch 0 of start 7")
        assert shop.written() == (shop.all_orders() if late else [])
    finally:
        shop.close()
