"""RED: what an attack found, third part: files that a power cut left empty, and partitions whose beginning is gone."""

import os
import subprocess
import sys
import uuid
from collections import Counter

import pytest
from kafka import TopicPartition
from kafka.admin import NewPartitions, NewTopic

from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.local.devcluster import FAST_EXPIRY, DevCluster
from tests.integration.harness import JOBS, Pipeline, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture(scope="module")
def client():
    with (
        DevCluster(settings=dict(FAST_EXPIRY)) as broker,
        KafkaClient(KafkaCluster(broker.bootstrap_servers)) as open_client,
    ):
        yield open_client


@pytest.fixture
def p(client, tmp_path):
    names = [f"red-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    client.admin.create_topics([NewTopic(n, 1, 1) for n in names])
    client.admin.wait_for_topics(names)
    return Pipeline(client.cluster, *names, tmp_path / "checkpoint")


def last(ended):
    lines = ended.log.splitlines()
    at = max((i for i, line in enumerate(lines) if "Error: " in line), default=0)
    return ended.code, "\n".join(lines[at : at + 5])


def resolve(p, *words):
    done = subprocess.run(
        [sys.executable, "-m", "onceflow.cli.main", "txn", "resolve", str(JOBS / f"{p.job}_job.py"), *words],
        env=os.environ | p.settings(), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_red_a_new_partition_whose_beginning_is_gone_has_a_way_out(p, client):
    """Partitions are added while the job is down, and retention takes their first records: no command leads out."""
    p.send(200)
    p.run_well()
    client.admin.create_partitions({p.source: NewPartitions(2)})
    wait_until(lambda: len(client.topics([p.source])[p.source].leaders) == 2, what="the partition")
    p.send(400)
    client.admin.delete_records({TopicPartition(p.source, 1): 20})
    first, second = last(p.run()), last(p.run())
    print(first, second, sep="\n\n")
    tried = resolve(p, "1", "--choice", "give-up-rows", "--why", "gone", "--yes")
    print(tried)
    third = last(p.run())
    print(third)
    assert third[0] == 0, "it stops for ever"


@pytest.mark.parametrize("folder", ["commits", "offsets"])
def test_red_a_file_that_a_power_cut_left_empty(p, folder):
    """Spark writes its files beside and renames them, unsynced: after a power cut a file may be there and be empty."""
    p.send(200)
    p.run_well()
    p.send(200)
    if folder == "commits":
        p.run_well()
    else:
        p.die_at("D1")
    empty = p.checkpoint / folder / "1"
    assert empty.exists()
    empty.write_bytes(b"")
    (empty.parent / ".1.crc").unlink(missing_ok=True)
    said = [last(p.run()) for _ in range(2)]
    print(*said, Counter(p.read()) == Counter(p.sent), sep="\n")
    assert said[-1][0] == 0 or "EpochFailedError" not in said[-1][1], said[-1]
