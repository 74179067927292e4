"""A Kafka source's side of a running job, without a broker: losses, positions behind them, and what groups are told."""

import json

import pytest

from onceflow.connectors.kafka.offsets import Bounds
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.source_connection import (
    _behind,
    _moved,
    added,
    beginnings,
    losses,
    parsed,
    remade_topics,
    slowest,
)
from onceflow.twophase.layout import LayoutSource, Topic

T0, T1 = Partition("t", 0), Partition("t", 1)


def as_read(topic_id, partitions=1):
    """Topic t as a source reads it."""
    return LayoutSource((), "", "t", "", (Topic("t", topic_id, partitions),))


@pytest.mark.parametrize(
    ("held", "lost"),
    [
        (Bounds(0, 9), False),
        (Bounds(3, 5), False),
        (Bounds(4, 9), True),
        (Bounds(0, 4), True),
        (None, True),
    ],
    ids=["more is held", "just what is needed", "its first record is gone", "its last record is gone", "no partition"],
)
def test_what_is_needed_must_be_held(held, lost):
    """Offsets 3 and 4 are needed; where one is not held, what is left of the partition is what is behind the loss."""
    by_partition = {} if held is None else {T0: held}
    found = list(losses({T0: 3}, {T0: 5}, by_partition, remade_topics(as_read("A").topics, as_read("A"))))
    assert [(loss.partition, _behind(loss, by_partition)) for loss in found] == ([(T0, held)] if lost else [])


def test_a_topic_that_was_made_again_has_lost_all_and_is_read_from_its_beginning():
    """Although it holds the very offsets: they are other records."""
    held = {T0: Bounds(1, 9)}
    (loss,) = losses({T0: 3}, {T0: 5}, held, remade_topics(as_read("B").topics, as_read("A")))
    assert "its id was A and is B" in str(loss.error)
    assert _behind(loss, held) == Bounds(1, 1)


@pytest.mark.parametrize(
    ("at", "end", "held", "range_"),
    [
        (3, 9, Bounds(5, 20), (3, 9)),
        (3, 4, Bounds(5, 20), (3, 5)),
        (3, 9, Bounds(0, 6), (6, 9)),
        (7, 9, Bounds(0, 6), (6, 9)),
        (3, 9, None, (3, 9)),
    ],
    ids=["its beginning", "more than is planned", "its end", "all behind its end", "no partition"],
)
def test_a_loss_has_its_range(at, end, held, range_):
    """What an operator is shown is what a start refuses: one finds it for both."""
    (loss,) = losses({T0: at}, {T0: end}, {} if held is None else {T0: held}, {})
    assert (loss.start, loss.end) == range_


def test_what_was_planned_of_an_added_partition_must_be_held():
    """A log that ends before the planned end, or is another topic's now, has lost it; what was not planned is not."""
    again = remade_topics(as_read("B").topics, as_read("A"))
    (cut,) = beginnings([T1], {T1: 7}, {T1: Bounds(0, 5)}, {})
    assert (cut.start, cut.end, cut.remade) == (5, 7, False)
    (other,) = beginnings([T1], {T1: 7}, {T1: Bounds(0, 9)}, again)
    assert (other.start, other.end, other.remade) == (0, 7, True)
    assert not list(beginnings([T1], {}, {T1: Bounds(0, 9)}, again))
    (begun,) = beginnings([T1], {}, {T1: Bounds(5, 9)}, again)
    assert begun.remade, "nobody can say how many records that was"


def test_an_added_partition_must_hold_its_first_record():
    """Spark begins at offset 0 in each partition that a position does not name, and only in topics that it names."""
    new = added({T0: 3}, [Topic("t", "A", 3), Topic("u", "B", 1)])
    assert new == {T1, Partition("t", 2)}
    (loss,) = beginnings(new, {}, {T0: Bounds(2, 9), T1: Bounds(2, 9), Partition("t", 2): Bounds(0, 9)}, {})
    assert (loss.partition, loss.error.facts["wanted"], loss.error.facts["earliest"]) == (T1, 0, 2)


def moved(position, behind):
    text = json.dumps(position)
    return json.loads(_moved(text, parsed(text), behind))


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
    assert _moved(text, parsed(text), {}) == text
    assert _moved("", {}, {T0: None}) == ""


def test_of_sources_that_share_a_group_the_one_behind_counts():
    """Whoever goes on from the group's offsets must miss nothing, whichever source is listed first."""
    first, second = '{"t":{"0":5,"1":7}}', '{"t":{"0":6,"1":3},"u":{"0":9}}'
    told = {"t": {0: 5, 1: 3}, "u": {0: 9}}
    assert slowest([first, second]) == slowest([second, first]) == told


def test_who_stands_nowhere_tells_nothing():
    """An empty position, and one that is not Kafka's."""
    assert slowest(["", "17", "{}"]) == {}
