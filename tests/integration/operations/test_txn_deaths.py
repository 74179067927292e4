"""``onceflow txn abort`` and ``resolve`` die in the middle: run again, or with the job started, all comes right."""

import json
import os
import signal
import subprocess
import sys
import uuid

import pytest
from kafka import TopicPartition
from kafka.admin import NewTopic

from onceflow.connectors.kafka import transactions
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.offsets import bounds
from onceflow.connectors.kafka.partition import Partition
from tests.support.harness import JOBS, Pipeline, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.faults]

RECORDS = 5_000
PARTITIONS = 4
TIMEOUT = "30 s"


@pytest.fixture
def pipeline(client, tmp_path):
    """Two epochs' worth of input, and a job that has not run yet."""
    names = [f"dying-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    client.admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names])
    client.admin.wait_for_topics(names)
    made = Pipeline(client.cluster, names[0], names[1], tmp_path / "checkpoint")
    made.send(RECORDS)
    return made


def txn(p: Pipeline, *arguments: str, crash: str = "") -> dict:
    """Run ``onceflow txn`` as a process; with ``crash`` see it die there. What it said as JSON."""
    command, *more = arguments
    line = [sys.executable, "-m", "onceflow.cli.main", "txn", command, str(JOBS / "copy_job.py"), *more]
    settings = {"KAFKA": p.cluster.bootstrap_servers, "IN": p.source, "OUT": p.sink, "CHECKPOINT": str(p.checkpoint),
                "PER_EPOCH": str(p.per_epoch), "ONCEFLOW_CRASH": crash}  # fmt: skip
    ended = subprocess.run(
        [*line, "--output", "json"], env=os.environ | settings, capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == (-signal.SIGKILL if crash else 0), ended.stdout + ended.stderr
    return {} if crash else json.loads(ended.stdout.strip().splitlines()[-1])


def starts(p: Pipeline) -> int:
    return [r["kind"] for r in p.records()].count("start")


def test_an_abort_that_died_is_run_again(pipeline):
    """O1, O3: killed after its start, and again after its aborts were sent: the third run has nothing left to do."""
    pipeline.die_at("D4@1")
    left = pipeline.open_transactions()
    assert left
    txn(pipeline, "abort", "--all-lingering", "--claim", "--yes", crash="O1")
    assert (starts(pipeline), pipeline.open_transactions()) == (2, left), "its start is durable, nothing is aborted"
    assert {t["standing"] for t in txn(pipeline, "list")["ours"]} == {"lingering"}
    txn(pipeline, "abort", "--all-lingering", "--yes", crash="O3")
    assert starts(pipeline) == 2, "what lingers by now needs no start"
    wait_until(lambda: not pipeline.open_transactions(), what="the aborts")
    assert txn(pipeline, "abort", "--all-lingering", "--yes") == {"started": None, "aborted": [], "still_open": []}
    pipeline.run_well()
    pipeline.check()
    assert pipeline.aborted() > 0


@pytest.mark.parametrize("point", ["O1", "O3"])
def test_a_job_starts_after_an_abort_that_died(pipeline, point):
    """O1, O3: the job's own start takes over from the dead tool and aborts what it left."""
    pipeline.die_at("D4@1")
    txn(pipeline, "abort", "--all-lingering", "--claim", "--yes", crash=point)
    pipeline.run_well()
    assert starts(pipeline) == 3
    pipeline.check()


def test_an_abort_that_died_beside_a_decided_epoch_leaves_it_alone(pipeline):
    """O1, O3 at D5: nothing lingers but what is decided; the tool dies twice, and the job commits it."""
    pipeline.die_at("D5@1")
    decided = pipeline.open_transactions()
    for point in ("O1", "O3"):
        txn(pipeline, "abort", "--all-lingering", "--claim", "--yes", crash=point)
        assert pipeline.open_transactions() == decided
    pipeline.run_well()
    pipeline.check()
    assert pipeline.aborted() == 0


def test_a_resolve_that_died_is_run_again_or_was_done(pipeline, client):
    """O1, O2: before the choice is durable nothing is chosen; after it the job acts on it, though nobody was told."""
    pipeline.environment = {"TIMEOUT": TIMEOUT}
    pipeline.die_at("D5@0")
    names = [p["transaction"]["transactional_id"] for p in pipeline.decisions()[0]["participants"]]
    wait_until(lambda: not pipeline.open_transactions(), 90, "expiry")
    wait_until(lambda: all_over(client, names), 90, "expiry")
    ends = bounds(client.admin, [Partition(pipeline.sink, n) for n in range(PARTITIONS)])
    client.admin.delete_records({TopicPartition(*p): held.latest for p, held in ends.items()})
    choose = ("resolve", "0", "--choice", "write-again", "--why", "its records are gone", "--yes")

    txn(pipeline, *choose, crash="O1")
    assert starts(pipeline) == 2
    assert {part["choice"] for part in txn(pipeline, "resolve")["undone"]["participants"]} == {None}
    stopped = pipeline.run()
    assert stopped.code == 1
    assert "nothing proves whether these were committed" in stopped.log

    txn(pipeline, *choose, crash="O2")
    assert {part["choice"] for part in txn(pipeline, "resolve")["undone"]["participants"]} == {"write-again"}
    pipeline.run_well()
    pipeline.check_output()
    assert pipeline.open_transactions() == []
    assert [r["kind"] for r in pipeline.records()].count("resolve") == 1
    assert txn(pipeline, "resolve") == {"undone": None}


def all_over(client: KafkaClient, names: list[str]) -> bool:
    found = transactions.describe(client, names)
    return all(found[name] is None or found[name].state == "CompleteAbort" for name in names)
