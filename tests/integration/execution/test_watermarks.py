"""A watermark over several sources: after a restart it stands still until each has a new record; what waits is kept."""

import json

import pytest
from pyspark.sql import functions as F  # noqa: N812

from onceflow.spark.session import PINNED
from tests.support import checkpoints

pytestmark = [pytest.mark.spark, pytest.mark.faults]

EARLY, LATE, LATER = "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z"


@pytest.fixture
def world(spark, tmp_path):
    """Two sources and an outer join of them: ``put(side, ...)`` writes a record, ``run()`` gives what comes out."""
    session = spark.newSession()
    for key, value in PINNED.items():
        session.conf.set(key, value)

    def put(side, key, at):
        number = len(list((tmp_path / side).glob("*.json")))
        checkpoints.write(tmp_path / side / f"{number}.json", json.dumps({"key": key, "at": at}))

    def read(side):
        (tmp_path / side).mkdir(exist_ok=True)
        frame = session.readStream.schema("key string, at timestamp").option("maxFilesPerTrigger", 1)
        return frame.json(str(tmp_path / side)).withWatermark("at", "1 minute").alias(side)

    def run():
        near = F.expr("a.key = b.key and b.at between a.at and a.at + interval 1 hour")
        frame, rows = read("a").join(read("b"), near, "left_outer").select("a.key", "b.at"), []
        writer = frame.writeStream.option("checkpointLocation", f"file:{tmp_path / 'checkpoint'}")
        query = writer.foreachBatch(lambda batch, _: rows.extend(batch.collect())).trigger(availableNow=True).start()
        query.awaitTermination()
        return sorted(row["key"] for row in rows)

    return put, run


def test_without_a_restart_one_record_of_each_source_is_enough(world):
    """The sources reach their times in different epochs of one run: what found no partner comes out by time."""
    put, run = world
    put("a", "alone", EARLY)
    put("a", "closing", LATE)
    put("b", "other", EARLY)
    put("b", "closing-b", LATE)
    assert run() == ["alone"]


def test_behind_a_restart_rows_wait_for_a_record_of_each_and_are_not_lost(world):
    """One source reached its time before the restart, the other behind it: the row waits, and comes once, late."""
    put, run = world
    put("a", "alone", EARLY)
    put("a", "closing", LATE)
    put("b", "other", EARLY)
    assert run() == []
    put("b", "closing-b", LATE)
    assert run() == [], "Spark has forgotten what the first source had reached"
    put("a", "closing-2", LATER)
    assert run() == [], "and now what the second one had"
    put("a", "closing-3", LATER)
    put("b", "closing-c", LATER)
    assert run() == ["alone", "closing"]
