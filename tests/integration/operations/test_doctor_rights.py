"""``onceflow doctor`` and ``onceflow check`` name each right of a database's user that an epoch would miss, on servers.

No broker and, but for the checks, no Spark: the job's only named sink is a table.
"""

from __future__ import annotations

import json
import sys

import pymysql
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import onceflow as of
from onceflow.cli import main as entry
from onceflow.errors import DatabaseRightsError
from onceflow.testing.trial import Trial
from tests.support.granted import APPEND, DELETES, DELETING, KEYED, MADE, UPSERT, Granted
from tests.support.mariadb import HOST, MariaDbWorld, running_mariadb
from tests.support.postgres import running
from tests.support.sqlite_worlds import Saying

JOB = """
import json, os
import onceflow as of

job = of.Job("banked", checkpointing=of.Checkpointing(os.environ["CHECKPOINT"]), spark={"spark.driver.memory": "256m"})
sink = of.DatabaseSink(os.environ["URL"], **json.loads(os.environ["MORE"]))

@job.stream(sinks=[sink])
def copied(spark):
    raise AssertionError("it is not called")
"""
OUTPUT = StructType([StructField("key", StringType()), StructField("amount", LongType())])


@pytest.fixture
def doctor(tmp_path, monkeypatch, capsys):
    """``doctor(url, **arguments of the sink)``: the exit code and the errors of the command."""

    def call(url, **more):
        file = tmp_path / "job.py"
        file.write_text(JOB)
        more = json.dumps({"table": "bank.payments", "schema": "onceflow"} | more)
        for name, value in {"URL": url, "CHECKPOINT": str(tmp_path / "cp"), "MORE": more}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["onceflow", "doctor", str(file), "--output", "json"])
        with pytest.raises(SystemExit) as end:
            entry.main()
        found = json.loads(capsys.readouterr().out.splitlines()[-1])
        return end.value.code or 0, [each for each in found["findings"] if each["level"] == "error"]

    return call


def compared(sink, output=OUTPUT):
    """What ``onceflow check`` asks of a table, once the plan has said which columns there are."""
    connection = sink.connect()
    try:
        connection.compare_output(output)
        connection.committer("onceflow", "0" * 12).preflight()
    finally:
        connection.close()


def checked_by_spark(spark, folder, sink):
    """``onceflow check`` of a job that writes to this sink, which its function alone knows."""
    (folder / "in").mkdir(exist_ok=True)
    job = of.Job("checked", checkpointing=of.Checkpointing(folder / "checkpoint"))
    job.stream(lambda session: {sink: session.readStream.schema("key string, amount long").json(str(folder / "in"))})
    job.check()


# -- PostgreSQL -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server():
    with running() as one:
        yield one


@pytest.fixture
def begun(server):
    """``begun(**arguments)``: a database with all rights of the page, in which a job has started once; its world."""
    clean = ["drop schema if exists onceflow cascade", "drop schema if exists bank cascade"]
    server.execute(*clean, "drop role if exists job", *MADE, *APPEND, *UPSERT, *DELETES)

    def make(**more):
        world = Granted(server.url("job"), server.url(), table="bank.payments", schema="onceflow", **more)
        with Trial(world) as t:
            t.start()
        return world

    yield make
    server.execute("drop owned by job cascade")


STAGED = "onceflow.bank.payments_onceflow_staged"
LACKING = [
    ("insert on bank.payments", "INSERT on table bank.payments", {}),
    ("usage on schema bank", "USAGE on schema bank", {}),
    ("usage on schema onceflow", "USAGE on schema onceflow", {}),
    ("select on bank.payments", "SELECT on table bank.payments", KEYED),
    ("update on bank.payments", "UPDATE on table bank.payments", KEYED),
    ("delete on bank.payments", "DELETE on table bank.payments", DELETING),
    ("insert on onceflow.onceflow_ledger", "INSERT on table onceflow.onceflow_ledger", {}),
    ("insert on onceflow.onceflow_attempts", "INSERT on table onceflow.onceflow_attempts", {}),
    ("update on onceflow.onceflow_marks", "UPDATE on table onceflow.onceflow_marks", {}),
    ('insert on onceflow."bank.payments_onceflow_staged"', f"INSERT on table {STAGED}", {}),
    ('delete on onceflow."bank.payments_onceflow_staged"', f"DELETE on table {STAGED}", {}),
]


@pytest.mark.parametrize(("right", "said", "more"), LACKING, ids=[right for right, _, _ in LACKING])
def test_a_right_that_was_taken_away_is_named_with_the_line_that_gives_it(server, begun, doctor, right, said, more):
    """By doctor and by check, with the user; the line helps, and no row is left of what was tried."""
    world = begun(**more)
    server.execute(f"revoke {right} from job")
    code, errors = doctor(world.url, **more)
    assert code == 1
    told = next(each for each in errors if f"user job lacks {said}" in each["what"])
    assert "no GRANT gives it to job" in told["setting"]
    with pytest.raises(DatabaseRightsError, match=f"user job lacks {said}"):
        compared(world.sink())
    given = [line for line in told["command"].partition(". ")[0].split("; ") if line.startswith("GRANT ")]
    server.execute(*given)
    assert doctor(world.url, **more) == (0, [])
    compared(world.sink())
    for table in ("onceflow_ledger", "onceflow_attempts", "onceflow_marks", '"bank.payments_onceflow_staged"'):
        assert server.execute(f"select * from onceflow.{table}") == []
    assert world.visible() == []


def test_several_rights_that_are_missing_are_all_named(server, begun, doctor):
    """PostgreSQL names one table at a time; whoever asks wants to give all at once."""
    world = begun(**KEYED)
    server.execute("revoke all on bank.payments from job")
    _, errors = doctor(world.url, **KEYED)
    assert [each["command"].partition(". ")[0] for each in errors] == [
        "; ".join(f'GRANT {right} ON "bank"."payments" TO "job"' for right in ("INSERT", "SELECT", "UPDATE"))
    ]


def test_to_make_tables_that_are_there_no_right_is_needed(server, begun, doctor):
    """CREATE is asked for where something has yet to be made: there a start would be refused."""
    world = begun()
    server.execute("revoke create on schema onceflow from job")
    assert doctor(world.url) == (0, [])
    compared(world.sink())
    server.execute('drop table onceflow."bank.payments_onceflow_staged"')
    code, errors = doctor(world.url)
    assert (code, ["user job lacks CREATE on schema onceflow" in each["what"] for each in errors]) == (1, [True])
    with pytest.raises(DatabaseRightsError, match="user job lacks CREATE on schema onceflow"):
        compared(world.sink())


def test_what_is_staged_is_made_for_the_trial_alone(server, begun, doctor):
    """Of a job that has not started yet nothing is kept."""
    world = begun()
    staged = "select count(*) from pg_class where relname like '%onceflow_staged'"
    server.execute('drop table onceflow."bank.payments_onceflow_staged"')
    assert doctor(world.url) == (0, [])
    compared(world.sink())
    assert server.execute(staged) == [(0,)]
    server.execute("revoke insert on bank.payments from job")
    assert doctor(world.url)[0] == 1
    with pytest.raises(DatabaseRightsError, match=r"user job lacks INSERT on table bank\.payments"):
        compared(world.sink())


def test_a_right_on_the_columns_that_are_written_is_enough(server, begun, doctor):
    """Before the first start nobody knows which these are: doctor takes those that this user may write."""
    world = begun()
    server.execute(
        'drop table onceflow."bank.payments_onceflow_staged"',
        "alter table bank.payments add note text",
        "revoke insert on bank.payments from job",
        "grant insert (key, amount) on bank.payments to job",
    )
    assert doctor(world.url) == (0, [])
    compared(world.sink())
    server.execute("revoke insert (amount) on bank.payments from job")
    with pytest.raises(DatabaseRightsError, match=r"user job lacks INSERT on table bank\.payments") as told:
        compared(world.sink())
    assert 'GRANT INSERT ("amount") ON "bank"."payments" TO "job"' in told.value.action


def test_a_sequence_that_numbers_the_rows_is_a_right_as_well(server, begun, doctor):
    """A trial without a row takes no number; the first row would."""
    world = begun()
    server.execute("alter table bank.payments add number bigserial")
    code, errors = doctor(world.url)
    assert (code, len(errors)) == (1, 1)
    assert "user job lacks USAGE on sequence bank.payments_number_seq" in errors[0]["what"]
    with pytest.raises(DatabaseRightsError, match="USAGE on sequence") as told:
        compared(world.sink())
    server.execute(told.value.action.partition(". ")[0])
    assert doctor(world.url) == (0, [])
    with Trial(world) as t:
        start, keys = t.start(2), t.keys()
        t.commit(start, start.prepare(keys))
        t.all_visible_once(keys, "with the right")


@pytest.mark.parametrize("begun_before", [True, False])
def test_names_with_a_percent_sign_are_named_as_they_are(server, begun, doctor, begun_before):
    """A driver takes it for a placeholder: doubled it would be another table's name, or another column's."""
    begun()
    server.execute(
        'create table bank."a%b" ("k%s" text primary key, "100%%" bigint)',
        'grant insert ("k%s"), select, update on bank."a%b" to job',
    )
    more = {"table": "bank.a%b", "schema": "onceflow", "key": "k%s"}
    sink = of.DatabaseSink(server.url("job"), **more, name="percent")
    output = StructType([StructField("k%s", StringType()), StructField("100%%", LongType())])
    if begun_before:
        server.execute('grant insert on bank."a%b" to job')
        connection = sink.connect()
        connection.make_output(output)
        connection.close()
        server.execute('revoke insert on bank."a%b" from job', 'grant insert ("k%s") on bank."a%b" to job')
    with pytest.raises(DatabaseRightsError, match=r"user job lacks INSERT on table bank\.a%b") as told:
        compared(sink, output)
    line = told.value.action.partition(". ")[0]
    assert line == 'GRANT INSERT ("100%%") ON "bank"."a%b" TO "job"'
    server.execute(line)
    compared(sink, output)
    assert doctor(server.url("job"), **more, name="percent") == (0, [])


@pytest.mark.spark
@pytest.mark.parametrize(
    "right", ["insert on bank.payments", "usage on schema bank", "delete on onceflow.onceflow_ledger"]
)
def test_a_check_does_not_say_that_a_job_without_a_right_would_start(spark, server, begun, tmp_path, right):
    """Also of a sink that only the stream function names."""
    world = begun()
    checked_by_spark(spark, tmp_path, world.sink())
    server.execute(f"revoke {right} from job")
    with pytest.raises(DatabaseRightsError, match="user job lacks"):
        checked_by_spark(spark, tmp_path, world.sink())


# -- MariaDB ----------------------------------------------------------------------------------------------------------


class GrantedMariaDb(Saying, MariaDbWorld):
    """A table of another database than onceflow's own, as a user who has only what was granted."""

    def url(self):
        return f"{self.scheme}://job@{HOST}:{self.port}/onceflow"

    def sink(self):
        return of.DatabaseSink(self.url(), **self.more)


@pytest.fixture(scope="module")
def mariadb():
    with running_mariadb() as one:
        yield one


@pytest.fixture
def maria(mariadb):
    """``maria(**arguments)``: the world of a job that has started once; and ``execute(*statements)`` as the owner."""

    def execute(*statements):
        with pymysql.connect(host=HOST, port=mariadb.port, user="root", autocommit=True) as connection:
            cursor = connection.cursor()
            for each in statements:
                cursor.execute(each)
            return cursor.fetchall()

    text = f"varchar(100) character set utf8mb4 collate {mariadb.exact}"
    execute(
        "create database onceflow",
        f"create table bank.payments (`key` {text} primary key, amount bigint)",
        "create user job@'%'",
        "grant all on onceflow.* to job@'%'",
        "grant insert, select, update, delete on bank.payments to job@'%'",
    )

    def make(**more):
        more = {"table": "bank.payments", "schema": "onceflow", "create_table": False} | more
        world = GrantedMariaDb(mariadb.port, scheme=mariadb.scheme, **more)
        with Trial(world) as t:
            t.start()
        return world, execute

    yield make
    execute("drop database onceflow", "drop table bank.payments", "drop user job@'%'")


@pytest.mark.parametrize(
    ("rights", "more"),
    [
        ("insert", {}),
        ("insert, select, update", KEYED),
        ("insert, select, update, delete", DELETING),
    ],
    ids=["append", "upsert", "deletes"],
)
def test_the_rights_of_the_page_are_enough_on_mariadb(maria, doctor, rights, more):
    """Those on the table are PostgreSQL's; of onceflow's own database the user has all."""
    world, execute = maria(**more)
    execute("revoke all on bank.payments from job@'%'", f"grant {rights} on bank.payments to job@'%'")
    assert doctor(world.url(), **more) == (0, [])
    compared(world.sink())
    with Trial(world) as t:
        start, keys = t.start(2), t.keys()
        prepared = start.prepare(keys)
        assert start.committer.check(prepared, start.run(), 0.0) is None
        t.commit(start, prepared)
        t.all_visible_once(keys, "after the commit")


MARIA_LACKING = [
    ("INSERT", {}),
    ("INSERT", KEYED),
    ("SELECT", KEYED),
    ("UPDATE", KEYED),
    ("DELETE", DELETING),
]


@pytest.mark.parametrize("staged", [True, False], ids=["begun", "not begun"])
@pytest.mark.parametrize(("right", "more"), MARIA_LACKING, ids=str)
def test_a_right_that_mariadb_does_not_give_is_named(maria, doctor, right, more, staged):
    """As PostgreSQL's; also before there is a staging table, which MariaDB could not take back."""
    world, execute = maria(**more)
    if not staged:
        execute("drop table onceflow.`bank.payments_onceflow_staged`")
    tables = execute("show tables from onceflow")
    execute(f"revoke {right} on bank.payments from job@'%'")
    code, errors = doctor(world.url(), **more)
    said = f"user job@% lacks {right} on table bank.payments"
    assert (code, [said in each["what"] for each in errors]) == (1, [True]), errors
    assert errors[0]["command"].startswith(f"GRANT {right} ON `bank`.`payments` TO 'job'@'%'. ")
    with pytest.raises(DatabaseRightsError, match=said):
        compared(world.sink())
    execute(errors[0]["command"].partition(". ")[0])
    assert doctor(world.url(), **more) == (0, [])
    compared(world.sink())
    assert execute("show tables from onceflow") == tables
    assert [execute(f"select count(*) from onceflow.`{name}`") for (name,) in tables if "identity" not in name] == [
        ((0,),)
    ] * (len(tables) - 1)
    assert world.visible() == []


def test_a_user_without_any_right_on_a_table_of_mariadb_is_told_all_that_it_needs(maria, doctor):
    """It may not even look at the table."""
    world, execute = maria(**KEYED)
    execute("revoke all privileges on bank.payments from job@'%'")
    _, errors = doctor(world.url(), **KEYED)
    given = errors[0]["command"].partition(". ")[0].split("; ")
    assert given == [f"GRANT {right} ON `bank`.`payments` TO 'job'@'%'" for right in ("INSERT", "SELECT", "UPDATE")]
    execute(*given)
    assert doctor(world.url(), **KEYED) == (0, [])


def test_a_right_on_a_table_of_onceflows_own_is_named_on_mariadb(maria, doctor):
    """All of them may be given one by one, too."""
    world, execute = maria()
    execute(
        "revoke all on onceflow.* from job@'%'",
        *(f"grant all on onceflow.`{name}` to job@'%'" for (name,) in execute("show tables from onceflow")),
    )
    assert doctor(world.url()) == (0, [])
    execute("revoke delete on onceflow.onceflow_ledger from job@'%'")
    code, errors = doctor(world.url())
    assert (code, len(errors)) == (1, 1)
    assert "user job@% lacks DELETE on table onceflow.onceflow_ledger" in errors[0]["what"]
