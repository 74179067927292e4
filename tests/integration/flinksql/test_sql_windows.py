"""Windows of windows and watermarks on real Spark: what a plan's shape must not change.

Expected rows are those of the same query over the same rows at rest, or written down by hand as Flink gives them.
"""

import json
import os

import pytest
from pyspark.sql import functions as F  # noqa: N812

from onceflow.checkpoint.place import Place
from onceflow.spark.session import PINNED
from tests.support import checkpoints
from tests.support.sql_jobs import jobs_of, read

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

EVENTS = """
SET 'onceflow.source.max-ahead' = 'none';
CREATE TABLE events (
    kind STRING, who STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
    'connector' = 'kafka', 'topic' = '{IN}', 'properties.bootstrap.servers' = 'kafka:9092',
    'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json'
);
CREATE VIEW bids AS SELECT who, ts FROM events WHERE kind = 'bid';
CREATE VIEW persons AS SELECT who, ts FROM events WHERE kind = 'person';
CREATE VIEW sellers AS SELECT who, ts FROM events WHERE kind = 'seller';
CREATE TABLE found (s TIMESTAMP(3), who STRING, n BIGINT) WITH (
    'connector' = 'kafka', 'topic' = '{OUT}', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json'
);
INSERT INTO found {QUERY};
"""
COUNTS = """SELECT window_start AS s, window_end AS e, who, COUNT(*) AS n
    FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE))
    GROUP BY who, window_start, window_end"""
HOTTEST = f"""SELECT counts.s, counts.who, counts.n FROM ({COUNTS}) counts
    JOIN (SELECT MAX(n) AS most, s, e FROM ({COUNTS}) GROUP BY s, e) greatest
    ON counts.s = greatest.s AND counts.e = greatest.e AND counts.n >= greatest.most"""
GROUPED = """SELECT window_start AS s, window_end AS e, who
    FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY who, window_start, window_end"""
BOTH = f"""SELECT p.s, p.who, CAST(1 AS BIGINT) FROM ({GROUPED.format("persons")}) p
    JOIN ({GROUPED.format("sellers")}) q ON p.who = q.who AND p.s = q.s AND p.e = q.e"""


def found_by(query, records, cluster, new_topic, produce, folder):
    source, sink = new_topic(), new_topic()
    produce(source, [json.dumps(dict(zip(("kind", "who", "ts"), each, strict=True))) for each in records])
    text = EVENTS.replace("{IN}", source).replace("{OUT}", sink).replace("{QUERY}", query)
    (pipeline,) = jobs_of(text, cluster, folder)
    pipeline.job.run(until="caught-up")
    place = Place.at(pipeline.job.checkpointing.location, pipeline.job.checkpointing.retain)
    counted = sum(sum(epoch.records_in.values()) for epoch in place.statistics.read())
    assert counted == len(records), "each record once, though the plan reads it twice"
    return sorted((row["s"][11:], row["who"], row["n"]) for _, row in read(cluster, sink))


def bid(who, time):
    return "bid", who, f"2026-01-01 {time}"


FAR = ("bid", "zoe", "2099-01-01 00:00:00")


def test_a_join_of_windows_with_windows_of_the_same_windows(cluster, spark, new_topic, produce, tmp_path):
    """Who has the most of each window: the counts, joined with the greatest of the same counts."""
    records = [bid("ann", "10:00:05"), bid("bob", "10:00:10"), bid("ann", "10:00:25"), bid("bob", "10:01:10"), FAR]
    assert found_by(HOTTEST, records, cluster, new_topic, produce, tmp_path) == [
        ("09:59:00", "ann", 2),
        ("10:00:00", "ann", 2),
        ("10:00:00", "bob", 2),
        ("10:01:00", "bob", 1),
    ]


@pytest.mark.faults
def test_a_row_that_a_filter_leaves_out_moves_the_watermark_all_the_same(cluster, spark, new_topic, produce, tmp_path):
    """The watermark is the table's: rows of another kind close the windows behind a WHERE."""
    records = [("person", "ann", "2026-01-01 10:00:05"), ("seller", "ann", "2026-01-01 10:00:10"), FAR]
    assert found_by(BOTH, records, cluster, new_topic, produce, tmp_path) == [("10:00:00", "ann", 1)]


@pytest.fixture
def world(spark, tmp_path):
    """Rows in files, one file an epoch; ``at_rest(make)`` and ``streamed(make)`` give what a plan makes of them."""
    session, folder = spark.newSession(), tmp_path / "rows"
    for key, value in PINNED.items():
        session.conf.set(key, value)
    folder.mkdir()
    for number in range(4):
        rows = [{"who": "abc"[(i * i) % 3], "at": f"2026-01-01T00:0{number}:{i:02}Z"} for i in range(0, 60, 7)]
        rows += [{"who": "z", "at": "2099-01-01T00:00:00Z"}] if number == 3 else []
        checkpoints.write(folder / f"{number}.json", "\n".join(map(json.dumps, rows)))
        os.utime(folder / f"{number}.json", (number, number))  # Spark takes the oldest first

    def rows_of(reader, make):
        frame = reader.schema("who string, at timestamp").json(str(folder)).withWatermark("at", "1 second")
        return make(frame)

    def in_time(rows):
        return sorted(str(tuple(row)) for row in rows if row["w"].end.year < 2099)

    def at_rest(make):
        return in_time(rows_of(session.read, make).collect())

    def streamed(make):
        frame, rows = rows_of(session.readStream.option("maxFilesPerTrigger", 1), make), []
        writer = frame.writeStream.option("checkpointLocation", f"file:{tmp_path / 'checkpoint'}")
        query = writer.foreachBatch(lambda batch, _: rows.extend(batch.collect())).trigger(availableNow=True).start()
        query.awaitTermination()
        kept = [state["numRowsTotal"] for state in json.loads(query.lastProgress.json)["stateOperators"]]
        return in_time(rows), kept

    return at_rest, streamed


def counts(frame):
    return frame.groupBy(F.window("at", "30 seconds").alias("w"), "who").count()


def totals(frame):
    return frame.groupBy(F.window("at", "30 seconds").alias("w")).agg(F.count("*").alias("total"))


def most(frame):
    return counts(frame).groupBy("w").agg(F.max("count").alias("most"))


STACKED = {
    "windows with the same windows": lambda rows: totals(rows).join(totals(rows).withColumnRenamed("total", "t"), "w"),
    "windows with windows of them": lambda rows: counts(rows).join(most(rows), "w"),
    "windows of windows with the same": lambda rows: most(rows).join(most(rows).withColumnRenamed("most", "m"), "w"),
    "windows and the same in one": lambda rows: totals(rows).unionByName(totals(rows)),
}


@pytest.mark.faults
@pytest.mark.parametrize("shape", STACKED)
def test_what_a_plan_reads_twice_is_given_as_at_rest_and_its_state_ends(world, shape):
    """Where two parts of a plan shuffle the same rows each of them knows the watermark, and lets go what it passed."""
    at_rest, streamed = world
    rows, kept = streamed(STACKED[shape])
    assert rows == at_rest(STACKED[shape])
    assert max(kept) <= 1, "the last window alone is left"
