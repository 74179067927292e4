"""Rows made for Spark's own Kafka sink: with what the refusal says, the same bytes come out as of that sink."""

import json
from collections import Counter

import pytest
from pyspark.sql import functions as F  # noqa: N812

import onceflow as of
from onceflow.errors import ConfigurationError
from tests.support.harness import read_messages

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

TEXT = ["cast(key as string) as key", "cast(value as string) as value"]
BYTES = ["key", "value"]


@pytest.fixture
def records(spark, cluster, new_topic, produce):
    """Keys, values and headers of every kind, some of no text; ``records(text)`` is a stream of them."""
    topics = {True: new_topic(2), False: new_topic(2)}
    for text, topic in topics.items():
        odd = [] if text else [b"\xff\x00", b"\xc3("]
        for number, key in enumerate([None, b"", b"k", "ü".encode(), *odd]):
            values = [b"v", b"", '{"ü": 1}'.encode(), *odd]
            produce(topic, values, partition=number % 2, key=key, headers=[("a", b"\x00\xff"), ("b", None)])
        produce(topic, [None], key=b"gone")

    def read(text):
        source = of.KafkaSource(cluster, topics[text], value=of.Raw(), metadata=["key", "headers"])
        return source.load(spark)

    return read


def said(error: ConfigurationError, meaning: str) -> dict:
    """The arguments that a refusal names for one of the two meanings."""
    _, _, behind = error.action.partition(f"to write {meaning}: KafkaSink(..., ")
    return eval(f"dict({behind.partition('; to write')[0]}", {"of": of})  # noqa: S307 - as a user's program has it


def ended(query) -> None:
    assert query.awaitTermination(120)


def written(cluster, topics, *, partitions) -> Counter:
    """What is in topics, record by record; where a partition is not chosen by key or column, any may be right."""
    return Counter(
        (number, m.key(), m.value(), repr(m.headers()), m.partition() if partitions or m.key() else None)
        for number, topic in enumerate(topics)
        for m in read_messages(cluster, topic)
    )


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (True, ["value"]),
        (True, TEXT),
        (False, BYTES),
        (False, [*BYTES, "headers", "abs(hash(value)) % 3 as partition"]),
        (True, [*TEXT, "headers", "abs(hash(value)) % 3 as partition", "topic"]),
    ],
)
def test_the_same_bytes_as_of_sparks_own_sink(spark, cluster, new_topic, records, tmp_path, text, columns):
    """Refused without value=; with what the message says, keys, values, headers and places equal those of Spark's."""
    theirs, ours = [new_topic(3), new_topic(3)], [new_topic(3), new_topic(3)]

    def frame(topics):
        one, two = (F.lit(topic) for topic in topics)
        named = F.when(F.length("value") % 2 == 0, one).otherwise(two)
        return records(text).withColumn("topic", named).selectExpr(*columns)

    kafka = frame(theirs).writeStream.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    if "topic" not in columns:
        kafka = kafka.option("topic", theirs[0])
    ended(kafka.option("checkpointLocation", str(tmp_path / "theirs")).trigger(availableNow=True).start())

    def start(**more):
        told = {"name": "test", "checkpointing": of.Checkpointing(tmp_path / "ours"), "until": "caught-up"}
        return of.start(frame(ours), sinks=[of.KafkaSink(cluster, ours[0], **more)], **told)

    with pytest.raises(ConfigurationError) as refused:
        start()
    assert not (tmp_path / "ours" / "onceflow").exists()
    ended(start(**said(refused.value, "what Spark's sink writes")))
    chosen = any("partition" in column for column in columns)
    assert written(cluster, ours, partitions=chosen) == written(cluster, theirs, partitions=chosen)
    assert len(read_messages(cluster, ours[0])) > 2


def test_the_object_is_written_where_it_is_meant(spark, cluster, new_topic, records, tmp_path):
    """The other meaning of the message: one JSON object of all columns."""
    topic = new_topic(1)
    told = {"name": "test", "checkpointing": of.Checkpointing(tmp_path), "until": "caught-up"}
    with pytest.raises(ConfigurationError) as refused:
        of.start(records(True).selectExpr(*TEXT), sinks=[of.KafkaSink(cluster, topic)], **told)
    sink = of.KafkaSink(cluster, topic, **said(refused.value, "the object"))
    ended(of.start(records(True).selectExpr(*TEXT), sinks=[sink], **told))
    assert {tuple(json.loads(m.value())) for m in read_messages(cluster, topic)} == {("key", "value")}
