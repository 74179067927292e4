"""Parts, reports and participants: they survive as text, and differences between two runs of an epoch are found."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.twophase.participants import (
    Part,
    Participant,
    TaskReport,
    come_again,
    differing_sinks,
    find_again,
    find_by_origin,
    miscounted,
    parts_of,
    prepared,
    totals,
    uncovered,
    unreported,
    with_origins,
)
from tests.support.histories import part, participant

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
TRANSACTIONS = st.dictionaries(st.text(max_size=4), JSON_VALUES, max_size=3)
SINKS = st.text("abc.-_3", min_size=1, max_size=6)


def parts_for(sink):
    numbers = st.integers(0, 500), st.integers(0, 2**40), st.integers(0, 2**64 - 1), st.text(max_size=9)
    made = st.builds(lambda *of: Part(sink, *of), *numbers)
    return st.lists(made, max_size=4, unique_by=lambda p: p.number).map(tuple)


REPORTS = SINKS.flatmap(
    lambda s: st.builds(
        TaskReport, st.just(s), st.integers(0, 500), st.integers(0, 9), parts_for(s), st.none() | TRANSACTIONS
    )
)
PARTICIPANTS = SINKS.flatmap(
    lambda s: st.builds(Participant, st.just(s), st.text(max_size=9), parts_for(s), TRANSACTIONS)
)
PARTS = SINKS.flatmap(parts_for)


@given(REPORTS)
def test_a_report_comes_back_from_its_text(wanted):
    """``loads`` takes back whatever ``dumps`` writes, on one line: so a task's report crosses to the driver."""
    assert TaskReport.loads(wanted.dumps()) == wanted
    assert "\n" not in wanted.dumps()


@given(PARTICIPANTS)
def test_a_participant_comes_back_from_its_json(wanted):
    """``from_json`` takes back whatever ``to_json`` gives, so a participant may cross a crash."""
    assert Participant.from_json(json.loads(json.dumps(wanted.to_json()))) == wanted


@given(PARTS, st.randoms())
def test_a_run_does_not_differ_from_itself(parts, random):
    """Neither the order of parts, nor their numbers, nor what was read for them make a difference."""
    again = [replace(p, number=p.number + 1, origin="other") for p in parts]
    random.shuffle(again)
    assert differing_sinks(parts, again) == {}


of = part


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


def test_visible_parts_are_found_by_their_rows():
    """Tasks are numbered differently in another run; what is visible is where its rows are."""
    turned = [of(2, digest=1), of(0, digest=2), of(1, digest=3)]
    assert find_again([A, C], turned) == {("s", 2), ("s", 1)}
    assert find_again([], turned) == frozenset()


def test_equal_parts_are_not_found_twice():
    """Two visible parts with equal rows need two parts with these rows, of the same sink."""
    assert find_again([of(0), of(1)], [of(5), of(6)]) == {("s", 5), ("s", 6)}
    assert find_again([of(0), of(1)], [of(5), C]) is None
    assert find_again([of(0)], [of(0, sink="t")]) is None


def test_a_visible_part_whose_rows_are_gone_is_not_found():
    """One visible part without its rows in the new run: nothing may be written."""
    assert find_again([A, B], [A, C]) is None


def having_read(origin, sink="s"):
    return part(0, sink=sink, origin=origin)


X, Y = "0:t-0[0,5)", "0:t-1[0,5)"


def test_visible_parts_are_found_by_what_they_had_read():
    """Whatever rows they have now, also none, and whatever their numbers: what was read for a partition tells."""
    again = ["", Y, X]
    assert find_by_origin([having_read(X)], again) == {("s", 2)}
    assert find_by_origin([having_read(X), having_read(Y), having_read(X, "u")], again) == {
        ("s", 2),
        ("s", 1),
        ("u", 2),
    }
    assert find_by_origin([], again) == frozenset()


@pytest.mark.parametrize("again", [[], [Y], [X, X], [""]])
def test_what_nobody_reads_now_or_two_do_is_not_found(again):
    """Not read any more, read for two, or not known: nothing may be written."""
    assert find_by_origin([having_read(X)], again) is None


def test_a_part_whose_origin_is_not_known_is_not_found():
    """An empty origin matches no other one, not even an empty one."""
    assert find_by_origin([having_read("")], [""]) is None
    assert find_by_origin([having_read(X), having_read("")], [X, ""]) is None


# -- is a run complete? -----------------------------------------------------------------------------------------------


FULL, MORE, NONE = part(0), part(1, 5), part(2, 0, 0)


def report(task, *parts, sink="s", transaction=None):
    return TaskReport(sink, task, 0, parts or (part(task, sink=sink),), transaction)


@pytest.mark.parametrize(
    ("reports", "said"),
    [
        ([report(0), report(1)], None),
        ([report(0)], "2 reports were expected and 1 came"),
        ([report(0), report(1), report(2)], "2 reports were expected and 3 came"),
        ([report(0), report(1), report(1, part(7))], "2 reports were expected and 3 came"),
        ([report(0), report(1, sink="t")], "2 reports were expected and 2 came"),
        ([report(0, part(0), part(3)), report(1, part(2))], None),
        ([report(0, part(0)), TaskReport("s", 1, 0, ())], None),
        ([report(0, part(3)), report(1, part(3))], "these parts were reported twice"),
        ([report(0, part(3), part(3)), report(1)], "these parts were reported twice"),
        ([report(0, part(4)), report(1)], "the run has 4 partitions, and these parts are of others: [('s', 4)]"),
        ([report(0, part(-1)), report(1)], "the run has 4 partitions, and these parts are of others: [('s', -1)]"),
    ],
)
def test_each_task_reports_once_and_each_part_is_in_one_report(reports, said):
    """Two tasks for four partitions: a report that is missing, strange or doubled, a part twice or of none, are said.

    However the parts are spread over the tasks, and whichever have no rows.
    """
    found = unreported(reports, ["s"], 2, 4)
    assert (found is None) if said is None else found.startswith(said)


@pytest.mark.parametrize(
    ("silent", "written", "right"),
    [((), 6, True), ((), 5, False), ((), 7, False), ((0,), 5, True), ((0,), 6, False), ((0, 1), 0, True)],
)
def test_a_writer_got_the_rows_of_the_parts_that_are_not_silent(silent, written, right):
    """One more would be visible twice or counted by nobody, one less would be decided and written nowhere."""
    held = frozenset(("s", number) for number in silent)
    assert (miscounted([FULL, MORE, NONE], held, written) is None) is right


def test_parts_are_told_what_was_read_for_their_partition():
    """By their numbers, whichever task had them."""
    told = with_origins(report(0, part(2), part(0)), [X, "", Y])
    assert [p.origin for p in told.parts] == [Y, X]


@pytest.mark.parametrize(
    ("held", "silent", "right"),
    [
        ([participant(0), participant(1, 5)], frozenset(), True),
        ([replace(participant(0), parts=(FULL, MORE))], frozenset(), True),
        ([replace(participant(0), parts=(FULL, MORE, NONE))], frozenset(), True),
        ([participant(0)], frozenset([MORE.id]), True),
        ([participant(0)], frozenset(), False),
        ([], frozenset(), False),
        ([participant(0), participant(1, 5), participant(1, 5)], frozenset(), False),
        ([participant(0), participant(1, 4)], frozenset(), False),
        ([participant(0), participant(1, 5)], frozenset([MORE.id]), False),
        ([participant(0), participant(1, 5), participant(3)], frozenset(), False),
        ([participant(0), replace(participant(1, 5), sink="t")], frozenset(), False),
    ],
)
def test_each_part_with_rows_is_in_one_participant(held, silent, right):
    """None is left out, in two, another, or in another sink's; what is silent is in none, and what is empty may be."""
    assert (uncovered([FULL, MORE, NONE], held, silent) is None) is right


@pytest.mark.parametrize(
    ("held", "right"),
    [
        ([participant(0), participant(1)], True),
        ([participant(0), participant(7, sink="t")], True),
        ([participant(0), replace(participant(1), handle="old-0")], False),
        ([participant(0), participant(7)], False),
    ],
)
def test_a_handle_names_one_transaction(held, right):
    """Two of a run with one handle, and one whose handle was decided before, are said; another sink's may be equal."""
    assert (come_again(held, [participant(7)]) is None) is right


def test_what_is_prepared_are_the_parts_that_were_written():
    """A task may hold silent parts beside those it wrote, and empty ones: a transaction holds only the rest."""
    mixed = report(0, FULL, MORE, NONE, transaction={"id": "x"})
    empty = report(1, NONE)
    assert parts_of(prepared([mixed, empty], frozenset([FULL.id]))) == (MORE,)
    assert prepared([empty], frozenset()) == ()


@pytest.mark.parametrize("text", ["{}", "[]", "null", '{"sink":"s","task":0,"attempt":0,"parts":[]}'])
def test_other_json_is_refused(text):
    """What is no report or no participant raises, instead of becoming one with holes."""
    with pytest.raises((KeyError, TypeError, ValueError)):
        TaskReport.loads(text)
    with pytest.raises((KeyError, TypeError, ValueError)):
        Participant.from_json(json.loads(text))


@pytest.mark.parametrize("transaction", [[1], "x", 7, None])
def test_a_transaction_must_be_an_object(transaction):
    """A transaction of another shape is refused when it is read, not when it is committed."""
    with pytest.raises(TypeError, match="must be an object"):
        Participant.from_json(participant(0).to_json() | {"transaction": transaction})
