"""A job that reaches PostgreSQL through pgbouncer: exactly once through sessions, and refused at once through less."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from onceflow.errors import ConfigurationError
from tests.support.lives import Job
from tests.support.pooler import pooled
from tests.support.postgres import PostgresWorld, running

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def server():
    """A real PostgreSQL."""
    with running() as made:
        yield made


@pytest.fixture
def job(server, tmp_path):
    """Makes a job that writes through a port."""
    server.execute("drop schema public cascade", "create schema public")

    def through(port: int) -> Job:
        return Job(tmp_path, SimpleNamespace(world=PostgresWorld(server.url(port=port), server.url())))

    return through


def order(job, count: int) -> None:
    job.loud |= set(range(job.orders.end, job.orders.end + count))
    job.orders.end += count


@pytest.mark.parametrize("settings", [{}, {"server_reset_query": ""}], ids=["reset", "not reset"])
def test_sessions(server, job, settings):
    """Each row is once, through deaths, also where a session finds what the one before was told and has prepared."""
    with pooled(server, pool_mode="session", **settings) as port:
        one = job(port)
        for moment in ("commit", "record"):
            order(one, 2)
            one.dies_at(moment)
            order(one, 1)
            assert one.run() is None
        expected = dict.fromkeys(range(6), 1)
        assert (one.shown(), one.table()) == (expected, expected)


@pytest.mark.parametrize(
    "settings",
    [
        {"pool_mode": "transaction"},
        {"pool_mode": "transaction", "server_round_robin": 1},
        {"pool_mode": "transaction", "server_reset_query": "", "min_pool_size": 4},
        {"pool_mode": "statement"},
    ],
    ids=["transactions", "transactions in turn", "transactions of a full pool", "statements"],
)
def test_less_than_sessions_is_refused_at_the_start(server, job, settings):
    """Before anything is made or written, by its cause, and with what leads out; no start follows by itself."""
    with pooled(server, **settings) as port:
        one = job(port)
        order(one, 2)
        for _ in range(2):
            error = one.run()
            assert isinstance(error, ConfigurationError), error
            assert not error.retriable
            assert "pooler" in error.cause
            assert "pool_mode=session" in error.action
        assert server.execute("select count(*) from pg_tables where schemaname = 'public'") == [(0,)]
