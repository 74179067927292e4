"""A database sink on SQLite keeps the contract: the conformance suite, and what is the database's own."""

from __future__ import annotations

import random
import sqlite3

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from sqlalchemy import types as sql
from sqlalchemy.dialects import mysql, postgresql

from onceflow.connectors.database.sink import DatabaseSink
from onceflow.connectors.database.types import for_new, misfit, not_a_key
from onceflow.connectors.database.urls import database_named
from onceflow.errors import (
    CheckpointConflictError,
    ConfigurationError,
    PreCommitError,
    RefusedSettingError,
    RowRefusedError,
)
from onceflow.testing import conformance
from onceflow.testing.trial import Trial
from onceflow.twophase.messages import Outcome, Reply
from tests.support.sqlite_worlds import DELETABLE, FIELDS, Keyed, SqliteWorld, Upserting


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return SqliteWorld(tmp_path_factory.mktemp("sqlite"))


@pytest.mark.parametrize("check", conformance.CHECKS, ids=str)
def test_sqlite(check, world):
    """Each fact of the contract holds on SQLite."""
    check(world)


def test_an_upsert_replaces_the_row_of_its_key(tmp_path):
    """Of two epochs the later one's row stays."""
    world = Upserting(tmp_path, "text primary key not null")
    with Trial(world) as t:
        start = t.start()
        for epoch in range(2):
            prepared = start.prepare(["one", "two"], epoch=epoch)
            assert start.committer.check(prepared, start.run(epoch), 0.0) is None
            t.commit(start, prepared)
    assert sorted(world.visible()) == ["one", "two"]


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    return Keyed(tmp_path_factory.mktemp("keyed"), delete_when="gone")


@pytest.mark.parametrize("check", conformance.CHECKS, ids=str)
def test_sqlite_by_key(check, keyed):
    """Each fact of the contract holds, also where rows have a key and may be deletes."""
    check(keyed)


def test_an_epoch_whose_number_comes_again(tmp_path):
    """After a start from an older checkpoint that nobody has claimed: refused, also by the commit."""
    with Trial(Keyed(tmp_path)) as t:
        first = t.start()
        t.commit(first, first.prepare(t.keys()))
        second = t.start(2)
        prepared = second.prepare(t.keys())
        with pytest.raises(CheckpointConflictError, match="holds epoch 0 of start 1"):
            second.committer.check(prepared, second.run(), 0.0)
        assert set(second.committer.commit(prepared).values()) == {Reply.SUSPECT}
        t.outcomes_are(Outcome.UNKNOWN, second, prepared, "after its commit")


def test_a_row_that_is_marked_deletes_the_one_of_its_key(tmp_path):
    """Also one that is not there; others stay; a later row of the key is there again."""
    world = Keyed(tmp_path, delete_when="gone")
    with Trial(world) as t:
        start, keys = t.start(), t.keys()

        def epoch(n, **said):
            writers = [(start.open(i, epoch=n), word, of) for i, (word, of) in enumerate(said.items())]
            for writer, word, of in writers:
                writer.write(world.rows_saying(of, word))
            prepared = start.seal([start.report(w.prepare(), of, i) for i, (w, _, of) in enumerate(writers)], n)
            assert start.committer.check(prepared, start.run(n), 0.0) is None
            t.commit(start, prepared)

        epoch(0, one=keys, gone=t.keys(2))
        assert world.says() == dict.fromkeys(keys, "one")
        epoch(1, gone=keys[:2], two=keys[2:3])
        assert world.says() == {keys[2]: "two", keys[3]: "one"}
        epoch(2, two=keys[:1])
        assert world.says() == {keys[0]: "two", keys[2]: "two", keys[3]: "one"}


def test_a_delete_without_a_key(tmp_path):
    """A null is equal to nothing: such a row would delete none, in silence; it is refused."""
    nothing = {"key": pa.array([None], pa.string()), "amount": [1], "gone": [1], "onceflow_hash": [1]}
    with Trial(Keyed(tmp_path, delete_when="gone")) as t:
        start = t.start()
        writer = start.open()
        writer.write(pa.RecordBatch.from_pydict(nothing))

        def prepared_and_checked():
            start.committer.check(start.seal([start.report(writer.prepare(), [""])]), start.run(), 0.0)

        with pytest.raises(RowRefusedError, match="column key takes no null, and 1 rows have one"):
            prepared_and_checked()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.faults) for seed in range(1, 4))])
def test_a_table_is_what_a_dict_would_be(tmp_path, seed):
    """Random epochs of rows and deletes; some are run twice, some by a new start, some fail first and are run again."""
    chance, model = random.Random(seed), {}
    world = Keyed(tmp_path, delete_when="gone")
    keys = [f"k{i}" for i in range(12)]
    with Trial(world) as t:
        start = t.start()
        for epoch in range(12):
            if chance.random() < 0.3:
                start = t.start(start.incarnation + 1)
            said = {key: chance.choice(("one", "two", "gone")) for key in chance.sample(keys, chance.randint(1, 8))}
            shards = [dict(list(said.items())[i::2]) for i in range(2)]
            if chance.random() < 0.4:  # the run before it died somewhere
                for shard in shards[: chance.randint(1, 2)]:
                    of_epoch(world, start, epoch, [shard])
                start.committer.abort_run(start.run(epoch))
                start = t.start(start.incarnation + 1)
            prepared = start.seal(of_epoch(world, start, epoch, shards), epoch)
            assert start.committer.check(prepared, start.run(epoch), 0.0) is None
            for _ in range(chance.randint(1, 2)):
                t.commit(start, prepared)
            model |= said
            model = {key: word for key, word in model.items() if word != "gone"}
            assert world.says() == model


def of_epoch(world, start, epoch, shards):
    """The reports of an epoch's tasks, each with a batch for each word."""
    reports = []
    for number, said in enumerate(shards):
        if said:
            writer = start.open(number, epoch=epoch)
            for word in sorted(set(said.values())):
                writer.write(world.rows_saying([key for key, w in said.items() if w == word], word))
            reports.append(start.report(writer.prepare(), list(said), number))
    return reports


def test_a_mark_belongs_to_its_table(tmp_path):
    """A sink that goes to another table of the same database has none there; one of before is still found."""
    world = Keyed(tmp_path)
    with Trial(world) as t:
        start = t.start()
        start.committer.marks().write("new")
        other = DatabaseSink(f"sqlite:///{world.path}", "others", name="payments", create_table=True).connect()
        beside = other.committer("conformance", t.job_id)
        assert (start.committer.marks().read(), beside.marks().read()) == ("new", None)
        beside.close()
        with sqlite3.connect(world.path) as file:
            file.execute("update onceflow_marks set id = ?, mark = 'old'", [t.job_id])
        assert start.committer.marks().read() == "old"
        start.committer.marks().write("newer")
        with sqlite3.connect(world.path) as file:
            assert file.execute("select mark from onceflow_marks").fetchall() == [("newer",)]


def test_a_target_that_keeps_what_is_to_be_deleted(tmp_path):
    """A trigger that prevents the delete would leave the row in silence: nothing is decided."""
    world = Keyed(tmp_path, delete_when="gone")
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        with sqlite3.connect(world.path) as file:
            file.execute("insert into payments values (?, 1)", keys[:1])
            file.execute("create trigger keeping before delete on payments begin select raise(ignore); end")
        writer = start.open()
        writer.write(world.rows_saying(keys, "gone"))
        sealed = start.seal([start.report(writer.prepare(), keys)])
        with pytest.raises(RowRefusedError, match="the target keeps 1 rows that were to be deleted"):
            start.committer.check(sealed, start.run(), 0.0)


SKIPS = "create trigger skipping before update on payments begin select raise /* so */ (ignore); end"


def test_a_trigger_that_skips_rows(tmp_path):
    """An upsert counts the row that is there, though its new values are lost: refused at a start and in each epoch."""
    world = Keyed(tmp_path)
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        with sqlite3.connect(world.path) as file:
            file.executemany("insert into payments values (?, 1)", [[key] for key in keys])
            file.execute(SKIPS)
        writer = start.open()
        writer.write(world.rows_saying(keys, "eight"))
        sealed = start.seal([start.report(writer.prepare(), keys)])
        with pytest.raises(PreCommitError, match="trigger skipping may skip rows"):
            start.committer.check(sealed, start.run(), 0.0)
        with pytest.raises(ConfigurationError, match=r"trigger skipping of table payments may skip a row"):
            t.start()
    assert {amount for _, amount in world.pairs()} == {1}


def test_triggers_are_named(tmp_path, caplog):
    """What they make of values is not looked at: a start says whose they are."""
    world = SqliteWorld(tmp_path)
    with Trial(world) as t:
        t.start()
        with sqlite3.connect(world.path) as file:
            file.execute("create trigger noting after insert on payments begin update payments set amount = 0; end")
        t.start()
    assert "table payments has triggers: noting." in caplog.text


@pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
def test_a_connection_that_does_not_speak_unicode_is_refused(scheme):
    """A text that has no form in it would end each epoch that has one; those that are of Unicode are taken."""
    where = f"{scheme}://job@localhost/bank?charset="
    with pytest.raises(RefusedSettingError, match="charset=latin1"):
        DatabaseSink(f"{where}latin1", "payments")
    for charset in ("utf8mb4", "UTF8", "utf8mb3"):
        DatabaseSink(f"{where}{charset}", "payments")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"delete_when": "gone"}, "delete_when needs a key"),
        ({"delete_when": "key", "key": "key"}, "cannot be part of the key"),
    ],
)
def test_what_a_sink_refuses_to_be(tmp_path, more, why):
    """Without a key nothing would be found again."""
    with pytest.raises(ConfigurationError, match=why):
        DatabaseSink(f"sqlite:///{tmp_path}/bank.db", "payments", **more)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (FIELDS, "deletes where 'gone' is true, and the output has no such boolean column"),
        (StructType([*FIELDS.fields, StructField("gone", LongType())]), "no such boolean column"),
        (StructType([*DELETABLE.fields, StructField("onceflow_delete", LongType())]), "has a column onceflow_delete"),
    ],
)
def test_an_output_whose_deletes_are_not_told(tmp_path, fields, why):
    """Refused before anything is connected."""
    with pytest.raises(ConfigurationError, match=why):
        Keyed(tmp_path, delete_when="gone").sink().columns(fields)


def test_two_rows_of_one_key_in_an_epoch(tmp_path):
    """SQLite would keep the last one in silence: the epoch is refused, by the key's columns and without a value."""
    with Trial(Upserting(tmp_path, "text primary key not null")) as t:
        start = t.start()
        with pytest.raises(RowRefusedError, match=r"2 rows of one key \(key\)") as told:
            start.committer.check(start.prepare(["geheim", "geheim"]), start.run(), 0.0)
        assert "geheim" not in str(told.value)
        assert not told.value.retriable


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("text primary key", "takes null"),
        ("text not null", "no unique constraint on exactly key"),
        ("text primary key not null collate nocase", "collation NOCASE takes texts that differ for one"),
        ("text primary key not null collate rtrim", "collation RTRIM takes texts that differ for one"),
    ],
)
def test_a_key_that_would_not_find_its_row(tmp_path, key, why):
    """Refused at the start."""
    with Trial(Upserting(tmp_path, key)) as t, pytest.raises(ConfigurationError, match=why):
        t.start()


def test_a_constraint_that_replaces_rows(tmp_path):
    """SQLite's REPLACE would take an older row away, in silence, and count the new one: refused before the decision."""
    world = SqliteWorld(tmp_path)
    with sqlite3.connect(world.path) as file:
        file.execute("create table payments (key text unique on conflict replace, amount bigint)")
    with Trial(world) as t:
        start = t.start()
        prepared = start.prepare(["one"])
        assert start.committer.check(prepared, start.run(), 0.0) is None
        t.commit(start, prepared)
        with pytest.raises(RowRefusedError, match=r"UNIQUE constraint failed: payments\.key"):
            start.committer.check(start.prepare(["one"], epoch=1), start.run(1), 0.0)


def test_a_ledger_that_has_lost_a_commit(tmp_path):
    """The database was put back while the job runs: nothing more is decided."""
    world = SqliteWorld(tmp_path)
    with Trial(world) as t:
        start = t.start()
        prepared = start.prepare(["one"])
        assert start.committer.check(prepared, start.run(), 0.0) is None
        t.commit(start, prepared)
        with sqlite3.connect(world.path) as file:
            file.execute("delete from onceflow_ledger")
            file.execute("delete from payments")
        with pytest.raises(CheckpointConflictError, match="does not know the newest epoch any more"):
            start.committer.check(start.prepare(["two"], epoch=1), start.run(1), 0.0)


@pytest.mark.parametrize(
    ("kind", "column", "database"),
    [
        (DoubleType(), mysql.DOUBLE(7, 2), "mysql"),
        (FloatType(), mysql.FLOAT(7, 2), "mariadb"),
        (StringType(), mysql.ENUM("a", "b"), "mysql"),
        (StringType(), mysql.SET("a", "b"), "mysql"),
        (TimestampType(), postgresql.TIMESTAMP(timezone=True, precision=3), "postgresql"),
        (TimestampType(), postgresql.TIMESTAMP(timezone=False), "postgresql"),
        (TimestampNTZType(), mysql.DATETIME(fsp=3), "mysql"),
        (LongType(), sql.Integer(), "postgresql"),
        (DecimalType(12, 4), sql.Numeric(12, 2), "postgresql"),
        (DecimalType(20, 2), sql.Numeric(20, 2), "sqlite"),
    ],
    ids=str,
)
def test_a_column_that_would_change_values(kind, column, database):
    """Each of these rounds, cuts off or rewrites without a word."""
    assert misfit(kind, column, database_named(database))


@pytest.mark.parametrize("column", [postgresql.JSONB(), sql.JSON(), sql.Text()], ids=str)
@pytest.mark.parametrize(
    "kind",
    [
        MapType(BinaryType(), LongType()),
        ArrayType(MapType(DateType(), LongType())),
        StructType([StructField("a", MapType(FIELDS, LongType()))]),
    ],
    ids=lambda kind: kind.simpleString(),
)
def test_a_nested_value_without_a_form_in_json(kind, column):
    """Its keys would be texts that mean nothing, and others in each run."""
    assert "its keys are" in misfit(kind, column, database_named("postgresql"))
    with pytest.raises(ConfigurationError, match="its keys are"):
        for_new(kind, database_named("postgresql"))


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (StringType(), postgresql.CITEXT()),
        (StringType(), sql.CHAR(10)),
        (StringType(), sql.Uuid()),
        (ArrayType(LongType()), postgresql.JSONB()),
    ],
    ids=str,
)
def test_a_column_that_blurs_keys(kind, column):
    """Two keys would be one, and a row replace another's; without a key the column takes them as they are."""
    assert not_a_key(kind, column, database_named("postgresql"))
    assert not misfit(kind, column, database_named("postgresql"))


@pytest.fixture
def each_batch(monkeypatch):
    """A writer gathers nothing."""
    monkeypatch.setattr("onceflow.connectors.database.writer.GATHERED_BYTES", 1)


def test_rows_are_gathered(tmp_path, monkeypatch):
    """Batches are staged when they are many bytes, and the rest with the pre-commit: each row once, in one report."""
    world = SqliteWorld(tmp_path)
    with Trial(world) as t:
        start = t.start()
        keys = [t.keys() for _ in range(5)]
        monkeypatch.setattr("onceflow.connectors.database.writer.GATHERED_BYTES", 2 * world.rows(keys[0]).nbytes)
        writer = start.open()
        staged = []
        for each in keys:
            writer.write(world.rows(each))
            staged.append(world.staged())
        of_all = [key for each in keys for key in each]
        sealed = start.seal([start.report(writer.prepare(), of_all)])
        assert staged == [0, 2 * len(keys[0]), 2 * len(keys[0]), 4 * len(keys[0]), 4 * len(keys[0])]
        assert start.committer.check(sealed, start.run(), 0.0) is None
        t.commit(start, sealed)
        t.all_visible_once(of_all, "after a commit of several batches")


def test_what_is_fenced_is_told(tmp_path, each_batch):
    """A writer whose attempt was ended cannot go on, and cannot say that it is done."""
    world = SqliteWorld(tmp_path)
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        writer = start.open()
        writer.write(world.rows(keys))
        start.committer.abort_run(start.run())
        with pytest.raises(PreCommitError, match="was ended while it wrote"):
            writer.write(world.rows(keys))
        with pytest.raises(PreCommitError, match="was ended while it wrote"):
            writer.prepare()
