"""State in another number of shuffle partitions: what each key has before and after, by Spark's own reader of it."""

import importlib.util
import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor

from onceflow.checkpoint.identity import JobIdentity, create_identity
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.spark_files import positions
from onceflow.operations.savepoints.reading import verify
from onceflow.operations.savepoints.rescaling import rescale
from onceflow.operations.savepoints.restoring import restore
from onceflow.operations.savepoints.writing import create
from onceflow.spark.session import PINNED
from onceflow.twophase.layout import Layout, Source
from onceflow.twophase.records import Planned
from tests.unit import checkpoints

pytestmark = [pytest.mark.spark, pytest.mark.faults]
NEEDS_PROTOBUF = pytest.mark.skipif(
    importlib.util.find_spec("google") is None or importlib.util.find_spec("google.protobuf") is None,
    reason="PySpark's transformWithState needs protobuf",
)


class Counting(StatefulProcessor):
    """Counts the rows of each key."""

    def init(self, handle):
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key, rows, timers):  # noqa: N802 - Spark's names
        before = self.count.get()[0] if self.count.exists() else 0
        self.count.update((before + sum(1 for _ in rows),))
        yield Row(key=key[0], n=self.count.get()[0])

    def close(self):
        """Nothing is open."""


def counted(records):
    return records("left").groupBy("key").agg(F.count("*").alias("n"), F.max("v").alias("most")), "update"


def joined(records):
    a = records("left").withWatermark("at", "1 day").alias("a")
    b = records("right").withWatermark("at", "1 day").alias("b")
    near = F.expr("a.key = b.key and a.at between b.at - interval 1 hour and b.at + interval 1 hour")
    return a.join(b, near).select("a.key", "a.v"), "append"


def transformed(records):
    return (
        records("left").groupBy("key").transformWithState(Counting(), "key string, n long", "update", "none"),
        "update",
    )


SEEN = {
    "counted": [{}],
    "joined": [{"joinSide": "left"}, {"joinSide": "right"}],
    "transformed": [{"stateVarName": "count"}],
}


def seen(session, folder, plan):
    """Each key's state, as Spark reads it; how many partitions have any of it."""
    found, partitions = [], set()
    for options in SEEN[plan.__name__]:
        for row in session.read.format("statestore").options(**options).load(f"file:{folder}").collect():
            told = row.asDict(recursive=True)
            partitions.add(told.pop("partition_id"))
            found.append(json.dumps(told, default=str, sort_keys=True))
    return Counter(found), partitions


@pytest.fixture
def session(spark):
    """A session as a job has it."""
    session = spark.newSession()
    for key, value in PINNED.items():
        session.conf.set(key, value)
    return session


@pytest.mark.parametrize("plan", [counted, joined, pytest.param(transformed, marks=NEEDS_PROTOBUF)])
def test_two_become_four_and_then_three(session, tmp_path, plan):
    """Each key has what it had, on one partition; and a query that goes on from there counts on."""

    def put(number):
        rows = [
            {"key": f"k{i % 40}", "v": i, "at": "2026-01-01T00:00:00Z"} for i in range(number * 100, number * 100 + 100)
        ]
        for side in ("left", "right"):
            checkpoints.write(tmp_path / side / f"{number}.json", "\n".join(map(json.dumps, rows)))

    def records(side):
        reader = session.readStream.schema("key string, v long, at timestamp").option("maxFilesPerTrigger", 1)
        return reader.json(str(tmp_path / side))

    def run(folder: Path):
        rows = []
        frame, mode = plan(records)
        writer = frame.writeStream.outputMode(mode).option("checkpointLocation", f"file:{folder}")
        query = writer.foreachBatch(lambda batch, _: rows.extend(batch.collect())).trigger(availableNow=True).start()
        query.awaitTermination()
        return rows

    for number in range(3):
        put(number)
    run(tmp_path / "old")
    place = Place.at(tmp_path / "old", retain=100)
    place.ours.make()
    place.records.make()
    create_identity(place.ours, JobIdentity(checkpoints.JOB, place.uri, "cluster", "onceflow"))
    place.journal.start(checkpoints.JOB)
    stand = len(positions(place.checkpoint.offsets(2)))
    sources = tuple(Source(("out",), "", f"files {i}", str(i), same_as=i) for i in range(stand))
    place.journal.append(Planned(1, Layout(sources)))
    create(place, tmp_path / "two")
    expected, _ = seen(session, tmp_path / "old", plan)
    assert sum(expected.values()) >= 40

    rescale(session, tmp_path / "two", tmp_path / "four", 4)
    rescale(session, tmp_path / "four", tmp_path / "three", 3)
    for name, partitions in (("four", 4), ("three", 3)):
        manifest = verify(tmp_path / name)
        assert (manifest.partitions, manifest.job_epoch) == (partitions, 2)
        new = Place.at(tmp_path / f"new-{name}", retain=100)
        restore(tmp_path / name, manifest, new)
        found, where = seen(session, new.checkpoint.folder, plan)
        assert found == expected
        assert where == set(range(partitions))
    (tmp_path / "old").rename(tmp_path / "gone")  # nothing in the new one is read from there
    put(3)
    rows = run(tmp_path / "new-three")
    if plan is not joined:
        newest = {row["key"]: row["n"] for row in rows}
        assert newest == {f"k{k}": len([i for i in range(400) if i % 40 == k]) for k in range(40) if f"k{k}" in newest}
        assert len(newest) == 40
    else:
        # Each row of a key meets all of the other side: 10 of each key were there, and 2 or 3 have come.
        per_key = [Counter(i % 40 for i in range(n)) for n in (300, 400)]
        assert len(rows) == sum(per_key[1][k] ** 2 - per_key[0][k] ** 2 for k in range(40))
