"""A job that takes another's positions and not its state: no window comes out that lacks what was read before."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter

import pytest
from pyspark.sql import functions as F  # noqa: N812

import onceflow as of
from onceflow.spark.cut_windows import hold_back
from onceflow.spark.marks import one_mark
from onceflow.twophase.layout import Cut
from tests.support.harness import JOBS, Pipeline

pytestmark = [pytest.mark.spark]

DELAY_S = 20
BEGIN = 1_700_000_000


def tumbling(events):
    return events.groupBy(F.window("time", "1 minute"), "user").count()


def sliding(events):
    return events.groupBy(F.window("time", "1 minute", "25 seconds").alias("w")).count().select("w.start", "count")


def of_windows(events):
    inner = events.groupBy(F.window("time", "10 seconds"), "user").count()
    return inner.groupBy(F.window(F.window_time("window"), "1 minute").alias("whole")).agg(F.sum("count").alias("n"))


def of_sliding(events):
    inner = events.groupBy(F.window("time", "40 seconds", "10 seconds")).count()
    return inner.groupBy(F.window(F.window_time("window"), "1 minute").alias("whole")).agg(F.sum("count").alias("n"))


def gathered_again(events):
    inner = events.groupBy(F.window("time", "40 seconds", "10 seconds"), "user").count()
    return inner.groupBy(F.col("window").alias("w")).agg(F.sum("count").alias("n"))


def of_others(events):
    inner = events.groupBy(F.window("time", "70 seconds"), "user").count()
    return inner.groupBy(F.window(F.window_time("window"), "3 minutes").alias("whole")).agg(F.sum("count").alias("n"))


def run(spark, tmp_path, name, made, events, *, cut=None):
    """Run a plan over what is there, then over an event that closes all: its rows, and where the watermark stood."""
    folder = tmp_path / name
    folder.mkdir()
    (folder / "0.json").write_text("".join(json.dumps(each) + "\n" for each in events))
    schema = "user string, at double"
    read = spark.readStream.schema(schema).json(str(folder)).selectExpr("user", "timestamp_seconds(at) AS time")
    frame = made(read.withWatermark("time", f"{DELAY_S} seconds"))
    if cut is not None:
        held = hold_back(frame, Cut(cut))
        assert (held.holds, held.partial, held.others) == (True, (), ())
        frame = held.frame
    rows = []
    query = (
        frame.writeStream.option("checkpointLocation", str(tmp_path / f"{name}-checkpoint"))
        .foreachBatch(lambda batch, _: rows.extend(map(str, batch.collect())))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    newest = max((tmp_path / f"{name}-checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    return Counter(rows), json.loads(newest.read_text().splitlines()[1])["nextBatchWatermarkMs"]


RARER = (of_sliding, gathered_again, of_others, tumbling, sliding)


@pytest.mark.parametrize("made", [of_windows, *(pytest.param(made, marks=pytest.mark.faults) for made in RARER)])
def test_windows_behind_a_cut_are_those_of_a_run_over_all(spark, tmp_path, made):
    """Each that comes out is as if nothing had been cut, and each that began behind the last event is there."""
    rng = random.Random(7)
    events = [{"user": rng.choice("abc"), "at": BEGIN + i * 3 + rng.uniform(-DELAY_S / 2, 0)} for i in range(200)]
    close = [{"user": "z", "at": BEGIN + 10_000}]
    before, behind = events[:90], events[90:]
    whole, _ = run(spark, tmp_path, "whole", made, events + close)
    _, watermark = run(spark, tmp_path, "before", made, before)
    cut, _ = run(spark, tmp_path, "behind", made, behind + close, cut=watermark + DELAY_S * 1000)
    assert not cut - whole
    assert cut, "all was held back"
    partial, _ = run(spark, tmp_path, "partial", made, behind + close)
    assert partial - whole, "nothing was cut"
    assert partial & whole == cut, "what the cut has not spoilt was held back"


@pytest.fixture
def events(spark, tmp_path):
    """A stream of which nothing is read."""
    (tmp_path / "in").mkdir()
    read = spark.readStream.schema("user string, at double").json(str(tmp_path / "in"))
    return read.selectExpr("user", "timestamp_seconds(at) AS time")


def test_windows_that_cannot_be_held_back_are_named(events):
    """Sessions, above which Spark moves a filter below them; and any where nobody knows how far was read."""
    marked = events.withWatermark("time", "1 hour")
    sessions = hold_back(marked.groupBy(F.session_window("time", "1 minute")).count(), Cut(BEGIN * 1000))
    assert (sessions.holds, sessions.partial) == (False, ("session_window",))
    assert hold_back(tumbling(marked), Cut(0)).partial == ("window",)
    shifted = F.from_utc_timestamp("time", "Europe/Berlin")
    assert hold_back(marked.groupBy(F.window(shifted, "1 day")).count(), Cut(BEGIN * 1000)).partial == ("window",)
    both = [marked.withColumn("w", F.window("time", length)).select("w") for length in ("1 minute", "1 hour")]
    gathered = both[0].union(both[1]).groupBy("w").count()
    assert hold_back(gathered, Cut(BEGIN * 1000)).holds
    again = gathered.groupBy(F.window(F.window_time("w"), "1 day").alias("whole")).count()
    assert hold_back(again, Cut(BEGIN * 1000)).partial == ("window",)
    assert hold_back(marked.groupBy("user").count(), Cut(BEGIN * 1000)).others == ("Aggregate",)


def test_how_far_was_read_is_known_of_one_watermark_alone(events):
    """Of several Spark takes the least; one that two outputs share is one; what keeps no state does not count."""
    hour, minute = events.withWatermark("time", "1 hour"), events.withWatermark("time", "1 minute")
    counted = tumbling(hour).select("user")
    assert one_mark(counted).delay_ms == 3_600_000
    wider = hour.groupBy(F.window("time", "5 minutes"), "user").count().select("user")
    assert one_mark(counted.union(wider)).delay_ms == 3_600_000
    assert one_mark(counted.union(events.select("user"))).delay_ms == 3_600_000
    assert one_mark(counted.union(tumbling(minute).select("user"))) is None
    assert one_mark(counted.union(tumbling(events).select("user"))) is None
    assert one_mark(tumbling(hour.union(events))) is None
    assert one_mark(counted.union(wider.where("user = 'a'"))) is None, "of the two it has moved by the least"


def test_windows_of_rows_that_the_older_watermark_has_not_seen_are_not_held_back(spark, events):
    """A condition less, the same one of another branch, another time: how far such rows were read nobody knows."""

    def mark(rows, time="time"):
        return rows.withWatermark(time, "1 hour")

    def whole(then, now):
        saw = one_mark(tumbling(then)).rows
        held = hold_back(tumbling(now), Cut(BEGIN * 1000, saw))
        assert held.holds is not bool(held.partial) is bool(held.wider)
        return held.holds

    a, b = (events.where(f"user <> '{user}'") for user in "ab")
    assert whole(mark(a), mark(a))
    assert whole(mark(a), mark(a).where("user <> 'c'")), "fewer rows"
    assert whole(mark(events).where("user <> 'a'"), mark(a)), "Spark asks it below the watermark"
    assert not whole(mark(a), mark(events))
    assert not whole(mark(events).where("user <> 'a'"), mark(events))
    assert whole(mark(a.union(b)), mark(a.union(b)))
    assert not whole(mark(a.union(b)), mark(b.union(a)))
    assert not whole(mark(a.union(b)), mark(a.union(b).union(events)))
    assert not whole(mark(events), mark(events.withColumn("time", F.col("time") + F.expr("INTERVAL 1 DAY"))))
    shown = events.withColumn("each", F.explode(F.array("user")))
    assert not whole(mark(shown.where("user <> 'a'")), mark(shown))
    assert hold_back(mark(events).groupBy("user").count(), Cut(1, ("something",))).others == ("Aggregate",)
    named = events.withColumn("name", F.coalesce("user", F.lit("")))
    table = spark.createDataFrame([("a",)], "name string")
    found, all_of_them, others = (named.join(table, "name", how) for how in ("inner", "left", "left_anti"))
    assert whole(mark(found), mark(found))
    assert not whole(mark(found), mark(all_of_them))
    assert not whole(mark(named.join(table, "name", "left_semi")), mark(others))
    parts = F.split("user", ",")
    assert not whole(mark(events.select("*", F.explode(parts))), mark(events.select("*", F.explode_outer(parts))))
    here, more, there = (
        of.KafkaSource(of.KafkaCluster("localhost:1"), topics, value=of.Json("user string, time timestamp")).load(spark)
        for topics in (["a"], ["a", "b"], ["b"])
    )
    assert whole(mark(here), mark(more)), "a topic is added to its source"
    assert not whole(mark(here), mark(there)), "another source, which may have been read further"
    assert not whole(mark(events.dropna(thresh=2)), mark(events.dropna(thresh=1)))
    first, second = (events.where(f"xpath_string(user, '{path}') = 'x'") for path in "ab")
    assert not whole(mark(first), mark(second))


def onceflow(p, *words, ends_with=0):
    """A command of the operator's; what it said."""
    command = [sys.executable, "-m", "onceflow", *map(str, words)]
    done = subprocess.run(command, env=os.environ | p.settings(), capture_output=True, text=True, check=False)
    assert done.returncode == ends_with, done.stderr
    return done.stderr


@pytest.fixture
def job(cluster, new_topic, tmp_path):
    """The window job; ``at(...)`` sends events of these times."""
    pipeline = Pipeline(cluster, new_topic(1), new_topic(1), tmp_path / "first", job="window", per_epoch=100)

    def at(*seconds):
        pipeline._transaction(
            [(b"u", json.dumps({"user": "u", "at": BEGIN + s}).encode()) for s in seconds], commit=True
        )

    pipeline.at = at
    return pipeline


def counts(p):
    """What the output says: windows by their end, seconds behind the beginning."""
    return [(json.loads(v)["end"] - BEGIN, json.loads(v)["n"]) for _, v in p.read()]


@pytest.mark.kafka
@pytest.mark.faults
@pytest.mark.parametrize("told", [False, True])
def test_a_job_that_takes_positions_alone(job, tmp_path, told):
    """The open window is held back unless it is told otherwise, also in a job that is made of it with its state."""
    first = (60 - BEGIN % 60) % 60  # where a minute begins
    job.at(first + 5, first + 65, first + 70)
    job.run_well()  # the first minute is closed at 70, less ten; the second is open with two events
    onceflow(job, "savepoint", "create", job.checkpoint, tmp_path / "of-first")
    job.checkpoint = tmp_path / "second"
    words = [
        "--until",
        "caught-up",
        "--yes",
        "--allow-non-restored-state",
        *(["--allow-partial-windows"] if told else []),
    ]
    said = onceflow(job, "run", JOBS / "window_job.py", "-s", tmp_path / "of-first", *words)
    assert ("are held back" in said) is not told
    job.at(first + 80, first + 125, first + 200)
    job.run_well()
    partial = [(first + 120, 1)] if told else []
    assert sorted(counts(job)) == [(first + 60, 1), *partial, (first + 180, 1)]
    job.at(first + 210)
    job.run_well()
    onceflow(job, "savepoint", "create", job.checkpoint, tmp_path / "of-second")
    job.checkpoint = tmp_path / "third"
    onceflow(job, "run", JOBS / "window_job.py", "-s", tmp_path / "of-second", "--until", "caught-up", "--yes")
    job.at(first + 300)
    job.run_well()
    assert max(counts(job)) == (first + 240, 2)


@pytest.mark.kafka
@pytest.mark.faults
def test_positions_alone_behind_an_edit_of_the_watermark(job, tmp_path, monkeypatch):
    """It stands where the older delay has left it: by the new one less would seem to have been read."""
    first = (60 - BEGIN % 60) % 60
    monkeypatch.setenv("DELAY", "1 hour")
    job.at(first + 5, first + 125)
    job.run_well()
    monkeypatch.setenv("DELAY", "10 seconds")
    job.run_well()
    onceflow(job, "savepoint", "create", job.checkpoint, tmp_path / "edited")
    job.checkpoint = tmp_path / "begun"
    words = ["--until", "caught-up", "--yes", "--allow-non-restored-state", "-s", tmp_path / "edited"]
    assert "are held back" in onceflow(job, "run", JOBS / "window_job.py", *words)
    job.at(first + 130, first + 190, first + 300)
    job.run_well()
    assert counts(job) == [(first + 240, 1)], "the third minute had an event before"


@pytest.mark.kafka
@pytest.mark.faults
def test_a_job_that_takes_positions_alone_and_counts_what_the_older_one_left_out(job, tmp_path):
    """Of the rows that it left out nobody knows how far they were read: a window of theirs would come out in part."""
    narrow = tmp_path / "narrow.py"
    narrow.write_text(
        (JOBS / "window_job.py").read_text().replace(".withColumn(", ".where('at % 2 = 0').withColumn(", 1)
    )
    first = (60 - BEGIN % 60) % 60
    job.at(first + 6, first + 70, first + 191)
    onceflow(job, "run", narrow, "--until", "caught-up")
    onceflow(job, "savepoint", "create", job.checkpoint, tmp_path / "narrow")
    job.checkpoint = tmp_path / "wider"
    words = ["--until", "caught-up", "--yes", "--allow-non-restored-state", "-s", tmp_path / "narrow"]
    said = onceflow(job, "run", JOBS / "window_job.py", *words, ends_with=1)
    assert re.search("which saw those .*at % 2.* --allow-partial-windows", said, re.DOTALL)
    shutil.rmtree(job.checkpoint)
    assert "are held back" in onceflow(job, "run", narrow, *words)


@pytest.mark.kafka
@pytest.mark.faults
@pytest.mark.parametrize("marked", [False, True])
def test_a_job_that_takes_positions_alone_and_gathers_what_the_older_one_only_passed_on(job, tmp_path, marked):
    """The older one kept no state, so its windows are in none: known where it has a watermark all the same."""
    plain = tmp_path / "plain.py"
    text = (JOBS / "window_job.py").read_text()
    passed_on = 'return counts.select("user", F.col("at").alias("end"), F.lit(1).alias("n"))\n    return ('
    text = text.replace("return (", passed_on, 1)
    plain.write_text(text if marked else text.replace('.withWatermark("time", delay)', "", 1))
    first = (60 - BEGIN % 60) % 60
    job.at(first + 5, first + 65, first + 70)
    onceflow(job, "run", plain, "--until", "caught-up")
    onceflow(job, "savepoint", "create", job.checkpoint, tmp_path / "plain")
    job.checkpoint = tmp_path / "gathers"
    words = ["--until", "caught-up", "--yes", "--allow-non-restored-state", "-s", tmp_path / "plain"]
    said = onceflow(job, "run", JOBS / "window_job.py", *words, ends_with=0 if marked else 1)
    assert ("are held back" if marked else "--allow-partial-windows") in said
    if not marked:
        shutil.rmtree(job.checkpoint)
        onceflow(job, "run", JOBS / "window_job.py", *words, "--allow-partial-windows")
    job.at(first + 80, first + 125, first + 200)
    job.run_well()
    partial = [] if marked else [(first + 120, 1)]
    passed = [(first + s, 1) for s in (5, 65, 70)]
    assert sorted(counts(job)) == sorted([*passed, *partial, (first + 180, 1)])
