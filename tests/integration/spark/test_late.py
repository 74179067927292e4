"""Rows that come behind the watermark: what is told of them is what somebody else counts, on real Spark."""

import json
import os
import random
from datetime import datetime

import pytest
from pyspark.sql import functions as F  # noqa: N812

from onceflow.execution.progress import late_by_operator
from onceflow.spark.session import PINNED
from tests.support import checkpoints

pytestmark = pytest.mark.spark
START, DELAY = 1_767_225_600, 5  # seconds


def windows(rows):
    return rows.groupBy(F.window("at", "10 seconds"), "who").count()


def distinct(rows):
    return rows.dropDuplicates(["who", "n", "at"])


def pairs(rows):
    near = F.expr("a.who = b.who and b.at between a.at and a.at + interval 1 second")
    return rows.alias("a").join(rows.alias("b"), near).select("a.n")


def ends_of_window(second):
    return second - second % 10 + 10


# What the watermark has to have passed for a row to be late, and how often the plan looks at each row.
PLANS = {
    "aggregation": (windows, ends_of_window, 1),
    "deduplication": (distinct, lambda second: second, 1),
    "join": (pairs, lambda second: second, 2),
}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.faults) for seed in (1, 2))])
@pytest.mark.parametrize("operator", PLANS)
def test_late_rows_are_as_many_as_an_independent_count_finds(spark, tmp_path, operator, seed):
    """Over epochs of random times, some far behind: each operator's number, an aggregation's as a least one."""
    make, passed_at, looks = PLANS[operator]
    session, numbers = spark.newSession(), random.Random(seed)
    for key, value in PINNED.items():
        session.conf.set(key, value)
    (tmp_path / "rows").mkdir()
    epochs = []
    for epoch in range(5):
        times = [START + 20 * epoch + numbers.choice([-40, -7, 0, 0]) + numbers.randrange(20) for _ in range(30)]
        epochs.append(times)
        lines = [json.dumps({"who": "ab"[n % 2], "n": 100 * epoch + n, "s": s}) for n, s in enumerate(times)]
        checkpoints.write(tmp_path / "rows" / f"{epoch}.json", "\n".join(lines))
        os.utime(tmp_path / "rows" / f"{epoch}.json", (epoch, epoch))  # Spark takes the oldest first
    rows = session.readStream.option("maxFilesPerTrigger", 1).schema("who string, n int, s long")
    rows = rows.json(str(tmp_path / "rows")).withColumn("at", F.timestamp_seconds("s"))
    frame = make(rows.withWatermark("at", f"{DELAY} seconds"))
    writer = frame.writeStream.option("checkpointLocation", f"file:{tmp_path / 'checkpoint'}")
    query = writer.foreachBatch(lambda batch, _: batch.collect()).trigger(availableNow=True).start()
    query.awaitTermination()
    told = [json.loads(each.json) for each in query.recentProgress]
    # A row is late in an epoch where the watermark of the epoch before has passed it.
    marks = {each["batchId"]: seconds_of(each["eventTime"]["watermark"]) for each in told}
    read = iter(epochs)
    for each in told:
        times = next(read) if each["numInputRows"] else []
        late = [second for second in times if passed_at(second) <= marks.get(each["batchId"] - 1, 0)]
        found = late_by_operator(each["stateOperators"]).get(operator, 0)
        if operator == "aggregation":
            assert bool(late) == bool(found)
            assert found <= len(late)
        else:
            assert found == looks * len(late)
    assert any(late_by_operator(each["stateOperators"]) for each in told)


def seconds_of(text):

    return datetime.fromisoformat(text).timestamp()
