"""A checkpoint and its topic as a job makes them, without Spark: by the real writer, journal and trail."""

import json
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from onceflow.audit.verify import Asked, audit
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.trail import Trail
from onceflow.connectors.kafka import transactions
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.prepared import PreparedTransaction, read
from onceflow.connectors.kafka.writer import TransactionWriter
from onceflow.storage.store import Store
from onceflow.twophase.layout import Layout, LayoutSource, Topic
from onceflow.twophase.messages import Appended
from onceflow.twophase.participants import Part, Participant
from onceflow.twophase.records import Decide, LayoutRecord
from tests.support.keyed_rows import kept, of_rows
from tests.support.xx64 import MASK, of_record

COLUMNS = [["value", "binary"], ["key", "binary"]]
LAYOUT = Layout((LayoutSource(("out",), "c", "topic in", "path", (Topic("in", "id", 1),), 0),))


@dataclass
class World:
    """A job that writes to one topic."""

    cluster: KafkaCluster
    topic: str
    folder: Path
    producer: dict = field(default_factory=dict)
    handles: dict = field(default_factory=dict)
    knows_its_beginning: bool = True
    key: bytes | None = None
    columns: list = field(default_factory=lambda: COLUMNS)

    def __post_init__(self):
        self.client = KafkaClient(self.cluster)
        records = Store(self.folder / "onceflow" / "journal")
        records.make()
        self.journal = Journal(records)
        self.history = self.journal.start("a" * 12)
        about = {"sinks": {"out": {"destination": self.topic, "columns": self.columns}}}
        begins = (lambda _: '{"in":{"0":0}}') if self.knows_its_beginning else (lambda _: "")
        trail = Trail(Store(self.folder / "onceflow" / "audit"), key=self.key, begins=begins)
        self.journal.audited(trail, json.dumps(about))
        assert self.journal.append(LayoutRecord(1, LAYOUT)) == Appended()

    def prepare(self, rows):
        """Write rows in one transaction, which stays open; what its writer prepared."""
        config = self.cluster.for_librdkafka() | {"acks": "all", "partitioner": "murmur2_random"} | self.producer
        writer = TransactionWriter(f"audited-{uuid.uuid4().hex[:8]}", self.topic, config, 60_000)
        keys, values = [key for key, _ in rows], [value for _, value in rows]
        writer.write(pa.record_batch({"value": pa.array(values, pa.binary()), "key": pa.array(keys, pa.binary())}))
        prepared = read(writer.prepare())
        assert isinstance(prepared, PreparedTransaction)
        topic = self.client.topics([self.topic])[self.topic]
        return prepared.sealed(self.client.cluster_id, topic.topic_id)

    def commit(self, prepared):
        """Commit, and see it answered."""
        assert transactions.commit(self.client, [prepared.handle]) == {prepared.handle: 0}

    def epoch(self, number, *groups, decided=None, receipted=True, lost=False, said=lambda told: told):
        """An epoch with a transaction for each group of rows: prepared, decided, committed (or lost), receipted.

        What was decided are these rows, or others in their place; ``said`` changes what is written of a transaction.
        """
        held = [self.prepare(rows) for rows in groups]
        self.finish(number, held, groups, decided=decided, receipted=receipted, lost=lost, said=said)
        return held

    def finish(self, number, held, groups, *, decided=None, receipted=True, lost=False, said=lambda told: told):
        """Decide, commit (or lose) and receipt what was prepared."""
        participants = []
        for i, (prepared, rows) in enumerate(zip(held, decided or groups, strict=True)):
            hashed = [(v, k)[: len(self.columns)] for k, v in rows]
            digest = sum(of_record(self.topic, *values) for values in hashed) & MASK
            told = [[self.topic.encode(), *values] for values in hashed]
            keyed = "" if self.key is None else kept(self.key, "a" * 12, of_rows(self.key, "a" * 12, told))
            part = Part("out", i, len(rows), digest, keyed=keyed)
            participants.append(Participant("out", str(prepared.handle), (part,), said(prepared.to_json())))
        offsets = f'v1\n{{"batchTimestampMs":{number}}}\n{{"in":{{"0":{10 * (number + 1)}}}}}'
        assert self.journal.append(Decide(1, number, offsets, ("out",), tuple(participants))) == Appended()
        for prepared in held:
            if lost:
                transactions.abort(self.client, [prepared.handle])
            else:
                self.commit(prepared)
        if receipted:
            self.journal.keep_receipts()
        self.handles[number] = [prepared.handle for prepared in held]

    def audit(self, name="out", files=None, **asked):
        """What an audit finds where the sink has this name, and its report."""
        where = {"cluster": "one", "connect": self.cluster.connection}
        sink = {"name": name, "kind": "kafka", "topic": self.topic, **where}
        asked = {"patience_s": 10.0} | asked
        began = time.monotonic()
        findings = audit(Asked(files or self.folder, [sink], **asked))
        self.took_s = time.monotonic() - began
        return findings.report(shared=False)

    def close(self):
        """Let go of the connection."""
        self.client.close()


def rows(first, count):
    """Rows with keys and values of many lengths, some null."""
    return [
        (None if n % 7 == 0 else b"k%d" % (n % 13), None if n % 11 == 5 else b"value %d " % n + b"x" * (n % 90))
        for n in range(first, first + count)
    ]


def whats(report, kind):
    """What is said of one kind."""
    return [each["what"] for each in report["findings"] if each["kind"] == kind]
