"""The fault tests' own means: run a job as a process, let it die at a crash point, and check what is in the topics.

The checks read the topics with a consumer of their own and trust nothing that the job says.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from onceflow.connectors.kafka import transactions
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.errors import OnceflowError
from onceflow.processes import kill_tree
from onceflow.waiting import turns

JOBS = Path(__file__).parents[1] / "integration" / "jobs"
KEYS = 50
OLDEST_KAFKA = "3.1"


def kafka_asked_for() -> dict[str, Any]:
    """Which Kafka the tests are to run on, as arguments of ``DevCluster``: what ``make test-brokers`` sets."""
    asked: dict[str, Any] = {}
    if version := os.environ.get("TEST_KAFKA"):
        asked["version"] = version
    if level := os.environ.get("TEST_TRANSACTION_VERSION"):
        asked["features"] = {"transaction.version": level}
    return asked


def logged_error(caplog: pytest.LogCaptureFixture) -> OnceflowError:
    """What the log tells of a query that ``of.start`` made: of the driver's errors Spark's exception has one line."""
    found: list[OnceflowError] = []

    def look() -> list[OnceflowError]:
        told = [arg for r in caplog.records if r.levelname == "ERROR" and isinstance(r.args, tuple) for arg in r.args]
        found[:] = [arg for arg in told if isinstance(arg, OnceflowError)]
        return found

    wait_until(look, what="the error in the log")
    return found[-1]


def wait_until(condition: Callable[[], object], seconds: float = 60.0, what: str = "the condition") -> None:
    """Look until it holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true in {seconds} s")
        time.sleep(0.05)


@dataclass
class Ended:
    """A job process that has ended."""

    code: int
    log: str


@dataclass
class Pipeline:
    """One input topic, one job, one output topic, one checkpoint."""

    cluster: KafkaCluster
    source: str
    sink: str
    checkpoint: Path
    job: str = "copy"
    per_epoch: int = 2_500
    environment: dict[str, str] = field(default_factory=dict)
    sent: list[tuple[bytes, bytes]] = field(default_factory=list)
    own_group: bool = False
    python: str = sys.executable

    # -- input ------------------------------------------------------------------------------------

    def send(self, count: int, *, value: Callable[[int], bytes] | None = None) -> None:
        """Send records with ids that are unique in this pipeline, in one transaction, and one aborted beside it."""
        first = len(self.sent)
        records = [
            (f"k{i % KEYS}".encode(), value(i) if value else json.dumps({"id": i}).encode())
            for i in range(first, first + count)
        ]
        self._transaction(records, commit=True)
        self._transaction([(b"k0", b"aborted")] * 10, commit=False)
        self.sent += records

    def _transaction(self, records: list[tuple[bytes, bytes]], *, commit: bool) -> None:
        of_its_own = {"transactional.id": f"test-{uuid.uuid4().hex}", "transaction.timeout.ms": 30_000}
        producer = Producer(self.cluster.for_librdkafka() | of_its_own)
        producer.init_transactions()
        producer.begin_transaction()
        for key, value in records:
            while True:
                try:
                    producer.produce(self.source, value, key)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        producer.flush()
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()

    # -- job --------------------------------------------------------------------------------------

    @property
    def ours(self) -> Path:
        """Onceflow's folder in the checkpoint."""
        return self.checkpoint / "onceflow"

    @property
    def mark(self) -> Path:
        """Where a crash point says that it was reached."""
        return self.checkpoint.parent / f"{self.checkpoint.name}.mark"

    def settings(self) -> dict[str, str]:
        """What the job's file asks of the environment."""
        return {
            "KAFKA": self.cluster.bootstrap_servers,
            "IN": self.source,
            "OUT": self.sink,
            "CHECKPOINT": str(self.checkpoint),
            "PER_EPOCH": str(self.per_epoch),
            "ONCEFLOW_CRASH_MARK": str(self.mark),
            # What a test lets fail it wants to see, and not what a restart makes of it.
            "ONCEFLOW__RESTART_STRATEGY__TYPE": "none",
            # A job that lives for seconds: Java's second compiler only costs.
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        } | self.environment

    def start(self, **environment: str) -> subprocess.Popen[str]:
        """Start the job as a process of its own."""
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        log = (self.checkpoint.parent / f"job-{uuid.uuid4().hex[:6]}.log").open("w+")
        process = subprocess.Popen(
            [self.python, str(JOBS / f"{self.job}_job.py")],
            env=os.environ | self.settings() | environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=self.own_group,
        )
        process.log = Path(log.name)  # type: ignore[attr-defined]
        return process

    def end(self, process: subprocess.Popen[str], seconds: float = 120.0) -> Ended:
        """Wait for a job's end."""
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            kill_tree(process.pid)
            process.wait()
            raise AssertionError(f"the job did not end in {seconds} s:\n{_log(process)}") from None
        return Ended(code, _log(process))

    def run(self, **environment: str) -> Ended:
        """Run the job over what is there, to its end."""
        return self.end(self.start(**environment))

    def run_well(self, **environment: str) -> Ended:
        """Run the job and demand that it ends well."""
        ended = self.run(**environment)
        assert ended.code == 0, ended.log
        return ended

    def die_at(self, point: str, **environment: str) -> None:
        """Run the job into a crash point and see that it really died there."""
        ended = self.run(ONCEFLOW_CRASH=point, **environment)
        assert self.mark.exists(), f"crash point {point} was not reached:\n{ended.log}"
        assert ended.code == -signal.SIGKILL, ended.log
        self.mark.unlink()

    # -- what is in the topics --------------------------------------------------------------------

    def read(self, *, committed: bool = True) -> list[tuple[bytes | None, bytes | None]]:
        """All records of the output topic, as a consumer of its own sees them."""
        return read_topic(self.cluster, self.sink, committed=committed)

    def records(self) -> list[dict]:
        """The journal's records, oldest first."""
        return [json.loads(path.read_text()) for path in sorted((self.ours / "journal").glob("*.json"))]

    def decisions(self) -> list[dict]:
        """The journal's decisions."""
        return [r["record"] for r in self.records() if r["kind"] == "decide"]

    def open_transactions(self) -> list[str]:
        """Transactions of this job that are open now."""
        with KafkaClient(self.cluster) as client:
            return transactions.list_ids(client, f"onceflow-{self.job_id()}-")

    def job_id(self) -> str:
        """The job's, as its checkpoint says."""
        return str(json.loads((self.ours / "job.json").read_text())["job_id"])

    # -- checks -----------------------------------------------------------------------------------

    def check_output(self) -> None:
        """The output is right, whatever the journal says of it."""
        (self._check_copied if self.job != "count" else self._check_counted)()

    def _check_copied(self) -> None:
        """V1, V2, V3: the output holds each committed input once, and nothing else."""
        found = Counter(self.read())
        expected = Counter(self.sent)
        assert not expected - found, f"lost: {list((expected - found).items())[:5]}"
        assert not found - expected, f"doubled or strange: {list((found - expected).items())[:5]}"

    def _check_counted(self) -> None:
        """V8: the newest count of each key is right; V2: no count is there twice."""
        seen = [(key, json.loads(value)["n"]) for key, value in self.read()]
        twice = [item for item, times in Counter(seen).items() if times > 1]
        assert not twice, f"doubled: {twice[:5]}"
        newest: dict[bytes | None, int] = {}
        for key, n in seen:
            newest[key] = max(n, newest.get(key, 0))
        assert newest == dict(Counter(key for key, _ in self.sent))

    def check(self) -> None:
        """The output is right; V4: it is as many rows as were decided; V5, V11: nothing is open."""
        self.check_output()
        decided = sum(rows_of(d) for d in self.decisions())
        assert decided == len(self.read()), "the decisions do not add up to the output"
        assert self.open_transactions() == []

    def aborted(self) -> int:
        """Records in the output's log that no read_committed consumer sees: a proof that attempts were undone."""
        return len(self.read(committed=False)) - len(self.read())


def rows_of(record: dict, sink: str | None = None) -> int:
    """Rows that a decision or a replay names, as it stands in the journal; of one sink, or of all."""
    found = (p for p in record["participants"] if sink in (None, p["sink"]))
    return sum(rows for p in found for _, rows, *_ in p["parts"])


def read_topic(cluster: KafkaCluster, topic: str, *, committed: bool = True) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of a topic up to its present end."""
    return [(message.key(), message.value()) for message in read_messages(cluster, topic, committed=committed)]


def read_messages(cluster: KafkaCluster, topic: str, *, committed: bool = True) -> list[Message]:
    """All records of a topic up to its present end, in the order of each partition.

    A broker answers a commit before its markers are written: what is on its way is waited for.
    """
    if committed:
        _await_markers(cluster)
    consumer = Consumer(
        cluster.for_librdkafka()
        | {
            "group.id": f"check-{uuid.uuid4().hex}",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    # Where writing goes on, a reader may run after the end for as long as it does.
    ends = {p: _end(consumer, TopicPartition(topic, p)) for p in partitions}
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    left, found = set(partitions), []
    deadline = time.monotonic() + 60
    while left:
        assert time.monotonic() < deadline, f"{topic} could not be read to its end"
        for message in consumer.consume(1_000, 0.2):
            if message.error() is None:
                if message.offset() < ends[message.partition()]:
                    found.append(message)
                else:
                    left.discard(message.partition())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise AssertionError(message.error())
    consumer.close()
    return found


def _end(consumer: Consumer, partition: TopicPartition) -> int:
    """Where a partition ends; one that was just made has no leader for a moment."""
    for last in turns(30, 0.1):
        try:
            return consumer.get_watermark_offsets(partition, timeout=30)[1]
        except KafkaException as error:
            if last or error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
    raise AssertionError("the last turn returns or raises")


def _await_markers(cluster: KafkaCluster) -> None:
    with KafkaClient(cluster) as client:
        wait_until(lambda: not transactions.list_ids(client, "", ("PrepareCommit", "PrepareAbort")), what="the markers")


def command_of(message: str) -> list[str]:
    """The ``onceflow`` command that a message's advice names, word by word."""
    found = re.search(r"What to do: [^\n]*?`onceflow ([^`]*)`", message)
    assert found is not None, f"no command in:\n{message}"
    return re.findall(r"<[^>]*>|\S+", found[1])


def follow(p: Pipeline, ended: Ended) -> str:
    """Do what an error's message says, with the job's file and a reason where it leaves them open; what was said."""
    fill = {"<job file>": str(JOBS / f"{p.job}_job.py"), "...": "the test follows the message"}
    words = [fill.get(word, word) for word in command_of(ended.log)]
    done = subprocess.run(
        [sys.executable, "-m", "onceflow.cli.main", *words, "--yes"],
        env=os.environ | p.settings(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _log(process: subprocess.Popen[str]) -> str:
    return process.log.read_text()[-40_000:]  # type: ignore[attr-defined]


def audited(
    pipeline: Pipeline, *options: str, file: Path | None = None, environment: dict[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """What ``onceflow audit`` says of a pipeline: its exit code, and its report."""
    file = file or JOBS / f"{pipeline.job}_job.py"
    ran = subprocess.run(
        [sys.executable, "-m", "onceflow", "audit", str(file), "--output", "json", *options],
        env=os.environ | pipeline.settings() | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout.splitlines()[-1])
