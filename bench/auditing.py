"""``python -m bench.auditing``: how many records a second ``onceflow audit`` proves, and what a key costs.

Broker and audit are on one machine; the audit runs with the key and without. Of what keyed digests cost a job: seconds
of a core per million rows, in Spark and in a task. The topic is filled by the job's own writers, for batches as a job
makes them. Must not know: how the audit works.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import psutil
from bench import machine
from kafka.admin import NewTopic
from pyspark import SparkContext
from pyspark.sql import SparkSession
from tests.support.audited import World
from tests.support.keyed_rows import KEY

from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.execution.row_hash import sha256_of
from onceflow.local.devcluster import DevCluster
from onceflow.twophase.keyed import keyed

RESULTS = Path(__file__).resolve().parent / "results" / "audit.json"
_VALUE_BYTES = 110
_PARTITIONS = 4


def main() -> int:
    """Fill a topic, audit it some times, write the file; 1 if an audit did not prove all."""
    parser = argparse.ArgumentParser(prog="python -m bench.auditing", description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    head = machine.head()
    draw = random.Random(asked.seed)
    with DevCluster() as broker, tempfile.TemporaryDirectory() as folder:
        cluster, topic = KafkaCluster(broker.bootstrap_servers), f"audited-{uuid.uuid4().hex[:8]}"
        admin = cluster.admin()
        admin.create_topics([NewTopic(topic, _PARTITIONS, 1)])
        admin.wait_for_topics([topic])
        admin.close()
        world: Any = World(cluster, topic, Path(folder), key=KEY)
        each = asked.records // asked.epochs
        for epoch in range(asked.epochs):
            rows = [(b"u-%d" % draw.randrange(1000), _value(draw, epoch * each + n)) for n in range(each)]
            world.epoch(epoch, rows)
        rounds = []
        for key in [None, KEY] * asked.rounds:
            load = machine.load()
            report = world.audit(key=key)
            rate = round(report["read"] / world.took_s)
            rounds.append({"key": key is not None, "s": round(world.took_s, 2), "rate": rate, "load_before": load})
            print(f"  {report['rows']:,} rows proven, {rounds[-1]}", flush=True)
            if not report["good"] or report["rows"] != each * asked.epochs:
                print(report["findings"], file=sys.stderr)
                return 1
        world.close()
    results = head | {
        "seed": asked.seed,
        "records": asked.records,
        "value_bytes": _VALUE_BYTES,
        "partitions": _PARTITIONS,
        "epochs": asked.epochs,
        "rounds": rounds,
        "best_rate": max(r["rate"] for r in rounds if not r["key"]),
        "best_rate_with_key": max(r["rate"] for r in rounds if r["key"]),
        "core_s_per_million": {"task": _of_a_task(draw), "spark": _of_spark()},
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(RESULTS)
    return 0


def _of_a_task(draw: random.Random) -> float:
    """What a task adds for a million rows, in seconds of a core."""
    hashes = [draw.randbytes(32) for _ in range(1_000_000)]
    began = time.process_time()
    keyed(KEY, hashes)
    return round(time.process_time() - began, 2)


def _of_spark() -> dict[str, float]:
    """What a million rows take Java, with their messages' SHA-256 and without; of three rounds the best."""
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    rows = spark.range(1_000_000).selectExpr("cast(id as string) as key", f"lpad(id, {_VALUE_BYTES}, 'x') as value")
    rows.cache().count()
    of = rows.schema["value"].dataType
    told = {"with": rows.select("*", sha256_of([(rows["value"], of), (rows["key"], of)], "topic")), "without": rows}
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - whose process is Java's
    java = psutil.Process(gateway.proc.pid)
    best: dict[str, float] = {}
    for name in ["with", "without"] * 4:  # the first warms up
        before = sum(java.cpu_times()[:2])
        told[name].write.format("noop").mode("overwrite").save()
        took = round(sum(java.cpu_times()[:2]) - before, 2)
        best[name] = min(took, best.get(name, took))
    spark.stop()
    return best


def _value(draw: random.Random, number: int) -> bytes:
    told = b'{"id":%d,"amount":%d.%02d,"text":"' % (number, draw.randrange(1000), draw.randrange(100))
    return told + b"x" * (_VALUE_BYTES - len(told) - 2) + b'"}'


if __name__ == "__main__":
    sys.exit(main())
