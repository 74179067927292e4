"""Late rows as an output: each row that an operator gets is in its result or among the late ones, and never in both."""

import json
import random
import re
import uuid
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from kafka.admin import NewTopic
from pyspark.sql import functions as F  # noqa: N812

import onceflow as of
from onceflow.errors import ConfigurationError
from onceflow.execution.outputs import Outputs
from tests.support.harness import Pipeline, audited, read_topic, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EPOCH, PER_EPOCH, ROWS = 2, 500, 2_500
START, FAR = 1_767_225_600, 100_000  # seconds
SHAPES = ("tumbling", "sliding", "session", "instants", "distinct", "within")
TOPICS = ("LATE", "LATE_A", "COPY")


class Late(Pipeline):
    """A pipeline with topics of late rows, and one of all rows."""

    def send_random(self, seed: int) -> None:
        """Send rows of random times that go on slowly, some of them far behind; then some that end all windows."""
        numbers = random.Random(seed)

        def value(i: int) -> bytes:
            if i >= ROWS:
                return json.dumps({"id": i, "who": "far", "s": START + FAR * (1 + i - ROWS)}).encode()
            second = START + i // 50 + numbers.choice([0, 0, 0, 0, -4, -15, -40])
            return json.dumps({"id": i, "who": "abc"[numbers.randrange(3)], "s": second}).encode()

        self.send(ROWS, value=value)
        self.send(4, value=value)

    def rows_of(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(value or b"") for _, value in read_topic(self.cluster, self.environment[name])]

    def check_late(self) -> int:
        """Compare what is in the topics with what was sent; how many rows are late."""
        sent = {row["id"]: row for row in (json.loads(value) for _, value in self.sent)}
        assert Counter(row["id"] for row in self.rows_of("COPY")) == dict.fromkeys(sent, 1)
        late, found = self.rows_of("LATE"), [json.loads(value or b"") for _, value in self.read()]
        assert all({name: row[name] for name in ("id", "who", "s")} == sent[row["id"]] for row in late)
        a = Counter(row["id"] + 1 for row in late if row["who"] == "a")
        assert Counter(row["more"] for row in self.rows_of("LATE_A")) == a
        near = [row for row in sent.values() if row["who"] != "far"]
        counted = [row for row in found if row.get("who") != "far"]
        CHECKS[self.environment["SHAPE"]](near, counted, late)
        assert self.open_transactions() == []
        return len(late)


def seconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp())


def windows_of(second: int, slide: int) -> Iterator[int]:
    """When the windows of ten seconds begin that a second is in."""
    last = second - second % slide
    return iter(range(last, second - 10, -slide))


def check_windows(slide: int):
    def check(sent, counted, late) -> None:
        truth = Counter((start, row["who"]) for row in sent for start in windows_of(row["s"], slide))
        told = Counter({(seconds(row["window"]["start"]), row["who"]): row["count"] for row in counted})
        assert len(told) == len(counted), "a window came out twice"
        assert told + Counter((row["start"], row["who"]) for row in late) == truth

    return check


def check_sessions(sent, counted, late) -> None:
    assert sum(row["count"] for row in counted) + len(late) == len(sent)
    assert max(Counter(row["id"] for row in late).values()) == 1


def check_instants(sent, counted, late) -> None:
    near = Counter({seconds(row["at"]): row["count"] for row in counted if seconds(row["at"]) < START + FAR})
    assert near + Counter(row["s"] for row in late) == Counter(row["s"] for row in sent)


def check_distinct(sent, counted, late) -> None:
    behind = Counter(row["id"] for row in late)
    on_time = {(row["who"], row["s"]) for row in sent if row["id"] not in behind}
    assert Counter((row["who"], row["s"]) for row in counted) == dict.fromkeys(on_time, 1)
    assert max(behind.values()) == 1


def check_within(sent, counted, late) -> None:
    behind = Counter(row["id"] for row in late)
    assert max(behind.values()) == 1
    assert not behind.keys() & {row["id"] for row in counted}


CHECKS = {
    "tumbling": check_windows(10),
    "sliding": check_windows(5),
    "session": check_sessions,
    "instants": check_instants,
    "distinct": check_distinct,
    "within": check_within,
}


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path):
    def make(shape: str, seed: int = 0, **more: str) -> Late:
        topics = {name: new_topic(2) for name in TOPICS}
        made = Late(cluster, new_topic(3), new_topic(1), tmp_path / "checkpoint", job="late", per_epoch=PER_EPOCH)
        made.environment = {"SHAPE": shape} | topics | more
        made.send_random(seed)
        return made

    return make


@pytest.mark.parametrize(
    "shape", ["sliding", *(pytest.param(each, marks=pytest.mark.faults) for each in SHAPES if each != "sliding")]
)
def test_each_row_is_in_the_result_or_late(pipeline, shape):
    """Over epochs of random times. A deduplication's are as many as Spark counts; an aggregation counts fewer."""
    p = pipeline(shape)
    ended = p.run_well()
    late = p.check_late()
    told = sum(map(int, re.findall(r"late rows are left out, (?:at least )?(\d+) by the", ended.log.replace(",", ","))))
    assert told == late if shape in ("distinct", "within") else 0 < told <= late


@pytest.mark.faults
def test_epochs_that_are_run_again_for_an_audit_have_the_same_late_rows(pipeline):
    p = pipeline("sliding")
    p.die_at(f"D6@{EPOCH}")
    p.run_well()
    late = p.check_late()
    code, report = audited(p, "--recompute", "0..")
    assert (code, report["findings"]) == (0, [])
    assert report["rows"] > late + ROWS


@pytest.mark.faults
@pytest.mark.parametrize("shape", SHAPES[:-1])  # of the last the row that comes first says how long a key is known
@pytest.mark.parametrize("point", ["D3", "D5", "D6", "D7", "D8"])
def test_deaths(pipeline, shape, point):
    """Before the decision, behind it, and where Spark has not recorded the epoch: Spark drops the same rows again."""
    p = pipeline(shape, seed=SHAPES.index(shape))
    p.die_at(f"{point}@{EPOCH}")
    p.run_well()
    assert p.check_late()


@pytest.mark.faults
@pytest.mark.parametrize(("point", "scope"), [("D5", "whole"), ("D6", "parts")])
def test_expiry(client, tmp_path, point, scope):
    """Late rows of a decided epoch whose transactions expired are written again, once."""
    names = {name: f"late-{name}-{uuid.uuid4().hex[:8]}".replace("_", "-").lower() for name in ("IN", "OUT", *TOPICS)}
    client.admin.create_topics([NewTopic(name, 2, 1) for name in names.values()])
    client.admin.wait_for_topics(list(names.values()))
    p = Late(
        client.cluster, names.pop("IN"), names.pop("OUT"), tmp_path / "checkpoint", job="late", per_epoch=PER_EPOCH
    )
    p.environment = {"SHAPE": "sliding", "TIMEOUT": "30 s"} | names
    p.send_random(1)
    p.die_at(f"{point}@{EPOCH}")
    assert p.open_transactions(), "there is nothing that could expire"
    wait_until(lambda: not p.open_transactions(), 90, "expiry")
    p.run_well()
    assert [r["record"]["scope"] for r in p.records() if r["kind"] == "replay"] == [scope]
    assert p.check_late()


def in_a_common_table(rows):
    rows.createOrReplaceTempView("late_rows_of")
    return rows.sparkSession.sql("with a as (select * from late_rows_of) select at, count(*) as n from a group by at")


def without_mark(rows):
    return rows.sparkSession.readStream.format("rate").load().withColumn("at", F.col("timestamp"))


@pytest.fixture
def rows(spark):
    return spark.readStream.format("rate").load().withColumn("at", F.col("timestamp")).withWatermark("at", "10 seconds")


def out(name: str) -> of.KafkaSink:
    return of.KafkaSink(of.KafkaCluster("127.0.0.1:9"), name, name=name)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda rows: rows.select("value"), "nothing in it keeps state"),
        (lambda rows: rows.groupBy("value").count(), "no columns that it groups by have a watermark"),
        (lambda rows: rows.groupBy(F.window("at", "5 seconds"), "at").count(), "2 columns that it groups by"),
        (lambda rows: rows.dropDuplicates(["value"]), "no columns that it knows rows by have a watermark"),
        (in_a_common_table, "it reads a common table expression"),
        (lambda rows: rows.dropDuplicates(["value", "at"]).groupBy(F.window("at", "5 seconds")).count(), "Deduplicate"),
        (lambda rows: rows.alias("a").join(rows.alias("b"), "value"), "Join in it keeps state"),
        (lambda rows: rows.unionByName(without_mark(rows)).dropDuplicates(["at"]), "a stream .* has no watermark"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_refused_by_name(rows, make, said):
    with pytest.raises(ConfigurationError, match=said):
        of.late_rows(make(rows))


def test_sessions_that_are_put_together_before_they_are_looked_at_are_refused(rows):
    session = rows.sparkSession
    name = "spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition"
    session.conf.set(name, "true")
    try:
        with pytest.raises(ConfigurationError, match=f"{name} is true"):
            of.late_rows(rows.groupBy(F.session_window("at", "5 seconds")).count())
    finally:
        session.conf.unset(name)


@pytest.mark.parametrize(
    "more",
    [
        lambda late: late.groupBy("value").count(),
        lambda late: late.withColumn("value", F.udf(lambda v: v, "long")("value")),
        lambda late: late.select(F.explode(F.array("value", "value")).alias("value")),
        lambda late: late.union(late),
    ],
)
def test_more_than_selecting_and_filtering_is_refused(rows, more):
    counted = rows.groupBy(F.window("at", "5 seconds")).count()
    with pytest.raises(ConfigurationError, match="late rows went through"):
        Outputs({out("counts"): counted, out("late"): more(of.late_rows(counted))}, ())


def test_late_rows_without_what_drops_them_are_refused(rows):
    """Another operator that keeps state is not enough: its watermark, or its windows, are others."""
    counted = rows.groupBy(F.window("at", "5 seconds")).count()
    late = of.late_rows(counted)
    others = rows.withColumn("t", F.col("timestamp") + F.expr("interval 1 hour")).withWatermark("t", "1 second")
    for mode, outputs in (
        ("append", {out("late"): late, out("copy"): rows}),
        ("append", {out("late"): late, out("hours"): rows.groupBy(F.window("at", "1 hour")).count()}),
        ("append", {out("late"): late, out("others"): others.groupBy("t").count()}),
        ("update", {out("late"): late, out("values"): rows.groupBy("value").count()}),
        ("complete", {out("late"): late, out("counts"): counted}),
    ):
        with pytest.raises(ConfigurationError, match="no output of the job drops them"):
            Outputs(outputs, (), mode=mode)


def test_outside_of_a_job_they_give_no_row(rows, tmp_path):
    """A query of one's own fails at its first row, and takes none for late."""
    late = of.late_rows(rows.groupBy(F.window("at", "5 seconds")).count())
    query = late.writeStream.format("noop").option("checkpointLocation", f"file:{tmp_path / 'c'}").start()
    with pytest.raises(Exception, match=r"onceflow[.]late_rows is an output there"):
        query.awaitTermination(60)


def test_they_add_no_watermark_and_no_position_that_moves(rows):
    """The plan's one watermark stays the one; sources are in the order of the sinks' names."""
    counted = rows.groupBy(F.window("at", "5 seconds")).count()
    alone = Outputs({out("counts"): counted.where("count > 1")}, ())
    both = Outputs({out("counts"): counted.where("count > 1"), out("late"): of.late_rows(counted).alias("x")}, ())
    assert both.mark() == alone.mark() is not None
    assert [leaf.outputs for leaf in both.leaves()] == [("counts",), ("late",)]
    assert both.leaves()[0] == alone.leaves()[0]
    assert both.states() == alone.states()
    assert both.kept() == alone.kept()
