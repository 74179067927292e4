"""``python -m bench.peers_sql``: the same script of SQL by Flink and by onceflow, on the same records; same rows?

Must not know: how either of them computes them. Windows that hold a record of the far future are left out: they are
there to move the watermark, and Flink closes all windows at the end of bounded input.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench import machine
from bench.peer_jars import FLINK_CONNECTOR, fetched
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from onceflow.local.devcluster import DevCluster

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = Path(__file__).with_name("peers.sql")
RESULTS = Path(__file__).resolve().parent / "results" / "peers-sql.json"
FLINK = ROOT / ".venv-flink" / "bin" / "python"
OUTPUTS = ("tumbled", "hopped", "sessions", "top", "firsts", "near", "texts")
_PARTITIONS = 4
_FUTURE = "2099-01-01 00:00:00"
_PATIENCE_S = 400


def main() -> int:
    """Both systems, and the file. 1 if a row differs."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers_sql", description=__doc__)
    parser.add_argument("--records", type=int, default=4_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if not FLINK.exists():
        print("Flink's environment is not there: make peers-sql makes it", file=sys.stderr)
        return 2
    head = machine.head()
    found: dict[str, dict[str, Counter[str]]] = {}
    with tempfile.TemporaryDirectory(prefix="onceflow-peers-") as name:
        folder = Path(name)
        for system in ("flink", "onceflow"):
            # Each on a broker of its own: the script names the topics that it writes.
            with DevCluster(folder / f"kafka-{system}") as cluster:
                servers = cluster.bootstrap_servers
                _fill(servers, asked.records, asked.seed)
                print(f"== {system}", flush=True)
                _run(system, servers, folder / system)
                found[system] = {topic: _rows(servers, topic) for topic in OUTPUTS}
    results = head | {
        "seed": asked.seed,
        "records": asked.records,
        "outputs": {topic: _compared(found["flink"][topic], found["onceflow"][topic]) for topic in OUTPUTS},
    }
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    for topic, told in results["outputs"].items():
        print(f"{topic:9} {told['rows']:6} rows; only Flink's {told['only_flink']}, only ours {told['only_onceflow']}")
    return int(any(told["only_flink"] or told["only_onceflow"] for told in results["outputs"].values()))


def _compared(flink: Counter[str], ours: Counter[str]) -> dict[str, Any]:
    one, other = flink - ours, ours - flink
    return {
        "rows": flink.total(),
        "only_flink": one.total(),
        "only_onceflow": other.total(),
        "examples": [*sorted(one)[:3], *sorted(other)[:3]],
    }


def _fill(servers: str, records: int, seed: int) -> None:
    """Bids and asks, out of order by less than the watermark's delay; at each end one of the far future."""
    dice = random.Random(seed)
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    topics = [NewTopic(topic, _PARTITIONS, 1) for topic in ("bids", "asks")] + [NewTopic(t, 1, 1) for t in OUTPUTS]
    for made in admin.create_topics(topics).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": servers})
    begin = datetime(2026, 1, 1, 10, tzinfo=UTC)
    for i in range(records):
        at = begin + timedelta(milliseconds=i * 25 + dice.randrange(2_000))
        time = at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        if dice.random() < 0.7:
            # Each time is one of its own: which of two equal rows is first is not told by SQL.
            bid = {"auction": i % 97, "bidder": f"b-{dice.randrange(25)}", "price": dice.randrange(1, 10_000) / 100}
            producer.produce("bids", json.dumps(bid | {"bid_time": time}), partition=dice.randrange(_PARTITIONS))
        else:
            ask = {"auction": i % 97, "seller": f"s-{dice.randrange(9)}", "ask_time": time}
            producer.produce("asks", json.dumps(ask), partition=dice.randrange(_PARTITIONS))
    for partition in range(_PARTITIONS):
        bid = {"auction": -1 - partition, "bidder": "end", "price": 0, "bid_time": _FUTURE}
        producer.produce("bids", json.dumps(bid), partition=partition)
        ask = {"auction": -9 - partition, "seller": "end", "ask_time": _FUTURE}
        producer.produce("asks", json.dumps(ask), partition=partition)
    producer.flush()


def _run(system: str, servers: str, folder: Path) -> None:
    (folder / "scratch").mkdir(parents=True)
    if system == "flink":
        told = {
            "checkpoint": str(folder / "checkpoint"),
            "scratch": str(folder / "scratch"),
            "servers": servers,
            "script": str(SCRIPT),
            "flink_jar": str(fetched(FLINK_CONNECTOR)),
        }
        command = [str(FLINK), str(Path(__file__).parent / "systems" / "flink_sql_job.py"), json.dumps(told)]
    else:
        settings = {
            "onceflow.kafka.bootstrap.servers": servers,
            "execution.checkpointing.dir": str(folder / "checkpoint"),
        }
        flags = [part for key, value in settings.items() for part in ("-D", f"{key}={value}")]
        command = [sys.executable, "-m", "onceflow", "sql", str(SCRIPT), *flags]
    environment = {**os.environ, "FLINK_LOG_DIR": str(folder)}
    subprocess.run(command, check=True, cwd=folder / "scratch", env=environment, timeout=_PATIENCE_S)


def _rows(servers: str, topic: str) -> Counter[str]:
    """The rows of a topic, each as JSON with sorted names and numbers by their values, without the far future's."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "peers",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    rows: Counter[str] = Counter()
    while True:
        message = consumer.poll(30)
        if message is None or message.error():
            break
        text = (message.value() or b"").decode()
        if '"2099-' not in text and '"2098-' not in text:
            row = json.loads(text, parse_float=Decimal, parse_int=Decimal)
            rows[json.dumps(row, sort_keys=True, default=lambda number: f"{number.normalize():f}")] += 1
    consumer.close()
    return rows


if __name__ == "__main__":
    sys.exit(main())
