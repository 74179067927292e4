"""A database sink on a real MariaDB, and on a real MySQL, keeps the contract; where there is none it is not asked."""

from __future__ import annotations

import contextlib
import threading

import pyarrow as pa
import pymysql
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from onceflow.errors import ConfigurationError, DatabaseUnavailableError, PreCommitError, RowRefusedError
from onceflow.testing import conformance
from onceflow.testing.trial import Trial
from onceflow.twophase.messages import Outcome, Reply
from tests.support.changes import ORDERED, Change, OrderedMariaDb
from tests.support.mariadb import running_mariadb, running_mysql

DELETING = {"key": "key", "delete_when": "gone"}


@pytest.fixture(scope="module", params=[running_mariadb, running_mysql], ids=["mariadb", "mysql"])
def server(request):
    with request.param() as one:
        yield one


@pytest.fixture
def world(server):
    return server.world()


@pytest.mark.parametrize("check", conformance.CHECKS, ids=str)
def test_mariadb(check, world):
    """Each fact of the contract holds on MariaDB."""
    check(world)


@pytest.fixture(scope="module")
def keyed(server):
    world = server.saying(**DELETING)
    world.ask("drop table if exists payments, payments_onceflow_staged")
    yield world
    world.ask("drop table if exists payments, payments_onceflow_staged")


@pytest.mark.parametrize("check", conformance.CHECKS, ids=str)
def test_mariadb_by_key(check, keyed):
    """Each fact of the contract holds on MariaDB, also where rows have a key and may be deletes."""
    check(keyed)


def test_deletes(keyed):
    """A marked row deletes the one of its key, and others stay."""
    with Trial(keyed) as t:
        start, keys = t.start(), t.keys()
        for epoch, (word, of) in enumerate([("one", keys), ("gone", keys[:2]), ("two", keys[1:2])]):
            prepared = start.seal([start.report(start.put(of, word, epoch=epoch), of)], epoch)
            assert start.committer.check(prepared, start.run(epoch), 0.0) is None
            t.commit(start, prepared)
        said = {key: word for key, word in keyed.says().items() if key in keys}
        assert said == {keys[1]: "two"} | dict.fromkeys(keys[2:], "one")


@pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
def test_what_an_epoch_reads_does_not_grow_with_its_table(server, ordered):
    """A delete's subquery would be asked for each row of the table: an epoch of 20 would read 60,000 rows and more."""
    world = OrderedMariaDb(server.port, scheme=server.scheme, **ORDERED) if ordered else server.saying(**DELETING)
    for (table,) in world.ask("show tables"):
        world.ask(f"drop table {table}")

    def read():
        return sum(int(n) for name, n in world.ask("show global status") if name.startswith("Handler_read"))

    with Trial(world) as t:
        start, keys = t.start(), [f"k{n}" for n in range(3_000)]
        for epoch, (word, of) in enumerate([("one", keys), ("gone", keys[:20])]):
            changes = [Change.at(key, None if epoch else 1, 1 + epoch).text() for key in of]
            handle = start.write(changes, 0, epoch=epoch) if ordered else start.put(of, word, epoch=epoch)
            prepared = start.seal([handle if ordered else start.report(handle, of)], epoch)
            before = read()
            assert start.committer.check(prepared, start.run(epoch), 0.0) is None
            t.commit(start, prepared)
            start.newest = {p.sink: p.handle for p in prepared}
        rows = read() - before
    assert len(world.whole()) == 2_980
    assert rows < 20_000


def test_a_server_that_is_killed(server, world):
    """Before the commit and after it: everything is as it was, and each row is there once."""
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        prepared = start.prepare(keys)
        server.kill()
        with pytest.raises(DatabaseUnavailableError):
            start.committer.check(prepared, start.run(), 0.0)
        server.start()
        assert start.committer.check(prepared, start.run(), 0.0) is None
        server.kill()
        assert set(start.committer.commit(prepared).values()) == {Reply.RETRY}
        server.start()
        t.outcomes_are(Outcome.OPEN, start, prepared, "after the server is back")
        t.commit(start, prepared)
        server.kill()
        server.start()
        t.outcomes_are(Outcome.COMMITTED, start, prepared, "after another kill")
        t.all_visible_once(keys, "after another kill")


def test_two_drivers_at_once(world):
    """Both commit what is decided, at the same time; each row is there once."""
    with Trial(world) as t:
        one, other, keys = t.start(), t.start(2, attach=True), t.keys(40)
        prepared = one.prepare(keys[:20], keys[20:])
        assert one.committer.check(prepared, one.run(), 0.0) is None
        threads = [threading.Thread(target=s.committer.commit, args=(prepared,)) for s in (one, other) * 3]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        t.commit(one, prepared)
        t.all_visible_once(keys, "after commits of two drivers")


def test_a_target_that_is_altered_between_check_and_commit(world):
    """Nothing is rounded: refused, told, and committed when it was put right."""
    world.ask("drop table if exists payments, payments_onceflow_staged")
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        prepared = start.prepare(keys)
        assert start.committer.check(prepared, start.run(), 0.0) is None
        world.ask("alter table payments modify amount smallint")
        assert set(start.committer.commit(prepared).values()) == {Reply.REFUSED}
        assert "column amount of the target is SMALLINT" in start.committer.refusal(prepared).what
        world.ask("alter table payments modify amount bigint")
        t.commit(start, prepared)
        t.all_visible_once(keys, "after the target was put right")


def test_a_table_that_keeps_no_transactions(server, world):
    """A row that is written there stays when its transaction is rolled back: refused at the start."""
    world.ask("drop table if exists others")
    world.ask("create table others (`key` text, amount bigint) engine=MyISAM")
    refused = pytest.raises(ConfigurationError, match=r"table others .* engine is MyISAM")
    with Trial(server.world(table="others")) as t, refused:
        t.start()


def test_a_ledger_that_keeps_no_transactions_proves_nothing(server, world):
    """Its row would stay where the merge is taken back, and say that the rows are there."""
    try:
        with Trial(world) as t:
            start, keys = t.start(), t.keys()
            prepared = start.prepare(keys)
            assert start.committer.check(prepared, start.run(), 0.0) is None
            world.ask(f"alter table onceflow_ledger engine={server.engines[-1]}")
            world.ask("alter table payments add column given int not null")
            assert set(start.committer.commit(prepared).values()) == {Reply.REFUSED}
            world.ask("alter table payments drop column given")
            assert set(start.committer.commit(prepared).values()) == {Reply.REFUSED}
            assert "onceflow_ledger" in start.committer.refusal(prepared).what
            with pytest.raises(PreCommitError, match="onceflow_ledger was altered"):
                start.committer.check(start.prepare(keys, epoch=1), start.run(1), 0.0)
            world.ask("alter table onceflow_ledger engine=InnoDB")
            t.commit(start, prepared)
            assert sorted(key for key in world.visible() if key in keys) == sorted(keys)
    finally:
        world.ask("alter table onceflow_ledger engine=InnoDB")
        with contextlib.suppress(pymysql.err.OperationalError):
            world.ask("alter table payments drop column given")


@pytest.mark.parametrize("engine", ["MyISAM", "Aria"])
def test_a_table_that_stops_to_keep_transactions_while_a_job_runs(server, engine):
    """What is tried there cannot be taken back, so it is looked at first: no row is written, neither twice nor once."""
    if engine not in server.engines:
        pytest.skip(f"it has no engine {engine}")
    world = server.saying(key="key")
    world.ask("drop table if exists payments, payments_onceflow_staged")
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        world.ask(f"alter table payments engine={engine}")

        def epoch():
            start.committer.check(start.prepare(keys), start.run(), 0.0)

        with pytest.raises(PreCommitError, match=f"engine is {engine}"):
            epoch()
        assert world.pairs() == []
        world.ask("alter table payments engine=InnoDB")
        prepared = start.prepare(keys, epoch=1)
        assert start.committer.check(prepared, start.run(1), 0.0) is None
        world.ask(f"alter table payments engine={engine}")
        assert set(start.committer.commit(prepared).values()) == {Reply.REFUSED}
        assert world.pairs() == []
        world.ask("alter table payments engine=InnoDB")
        t.commit(start, prepared)
        t.all_visible_once(keys, "after it was put right")
    world.ask("drop table payments, payments_onceflow_staged")


def test_a_trigger_that_writes_to_a_table_without_transactions(world):
    """What it wrote in the trial of the check stays there, and the commit would write it again: nothing is decided."""
    world.ask("drop table if exists payments, payments_onceflow_staged")
    world.ask("drop table if exists journal")
    world.ask("create table journal (`key` text) engine=MyISAM")
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        world.ask("create trigger noting after insert on payments for each row insert into journal values (new.`key`)")
        prepared = start.prepare(keys)
        with pytest.raises(
            RowRefusedError, match=r"a trigger of the target writes to a table .* keeps no transactions"
        ):
            start.committer.check(prepared, start.run(), 0.0)
        t.none_visible(keys, "after the check")
        world.ask("alter table journal engine=InnoDB")
        again = start.prepare(keys, epoch=1)
        assert start.committer.check(again, start.run(1), 0.0) is None
        t.commit(start, again)
        t.all_visible_once(keys, "when the log is of the same transactions")
        assert len(world.ask("select * from journal")) == 2 * len(keys), "those of the refused trial, and the rows'"
    world.ask("drop table payments, payments_onceflow_staged, journal")


def test_a_trigger_that_raises(world):
    """It is the row that is refused, and no right that is missing."""
    world.ask("drop table if exists payments, payments_onceflow_staged")
    with Trial(world) as t:
        start = t.start()
        world.ask("create trigger no before insert on payments for each row signal sqlstate '45000'")
        prepared = start.prepare(t.keys())
        with pytest.raises(RowRefusedError, match="1644"):
            start.committer.check(prepared, start.run(), 0.0)
    world.ask("drop table payments, payments_onceflow_staged")


@pytest.mark.parametrize("name", ["sel%ect", "%s", "ä" * 30])
def test_a_name_of_a_table_and_a_column(server, name):
    """Percent signs are placeholders to the driver."""
    world = server.world(table=name, name="named")
    world.output = lambda: StructType([StructField("key", StringType()), StructField(name, LongType())])
    world.rows = lambda keys: pa.RecordBatch.from_pydict(
        {"key": list(keys), name: [1] * len(keys), "onceflow_hash": [hash(key) for key in keys]}
    )
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        prepared = start.prepare(keys)
        assert start.committer.check(prepared, start.run(), 0.0) is None
        t.commit(start, prepared)
        doubled = name.replace("%", "%%")
        assert sorted(key for (key,) in world.ask(f"select `key` from `{doubled}`")) == sorted(keys)
        world.ask(f"drop table `{doubled}`")


def test_an_upsert(server):
    """A row replaces that of its key; of two of one key neither is decided. The table is made with an exact key."""
    world = server.world(table="payments", key="key")
    world.ask("drop table if exists payments, payments_onceflow_staged")
    with Trial(world) as t:
        start = t.start()
        for epoch in range(2):
            prepared = start.prepare(["one", "ONE", "one "], epoch=epoch)
            assert start.committer.check(prepared, start.run(epoch), 0.0) is None
            t.commit(start, prepared)
        t.all_visible_once(["one", "ONE", "one "], "after two epochs")
        with pytest.raises(RowRefusedError, match="2 rows of one key"):
            start.committer.check(start.prepare(["three", "three"], epoch=2), start.run(2), 0.0)
    world.ask("drop table payments, payments_onceflow_staged")


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("varchar(50) collate utf8mb4_general_ci not null primary key", "collation utf8mb4_general_ci takes"),
        ("varchar(50) collate utf8mb4_bin not null primary key", "collation utf8mb4_bin takes"),
        ("varchar(50) collate utf8mb4_nopad_bin not null, unique (`key`(4))", "looks at the beginnings of values only"),
        ("char(50) collate utf8mb4_nopad_bin not null primary key", r"char\(n\) takes"),
    ],
)
def test_a_key_that_is_several(server, key, why):
    """Letters' case, spaces behind, or the rest of a long text are nothing to these: a row would replace another's."""
    world = server.world(table="payments", key="key")
    world.ask("drop table if exists payments, payments_onceflow_staged")
    world.ask(f"create table payments (`key` {key.replace('utf8mb4_nopad_bin', server.exact)}, amount bigint)")
    with Trial(world) as t, pytest.raises(ConfigurationError, match=why):
        t.start()
    world.ask("drop table payments")
