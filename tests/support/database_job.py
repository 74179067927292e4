"""A job over SQLite, as operators' tools look at it."""

from __future__ import annotations

import sqlite3

import pyarrow as pa

from onceflow.checkpoint.identity import Mark
from onceflow.connectors.contract import Shard
from onceflow.connectors.database.sink import DatabaseSink
from onceflow.twophase.participants import TaskReport
from onceflow.twophase.records import Decide
from tests.support.histories import part
from tests.support.ledger_job import HEAD, LedgerJob
from tests.support.sqlite_worlds import FIELDS
from tests.support.starts import identify, place_of


class DatabaseJob(LedgerJob):
    """A job on SQLite that died after its first epoch's decision, which covers two tasks; a third lost a race."""

    def __init__(self, folder):
        self.file, self.folder, self.beside = folder / "bank.db", folder / "checkpoint", []
        self.sink = DatabaseSink(f"sqlite:///{self.file}", "payments", name="ledger", create_table=True)
        self.connection = self.sink.connect()
        self.connection.make_output(FIELDS)
        self.job_id = identify(self.folder, systems=self.connection.system_id).job_id
        self.committer = self.connection.committer("onceflow", self.job_id)
        self.place = place_of(self.folder)
        self.place.records.make()
        self.place.journal.start(self.job_id)
        self.committer.marks().write(Mark(1, self.place.journal.start_nonce, -1).dumps())
        told = [self.write(shard, key) for shard, key in enumerate("ab")]
        (self.decided,) = self.committer.seal(told, self.run(1))
        assert self.committer.check([self.decided], self.run(1), 0.0) is None
        self.append(Decide(1, 0, HEAD + '{"t":{"0":5}}', ("ledger",), (self.decided,)))
        self.late = self.write(7, "late", epoch=1)

    def write(self, shard, key, incarnation=1, epoch=0):
        writer = self.connection.writer_factory()(Shard(self.run(incarnation, epoch), shard, 0))
        writer.write(pa.RecordBatch.from_pydict({"key": [key], "amount": [1], "onceflow_hash": [shard]}))
        return TaskReport("ledger", shard, 0, (part(shard, sink="ledger"),), writer.prepare())

    def visible(self):
        with sqlite3.connect(self.file) as file:
            return sorted(key for (key,) in file.execute("select key from payments"))
