"""Layouts: what an edit of a job may change, and what would hand a position or a state to another output."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onceflow.twophase.layout import (
    Cut,
    Kept,
    Layout,
    LayoutSource,
    Remade,
    StateOperator,
    Topic,
    Watermark,
    named_otherwise,
    read_up_to,
    remade,
    under,
    what_moved,
    with_what_was_known,
    without_texts,
)


def source(outputs, path="p0", system="one", reads="topics t", topics=("t",), partitions=3):
    names = outputs.split()
    return LayoutSource(tuple(names), system, reads, path, tuple(Topic(t, f"id of {t}", partitions) for t in topics))


def state(outputs, shape="count by key", path="p0"):
    return StateOperator(tuple(outputs.split()), shape, path)


A, B = source("a"), source("b", path="p1", reads="topics u", topics=("u",))
THEN = Layout((A, B), (state("a"), state("b", path="p1")))


def moved(sources=THEN.sources, states=THEN.states):
    return what_moved(THEN, Layout(tuple(sources), tuple(states)))


def test_the_same_plan_moves_nothing():
    """A start without an edit goes on."""
    assert moved() is None
    assert what_moved(Layout(), Layout()) is None


# -- sources ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        # outputs in another order, each with its own source
        ([B, A], "position 0 belonged to output a (reading topics t) and would now belong to output b"),
        # an output more
        ([A, B, source("c")], "the plan read 2 sources (topics t for a, topics u for b) and now reads 3"),
        # one less
        ([A], "now reads 1 (topics t for a)"),
        ([], "now reads 0 (none)"),
        # renamed
        ([source("z"), B], "position 0 belonged to output a (reading topics t) and would now belong to output z"),
        # another cluster
        ([source("a", system="two"), B], "source 0 (topics t, output a) was on cluster one and is on cluster two"),
        # another subscription, without what was read
        (
            [source("a", reads="topics v", topics=("v",)), B],
            "source 0 (output a) read topics t and now reads topics v: the positions in t would be dropped",
        ),
        # two sources exchanged behind one another's output
        ([replace(A, path="p1"), replace(B, path="p0")], "the position of output b would become that of output a"),
    ],
)
def test_what_would_move_a_position_is_said(sources, said):
    """Spark knows positions by number alone: what would read another output's is refused, and both are named."""
    assert said in moved(sources=sources)


@pytest.mark.parametrize(
    "sources",
    [
        [source("a more"), B],  # a sink more in an output
        [replace(A, path="p9"), B],  # another filter or function on the way
        [source("a", reads="topics t,v", topics=("t", "v")), B],  # a topic more
        [source("a", partitions=5), B],  # partitions more
        [source("a", topics=()), B],  # deleted: what is lost is said elsewhere, and the subscription is the same
    ],
)
def test_what_moves_no_position_may_change(sources):
    """Sinks of one output, what lies on the way, and more to read."""
    assert moved(sources=sources) is None


def test_a_sink_may_be_taken_from_an_output():
    """Of an output's sinks one stays: the position stays its own."""
    then = Layout((source("a b"),), (state("a b"),))
    assert what_moved(then, Layout((source("b"),), (state("b"),))) is None


def test_a_cluster_that_was_not_known_stays_unknown():
    """To another way of reading, or from it: nobody can tell whether the offsets are of the same cluster."""
    then = Layout((source("a", system=""),))
    assert "on cluster unknown" in what_moved(then, Layout((source("a"),)))
    assert "on cluster unknown" in what_moved(Layout((source("a"),)), then)
    assert what_moved(then, then) is None


def test_two_sources_never_become_one():
    """Spark keeps one position for all outputs of one source: of two positions one would be forgotten."""
    apart = Layout((replace(A, same_as=0), replace(B, same_as=1)))
    shared = Layout((replace(A, same_as=0), replace(B, same_as=0)))
    assert "two sources would become one" in what_moved(apart, shared)
    assert "one two" in what_moved(shared, apart)


def test_of_a_source_without_known_topics_only_the_words_tell():
    """A source that is not Kafka's has no topics: another description is another source."""
    then = Layout((source("a", reads="folder /in", topics=()),))
    assert what_moved(then, then) is None
    said = what_moved(then, Layout((source("a", reads="folder /other", topics=()),)))
    assert said == "source 0 (output a) read folder /in and now reads folder /other"


def test_two_sources_of_one_topic_in_one_output_are_told_by_their_ways():
    """A union of two reads of one topic, filtered differently: exchanged, each would go on where the other stood."""
    left, right = source("a", path="left"), source("a", path="right")
    said = what_moved(Layout((left, right)), Layout((right, left)))
    assert said == "the position of output a would become that of output a"


def test_a_way_that_is_new_takes_nobodys_place():
    """One of two ways is edited, the other stays: nothing has changed places."""
    left, right = source("a", path="left"), source("a", path="right")
    assert what_moved(Layout((left, right)), Layout((source("a", path="edited"), right))) is None


@pytest.mark.parametrize("kind", [source, state])
def test_filters_of_two_outputs_may_shift(kind):
    """A gets B's filter and B a new one: their names tell them apart, and nothing has changed places."""
    then, now = (kind("a", path="> 1"), kind("b", path="> 2")), (kind("a", path="> 2"), kind("b", path="> 3"))
    sources = (then, now) if kind is source else ((A, B), (A, B))
    states = (then, now) if kind is state else ((), ())
    assert what_moved(Layout(sources[0], states[0]), Layout(sources[1], states[1])) is None


def test_three_outputs_that_change_places_are_told():
    """Each gets the way of the next: as with two, that is no edit of filters."""
    then = tuple(source(name, path=name) for name in "abc")
    now = tuple(source(name, path=path) for name, path in zip("abc", "bca", strict=True))
    assert what_moved(Layout(then), Layout(now)) == "the position of output b would become that of output a"


def test_a_way_may_become_like_another_one_that_stays():
    """The filter of one of two is edited away: the other still stands where it stood, so nothing has changed places."""
    left, right = source("a", path="left"), source("a", path="right")
    assert what_moved(Layout((left, right)), Layout((right, right))) is None


# -- states -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ([state("a")], "the plan kept 2 states and now keeps 1"),
        ([*THEN.states, state("b", "dedup")], "the plan kept 2 states and now keeps 3"),
        (
            [state("a", "sum by key"), THEN.states[1]],
            "state 0 of output a was kept by count by key and would now be gone on with by sum by key",
        ),
        (THEN.states[::-1], "state 0 belonged to output a and would now belong to output b"),
    ],
)
def test_what_would_move_a_state_is_said(states, said):
    """A state operator is a number, too: what would count in another one's state is refused."""
    assert said in moved(states=states)


def test_two_states_of_one_output_that_look_alike_are_told_by_their_ways():
    """Two counts by the same key over different filters, exchanged."""
    left, right = state("a", path="left"), state("a", path="right")
    said = what_moved(Layout((A,), (left, right)), Layout((A,), (right, left)))
    assert said == "the state of output a would become that of output a"


def test_what_lies_below_a_state_may_change():
    """A filter below an aggregation may be edited: Spark goes on with the state, as it says of itself."""
    assert moved(states=[replace(THEN.states[0], path="edited"), THEN.states[1]]) is None


# -- what stands in the columns of a state -----------------------------------------------------------------------------

SUM = Kept(("a",), "Aggregate, output mode update", ("key: STRING", "sum(p): BIGINT"))
OLDER = Layout((A,), (state("a", "Aggregate(key, sum(p) AS total)"),))


def read(kept, begun=True):
    """What is said of an aggregation whose columns are others now."""
    then, now = (replace(OLDER, kept=(each,)) for each in (SUM, kept))
    return what_moved(then, now, begun=begun)


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (
            replace(SUM, columns=("key: STRING", "sum(q): BIGINT")),
            "column 1 of state 0 of output a (Aggregate) was sum(p): BIGINT and would be read as sum(q): BIGINT",
        ),
        (
            replace(SUM, columns=(*SUM.columns, "sum(q): BIGINT")),
            "state 0 of output a (Aggregate) had 2 columns and would have 3; the difference is sum(q): BIGINT",
        ),
        (
            replace(SUM, columns=SUM.columns[:1]),
            "state 0 of output a (Aggregate) had 2 columns and would have 1; the difference is sum(p): BIGINT",
        ),
        (
            replace(SUM, operator="Aggregate, output mode append"),
            "was kept by Aggregate, output mode update and would now be gone on with by Aggregate, output mode append",
        ),
        (replace(SUM, outputs=("b",)), "state 0 belonged to output a and would now belong to output b"),
    ],
)
def test_a_column_that_would_be_read_as_another_is_said(kept, said):
    """Spark tells columns of a state by place and type: both meanings are named."""
    assert said in read(kept)
    assert said in read(kept, begun=False), "an epoch may be undone, with a state that is written"


def test_columns_that_are_not_known_are_not_compared():
    """A state class whose ``init`` failed in the driver once, then or now; a later start compares with what was."""
    unknown = replace(SUM, columns=None)
    assert read(unknown) is None
    assert what_moved(replace(OLDER, kept=(unknown,)), replace(OLDER, kept=(SUM,))) is None
    assert "output mode append" in read(replace(unknown, operator="Aggregate, output mode append"))
    now, then = replace(OLDER, kept=(unknown,)), replace(OLDER, kept=(SUM,))
    assert with_what_was_known(now, then) == then
    other = replace(OLDER, kept=(replace(unknown, operator="Join"),))
    assert with_what_was_known(other, then) == other
    assert with_what_was_known(now, replace(then, kept=())) == now
    assert with_what_was_known(now, replace(then, vocabulary="of another Spark")) == now


def test_what_a_function_with_state_gets_is_told_by_its_names():
    """Columns may come, go and change places; one that means something else is refused. Older layouts do not say it."""
    key, n = ("key", "upper(key): STRING"), ("n", "p: BIGINT")
    of = Kept(("a",), "FlatMapGroupsInPandasWithState, by key", ("n: BIGINT",), given=(key, ("key", "key: STRING"), n))
    then = replace(OLDER, kept=(of,))
    for given_now in (of.given, (n, *of.given[:2]), (*of.given, ("q", "q: BIGINT")), of.given[:2], ()):
        assert what_moved(then, replace(OLDER, kept=(replace(of, given=given_now),))) is None
        assert what_moved(replace(OLDER, kept=(replace(of, given=given_now),)), then) is None
    now = replace(OLDER, kept=(replace(of, columns=None, given=(*of.given[:2], ("n", "q: BIGINT"))),))
    assert "column n, which state 0 of output a is made of, was p: BIGINT and would be q: BIGINT" in what_moved(
        then, now
    )


def test_words_of_another_spark_are_not_compared():
    """It may say the same otherwise: neither what is kept nor shapes are refused for their words alone."""
    then = replace(OLDER, kept=(SUM,), vocabulary="2 of Spark 4.1.0")
    now = replace(then, kept=(replace(SUM, columns=("k: STRING",)),), vocabulary="2 of Spark 4.2.0")
    now = replace(now, states=tuple(replace(each, shape="in other words") for each in now.states))
    assert what_moved(then, now) is None
    assert "would be read as k: STRING" in what_moved(replace(then, vocabulary=now.vocabulary), now)
    assert "now keeps 0" in what_moved(then, replace(now, states=(), kept=()))


def test_rows_that_were_left_out_are_missing_when_nobody_asks_for_that_any_more():
    """A condition that is asked above as well may come; where it goes, the state lacks the rows that it left out."""
    narrow = replace(SUM, narrowed=("isnotnull(p)",))
    assert read(narrow) is None
    back = what_moved(replace(OLDER, kept=(narrow,)), replace(OLDER, kept=(SUM,)))
    assert "was kept of rows with isnotnull(p) alone" in back


def test_a_text_of_a_shape_is_told_by_its_hash():
    """It may be a secret. An older layout has it in full, and is compared all the same."""
    shape = "f(key, 'hunter2')"
    assert "hunter2" not in without_texts(shape)
    assert without_texts(without_texts(shape)) == without_texts(shape)
    older = replace(OLDER, states=(state("a", shape),), kept=None)
    now = replace(older, states=(state("a", without_texts(shape)),), kept=(SUM,))
    assert what_moved(older, now) is None
    said = what_moved(older, replace(now, states=(state("a", "f(key, 'other')"),)))
    assert "was kept by f(key, '… " in said
    assert "hunter2" not in said
    assert "other" not in said


def test_names_that_stand_for_the_same_may_change():
    """What a column means is compared; how the plan is written, only where no meaning is known."""
    renamed = replace(OLDER, states=(state("a", "Aggregate(key, sum(p) AS t)"),))
    assert "was kept by Aggregate(key, sum(p) AS total)" in what_moved(OLDER, renamed)
    assert "was kept by" in what_moved(OLDER, replace(renamed, kept=(SUM,)))
    assert what_moved(replace(OLDER, kept=(SUM,)), replace(renamed, kept=(SUM,))) is None


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ([("id", "p", "id"), ("key",)], None),
        ([("key",), ("id", "p", "id")], None),  # Spark's numbers are not those of the plan
        (
            [("id", "q", "id")],
            "state 0 of output a (INNER join on x) was kept as id, q, id and would be read as id, p, id",
        ),
        ([], "state 0 of output a (INNER join on x) was kept as nothing and would be read as id, p, id"),
    ],
)
def test_of_an_older_checkpoint_the_names_in_sparks_files_tell(then, said):
    """Until a start has written down what is kept; operators whose names tell nothing are passed over."""
    join = Kept(("a",), "INNER join on x, output mode append", ("1", "2", "3"), ("id", "p", "id"))
    assert named_otherwise(then, [join, SUM]) == said


def test_states_that_only_spark_tells_apart_are_counted():
    """Its optimizer may take one out, or make another."""
    then, now = replace(OLDER, kept=(SUM,)), replace(OLDER, kept=(SUM, SUM))
    assert what_moved(then, now) == "Spark kept 1 states and would now keep 2"


def test_of_long_columns_the_difference_is_shown():
    """Windows and what is made of them take hundreds of letters."""
    one, other = ("x" * 500 + end + "y" * 500 for end in ("was", "now"))
    said = read(replace(SUM, columns=(SUM.columns[0], other)))
    assert "read as" in said
    then, now = (replace(OLDER, kept=(replace(SUM, columns=(each,)),)) for each in (one, other))
    said = what_moved(then, now)
    assert "xwasy" in said
    assert "xnowy" in said
    assert len(said) < 500


# -- topics that were made again --------------------------------------------------------------------------------------


def test_a_topic_with_another_id_is_told_by_position():
    """By name it is the same; the ids tell, and each source is told for itself."""
    again = replace(A, topics=(Topic("t", "new id", 3),))
    assert list(remade(THEN, Layout((again, B)))) == [Remade("t", "id of t", "new id")]
    assert list(remade(Layout((A, A)), Layout((A, again)))) == [Remade("t", "id of t", "new id")]


@pytest.mark.parametrize(
    "now",
    [
        Layout((A, B)),
        Layout((source("a", partitions=5), B)),
        Layout((source("a", topics=("t", "v")), B)),
        Layout((source("a", topics=()), B)),
        Layout(()),
    ],
)
def test_what_was_not_made_again(now):
    """The same ids, a topic that is new to the source, or one that is gone."""
    assert list(remade(THEN, now)) == []


# -- whatever the plan ------------------------------------------------------------------------------------------------

# Sinks that get one output are named together; a subscription is of the same topics wherever it stands.
NAMES, PATHS, SHAPES = st.sampled_from([("a",), ("b", "c")]), st.sampled_from("xyz"), st.sampled_from(["count", "sum"])
READS = {"topic t": ("t",), "topic u": ("u",), "topics t, u": ("t", "u")}


def reading(outputs, reads, path):
    return LayoutSource(outputs, "one", reads, path, tuple(Topic(name, f"id of {name}", 1) for name in READS[reads]))


SOURCES = st.builds(reading, NAMES, st.sampled_from(sorted(READS)), PATHS)
STATES = st.builds(StateOperator, NAMES, SHAPES, PATHS)
KEPT = st.builds(Kept, NAMES, SHAPES, st.lists(SHAPES, max_size=3).map(tuple))
LAYOUTS = st.builds(
    lambda sources, states, kept: Layout(tuple(sources), tuple(states), kept),
    st.lists(SOURCES, max_size=5),
    st.lists(STATES, max_size=5),
    st.none() | st.lists(KEPT, max_size=3).map(tuple),
)


@given(LAYOUTS)
def test_a_plan_fits_itself(layout):
    """Whatever it reads and keeps."""
    assert what_moved(layout, layout) is None
    assert list(remade(layout, layout)) == []


@given(LAYOUTS, st.randoms(use_true_random=False))
def test_sources_in_another_order_are_noticed(layout, random):
    """Whatever they have in common: another order of sources that differ in anything never passes."""
    other = random.sample(layout.sources, len(layout.sources))
    assume(tuple(other) != layout.sources)
    assert what_moved(layout, replace(layout, sources=tuple(other)))


@given(LAYOUTS, st.randoms(use_true_random=False))
def test_states_in_another_order_are_noticed(layout, random):
    """Likewise; where it is known what they keep, by that."""
    layout = replace(layout, kept=None)
    other = random.sample(layout.states, len(layout.states))
    assume(tuple(other) != layout.states)
    assert what_moved(layout, replace(layout, states=tuple(other)))


@given(LAYOUTS, st.lists(KEPT, min_size=2, max_size=4, unique=True))
def test_kept_states_in_another_order_are_noticed(layout, kept):
    """Whichever differ in a column, in what they are or in whose they are."""
    then, now = (replace(layout, kept=tuple(each)) for each in (kept, kept[::-1]))
    assume(layout.states)
    assert what_moved(then, now)


def test_how_far_was_read_is_known_of_all_marks_together():
    """The latest time of any, of rows that all have seen; of a mark that nobody knows, nothing."""
    first, second = Watermark(60, ("a", "b")), Watermark(10, ("a", "c"))
    begun = Layout(mark=first)
    assert read_up_to(begun, 0) == Cut(0)
    assert read_up_to(begun, 100) == Cut(160, ("a", "b"))
    assert under(Layout(mark=first), begun, 100) == begun
    edited = under(Layout(mark=second), begun, 100)
    assert edited.read == Cut(160, ("a", "b"))
    assert under(Layout(mark=second), edited, 120) == edited
    assert read_up_to(edited, 120) == Cut(160, ("a", "c", "b"))
    assert read_up_to(edited, 200) == Cut(210, ("a", "c", "b"))
    assert read_up_to(replace(begun, cut=Cut(500, ("d",))), 100) == Cut(500, ("a", "b", "d"))
    assert read_up_to(replace(begun, cut=Cut(0)), 100).at_ms == 0
    assert read_up_to(Layout(), 100) == Cut(0)
    assert under(begun, Layout(), 100).read == Cut(0)
    assert under(begun, Layout(), 0).read is None
    assert under(begun, replace(begun, cut=Cut(5)), 100).cut == Cut(5)
