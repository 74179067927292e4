"""The job in the README is no picture of one: it is taken from the page, and run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

PAGE = Path(__file__).parents[2] / "README.md"


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
    for there, here in (
        ('"localhost:9092"', repr(cluster.bootstrap_servers)),
        ('"/data/checkpoints/big-payments"', repr(str(tmp_path / "checkpoint"))),
        ('"payments"', repr(source)),
        ('"big"', repr(sink)),
    ):
        assert code.count(there) == 1, there
        code = code.replace(there, here)
    (tmp_path / "job.py").write_text(code)
    produce(
        source, [f'{{"user_id":"u-{n % 3}","amount":{amount}}}' for n, amount in enumerate((5, 1500.25, 1000, 2000))]
    )
    for _ in range(2):
        command = [sys.executable, "-m", "onceflow", "run", "--bounded", str(tmp_path / "job.py")]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
        assert ran.returncode == 0, ran.stderr
    assert read(cluster, sink, 4) == ['{"user_id":"u-0","amount":2000.00}', '{"user_id":"u-1","amount":1500.25}']
