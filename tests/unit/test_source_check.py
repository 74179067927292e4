"""The sources of a plan, as far as no broker is needed: positions behind a loss, and what was read after an epoch."""

import json

import pytest

from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.connectors.formats import Raw
from onceflow.connectors.kafka import source as kafka
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.offsets import Bounds
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.source import SOURCE_OPTION, KafkaSource
from onceflow.execution.source_check import Sources, _moved
from onceflow.spark.plan import Leaf
from onceflow.twophase.layout import Layout, Source, Topic

ONE, OTHER = KafkaCluster("one:9092"), KafkaCluster("other:9092")
HEAD = 'v1\n{"batchWatermarkMs":0}'


def text(*lines):
    return "\n".join([HEAD, *(line if isinstance(line, str) else json.dumps(line) for line in lines)])


def line(moved, number):
    return json.loads(moved.splitlines()[2 + number])


# -- positions behind a loss ------------------------------------------------------------------------------------------

T0, T1 = Partition("t", 0), Partition("t", 1)


@pytest.mark.parametrize(("at", "moved"), [(3, 10), (10, 10), (15, 15), (20, 20), (25, 20)])
def test_a_position_is_moved_into_what_is_held(at, moved):
    """Before the first record that is left it goes there; behind the last one, there; in between it stays."""
    found = _moved(text({"t": {"0": at, "1": 7}}), [{T0: Bounds(10, 20)}])
    assert line(found, 0) == {"t": {"0": moved, "1": 7}}


def test_a_partition_that_is_gone_has_no_position():
    """It may come again, and is then read from its beginning."""
    assert line(_moved(text({"t": {"0": 3, "1": 7}}), [{T0: None}]), 0) == {"t": {"1": 7}}


def test_only_the_source_that_lost_something_is_moved():
    """Another source of the same topic keeps its own position, a source of another kind its own text."""
    before = text({"t": {"0": 3}}, {"t": {"0": 3}}, "17")
    found = _moved(before, [{}, {T0: Bounds(10, 20)}, {}])
    assert found.splitlines()[:3] == before.splitlines()[:3]
    assert line(found, 1) == {"t": {"0": 10}}
    assert found.splitlines()[4] == "17"


def test_version_and_watermark_stay():
    """Only positions are moved."""
    assert _moved(text({"t": {"0": 3}}), [{T0: Bounds(10, 20)}]).startswith(HEAD + "\n")


# -- what a plan reads ------------------------------------------------------------------------------------------------


@pytest.fixture
def make(monkeypatch):
    """Sources of a plan, without a session: a KafkaSource, the number of one before it, or None for another kind."""

    def made(*given):
        leaves = []
        for i, source in enumerate(given):
            options, kind = {}, "rate"
            if source is not None:
                kind, name = "kafka", str(source) if isinstance(source, int) else str(i)
                if not isinstance(source, int):
                    monkeypatch.setitem(kafka._loaded, name, source)
                options = {SOURCE_OPTION: name}
            leaves.append(Leaf(("s",), kind, options, "path"))
        return Sources(leaves, ())

    return made


def of(cluster=ONE, topics="t"):
    return KafkaSource(cluster, topics, value=Raw())


def test_a_source_that_several_outputs_start_from_counts_once(make):
    """So does Spark's progress; each source that is not ours counts for itself."""
    first, second = of(), of()
    assert make(first, 0, second, None, None).distinct == [first, second, None, None]


def test_how_much_an_epoch_reads_is_told_by_source(make, tmp_path):
    """Between two of Spark's files; before the first one, from where each source began."""
    sources, checkpoint = make(of(), None, of(topics="u")), SparkCheckpoint(tmp_path)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "0").write_bytes(b'\0v1\n{"t":{"0":4}}')
    (tmp_path / "offsets" / "0").write_text(text({"t": {"0": 10}}, "17", {"u": {"0": 3}}))
    (tmp_path / "offsets" / "1").write_text(text({"t": {"0": 15, "1": 2}}, "18", {"u": {"0": 3}}))
    assert sources.sizes(checkpoint, 0) == [6, 0, 3]
    assert sources.sizes(checkpoint, 1) == [7, 0, 0]


# -- what was read, after an epoch ------------------------------------------------------------------------------------


class Brokers:
    """What topics exist, by cluster, and what was asked."""

    def __init__(self, monkeypatch, **topics):
        self.topics, self.asked = topics, []
        monkeypatch.setattr(Sources, "_topics", lambda _, cluster, names: self.answer(cluster, names))

    def answer(self, cluster, names):
        self.asked.append((cluster, frozenset(names)))
        there = self.topics["one" if cluster == ONE else "other"]
        return {topic.name: topic for topic in there if topic.name in names}


def topic(name, number=1, partitions=1):
    return Topic(name, f"{name}-{number}", partitions)


def reading(*topics):
    return Source(("s",), "cluster", "topics", "path", topics)


def test_what_grew_or_was_made_again_is_seen(make, monkeypatch):
    """Another number of partitions, another id: as the topics are after the run, so were they while it read."""
    Brokers(monkeypatch, one=[topic("t", 1, 3), topic("u", 2)])
    before = Layout((reading(topic("t"), topic("u")),))
    after = make(of(topics=["t", "u"])).look_again(before, text({"t": {"0": 1}, "u": {"0": 1}}))
    assert after == Layout((reading(topic("t", 1, 3), topic("u", 2)),))


def test_a_topic_that_the_epoch_found_is_added(make, monkeypatch):
    """A pattern's new topic was read: from here on it is known which one that was."""
    Brokers(monkeypatch, one=[topic("t"), topic("new")])
    after = make(of()).look_again(Layout((reading(topic("t")),)), text({"t": {"0": 1}, "new": {"0": 1}}))
    assert after == Layout((reading(topic("new"), topic("t")),))


def test_what_the_epoch_did_not_read_stays_as_it_was(make, monkeypatch):
    """Of a topic without a line in offsets/N, and of one that is gone since, nothing new is told."""
    brokers = Brokers(monkeypatch, one=[topic("u", 2)])
    before = Layout((reading(topic("t"), topic("u")),))
    assert make(of(topics=["t", "u"])).look_again(before, text({"t": {"0": 1}})) == before
    assert brokers.asked == [(ONE, {"t"})]


def test_each_cluster_is_asked_once_for_what_was_read_of_it(make, monkeypatch):
    """Two sources of one cluster share a question; the same name on another cluster is another topic."""
    brokers = Brokers(monkeypatch, one=[topic("t", 5), topic("u", 6)], other=[topic("t", 7)])
    sources = make(of(), of(topics="u"), of(OTHER), None, of(topics="v"))
    before = Layout(tuple(reading() for _ in range(5)))
    after = sources.look_again(before, text({"t": {"0": 1}}, {"u": {"0": 1}}, {"t": {"0": 1}}, "17", {}))
    assert [source.topics for source in after.sources] == [(topic("t", 5),), (topic("u", 6),), (topic("t", 7),), (), ()]
    assert sorted(brokers.asked, key=str) == sorted([(ONE, {"t", "u"}), (OTHER, {"t"})], key=str)


def test_states_and_all_else_stay(make, monkeypatch):
    """Only topics are looked at again."""
    Brokers(monkeypatch, one=[topic("t", 2)])
    was = Source(("a", "b"), "cluster id", "topic t", "path", (topic("t"),))
    (after,) = make(of()).look_again(Layout((was,)), text({"t": {"0": 1}})).sources
    assert after == Source(("a", "b"), "cluster id", "topic t", "path", (topic("t", 2),))
