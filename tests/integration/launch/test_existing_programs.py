"""docs/existing-programs.md is true: its programs and commands are run as they stand there."""

import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import onceflow as of
from onceflow.errors import ConfigurationError
from tests.support.harness import read_topic

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

PAGE = (Path(__file__).parents[3] / "docs" / "existing-programs.md").read_text()
PROGRAMS = {found[1]: found[0] for found in re.findall(r"```python\n(# (\S+\.py)\n.*?)```", PAGE, re.DOTALL)}
COMMANDS = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)


def command(name) -> str:
    (found,) = (line for line in COMMANDS if line.endswith(name))
    return found


@pytest.fixture
def run(cluster, tmp_path):
    """``run("before.py")`` does what the page says, in a home of its own; ``edit`` changes the program before."""

    def do(name, edit=lambda text: text):
        (tmp_path / name).write_text(edit(PROGRAMS[name]))
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        told = {
            "KAFKA": cluster.bootstrap_servers,
            "HOME": str(tmp_path),
            "PATH": path,
            "PYSPARK_PYTHON": sys.executable,
        }
        jars = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))}
        return subprocess.run(
            ["bash", "-c", command(name)],
            cwd=tmp_path,
            env=os.environ | jars | told,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # spark-submit gives what the program says on both to its own output
            text=True,
            check=False,
            timeout=180,
        )

    return do


def without_takeover(text):
    edited = re.sub(r"^ +takeover=.*\n", "", text, flags=re.MULTILINE)
    assert edited != text
    return edited


@pytest.mark.faults
def test_the_page_from_its_top_to_its_end(run, cluster, new_topic, produce):
    """The old program, the new one on its checkpoint, refused with the word left in, and again without it.

    Everything is in the topic once, with the keys that it had.
    """
    assert set(PROGRAMS) == {"before.py", "after.py"}
    assert len(COMMANDS) == 2
    new_topic(2, "orders")
    new_topic(2, "shipments")

    def order(number):
        produce("orders", [f"order {number}"], partition=number % 2, key=f"k{number}")
        return f"k{number}".encode(), f"ORDER {number}".encode()

    written = Counter([order(0), order(1)])
    old = run("before.py")
    assert old.returncode == 0, old.stdout
    assert Counter(read_topic(cluster, "shipments")) == written

    written[order(2)] += 1
    without = run("after.py", without_takeover)
    assert without.returncode == 1
    assert 'takeover="as-new"' in without.stdout
    first = run("after.py")
    assert first.returncode == 0, first.stdout
    assert Counter(read_topic(cluster, "shipments")) == written
    assert "epoch 1: " in first.stdout

    written[order(3)] += 1
    again = run("after.py")
    assert again.returncode == 1
    assert "it has made this job" in again.stdout
    second = run("after.py", without_takeover)
    assert second.returncode == 0, second.stdout
    assert Counter(read_topic(cluster, "shipments")) == written


@pytest.mark.parametrize("cut_off", [False, True])
def test_what_becomes_of_sparks_last_batch(spark, cluster, new_topic, produce, tmp_path, cut_off):
    """Finished, nothing of it is written twice; cut off behind its writing, its rows are there twice, and no others."""
    source, sink = new_topic(1), new_topic(1)
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    records = records.option("subscribe", source).option("startingOffsets", "earliest")
    frame = records.option("kafka.isolation.level", "read_committed").load().selectExpr("value")

    for batch in range(2):
        produce(source, [f"{batch}a", f"{batch}b"])
        old = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        old = old.option("topic", sink).option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert old.awaitTermination(60)
    if cut_off:
        for name in ("1", ".1.crc"):
            (tmp_path / "commits" / name).unlink()
    produce(source, ["2a"])

    def start(**more):
        query = of.start(
            frame,
            sinks=[of.KafkaSink(cluster, sink, value=of.Raw())],
            name="adopted",
            checkpointing=of.Checkpointing(tmp_path),
            until="caught-up",
            **more,
        )
        assert query.awaitTermination(60)

    start(takeover="as-new")
    start()
    twice = 2 if cut_off else 1
    expected = Counter({b"0a": 1, b"0b": 1, b"1a": twice, b"1b": twice, b"2a": 1})
    assert Counter(value for _, value in read_topic(cluster, sink)) == expected


def test_a_job_in_another_thread_leaves_the_session_to_who_made_it(spark, cluster, new_topic, produce, tmp_path):
    """Java's active session belongs to a thread: in another one the job finds the program's session, and leaves it."""
    source, out = new_topic(1), new_topic(1)
    produce(source, ["a"])
    job = of.Job("threaded", checkpointing=of.Checkpointing(tmp_path / "checkpoint", interval="100 ms"))

    @job.stream(sinks=[of.KafkaSink(cluster, out, value=of.Text())])
    def copied(session):
        assert session is spark
        return of.KafkaSource(cluster, source, value=of.Text()).load(session)

    def run():
        with pytest.raises(ConfigurationError, match='data type "IT"'):  # Spark is there, so it is asked
            of.KafkaSource(cluster, source, value=of.Json("a it"))
        job.run(until="caught-up")

    with ThreadPoolExecutor(1) as thread:
        thread.submit(run).result()
    assert [value for _, value in read_topic(cluster, out)] == [b"a"]
    assert spark.range(3).count() == 3
