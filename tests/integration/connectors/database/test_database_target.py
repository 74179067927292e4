"""What the target of a database sink is, on a real PostgreSQL: altered or hidden while a job runs, or another one."""

from __future__ import annotations

from contextlib import nullcontext

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from onceflow.errors import ConfigurationError, PreCommitError
from onceflow.launch.systems import require_beside
from onceflow.testing.trial import PREFIX, Trial
from onceflow.twophase.messages import Reply
from tests.support.database_faults import answer, checked, decided
from tests.support.postgres import PostgresWorld, SayingPostgres, running
from tests.support.sqlite_worlds import FIELDS

TWO = "(key text, amount bigint)"


@pytest.fixture(scope="module")
def server():
    with running() as one:
        yield one


@pytest.fixture
def empty(server):
    """Nothing is there yet."""
    server.execute("drop schema if exists postgres cascade", "drop schema public cascade", "create schema public")
    yield server
    server.execute("drop schema if exists postgres cascade")


PARTITIONED = f"create table payments {TWO} partition by range (amount)"
PARTITION = "partition of payments for values from"
ALTERED = {
    "unlogged": (
        [f"create table payments {TWO}"],
        ["alter table payments set unlogged"],
        "alter table payments set logged",
        "UNLOGGED",
    ),
    "an unlogged partition": (
        [PARTITIONED, f"create table one {PARTITION} (0) to (5)"],
        [f"create unlogged table two {PARTITION} (5) to (9)"],
        "drop table two",
        "a partition of it is",
    ),
    "a foreign partition": (
        [PARTITIONED, f"create table one {PARTITION} (0) to (5)"],
        [
            "create foreign data wrapper none",
            "create server nowhere foreign data wrapper none",
            f"create foreign table two {PARTITION} (5) to (9) server nowhere",
        ],
        "drop foreign data wrapper none cascade",
        "it is a foreign table",
    ),
    "a rule": (
        [f"create table payments {TWO}", f"create table others {TWO}"],
        ["create rule away as on insert to payments do instead insert into others values (new.*)"],
        "drop rule away on payments",
        "rule away",
    ),
}


@pytest.mark.parametrize("what", ALTERED)
def test_a_target_that_stops_to_hold_rows_while_a_job_runs(empty, what):
    """It is looked at in each merge: before the decision, and what is decided already waits until it is put right."""
    made, alter, back, why = ALTERED[what]
    empty.execute(*made)
    with Trial(PostgresWorld(empty.url(), create_table=False)) as t:
        start, before, keys, undecided = t.start(), t.keys(), t.keys(1), t.keys()
        t.commit(start, checked(start, before))
        waiting = decided(empty, start, keys, epoch=1)
        prepared = start.prepare(undecided, epoch=2)
        empty.execute(*alter)
        with pytest.raises(PreCommitError, match=why) as told:
            start.committer.check(prepared, start.run(2), 0.0)
        assert told.value.retriable, "a start looks again, and refuses it by its name"
        assert answer(start, waiting) is Reply.REFUSED
        assert why in start.committer.refusal(waiting).what
        with pytest.raises(ConfigurationError, match=why):
            t.start(2)
        empty.execute(back)
        t.none_visible([*keys, *undecided], "after the check")
        t.commit(start, waiting)
        t.all_visible_once([*before, *keys], "after it was put right")


def test_row_security_that_is_switched_on_while_a_job_deletes(empty):
    """A delete would pass over the rows that it hides, and what is left of them cannot be counted either."""
    empty.execute(
        "create table payments (key text primary key, amount bigint)",
        "create role job login",
        "grant all on schema public to job",
        "grant all on payments to job",
    )
    more = {"key": "key", "delete_when": "gone", "create_table": False}
    world = SayingPostgres(empty.url("job"), empty.url(), **more)
    try:
        with Trial(world) as t:
            start, keys = t.start(), t.keys(2)
            prepared = start.seal([start.report(start.put(keys, "one"), keys)])
            assert start.committer.check(prepared, start.run(), 0.0) is None
            t.commit(start, prepared)
            empty.execute(
                "alter table payments enable row level security",
                f"create policy hiding on payments using (key <> '{keys[0]}') with check (true)",
            )

            def epoch():
                sealed = start.seal([start.report(start.put(keys, "gone", epoch=1), keys)], 1)
                start.committer.check(sealed, start.run(1), 0.0)

            with pytest.raises(PreCommitError, match="row security may hide rows") as told:
                epoch()
            assert told.value.retriable, "a start looks again, and refuses it by its name"
            assert world.says() == dict.fromkeys(keys, "one")
    finally:
        empty.execute("drop owned by job", "drop role job")


IN_FRONT = ["create schema postgres", f"create table postgres.payments {TWO}"]


def test_a_table_that_comes_to_stand_in_front(empty):
    """Rows go where the first ones went, as long as a start runs; the next one is refused, by both names."""
    empty.execute(f"create table payments {TWO}")
    world = PostgresWorld(empty.url(), schema=None, create_table=False)
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        t.commit(start, checked(start, keys))
        prepared = checked(start, later := t.keys(), epoch=1)
        empty.execute(*IN_FRONT)
        t.commit(start, prepared)
        t.commit(start, checked(start, latest := t.keys(), epoch=2))
        told = empty.execute("select key from public.payments")
        assert sorted(key for (key,) in told) == sorted([*keys, *later, *latest])
        assert empty.execute("select * from postgres.payments") == []
        with pytest.raises(ConfigurationError, match=r"has written to public\.payments, .* finds postgres\.payments"):
            t.start(2)
        empty.execute("drop schema postgres cascade")
        again = t.start(2)
        t.commit(again, checked(again, t.keys(), epoch=3))
        assert empty.execute("select count(*) from public.payments") == [(16,)]
        again.committer.marks().forget()
        assert empty.execute("select mark from onceflow_marks where mark = 'public'") == [], "it goes with the job"


def test_what_is_decided_goes_to_the_table_that_it_was_decided_for(empty):
    """A start that only finishes it finds another table of the name in front."""
    empty.execute(f"create table payments {TWO}")
    world = PostgresWorld(empty.url(), schema=None, create_table=False)
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        prepared = decided(empty, start, keys)
        empty.execute(*IN_FRONT)
        connection = world.sink().attach()
        committer = connection.committer(PREFIX, t.job_id)
        assert set(committer.commit(prepared).values()) == {Reply.COMMITTED}
        committer.close()
        assert sorted(key for (key,) in empty.execute("select key from public.payments")) == sorted(keys)


class Named(PostgresWorld):
    """A table whose name, and whose second column's name, a test chooses."""

    def __init__(self, server, table, column, **more):
        super().__init__(server.url(), table=table, name="named", **more)
        self.server, self.column = server, column

    def output(self):
        return StructType([StructField("key", StringType()), StructField(self.column, LongType())])

    def rows(self, keys):
        columns = {"key": list(keys), self.column: [1] * len(keys), "onceflow_hash": [hash(key) for key in keys]}
        return pa.RecordBatch.from_pydict(columns)

    def visible(self):
        table = self.more["table"].replace('"', '""')
        return [key for (key,) in self.server.execute(f'select key from "{table}"')]


@pytest.mark.parametrize("name", ["sel%ect", "%s", "100%%", 'quo"te', "a :b", "ä" * 30, "ä" * 31])
def test_a_name_of_a_table_and_a_column(empty, name):
    """Percent signs are placeholders to a driver, and PostgreSQL counts a name's bytes."""
    with Trial(Named(empty, name, name, key="key")) as t:
        for incarnation in (1, 2):
            start, keys = t.start(incarnation), t.keys()
            t.commit(start, checked(start, keys, epoch=incarnation))
            t.all_visible_once(keys, "after the commit")
        start.committer.abort(start.prepare(t.keys(), epoch=3))
    staged = empty.execute("select relname from pg_class where relname like '%%onceflow_staged'")
    assert len(staged) == 1, "nothing is left behind"


@pytest.mark.parametrize("name", ["sel%ect", 'quo"te'])
def test_what_a_table_of_any_name_is_is_looked_at(empty, name):
    """A look that does not find the table sees nothing amiss; and a table of another shape is made anew."""
    quoted = '"' + name.replace('"', '""') + '"'
    world = Named(empty, name, "amount")
    with Trial(world) as t:
        start = t.start()
        prepared = start.prepare(t.keys())
        empty.execute(f"alter table {quoted} set unlogged")
        with pytest.raises(PreCommitError, match="UNLOGGED"):
            start.committer.check(prepared, start.run(), 0.0)
        start.committer.abort(prepared)
        with pytest.raises(ConfigurationError, match="UNLOGGED"):
            t.start(2)
        empty.execute(f"alter table {quoted} set logged", f"alter table {quoted} alter amount type numeric(22, 2)")
        later, keys = t.start(2), t.keys()
        t.commit(later, checked(later, keys, epoch=1))
        t.all_visible_once(keys, "after it was made anew")


class Columns(PostgresWorld):
    """A table of four columns, of which a sink writes the key and one more."""

    def __init__(self, server, column, **more):
        super().__init__(server.url(), **({"key": "key", "create_table": False} | more))
        self.column = column

    def output(self):
        return StructType([StructField("key", StringType()), StructField(self.column, LongType())])

    def rows(self, keys):
        columns = {"key": list(keys), self.column: [1] * len(keys), "onceflow_hash": [hash(key) for key in keys]}
        return pa.RecordBatch.from_pydict(columns)

    def sink(self):
        sink = super().sink()
        sink.name = self.column
        return sink


@pytest.mark.parametrize("one_job", [True, False])
def test_other_columns_of_one_table(empty, one_job):
    """Two sinks, of a job or of two, that write one table's other columns: neither is in the other's way, nor waits."""
    empty.execute("create table payments (key text primary key, one bigint, two bigint)")
    worlds = [Columns(empty, column) for column in ("one", "two")]
    with Trial(worlds[0]) as first, Trial(worlds[1]) as second:
        if one_job:
            second.job_id = first.job_id
        keys = first.keys()
        for incarnation in (1, 2):
            starts = [trial.start(incarnation) for trial in (first, second)]
            prepared = [start.prepare(keys, epoch=incarnation) for start in starts]
            for trial, start, each in zip((first, second), starts, prepared, strict=True):
                assert start.committer.check(each, start.run(incarnation), 0.0) is None
                trial.commit(start, each)
        starts[0].close()
        more = starts[1].prepare(keys, epoch=3)
        first.start(3)  # while the other one's rows wait
        assert starts[1].committer.check(more, starts[1].run(3), 0.0) is None
        second.commit(starts[1], more)
    assert empty.execute("select distinct one, two from payments") == [(1, 1)]


KEYED = "create table payments (key text primary key, amount bigint)"
BESIDE = {
    "both append": (KEYED, {}, {}, True),
    "one appends": (KEYED, {"key": "key"}, {}, True),
    "one names the schema": (KEYED, {}, {"table": "public.payments", "schema": None}, True),
    "of an expression": (f"create table payments {TWO}; create unique index on payments (lower(key))", {}, {}, True),
    "both replace": (KEYED, {"key": "key"}, {"key": "key"}, False),
    "a number of its own": (f"create table payments (id bigserial primary key, {TWO[1:]}", {}, {}, False),
    "nothing is unique": (f"create table payments {TWO}", {}, {}, False),
    "another table": (f"{KEYED}; create table others {TWO}", {}, {"table": "others"}, False),
}


@pytest.mark.parametrize("what", BESIDE)
def test_two_sinks_of_one_table_that_takes_no_row_twice(empty, what):
    """Neither's check sees the other's rows, so the later commit would be refused, of an epoch that is decided."""
    made, one, two, is_refused = BESIDE[what]
    empty.execute(*made.split("; "))
    sinks = [PostgresWorld(empty.url(), name=f"sink{i}", **more).sink() for i, more in enumerate((one, two))]
    connections = {sink.name: sink.connect() for sink in sinks}
    for connection in connections.values():
        connection.compare_output(FIELDS)
    refused = pytest.raises(ConfigurationError, match="sinks sink0 and sink1 write to one table")
    with refused if is_refused else nullcontext():
        require_beside(connections)
    for connection in connections.values():
        connection.close()
