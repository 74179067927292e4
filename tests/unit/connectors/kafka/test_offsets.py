"""Offsets of a source: JSON, ranges, lag, and the words for lost records."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import errors as kafka_errors

from onceflow.connectors.kafka import offsets
from onceflow.connectors.kafka.offsets import Bounds, Range
from onceflow.connectors.kafka.partition import Partition
from onceflow.errors import ConfigurationError, KafkaRightsError, KafkaUnavailableError, SourceDataLostError
from onceflow.launch.limit import _records_between

P0, P1 = Partition("pay-ments.v1", 0), Partition("pay-ments.v1", 1)
PARTITIONS = st.builds(Partition, st.text("abc.-_9", min_size=1, max_size=8), st.integers(0, 200))


def test_sparks_json():
    """Spark's offset text becomes offsets by partition."""
    assert offsets.from_json('{"t":{"0":5,"11":7},"u":{"0":-2}}') == {
        Partition("t", 0): 5,
        Partition("t", 11): 7,
        Partition("u", 0): -2,
    }


@given(st.dictionaries(PARTITIONS, st.integers(-2, 2**62)))
def test_json_comes_back(wanted):
    """from_json takes back whatever to_json writes."""
    assert offsets.from_json(offsets.to_json(wanted)) == wanted


@pytest.mark.parametrize("text", ["", "5", "[]", '{"t":5}', '{"t":{"x":1}}', '{"t":{"0":null}}'])
def test_other_text_is_refused(text):
    """What is no offset of the Kafka source is ConfigurationError, not a guess."""
    with pytest.raises(ConfigurationError, match="no offset of Spark's Kafka source"):
        offsets.from_json(text)


def test_a_new_partition_begins_at_zero():
    """A partition that the start does not know was added: all of it belongs to the range."""
    assert offsets.ranges({P0: 5}, {P1: 3, P0: 9}) == [Range(P0, 5, 9), Range(P1, 0, 3)]


@pytest.mark.parametrize(
    ("held", "lost", "said"),
    [
        (Bounds(15, 20), 5, "offsets 10 to 19, but the earliest offset that the topic still holds is 15"),
        (Bounds(50, 60), 10, "the topic still holds is 50"),
        (Bounds(0, 12), 8, "the topic ends before offset 12"),
        (Bounds(0, 3), 10, "the topic ends before offset 3"),
        (None, 10, "the partition was deleted"),
    ],
)
def test_lost_records_are_named(held, lost, said):
    """The error names topic, partition, wanted and earliest offset, and how many are lost."""
    error = offsets.data_lost(P0, wanted=10, end=20, held=held, gone=held is None)
    assert said in str(error)
    assert "topic pay-ments.v1, partition 0" in str(error)
    assert f"at most {lost} records are lost" in str(error)
    earliest = held.earliest if held else None
    assert error.facts == {
        "topic": "pay-ments.v1",
        "partition": 0,
        "wanted": 10,
        "earliest": earliest,
        "lost": lost,
    }


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_the_number_lost_is_exact(start, length, earliest, size):
    """What is told as lost are the offsets that are not held: those before the earliest, else those behind the end."""
    end, held = start + length, Bounds(earliest, earliest + size)
    missing = [at for at in range(start, end) if not held.earliest <= at < held.latest]
    below = [at for at in missing if at < held.earliest]
    if missing:
        error = offsets.data_lost(P0, wanted=start, end=end, held=held)
        assert error.facts["lost"] == len(below or missing)


@pytest.mark.parametrize(
    ("reason", "facts"),
    [
        (
            "Could not read records in offset [10, 20) for topic partition pay-ments.v1-0\nwith consumer group g-1.",
            {"wanted": 10, "earliest": None, "lost": None},
        ),
        (
            "Partition pay-ments.v1-0 offset was changed from 10 to 5.\nThis could be either 1) a user error",
            {"wanted": 10, "earliest": 0, "lost": None},
        ),
        ("Added partition pay-ments.v1-0 starts from 3 instead of 0.", {"wanted": 0, "earliest": 3, "lost": 3}),
        (
            "Starting offset for pay-ments.v1-0 was 4 but consumer reset to 9.",
            {"wanted": 4, "earliest": 9, "lost": 5},
        ),
        (
            "Partitions Set(pay-ments.v1-0, pay-ments.v1-1) have been deleted.",
            {"wanted": None, "earliest": None, "lost": None},
        ),
        (
            "Cannot find initial offsets for partitions Set(pay-ments.v1-0). They may have been deleted.",
            {"wanted": None, "earliest": None, "lost": None},
        ),
    ],
)
def test_sparks_words_for_lost_records(reason, facts):
    """Each way in which Spark 4.2 says that records are gone becomes our error with what Spark told."""
    message = f"terminated with exception: Some data may have been lost because …;\nReason: {reason} SQLSTATE: XXKST"
    error = offsets.data_lost_from(message)
    assert isinstance(error, SourceDataLostError)
    assert error.facts == {"topic": "pay-ments.v1", "partition": 0, **facts}


def test_other_failures_are_not_lost_records():
    """A message about something else is not taken for a loss."""
    assert offsets.data_lost_from("Job aborted due to stage failure: Task 0 … Python worker exited") is None


def test_offsets_between_two_of_sparks_files():
    """Over all Kafka sources, line by line; version, metadata and other kinds of sources count nothing."""
    before = 'v1\n{"batchWatermarkMs":0}\n{"t":{"0":5,"1":5}}\n{"t":{"0":100}}\n17'
    after = 'v1\n{"batchWatermarkMs":9}\n{"t":{"0":9,"1":5}}\n{"t":{"0":103,"1":2}}\n99'
    assert _records_between(before, after) == 4 + (3 + 2), "a new partition begins at 0"
    assert _records_between(after, before) == 0, "never below 0"
    assert _records_between("", after) == 0


@given(st.dictionaries(PARTITIONS, st.integers(0, 2**40)), st.dictionaries(PARTITIONS, st.integers(0, 2**20)))
def test_what_lies_between_is_what_was_added(start, more):
    """Whatever partitions there are: the sum of what each went on by."""
    end = {p: start.get(p, 0) + more.get(p, 0) for p in start.keys() | more.keys()}
    text = [f"v1\n{{}}\n{offsets.to_json(at)}" for at in (start, end)]
    assert _records_between(*text) == sum(more.values())


class Refusing:
    """An admin client whose broker answers with one error."""

    def __init__(self, error):
        self.error = error

    def describe_topics(self, names):
        return [{"name": name, "partitions": [{"partition_index": 0}]} for name in names]

    def list_partition_offsets(self, *_):
        raise self.error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (kafka_errors.LeaderNotAvailableError(), KafkaUnavailableError),
        (kafka_errors.KafkaTimeoutError(), KafkaUnavailableError),
        (kafka_errors.TopicAuthorizationFailedError(), KafkaRightsError),
    ],
)
def test_what_cannot_be_asked_is_said_in_our_words(error, kind):
    """A partition without a leader is waited for; a right that is missing is not."""
    with pytest.raises(kind, match="partitions of t") as caught:
        offsets.bounds(Refusing(error), [Partition("t", 0)], within_s=0)
    assert caught.value.action


class Electing(Refusing):
    """One whose topic was just made: it has no leader at first."""

    times = 2

    def list_partition_offsets(self, asked, *_):
        if self.times:
            self.times -= 1
            raise self.error
        return {each: SimpleNamespace(offset=7) for each in asked}


def test_a_topic_that_was_just_made_is_waited_for(caplog):
    """Its partitions have no leader for a moment: that is said once, and asked again."""
    partition = Partition("t", 0)
    found = offsets.bounds(Electing(kafka_errors.LeaderNotAvailableError()), [partition])
    assert found == {partition: (7, 7)}
    (line,) = (record.getMessage() for record in caplog.records)
    assert "LEADER_NOT_AVAILABLE" in line
    assert line.endswith("it is asked again for 30 s")


class RefusingGroups:
    """One that may not describe a group."""

    def list_group_offsets(self, _):
        raise kafka_errors.GroupAuthorizationFailedError


def test_a_group_that_may_not_be_described_is_a_right_that_is_missing():
    """No supervisor is told to start the job again for it."""
    with pytest.raises(KafkaRightsError, match="group progress") as caught:
        offsets.committed(RefusingGroups(), "progress")
    assert not caught.value.retriable
