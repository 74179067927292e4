"""The four ways to keep offsets (docs/offsets.md): each program killed where it hurts, started again, and counted.

    python -m tests.examples.offsets

A kill comes when what is kept is ahead of what is written, or behind it: at random it would come there by chance, and
the table would be another one each time. What must be there is what was sent; what is there, a reader tells who shares
nothing with the programs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.local.devcluster import DevCluster
from onceflow.processes import kill_tree
from tests.support.harness import read_topic, wait_until

PROGRAMS = Path(__file__).parents[2] / "examples" / "offsets"
RECORDS = 2_500
_APART = 50
"""So many records are kept and not written, or written and not kept, when a kill comes."""


@dataclass(frozen=True)
class Way:
    """One way to keep offsets.

    Attributes:
        name: As the page calls it.
        program: Its file.
        kills: When it is killed: ``"ahead"``: more is kept than written; ``"behind"``: more is written than kept; or
            when so many rows are there.
        settings: Its own part of the environment.
    """

    name: str
    program: str
    kills: tuple[str | int, ...]
    settings: dict[str, str] = field(default_factory=dict)


WAYS = (
    Way("Kafka's auto-commit", "auto_commit.py", ("behind", "ahead")),
    Way("by hand, before the rows", "by_hand.py", ("ahead",) * 2, {"COMMIT": "before"}),
    Way("by hand, after the rows", "by_hand.py", ("behind",) * 2, {"COMMIT": "after"}),
    Way("in the database of the rows", "external_store.py", (300, 1_100)),
    Way("in a checkpoint", "checkpoint.py", (300, 1_100)),
)


@dataclass(frozen=True)
class Counted:
    """What became of the records.

    Attributes:
        kills: How often the program was killed.
        lost: Records without a row.
        doubled: Rows beyond the first of a record.
    """

    kills: int
    lost: int
    doubled: int


class Run:
    """One way, on topics of its own.

    Args:
        way: Which.
        cluster: Where.
        folder: For what it keeps in files.
    """

    def __init__(self, way: Way, cluster: KafkaCluster, folder: Path) -> None:
        self.way = way
        self.cluster = cluster
        unique = uuid.uuid4().hex[:8]
        self.source, self.out, self.group = (f"offsets-{name}-{unique}" for name in ("in", "out", "group"))
        self.store = folder / f"{unique}.sqlite"
        admin = AdminClient(cluster.for_librdkafka())
        for made in admin.create_topics([NewTopic(topic, 1, 1) for topic in (self.source, self.out)]).values():
            made.result(30)
        producer = Producer(cluster.for_librdkafka())
        self.sent = [f"record {i}".encode() for i in range(RECORDS)]
        for value in self.sent:
            producer.produce(self.source, value)
        assert producer.flush(60) == 0
        self.environment = os.environ | way.settings | {
            "KAFKA": cluster.bootstrap_servers,
            "IN": self.source,
            "OUT": self.out,
            "GROUP": self.group,
            "STORE": str(self.store),
            "CHECKPOINT": str(folder / f"{unique}.checkpoint"),
        }  # fmt: skip
        self._reader = Consumer(cluster.for_librdkafka() | {"group.id": self.group, "enable.auto.commit": False})

    def count(self) -> Counted:
        """Kill it as often as its way says, let it end, and count."""
        for kill in self.way.kills:
            process = self._start()
            try:
                self._wait(kill, process)
            finally:
                kill_tree(process.pid)
                process.wait()
        assert self._start().wait(120) == 0, self.way.name
        self._reader.close()
        found = Counter(self._found())
        assert not found.keys() - set(self.sent)
        return Counted(len(self.way.kills), RECORDS - len(found), sum(found.values()) - len(found))

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, PROGRAMS / self.way.program], env=self.environment)

    def _wait(self, kill: str | int, process: subprocess.Popen[bytes]) -> None:
        """Wait until a kill is due. What counts is how far this process has come from where it went on."""
        kept_before, rows_before = self._kept(), self._rows()

        def apart() -> bool:
            ahead = self._kept() - (kept_before + self._rows() - rows_before)
            return ahead > _APART if kill == "ahead" else -ahead > _APART

        def due() -> bool:
            assert process.poll() is None, f"{self.way.name} ended before its kill"
            if isinstance(kill, int):
                return len(self._found()) >= kill
            if not apart():
                return False
            process.send_signal(signal.SIGSTOP)  # else it would go on between the look and the kill
            if apart():
                return True
            process.send_signal(signal.SIGCONT)
            return False

        wait_until(due, 120, f"{kill} of {self.way.name}")

    def _kept(self) -> int:
        """The offset that is kept in the group."""
        found: list[int] = []

        def look() -> bool:
            with contextlib.suppress(KafkaException):  # a fresh broker's coordinator is loading
                found.append(self._reader.committed([TopicPartition(self.source, 0)], timeout=30)[0].offset)
            return bool(found)

        wait_until(look, what="the group's offset")
        return max(found[0], 0)

    def _rows(self) -> int:
        """How many rows are in the topic: a program without transactions writes nothing else there."""
        return int(self._reader.get_watermark_offsets(TopicPartition(self.out, 0), timeout=30)[1])

    def _found(self) -> list[bytes | None]:
        if self.way.program == "external_store.py":
            if not self.store.exists():
                return []
            with sqlite3.connect(self.store) as database:
                there = database.execute("SELECT name FROM sqlite_master WHERE name = 'rows'").fetchall()
                return [value.encode() for (value,) in database.execute("SELECT value FROM rows")] if there else []
        return [value for _, value in read_topic(self.cluster, self.out)]


def table(counted: Callable[[Way], Counted]) -> list[str]:
    """The page's table, from what was counted."""
    lines = [f"| offsets are kept | program | killed | lost, of {RECORDS:,} | doubled |", "|---|---|---|---|---|"]
    for way in WAYS:
        found = counted(way)
        program = f"[{way.program}](../examples/offsets/{way.program})"
        lines.append(f"| {way.name} | {program} | {found.kills} times | {found.lost:,} | {found.doubled:,} |")
    return lines


def main() -> None:
    """Count all ways and print the table."""
    with DevCluster() as broker, tempfile.TemporaryDirectory() as folder:
        cluster = KafkaCluster(broker.bootstrap_servers)
        for line in table(lambda way: Run(way, cluster, Path(folder)).count()):
            print(line, flush=True)


if __name__ == "__main__":
    main()
