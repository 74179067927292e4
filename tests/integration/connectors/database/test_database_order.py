"""The order of changes on real servers: the facts that hold on SQLite hold there."""

import contextlib

import pytest

from onceflow.testing.trial import Trial
from tests.support.changes import (
    FACTS,
    ORDERED,
    UNORDERED,
    Epochs,
    OrderedMariaDb,
    OrderedPostgres,
    what_nothing_orders_is_refused,
)
from tests.support.mariadb import running_mariadb, running_mysql
from tests.support.postgres import running


@contextlib.contextmanager
def postgres():
    """Makes a world of nothing but the server."""
    with running() as server:

        def world():
            server.execute("drop schema public cascade", "create schema public")
            return OrderedPostgres(server.url(), **ORDERED)

        yield world


@contextlib.contextmanager
def of_mysql(kind):
    """Likewise."""
    with kind() as server:

        def world():
            found = OrderedMariaDb(server.port, scheme=server.scheme, **ORDERED)
            for (table,) in found.ask("show tables"):
                found.ask(f"drop table {table}")
            return found

        yield world


SERVERS = {
    "postgresql": postgres,
    "mariadb": lambda: of_mysql(running_mariadb),
    "mysql": lambda: of_mysql(running_mysql),
}


@pytest.fixture(scope="module", params=SERVERS)
def new_world(request):
    with SERVERS[request.param]() as made:
        yield made


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_an_order(fact, new_world):
    """Each fact of changes that are ordered holds."""
    world = new_world()
    with Trial(world) as t:
        fact(world, Epochs(t, t.start()))


@pytest.mark.parametrize(("before", "then", "said"), UNORDERED)
def test_what_nothing_orders_is_refused(new_world, before, then, said):
    """Before the decision; what was there stays."""
    world = new_world()
    with Trial(world) as t:
        what_nothing_orders_is_refused(world, Epochs(t, t.start()), before, then, said)
