"""A table that a job has filled, with its receipts, without Spark: by the sink's own writers and committer."""

import json

import pyarrow as pa
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from onceflow import DatabaseSink
from onceflow.audit.verify import Asked, audit
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.store import LocalStore
from onceflow.checkpoint.trail import Trail
from onceflow.testing.trial import Start, World
from onceflow.twophase.layout import Layout
from onceflow.twophase.messages import Appended, Reply
from onceflow.twophase.records import Decide, Planned, Resolve
from tests.unit.xx64 import of_columns

JOB = "a" * 12
FIELDS = [["key", "string"], ["amount", "int"]]


def hashed(key, amount):
    """A row's hash, as Spark makes it; signed, as a column of longs has it."""
    found = of_columns(key.encode(), amount.to_bytes(4, "little", signed=True))
    return found - (1 << 64) if found >= 1 << 63 else found


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

    def __init__(self, folder, url, *epochs, key=None):
        self.folder, self.url, self.key = folder, url, key
        records = LocalStore(folder / "onceflow" / "journal")
        records.make()
        self.journal = Journal(records)
        self.journal.start(JOB)
        about = json.dumps({"sinks": {"payments": {"destination": "payments", "columns": [], "fields": FIELDS}}})
        self.journal.audited(Trail(LocalStore(folder / "onceflow" / "audit")), about)
        assert self.journal.append(Planned(1, Layout())) == Appended()
        self.start = Start(Payments(url, key), JOB)
        for number, keys in enumerate(epochs):
            self.epoch(number, keys)

    def epoch(self, number, keys, *, receipted=True, chosen=None):
        held = self.start.prepare(keys, epoch=number)
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

    def audit(self, **asked):
        """The report of an audit."""
        sink = {"name": "payments", "kind": "database", "url": self.url, "schema": None}
        sink |= {"table": "payments", "table_schema": None, "key": [self.key] if self.key else []}
        return audit(Asked(self.folder, [sink], **asked)).report(shared=False)


def whats(report, kind):
    """What is said of one kind."""
    return [each["what"] for each in report["findings"] if each["kind"] == kind]
