"""What a Kafka sink's writers refuse, and how large their records may be, before any broker is asked."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onceflow as of
from onceflow.connectors.kafka.refusals import require_times
from onceflow.connectors.kafka.sink_connection import KafkaSinkConnection
from onceflow.errors import ConfigurationError, RowRefusedError


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
