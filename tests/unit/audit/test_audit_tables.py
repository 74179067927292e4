"""The audit of a table in SQLite: its ledger epoch by epoch, its rows as a whole, and each tampering by its name."""

import contextlib
import itertools
import json
import os
import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine

from onceflow.audit import tables
from onceflow.twophase.messages import Appended
from onceflow.twophase.participants import Part, Participant
from onceflow.twophase.records import Decide, Resolve
from tests.support.audited_table import JOB, Filled, change, whats
from tests.support.chains import changes, seal
from tests.support.keyed_rows import KEY
from tests.support.sqlite_worlds import forged_journal

EPOCHS = (["a", "bb", "ccc"], ["dddd"], ["é", "", "g"])


@pytest.fixture
def filled(tmp_path):
    return Filled(tmp_path / "checkpoint", f"sqlite:///{tmp_path / 'bank.db'}", *EPOCHS)


def change_all(filled, *statements):
    with sqlite3.connect(filled.url.removeprefix("sqlite:///")) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_table_as_it_was_decided_is_good(filled):
    """Ledger and rows; also while the job goes on, and of some epochs alone."""
    report = filled.audit()
    assert report["findings"] == []
    assert (report["good"], report["epochs"], report["rows"]) == (True, 3, 7)
    filled.epoch(3, ["later"], receipted=False)
    assert filled.audit()["findings"] == []
    assert filled.audit(first=1, last=1)["rows"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")
@pytest.mark.parametrize("ending", ["-journal", "-wal"])
def test_a_journal_of_another_user_is_told_and_not_written_into_the_database(filled, ending):
    """Who may write to the folder alone lays it there; an audit that opened the database would put its rows there."""
    database = Path(filled.url.removeprefix("sqlite:///"))
    database.chmod(0o600)
    before = database.read_bytes()
    planted = database.with_name(database.name + ending)
    planted.write_bytes(forged_journal(database.with_name("his.db"), wal=ending == "-wal"))
    os.chown(planted, 65_534, 65_534)
    report = filled.audit()
    assert (report["good"], report["changed"], report["rows"]) == (False, 7, 0)
    assert f"{planted} is of another user" in whats(report, "changed")[0]
    assert (database.read_bytes(), planted.exists()) == (before, True)
    planted.unlink()
    assert filled.audit()["good"]


@pytest.mark.parametrize(
    ("statement", "kind", "said"),
    [
        ("update payments set amount = 7 where key = 'bb'", "changed", "not all are those that were decided"),
        ("update payments set key = null where key = 'g'", "changed", "not all are those that were decided"),
        ("update payments set amount = 2.999 where key = 'bb'", "changed", "a form that its column's type never gives"),
        ("update payments set amount = 'two' where key = 'bb'", "changed", "a form that its column's type never gives"),
        ("update onceflow_ledger set rows = -1 where epoch = 1", "changed", "an entry of less than no rows"),
        (
            "insert into onceflow_ledger values ('aaaaaaaaaaaa', 'payments', -1, 1, 'handle', 5, 5)",
            "foreign",
            "the ledger has epoch -1 with 5 rows, and no receipt has it",
        ),
        ("delete from payments where key = 'dddd'", "missing", "1 of the 7 rows that its ledger counts are not there"),
        ("insert into payments values ('x', 1)", "foreign", "1 rows more than its ledger counts"),
        ("update onceflow_ledger set rows = 2 where epoch = 1", "changed", "epoch 1: the ledger's entry is not what"),
        ("delete from onceflow_ledger where epoch = 2", "missing", "epoch 2: the ledger does not have it, 3 rows"),
        (
            "insert into onceflow_ledger values ('aaaaaaaaaaaa', 'payments', 9, 1, 'handle', 5, 5)",
            "foreign",
            "the ledger has epoch 9 with 5 rows, and no receipt has it",
        ),
    ],
)
def test_what_somebody_did_to_it_is_found_and_named(filled, statement, kind, said):
    """By hand, in the database: a row edited, deleted, added; an entry of the ledger changed, removed, made up."""
    change(filled, statement)
    report = filled.audit()
    assert not report["good"]
    assert [t for t in whats(report, kind) if said in t]


def test_an_entry_of_the_ledger_for_an_epoch_of_other_sinks_is_found(filled):
    """Its receipt has rows of another sink alone: a row here, and its entry in the ledger, are nobody's."""
    other = Participant("elsewhere", "h", (Part("elsewhere", 0, 1, 1),), {})
    decide = Decide(1, 3, 'v1\n{}\n{"in":{"0":3}}', ("elsewhere", "payments"), (other,))
    assert filled.journal.append(decide) == Appended()
    filled.journal.keep_receipts()
    assert filled.audit()["good"]
    change(filled, "insert into payments values ('thief', 5)")
    change(filled, f"insert into onceflow_ledger values ('{JOB}', 'payments', 3, 1, 'made up', 1, 5)")
    report = filled.audit()
    assert (report["good"], report["foreign"]) == (False, 1)
    assert "the ledger has epoch 3 with 1 rows, and no receipt has it" in whats(report, "foreign")[0]


def test_an_epoch_that_the_ledger_has_twice_is_found(filled):
    """Made again without its key it takes one, and the table may then have those rows twice."""
    change_all(filled, "create table held as select * from onceflow_ledger", "drop table onceflow_ledger")
    change_all(filled, "create table onceflow_ledger as select * from held")
    change(filled, "insert into onceflow_ledger select * from held where epoch = 1")
    change(filled, "insert into payments select * from payments where key = 'dddd'")
    report = filled.audit()
    assert not report["good"]
    assert "its ledger has an epoch twice" in whats(report, "changed")[0]


STRANGE = ["null", "'x'", "x'ff'", "cast(x'ff41' as text)", "1e999", "9223372036854775807", "-1", "2.5", "''"]


@pytest.mark.parametrize(
    ("table", "columns", "where"),
    [
        ("payments", ("key", "amount"), "key = 'dddd'"),
        ("onceflow_ledger", ("job", "sink", "epoch", "handle", "rows", "hash"), "epoch = 1"),
    ],
)
def test_whatever_stands_in_a_cell_the_audit_has_a_verdict(filled, tmp_path, table, columns, where):
    """Also what the driver takes for no text: SQLite keeps anything anywhere, once a table was made again."""
    again = "again"
    change_all(filled, f"create table {again} as select * from {table}", f"drop table {table}")
    change_all(filled, f"alter table {again} rename to {table}")
    assert filled.audit()["good"]
    whole = (tmp_path / "bank.db").read_bytes()
    for column, value in itertools.product(columns, STRANGE):
        change(filled, f"update {table} set {column} = {value} where {where}")
        assert not filled.audit()["good"], (column, value)
        (tmp_path / "bank.db").write_bytes(whole)


KINDS = ["string", "binary", "boolean", "int", "bigint", "float", "double", "date", "timestamp", "timestamp_ntz"]


@pytest.mark.parametrize("kind", [*KINDS, "decimal(9,2)", "decimal(38,2)"])
def test_what_no_value_of_a_type_is_has_another_form(kind):
    """Whatever the column's type is; and nothing else is raised of it."""
    with create_engine("sqlite://").connect() as connection:
        connection.connection.dbapi_connection.text_factory = lambda data: data.decode(errors="surrogateescape")
        for value in STRANGE:
            connection.exec_driver_sql("drop table if exists t")
            connection.exec_driver_sql(f"create table t as select {value} as c")
            sink = {"table": "t", "table_schema": None}
            with contextlib.suppress(tables._OtherFormError):
                assert tables._sum(connection, sink, [["c", kind]], tables._Keyed(b"k", 1, 0))[2] == 1


def test_an_upserted_table_is_compared_by_its_ledger(tmp_path):
    """It shows the newest row of each key: rows are not compared, and the report says so."""
    filled = Filled(tmp_path / "checkpoint", f"sqlite:///{tmp_path / 'bank.db'}", ["a"], ["a", "b"], key="key")
    report = filled.audit()
    assert (report["good"], report["rows"]) == (True, 3)
    assert "its ledger alone is compared" in whats(report, "note")[0]
    change(filled, "update onceflow_ledger set hash = 1 where epoch = 0")
    assert filled.audit()["changed"] == 1


def test_a_database_that_is_not_there_is_unknown_and_not_made(filled, tmp_path):
    """No file appears where an audit has looked."""
    (tmp_path / "bank.db").unlink()
    report = filled.audit()
    assert (report["rows"], report["unknown"]) == (0, 7)
    assert not (tmp_path / "bank.db").exists()


def test_a_choice_about_lost_input_excuses_no_row_that_was_decided(filled):
    """It names no participant: what the source had lost was never decided, and what was decided must be there."""
    lost = Resolve(1, 3, "give-up-rows", (), "ann@desk", "the topic has lost them")
    assert filled.journal.append(lost) == Appended()
    filled.epoch(3, ["kept"])
    assert filled.audit()["findings"] == []
    change(filled, "delete from onceflow_ledger where epoch = 3")
    change(filled, "delete from payments where key = 'kept'")
    report = filled.audit()
    assert (report["good"], report["missing"]) == (False, 1)


def test_rows_that_an_operator_gave_up_are_told_with_the_choice(filled):
    """They are not there, and somebody has accepted that: who and why is said, and it is no difference."""
    filled.epoch(3, ["lost", "too"], chosen="count-as-written")
    report = filled.audit()
    assert (report["good"], report["missing"], report["rows"]) == (True, 0, 7)
    (told,) = whats(report, "note")
    assert told.endswith(
        "epoch 3: the ledger does not have it (ann@desk has chosen count-as-written: the disk is gone)"
    )


def test_a_sink_that_was_renamed_has_its_older_rows_still(filled, tmp_path):
    """They are not somebody else's: the ledger has them by the older name, and they are compared by it."""
    signed = Filled(tmp_path / "signed", f"sqlite:///{tmp_path / 'other.db'}", *EPOCHS, audit_key=KEY)
    report = signed.audit(name="called otherwise", key=KEY)
    assert (report["findings"], report["rows"], report["keyed"]) == ([], 7, 7)
    for harm, kind in (
        ("insert into payments values ('x', 1)", "foreign"),
        ("delete from payments where key = 'x'", None),
        ("update payments set amount = 9 where key = 'bb'", "changed"),
        ("delete from onceflow_ledger where epoch = 1", "missing"),
    ):
        change(signed, harm)
        report = signed.audit(name="called otherwise", key=KEY)
        assert report["good"] == (kind is None)
        assert kind is None or report[kind]


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
def test_whatever_stands_in_a_receipt_an_audit_of_its_rows_has_a_verdict(filled, data):
    """Hashed anew, as anybody can: its sinks, its columns and what it says of its parts are read for the table, too."""
    (path,) = (filled.folder / "onceflow" / "audit").iterdir()
    before = path.read_bytes()
    lines = before.decode().splitlines()
    changed = data.draw(changes(json.loads(lines[-1])))
    try:
        path.write_text("".join(f"{each}\n" for each in [*lines[:-1], json.dumps(seal(changed))]))
        assert filled.audit(key=KEY)["against"] == "accidents"
    finally:
        path.write_bytes(before)


def test_a_receipt_that_tells_nothing_of_a_sink_of_its_rows_is_none(filled):
    (path,) = (filled.folder / "onceflow" / "audit").iterdir()
    lines = path.read_text().splitlines()
    path.write_text(
        "".join(f"{each}\n" for each in [*lines[:-1], json.dumps(seal(json.loads(lines[-1]) | {"sinks": {}}))])
    )
    for key in (None, KEY):
        assert "is torn" in whats(filled.audit(key=key), "note")[0]  # the newest; its rows are the journal's then
