"""Lines and jobs that the README and the page of examples show are no pictures: they are taken from there, and run."""

import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from onceflow.local.jars import cache_folder
from tests.support.harness import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "README.md"
LOGGED = re.compile(r"\d{4}-\d\d-\d\d [\d:,]+ (INFO|WARNING) +(.*)")


def exchanged(code, *pairs):
    """The code with names of this test's in the place of the page's, of which each is there once."""
    for there, here in pairs:
        assert code.count(there) == 1, there
        code = code.replace(there, here)
    return code


def read(cluster, topic, partitions):
    """The values of the committed records of a topic."""
    consumer = Consumer(cluster.for_librdkafka() | {"group.id": "readme", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    ends, found = 0, []
    while ends < partitions:
        record = consumer.poll(30)
        assert record is not None
        if record.error():
            ends += 1
        else:
            found.append(record.value().decode())
    consumer.close()
    return sorted(found)


def test_the_job_in_the_readme_writes_what_it_says(cluster, new_topic, produce, tmp_path):
    """Of payments in Kafka those above 1,000 are in the other topic, once; a second run adds nothing."""
    source, sink = new_topic(1), f"{new_topic(1)}-big"
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    code = exchanged(
        code,
        ('"localhost:9092"', repr(cluster.bootstrap_servers)),
        ('"/data/checkpoints/big-payments"', repr(str(tmp_path / "checkpoint"))),
        ('"payments"', repr(source)),
        ('"big"', repr(sink)),
    )
    (tmp_path / "job.py").write_text(code)
    produce(
        source, [f'{{"user_id":"u-{n % 3}","amount":{amount}}}' for n, amount in enumerate((5, 1500.25, 1000, 2000))]
    )
    for _ in range(2):
        command = [sys.executable, "-m", "onceflow", "run", "--until", "caught-up", str(tmp_path / "job.py")]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
        assert ran.returncode == 0, ran.stderr
    assert read(cluster, sink, 4) == ['{"user_id":"u-0","amount":2000.00}', '{"user_id":"u-1","amount":1500.25}']


def test_the_join_with_a_file_names_customers_and_warns_of_nothing(
    spark, cluster, new_topic, produce, tmp_path, caplog
):
    """The block of docs/examples.md: orders of customers that the CSV has, with their names; nothing is warned of."""
    source, sink = new_topic(1), f"{new_topic(1)}-named"
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "examples.md").read_text(), re.DOTALL)
    file = tmp_path / "customers.csv"
    file.write_text("customer,name\nc-1,Ann\nc-2,Bob\n")
    code = exchanged(
        code,
        ('"localhost:9092"', repr(cluster.bootstrap_servers)),
        ('"/data/checkpoints/named-orders"', repr(str(tmp_path / "checkpoint"))),
        ('"orders"', repr(source)),
        ('KafkaSink(kafka, "named-orders"', f"KafkaSink(kafka, {sink!r}"),
        ('"customers-2026-11.csv"', repr(str(file))),
    )
    produce(source, [f'{{"customer":"c-{n}","amount":{n}.5}}' for n in (1, 2, 3)])
    names = {}
    exec(compile(code, "examples.md", "exec"), names)  # noqa: S102 - the page's
    with caplog.at_level(logging.INFO, "onceflow"):
        names["job"].run(until="caught-up")
    assert read(cluster, sink, 1) == [
        '{"customer":"c-1","amount":1.50,"name":"Ann"}',
        '{"customer":"c-2","amount":2.50,"name":"Bob"}',
    ]
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []


def first_run():
    """The README's lines behind the installation, without what stands behind them as a comment."""
    (block,) = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    lines = [line.removeprefix("$ ").partition(" #")[0].rstrip() for line in block.splitlines()]
    assert lines[0].startswith("pip install ")
    assert lines[1] == "onceflow walk", "it has tests of its own"
    return lines[2:]


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_the_first_run_as_it_stands_in_the_readme(tmp_path):
    """In an empty folder: the row is in the other topic, and of no line on the terminal is another program the author.

    Each phase of the start is told once, and Ctrl-C ends it.
    """
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 9092)) == 0:
            pytest.skip("somebody listens at 9092, which the README names")
    home = {"HOME": str(tmp_path), "ONCEFLOW_DEV_DIR": str(tmp_path / "dev"), "XDG_RUNTIME_DIR": str(tmp_path)}
    told = {name: value for name, value in os.environ.items() if name not in ("KAFKA", "CHECKPOINT", "ONCEFLOW_DEBUG")}
    told |= home | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ONCEFLOW_CACHE": str(cache_folder()),
    }
    (folder := tmp_path / "empty").mkdir()

    def types(line):
        ended = subprocess.run(
            ["bash", "-c", line], cwd=folder, env=told, capture_output=True, text=True, check=False, timeout=120
        )
        assert ended.returncode == 0, ended.stderr
        assert not re.search(r"rdkafka|^WARNING|^Traceback", ended.stderr, re.MULTILINE), ended.stderr
        return ended.stdout

    *before, run = first_run()
    assert run.startswith("onceflow run ")
    log = tmp_path / "terminal"
    try:
        for line in before:
            types(line)
        with log.open("w") as terminal:
            job = subprocess.Popen(
                ["bash", "-c", f"exec {run}"], cwd=folder, env=told, stdout=terminal, stderr=terminal
            )
        try:
            wait_until(
                lambda: job.poll() is not None or " out, 1 participants" in log.read_text(), 240, what="an epoch"
            )
            job.send_signal(signal.SIGINT)
            assert job.wait(60) == 128 + signal.SIGINT, log.read_text()
        finally:
            job.kill()
        assert types("onceflow dev consume paid") == 'a\t{"id":"a","amount":9.50}\n'
    finally:
        types("onceflow dev down")
    lines = log.read_text().splitlines()
    assert [line for line in lines if not LOGGED.match(line)] == []
    phases = Counter(found[1] for line in lines if (found := re.search(r" start: (.*)", line)))
    assert phases, lines
    assert set(phases.values()) == {1}, phases
