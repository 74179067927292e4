"""``python -m bench.auditing``: how many records a second ``onceflow audit`` reads and proves, beside the broker.

The topic is filled by the job's own writers, so that its batches are as a job's. Must not know: how the audit works.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

from bench import machine
from kafka.admin import NewTopic
from tests.integration.audited import COLUMNS, World

from onceflow.audit.hashes import Texts
from onceflow.audit.topics import digests
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.local.devcluster import DevCluster

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
        world: Any = World(cluster, topic, Path(folder))
        formula = json.dumps([topic, COLUMNS])
        each = asked.records // asked.epochs
        for epoch in range(asked.epochs):
            rows = [(b"u-%d" % draw.randrange(1000), _value(draw, epoch * each + n)) for n in range(each)]
            keys, values = (Texts.of([row[i] for row in rows]) for i in (0, 1))
            digest = int(next(digests(formula, {"key": keys, "value": values}, each)).sum())
            world.epoch(epoch, rows, digests=[digest])
        rounds = []
        for _ in range(asked.rounds):
            load = machine.load()
            report = world.audit()
            rounds.append(
                {"s": round(world.took_s, 2), "rate": round(report["read"] / world.took_s), "load_before": load}
            )
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
        "best_rate": max(r["rate"] for r in rounds),
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(RESULTS)
    return 0


def _value(draw: random.Random, number: int) -> bytes:
    told = b'{"id":%d,"amount":%d.%02d,"text":"' % (number, draw.randrange(1000), draw.randrange(100))
    return told + b"x" * (_VALUE_BYTES - len(told) - 2) + b'"}'


if __name__ == "__main__":
    sys.exit(main())
