"""Sinks of a database over SQLite, as the conformance suite takes them."""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from onceflow.connectors.database.sink import DatabaseSink
from onceflow.testing import World

FIELDS = StructType([StructField("key", StringType()), StructField("amount", LongType())])


def forged_journal(path, *, wal):
    """The journal, or the write-ahead log, of a database with a row of somebody's."""
    with sqlite3.connect(path) as file:
        if wal:
            file.execute("pragma journal_mode=wal")
        file.execute("create table payments (key text, amount bigint)")
        file.execute("insert into payments values ('forged', 1)")
        file.commit()
        data = path.with_name(f"{path.name}-wal").read_bytes() if wal else _hot(path.read_bytes())
    file.close()
    return data


def _hot(data):
    """A journal by which SQLite, for a process that has died, puts back each of these pages."""
    size = struct.unpack_from(">H", data, 16)[0]
    pages = [data[at : at + size] for at in range(0, len(data), size)]
    head = bytes.fromhex("d9d505f920a163d7") + struct.pack(">5I", len(pages), 0, len(pages), 512, size)
    sums = (struct.pack(">I", sum(page[size - 200 : 0 : -200])) for page in pages)
    body = (struct.pack(">I", n) + page + check for n, (page, check) in enumerate(zip(pages, sums, strict=True), 1))
    return head.ljust(512, b"\0") + b"".join(body)


class SqliteWorld(World):
    """A table in a file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "bank.db"

    def sink(self) -> DatabaseSink:
        return DatabaseSink(f"sqlite:///{self.path}", "payments", create_table=True)

    def second_sink(self) -> DatabaseSink:
        sink = self.sink()
        sink.name = "second"
        return sink

    def output(self) -> StructType:
        return FIELDS

    def rows(self, keys):
        hashes = [hash(key) for key in keys]
        return pa.RecordBatch.from_pydict({"key": list(keys), "amount": [1] * len(keys), "onceflow_hash": hashes})

    def visible(self):
        with sqlite3.connect(self.path, timeout=30) as file:
            return [key for (key,) in file.execute("select key from payments")]

    def whole(self):
        """Each row, by column."""
        with sqlite3.connect(self.path, timeout=30) as file:
            file.row_factory = sqlite3.Row
            return [dict(row) for row in file.execute("select * from payments")]

    def staged(self):
        with sqlite3.connect(self.path, timeout=30) as file:
            return file.execute("select count(*) from payments_onceflow_staged").fetchone()[0]

    def open_transactions(self, job_id):
        with sqlite3.connect(self.path, timeout=30) as file:
            query = "select count(*) from onceflow_attempts where job=? and state <> 'aborted'"
            return file.execute(query, [job_id]).fetchone()[0]


class Upserting(SqliteWorld):
    """A table whose rows are known by a key, made by somebody else."""

    def __init__(self, folder: Path, key: str) -> None:
        super().__init__(folder)
        with sqlite3.connect(self.path) as file:
            file.execute(f"create table payments (key {key}, amount bigint)")

    def sink(self) -> DatabaseSink:
        return DatabaseSink(f"sqlite:///{self.path}", "payments", key="key")


DELETABLE = StructType([*FIELDS.fields, StructField("gone", BooleanType())])


class Saying:
    """Of a world's table: what a row says is its amount, a number that stands for a word."""

    more: dict[str, object]

    def output(self) -> StructType:
        return DELETABLE if "delete_when" in self.more else FIELDS

    def rows(self, keys):
        return self.rows_saying(keys, "")

    def rows_saying(self, keys, word):
        """The word "gone" is a delete, where there are deletes."""
        columns = {"key": list(keys), "amount": [WORDS.index(word)] * len(keys)}
        if "delete_when" in self.more:
            columns["gone"] = [int(word == "gone")] * len(keys)
        return pa.RecordBatch.from_pydict(columns | {"onceflow_hash": [hash((key, word)) for key in keys]})

    def says(self):
        return {key: WORDS[amount] for key, amount in self.pairs()}


class Keyed(Saying, SqliteWorld):
    """A table whose rows are known by a key, made by the sink."""

    patience_s = 0.2

    def __init__(self, folder: Path, **more: object) -> None:
        super().__init__(folder)
        self.more = {"key": "key", "create_table": True} | more

    def sink(self) -> DatabaseSink:
        return DatabaseSink(f"sqlite:///{self.path}", "payments", **self.more)

    def pairs(self):
        with sqlite3.connect(self.path, timeout=30) as file:
            return file.execute("select key, amount from payments").fetchall()


WORDS = ("", "seven", "eight", "three, of the next start", "nine", "ten", "late", "new", "gone", "one", "two")
