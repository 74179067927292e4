"""KafkaSource before Spark: what it tells the connector, and what it refuses."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.sink import KafkaSink
from onceflow.connectors.kafka.source import KafkaSource, find, malformed_from
from onceflow.connectors.source_contract import DeadLetter, EpochLimit, limited
from onceflow.errors import ConfigurationError, MalformedRecordError, RefusedSettingError
from onceflow.formats.json_format import Json
from onceflow.formats.text_format import Raw, Text

CLUSTER = KafkaCluster("broker:9092")


def options(topics="payments", **settings):
    return KafkaSource(CLUSTER, topics, value=Text(), **settings).connector_options()


def test_safe_by_default():
    """Without a word from the user: committed records only, from the earliest, and never on over lost data."""
    given = options()
    assert given["kafka.isolation.level"] == "read_committed"
    assert given["failOnDataLoss"] == "true"
    assert given["startingOffsets"] == "earliest"
    assert given["subscribe"] == "payments"
    assert "kafka.check.crcs" not in given


def test_topics():
    """One name, several, or a pattern."""
    assert options(["a", "b.c"])["subscribe"] == "a,b.c"
    assert options(re.compile("pay.*"))["subscribePattern"] == "^(?:pay.*)$"


@pytest.mark.parametrize("topics", ["", "a,b", "a b", [], ["a", "a"], ["a", 5], re.compile("a", re.IGNORECASE)])
def test_topics_that_cannot_be(topics):
    """A name that Kafka cannot have is said at once."""
    with pytest.raises(ConfigurationError, match="wrong topics"):
        options(topics)


def test_start_at_a_timestamp():
    """An aware datetime is told in milliseconds; partitions without a later record begin at their end."""
    at = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    given = options(start=at)
    assert given["startingTimestamp"] == str(int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1000)
    assert given["startingOffsetsByTimestampStrategy"] == "latest"
    assert "startingOffsets" not in given


@given(st.integers(0, 253_402_214_399_999), st.integers(0, 999), st.integers(-840, 840))
def test_a_start_is_the_first_millisecond_at_or_after_it(milliseconds, microseconds, zone):
    """Exactly, at any time that Python has: a record of the millisecond before is not read."""
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds, microseconds=microseconds)
    at = at.astimezone(timezone(timedelta(minutes=zone)))
    assert int(options(start=at)["startingTimestamp"]) == milliseconds + (microseconds > 0)


@pytest.mark.parametrize(
    "start",
    [
        "yesterday",
        "group-offsets",
        datetime(2026, 1, 1),  # noqa: DTZ001
        datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC),  # -1, which asks a broker for the end
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        {},
        {"t": 5},
        {"t": {0: -1}},
        {"t": {"x": 1}},
        5,
    ],
)
def test_starts_that_cannot_be(start):
    """A start without a time zone, without its group, or of another shape is said at once."""
    with pytest.raises(ConfigurationError, match="wrong start"):
        options(start=start)


def test_limits_groups_headers():
    """The other settings reach the connector under its names."""
    given = options(max_records_per_epoch=500, group="fraud", metadata=["headers"])
    assert given["maxOffsetsPerTrigger"] == "500"
    assert given["groupIdPrefix"] == "fraud"
    assert given["includeHeaders"] == "true"
    assert options(group="fraud", options={"groupidprefix": "x"})["groupIdPrefix"] == "x"


@pytest.mark.parametrize(
    "settings",
    [
        {"isolation": "serializable"},
        {"on_malformed": "ignore"},
        {"on_malformed": KafkaSink(CLUSTER, "dead")},
        {"max_ahead": "soon"},
        {"max_ahead": -1},
        {"max_records_per_epoch": 0},
        {"metadata": ["size"]},
        {"metadata": ["topic", "topic"]},
        {"metadata": "topic"},
        {"key": "text"},
        {"options": {"fetch.min.bytes": 1}},
    ],
)
def test_other_settings_that_cannot_be(settings):
    """What does not exist is ConfigurationError with the choices."""
    with pytest.raises(ConfigurationError) as raised:
        options(**settings)
    assert raised.value.action


@pytest.mark.parametrize(
    "name",
    [
        "kafka.enable.auto.commit",
        "kafka.auto.offset.reset",
        "Kafka.Auto.Offset.Reset",
        "kafka.key.deserializer",
        "kafka.value.deserializer",
        "kafka.isolation.level",
        "kafka.interceptor.classes",
        "kafka.group.id",
        "kafka.bootstrap.servers",
        "kafka.sasl.jaas.config",
        "kafka.ssl.truststore.location",
        "failOnDataLoss",
        "FAILONDATALOSS",
        "startingOffsets",
        "startingTimestamp",
        "maxOffsetsPerTrigger",
        "subscribe",
        "assign",
        "onceflow.source",
    ],
)
def test_options_that_break_the_guarantee_are_refused(name):
    """Refused at construction, in any case of letters, with the reason and what to do instead."""
    with pytest.raises(RefusedSettingError, match=re.escape(name)) as raised:
        options(options={name: "hunter2" if "sasl" in name else "x"})
    assert raised.value.action
    assert "hunter2" not in str(raised.value)


def test_a_consumer_hardly_waits_at_the_end_of_a_partition():
    """Kafka's own half a second would be spent for each partition in each epoch; without any wait it would spin."""
    assert 0 < int(options()["kafka.fetch.max.wait.ms"]) <= 5


def test_other_consumer_settings_pass():
    """What onceflow does not know goes to the consumer; its own speed settings may be changed."""
    given = options(
        options={
            "kafka.fetch.min.bytes": 1000,
            "kafka.Fetch.max.wait.ms": 250,
            "kafka.max.poll.records": 7,
            "kafka.check.crcs": False,
        }
    )
    assert given["kafka.fetch.min.bytes"] == "1000"
    assert given["kafka.fetch.max.wait.ms"] == "250"
    assert given["kafka.max.poll.records"] == "7"
    assert given["kafka.check.crcs"] == "false"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("kafka.max.pol.records", "did you mean kafka.max.poll.records?"),
        ("Kafka.Fetch.Min.Byte", "did you mean kafka.fetch.min.bytes?"),
        ("kafka.queued.min.messages", "has no setting queued.min.messages"),
        ("kafka.", "has no setting"),
    ],
)
def test_a_consumer_setting_that_java_does_not_have_is_refused(name, said):
    """Java would only log that nothing reads it; the one that may be meant is named."""
    with pytest.raises(ConfigurationError) as refused:
        options(options={name: 1})
    assert said in str(refused.value)


def test_settings_of_a_class_of_the_users_pass():
    """A reporter of metrics has names of its own, which nobody else knows."""
    given = options(options={"kafka.metric.reporters": "com.example.Reporter", "kafka.example.port": 9})
    assert given["kafka.example.port"] == "9"


def test_a_schema_is_needed_to_read_json():
    """Json() without a schema is for sinks; a source says so at construction."""
    with pytest.raises(ConfigurationError, match="without a schema"):
        KafkaSource(CLUSTER, "payments", value=Json())


def test_a_dead_letter_is_a_whole_record():
    """Its headers are read for it, whatever columns the job has; and it needs a sink."""
    dead = DeadLetter(KafkaSink(CLUSTER, "dead"))
    assert options(on_malformed=dead)["includeHeaders"] == "true"
    assert KafkaSource(CLUSTER, "t", value=Raw(), on_malformed=dead).dead_letter is dead
    with pytest.raises(ConfigurationError, match="no sink"):
        DeadLetter("dead")


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("a", "a", True),
        (["a", "b"], ["b", "c"], True),
        ("a", "b", False),
        (re.compile("a.*"), "ab", True),
        ("ab", re.compile("a.*"), True),
        ("ba", re.compile("a.*"), False),
        (re.compile("a.*"), re.compile("a.*"), True),
        (re.compile("a.*"), re.compile("ab.*"), False),  # it cannot be known
    ],
)
def test_sources_that_read_the_same_are_told(one, other, both):
    """By their topics; on another cluster they are others."""
    first, second = (KafkaSource(CLUSTER, topics, value=Raw()) for topics in (one, other))
    assert first.overlaps(second) == second.overlaps(first) == both
    assert not first.overlaps(KafkaSource(KafkaCluster("elsewhere:9092"), other, value=Raw()))


def test_malformed_record_from_a_message():
    """The failed query's message leads back to the record, wherever in the text it stands."""
    message = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: [USER_RAISED_EXCEPTION] "
        'onceflow-malformed-record{"topic":"pay-ments.v1","partition":3,"offset":42,'
        '"reason":"its value: field \\"a\\" is no int"} SQLSTATE: P0001\n'
        "… concat(onceflow-malformed-record, to_json(struct(topic, …"
    )
    error = malformed_from(message)
    assert isinstance(error, MalformedRecordError)
    reason = 'its value: field "a" is no int'
    assert error.facts == {"topic": "pay-ments.v1", "partition": 3, "offset": 42, "reason": reason}
    assert f"topic pay-ments.v1, partition 3, offset 42 cannot be read: {reason}" in error.what


def test_a_message_that_was_cut_off_is_no_malformed_record():
    """Half a place tells nobody where to look."""
    assert malformed_from('onceflow-malformed-record{"topic":"t","partition":3,"off') is None


def test_other_messages_are_not_malformed_records():
    """The plan in the message of any other failure holds the marker, too, but no place."""
    assert malformed_from("concat(onceflow-malformed-record, to_json(struct(topic, topic#1") is None


def test_a_source_that_was_never_loaded_is_not_found():
    """An id of another process, another kind of source, and one without an id lead nowhere, without an error."""
    assert find("kafka", {"onceflow.source": "no-such-id"}) is None
    assert find("kafka", {}) is None
    assert find("rate", {}) is None


def test_what_was_not_loaded_has_left_nothing_out():
    """Only the source's own metric counts."""
    assert KafkaSource(CLUSTER, "t", value=Raw()).malformed({"onceflow_malformed_abc": {"records": 2}}).records == 0


def test_formats_know_bad_schemas_early():
    """A schema of the wrong kind or without fields is said without Spark."""
    for schema in ("", " ", 5):
        with pytest.raises(ConfigurationError, match="Json"):
            Json(schema)
    with pytest.raises(ConfigurationError, match="timestamp_format 'epoch-nanos'"):
        Json("t timestamp", timestamp_format="epoch-nanos")
    assert hash(Json("a int")) == hash(Json("a int"))
    assert Raw() == Raw()


@pytest.mark.parametrize(
    ("limit", "given", "expected"),
    [
        (EpochLimit(), None, 900_000),
        (EpochLimit(), 5, 5),
        (EpochLimit(), 2_000_000, 2_000_000),  # who gives a limit means it
        (EpochLimit(700), None, 700),
        (EpochLimit(700), 5_000, 5_000),
        (EpochLimit(700, most=50), None, 50),
        (EpochLimit(700, most=50), 5_000, 50),  # an epoch outlived its transactions: that goes before all
        (EpochLimit(700, most=50), 5, 5),
    ],
)
def test_a_source_reads_no_more_for_an_epoch_than_its_job_can_do(limit, given, expected):
    """The source's own limit, or what was measured; never more than what outlived its transactions was cut to."""
    assert limit.of(given) == expected
    with limited(limit):
        assert options(max_records_per_epoch=given)["maxOffsetsPerTrigger"] == str(expected)
    assert options(max_records_per_epoch=given)["maxOffsetsPerTrigger"] == str(given or 900_000)


def test_a_limit_ends_with_its_job():
    """Also when the stream function raises: the next job in this process has its own."""
    with pytest.raises(ZeroDivisionError), limited(EpochLimit(7)):
        _ = 1 / 0
    assert options()["maxOffsetsPerTrigger"] == "900000"
