"""A table that a job has filled, with its receipts, without Spark: by the sink's own writers and committer."""

import json
import sqlite3
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from onceflow import DatabaseSink
from onceflow.audit.verify import Asked, audit
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.trail import Trail
from onceflow.storage.store import Store
from onceflow.testing.trial import Start, World
from onceflow.twophase.layout import Layout
from onceflow.twophase.messages import Appended, Reply
from onceflow.twophase.records import Decide, LayoutRecord, Resolve
from tests.support.keyed_rows import kept, of_rows
from tests.support.xx64 import of_columns, xx64

JOB = "a" * 12
FIELDS = [["key", "string"], ["amount", "int"]]


def signed(found):
    """As a column of longs has it."""
    return found - (1 << 64) if found >= 1 << 63 else found


def _octets(amount):
    return amount.to_bytes(4, "little", signed=True)


def hashed(key, amount):
    """A row's hash, as Spark makes it."""
    return signed(of_columns(key.encode(), _octets(amount)))


class Payments(World):
    """A table of keys and amounts.

    Args:
        url: Of the database.
        key: What it is upserted by; None appends.
    """

    def __init__(self, url, key=None):
        self.url = url
        self.key = key

    def sink(self):
        return DatabaseSink(self.url, "payments", create_table=True, key=self.key)

    def output(self):
        return StructType([StructField("key", StringType()), StructField("amount", IntegerType())])

    def rows(self, keys):
        amounts = [len(key) for key in keys]
        hashes = [hashed(key, amount) for key, amount in zip(keys, amounts, strict=True)]
        columns = {"key": keys, "amount": pa.array(amounts, pa.int32()), "onceflow_hash": pa.array(hashes, pa.int64())}
        return pa.RecordBatch.from_pydict(columns)

    def visible(self):
        raise NotImplementedError


class Filled:
    """A checkpoint in a folder and a table, with an epoch for each list of keys."""

    def __init__(self, folder, url, *epochs, key=None, audit_key=None):
        self.folder, self.url, self.key, self.audit_key = folder, url, key, audit_key
        records = Store(folder / "onceflow" / "journal")
        records.make()
        self.journal = Journal(records)
        self.journal.start(JOB)
        about = json.dumps({"sinks": {"payments": {"destination": "payments", "columns": [], "fields": FIELDS}}})
        self.journal.audited(Trail(Store(folder / "onceflow" / "audit"), key=audit_key), about)
        assert self.journal.append(LayoutRecord(1, Layout())) == Appended()
        self.start = Start(Payments(url, key), JOB)
        for number, keys in enumerate(epochs):
            self.epoch(number, keys)

    def epoch(self, number, keys, *, receipted=True, chosen=None):
        held = self.start.prepare(keys, epoch=number)
        if self.audit_key is not None:
            held = [self._with_digest(p, keys) for p in held]
        offsets = f'v1\n{{}}\n{{"in":{{"0":{number}}}}}'
        assert self.journal.append(Decide(1, number, offsets, ("payments",), tuple(held))) == Appended()
        if chosen:
            self.start.committer.abort(held)
            resolve = Resolve(1, number, chosen, tuple(p.id for p in held), "ann@desk", "the disk is gone")
            assert self.journal.append(resolve) == Appended()
        else:
            assert set(self.start.committer.commit(held).values()) == {Reply.COMMITTED}
        if receipted:
            self.journal.keep_receipts()

    def _with_digest(self, participant, keys):
        """A participant, its only part with the keyed digest of these rows, as a task makes it."""
        told = [[key.encode(), b"%d" % signed(xx64(_octets(len(key)), 42))] for key in keys]
        made = kept(self.audit_key, JOB, of_rows(self.audit_key, JOB, told))
        (part,) = participant.parts
        return replace(participant, parts=(replace(part, keyed=made),))

    def audit(self, name="payments", **asked):
        """The report of an audit, where the sink has this name."""
        sink = {"name": name, "kind": "database", "destination": "payments", "url": self.url, "schema": None}
        sink |= {"table": "payments", "table_schema": None, "key": [self.key] if self.key else []}
        return audit(Asked(self.folder, [sink], **asked)).report(shared=False)


def whats(report, kind):
    """What is said of one kind."""
    return [each["what"] for each in report["findings"] if each["kind"] == kind]


def change(filled: Filled, statement: str) -> None:
    """Edit one row."""
    with sqlite3.connect(filled.url.removeprefix("sqlite:///")) as connection:
        assert connection.execute(statement).rowcount == 1


def let_go_of_the_first(folder):
    """The first receipt is older than the retention, and the journal has forgotten its epoch."""
    (trail,) = (folder / "onceflow" / "audit").glob("*.jsonl")
    trail.write_bytes(b"".join(trail.read_bytes().splitlines(keepends=True)[1:]))
    for path in (folder / "onceflow" / "journal").glob("*.json"):
        entry = json.loads(path.read_bytes())
        if entry["kind"] == "decide" and entry["record"]["epoch"] == 0:
            path.unlink()
