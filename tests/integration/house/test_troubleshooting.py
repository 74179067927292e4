"""The page of troubleshooting: each of its commands, as it stands there, beside a job that has run."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import functions as F  # noqa: N812

import onceflow as of
from onceflow.cli import main as entry

ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
COMMANDS = list(dict.fromkeys(re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)))

JOB = """
import os
import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job("counted", checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="10 s"),
             spark={"spark.driver.memory": "256m"})
sinks = [of.KafkaSink(kafka, os.environ["OUT"], key="key"),
         of.KafkaSink(kafka, os.environ["OUT"], name="weak", guarantee="at-least-once")]
source = of.KafkaSource(kafka, os.environ["IN"], value=of.Text(), key=of.Text(), group=os.environ["GROUP"])

@job.stream(sinks=sinks, sources=[source])
def counted(spark):
    raise AssertionError("it is not called")
"""


def transaction(cluster, topic, name):
    """A transaction of somebody else's with a record, which is open."""
    producer = Producer(cluster.for_librdkafka() | {"transactional.id": name, "log_level": 0})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"aborted", b"k")
    producer.flush()
    return producer


@pytest.fixture
def ran(spark, cluster, new_topic, produce, tmp_path, monkeypatch):
    """What the page's commands name: a stateful job that has run one epoch, a doubled record of its source."""
    source, sink, checkpoint = new_topic(2), new_topic(2), tmp_path / "checkpoint"
    produce(source, ["a", "b"], key="k")
    produce(source, ["a"], key="k")
    told = {"KAFKA": cluster.bootstrap_servers, "IN": source, "OUT": sink, "CHECKPOINT": str(checkpoint)}
    for name, value in (told | {"GROUP": f"{sink}-group"}).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "job.py").write_text(JOB)
    script = re.search(r"```python\n(# counts\.py\n.*?)```", PAGE, re.DOTALL)
    assert script is not None
    (tmp_path / "counts.py").write_text(script[1])
    monkeypatch.chdir(tmp_path)
    records = of.KafkaSource(cluster, source, value=of.Text(), key=of.Text(), group=f"{sink}-group").load(spark)
    counts = records.groupBy("key").agg(F.count("*").alias("n"))
    query = of.start(
        counts,
        sinks=[of.KafkaSink(cluster, sink, key="key")],
        name="counted",
        checkpointing=of.Checkpointing(checkpoint),
        output_mode="update",
        until="caught-up",
    )
    query.awaitTermination()
    return sink


@pytest.fixture
def run(monkeypatch, capsys):
    """``run(command)`` gives its exit code and what it says: ours in this process, others by a shell."""

    def call(command):
        if command.startswith("onceflow "):
            monkeypatch.setattr(sys, "argv", shlex.split(command))
            with pytest.raises(SystemExit) as end:
                entry.main()
            return end.value.code or 0, capsys.readouterr().out
        words = re.sub(r"^python ", f"{shlex.quote(sys.executable)} ", command)
        done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, check=False, env=os.environ)
        return done.returncode, done.stdout + done.stderr

    return call


def test_each_command_of_the_page_works_and_shows_what_it_says(ran, cluster, run):
    """All of them, and for each cause that can be made here: what is told is there."""
    transaction(cluster, ran, "somebody").abort_transaction()
    said = {}
    for command in COMMANDS:
        code, said[command] = run(command)
        assert code == 0, f"{command}\n{said[command]}"

    counted = said["python counts.py $KAFKA $OUT"].splitlines()
    assert counted[0] == "read_committed: 1 records, 0 of them with a key and a value that are there already"
    assert counted[1].startswith("read_uncommitted: 2 records")
    assert "3 records, 1 of them with a key and a value" in said["python counts.py $KAFKA $IN"].splitlines()[0]
    history = json.loads(said["onceflow checkpoints job.py --output json"])["history"]
    assert [sum(epoch["rows_out"].values()) for epoch in history if epoch["status"] == "COMPLETED"] == [1]
    assert "COMPLETED" in said["onceflow checkpoints job.py --last 50"]
    assert "sink weak: it is at-least-once" in said["onceflow txn list job.py"]
    assert "a decided transaction of sink" in said['onceflow doctor job.py --downtime "1 h"']
    assert os.environ["IN"] in said[next(command for command in COMMANDS if "list_group_offsets" in command)]
    assert ".changelog" in said['find $CHECKPOINT/state -name "*.changelog" -size +0']

    holder = transaction(cluster, ran, "in-the-way")
    assert "in-the-way" in run("onceflow txn list job.py")[1]
    code, found = run("onceflow doctor job.py")
    assert (code, "keep readers of the job's topics waiting: in-the-way" in found) == (0, True)
    holder.abort_transaction()
