"""Checkpoints and jobs in folders of every name that a file system takes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import functions as F  # noqa: N812

import onceflow as of
from onceflow.errors import ConfigurationError
from onceflow.operations.transactions.access import Operator
from tests.support.harness import JOBS, Pipeline, read_topic

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

NAMES = [
    "my check point %20#ü",
    "a b",  # beside its own quoted name
    "a%20b",
    "a+b?c&d=e;f",
    "hdfs:x, y",
    "[a]{b,c}*^",
    "$HOME ${x} ~ `'\"",
    "back\\slash\\n",
    "日本語 e\u0301 😀",
    " blanks ",
    "two\nlines\tand\rmore",
    "\u0085\u2028\u00a0\x01",
]


@pytest.mark.faults
def test_a_checkpoint_of_every_name(spark, cluster, new_topic, produce, tmp_path):
    """Spark and the journal use one folder, whatever it is called: state, a second start, and an operator's look."""
    source = new_topic(1)
    sinks = {name: of.KafkaSink(cluster, new_topic(1), key="key", name="s") for name in NAMES}
    for run in (1, 2):
        produce(source, ["x"] * 3, key="k")
        for name, sink in sinks.items():
            records = of.KafkaSource(cluster, source, value=of.Raw(), key=of.Text()).load(spark)
            query = of.start(
                records.groupBy("key").agg(F.count("*").alias("n")),
                sinks=[sink],
                name="test",
                checkpointing=of.Checkpointing(tmp_path / name),
                output_mode="update",
                until="caught-up",
            )
            assert query.awaitTermination(120)
            counts = [json.loads(value)["n"] for _, value in read_topic(cluster, sink.topic)]
            assert counts == [3 * n for n in range(1, run + 1)], name
    for name, sink in sinks.items():
        assert {"commits", "offsets", "onceflow", "state"} <= {path.name for path in (tmp_path / name).iterdir()}
        with Operator(of.Checkpointing(tmp_path / name), "onceflow", [sink]) as operator:
            assert operator.undone(operator.journal.history()[0]) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(NAMES)


def test_a_name_that_java_cannot_have_is_refused(spark, cluster, new_topic, tmp_path, monkeypatch):
    """A folder whose name is no text is refused by name, before anything is made in it."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    monkeypatch.chdir(folder)
    topic = new_topic(1)
    frame = of.KafkaSource(cluster, topic, value=of.Raw()).load(spark)
    sink = of.KafkaSink(cluster, topic, value=of.Raw())
    with pytest.raises(ConfigurationError, match=r"caf\\udce9/checkpoint.* is refused"):
        of.start(frame, sinks=[sink], name="test", checkpointing=of.Checkpointing("checkpoint"))
    assert list(folder.iterdir()) == []


@pytest.mark.faults
def test_a_job_whose_file_and_checkpoint_have_odd_names(cluster, new_topic, tmp_path):
    """A job of its own session, run by ``onceflow run``, out of and into folders of odd names."""
    folder = tmp_path / "my jobs %20#ü"
    folder.mkdir()
    file = Path(shutil.copy(JOBS / "copy_job.py", folder / "a job+%41?.py"))
    p = Pipeline(cluster, new_topic(2), new_topic(2), folder / NAMES[0])
    for _ in range(2):
        p.send(100)
        settings = {"KAFKA": cluster.bootstrap_servers, "IN": p.source, "OUT": p.sink, "PER_EPOCH": "60"}
        ended = subprocess.run(
            [sys.executable, "-m", "onceflow.cli.main", "run", str(file), "--until", "caught-up"],
            env=os.environ | settings | {"CHECKPOINT": str(p.checkpoint)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
    p.check()
