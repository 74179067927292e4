"""A sink of your own: the column ``key`` of each row to a SQLite file, exactly once. Readers ask the view ``shown``."""

import json
import sqlite3
import uuid
from contextlib import closing
from functools import partial

from pyspark.sql.functions import col

import onceflow as of
from onceflow.sinks import OpenShard, Outcome, ShardCommitter, Sink, SinkConnection, Writer

TABLES = (
    "create table if not exists shards (handle primary key, job, sink, incarnation, epoch, state, keys)",
    "create view if not exists shown as select value as key from shards, json_each(keys) where state = 'committed'",
    "create table if not exists file (id)",
    "insert into file select lower(hex(randomblob(8))) where not exists (select * from file)",
)


def ask(path, statement, *values):  # one statement, durable when it returns; what it has found
    with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as file:
        return file.execute(statement, values).fetchall()


class FileWriter(Writer):  # rows wait in memory here; where they are many they are kept as they come
    def __init__(self, sink, shard):
        self.sink, self.run, self.keys = sink, shard.run, []

    def write(self, rows):
        self.keys += rows.column("key").to_pylist()

    def prepare(self):
        kept = [uuid.uuid4().hex, self.run.job_id, self.sink.name, self.run.incarnation, self.run.epoch]
        ask(self.sink.path, "insert into shards values (?, ?, ?, ?, ?, 'open', ?)", *kept, json.dumps(self.keys))
        return {"handle": kept[0]}


class FileCommitter(ShardCommitter):
    def __init__(self, path, sink, job_id):
        super().__init__(sink, job_id)
        self.path = path

    def state(self, handle):
        found = ask(self.path, "select state from shards where handle = ?", handle)
        return Outcome(found[0][0] if found else "unknown")

    def end(self, handle, outcome):
        ask(self.path, "update shards set state = ? where handle = ? and state = 'open'", outcome.value, handle)

    def open_shards(self):
        query = "select handle, sink, incarnation, epoch from shards where job = ? and state = 'open'"
        return [OpenShard(*row) for row in ask(self.path, query, self.job_id)]


class FileConnection(SinkConnection):
    def __init__(self, sink):
        for statement in TABLES:
            ask(sink.path, statement)
        self.sink, self.system_id = sink, ask(sink.path, "select id from file")[0][0]

    def writer_factory(self):
        return partial(FileWriter, self.sink)

    def committer(self, prefix, job_id):
        return FileCommitter(self.sink.path, self.sink.name, job_id)


class FileSink(Sink):
    guarantee = of.Guarantee.EXACTLY_ONCE

    def __init__(self, path, name="file"):
        self.path, self.name = path, name

    def connect(self):
        return FileConnection(self)

    def columns(self, fields):
        return [col("key")]
