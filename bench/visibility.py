"""``python -m bench.visibility``: how far apart the sinks of one epoch become visible.

Kafka, PostgreSQL and Iceberg, written and committed as a driver does it: what expires first, then what never does, at
once. Only the commits are timed, from the first sink's answer to the last one's. Must not know: plans, Spark.

What ends a commit is its system's answer. Kafka's comes when the verdict is durable; its markers are in the partitions
a few milliseconds later.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
from bench import machine
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.support.postgres import running

import onceflow as of
from onceflow.connectors.contract import Sink
from onceflow.local.devcluster import DevCluster
from onceflow.testing import World
from onceflow.testing.trial import Start
from onceflow.twophase.messages import Reply
from onceflow.twophase.participants import Participant

RESULTS = Path(__file__).resolve().parent / "results" / "visibility.json"
SHARDS = 2
_JOB = "0123456789ab"


class Written(World):
    """A sink of two columns, of which only writing is asked."""

    def __init__(self, sink: Sink, columns: StructType) -> None:
        self._sink, self._columns = sink, columns

    def sink(self) -> Sink:
        """The sink."""
        return self._sink

    def output(self) -> StructType:
        """Its columns."""
        return self._columns

    def rows(self, keys: Sequence[str]) -> pa.RecordBatch:
        """In the form in which each writer takes them."""
        if isinstance(self._sink, of.KafkaSink):
            return pa.RecordBatch.from_pydict({"value": pa.array([key.encode() for key in keys], pa.binary())})
        columns: dict[str, Any] = {"key": list(keys), "amount": [1] * len(keys)}
        if isinstance(self._sink, of.DatabaseSink):
            columns["onceflow_hash"] = [hash(key) for key in keys]
        return pa.RecordBatch.from_pydict(columns)

    def visible(self) -> Sequence[str]:
        """Nobody asks."""
        return ()


def main() -> int:
    """Epoch after epoch; the figures go into a file. 1 if a commit was not answered well."""
    parser = argparse.ArgumentParser(prog="python -m bench.visibility", description=__doc__)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--rows", type=int, default=1000, help="of each sink in each epoch")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    random.seed(asked.seed)
    head = machine.head()
    with tempfile.TemporaryDirectory() as folder, DevCluster() as broker, running() as server:
        sinks = [
            of.KafkaSink(of.KafkaCluster(broker.bootstrap_servers), "seen", create_topic=of.NewTopic(partitions=2)),
            of.DatabaseSink(server.url(), "seen", create_table=True),
            of.IcebergSink(
                "lake",
                "bank.seen",
                properties={"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"},
                create_table=True,
            ),
        ]
        columns = StructType([StructField("key", StringType()), StructField("amount", LongType())])
        starts = [Start(Written(sink, columns), _JOB) for sink in sinks]
        with ThreadPoolExecutor(len(starts)) as threads:
            epochs = [_epoch(starts, threads, epoch, asked.rows) for epoch in range(asked.epochs)]
        for start in starts:
            start.close()
    results = head | {
        "seed": asked.seed,
        "epochs": asked.epochs,
        "rows": asked.rows,
        "first_to_last_ms": _spread([max(each) - min(each) for each in epochs]),
        "from_the_first_commits_begin_ms": {
            name: _spread([each[i] for each in epochs]) for i, name in enumerate(("kafka", "postgresql", "iceberg"))
        },
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    json.dump(results, sys.stdout, indent=1)
    return 0


def _epoch(starts: Sequence[Start], threads: ThreadPoolExecutor, epoch: int, rows: int) -> list[float]:
    """For each sink, the seconds from the beginning of the commits to its answer."""
    shards = [[f"{random.getrandbits(64):x}" for _ in range(rows // SHARDS)] for _ in range(SHARDS)]
    prepared = [start.prepare(*shards, epoch=epoch) for start in starts]
    for start, of_it in zip(starts, prepared, strict=True):
        if (problem := start.committer.check(of_it, start.run(epoch), 0.0)) is not None:
            raise RuntimeError(f"epoch {epoch} is not as it must be: {problem}")
    began = time.monotonic()
    answered = [_committed(starts[0], prepared[0]) - began]
    rest = [threads.submit(_committed, *each) for each in zip(starts[1:], prepared[1:], strict=True)]
    return answered + [each.result() - began for each in rest]


def _committed(start: Start, participants: Sequence[Participant]) -> float:
    """When the last answer was there."""
    left = list(participants)
    while left:
        replies = start.committer.commit(left)
        if not set(replies.values()) <= {Reply.COMMITTED, Reply.RETRY}:
            raise RuntimeError(f"a commit was answered with {replies}")
        left = [p for p in left if replies[p.id] is Reply.RETRY]
    return time.monotonic()


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    at = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: round(1000 * ordered[min(int(q * len(ordered)), len(ordered) - 1)], 1) for name, q in at.items()}


if __name__ == "__main__":
    sys.exit(main())
