"""``onceflow audit``: what it hands to the auditor, how it answers, and with which exit code."""

import json
import shutil

import pytest
import typer

from onceflow.cli.audit import plain, read_range
from onceflow.connectors.database.sink import DatabaseSink
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.sink import KafkaSink
from tests.support.audited_table import Filled, change
from tests.support.typed import call

JOB = """
import onceflow as of
job = of.Job("bank", checkpointing=of.Checkpointing({checkpoint!r}))

@job.stream(sinks=[of.DatabaseSink({url!r}, "payments")])
def payments(spark): ...
"""


@pytest.fixture
def filled(tmp_path):
    made = Filled(tmp_path / "checkpoint", f"sqlite:///{tmp_path / 'bank.db'}", ["a", "bb"], ["ccc"])
    (tmp_path / "job.py").write_text(JOB.format(checkpoint=str(made.folder), url=made.url))
    made.job = str(tmp_path / "job.py")
    return made


def test_it_ends_with_0_where_all_is_as_decided_and_with_1_where_it_is_not(filled, monkeypatch, capsys):
    """For people in lines, for programs as one object; the last line says it."""
    assert call(monkeypatch, "audit", filled.job) == 0
    counted, newest, word = capsys.readouterr().out.splitlines()[-3:]
    assert counted == "2 epochs, 3 rows as they were decided; 0 missing, 0 changed, 0 foreign, 0 unknown"
    assert word == "good against accidents: what can be seen is what was decided"
    head = newest.removeprefix("the newest receipt is ").partition(";")[0]
    assert call(monkeypatch, "audit", filled.job, "--after", head) == 0
    assert call(monkeypatch, "audit", filled.job, "--after", f"3:{'0' * 64}") == 1
    assert "receipt 3 with hash" in capsys.readouterr().out
    assert call(monkeypatch, "audit", filled.job, "--after", "3") == 2
    capsys.readouterr()
    change(filled, "insert into payments values ('x', 1)")
    assert call(monkeypatch, "audit", filled.job, "--output", "json") == 1
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (report["good"], report["epochs"], report["foreign"]) == (False, 2, 1)
    assert call(monkeypatch, "audit", filled.job, "--shared") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "no difference; not all could be looked at"
    assert call(monkeypatch, "audit", filled.job, "--epochs", "1..1", "--output", "json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["rows"] == 1


def only_a_torn_line(folder):
    (trail,) = (folder / "onceflow" / "audit").iterdir()
    trail.write_text('{"format":1,"number":1')


def no_receipts(folder):
    shutil.rmtree(folder / "onceflow" / "audit")


def one_epoch_alone(folder):
    """As beside a job that has just decided its first epoch, and has not written its receipt."""
    no_receipts(folder)
    max((folder / "onceflow" / "journal").glob("0*.json")).unlink()


def nothing_decided(folder):
    no_receipts(folder)
    for record in sorted((folder / "onceflow" / "journal").glob("0*.json"))[1:]:
        record.unlink()


@pytest.mark.parametrize(
    ("harm", "options", "kind", "said"),
    [
        (shutil.rmtree, (), "nothing", "no job has run in"),
        (no_receipts, (), "receipt", "epochs 0 to 1 are decided in the journal, and not one receipt is in"),
        (only_a_torn_line, (), "receipt", "epochs 0 to 1 are decided in the journal, and not one receipt is in"),
        (one_epoch_alone, (), "nothing", "epoch 0 is decided and has no receipt yet"),
        (nothing_decided, (), "nothing", "has decided no epoch"),
        (lambda _: None, ("--epochs", "50..60"), "nothing", "the receipts in"),
        (lambda _: None, ("--recompute", "50..60"), "nothing", "are of epochs 0 to 1, and 50..60 was asked for"),
    ],
)
def test_an_audit_that_has_compared_nothing_is_not_good(filled, monkeypatch, capsys, harm, options, kind, said):
    """A checkpoint that is not there, receipts that are gone, epochs without one: 1, and why; also --shared."""
    harm(filled.folder)
    assert call(monkeypatch, "audit", filled.job, "--shared", *options) == 1
    told = capsys.readouterr().out.splitlines()
    assert [line for line in told if line.startswith(f"{kind}: ") and said in line], told
    assert told[-1] == "NOTHING was compared" or kind == "receipt"
    assert "good" not in told[-1]
    assert call(monkeypatch, "audit", filled.job, "--output", "json", *options) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["good"] is False


def test_an_audit_that_could_look_at_no_row_is_not_good(filled, monkeypatch, capsys, tmp_path):
    """All is unknown: the database is gone."""
    (tmp_path / "bank.db").unlink()
    assert call(monkeypatch, "audit", filled.job) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[-1] == "NOTHING was compared"
    assert "not one of the 3 rows of 2 epochs could be looked at" in told[-4]


def test_it_checks_signatures_where_it_has_the_key(filled, monkeypatch, capsys, tmp_path):
    """Receipts that nobody has signed are no proof to who has a key."""
    (tmp_path / "key").write_text("0123456789abcdef")
    monkeypatch.setenv("ONCEFLOW_AUDIT_KEY_FILE", str(tmp_path / "key"))
    assert call(monkeypatch, "audit", filled.job) == 1
    assert capsys.readouterr().out.startswith("receipt: receipt not signed: receipt 1 (epoch 0, ")


def test_recompute_names_its_epochs_itself(filled, monkeypatch):
    """Both options at once say nothing that could be meant."""
    assert call(monkeypatch, "audit", filled.job, "--recompute", "0..1", "--epochs", "0..1") == 2


def test_ranges_of_epochs():
    """Both ends, or one of them; anything else is wrong usage."""
    assert [read_range(text) for text in (None, "3..5", "3..", "..5")] == [(None, None), (3, 5), (3, None), (None, 5)]
    for text in ("3", "..", "a..b", "3..x", "-1..2"):
        with pytest.raises(typer.BadParameter):
            read_range(text)


def test_what_the_auditor_is_told_of_a_sink(tmp_path):
    """Plain values, with the login: it reads as the job does."""
    cluster = KafkaCluster(
        "k:9092", security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", username="u", password="p"
    )
    told = plain(KafkaSink(cluster, "alerts", name="out"))
    assert (told["name"], told["kind"], told["topic"]) == ("out", "kafka", "alerts")
    assert told["connect"] == cluster.connection
    assert "username" in told["cluster"]
    assert '"p"' not in told["cluster"]
    told = plain(DatabaseSink("postgresql://u:p@h/d", "bank.payments", key="id", schema="ours"))
    assert told == {
        "name": "bank.payments",
        "kind": "database",
        "destination": "bank.payments",
        "url": "postgresql+psycopg://u:p@h/d",
        "schema": "ours",
        "table": "payments",
        "table_schema": "bank",
        "key": ["id"],
    }
    json.dumps(told)
