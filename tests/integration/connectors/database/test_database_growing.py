"""An output that gets a column more, into a table of a real server (``schema_changes="add"``)."""

from contextlib import closing

import pymysql
import pytest

from onceflow.errors import ConfigurationError
from onceflow.testing.trial import Trial
from tests.support.growing import FACTS, NOTE, Growing
from tests.support.mariadb import MariaDbWorld, running_mariadb, running_mysql
from tests.support.postgres import HOST, PostgresWorld, running


class GrowingPostgres(Growing, PostgresWorld):
    """On a PostgreSQL."""


class GrowingMariaDb(Growing, MariaDbWorld):
    """On a MariaDB or a MySQL."""


@pytest.fixture(scope="module", params=[running_mariadb, running_mysql], ids=["mariadb", "mysql"])
def mariadb(request):
    with request.param() as server:
        yield server


@pytest.fixture(scope="module")
def postgres():
    with running() as server:
        yield server


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_a_table_of_mariadb_grows(fact, mariadb):
    """Each fact holds."""
    world = GrowingMariaDb(mariadb.port, scheme=mariadb.scheme, schema_changes="add")
    for (table,) in world.ask("show tables"):
        world.ask(f"drop table {table}")
    fact(world)


def test_a_table_that_somebody_holds_is_not_waited_for_without_end(mariadb, monkeypatch):
    """An ALTER waits for whoever has read the table, and everybody else behind it: by default a day."""
    monkeypatch.setattr("onceflow.connectors.database.mysql.LOCK_TIMEOUT_S", 1)
    world = GrowingMariaDb(mariadb.port, scheme=mariadb.scheme, schema_changes="add")
    for (table,) in world.ask("show tables"):
        world.ask(f"drop table {table}")
    with Trial(world) as t:
        t.start()
        world.grown = True
        with closing(pymysql.connect(host=HOST, port=mariadb.port, user="root", database="bank")) as holding:
            holding.begin()
            holding.cursor().execute("select * from payments")
            with pytest.raises(ConfigurationError, match="was not added"):
                t.start()
        t.start()


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_a_table_of_postgresql_grows(fact, postgres):
    """Each fact holds."""
    postgres.execute("drop schema public cascade", "create schema public")
    fact(GrowingPostgres(postgres.url(), schema_changes="add"))


def test_who_does_not_own_the_table_is_told_what_to_run(postgres):
    """A column is the owner's to add: the start says by which statement, and that makes it start."""
    postgres.execute("drop schema public cascade", "create schema public", "grant all on schema public to public")
    with Trial(GrowingPostgres(postgres.url())) as t:
        t.start()
    postgres.execute("create role writer login", "grant all on all tables in schema public to writer")
    world = GrowingPostgres(postgres.url("writer"), schema_changes="add")
    world.grown = True
    with Trial(world) as t:
        with pytest.raises(ConfigurationError, match="was not added") as refused:
            t.start()
        postgres.execute(refused.value.action.partition("again: ")[2])
        t.start()
    assert NOTE.name in refused.value.action
