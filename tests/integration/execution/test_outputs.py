"""What a job can write, on one SparkSession: several sinks, several outputs, every column of a record, refusals."""

import json
import logging
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812

import onceflow as of
from onceflow.connectors.kafka import transactions
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.errors import ConfigurationError, RefusedSettingError, RowRefusedError, SourceDataLostError
from onceflow.execution.outputs import Outputs
from onceflow.execution.task import DIGEST, output_column
from tests.support.harness import logged_error, read_messages, read_topic, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def run(frame, checkpoint, sinks=(), name="test", **more):
    """Run a query over what is there."""
    query = of.start(
        frame, sinks=sinks, name=name, checkpointing=of.Checkpointing(checkpoint), until="caught-up", **more
    )
    assert query.awaitTermination(120)


@pytest.fixture
def checkpoint(tmp_path):
    return str(tmp_path / "checkpoint")


@pytest.fixture
def filled(cluster, new_topic, produce):
    """A topic with 200 payments of 10 users in two partitions."""
    topic = new_topic(2)
    for partition in (0, 1):
        produce(
            topic,
            [json.dumps({"id": i, "user": f"u{i % 10}", "amount": "1.10"}) for i in range(partition, 200, 2)],
            partition=partition,
        )
    return topic


def payments(cluster, topic, spark, **more):
    schema = "id int, user string, amount decimal(18,2)"
    return of.KafkaSource(cluster, topic, value=of.Json(schema), **more).load(spark)


def test_every_part_of_a_record_is_written(spark, cluster, filled, new_topic, checkpoint):
    """Key, value, headers, timestamp, partition and topic of each row land where the sink says."""
    main, other = new_topic(3), new_topic(1)
    frame = payments(cluster, filled, spark).select(
        "id",
        "user",
        F.array(F.struct(F.lit("source").alias("key"), F.encode(F.lit("test"), "utf-8").alias("value"))).alias("h"),
        F.timestamp_seconds(F.lit(1_700_000_000) + F.col("id")).alias("at"),
        F.when(F.col("id") % 2 == 0, F.lit(None).cast("int")).otherwise(F.lit(0)).alias("p"),
        F.when(F.col("id") == 7, F.lit(other)).alias("t"),
    )
    sink = of.KafkaSink(
        cluster, main, key=["user", "id"], headers="h", timestamp="at", partition="p", topic_column="t", name="s"
    )
    run(frame, checkpoint, [sink])
    found = read_messages(cluster, main) + read_messages(cluster, other)
    by_id = {json.loads(m.value())["id"]: m for m in found}
    assert sorted(by_id) == list(range(200))
    assert len(found) == 200
    seven = by_id[7]
    assert (seven.topic(), seven.partition()) == (other, 0)
    assert json.loads(seven.key()) == {"user": "u7", "id": 7}
    assert json.loads(seven.value()) == {"id": 7, "user": "u7"}
    assert seven.headers() == [("source", b"test")]
    assert seven.timestamp()[1] == (1_700_000_000 + 7) * 1000
    assert {by_id[i].partition() for i in range(1, 200, 2) if i != 7} == {0}
    assert {by_id[i].partition() for i in range(0, 200, 2)} == {0, 1, 2}


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("time", ["1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000999Z"])
def test_a_time_that_kafka_does_not_have_is_refused(
    spark, cluster, filled, new_topic, checkpoint, time, guarantee, caplog
):
    """The client would write the present time in its place: the epoch fails for good, and nothing of it is visible.

    The worker's error comes out of Spark whole: what, cause, action and facts.
    """
    topic = new_topic(1)
    at = F.when(F.col("id") == 150, F.lit(time).cast("timestamp")).otherwise(F.timestamp_millis(F.col("id") + 1))
    frame = payments(cluster, filled, spark).select("id", at.alias("at"))
    with pytest.raises(StreamingQueryException, match="RowRefusedError"):
        run(frame, checkpoint, [of.KafkaSink(cluster, topic, timestamp="at", guarantee=guarantee, name="s")])
    error = logged_error(caplog)
    assert isinstance(error, RowRefusedError)
    assert not error.retriable
    assert error.what == f"a row for topic {topic} has the time 1970-01-01T00:00:00Z, which cannot be written"
    assert error.cause.startswith("the column that the sink's timestamp= names holds it")
    assert error.action.startswith("give such rows another time")
    assert error.facts == {"topic": topic}
    if guarantee == "exactly-once":
        assert read_topic(cluster, topic) == []


def test_times_beside_it_and_no_time(spark, cluster, filled, new_topic, checkpoint):
    """A millisecond after 1970 began, and one and two before, are written as they are; null is the present time."""
    topic = new_topic(1)
    given = {0: 1, 1: -1, 2: -2, 3: None}
    at = F.expr("CASE id % 4 " + " ".join(f"WHEN {k} THEN {v}" for k, v in given.items() if v is not None) + " END")
    frame = payments(cluster, filled, spark).select("id", F.timestamp_millis(at).alias("at"))
    run(frame, checkpoint, [of.KafkaSink(cluster, topic, timestamp="at", name="s")])
    times = {json.loads(m.value())["id"]: m.timestamp()[1] for m in read_messages(cluster, topic)}
    assert {i: at for i, at in times.items() if i % 4 != 3} == {i: given[i % 4] for i in range(200) if i % 4 != 3}
    assert min(times[i] for i in range(3, 200, 4)) > 1_700_000_000_000


# Around 1970, and where calendars, Python and Spark begin and end.
EDGES = [1, 999, 1_000, -1, -2, 1_700_000_000_123, -2_208_988_800_001, -12_219_292_800_000]
EDGES += [253_402_300_799_999, 9_223_372_036_854_775]
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_records_time_goes_through_a_job_unchanged(spark, cluster, admin, new_topic, checkpoint, guarantee):
    """From Kafka by the source's metadata to the sink's timestamp=, to the millisecond."""
    first, second = f"{new_topic()}-first", f"{new_topic()}-second"
    for topic in (first, second):
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1, "configs": ANY_TIME}})
    admin.wait_for_topics([first, second])
    producer = Producer(cluster.for_librdkafka())
    for at in EDGES:
        producer.produce(first, json.dumps({"id": at}), timestamp=at)
    assert producer.flush(30) == 0
    frame = of.KafkaSource(cluster, first, value=of.Json("id long"), metadata=["timestamp"]).load(spark)
    run(frame, checkpoint, [of.KafkaSink(cluster, second, timestamp="timestamp", guarantee=guarantee, name="s")])
    for topic in (first, second):
        assert {json.loads(m.value())["id"]: m.timestamp()[1] for m in read_messages(cluster, topic)} == {
            at: at for at in EDGES
        }, topic


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_time_that_the_broker_does_not_take_is_refused(spark, cluster, filled, checkpoint, guarantee, caplog):
    """The same start would meet it again: the epoch fails for good, and the setting is named."""
    topic = f"{filled}-strict"
    sink = of.KafkaSink(
        cluster,
        topic,
        timestamp="at",
        guarantee=guarantee,
        name="s",
        create_topic=of.NewTopic(1, config={"message.timestamp.after.max.ms": "3600000"}),
    )
    at = F.when(F.col("id") == 150, F.lit("2200-01-01T00:00:00Z").cast("timestamp"))
    with pytest.raises(StreamingQueryException, match="RowRefusedError"):
        run(payments(cluster, filled, spark).select("id", at.alias("at")), checkpoint, [sink])
    error = logged_error(caplog)
    assert isinstance(error, RowRefusedError), error
    assert not error.retriable
    assert "message.timestamp.after.max.ms" in str(error)
    if guarantee == "exactly-once":
        assert read_topic(cluster, topic) == []


def test_a_topic_that_keeps_no_times_is_refused_at_the_start(spark, cluster, filled, checkpoint):
    """The broker would write its own in place of those given."""
    new = of.NewTopic(1, config={"message.timestamp.type": "LogAppendTime"})
    frame = payments(cluster, filled, spark, metadata=["timestamp"])
    with pytest.raises(ConfigurationError, match="LogAppendTime"):
        run(frame, checkpoint, [of.KafkaSink(cluster, f"{filled}-log", timestamp="timestamp", create_topic=new)])


def test_columns_that_spark_cannot_tell_apart_are_refused_in_our_words(spark, cluster, filled):
    """Two of one name, ignoring case, and a type that the sink cannot take."""
    frame = payments(cluster, filled, spark)
    for columns, more in ((["id", "user AS ID"], {}), (["map(id, user) AS m"], {"value": of.Raw()})):
        with pytest.raises(ConfigurationError, match="sink s cannot write its output"):
            Outputs(frame.selectExpr(*columns), [of.KafkaSink(cluster, "t", name="s", **more)])


def test_a_key_lands_on_the_partition_of_every_java_producer(spark, cluster, filled, new_topic, checkpoint):
    """The partitioner is murmur2: partitions of these keys were computed with Java's BuiltInPartitioner rule."""
    topic = new_topic(4)
    run(payments(cluster, filled, spark), checkpoint, [of.KafkaSink(cluster, topic, key="user", name="s")])
    by_key = {(m.key(), m.partition()) for m in read_messages(cluster, topic)}
    assert by_key == {(key, (murmur2(key) & 0x7FFFFFFF) % 4) for key, _ in by_key}
    assert len(by_key) == 10


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2, from its definition: seed 0x9747b28c, multiplier 0x5bd1e995, shift 24."""
    m, wrap = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & wrap
        k = (k ^ k >> 24) * m & wrap
        h = (h * m & wrap) ^ k
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & wrap
    h = (h ^ h >> 13) * m & wrap
    return h ^ h >> 15


def test_two_sinks_get_the_same_rows_in_one_decision(spark, cluster, filled, new_topic, checkpoint, tmp_path):
    """A list of sinks: each has every row once, and one decision names the participants of both."""
    a, b = new_topic(1), new_topic(2)
    sinks = [
        of.KafkaSink(cluster, a, name="a"),
        of.KafkaSink(cluster, b, name="b", value=of.Text(), value_columns=["user"]),
    ]
    run(payments(cluster, filled, spark), checkpoint, sinks)
    assert Counter(json.loads(v)["id"] for _, v in read_topic(cluster, a)) == Counter(range(200))
    assert Counter(v for _, v in read_topic(cluster, b)) == Counter({f"u{i}".encode(): 20 for i in range(10)})
    (decision,) = [
        json.loads(f.read_text())
        for f in (tmp_path / "checkpoint" / "onceflow" / "journal").glob("*.json")
        if '"decide"' in f.read_text()
    ]
    assert {p["sink"] for p in decision["record"]["participants"]} == {"a", "b"}


def test_several_outputs_share_one_epoch(spark, cluster, filled, new_topic, checkpoint):
    """{sink: DataFrame}: an aggregate and the raw rows of one source, committed together."""
    raw, counted = new_topic(1), new_topic(1)
    source = payments(cluster, filled, spark)
    totals = source.groupBy("user").agg(F.count("*").alias("n"), F.sum("amount").alias("total"))
    outputs = {
        of.KafkaSink(cluster, raw, name="raw"): source,
        of.KafkaSink(cluster, counted, name="counted", key="user"): totals,
    }
    run(outputs, checkpoint, output_mode="update")
    assert Counter(json.loads(v)["id"] for _, v in read_topic(cluster, raw)) == Counter(range(200))
    found = {k: json.loads(v, parse_float=Decimal) for k, v in read_topic(cluster, counted)}
    assert {k: (v["n"], v["total"]) for k, v in found.items()} == {
        f"u{i}".encode(): (20, Decimal("22.00")) for i in range(10)
    }


def test_outputs_are_read_together_or_apart_on_one_checkpoint(
    spark, cluster, filled, new_topic, produce, checkpoint, caplog
):
    """Outputs that only select and filter are read once; a Python function in one parts them, and the job goes on.

    A record counts once, however often it is read.
    """
    caplog.set_level(logging.INFO, "onceflow")
    even, odd = new_topic(1), new_topic(1)
    as_it_is = F.udf(lambda number: number, "int")
    read = []
    for start, column in ((0, F.col("id")), (200, as_it_is("id")), (210, F.col("id") + 0)):
        if start:
            produce(filled, [json.dumps({"id": i, "user": "u", "amount": "1"}) for i in range(start, start + 10)])
        frame = payments(cluster, filled, spark)
        run(
            {
                of.KafkaSink(cluster, even, name="even"): frame.where("id % 2 = 0").select(column.alias("id")),
                of.KafkaSink(cluster, odd, name="odd"): frame.where("id % 2 = 1"),
            },
            checkpoint,
        )
        # Spark's listener tells of an epoch behind the query's end.
        wait_until(lambda: re.search(r"epoch \d+: \d+ in", caplog.text), what="the epoch's line")
        read += re.findall(r"epoch \d+: (\d+) in", caplog.text)
        caplog.clear()
    assert read == ["200", "10", "10"]
    for topic, first in ((even, 0), (odd, 1)):
        assert Counter(json.loads(v)["id"] for _, v in read_topic(cluster, topic)) == Counter(range(first, 220, 2))
    written = sorted(Path(checkpoint, "offsets").glob("[0-9]*"))
    assert [len(path.read_text().splitlines()) for path in written] == [4, 4, 4], "a version, the time, two positions"


@pytest.mark.parametrize("guarantee", ["at-least-once", "none"])
def test_a_weaker_guarantee_writes_without_transactions(spark, cluster, filled, new_topic, checkpoint, guarantee):
    """at-least-once and none: the rows are there, no transaction was opened, and no decision was written."""
    topic = new_topic(2)
    run(payments(cluster, filled, spark), checkpoint, [of.KafkaSink(cluster, topic, guarantee=guarantee)])
    assert Counter(json.loads(v)["id"] for _, v in read_topic(cluster, topic)) == Counter(range(200))
    with KafkaClient(cluster) as client:
        names = transactions.list_ids(client, "onceflow-", ["Ongoing", "CompleteCommit", "CompleteAbort", "Empty"])
    assert not [n for n in names if topic in n]


def test_bounded_memory_is_set_whatever_the_epoch(cluster):
    """A task's queue is bounded, so that an epoch of any size needs no more memory than a small one."""
    factory = of.KafkaSink(cluster, "t").attach().writer_factory()
    assert factory.config["queue.buffering.max.kbytes"] == 65_536


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda c, t: of.KafkaSink(c, t + "-absent"), "does not exist"),
        (lambda c, t: of.KafkaSink(c, t, key="nobody"), "needs column 'nobody'"),
        (lambda c, t: of.KafkaSink(c, t, transaction_timeout="100 d"), "transaction.max.timeout.ms=900000"),
        (
            lambda c, t: of.KafkaSink(
                c, t, producer={"message.max.bytes": 90_000_000, "queue.buffering.max.kbytes": 65_536}
            ),
            "larger than its whole queue",
        ),
    ],
)
def test_what_cannot_work_is_said_before_anything_starts(spark, cluster, filled, new_topic, checkpoint, make, says):
    """E1 and more: refused at start, naming the setting and both values."""
    with pytest.raises(ConfigurationError, match=says):
        run(payments(cluster, filled, spark), checkpoint, [make(cluster, new_topic(1))])


def test_columns_of_a_sink_may_have_any_names(spark, cluster, filled):
    """A dot in a name is no field of a struct, neither for the hash nor where another output has no such column."""

    class Odd(of.KafkaSink):
        def columns(self, fields):
            return [F.struct(F.col("id").alias("b")).alias("a"), F.col("user").alias("a.b"), F.col("id").alias("`c`")]

    frame = payments(cluster, filled, spark)
    odd, plain = Odd(cluster, "odd", name="odd"), of.KafkaSink(cluster, "plain", name="plain", key="id")
    query = Outputs({odd: frame, plain: frame.where("id > 3")}, []).query
    names = ["a", "a.b", "`c`", DIGEST]
    assert query.columns[:4] == [output_column(0, name) for name in names]
    assert [field.dataType.typeName() for field in query.schema.fields[:4]] == ["struct", "string", "integer", "long"]
    assert query.mapInArrow(list, "any string").columns == ["any"], "as an epoch's run does it: each is found"


def test_a_topic_is_made_if_asked(spark, cluster, filled, checkpoint):
    """create_topic makes it with its partitions."""
    topic = f"{filled}-made"
    run(payments(cluster, filled, spark), checkpoint, [of.KafkaSink(cluster, topic, create_topic=of.NewTopic(3))])
    assert len(read_topic(cluster, topic)) == 200


def test_a_plan_that_reads_uncommitted_is_refused(spark, cluster, filled, new_topic, checkpoint):
    """Spark's own default would let an exactly-once sink keep what is aborted later; the error names the option."""
    frame = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("subscribe", filled)
        .load()
        .select("value")
    )
    with pytest.raises(RefusedSettingError, match=r"kafka\.isolation\.level is read_uncommitted"):
        run(frame, checkpoint, [of.KafkaSink(cluster, new_topic(1), value=of.Raw())])


def test_a_compacted_topic_gets_a_warning(spark, cluster, filled, admin, checkpoint, caplog):
    """Compaction may take the witness: said at start, and the job runs."""
    topic = f"{filled}-compacted"
    admin.create_topics(
        {topic: {"num_partitions": 1, "replication_factor": 1, "configs": {"cleanup.policy": "compact"}}}
    )
    admin.wait_for_topics([topic])
    run(payments(cluster, filled, spark), checkpoint, [of.KafkaSink(cluster, topic, key="id")])
    assert "cleanup.policy=compact" in caplog.text


def test_a_source_topic_that_was_made_again_stops_the_start(spark, cluster, admin, new_topic, produce, checkpoint):
    """K1: the new topic holds more records than the checkpoint's offset; Spark alone would read on in silence."""
    source, sink = new_topic(1), new_topic(1)
    frame = of.KafkaSource(cluster, source, value=of.Text())
    produce(source, ["a", "b"])
    run(frame.load(spark), checkpoint, [of.KafkaSink(cluster, sink, value=of.Text())])
    admin.delete_topics([source])
    with KafkaClient(cluster) as client:
        while client.topics([source]):
            client.wait_a_little()
    new_topic(1, source)
    produce(source, ["c", "d", "e"])
    with pytest.raises(SourceDataLostError, match="deleted and made again"):
        run(frame.load(spark), checkpoint, [of.KafkaSink(cluster, sink, value=of.Text())])
    assert [v for _, v in read_topic(cluster, sink)] == [b"a", b"b"]


def test_offsets_are_published_to_the_group_for_monitoring(spark, cluster, filled, new_topic, checkpoint):
    """After an epoch is recorded, the group holds its end offsets; nothing ever reads them to decide where to go on."""
    group = f"{filled}-monitoring"
    frame = payments(cluster, filled, spark, group=group)
    run(frame, checkpoint, [of.KafkaSink(cluster, new_topic(1), name="s")])
    from onceflow.connectors.kafka import offsets

    admin = cluster.admin()
    try:
        wait_until(lambda: offsets.committed(admin, group), what="published offsets")
        assert {p.number: at for p, at in offsets.committed(admin, group).items()} == {0: 100, 1: 100}
    finally:
        admin.close()
