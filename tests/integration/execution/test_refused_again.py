"""A system that answers, and refuses the same epoch again and again: exit code 75, 75, then 1. One that is away: 75."""

import os
import uuid

import psycopg
import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from onceflow.errors import DatabaseUnavailableError, EpochRefusedError, OnceflowError
from onceflow.program import exit_code
from tests.support import postgres
from tests.support.advice import parts_of
from tests.support.harness import Pipeline, read_topic
from tests.support.large_records import send
from tests.support.lives import Job
from tests.support.postgres import PostgresWorld

SLOW = """
create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(5); return new; end $$;
create trigger slow before insert on payments for each row execute function slow();
"""


@pytest.fixture(scope="module")
def server():
    """A real PostgreSQL."""
    with postgres.running() as made:
        yield made


class Bank:
    """A database of a server, in which no statement may take longer than a moment."""

    def __init__(self, server: postgres.Postgres) -> None:
        name = f"bank_{uuid.uuid4().hex[:8]}"
        server.execute(f"create database {name}", f"alter database {name} set statement_timeout='500ms'")
        self.url = server.url().replace("/postgres?", f"/{name}?")
        self.world = PostgresWorld(self.url)

    def execute(self, does: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(does)


def ended(job: Job) -> int:
    """A start's exit code."""
    error = job.run()
    return 0 if error is None else exit_code(error)


def test_a_database_that_breaks_off_each_start(server, tmp_path):
    """A statement's time-out, by a trigger that is slow. When the trigger is gone the job goes on as it is."""
    bank = Bank(server)
    job = Job(tmp_path, bank)
    try:
        job.orders.end, job.loud = 2, {0, 1}
        assert ended(job) == 0
        bank.execute(SLOW)
        job.orders.end, job.loud = 4, {0, 1, 2, 3}
        parts_of(job.run(), DatabaseUnavailableError, "57014", "statement_timeout")
        assert [ended(job) for _ in range(2)] == [75, 1]
        error = parts_of(job.run(), EpochRefusedError, "epoch 1 was refused at 4 starts in a row", "57014", "raise the")
        assert not error.retriable
        bank.execute("drop trigger slow on payments")
        assert ended(job) == 0
        assert job.table() == dict.fromkeys(range(4), 1)
        bank.execute("create trigger slow before insert on payments for each row execute function slow()")
        job.orders.end, job.loud = 5, set(range(5))
        assert [ended(job) for _ in range(3)] == [75, 75, 1], "counted anew"
    finally:
        job.close()


def test_a_database_that_is_away_for_twenty_starts(server, tmp_path):
    """It is down, and then it is back."""
    bank = Bank(server)
    job = Job(tmp_path, bank)
    try:
        job.orders.end, job.loud = 2, {0, 1}
        assert ended(job) == 0
        job.orders.end, job.loud = 4, {0, 1, 2, 3}
        server.kill()
        assert [ended(job) for _ in range(20)] == [75] * 20
        server.start()
        assert ended(job) == 0
        assert job.table() == dict.fromkeys(range(4), 1)
    finally:
        job.close()


def test_a_database_that_dies_in_each_epoch(server, tmp_path):
    """Behind the connection: no answer of a statement is counted either."""
    bank = Bank(server)
    job = Job(tmp_path, bank)
    try:
        job.orders.end, job.loud = 2, {0, 1}
        for _ in range(4):
            job.meanwhile["check"] = server.kill
            error = job.run()
            assert isinstance(error, OnceflowError)
            assert exit_code(error) == 75, error
            server.start()
        assert ended(job) == 0
        assert job.table() == {0: 1, 1: 1}
    finally:
        job.close()


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.timeout(900)
@pytest.mark.faults
@pytest.mark.parametrize("restarts", ["none", "fixed-delay"])
def test_a_broker_that_refuses_each_start(cluster, admin, new_topic, tmp_path, restarts):
    """A record that is larger than a segment of its topic: 75, 75, 1; restarts in the process count as starts."""
    p = Pipeline(cluster, new_topic(1), new_topic(1), tmp_path / "checkpoint")

    def let(topic, **settings):
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=settings)])

    let(p.source, **{"max.message.bytes": "4000000"})
    let(p.sink, **{"max.message.bytes": "4000000", "segment.bytes": "1048576"})
    p.send(10)
    p.run_well()
    value = os.urandom(1_200_000)
    send(cluster, p.source, [value], **{"message.max.bytes": 4_000_000})
    if restarts == "none":
        assert [(ended := p.run()).code for _ in range(3)] == [75, 75, 1], ended.log
    else:
        p.send(10)
        how = {"TYPE": restarts, "FIXED_DELAY__ATTEMPTS": "10", "FIXED_DELAY__DELAY": "100 ms"}
        p.per_epoch = 10  # the first epoch of the process is good
        ended = p.run(**{f"ONCEFLOW__RESTART_STRATEGY__{name}": said for name, said in how.items()})
        assert ended.code == 1, ended.log
    assert "refused at 3 starts in a row" in ended.log
    assert "RECORD_LIST_TOO_LARGE" in ended.log
    assert "EpochRefusedError, exit code 1: do not start it again as it is" in ended.log
    let(p.sink, **{"max.message.bytes": "4000000", "segment.bytes": "8000000"})
    p.run_well()
    assert [v for _, v in read_topic(cluster, p.sink)].count(value) == 1


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.faults
@pytest.mark.timeout(900)
def test_a_broker_that_is_away_for_twenty_starts(cluster, new_topic, tmp_path):
    """The job's checkpoint is there, and no broker answers: each start says so, before Spark."""
    p = Pipeline(cluster, new_topic(1), new_topic(1), tmp_path / "checkpoint")
    p.send(10)
    p.run_well()
    p.send(10)
    nobody = f"127.0.0.1:{postgres.free_port()}"
    # Each waits its half minute for a broker, and touches nothing: they may as well do that side by side.
    started = [p.start(KAFKA=nobody) for _ in range(20)]
    assert {p.end(each, 300.0).code for each in started} == {75}
    p.run_well()
    p.check()
