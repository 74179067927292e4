"""A database sink on a real PostgreSQL keeps the contract: the conformance suite."""

from __future__ import annotations

import pytest

from onceflow.testing import conformance
from onceflow.testing.trial import Trial
from tests.support.postgres import PostgresWorld, SayingPostgres, running


@pytest.fixture(scope="module")
def server():
    with running() as one:
        yield one


@pytest.fixture(scope="module")
def world(server):
    return PostgresWorld(server.url())


@pytest.fixture(scope="module")
def keyed(server):
    server.execute("drop schema public cascade", "create schema public")  # the tests before this have used it
    return SayingPostgres(server.url(), key="key", delete_when="gone")


@pytest.mark.parametrize("check", conformance.CHECKS, ids=str)
def test_postgresql(check, world):
    """Each fact of the contract holds on PostgreSQL."""
    check(world)


@pytest.mark.parametrize("check", conformance.CHECKS, ids=str)
def test_postgresql_by_key(check, keyed):
    """Each fact of the contract holds on PostgreSQL, also where rows have a key and may be deletes."""
    check(keyed)


def test_deletes(server):
    """A marked row deletes the one of its key."""
    server.execute("drop schema public cascade", "create schema public")
    world = SayingPostgres(server.url(), key="key", delete_when="gone")
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        for epoch, (word, of) in enumerate([("one", keys), ("gone", keys[:2]), ("two", keys[1:2])]):
            prepared = start.seal([start.report(start.put(of, word, epoch=epoch), of)], epoch)
            assert start.committer.check(prepared, start.run(epoch), 0.0) is None
            t.commit(start, prepared)
        assert world.says() == {keys[1]: "two"} | dict.fromkeys(keys[2:], "one")
