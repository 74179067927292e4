"""What every measurement stands on: one cluster, topics, and systems as processes of their own.

Must not know: what is measured.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from bench.peer_jars import FLINK_AVRO, FLINK_CONNECTOR, fetched
from bench.workload import PARTITIONS
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from onceflow.local.devcluster import DevCluster
from onceflow.processes import descendants, kill_tree

ROOT = Path(__file__).resolve().parent.parent
SYSTEMS = Path(__file__).resolve().parent / "systems"

# What onceflow's source sets by itself: every JVM system reads with it, so that sinks and commits are compared. Its
# short fetch.max.wait.ms is not here: it suits Spark's consumers, which ask only while a task reads, not Flink's.
CONSUMER = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "kafka.fetch.max.bytes": str(64 * 1024 * 1024),
    "kafka.isolation.level": "read_committed",
}


@dataclass(frozen=True)
class System:
    """A system under test: the script, the environment that it runs in, and the guarantee that it is asked for."""

    name: str
    title: str
    script: str
    python: Path = Path(sys.executable)
    guarantee: str = "exactly-once"


ALL = {
    system.name: system
    for system in (
        System("onceflow", "onceflow, exactly-once", "onceflow_job.py"),
        System("onceflow-alo", "onceflow, at-least-once", "onceflow_job.py", guarantee="at-least-once"),
        System("spark", "Spark's own Kafka sink, at-least-once", "spark_job.py", guarantee="at-least-once"),
        System("flink", "PyFlink SQL, EXACTLY_ONCE", "flink_job.py", ROOT / ".venv-flink/bin/python"),
        System("quix", "Quix Streams, exactly-once", "quix_job.py", ROOT / ".venv-quix/bin/python"),
    )
}


@dataclass(frozen=True)
class Assignment:
    """What a system is told, as JSON in its one argument.

    Attributes:
        work: ``copy``, ``fraud``, ``fraud-avro``; of payments ``table``, ``copy-payments``, or ``both`` of these.
        servers: Kafka's address.
        source: The topic to read.
        sink: The topic to write.
        checkpoint: A folder; empty, or with the checkpoint to go on from.
        scratch: A folder for what the system writes beside that.
        bounded: Take what is there and end.
        records: How many there are, for a system that ends by counting.
        per_epoch: At most so many records in a micro-batch; None for no limit.
        interval_ms: Between checkpoints.
        guarantee: Asked of the sink.
        transaction_timeout_ms: None for the system's own default.
        spark: More settings of a Spark session.
        consumer: Settings of the Java consumer.
        flink_jar: Flink's Kafka connector.
        database: Where the table is: SQLAlchemy's URL.
        table: The table to write.
        jars: More jars for Spark's own systems.
        registry: The schema registry of payments in Avro.
    """

    work: str
    servers: str
    source: str
    sink: str
    checkpoint: str
    scratch: str
    bounded: bool = True
    records: int = 0
    per_epoch: int | None = None
    interval_ms: int = 1_000
    guarantee: str = "exactly-once"
    transaction_timeout_ms: int | None = None
    spark: Mapping[str, str] = field(default_factory=dict)
    consumer: Mapping[str, str] = field(default_factory=lambda: CONSUMER)
    flink_jar: str = ""
    database: str = ""
    table: str = ""
    jars: Sequence[str] = ()
    registry: str = ""


class Process:
    """A system that runs: its process tree and its log."""

    def __init__(self, system: System, assignment: Assignment, log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        self._sink: IO[bytes] = log.open("ab")
        self.began = time.monotonic()
        self._process = subprocess.Popen(
            [str(system.python), str(SYSTEMS / system.script), json.dumps(asdict(assignment))],
            stdin=subprocess.DEVNULL,
            stdout=self._sink,
            stderr=self._sink,
            cwd=assignment.scratch,
            env={**os.environ, "FLINK_LOG_DIR": str(log.parent), **environment},
        )
        self.pid = self._process.pid

    def wait(self, seconds: float) -> int | None:
        """Its exit code, or None if it still runs after so long."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def running(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def tree(self) -> list[int]:
        """The process ids of the whole tree."""
        return [self.pid, *descendants(self.pid)]

    def kill(self) -> None:
        """SIGKILL to the whole tree, and wait until the first process is gone."""
        if self.running():
            kill_tree(self.pid)
            self._process.wait(30)

    def close(self) -> None:
        """Kill what is left, and close the log."""
        self.kill()
        self._sink.close()

    def tail(self, lines: int = 15) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class Stage:
    """One cluster, and a folder in which every run gets a place of its own."""

    def __init__(self, cluster: DevCluster, folder: Path) -> None:
        self.cluster = cluster
        self.servers = cluster.bootstrap_servers
        self.folder = folder
        self._admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        self._runs = 0
        self._flink_jar = ""

    def topic(self, name: str, partitions: int = PARTITIONS) -> str:
        """Make a topic."""
        self._admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)
        deadline = time.monotonic() + 60
        while len(self._admin.list_topics(name, timeout=30).topics[name].partitions) < partitions:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not come to be")
            time.sleep(0.02)
        return name

    def drop(self, *topics: str) -> None:
        """Delete topics: outputs of millions of records would fill the disk."""
        for future in self._admin.delete_topics(list(topics)).values():
            try:
                future.result(60)
            except KafkaException as error:
                print(f"  (a topic was not deleted: {error})")

    def assignment(self, system: System, work: str, source: str, **more: Any) -> Assignment:
        """An assignment with an output topic, a checkpoint and a folder of its own."""
        self._runs += 1
        name = f"{self._runs:03d}-{system.name}-{work}"
        place = self.folder / name
        (place / "scratch").mkdir(parents=True)
        if system.name == "flink" and not self._flink_jar:
            self._flink_jar = str(fetched(FLINK_CONNECTOR))
        of_flink = [self._flink_jar, *([str(fetched(FLINK_AVRO))] if more.get("registry") else [])]
        return Assignment(
            work=work,
            servers=more.pop("servers", self.servers),
            source=source,
            sink=self.topic(f"out-{name}"),
            checkpoint=str(place / "checkpoint"),
            scratch=str(place / "scratch"),
            guarantee=system.guarantee,
            flink_jar=";file://".join(of_flink) if system.name == "flink" else "",
            **more,
        )

    @contextmanager
    def run(
        self, system: System, assignment: Assignment, environment: Mapping[str, str] | None = None
    ) -> Iterator[Process]:
        """Start a system; it is killed at the end if it still runs."""
        log = Path(assignment.scratch).parent / "log.txt"
        process = Process(system, assignment, log, environment or {})
        try:
            yield process
        finally:
            process.close()

    def clear(self, assignment: Assignment) -> None:
        """Remove a run's output topic and files; its log stays until the end."""
        self.drop(assignment.sink)
        shutil.rmtree(assignment.checkpoint, ignore_errors=True)
        shutil.rmtree(assignment.scratch, ignore_errors=True)


@contextmanager
def stage(**cluster: Any) -> Iterator[Stage]:
    """A cluster and a folder, both gone afterwards, also when the bench is told to end."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    folder = Path(tempfile.mkdtemp(prefix="onceflow-bench-"))
    try:
        with DevCluster(folder / "kafka", **cluster) as running:
            yield Stage(running, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def missing(system: System) -> str | None:
    """Why a system cannot be run here, if so."""
    if system.python.exists():
        return None
    return f"{system.title}: its environment {system.python.parent.parent.name} is not there (make bench makes it)"
