"""What a Kafka sink's writers refuse, and how large their records may be, before any broker is asked."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import onceflow as of
from onceflow.connectors.kafka.produce import open_producer
from onceflow.connectors.kafka.producer_names import OFTEN_SET, require_producer
from onceflow.connectors.kafka.refusals import require_times
from onceflow.connectors.kafka.sink_connection import KafkaSinkConnection
from onceflow.errors import ConfigurationError, RowRefusedError
from tests.support.harness import wait_until


def rows(*times):
    return pa.RecordBatch.from_pydict({"timestamp": pa.array(times, pa.int64())})


@pytest.mark.parametrize("times", [(), (None,), (1, -1, None), (-62_135_596_800_000, 253_402_300_799_999)])
def test_times_that_are_written_as_they_are_pass(times):
    """Also those before 1970, and none."""
    require_times("t", rows(*times))
    require_times("t", pa.RecordBatch.from_pydict({"value": pa.array([b""])}))


def test_the_one_time_that_would_be_replaced_is_refused_for_good():
    """Zero is the client's word for no time; starting again, unchanged, meets the same row."""
    with pytest.raises(RowRefusedError, match=r"topic t has the time 1970-01-01T00:00:00Z") as refused:
        require_times("t", rows(5, None, 0))
    assert not refused.value.retriable


# All that Spark's timestamps can be in milliseconds, and more often where something changes.
SPARKS_FIRST, SPARKS_LAST = -9_223_372_036_854_776, 9_223_372_036_854_775
TIMES = st.none() | st.sampled_from([0, 1, -1, -2, SPARKS_FIRST, SPARKS_LAST]) | st.integers(SPARKS_FIRST, SPARKS_LAST)


@given(st.lists(TIMES, max_size=8), st.integers(0, 8))
def test_of_all_times_only_that_one_is_refused(times, first):
    """Also in a slice of a longer batch, of which the rows before it are somebody else's."""
    part = rows(*times).slice(first)
    if 0 in times[first:]:
        with pytest.raises(RowRefusedError):
            require_times("t", part)
    else:
        require_times("t", part)


@pytest.mark.parametrize(("kind", "refused"), [("LogAppendTime", True), ("CreateTime", False), (None, False)])
@pytest.mark.parametrize("timestamp", ["at", None])
def test_a_topic_that_keeps_no_times_of_its_writers_is_refused_where_they_are_given(kind, refused, timestamp):
    """The broker would write its own in their place; what is not known, or not given, is no reason."""
    sink = of.KafkaSink(of.KafkaCluster("localhost:1"), "t", timestamp=timestamp)
    told = {} if kind is None else {"message.timestamp.type": kind}
    if refused and timestamp:
        with pytest.raises(ConfigurationError, match="LogAppendTime"):
            KafkaSinkConnection(sink, None)._require_own_times(told)
    else:
        KafkaSinkConnection(sink, None)._require_own_times(told)


SPARKS = [("key", "string"), ("value", "string")]
TYPES = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "headers": ArrayType(StringType()),
}


def _fields(types):
    return StructType([StructField(name, TYPES[kind]) for name, kind in types])


@pytest.mark.parametrize(
    ("types", "written"),
    [
        ([("value", "string")], 'value=of.Text(), value_columns=["value"]'),
        ([("value", "binary")], 'value=of.Raw(), value_columns=["value"]'),
        (SPARKS, 'value=of.Text(), value_columns=["value"], key="key"'),
        (
            [
                ("partition", "int"),
                ("key", "binary"),
                ("topic", "string"),
                ("value", "binary"),
                ("headers", "headers"),
            ],
            (
                'value=of.Raw(), value_columns=["value"], key="key", headers="headers", partition="partition", '
                'topic_column="topic", key_format=of.Raw()'
            ),
        ),
    ],
)
def test_what_was_made_for_sparks_sink_is_not_wrapped_in_silence(types, written):
    """Both meanings are told, each as arguments that settle it."""
    sink = of.KafkaSink(of.KafkaCluster("localhost:1"), "t", key=None if len(types) == 1 else "key")
    with pytest.raises(ConfigurationError, match="not told how its records are meant") as caught:
        sink.columns(_fields(types))
    assert f"KafkaSink(..., {written});" in caught.value.action
    assert "KafkaSink(..., value=of.Json())" in caught.value.action


@pytest.mark.parametrize(
    ("types", "more"),
    [
        ([*SPARKS, ("amount", "int")], {}),
        ([("key", "string"), ("value", "bigint")], {}),
        ([("key", "string"), ("headers", "string")], {}),
        ([("key", "string"), ("VALUE", "string")], {}),
        (SPARKS, {"value": of.Json()}),
        (SPARKS, {"value": of.Text(), "value_columns": ["value"]}),
    ],
)
def test_what_can_be_meant_in_one_way_only_is_taken(types, more):
    """Another column, or a value that Spark's sink would not take: an object is meant; and what is said is meant."""
    of.KafkaSink(of.KafkaCluster("localhost:1"), "t", **more)._require_named(_fields(types))


@pytest.mark.parametrize(
    ("limits", "producer", "sizes"),
    [
        ((1_048_588,), {}, (1_048_588, 1_000_000, 65_536)),
        ((8_000_000,), {}, (8_000_000, 1_000_000, 65_536)),
        ((200_000_000,), {}, (200_000_000, 1_000_000, 195_313)),
        ((20_000,), {}, (1_000_000, 20_000, 65_536)),
        ((8_000_000, 1_048_588), {}, (8_000_000, 1_000_000, 65_536)),
        ((8_000_000,), {"message.max.bytes": 40_000}, (40_000, 1_000_000, 65_536)),
        ((8_000_000,), {"message.max.bytes": 90_000_000}, (90_000_000, 1_000_000, 87_891)),
        ((1_048_588,), {"queue.buffering.max.kbytes": 1_000}, (1_024_000, 1_000_000, 1_000)),
    ],
)
def test_sizes_follow_the_topic_unless_the_user_says_otherwise(limits, producer, sizes):
    """A record as large as the topic takes, a batch no larger than it takes, and a queue that holds such a record."""
    sink = of.KafkaSink(of.KafkaCluster("localhost:1"), "t", producer=producer)
    config = KafkaSinkConnection(sink, None, limits).writer_factory().config
    names = ("message.max.bytes", "batch.size", "queue.buffering.max.kbytes")
    assert tuple(config[name] for name in names) == sizes


def heard_and_written(config, capfd):
    """What librdkafka says of a broker that is not there: to us, and to standard error."""
    heard = []
    producer = open_producer(dict(config) | {"error_cb": lambda error: heard.append(error.str())})
    wait_until(lambda: producer.poll(0.05) or heard, what="what librdkafka says")
    return "".join(heard), capfd.readouterr().err


def test_what_librdkafka_says_is_told_by_us_alone(monkeypatch, capfd):
    """Between a job's lines its own have no place, unless somebody asks for them."""
    monkeypatch.delenv("ONCEFLOW_DEBUG", raising=False)
    sink = of.KafkaSink(of.KafkaCluster("127.0.0.1:1"), "t")
    config = KafkaSinkConnection(sink, None, (1_048_588,)).writer_factory().config
    heard, written = heard_and_written(config, capfd)
    assert "Connection refused" in heard
    assert written == ""
    monkeypatch.setenv("ONCEFLOW_DEBUG", "1")
    config = KafkaSinkConnection(sink, None, (1_048_588,)).writer_factory().config
    assert "|FAIL|" in heard_and_written(config, capfd)[1]
    asked = of.KafkaSink(of.KafkaCluster("127.0.0.1:1"), "t", producer={"log_level": 6})
    assert KafkaSinkConnection(asked, None, (1_048_588,)).writer_factory().config["log_level"] == 6


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"compresion.type": "zstd"}, "did you mean compression.type?"),
        ({"linger.msec": 5}, "did you mean linger.ms?"),
        ({"max.request.size": 5}, "did you mean message.max.bytes?"),
        ({"xyzzy": 1}, "librdkafka has no producer setting xyzzy"),
        ({"Linger.ms": 5}, "librdkafka has no producer setting Linger.ms"),
        ({"compression.type": "zstdd"}, 'Invalid value "zstdd"'),
        ({"linger.ms": "soon"}, "linger.ms"),
        ({"linger.ms": None}, "linger.ms"),
        ({"fetch.min.bytes": 5}, "fetch.min.bytes is a consumer's"),
    ],
)
def test_a_producer_setting_that_librdkafka_does_not_take_is_said_where_the_sink_is_made(setting, said):
    """Not in the first epoch, in a worker: a misspelt name, and the one that is meant; a value; a consumer's."""
    with pytest.raises(ConfigurationError) as refused:
        of.KafkaSink(of.KafkaCluster("localhost:1"), "t", producer=setting)
    assert said in str(refused.value)
    assert refused.value.cause
    assert refused.value.action


def test_settings_that_librdkafka_takes_pass():
    """Under each of their names."""
    settings = {"compression.type": "zstd", "linger.ms": 0, "queue.buffering.max.ms": "5", "message.max.bytes": 40_000}
    for name, value in settings.items():
        require_producer({name: value})


@pytest.mark.parametrize("name", OFTEN_SET)
def test_what_a_message_proposes_is_a_setting_of_librdkafka(name):
    """Whatever is wrong with a value that is no text, it is not the name."""
    try:
        require_producer({name: "\x00"})
    except ConfigurationError as error:
        assert "has no producer setting" not in error.what  # noqa: PT017 - some take any text


@pytest.mark.parametrize("topic", ["my topic", "", "..", "a/b", "t" * 250])
def test_a_topic_that_kafka_does_not_have_is_told_as_such(topic):
    """Not as a wrong name of a sink, which name= would seem to mend."""
    with pytest.raises(ConfigurationError, match="cannot write to a topic") as refused:
        of.KafkaSink(of.KafkaCluster("localhost:1"), topic)
    assert "name=" not in refused.value.action


@pytest.mark.parametrize("guarantee", ["idempotent-upsert", "exactly once", of.Guarantee.IDEMPOTENT_UPSERT])
def test_a_guarantee_that_a_topic_cannot_give(guarantee):
    """A topic replaces no record by its key; the message names what can be had."""
    with pytest.raises(ConfigurationError, match="a Kafka sink has no guarantee") as told:
        of.KafkaSink(of.KafkaCluster("127.0.0.1:1"), "t", guarantee=guarantee)
    assert "'exactly-once', 'at-least-once', 'none'" in told.value.action


class TestUnderAMode:
    """The guarantee of a job's checkpoints, for sinks that name none."""

    def test_is_taken_where_none_is_named(self):
        """And only there; without a mode it is exactly-once."""
        sink = of.KafkaSink(of.KafkaCluster("b:1"), "t")
        assert sink.participates
        sink.under(of.Guarantee.AT_LEAST_ONCE)
        assert (sink.guarantee, sink.participates) == (of.Guarantee.AT_LEAST_ONCE, False)
        weak = of.KafkaSink(of.KafkaCluster("b:1"), "t", guarantee="none")
        for mode in (of.Guarantee.AT_LEAST_ONCE, of.Guarantee.EXACTLY_ONCE):
            weak.under(mode)
            assert weak.guarantee is of.Guarantee.NONE

    def test_that_is_weaker_than_what_is_named_is_refused(self):
        """The sink would promise what its job does not keep."""
        sink = of.KafkaSink(of.KafkaCluster("b:1"), "t", guarantee="exactly-once")
        sink.under(of.Guarantee.EXACTLY_ONCE)
        with pytest.raises(ConfigurationError, match="names a stronger guarantee"):
            sink.under(of.Guarantee.AT_LEAST_ONCE)

    def test_is_one_for_all_jobs_of_a_sink(self):
        """What a job that runs has of it must not change under its hands."""
        sink = of.KafkaSink(of.KafkaCluster("b:1"), "t")
        sink.under(of.Guarantee.EXACTLY_ONCE)
        with pytest.raises(ConfigurationError, match="two jobs with different modes"):
            sink.under(of.Guarantee.AT_LEAST_ONCE)
        assert sink.participates


INNER = StructType([StructField("a", IntegerType())])
BYTES = MapType(BinaryType(), IntegerType())
WITHOUT_TEXT = [
    (BYTES, "its keys are binary"),
    (MapType(DateType(), IntegerType()), "its keys are date"),
    (MapType(TimestampType(), IntegerType()), "its keys are timestamp"),
    (MapType(INNER, IntegerType()), "its keys are struct<a:int>"),
    (MapType(ArrayType(IntegerType()), IntegerType()), "its keys are array<int>"),
    (ArrayType(StructType([StructField("b", BYTES)])), "its keys are binary"),
    (MapType(StringType(), BYTES), "its keys are binary"),
    (StructType(INNER.fields * 2), "it has two fields a"),
]


@pytest.mark.parametrize(("kind", "why"), WITHOUT_TEXT, ids=[kind.simpleString() for kind, _ in WITHOUT_TEXT])
def test_what_has_no_form_in_json(kind, why):
    """Of some maps' keys Spark would write what they are called in Java, or a count of days: refused by the column."""
    fields = StructType([StructField("n", IntegerType()), StructField("m", kind)])
    with pytest.raises(ConfigurationError, match="column m has no form in JSON") as told:
        of.KafkaSink(of.KafkaCluster("localhost:1"), "t", value=of.Json()).columns(fields)
    assert why in str(told.value)
