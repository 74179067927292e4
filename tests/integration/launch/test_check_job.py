"""``onceflow check``: what a start would refuse is refused, and what would start leaves no trace."""

import sqlite3
import sys

import pytest

import onceflow as of
from onceflow.cli import main as entry
from onceflow.errors import ConfigurationError
from tests.support.harness import read_topic

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

JOB = """
import os
import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job("checked", checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="100 ms"))
sink = of.KafkaSink(kafka, os.environ["OUT"], value=of.Text(), create_topic=of.NewTopic(partitions=1))

@job.stream(sinks=[sink])
def copied(spark):
    frame = of.KafkaSource(kafka, os.environ["IN"], value=of.Text()).load(spark)
    return frame.select("value", "{column}") if "{column}" else frame
"""


def files(folder):
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_what_would_start_leaves_no_trace(spark, cluster, new_topic, produce, admin, tmp_path, monkeypatch, capsys):
    """No folder, no topic, no row. Beside a job that runs too, which goes on; then a plan that does not fit is refused.

    As is a column that is not there, with the line of the file and the columns that are, without Spark's plan.
    """
    source, sink, folder = new_topic(1), f"{new_topic(1)}-out", tmp_path / "deep" / "checkpoint"
    file = tmp_path / "job.py"
    told = {"KAFKA": cluster.bootstrap_servers, "IN": source, "OUT": sink, "CHECKPOINT": str(folder)}
    for name, value in told.items():
        monkeypatch.setenv(name, value)

    def check(column=""):
        file.write_text(JOB.format(column=column))
        monkeypatch.setattr(sys, "argv", ["onceflow", "check", str(file)])
        with pytest.raises(SystemExit) as end:
            entry.main()
        said = capsys.readouterr()
        return end.value.code or 0, said.out + said.err

    code, said = check()
    assert code == 0, said
    assert "job checked would start" in said
    assert not folder.parent.exists()
    assert sink not in admin.list_topics()

    code, said = check("valeu")
    assert code == 1
    told = said.partition("error: ")[2]  # a session that somebody else has made logs by itself
    what, harmless, cause, action, last = told.splitlines()
    assert what == f"{file}:12, in copied: there is no column `valeu`"
    assert harmless.startswith("  Harmless when: always")
    assert "`value`" in cause
    assert action.startswith("  What to do: correct that line")
    assert last.startswith("  ConfigurationError, exit code 1")

    code, said = check("value) + upper(")
    assert code == 1
    told = said.partition("error: ")[2]
    assert told.startswith(f"{file}:12, in copied: ")
    assert len(told.splitlines()) == 5, "neither Spark's plan nor Java's frames"

    produce(source, ["a"])
    frame = of.KafkaSource(cluster, source, value=of.Text()).load(spark)
    out = of.KafkaSink(cluster, sink, value=of.Text(), create_topic=of.NewTopic(partitions=1))
    query = of.start(frame, sinks=[out], name="checked", checkpointing=of.Checkpointing(folder, interval="100 ms"))
    try:
        query.processAllAvailable()  # what docs/existing-programs.md says waits for it
        assert [value for _, value in read_topic(cluster, sink)] == [b"a"]
        before = files(folder / "onceflow")
        assert check()[0] == 0
        monkeypatch.setenv("IN", new_topic(1))
        code, said = check()
        assert code == 1
        assert "the plan does not fit the checkpoint" in said
        assert files(folder / "onceflow") == before
        assert query.isActive
    finally:
        query.stop()


def test_a_table_that_does_not_fit_is_told_and_left_as_it_is(spark, cluster, new_topic, tmp_path):
    """The check compares columns as the start does: with a table that lacks one, with none, and with one that fits."""
    file = tmp_path / "shop.db"
    rows = of.KafkaSource(cluster, new_topic(1), value=of.Text())
    job = of.Job("checked-table", checkpointing=of.Checkpointing(tmp_path / "checkpoint"))
    sink = of.DatabaseSink(f"sqlite:///{file}", "words")
    job.stream(sinks=[sink], sources=[rows])(lambda session: rows.load(session).select("value"))

    def tables():
        with sqlite3.connect(file) as database:
            return database.execute("select name, sql from sqlite_master where name = 'words'").fetchall()

    with pytest.raises(ConfigurationError, match="table words of sink words does not exist"):
        job.check()
    assert tables() == []
    for columns, told in (("other text", "column value is not in the table"), ("value int", "does not fit into")):
        with sqlite3.connect(file) as database:
            database.execute(f"create table words ({columns})")
        before = tables()
        with pytest.raises(ConfigurationError, match=told):
            job.check()
        assert tables() == before
        with sqlite3.connect(file) as database:
            database.execute("drop table words")
    with sqlite3.connect(file) as database:
        database.execute("create table words (value text)")
    job.check()
