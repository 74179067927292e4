"""``onceflow audit``: what it hands to the auditor, how it answers, and with which exit code."""

import json

import pytest
import typer

from onceflow.cli.audit import plain, read_range
from onceflow.connectors.database.sink import DatabaseSink
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.sink import KafkaSink
from tests.unit.audited_table import Filled
from tests.unit.test_audit_tables import change
from tests.unit.test_cli import call

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
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "2 epochs, 3 rows as they were decided; 0 missing, 0 changed, 0 foreign, 0 unknown",
        "good: what can be seen is what was decided",
    ]
    change(filled, "insert into payments values ('x', 1)")
    assert call(monkeypatch, "audit", filled.job, "--output", "json") == 1
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (report["good"], report["epochs"], report["foreign"]) == (False, 2, 1)
    assert call(monkeypatch, "audit", filled.job, "--shared") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "no difference; not all could be looked at"
    assert call(monkeypatch, "audit", filled.job, "--epochs", "1..1", "--output", "json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["rows"] == 1


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
    assert told["settings"]["sasl.password"] == "p"
    told = plain(DatabaseSink("postgresql://u:p@h/d", "bank.payments", key="id", schema="ours"))
    assert told == {
        "name": "bank.payments",
        "kind": "database",
        "url": "postgresql+psycopg://u:p@h/d",
        "schema": "ours",
        "table": "payments",
        "table_schema": "bank",
        "key": ["id"],
    }
    json.dumps(told)
