"""A PostgreSQL dies, and a standby takes its address: what it had not got is told, and what it had is there once."""

from __future__ import annotations

import threading
from collections import Counter

import psycopg
import pytest

from onceflow.connectors.database.committer import DatabaseCommitter
from onceflow.errors import CheckpointConflictError, OutcomeUnknownError
from tests.support.harness import wait_until
from tests.support.lives import Job
from tests.support.lives_postgres import USER, OnPostgres
from tests.support.quiet_job import ALERT, alerts, audited, quiet_job, write_again
from tests.support.standby import replicated

pytestmark = pytest.mark.faults


@pytest.fixture
def primary():
    """A server whose standbys are to come."""
    with replicated() as made:
        made.execute(f"create role {USER} login")
        yield made


@pytest.fixture
def job(primary, tmp_path):
    """A job with a table of it, and an epoch of two rows there."""
    job = Job(tmp_path, OnPostgres(primary))
    order(job, 2)
    assert job.run() is None
    return job


def order(job, count: int) -> None:
    """So many orders more, which go to the table, too."""
    job.loud |= set(range(job.orders.end, job.orders.end + count))
    job.orders.end += count


def all_are_there_once(job) -> None:
    expected = dict.fromkeys(range(job.orders.end), 1)
    assert (job.shown(), job.table()) == (expected, expected)


def refused(error, told: str) -> None:
    assert isinstance(error, CheckpointConflictError), error
    assert not error.retriable
    assert told in error.what
    assert "onceflow txn write-again" in error.action
    assert 'takeover="claim"' in error.action


def synchronous(primary) -> None:
    """From here on each commit waits for the standby that follows."""
    primary.execute("alter system set synchronous_standby_names = '*'", "select pg_reload_conf()")
    wait_until(primary.is_followed, what="a synchronous standby")


def test_a_standby_that_lagged_is_refused_until_it_is_claimed(primary, job):
    """The next start names the epochs and the rows that it has not; a claim gives them up, and goes on."""
    standby = primary.standby("behind")
    standby.detach()
    order(job, 3)
    assert job.run() is None
    primary.fail_over(standby)
    order(job, 1)
    refused(job.run(), "1 epochs with 3 rows that it had committed")
    assert job.run("claim") is None
    assert job.table() == Counter([0, 1, 5])
    assert job.shown() == Counter(range(6))


@pytest.mark.parametrize("moment", ["check", "record"])
def test_a_standby_that_lagged_ends_a_running_job(primary, job, moment):
    """Whenever in an epoch it takes over: no further epoch is written to it, and each start tells the same."""
    standby = primary.standby("behind")
    standby.detach()
    order(job, 3)
    assert job.run() is None
    order(job, 1)
    job.meanwhile[moment] = lambda: primary.fail_over(standby)
    first = job.run()
    gone = "2 epochs with 4 rows" if moment == "record" else "1 epochs with 3 rows"
    order(job, 1)
    again = job.run()
    for error in [again] if first is None or first.retriable else [first, again]:
        refused(error, f"{gone} that it had committed")
    assert job.table() == Counter([0, 1])


def test_a_standby_that_lagged_takes_over_behind_a_decision(primary, job):
    """It has neither what was staged nor the epochs before: each is named, and nobody is said to have removed them."""
    standby = primary.standby("behind")
    standby.detach()
    order(job, 3)
    assert job.run() is None
    order(job, 1)
    job.meanwhile["commit"] = lambda: primary.fail_over(standby)
    first = job.run()
    assert isinstance(first, OutcomeUnknownError)
    assert not first.retriable
    assert "the database was put back to an older state" in first.what
    assert "onceflow txn resolve" in first.action
    refused(job.run(), "1 epochs with 3 rows that it had committed")
    assert job.table() == Counter([0, 1])


def test_a_standby_that_had_not_shown_yet_what_it_got_loses_nothing(primary, job):
    """Its replay was paused: a promotion plays what it has got, and the job goes on."""
    standby = primary.standby("paused")
    standby.execute("select pg_wal_replay_pause()")
    order(job, 3)
    assert job.run() is None
    reached = primary.reached()
    assert not standby.has(reached)
    received = "select pg_last_wal_receive_lsn() >= %(at)s::pg_lsn"
    wait_until(lambda: standby.execute(received, at=reached) == [(True,)], what="a standby that has got everything")
    primary.fail_over(standby)
    order(job, 1)
    assert job.run() is None
    all_are_there_once(job)


@pytest.mark.parametrize("moment", ["staged", "held", "decided", "committed", "recorded"])
def test_a_synchronous_standby_takes_over_and_nothing_is_lost(primary, job, moment, monkeypatch):
    """Whatever of an epoch is done when the server dies, the job goes on, and each row is there once."""
    standby = primary.standby("beside")
    synchronous(primary)

    def once(does, before):
        def wrapped(self, *of):
            if before:
                job.happens(moment)
            done = does(self, *of)
            if not before:
                job.happens(moment)
            return done

        return wrapped

    for name, moments in {"check": ("staged", "held"), "commit": ("decided", "committed")}.items():
        if moment in moments:
            does = getattr(DatabaseCommitter, name)
            monkeypatch.setattr(DatabaseCommitter, name, once(does, before=moment == moments[0]))

    def dies() -> None:
        primary.execute("alter system reset synchronous_standby_names")  # of the one that dies
        primary.fail_over(standby)
        primary.execute("alter system reset synchronous_standby_names", "select pg_reload_conf()")

    job.meanwhile["record" if moment == "recorded" else moment] = dies
    order(job, 3)
    error = job.run()
    assert not job.meanwhile, "it came there"
    if error is not None:
        assert error.retriable, error
        assert job.run() is None
    all_are_there_once(job)
    order(job, 1)
    assert job.run() is None
    all_are_there_once(job)


def test_a_commit_whose_wait_for_the_standby_is_cut_short_is_told_when_the_standby_takes_over(primary, job):
    """Somebody ends the wait, and the server says that it has committed: rows that the standby lacks are named then."""
    standby = primary.standby("beside")
    synchronous(primary)
    job.meanwhile["commit"] = standby.detach
    order(job, 3)
    ended = []
    running = threading.Thread(target=lambda: ended.append(job.run()))
    running.start()
    waits = "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"
    cut = list[tuple[object, ...]]()

    def has_ended() -> bool:
        cut.extend(primary.execute(waits))
        return not running.is_alive()

    wait_until(has_ended, 120, "the end of a job whose commits nobody waits for")
    assert ended == [None]
    assert cut
    primary.execute("alter system reset synchronous_standby_names", "select pg_reload_conf()")
    primary.fail_over(standby)
    primary.execute("alter system reset synchronous_standby_names", "select pg_reload_conf()")
    order(job, 1)
    refused(job.run(), "1 epochs with 3 rows that it had committed")


@pytest.mark.spark
@pytest.mark.kafka
def test_what_a_standby_had_not_got_is_written_again(cluster, new_topic, tmp_path, primary, processes):
    """The running job ends for good, by name; the command writes what is gone, and the audit finds all of it."""
    p = quiet_job(cluster, new_topic, tmp_path, primary.url())

    def shown() -> Counter[int]:
        with psycopg.connect(primary.url()) as connection:
            return Counter(i for (i,) in connection.execute("select id from alerts").fetchall())

    alerts(p, ALERT)
    p.run_well()
    standby = primary.standby("behind")
    standby.detach()
    processes.append(p.start(UNTIL="stopped"))
    alerts(p, ALERT + 1, ALERT + 2)
    wait_until(lambda: shown().total() == 3, what="the alerts")
    primary.fail_over(standby)
    p.send(1)
    ended = p.end(processes[0])
    for each in (ended, p.run()):
        assert each.code == 1
        assert "1 epochs with 2 rows that it had committed" in each.log
    told = write_again(p)
    assert told.returncode == 0, told.stderr
    assert shown() == Counter(range(ALERT, ALERT + 3))
    alerts(p, ALERT + 3)
    p.run_well()
    assert shown() == Counter(range(ALERT, ALERT + 4))
    audited(p)
