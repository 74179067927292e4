"""State in another number of shuffle partitions: what each key has before and after, by Spark's own reader of it."""

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812

from onceflow.checkpoint.identity import JobIdentity, create_identity
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.spark_files import positions
from onceflow.errors import ConfigurationError, EpochFailedError
from onceflow.operations.savepoints.reading import verify
from onceflow.operations.savepoints.rescaling import rescale
from onceflow.operations.savepoints.restoring import restore
from onceflow.operations.savepoints.writing import create
from onceflow.spark import internals
from onceflow.spark import repartition as repartitioning
from onceflow.spark.session import PINNED
from onceflow.twophase.layout import Layout, LayoutSource
from onceflow.twophase.records import LayoutRecord
from tests.support import checkpoints
from tests.support.counting import NEEDS_PROTOBUF, Counting

pytestmark = [pytest.mark.spark, pytest.mark.faults]


class Timed(Counting):
    """The same, with a timer for each key, which says the key with a 0."""

    def init(self, handle):
        super().init(handle)
        self.handle = handle

    def handleInputRows(self, key, rows, timers):  # noqa: N802 - Spark's names
        self.handle.registerTimer(1_767_312_000_000)  # 2026-01-02
        yield from super().handleInputRows(key, rows, timers)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802, N803 - Spark's names
        yield Row(key=key[0], n=0)


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


def timed(records):
    by_key = records("left").withWatermark("at", "1 hour").groupBy("key")
    return by_key.transformWithState(Timed(), "key string, n long", "update", "eventTime"), "update"


def totalled(records):
    return records("left").agg(F.count("*").alias("n"), F.lit("k0").alias("key")), "update"


def once(records):
    return records("left").withWatermark("at", "1 day").dropDuplicates(["key", "v"]), "append"


def visits(records):
    left = records("left").withWatermark("at", "1 day")
    return left.groupBy(F.session_window("at", "5 minutes"), "key").agg(F.count("*").alias("n")), "append"


SEEN = {
    "counted": [{}],
    "once": [{}],
    "visits": [{}],
    "totalled": [{}],
    "joined": [{"joinSide": "left"}, {"joinSide": "right"}],
    "transformed": [{"stateVarName": "count"}],
    "timed": [{"stateVarName": "count"}, {"readRegisteredTimers": "true"}],
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


def put(folder: Path, number: int):
    """A hundred records for each side."""
    rows = [
        {"key": f"k{i % 40}", "v": i, "at": "2026-01-01T00:00:00Z"} for i in range(number * 100, number * 100 + 100)
    ]
    for side in ("left", "right"):
        checkpoints.write(folder / side / f"{number}.json", "\n".join(map(json.dumps, rows)))


def run(session, tmp_path: Path, plan, name: str):
    """The rows of a query that reads what is there, with its checkpoint under a name."""

    def records(side):
        reader = session.readStream.schema("key string, v long, at timestamp").option("maxFilesPerTrigger", 1)
        return reader.json(str(tmp_path / side))

    rows = []
    frame, mode = plan(records)
    writer = frame.writeStream.outputMode(mode).option("checkpointLocation", f"file:{tmp_path / name}")
    query = writer.foreachBatch(lambda batch, _: rows.extend(batch.collect())).trigger(availableNow=True).start()
    query.awaitTermination()
    return rows


def saved(session, tmp_path: Path, plan) -> Place:
    """The checkpoint of a query that has read 300 records, and a savepoint of it, ``two``."""
    for number in range(3):
        put(tmp_path, number)
    run(session, tmp_path, plan, "old")
    place = Place.at(tmp_path / "old", retain=100)
    place.ours.make()
    place.records.make()
    create_identity(place.ours, JobIdentity(checkpoints.JOB, place.uri, "cluster", "onceflow"))
    place.journal.start(checkpoints.JOB)
    stand = len(positions(place.checkpoint.offsets(2)))
    sources = tuple(LayoutSource(("out",), "", f"files {i}", str(i), same_as=i) for i in range(stand))
    place.journal.append(LayoutRecord(1, Layout(sources)))
    create(place, tmp_path / "two")
    return place


CLASSES = [pytest.param(plan, marks=NEEDS_PROTOBUF) for plan in (transformed, timed)]


@pytest.mark.parametrize("plan", [counted, joined, once, visits, *CLASSES])
def test_two_become_four_and_then_three(session, tmp_path, plan):
    """Each key has what it had, where a query looks for it; and a query that goes on from there counts on."""
    saved(session, tmp_path, plan)
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
    put(tmp_path, 3)
    rows = run(session, tmp_path, plan, "new-three")
    if plan in (counted, transformed, timed):
        newest = {row["key"]: row["n"] for row in rows}
        assert newest == {f"k{k}": len([i for i in range(400) if i % 40 == k]) for k in range(40) if f"k{k}" in newest}
        assert len(newest) == 40
    elif plan is joined:
        # Each row of a key meets all of the other side: 10 of each key were there, and 2 or 3 have come.
        per_key = [Counter(i % 40 for i in range(n)) for n in (300, 400)]
        assert len(rows) == sum(per_key[1][k] ** 2 - per_key[0][k] ** 2 for k in range(40))


@NEEDS_PROTOBUF
def test_timers_fire_where_they_were_put(session, tmp_path):
    """Each once, behind the time that it waited for."""
    saved(session, tmp_path, timed)
    rescale(session, tmp_path / "two", tmp_path / "four", 4)
    restore(tmp_path / "four", verify(tmp_path / "four"), Place.at(tmp_path / "new", retain=100))
    for number in (3, 4):
        row = {"key": "late", "v": number, "at": "2026-02-01T00:00:00Z"}
        checkpoints.write(tmp_path / "left" / f"{number}.json", json.dumps(row))
    fired = Counter(row["key"] for row in run(session, tmp_path, timed, "new") if not row["n"])
    assert {key: fired[key] for key in fired if key != "late"} == {f"k{k}": 1 for k in range(40)}


def test_state_without_keys_is_where_a_query_looks_for_it_or_is_refused(session, tmp_path):
    """A query has it in partition 0 whatever their number; Spark's repartition puts it into 42 mod that number."""
    saved(session, tmp_path, totalled)
    with pytest.raises(ConfigurationError, match=r"state without keys.*partition 2 of 4") as refused:
        rescale(session, tmp_path / "two", tmp_path / "four", 4)
    assert "3, 6, 7, 14, 21 or 42" in refused.value.action
    assert not (tmp_path / "four").exists()
    assert not [path.name for path in tmp_path.iterdir() if path.name not in ("left", "right", "old", "two")]
    rescale(session, tmp_path / "two", tmp_path / "three", 3)
    restore(tmp_path / "three", verify(tmp_path / "three"), Place.at(tmp_path / "new-three", retain=100))
    put(tmp_path, 3)
    assert [row["n"] for row in run(session, tmp_path, totalled, "new-three")] == [400]


def test_state_that_spark_puts_elsewhere_is_no_savepoint(session, tmp_path, monkeypatch):
    """Each entry must lie where a query looks for its key, whichever operator it is of."""
    saved(session, tmp_path, counted)

    def one_less(session, checkpoint, partitions):
        internals.repartition_state(session, checkpoint, partitions - 1)

    monkeypatch.setattr(repartitioning, "repartition_state", one_less)
    with pytest.raises(EpochFailedError, match="is not what it was: stateStoreSave 0"):
        rescale(session, tmp_path / "two", tmp_path / "four", 4)
    assert not (tmp_path / "four").exists()
