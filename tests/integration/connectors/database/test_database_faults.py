"""A database sink when PostgreSQL fails, is altered or refuses: no row is lost or doubled, and it is told."""

from __future__ import annotations

import dataclasses
import threading

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.types import BooleanType, StructField, StructType
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from onceflow.connectors.database.merge import merge_whole
from onceflow.connectors.database.postgresql import HELD_S
from onceflow.connectors.database.refusals import translated
from onceflow.connectors.database.system import LOCK_TIMEOUT_S
from onceflow.connectors.database.urls import checked_url, engine_of
from onceflow.errors import (
    ConfigurationError,
    DatabaseRightsError,
    DatabaseUnavailableError,
    PreCommitError,
    RecoveryError,
    RowRefusedError,
)
from onceflow.testing.trial import Start, Trial
from onceflow.twophase.messages import Outcome, Reply
from tests.support.advice import parts_of
from tests.support.database_faults import answer, checked, decided
from tests.support.harness import wait_until
from tests.support.postgres import PostgresWorld, Proxy, running
from tests.support.sqlite_worlds import FIELDS


@pytest.fixture(scope="module")
def server():
    with running() as one:
        yield one


@pytest.fixture
def world(server):
    """No table is there yet."""
    server.execute("drop schema public cascade", "create schema public")
    return PostgresWorld(server.url())


@pytest.fixture
def trial(world):
    with Trial(world) as one:
        yield one


def committing(start, prepared, replies):
    """A thread that commits; its answer comes into the list."""
    thread = threading.Thread(target=lambda: replies.append(answer(start, prepared)))
    thread.start()
    return thread


@pytest.mark.parametrize(("when", "outcome"), [("before", Outcome.OPEN), ("after", Outcome.COMMITTED)])
def test_a_connection_that_is_lost_at_the_commit(server, world, when, outcome):
    """Nobody can tell from the lost answer; the ledger tells, and a commit again shows each row once."""
    proxy = Proxy(server.port)
    through = PostgresWorld(server.url(port=proxy.port), server.url())
    with Trial(through) as t:
        start, keys = t.start(), t.keys()
        prepared = checked(start, keys)
        proxy.lose(when)
        assert answer(start, prepared) is Reply.RETRY
        assert proxy.lost == 1
        t.outcomes_are(outcome, start, prepared, f"after an answer that was lost {when} the commit took effect")
        assert answer(start, prepared) is Reply.COMMITTED
        t.all_visible_once(keys, "after the commit again")
    proxy.close()


def test_a_deadlock_is_tried_again(server, trial):
    """The transaction that PostgreSQL ends as the deadlock's victim leaves nothing, and the next one commits."""
    start, keys = trial.start(), trial.keys()
    prepared = decided(server, start, keys)
    server.execute("alter system set deadlock_timeout = '10s'", "select pg_reload_conf()")
    with psycopg.connect(server.url()) as other:
        other.execute("lock table payments in exclusive mode")  # the merge waits for it, holding its attempt's row
        replies = []
        waiting = committing(start, prepared, replies)
        blocked = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        wait_until(lambda: server.execute(blocked) == [(1,)], what="the merge's wait")
        # The one that waits longest looks for deadlocks first; this one never does.
        other.execute("set deadlock_timeout = '1h'")
        server.execute("alter system reset deadlock_timeout", "select pg_reload_conf()")
        other.execute("update onceflow_attempts set state = state where id = %s", [prepared[0].handle])
        waiting.join()
        assert replies == [Reply.RETRY]
        other.rollback()
    assert answer(start, prepared) is Reply.COMMITTED
    trial.all_visible_once(keys, "after the commit again")


def test_a_lock_that_does_not_come_is_tried_again(server, trial, monkeypatch):
    """A commit waits for a lock for a while only; what is decided stays, and is committed when the lock is free."""
    monkeypatch.setattr("onceflow.connectors.database.postgresql.LOCK_TIMEOUT_S", 1)
    start, keys = trial.start(), trial.keys()
    prepared = decided(server, start, keys)
    with psycopg.connect(server.url()) as other:
        other.execute("lock table payments in access exclusive mode")
        assert answer(start, prepared) is Reply.RETRY
    assert answer(start, prepared) is Reply.COMMITTED
    trial.all_visible_once(keys, "after the lock was free")


def test_a_commit_that_a_limit_breaks_off_each_time_is_refused(server, trial):
    """It would be broken off for ever; with the limit, or what takes so long, removed, the decision is carried out."""
    start, keys = trial.start(), trial.keys()
    (name,) = server.execute("select current_database()")[0]
    server.execute(f"alter database {name} set statement_timeout = '300ms'")
    try:
        prepared = decided(server, start, keys)
        server.execute(
            "create function slow() returns trigger language plpgsql as 'begin perform pg_sleep(9); return new; end'",
            "create trigger slow before insert on payments for each row execute function slow()",
        )
        assert answer(start, prepared) is Reply.REFUSED
        parts_of(start.committer.refusal(prepared), RecoveryError, "QueryCanceled", "raise the limit")
        server.execute("drop function slow cascade")
        assert answer(start, prepared) is Reply.COMMITTED
    finally:
        server.execute(f"alter database {name} reset statement_timeout")
    trial.all_visible_once(keys, "when nothing takes so long any more")


def test_a_row_of_somebody_elses_before_a_commit_from_staging(server, trial):
    """It is refused and told without a value; when the other row is away, the decision is carried out."""
    start, keys = trial.start(), trial.keys()
    prepared = decided(server, start, keys)
    server.execute("alter table payments add constraint one_each unique (key)")
    server.execute("insert into payments values (%(key)s, 7)", key=keys[0])
    assert answer(start, prepared) is Reply.REFUSED
    told = start.committer.refusal(prepared)
    assert isinstance(told, RecoveryError)
    assert "epoch 0" in told.what
    assert "one_each" in told.what
    assert keys[0] not in str(told)
    trial.outcomes_are(Outcome.OPEN, start, prepared, "after a commit that was refused")
    server.execute("delete from payments where key = %(key)s", key=keys[0])
    assert answer(start, prepared) is Reply.COMMITTED
    trial.all_visible_once(keys, "after the other row was removed")


def test_what_is_checked_is_committed_as_it_was(server, trial):
    """Somebody's row, and somebody's change of the table, wait for the commit: nothing can refuse it any more."""
    start, keys = trial.start(), trial.keys()
    server.execute("alter table payments add constraint one_each unique (key)")
    prepared = checked(start, keys)
    with psycopg.connect(server.url(), autocommit=True) as other:
        other.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("insert into payments values (%s, 7)", [keys[0]])
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("alter table payments alter amount type numeric(22, 2)")
        trial.none_visible(keys, "after the check")
        assert answer(start, prepared) is Reply.COMMITTED
        with pytest.raises(psycopg.errors.UniqueViolation):
            other.execute("insert into payments values (%s, 7)", [keys[0]])
    trial.all_visible_once(keys, "after the commit")
    trial.outcomes_are(Outcome.COMMITTED, trial.start(2, attach=True), prepared, "after the commit")


def test_what_the_check_keeps_is_given_up_in_time(server, trial, monkeypatch):
    """A driver that is stopped after its check holds up the next one for less than that waits; each row is there once.

    With the answer of its own commit it learns what the other one has done.
    """
    monkeypatch.setattr("onceflow.connectors.database.postgresql.HELD_S", 1)
    stopped, later, keys = trial.start(), trial.start(2, attach=True), trial.keys()
    prepared = checked(stopped, keys)
    replies = []
    committing(later, prepared, replies).join()
    assert replies == [Reply.COMMITTED]
    assert answer(stopped, prepared) is Reply.RETRY
    assert answer(stopped, prepared) is Reply.COMMITTED
    trial.all_visible_once(keys, "after both commits")


def test_a_driver_that_is_stopped_in_the_middle_of_its_check(server, trial, monkeypatch):
    """The server ends its transaction as well, whatever it had done of it; the next start writes the epoch."""
    monkeypatch.setattr("onceflow.connectors.database.postgresql.HELD_S", 1)
    stopped, keys, merged, goes_on = trial.start(), trial.keys(), threading.Event(), threading.Event()
    prepared = stopped.prepare(keys)

    def merge_and_stop(*args):
        merge_whole(*args)
        merged.set()
        goes_on.wait(60)

    with monkeypatch.context() as patched:
        patched.setattr("onceflow.connectors.database.committer.merge_whole", merge_and_stop)
        failed = []

        def check():
            try:
                stopped.committer.check(prepared, stopped.run(), 0.0)
            except DatabaseUnavailableError as error:
                failed.append(error)

        checking = threading.Thread(target=check)
        checking.start()
        assert merged.wait(60)
    later = trial.start(2)
    later.committer.abort(later.committer.lingering(2, []))
    fresh = checked(later, keys)
    goes_on.set()
    checking.join()
    assert len(failed) == 1
    trial.commit(later, fresh)
    trial.all_visible_once(keys, "after the next start's commit")


def test_two_sinks_of_a_job_that_write_one_row_do_not_wait_for_each_other(server, monkeypatch):
    """The second one's check would wait for the first one's commit, which waits for the decision."""
    monkeypatch.setattr("onceflow.connectors.database.postgresql.LOCK_TIMEOUT_S", 1)
    server.execute("drop schema public cascade", "create schema public")
    server.execute("create table payments (key text primary key, amount bigint)")
    worlds = [PostgresWorld(server.url(), create_table=False, key="key", name=name) for name in ("one", "two")]
    with Trial(worlds[0]) as t:
        starts = [t.start(sink=world.sink()) for world in worlds]
        prepared = [start.prepare(["same"]) for start in starts]
        for start, of in zip(starts, prepared, strict=True):
            assert start.committer.check(of, start.run(), 0.0) is None
        for start, of in zip(reversed(starts), reversed(prepared), strict=True):
            assert answer(start, of) is Reply.COMMITTED
        assert server.execute("select key from payments") == [("same",)]


def test_what_was_hung_up_is_not_taken_for_committed(server, trial):
    """A kept transaction that is not there any more is written again."""
    start, keys = trial.start(), trial.keys()
    prepared = checked(start, keys)
    start.committer.abort_run(dataclasses.replace(start.run(), epoch=7))
    trial.none_visible(keys, "after what was kept is let go of")
    assert answer(start, prepared) is Reply.COMMITTED
    trial.all_visible_once(keys, "after the commit")


def test_the_check_keeps_a_transaction_for_less_than_others_wait():
    assert 0 < HELD_S < LOCK_TIMEOUT_S


@pytest.mark.parametrize("how", ["abort", "abort_run", "outcomes", "check", "close"])
def test_what_is_not_decided_is_let_go_of_at_once(server, trial, how):
    """No lock is left behind an abort, a look, the next check or the end of a start; and nothing of it is visible."""
    start, keys = trial.start(), trial.keys()
    prepared = checked(start, keys)
    kept = "select count(*) from pg_stat_activity where state = 'idle in transaction'"
    assert server.execute(kept) == [(1,)]
    asked = {"abort": [prepared], "abort_run": [start.run()], "outcomes": [prepared], "check": [[], start.run(), 0.0]}
    getattr(start.committer, how)(*asked.get(how, []))
    wait_until(lambda: server.execute(kept) == [(0,)], what="the end of what was kept")
    trial.none_visible(keys, f"after {how}")


def test_a_constraint_that_is_there_at_the_check(server, trial):
    """What the target does not take is told before the decision, by the constraint's name and without a value."""
    start, keys = trial.start(), trial.keys()
    server.execute("alter table payments add constraint few check (amount > 5) not valid")
    prepared = start.prepare(keys)
    with pytest.raises(RowRefusedError, match="few") as told:
        start.committer.check(prepared, start.run(), 0.0)
    assert not told.value.retriable
    assert not any(key in str(told.value) for key in keys)


def test_a_deferred_constraint_is_tried_at_the_check(server, trial):
    """One that PostgreSQL would look at only at the commit: it is told before the decision."""
    start, keys = trial.start(), trial.keys(1)
    server.execute("alter table payments add constraint later unique (key) deferrable initially deferred")
    server.execute("insert into payments values (%(key)s, 7)", key=keys[0])
    prepared = start.prepare(keys)
    with pytest.raises(RowRefusedError, match="later"):
        start.committer.check(prepared, start.run(), 0.0)


def test_a_target_that_drops_rows_is_told(server, trial, caplog):
    """A trigger that leaves rows out would lose them in silence: nothing is committed, and both counts are told.

    What one makes of values is not looked at, so the next start names it.
    """
    start, keys = trial.start(), trial.keys()
    server.execute(
        "create function skip() returns trigger language plpgsql as 'begin if random() < 2 then return null; end if; "
        "return new; end'",
        "create trigger skipping before insert on payments for each row execute function skip()",
    )
    prepared = start.prepare(keys)
    with pytest.raises(RowRefusedError, match="took 0 of 4 rows") as told:
        start.committer.check(prepared, start.run(), 0.0)
    assert not told.value.retriable, "each start would meet the trigger again"
    trial.start()
    assert "payments has triggers: skipping." in caplog.text


RAISES = "create function deny() returns trigger language plpgsql as 'begin raise exception ''no {}'' {}; end'"
DENYING = "create trigger denying before insert on payments for each row execute function deny()"


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ([RAISES.format("%", ", new.key"), DENYING], r"RaiseException \(P0001\): function deny"),
        ([RAISES.format("row", "using errcode = ''U0815''"), DENYING], r"U0815\): function deny"),
        (["create index long on payments (key)"], r"ProgramLimitExceeded \(54000\)"),
        (
            [
                "alter table payments rename to behind",
                "create view payments as select * from behind where amount > 5 with check option",
            ],
            "WithCheckOptionViolation",
        ),
    ],
    ids=["raise", "its own code", "an index", "a view's check option"],
)
def test_a_row_that_is_refused_by_other_than_a_constraint(server, trial, made, why):
    """It is the row, and no right that is missing: told by the function's or the index's name, and without a value."""
    start, keys = trial.start(), ["geheim" + "".join(map(str, range(100_000)))]
    server.execute(*made)
    prepared = start.prepare(keys)
    with pytest.raises(RowRefusedError, match=why) as told:
        start.committer.check(prepared, start.run(), 0.0)
    assert not told.value.retriable
    assert "geheim" not in str(told.value)


def test_a_foreign_key_to_the_table_of_another_sink(server, trial):
    """Each sink's commit is a transaction of its own, so no row of the same epoch is there: it is said."""
    start = trial.start()
    server.execute("create table orders (key text primary key)")
    server.execute("alter table payments add foreign key (key) references orders deferrable initially deferred")
    prepared = start.prepare(trial.keys())
    with pytest.raises(RowRefusedError, match="payments_key_fkey") as told:
        start.committer.check(prepared, start.run(), 0.0)
    assert "another sink" in told.value.cause
    assert "drop the foreign key" in told.value.action


def test_a_pooler_of_transactions_is_told(server):
    """It gives a transaction another connection, where what was prepared on the one before is not there."""
    engine = engine_of(checked_url(server.url()), lasting=True)
    with engine.connect() as connection:
        for _ in range(6):  # then the driver has prepared it
            connection.execute(text("select 1 + 1"))
        connection.exec_driver_sql("do $$ begin execute 'deallocate all'; end $$")
        with pytest.raises(DBAPIError) as raised:
            connection.execute(text("select 1 + 1"))
    engine.dispose()
    told = translated(raised.value, "sink payments: the database", "look at what is staged")
    assert isinstance(told, ConfigurationError)
    assert not told.retriable
    assert "pooler" in told.cause


def test_a_right_that_is_taken_away_from_a_task(server, world):
    """Somebody has to give it back: a job that is started again as it is would meet it again."""
    server.execute("drop role if exists clerk", "create role clerk login", "grant all on schema public to clerk")
    server.execute("create table payments (key text, amount bigint)", "grant insert on payments to clerk")
    with Trial(PostgresWorld(server.url("clerk"), server.url())) as t:
        start = t.start()
        server.execute("revoke insert on payments_onceflow_staged from clerk")
        with pytest.raises(DatabaseRightsError, match="InsufficientPrivilege") as told:
            start.prepare(t.keys())
        assert not told.value.retriable
        server.execute("drop table payments_onceflow_staged")
        with pytest.raises(PreCommitError, match="UndefinedTable") as gone:
            start.prepare(t.keys(), epoch=1)
        assert gone.value.retriable, "the next start makes it again"
    server.execute("drop owned by clerk", "drop role clerk")


@pytest.mark.parametrize(
    ("alter", "back", "said"),
    [
        (
            "alter table payments alter amount type smallint",
            "alter table payments alter amount type bigint",
            "column amount of the target is SMALLINT now, and what is staged has BIGINT",
        ),
        (
            "alter table payments rename to others",
            "alter table others rename to payments",
            "UndefinedTable",
        ),
        ("alter table payments drop amount", "alter table payments add amount bigint", "UndefinedColumn"),
        ("revoke all on payments from clerk", "grant insert on payments to clerk", "InsufficientPrivilege"),
    ],
)
def test_a_target_that_is_altered_before_a_commit_from_staging(server, world, alter, back, said):
    """Nothing is rounded and nothing lost: refused, told, and committed when it was put right."""
    server.execute("drop role if exists clerk", "create role clerk login", "grant all on schema public to clerk")
    server.execute("create table payments (key text, amount bigint)", "grant insert on payments to clerk")
    clerk = PostgresWorld(server.url("clerk"), server.url())
    with Trial(clerk) as t:
        start, keys = t.start(), t.keys()
        prepared = decided(server, start, keys)
        server.execute(alter)
        assert answer(start, prepared) is Reply.REFUSED
        assert said in start.committer.refusal(prepared).what
        server.execute(back)
        assert answer(start, prepared) is Reply.COMMITTED
        t.all_visible_once(keys, "after the target was put right")
    server.execute("drop owned by clerk", "drop role clerk")


def test_a_target_that_is_altered_before_the_check(server, trial):
    """Told before the decision; the next start looks at the target again."""
    start, keys = trial.start(), trial.keys()
    prepared = start.prepare(keys)
    server.execute("alter table payments alter amount type numeric(22, 2)")
    with pytest.raises(PreCommitError, match=r"column amount of the target is NUMERIC\(22, 2\) now") as told:
        start.committer.check(prepared, start.run(), 0.0)
    assert told.value.retriable, "the next start mends it"
    start.committer.abort(prepared)
    later = trial.start(2)
    trial.commit(later, checked(later, keys, epoch=1))
    trial.all_visible_once(keys, "after a start that has looked at the target again")


def test_a_staging_table_of_another_shape_stays_while_it_holds_rows(server, trial):
    """What is staged may be decided: a start that needs another shape is refused until it is merged or ended."""
    start, keys = trial.start(), trial.keys()
    prepared = decided(server, start, keys)
    server.execute("alter table payments alter amount type numeric(22, 2)")
    with pytest.raises(ConfigurationError, match=r"payments_onceflow_staged has another shape .* amount"):
        trial.start(2)
    server.execute("alter table payments alter amount type bigint")
    trial.commit(trial.start(2, attach=True), prepared)
    trial.all_visible_once(keys, "after the commit")


@pytest.mark.parametrize("table", ["payments", "payments_onceflow_staged", "onceflow_ledger", "onceflow_attempts"])
def test_a_table_that_a_crash_empties_is_refused(server, trial, table):
    """An UNLOGGED table is empty after a crash: a pre-commit or a commit in it is none."""
    trial.start()
    server.execute(f"alter table {table} set unlogged")
    with pytest.raises(ConfigurationError, match=f"table {table} does not hold .* UNLOGGED"):
        trial.start(2)


TWO = "(key text, amount bigint)"


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (
            [
                f"create table payments {TWO} partition by hash (key)",
                "create unlogged table one_part partition of payments for values with (modulus 1, remainder 0)",
            ],
            "a partition of it is",
        ),
        ([f"create table behind {TWO}", "create view payments as select * from behind"], "it is a view"),
        (["create schema postgres", f"create unlogged table public.payments {TWO}"], "UNLOGGED"),
    ],
    ids=["a partition", "a view", "another schema"],
)
def test_what_holds_a_targets_rows_is_looked_at(server, made, why):
    """A partition that a crash empties, what is behind a view, and a table that is not in the user's first schema."""
    server.execute("drop schema public cascade", "create schema public", *made)
    world = PostgresWorld(server.url(), schema=None, create_table=False)
    try:
        with Trial(world) as t, pytest.raises(ConfigurationError, match=f"table payments does not hold .*{why}"):
            t.start()
    finally:
        server.execute("drop schema if exists postgres cascade")


@pytest.mark.parametrize("schema", ["public", "postgres"])
def test_a_key_whose_index_takes_several_texts_for_one(server, schema):
    """A unique index may have a collation of its own, which is the one that counts; also where no schema is named."""
    server.execute(
        "drop schema public cascade",
        "create schema public",
        "create schema if not exists postgres",
        f"create table {schema}.payments (key text not null, amount bigint)",
        "create collation public.ci (locale = 'C')",
        # No collation of this build is really one: it has no ICU.
        "update pg_collation set collisdeterministic = false where collname = 'ci'",
        f"create unique index on {schema}.payments (key collate public.ci)",
    )
    try:
        world = PostgresWorld(server.url(), schema=None, create_table=False, key="key")
        with Trial(world) as t, pytest.raises(ConfigurationError, match="collation ci takes texts that differ for one"):
            t.start()
    finally:
        server.execute("drop schema if exists postgres cascade")


def test_a_ledger_that_was_dropped_is_not_made_again(server, trial):
    """An empty ledger would be taken for proof that nothing is committed: the start is refused."""
    start, keys = trial.start(), trial.keys()
    prepared = checked(start, keys)
    trial.commit(start, prepared)
    server.execute("drop table onceflow_ledger")
    with pytest.raises(RecoveryError, match="onceflow_ledger was dropped"):
        trial.start(2)
    assert answer(start, prepared) is Reply.REFUSED


def test_a_ledger_that_was_emptied_proves_nothing(server, trial):
    """Without the ledger's row and without its attempts nobody can tell: UNKNOWN, and nothing is written again."""
    start = trial.start()
    prepared = checked(start, trial.keys())
    trial.commit(start, prepared)
    server.execute("truncate onceflow_ledger")
    trial.outcomes_are(Outcome.UNKNOWN, start, prepared, "after the ledger was emptied")
    assert answer(start, prepared) is Reply.SUSPECT


def test_tables_that_were_all_made_again_are_another_system(server, trial):
    """A start compares the system's id with its checkpoint's; what was staged before is neither lost nor written."""
    start = trial.start()
    before, prepared = start.connection.system_id, decided(server, start, trial.keys())
    server.execute("drop table onceflow_ledger, onceflow_attempts, onceflow_marks, onceflow_identity")
    later = trial.start(2)
    assert later.connection.system_id != before
    trial.outcomes_are(Outcome.UNKNOWN, later, prepared, "in tables that were made again")
    assert answer(later, prepared) is Reply.SUSPECT


def test_the_look_at_the_types_is_of_now(server, world):
    """Whatever isolation is the user's default: an old picture would show the types of before the target's lock."""
    server.execute("drop role if exists strict", "create role strict login superuser")
    server.execute("alter role strict set default_transaction_isolation = 'repeatable read'")
    with Trial(PostgresWorld(server.url("strict"), server.url())) as t:
        start, keys, replies = t.start(), t.keys(), []
        prepared = decided(server, start, keys)
        with psycopg.connect(server.url()) as other:
            other.execute("alter table payments alter amount type smallint")  # the merge waits for it
            waiting = committing(start, prepared, replies)
            blocked = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
            wait_until(lambda: server.execute(blocked) == [(1,)], what="the merge's wait")
            other.commit()
            waiting.join()
        assert replies == [Reply.REFUSED]
        assert "SMALLINT now" in start.committer.refusal(prepared).what
        server.execute("alter table payments alter amount type bigint")
        t.commit(start, prepared)
        t.all_visible_once(keys, "after the target was put right")


def test_a_server_that_is_killed(server, trial, monkeypatch):
    """At each step: it is told as something that passes, and when the server is back everything is as it was."""
    monkeypatch.setattr("onceflow.connectors.database.writer.GATHERED_BYTES", 1)
    start, keys = trial.start(), trial.keys()
    writer = start.open()
    writer.write(trial.world.rows(keys))
    server.kill()
    with pytest.raises(PreCommitError):
        writer.write(trial.world.rows(keys))
    server.start()
    assert writer.prepare()["rows"] == len(keys), "what had no answer is not staged"
    start.committer.abort_run(start.run())
    trial.none_visible(keys, "after the kill while rows were staged")

    prepared = start.prepare(keys, epoch=1)
    server.kill()
    with pytest.raises(DatabaseUnavailableError) as told:
        start.committer.check(prepared, start.run(1), 0.0)
    assert told.value.retriable
    with pytest.raises(DatabaseUnavailableError):
        trial.start(2)
    server.start()
    assert start.committer.check(prepared, start.run(1), 0.0) is None

    server.kill()
    assert answer(start, prepared) is Reply.RETRY
    with pytest.raises(DatabaseUnavailableError):
        start.committer.outcomes(prepared)
    start.committer.abort_run(start.run(7))  # best effort: it raises nothing
    server.start()
    trial.outcomes_are(Outcome.OPEN, start, prepared, "after the server is back")
    trial.commit(start, prepared)

    server.kill()
    server.start()
    trial.outcomes_are(Outcome.COMMITTED, start, prepared, "after another kill")
    trial.all_visible_once(keys, "after another kill")


def test_two_drivers_at_once(trial):
    """Both commit what is decided, at the same time: one does, the other waits and sees it; each row is there once."""
    one, other, keys = trial.start(), trial.start(2, attach=True), trial.keys(40)
    prepared = checked(one, keys[:20], keys[20:])
    replies = []
    threads = [committing(each, prepared, replies) for each in (one, other) * 3]
    for each in threads:
        each.join()
    assert set(replies) <= {Reply.COMMITTED, Reply.RETRY}
    assert Reply.COMMITTED in replies
    trial.all_visible_once(keys, "after commits of two drivers")


def test_a_commit_and_an_abort_at_once(trial):
    """One of them wins, and the outcome says which; never a part of the rows."""
    for epoch in range(8):
        start, other, keys = trial.start(), trial.start(2, attach=True), trial.keys(10)
        # What a check keeps wins; what is only staged may be ended.
        prepared = (checked if epoch % 2 else Start.prepare)(start, keys[:5], keys[5:], epoch=epoch)
        replies = []
        aborting = threading.Thread(target=other.committer.abort, args=(prepared,))
        aborting.start()
        committing(start, prepared, replies).join()
        aborting.join()
        (evidence,) = start.committer.outcomes(prepared).values()
        if replies == [Reply.COMMITTED]:
            assert evidence.outcome is Outcome.COMMITTED
            trial.all_visible_once(keys, "after a commit that won")
        else:
            assert evidence.outcome is Outcome.ABORTED
            trial.none_visible(keys, "after an abort that won")


def test_the_purge_leaves_what_is_asked_for(server, trial, monkeypatch):
    """Old epochs leave the ledger, and old aborted attempts their table; the newest stay, and their evidence."""
    monkeypatch.setattr("onceflow.connectors.database.committer.LEDGER_EPOCHS", 500)
    start = trial.start()
    lost, first = start.prepare(trial.keys(), epoch=1), checked(start, trial.keys(), epoch=2)
    start.committer.abort(lost)
    trial.commit(start, first)
    recent, newest = start.prepare(trial.keys(), epoch=999), checked(start, trial.keys(), epoch=1_000)
    start.committer.abort(recent)
    trial.commit(start, newest)
    assert server.execute("select epoch from onceflow_ledger order by 1") == [(1_000,)]
    trial.outcomes_are(Outcome.COMMITTED, start, newest, "after the purge")
    trial.outcomes_are(Outcome.ABORTED, start, recent, "after the purge")
    trial.outcomes_are(Outcome.UNKNOWN, start, lost, "whose evidence was purged")
    trial.outcomes_are(Outcome.UNKNOWN, start, first, "whose evidence was purged")


def test_what_a_server_that_is_away_advises_works(server, world):
    """A start says where it knocked, and that it may be tried again; it is, when the server is there."""
    server.kill()
    with Trial(world) as t:
        with pytest.raises(DatabaseUnavailableError) as told:
            t.start()
        assert parts_of(told.value, DatabaseUnavailableError, f"127.0.0.1:{server.port}").retriable
        assert "start the job again" in told.value.action
        server.start()
        t.start()


def test_a_login_that_is_refused_is_not_tried_again(server):
    """A role that is not there: somebody has to see to it."""
    with pytest.raises(DatabaseRightsError) as told:
        PostgresWorld(server.url("stranger")).sink().connect()
    assert not told.value.retriable


def test_an_upsert_of_two_rows_of_one_key(server, world):
    """Nothing says which of them is newer: the epoch is refused by the key's columns, without their values."""
    server.execute("create table payments (key text primary key, amount bigint)")
    upserting = PostgresWorld(server.url(), key="key")
    with Trial(upserting) as t:
        start, (key, *_) = t.start(), t.keys()
        with pytest.raises(RowRefusedError, match=r"2 rows of one key \(key\)") as told:
            start.committer.check(start.prepare([key, key]), start.run(), 0.0)
        assert key not in str(told.value)
        t.commit(start, checked(start, [key], epoch=1))
        t.commit(start, checked(start, [key], epoch=2))
        t.all_visible_once([key], "after two epochs with the key")


def test_an_upsert_of_a_null_key(server, world):
    """A key that is null would never be found again: the target's column must not take it, and the row is refused."""
    server.execute("create table payments (key text unique, amount bigint)")
    upserting = PostgresWorld(server.url(), key="key")
    with Trial(upserting) as t:
        with pytest.raises(ConfigurationError, match="column key is part of the key and takes null"):
            t.start()
        server.execute("alter table payments alter key set not null")
        start = t.start()
        server.execute("alter table payments alter key drop not null")  # and while it runs
        writer = start.open()
        nothing = pa.RecordBatch.from_pydict(
            {"key": pa.array([None], pa.string()), "amount": [1], "onceflow_hash": [1]}
        )
        writer.write(nothing)
        with pytest.raises(RowRefusedError, match="column key takes no null, and 1 rows have one"):
            writer.prepare()


def test_a_table_that_hides_rows_is_not_deleted_from(server):
    """Row security passes over what it hides: a delete would delete nothing, in silence."""
    server.execute(
        "drop schema public cascade",
        "create schema public",
        "create table payments (key text primary key, amount bigint)",
        "alter table payments enable row level security",
        "create policy small on payments using (amount < 10)",
        "create role job login",
        "grant all on schema public to job",
        "grant all on payments to job",
    )
    fields = StructType([*FIELDS.fields, StructField("gone", BooleanType())])
    world = PostgresWorld(server.url("job"), server.url(), key="key", delete_when="gone", create_table=False)
    world.output = lambda: fields
    try:
        with Trial(world) as t, pytest.raises(ConfigurationError, match="row security may hide rows"):
            t.start()
    finally:
        server.execute("drop owned by job", "drop role job")
