"""Names that users give: each is told from every other one wherever it goes, and what cannot be a name is refused."""

import re
import string
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import onceflow as of
from onceflow.checkpoint.identity import JobIdentity, read_identity, write_identity
from onceflow.checkpoint.journal import _name
from onceflow.checkpoint.journal_codec import JournalEntry, decode, encode
from onceflow.connectors.kafka.committer import KafkaCommitter
from onceflow.connectors.kafka.transactional_id import name_transaction, parse_transactional_id
from onceflow.errors import ConfigurationError
from onceflow.execution.task import _columns_of, output_column
from onceflow.launch.request import StartRequest
from onceflow.storage.store import Store
from onceflow.twophase.layout import Kept, Layout, LayoutSource, StateOperator, Topic
from onceflow.twophase.names import JOB_ID, PREFIX, SINK_NAME
from onceflow.twophase.participants import Part, Participant
from onceflow.twophase.records import Decide, LayoutRecord, Replay, Resolve

CLUSTER = of.KafkaCluster("broker:9092")
JOB = "0123abcd4567"
ALLOWED = set(string.ascii_letters + string.digits + "._-")

# Separators at every place, names like the parts of an id, and pairs that Kafka's metrics cannot tell from each other.
ODD = ["-", "--", "a-", "-a", "a.b", "a_b", "a-b", ".", "..", "_", "1", "1-s-0-0-0", "s-0-1-0", "fence", f"s-{JOB}-1"]


def names(pattern, longest):
    return st.sampled_from([*ODD, "a" * longest, "-" * longest]) | st.from_regex(pattern, fullmatch=True)


SINKS, PREFIXES = names(SINK_NAME, 100), names(PREFIX, 64)
JOBS = st.from_regex(JOB_ID, fullmatch=True) | st.sampled_from(["12345678", "0" * 32])
NUMBERS = st.integers(0, 3) | st.integers(0, 2**63 - 1)
PARTS = st.tuples(NUMBERS, SINKS, NUMBERS, NUMBERS, NUMBERS)
ANYTHING = st.text(max_size=12) | st.text(" ._-aB9ü\n", max_size=70) | st.sampled_from(["a" * 65, "a" * 101, "a" * 250])
NO_TEXTS = [None, 5, b"bytes", ["a"]]


def is_name(text, longest):
    """The rule as the messages say it."""
    return 1 <= len(text) <= longest and set(text) <= ALLOWED


# -- transactions and groups ------------------------------------------------------------------------------------------


@given(PREFIXES, JOBS, PARTS, PARTS)
def test_two_transactions_of_a_job_never_share_a_name(prefix, job, one, other):
    """Whatever its sinks are called: the same name is the same incarnation, sink, shard, parity and attempt."""
    first, second = name_transaction(prefix, job, *one), name_transaction(prefix, job, *other)
    incarnation, sink, shard, epoch, attempt = one
    assert (first == second) == ((*one[:3], epoch % 2, attempt) == (*other[:3], other[3] % 2, other[4]))
    parsed = parse_transactional_id(first, prefix, job)
    assert parsed is not None
    assert (parsed.incarnation, parsed.sink, parsed.shard) == (incarnation, sink, shard)
    assert (parsed.parity, parsed.attempt) == (epoch % 2, attempt)


def mark_group(prefix, job):
    return KafkaCommitter(None, "s", "t", prefix, job, 1).marks()._group


@given(st.tuples(PREFIXES, JOBS), st.tuples(PREFIXES, JOBS), PARTS)
def test_no_job_takes_anothers_transactions_or_mark_for_its_own(one, other, parts):
    """Job ids are random, so no prefix holds another job's; then prefixes may begin alike, as prefixes of ACLs do."""
    assume(one[1] != other[1] and one[1] not in other[0] and other[1] not in one[0])
    assert parse_transactional_id(name_transaction(*other, *parts), *one) is None
    assert mark_group(*one) != mark_group(*other)


@given(PREFIXES, JOBS)
def test_a_marks_group_leads_back_to_its_job_and_is_no_transaction(prefix, job):
    """One ACL on the prefix covers both, and neither is taken for the other."""
    assert mark_group(prefix, job).rsplit("-", 2) == [prefix, job, "fence"]
    assert parse_transactional_id(mark_group(prefix, job), prefix, job) is None


# -- what is durable --------------------------------------------------------------------------------------------------


@given(st.lists(SINKS, min_size=1, max_size=4, unique=True), st.text(max_size=20))
def test_names_come_back_from_the_journal(sinks, text):
    """Sinks, and the words of a layout and of an operator, whatever is in them."""
    made = tuple(Participant(s, text, (Part(s, n, 1, 7, text),), {"id": s}) for n, s in enumerate(sinks))
    who = tuple(p.id for p in made)
    layout = Layout(
        (LayoutSource(tuple(sinks), text, text, text, (Topic(sinks[0], text, 3),)),),
        (StateOperator(tuple(sinks), text, text),),
    )
    kept = replace(layout, kept=(Kept(tuple(sinks), text, (text, text), given=((text, text),)),))
    for record in (
        Decide(1, 0, text, tuple(sinks), made),
        Replay(1, 0, 1, "parts", made, who),
        Resolve(1, 0, "write-again", who, text, text),
        LayoutRecord(1, layout),
        LayoutRecord(1, kept),
        LayoutRecord(1, replace(kept, kept=())),
        LayoutRecord(1, replace(kept, kept=(Kept(tuple(sinks), text, None),))),
    ):
        entry = JournalEntry(7, text, 1, record)
        assert decode(encode(entry), 7) == entry


@given(st.integers(1, 10**20 - 1), st.integers(1, 10**20 - 1))
def test_the_names_of_records_are_in_the_order_of_their_places(one, other):
    """A listing of the journal, sorted by name, is the history."""
    assert (_name(one) < _name(other)) == (one < other)
    assert int(_name(one).removesuffix(".json")) == one


@settings(max_examples=30)
@given(st.text(max_size=30), st.text(max_size=30), PREFIXES)
def test_an_identity_comes_back(checkpoint, clusters, prefix):
    """job.json gives back place, clusters and prefix as they were."""
    identity = JobIdentity.new(checkpoint, clusters, prefix)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        write_identity(store, identity)
        assert read_identity(store) == identity


@given(st.integers(0, 20), st.integers(0, 20), st.lists(st.text(max_size=8), unique=True, max_size=3))
def test_a_sinks_columns_come_back_to_it_alone(mine, others, columns):
    """All sinks' columns are in one row; each gets its own, whatever those are called."""
    assume(mine != others)
    given_to = {output_column(n, name): [n] for n in (mine, others) for name in columns}
    assert len(given_to) == 2 * len(columns)
    assert not any(sign in name for name in given_to for sign in ".`"), "which Spark takes for a field's, or a quote"
    assert _columns_of(mine, pa.RecordBatch.from_pydict(given_to)).to_pydict() == {name: [mine] for name in columns}


# -- what is refused --------------------------------------------------------------------------------------------------


def refused(make):
    """Whether it is refused, as a setting that cannot work; any other exception is a failure."""
    try:
        make()
    except ConfigurationError as error:
        return bool(error.action)
    return False


def plan(name="job", prefix="onceflow"):
    return StartRequest(name, of.Checkpointing("checkpoint"), prefix)


@given(ANYTHING)
def test_a_prefix_is_taken_exactly_where_it_can_be_one(text):
    """It begins transactional ids."""
    assert refused(lambda: plan(prefix=text)) != is_name(text, 64)


@given(ANYTHING)
def test_a_job_has_any_name_that_is_not_blank(text):
    """It is shown, and names nothing."""
    assert refused(lambda: plan(text)) == (not text.strip())


@given(ANYTHING)
def test_a_sinks_name_is_taken_exactly_where_it_can_be_one(text):
    """It is part of transactional ids; an empty one is no word for the topic's."""
    assert refused(lambda: of.KafkaSink(CLUSTER, "t", name=text)) != is_name(text, 100)


@given(ANYTHING | st.sampled_from([".", ".."]))
def test_a_topic_is_taken_exactly_where_kafka_can_have_it(text):
    """Sources and sinks say it at once, not when the broker is asked."""
    good = is_name(text, 249) and text not in (".", "..")
    assert refused(lambda: of.KafkaSink(CLUSTER, text, name="s")) != good
    assert refused(lambda: of.KafkaSource(CLUSTER, text, value=of.Raw())) != good
    assert refused(lambda: of.KafkaSource(CLUSTER, ["other", text], value=of.Raw())) != (good and text != "other")


@pytest.mark.parametrize("value", NO_TEXTS)
def test_what_is_no_text_is_refused_in_words(value):
    """Not with Python's own error for a wrong type."""
    checkpoint = of.Checkpointing("checkpoint")
    assert refused(lambda: of.Job(value, checkpointing=checkpoint))
    assert refused(lambda: of.Job("job", checkpointing=checkpoint, transactional_id_prefix=value))
    assert refused(lambda: of.KafkaSink(CLUSTER, value, name="s"))
    if value is not None:  # the topic's name, by default
        assert refused(lambda: of.KafkaSink(CLUSTER, "t", name=value))
    if value != ["a"]:
        assert refused(lambda: of.KafkaSource(CLUSTER, value, value=of.Raw()))


@given(ANYTHING)
def test_any_pattern_of_text_may_name_topics(text):
    """Which topics match is Kafka's to say: here nothing but a pattern's own shape counts."""
    source = of.KafkaSource(CLUSTER, re.compile(re.escape(text)), value=of.Raw())
    assert source.reads(text)
