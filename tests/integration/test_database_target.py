"""What the target of a database sink is, on a real PostgreSQL: altered or hidden while a job runs, or another one."""

from __future__ import annotations

import pytest

from onceflow.errors import ConfigurationError, PreCommitError
from onceflow.testing.trial import PREFIX, Trial
from onceflow.twophase.messages import Reply
from tests.integration.postgres import PostgresWorld, SayingPostgres, running
from tests.integration.test_database_faults import answer, checked, decided

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


@pytest.mark.parametrize("delivery", ["exactly-once", "idempotent-upsert"])
def test_row_security_that_is_switched_on_while_a_job_deletes(empty, delivery):
    """A delete would pass over the rows that it hides, and what is left of them cannot be counted either."""
    empty.execute(
        "create table payments (key text primary key, amount bigint)",
        "create role job login",
        "grant all on schema public to job",
        "grant all on payments to job",
    )
    more = {"key": "key", "delete_when": "gone", "delivery": delivery, "create_table": False}
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


def test_a_partitions_triggers_are_named(empty, caplog):
    """What one makes of a row's values is not looked at: a start says whose they are."""
    empty.execute(
        PARTITIONED,
        f"create table one {PARTITION} (0) to (5)",
        "create function change() returns trigger language plpgsql as 'begin new.amount = 0; return new; end'",
        "create trigger changing before insert on one for each row execute function change()",
    )
    with Trial(PostgresWorld(empty.url(), create_table=False)) as t:
        t.start()
    assert "payments has triggers: changing." in caplog.text
