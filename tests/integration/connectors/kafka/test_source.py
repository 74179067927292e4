"""KafkaSource on a real broker under real Spark."""

import datetime as dt
import json
import re
import uuid
from contextlib import nullcontext

import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import StringType, StructField, StructType

from onceflow.connectors.kafka import offsets
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.source import KafkaSource, find, malformed_from
from onceflow.connectors.kafka.source_checks import CONSUMER_SETTINGS, SOURCE_OPTION, checked_options
from onceflow.errors import ConfigurationError, MalformedRecordError, RefusedSettingError, SourceDataLostError
from onceflow.formats.contract import PartOfRecord
from onceflow.formats.json_format import Json
from onceflow.formats.text_format import Raw, Text
from tests.support.advice import parts_of

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

PART = PartOfRecord(("t",), "value")

NOWHERE = KafkaCluster("localhost:1")
"""For what is known before any broker is asked."""


@pytest.fixture
def checkpoint(tmp_path):
    return str(tmp_path / "checkpoint")


def drain(frame, checkpoint):
    """Run the query over all that is there now, and give its rows; a failure is raised."""
    rows = []
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return rows


def failure(frame, checkpoint):
    with pytest.raises(StreamingQueryException) as raised:
        drain(frame, checkpoint)
    return str(raised.value)


def produce_in_transaction(cluster, topic, values, *, commit):
    producer = Producer(cluster.for_librdkafka() | {"transactional.id": uuid.uuid4().hex})
    producer.init_transactions()
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()


# ---- what is read ----


def test_only_committed_records_are_read(spark, cluster, new_topic, checkpoint):
    """Aborted records are skipped by default, and seen if read_uncommitted is asked for."""
    topic = new_topic()
    produce_in_transaction(cluster, topic, ["a", "b"], commit=True)
    produce_in_transaction(cluster, topic, ["never"], commit=False)
    produce_in_transaction(cluster, topic, ["c"], commit=True)
    rows = drain(KafkaSource(cluster, topic, value=Text()).load(spark), checkpoint)
    assert [row.value for row in rows] == ["a", "b", "c"]
    loose = KafkaSource(cluster, topic, value=Text(), isolation="read_uncommitted").load(spark)
    assert [row.value for row in drain(loose, checkpoint + "-loose")] == ["a", "b", "never", "c"]


def test_columns(spark, cluster, new_topic, produce, checkpoint):
    """Fields of the value, then the key, then the metadata in the order given, each with its type."""
    topic = new_topic()
    produce(topic, ['{"user":"u1","amount":1.10}'], key="k1", headers=[("h", b"1")], timestamp=1_700_000_000_000)
    source = KafkaSource(
        cluster,
        topic,
        value=Json("user string, amount decimal(18,2)"),
        key=Text(),
        metadata=["offset", "topic", "partition", "timestamp", "headers"],
    )
    frame = source.load(spark)
    assert dict(frame.dtypes) == {
        "user": "string",
        "amount": "decimal(18,2)",
        "key": "string",
        "offset": "bigint",
        "topic": "string",
        "partition": "int",
        "timestamp": "timestamp",
        "headers": "array<struct<key:string,value:binary>>",
    }
    [row] = drain(frame.withColumn("at", F.unix_seconds("timestamp")), checkpoint)
    assert (row.user, str(row.amount), row.key, row.offset, row.topic) == ("u1", "1.10", "k1", 0, topic)
    assert row.at == 1_700_000_000
    assert [(header.key, bytes(header.value)) for header in row.headers] == [("h", b"1")]


def test_two_columns_of_one_name(spark, cluster):
    """A value's field that is called like a metadata column is said before the query starts."""
    source = KafkaSource(cluster, "t", value=Json("Offset bigint, a int"), metadata=["offset"])
    with pytest.raises(ConfigurationError, match="two columns of the name offset"):
        source.load(spark)


def test_ddl_that_spark_cannot_parse(spark, cluster):
    """Wrong DDL is ConfigurationError with Spark's reason and the schema."""
    with pytest.raises(ConfigurationError, match='data type "IT"') as raised:
        KafkaSource(cluster, "t", value=Json("a it"))
    assert "schema='a it'" in str(raised.value)


NAMES = ["a", "A", "a b", "a.b", "a`b", "`", " ", "", "ü", "日本", "value", "key", "offset", "_onceflow_corrupt"]
NAMES += ["_onceflow_value", "_onceflow_barrier", "_onceflow_malformed", "onceflow_digest", "int"]
TYPES = ["int", "string", "decimal(38,38)", "array<string>", "map<string,int>", "struct<`x y`:int,x:array<int>>"]
TYPES += ["void", "variant", "interval", "char(3)", "map<int,string>", "array<map<date,int>>", "it", ""]
FIELDS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(TYPES)), min_size=1, max_size=3)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FIELDS)
def test_a_schema_is_read_exactly_where_spark_reads_it(spark, fields):
    """Whatever its columns are called; names that differ in case alone, and ours, are refused in our words."""
    ddl = ", ".join("`{}` {}".format(name.replace("`", "``"), kind) for name, kind in fields)
    names = [name.lower() for name, _ in fields]
    try:
        spark.range(1).select(F.from_json(F.lit("{}"), ddl))
        good = len(set(names)) == len(names) and "_onceflow_corrupt" not in names
    except AnalysisException:
        good = False
    with nullcontext() if good else pytest.raises(ConfigurationError):
        frame = KafkaSource(NOWHERE, "t", value=Json(ddl), metadata=["timestamp", "topic"]).load(spark)
        assert frame.columns == [*(name for name, _ in fields), "timestamp", "topic"]


@pytest.mark.parametrize("key", ["a int, A int", "m map<int,int>", "_onceflow_corrupt int"])
def test_a_schema_of_a_key_that_cannot_be_read_is_said_in_our_words(spark, key):
    """It is read like a value's."""
    with pytest.raises(ConfigurationError, match="cannot be read with its formats"):
        KafkaSource(NOWHERE, "t", value=Raw(), key=Json(key)).load(spark)


def test_columns_of_any_name_come_back(spark):
    """What a sink writes as JSON a source reads: also dots, blanks, back-ticks, no name at all, and our own words."""
    names = [name for name in NAMES if name not in ("A", "_onceflow_corrupt")]
    kinds = StructType([StructField(name, StringType()) for name in names])
    frame = spark.createDataFrame([tuple(f"of {name}" for name in names), (None,) * len(names)], kinds)
    encoded = frame.select(Json().encode(kinds.fields, PART).alias("value"))
    form = Json(kinds)
    parsed = encoded.select(form.parsed(F.col("value")).alias("it"), F.col("value"))
    found = parsed.select(form.malformed(F.col("value"), F.col("it"), None).alias("malformed"), "it").collect()
    assert [row.malformed for row in found] == [False, False]
    assert [tuple(row.it)[:-1] for row in found] == [tuple(row) for row in frame.collect()]


def test_a_plan_leads_back_to_its_source(spark, cluster, new_topic):
    """The id in the plan's options finds the KafkaSource, though nobody else holds it."""
    frame = KafkaSource(cluster, new_topic(), value=Raw(), group="fraud").load(spark)
    found = find("kafka", {SOURCE_OPTION: source_id(frame)})
    assert found.group == "fraud"
    assert found.cluster == cluster


def source_id(frame):
    relation = frame._jdf.queryExecution().analyzed().collectLeaves().head()
    return relation.extraOptions().get(SOURCE_OPTION)


def test_the_consumer_settings_are_those_of_the_connectors_java(spark):
    """Each that Java's consumer has is taken or refused on purpose, and it has each that is taken."""
    consumer = spark._jvm.org.apache.kafka.clients.consumer.ConsumerConfig
    names = {f"kafka.{name}" for name in consumer.configNames()}
    assert names >= CONSUMER_SETTINGS
    for name in (n for n in names - CONSUMER_SETTINGS if not n.startswith("kafka.internal.")):
        with pytest.raises(RefusedSettingError):
            checked_options({name: "x"})


# ---- where it starts ----


def starts_at(spark, cluster, topics, checkpoint, **settings):
    frame = KafkaSource(cluster, topics, value=Text(), metadata=["partition"], **settings).load(spark)
    return sorted((row.partition, row.value) for row in drain(frame, checkpoint))


@pytest.fixture
def two_partitions(admin, new_topic, produce):
    """Partition 0 holds a, b (an hour apart), partition 1 holds c."""
    topic = new_topic(2)
    produce(topic, ["a"], timestamp=1_700_000_000_000)
    produce(topic, ["b"], timestamp=1_700_003_600_000)
    produce(topic, ["c"], partition=1, timestamp=1_700_000_000_000)
    return topic


def test_start_at_the_groups_offsets(spark, cluster, admin, two_partitions, checkpoint):
    """Committed offsets are where reading starts; a partition without one starts at its earliest."""
    group = uuid.uuid4().hex
    offsets.committed(admin, group)  # wait for the coordinator of a fresh broker
    admin.alter_group_offsets(group, {TopicPartition(two_partitions, 0): OffsetAndMetadata(1, "", None)})
    rows = starts_at(spark, cluster, two_partitions, checkpoint, start="group-offsets", group=group)
    assert rows == [(0, "b"), (1, "c")]


def test_start_at_a_timestamp(spark, cluster, two_partitions, checkpoint):
    """The first record at or after the time; a partition without such a record starts at its end."""
    at = dt.datetime.fromtimestamp(1_700_000_001, tz=dt.UTC)
    assert starts_at(spark, cluster, two_partitions, checkpoint, start=at) == [(0, "b")]


def test_start_at_given_offsets(spark, cluster, two_partitions, checkpoint):
    """Partitions that are not named start at their earliest; partitions that do not exist are said."""
    rows = starts_at(spark, cluster, two_partitions, checkpoint, start={two_partitions: {0: 2}})
    assert rows == [(1, "c")]
    with pytest.raises(ConfigurationError, match="wrong start"):
        starts_at(spark, cluster, two_partitions, checkpoint, start={two_partitions: {7: 2}})


def test_a_topic_that_is_not_there(spark, cluster):
    """A start that needs the topic's partitions names a topic that does not exist."""
    with pytest.raises(ConfigurationError, match="there is no topic no-such-topic"):
        KafkaSource(cluster, "no-such-topic", value=Raw(), start={"no-such-topic": {0: 1}}).load(spark)


def test_a_checkpoint_goes_before_the_start(spark, cluster, new_topic, produce, checkpoint):
    """After a first run the query goes on where it was, whatever start= says."""
    topic = new_topic()
    produce(topic, ["a"])
    assert starts_at(spark, cluster, topic, checkpoint) == [(0, "a")]
    produce(topic, ["b"])
    assert starts_at(spark, cluster, topic, checkpoint, start="latest") == [(0, "b")]


def test_new_partitions_are_found(spark, cluster, admin, new_topic, produce, checkpoint):
    """A partition added between two runs is read from its first record."""
    topic = new_topic()
    produce(topic, ["a"])
    assert starts_at(spark, cluster, topic, checkpoint) == [(0, "a")]
    admin.create_partitions({topic: 2})
    admin.wait_for_topics([topic])
    produce(topic, ["b", "c"], partition=1)
    assert starts_at(spark, cluster, topic, checkpoint) == [(1, "b"), (1, "c")]


def test_topics_of_a_pattern(spark, cluster, new_topic, produce, checkpoint):
    """A pattern finds whole names only, and topics that are made later."""
    prefix = f"p{uuid.uuid4().hex[:8]}"
    for name in (f"{prefix}-1", f"x{prefix}-1"):
        produce(new_topic(name=name), [name])
    pattern = re.compile(f"{prefix}-.*")
    assert starts_at(spark, cluster, pattern, checkpoint) == [(0, f"{prefix}-1")]
    produce(new_topic(name=f"{prefix}-2"), ["later"])
    assert starts_at(spark, cluster, pattern, checkpoint) == [(0, "later")]


def test_epochs_are_limited(spark, cluster, new_topic, produce, checkpoint):
    """max_records_per_epoch cuts what is there into several epochs."""
    topic = new_topic()
    produce(topic, [str(number) for number in range(10)])
    sizes = []
    query = (
        KafkaSource(cluster, topic, value=Text(), max_records_per_epoch=4)
        .load(spark)
        .writeStream.foreachBatch(lambda batch, _: sizes.append(batch.count()))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert sum(sizes) == 10
    assert max(sizes) <= 4


# ---- malformed records ----

MALFORMED = [
    "bad",
    None,
    "",
    "[]",
    "5",
    "null",
    '{"a":"x"}',
    '{"a":1.5}',
    '{"a":1',
    b'{"b":"\xff"}',
    '{"a":9999999999}',
]
GOOD = {
    '{"a":1,"b":"x","c":9}': (1, "x"),
    "{}": (None, None),
    '{"a":null}': (None, None),
    '{"b":"\ufffd"}': (None, "\ufffd"),
    b'{"a":2,"c":"\xff"}': (2, None),
}


def test_what_is_malformed(spark, cluster, new_topic, produce, checkpoint):
    """Wrong types, cut objects, other JSON, bytes that are no UTF-8, tombstones; missing and ignored fields are not."""
    topic = new_topic()
    produce(topic, [*GOOD, *MALFORMED])
    frame = KafkaSource(cluster, topic, value=Json("a int, b string"), on_malformed="skip").load(spark)
    assert [tuple(row) for row in drain(frame, checkpoint)] == list(GOOD.values())


@pytest.mark.parametrize(
    "kind", ["array<string>", "map<string,int>", "struct<x:string>", "string collate UTF8_LCASE", "variant"]
)
def test_bytes_that_are_not_utf8_are_found_deeper_down(spark, cluster, new_topic, produce, checkpoint, kind):
    """from_json replaces them without a word, whatever the type that holds the text."""
    topic = new_topic()
    records = {
        "array<string>": '{"a":["?"]}',
        "map<string,int>": '{"a":{"?":1}}',
        "struct<x:string>": '{"a":{"x":"?"}}',
    }
    record = records.get(kind, '{"a":"?"}')
    produce(topic, [record.encode().replace(b"?", b"\xff"), record])
    source = KafkaSource(cluster, topic, value=Json(f"a {kind}"), on_malformed="skip")
    assert len(drain(source.load(spark).selectExpr("to_json(struct(a)) AS a"), checkpoint)) == 1


def test_text_and_raw(spark, cluster, new_topic, produce, checkpoint):
    """Text refuses bytes that are not UTF-8 and keeps null; Raw takes everything."""
    topic = new_topic()
    produce(topic, ["ü", None, b"\xff"])
    text = KafkaSource(cluster, topic, value=Text(), on_malformed="skip").load(spark)
    assert [row.value for row in drain(text, checkpoint)] == ["ü", None]
    raw = KafkaSource(cluster, topic, value=Raw()).load(spark)
    assert [row.value for row in drain(raw, checkpoint + "-raw")] == [b"\xc3\xbc", None, b"\xff"]


SHAPES = {
    "nothing": lambda frame: frame,
    "count only": lambda frame: frame.groupBy().count(),
    "a filter that the record's null fields would not pass": lambda frame: frame.where("a > 10"),
    "another column only": lambda frame: frame.select("topic"),
    "no column": lambda frame: frame.select(F.lit(1)),
    "a filter that no record passes": lambda frame: frame.where("false or partition > 99"),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("record", ["bad", None])
def test_a_malformed_record_stops_the_query(spark, cluster, new_topic, produce, checkpoint, shape, record):
    """Whatever the user's plan makes of the rows, Spark does not optimize the check away."""
    topic = new_topic()
    produce(topic, ['{"a":1}', record])
    frame = SHAPES[shape](KafkaSource(cluster, topic, value=Json("a int"), metadata=["topic", "partition"]).load(spark))
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True)
    with pytest.raises(StreamingQueryException) as raised:
        (writer.outputMode("update") if shape == "count only" else writer).start().awaitTermination(120)
    error = malformed_from(str(raised.value))
    assert isinstance(error, MalformedRecordError)
    said = "it is null, a tombstone" if record is None else "it is no JSON object, or one that is cut short"
    assert error.facts == {"topic": topic, "partition": 0, "offset": 1, "reason": f"its value: {said}"}


def test_what_a_malformed_record_advises_works(spark, cluster, new_topic, produce, checkpoint):
    """It says where and by which setting; "skip" leaves the record out, a schema that fits reads it, as it says."""
    topic = new_topic()
    produce(topic, ['{"a":1}', '{"a":"x"}'])
    message = failure(KafkaSource(cluster, topic, value=Json("a int")).load(spark), checkpoint)
    place = f"topic {topic}, partition 0, offset 1"
    error = parts_of(malformed_from(message), MalformedRecordError, place, "on_malformed=fail")
    assert error.action.startswith("correct the schema")
    assert 'on_malformed="skip"' in error.action
    skipping = KafkaSource(cluster, topic, value=Json("a int"), on_malformed="skip").load(spark)
    assert [row.a for row in drain(skipping, checkpoint)] == [1]
    fitting = KafkaSource(cluster, topic, value=Json("a string")).load(spark)
    assert sorted(row.a for row in drain(fitting, checkpoint + "-string")) == ["1", "x"]


def test_json_is_parsed_once(spark, cluster, new_topic, produce, checkpoint):
    """Spark would parse again in every filter that it pushes down; the executed plan reads the schema once.

    What else parses says why a record is malformed, and runs for such a record alone.
    """
    topic = new_topic()
    produce(topic, ['{"a":2,"b":"y"}'])
    frame = KafkaSource(cluster, topic, value=Json("a int, b string, c string")).load(spark)
    writer = frame.where("a > 1 and b <> 'x'").select("c").writeStream.format("noop")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert query._jsq.explainInternal(False).count("from_json(StructField") == 1


def test_a_failing_query_does_not_show_the_record(spark, cluster, new_topic, produce, checkpoint):
    """The content of a malformed record, which may be personal, stands nowhere in the failure."""
    topic = new_topic()
    produce(topic, ["IBAN DE02120300000000202051"])
    message = failure(KafkaSource(cluster, topic, value=Json("a int")).load(spark), checkpoint)
    assert "DE0212" not in message + str(malformed_from(message))


def test_a_malformed_key_stops_the_query(spark, cluster, new_topic, produce, checkpoint):
    """Keys are held to their format like values."""
    topic = new_topic()
    produce(topic, ["v"], key='{"id":1}')
    produce(topic, ["v"], key="bad")
    message = failure(KafkaSource(cluster, topic, value=Text(), key=Json("id int")).load(spark), checkpoint)
    assert malformed_from(message).facts["offset"] == 1


@pytest.mark.parametrize("stateful", [False, True])
def test_skipped_records_are_counted(spark, cluster, new_topic, produce, checkpoint, stateful):
    """The progress of each epoch has the number of records left out, before a stateful aggregation, too."""
    topic = new_topic()
    source = KafkaSource(cluster, topic, value=Json("a int"), metadata=["timestamp"], on_malformed="skip")
    counts = []
    for values in (['{"a":1}', "bad", None], ['{"a":1}', "worse"]):
        produce(topic, values)
        source_frame = source.load(spark)
        frame = source_frame.where("a > 0")
        if stateful:
            frame = frame.withWatermark("timestamp", "1 hour").groupBy(F.window("timestamp", "1 minute"), "a").count()
        query = (
            frame.writeStream.foreachBatch(lambda batch, _: batch.collect())
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        with_input = [progress for progress in query.recentProgress if progress.numInputRows]
        loaded = find("kafka", {SOURCE_OPTION: source_id(source_frame)})
        counts += [loaded.malformed({k: v.asDict() for k, v in p.observedMetrics.items()}) for p in with_input]
    assert [found.records for found in counts] == [2, 1]
    assert counts[0].first == (
        f"topic {topic}, partition 0, offset 1: its value: it is no JSON object, or one that is cut short",
        f"topic {topic}, partition 0, offset 2: its value: it is null, a tombstone",
    )


# ---- lost records ----


def test_records_deleted_before_they_were_read(spark, cluster, admin, new_topic, produce, checkpoint):
    """Under a paused query: Spark's words become our error, with topic, partition and wanted offset."""
    topic = new_topic()
    source = KafkaSource(cluster, topic, value=Text())
    produce(topic, [str(number) for number in range(10)])
    assert len(drain(source.load(spark), checkpoint)) == 10
    produce(topic, [str(number) for number in range(10)])
    admin.delete_records({TopicPartition(topic, 0): 15})
    error = offsets.data_lost_from(failure(source.load(spark), checkpoint))
    assert isinstance(error, SourceDataLostError)
    assert {name: error.facts[name] for name in ("topic", "partition", "wanted")} == {
        "topic": topic,
        "partition": 0,
        "wanted": 10,
    }


def test_a_topic_made_again(spark, cluster, admin, new_topic, produce, checkpoint):
    """A topic deleted and made again with fewer records is lost data, not a new beginning."""
    topic = new_topic()
    source = KafkaSource(cluster, topic, value=Text())
    produce(topic, [str(number) for number in range(10)])
    assert len(drain(source.load(spark), checkpoint)) == 10
    admin.delete_topics([topic])
    make_again(admin, new_topic, topic)
    produce(topic, ["new"])
    error = offsets.data_lost_from(failure(source.load(spark), checkpoint))
    assert isinstance(error, SourceDataLostError)
    assert error.facts["wanted"] == 10
    assert "the topic ends before offset 1:" in str(error)


def make_again(admin, new_topic, topic):
    """The name is free once the broker has finished the deletion."""
    from kafka.errors import TopicAlreadyExistsError

    while True:
        try:
            return new_topic(name=topic)
        except TopicAlreadyExistsError:
            continue


def test_a_new_partition_cut_before_it_was_read(spark, cluster, admin, new_topic, produce, checkpoint):
    """Records of an added partition that are deleted before they were ever read are lost, too."""
    topic = new_topic()
    source = KafkaSource(cluster, topic, value=Text())
    produce(topic, ["a"])
    drain(source.load(spark), checkpoint)
    admin.create_partitions({topic: 2})
    admin.wait_for_topics([topic])
    produce(topic, ["b", "c"], partition=1)
    admin.delete_records({TopicPartition(topic, 1): 1})
    error = offsets.data_lost_from(failure(source.load(spark), checkpoint))
    assert error.facts == {"topic": topic, "partition": 1, "wanted": 0, "earliest": 1, "lost": 1}


# ---- asking the broker ----


def test_bounds_end_at_the_last_stable_offset(cluster, admin, new_topic, produce):
    """read_committed sees the end before an open transaction, read_uncommitted behind it."""
    topic = new_topic()
    produce(topic, ["a", "b"])
    producer = Producer(cluster.for_librdkafka() | {"transactional.id": uuid.uuid4().hex})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, "open")
    assert producer.flush(30) == 0
    partition = Partition(topic, 0)
    assert offsets.bounds(admin, [partition, Partition(topic, 5)]) == {partition: (0, 2)}
    assert offsets.bounds(admin, [partition], isolation="read_uncommitted") == {partition: (0, 3)}
    producer.abort_transaction()


# ---- formats for sinks ----


def test_encoding(spark):
    """Json keeps null fields and the columns' order; Text and Raw take one column and keep null."""
    frame = spark.createDataFrame([(1, "ü", None)], "n int, `a.b` string, `no``ne` string")
    columns = {
        "json": Json().encode([frame.schema[name] for name in ("a.b", "n", "no`ne")], PART),
        "text": Text().encode([frame.schema["n"]], PART),
        "raw": Raw().encode([frame.schema["a.b"]], PART),
        "null": Text().encode([frame.schema["no`ne"]], PART),
    }
    encoded = frame.select(*(column.alias(name) for name, column in columns.items()))
    assert {kind for _, kind in encoded.dtypes} == {"binary"}
    row = encoded.first()
    assert json.loads(row.json) == {"a.b": "ü", "n": 1, "no`ne": None}
    assert (bytes(row.text), bytes(row.raw), row.null) == (b"1", "ü".encode(), None)
    with pytest.raises(ConfigurationError, match="Text writes one column, but 2 are given"):
        Text().encode([frame.schema[name] for name in ("a.b", "n")], PART)
