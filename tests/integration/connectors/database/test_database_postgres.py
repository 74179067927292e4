"""A database sink on a real PostgreSQL keeps the contract: the conformance suite."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from onceflow.errors import PreCommitError, WriterFencedError
from onceflow.testing import conformance
from onceflow.testing.trial import Trial
from tests.support.postgres import PostgresWorld, SayingPostgres, running
from tests.support.sqlite_worlds import WORDS


@pytest.fixture(scope="module")
def server():
    with running() as one:
        yield one


@pytest.fixture(scope="module")
def world(server):
    return PostgresWorld(server.url())


@pytest.fixture(scope="module")
def direct(server):
    server.execute("drop schema public cascade", "create schema public")  # the tests before this have used it
    return SayingPostgres(server.url(), key="key", guarantee="idempotent-upsert")


@pytest.mark.parametrize("check", conformance.CHECKS, ids=str)
def test_postgresql(check, world):
    """Each fact of the contract holds on PostgreSQL."""
    check(world)


@pytest.mark.parametrize("check", conformance.CHECKS, ids=str)
def test_postgresql_straight_into_the_target(check, direct):
    """Each fact that an idempotent sink's guarantee has holds on PostgreSQL."""
    check(direct)


@pytest.mark.parametrize("delivery", ["exactly-once", "idempotent-upsert"])
def test_deletes(server, delivery):
    """A marked row deletes the one of its key, and a late row of an older epoch brings nothing back."""
    server.execute("drop schema public cascade", "create schema public")
    world = SayingPostgres(server.url(), key="key", guarantee=delivery, delete_when="gone")
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        for epoch, (word, of) in enumerate([("one", keys), ("gone", keys[:2]), ("two", keys[1:2])]):
            prepared = start.seal([start.report(start.put(of, word, epoch=epoch), of)], epoch)
            assert start.committer.check(prepared, start.run(epoch), 0.0) is None
            t.commit(start, prepared)
        assert world.says() == {keys[1]: "two"} | dict.fromkeys(keys[2:], "one")


def test_runs_that_write_at_once(server):
    """Tasks of six epochs and two starts race for the same keys: the newest run's rows stay, whoever comes last."""
    server.execute("drop schema public cascade", "create schema public")
    world = SayingPostgres(server.url(), key="key", guarantee="idempotent-upsert")
    with Trial(world) as t, ThreadPoolExecutor(12) as threads:
        for _ in range(5):
            job = Trial(world)
            keys = t.keys(60)
            runs = [(t.start(incarnation, job_id=job.job_id), epoch) for incarnation in (1, 2) for epoch in range(3)]
            for each in [threads.submit(put, start, keys, epoch) for start, epoch in random.sample(runs, 6)]:
                each.result()
            newest = WORDS[2 * 3 + 2]
            assert {world.says()[key] for key in keys} == {newest}


def put(start, keys, epoch):
    """As Spark does: a task that fails is tried again. One that is told that it comes too late is not."""
    word = WORDS[start.incarnation * 3 + epoch]
    while True:
        try:
            return start.put(keys, word, epoch=epoch)
        except WriterFencedError as error:
            if "comes too late" in error.what:
                return None
        except PreCommitError:
            pass  # a deadlock of two merges
