"""A sink to a store without transactions: each row is put under its key, and put again where its epoch is run again."""

import sqlite3
from functools import partial

from pyspark.sql.functions import col, struct, to_json

import onceflow as of
from onceflow.sinks import Sink, SinkConnection, Writer

# The store: a file of keys and values. All that is asked of it is to put one pair, if nothing newer is there.
PAIRS = "create table if not exists pairs (key text primary key, value text, start int, epoch int)"
PUT = """insert into pairs values (?, ?, ?, ?) on conflict (key) do update set
    value = excluded.value, start = excluded.start, epoch = excluded.epoch
    where (start, epoch) <= (excluded.start, excluded.epoch)"""


class StoreWriter(Writer):
    def __init__(self, path, shard):
        # Starts of a job only rise, and epochs within a start: so a task that comes late replaces nothing newer.
        self.version = shard.run.incarnation, shard.run.epoch
        self.store = sqlite3.connect(path, timeout=30, isolation_level=None)  # each put is durable when it returns

    def write(self, rows):
        for key, value in zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True):
            self.store.execute(PUT, (key, value, *self.version))

    def prepare(self):  # nothing is left to be decided: every row is where it belongs
        self.store.close()


class StoreConnection(SinkConnection):
    def __init__(self, path):
        self.path = path

    def writer_factory(self):
        return partial(StoreWriter, self.path)


class StoreSink(Sink):
    guarantee = of.Guarantee.IDEMPOTENT_UPSERT

    def __init__(self, path, key, name="store"):
        self.path, self.key, self.name = path, key, name

    def connect(self):
        sqlite3.connect(self.path).execute(PAIRS).connection.close()
        return StoreConnection(self.path)

    def columns(self, fields):
        others = [col(name) for name in fields.names if name != self.key]
        return [col(self.key).cast("string").alias("key"), to_json(struct(*others)).alias("value")]
