"""Committables: they survive as text, and differences between two runs of an epoch are found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.twophase.committable import (
    Committable,
    differing_sinks,
    find_again,
    find_by_origin,
    participants,
    totals,
)

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
COMMITTABLES = st.builds(
    Committable,
    sink=st.text("abc.-_3", min_size=1, max_size=6),
    shard=st.integers(0, 500),
    attempt=st.integers(0, 9),
    rows=st.integers(0, 2**40),
    digest=st.integers(0, 2**64 - 1),
    transaction=st.none() | st.dictionaries(st.text(max_size=4), JSON_VALUES, max_size=3),
    origin=st.text(max_size=9),
)


def of(shard, rows=1, digest=7, sink="s", transaction=None):
    return Committable(sink, shard, 0, rows, digest, transaction)


@given(COMMITTABLES)
def test_a_committable_comes_back_from_its_text(wanted):
    """``loads`` takes back whatever ``dumps`` writes, so a committable may cross a crash."""
    assert Committable.loads(wanted.dumps()) == wanted
    assert "\n" not in wanted.dumps()


@given(st.lists(COMMITTABLES, unique_by=lambda c: c.participant, max_size=6), st.randoms())
def test_a_run_does_not_differ_from_itself(committables, random):
    """Neither the order of tasks, nor their numbers, nor attempts or transactions make a difference."""
    again = [Committable(c.sink, c.shard + 1, c.attempt + 1, c.rows, c.digest) for c in committables]
    random.shuffle(again)
    assert differing_sinks(committables, again) == {}


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        ([of(0), of(1, rows=2)], {"s": (2, 3)}),
        ([of(0), of(1, digest=8)], {"s": (2, 2)}),
        ([of(0)], {"s": (2, 1)}),
        ([of(0, rows=2, digest=14)], {}),
        ([of(0), of(1), of(2)], {"s": (2, 3)}),
        ([of(0), of(1), of(2, rows=0, digest=0)], {}),
        ([of(0), of(1), of(0, sink="t")], {"t": (0, 1)}),
        ([], {"s": (2, 0)}),
    ],
)
def test_sinks_whose_output_differs_are_named(again, expected):
    """Another number of rows or another digest of a sink's whole output differs, whatever task wrote which row."""
    assert differing_sinks([of(0), of(1)], again) == expected


def test_digests_add_up_modulo_two_to_the_64():
    """A sink's total wraps as the shards' digests do."""
    assert totals([of(0, digest=2**64 - 1), of(1, digest=3)]) == {"s": (2, 2)}


A, B, C = of(0, digest=1), of(1, digest=2), of(2, digest=3)


def test_visible_shards_are_found_by_their_rows():
    """Tasks are numbered differently in another run; what is visible is where its rows are."""
    turned = [of(2, digest=1), of(0, digest=2), of(1, digest=3)]
    assert find_again([A, C], turned) == {("s", 2), ("s", 1)}
    assert find_again([], turned) == frozenset()


def test_equal_shards_are_not_found_twice():
    """Two visible shards with equal rows need two parts with these rows, of the same sink."""
    assert find_again([of(0), of(1)], [of(5), of(6)]) == {("s", 5), ("s", 6)}
    assert find_again([of(0), of(1)], [of(5), C]) is None
    assert find_again([of(0)], [of(0, sink="t")]) is None


def test_a_visible_shard_whose_rows_are_gone_is_not_found():
    """One visible shard without its rows in the new run: nothing may be written."""
    assert find_again([A, B], [A, C]) is None


def reading(shard, origin, sink="s"):
    return Committable(sink, shard, 0, 1, shard, origin=origin)


X, Y = "0:t-0[0,5)", "0:t-1[0,5)"


def test_visible_shards_are_found_by_what_they_had_read():
    """Whatever rows they have now and whatever their numbers: what was read tells, sink by sink."""
    again = [reading(4, Y), reading(7, X), reading(4, X, "u"), reading(7, Y, "u")]
    assert find_by_origin([reading(0, X)], again) == {("s", 7)}
    assert find_by_origin([reading(0, X), reading(1, Y), reading(0, X, "u")], again) == {("s", 7), ("s", 4), ("u", 4)}
    assert find_by_origin([], again) == frozenset()


@pytest.mark.parametrize(
    "again",
    [[], [reading(0, Y)], [reading(0, X), reading(1, X)], [reading(0, X, "u")], [reading(0, "")]],
)
def test_what_nobody_reads_now_or_two_do_is_not_found(again):
    """Not read any more, read by two, read for another sink only, or not known: nothing may be written."""
    assert find_by_origin([reading(0, X)], again) is None


def test_a_shard_whose_origin_is_not_known_is_not_found():
    """An empty origin matches no other one, not even an empty one."""
    assert find_by_origin([reading(0, "")], [reading(0, "")]) is None
    assert find_by_origin([reading(0, X), reading(1, "")], [reading(0, X), reading(1, "")]) is None


def test_an_empty_shard_does_not_take_part():
    """A shard without a transaction is kept in the decision, but is neither committed nor aborted."""
    full, empty = of(0, transaction={"id": "x"}), of(1, rows=0, digest=0)
    assert participants([full, empty]) == (full,)


@pytest.mark.parametrize("text", ["{}", "[]", "null", '{"sink":"s","shard":0,"attempt":0,"rows":1,"digest":1}'])
def test_other_json_is_refused(text):
    """What is no committable raises, instead of becoming one with holes."""
    with pytest.raises((KeyError, TypeError, ValueError)):
        Committable.loads(text)


def test_a_transaction_must_be_an_object():
    """A transaction of another shape is refused when it is read, not when it is committed."""
    value = of(0).to_json() | {"transaction": [1]}
    with pytest.raises(TypeError, match="must be an object"):
        Committable.from_json(value)
