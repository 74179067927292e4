"""A Kafka source's side of a running job, without a broker: positions behind a loss, and what groups are told."""

import json

import pytest

from onceflow.connectors.kafka.offsets import Bounds
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.source_connection import _moved, _parsed, slowest

T0, T1 = Partition("t", 0), Partition("t", 1)


def moved(position, behind):
    text = json.dumps(position)
    return json.loads(_moved(text, _parsed(text), behind))


@pytest.mark.parametrize(("at", "then"), [(3, 10), (10, 10), (15, 15), (20, 20), (25, 20)])
def test_a_position_is_moved_into_what_is_held(at, then):
    """Before the first record that is left it goes there; behind the last one, there; in between it stays."""
    assert moved({"t": {"0": at, "1": 7}}, {T0: Bounds(10, 20)}) == {"t": {"0": then, "1": 7}}


def test_a_partition_that_is_gone_has_no_position():
    """It may come again, and is then read from its beginning."""
    assert moved({"t": {"0": 3, "1": 7}}, {T0: None}) == {"t": {"1": 7}}


def test_a_position_that_lost_nothing_stays_byte_for_byte():
    """Another source of the same topic keeps its own position."""
    text = '{"t": {"0": 3}}'
    assert _moved(text, _parsed(text), {}) == text
    assert _moved("", {}, {T0: None}) == ""


def test_of_sources_that_share_a_group_the_one_behind_counts():
    """Whoever goes on from the group's offsets must miss nothing, whichever source is listed first."""
    first, second = '{"t":{"0":5,"1":7}}', '{"t":{"0":6,"1":3},"u":{"0":9}}'
    told = {"t": {0: 5, 1: 3}, "u": {0: 9}}
    assert slowest([first, second]) == slowest([second, first]) == told


def test_who_stands_nowhere_tells_nothing():
    """An empty position, and one that is not Kafka's."""
    assert slowest(["", "17", "{}"]) == {}
