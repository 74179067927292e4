"""The sources of a plan: which they are, how much an epoch reads, and what was read after it."""

import json

import pytest

from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.sink import KafkaSink
from onceflow.connectors.source_contract import SourcePosition
from onceflow.errors import CheckpointConflictError, ConfigurationError, SourceDataLostError
from onceflow.launch.request import StartRequest, place_of
from onceflow.options.checkpointing import Checkpointing
from onceflow.twophase.layout import Layout, LayoutSource
from tests.support.reading import Reading, make, topic

HEAD = 'v1\n{"batchWatermarkMs":0}'


def text(*lines):
    return "\n".join([HEAD, *(line if isinstance(line, str) else json.dumps(line) for line in lines)])


# -- what a plan reads ------------------------------------------------------------------------------------------------


def test_a_source_that_several_outputs_start_from_counts_once():
    """So does Spark's progress; each source that is not ours counts for itself."""
    first, second = Reading(), Reading()
    assert make(first, 0, second, None, None).distinct == [first, second, None, None]


def test_dead_letters_that_the_job_would_read_are_refused():
    """By the sink's system and place: the same name elsewhere is another place."""

    class Own(Reading):
        system_id = "cluster"

        def reads(self, destination):
            return destination == "t"

        def describe(self):
            return "topic t"

    there, elsewhere = KafkaSink(KafkaCluster("one:9092"), "t"), KafkaSink(KafkaCluster("one:9092"), "other")
    make(None, Own()).require_not_read({there: "another cluster", elsewhere: "cluster"})
    with pytest.raises(ConfigurationError, match=r"sink t \(Kafka topic t .*read as topic t"):
        make(None, Own()).require_not_read({elsewhere: "cluster", there: "cluster"})


def test_another_number_of_sources_than_a_query_had_is_refused(tmp_path):
    """Two outputs in one job where the query had one source: before anything of the checkpoint is touched."""
    place = place_of(StartRequest("test", Checkpointing(tmp_path)))
    one, two = make(Reading()), make(Reading(), 0)
    two.require_same_number(place)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "4").write_text(text({"orders": {"0": 7}}))
    before = sorted(path.name for path in tmp_path.rglob("*"))
    one.require_same_number(place)
    with pytest.raises(CheckpointConflictError, match="read 1 sources, and the job reads 2"):
        two.require_same_number(place)
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    (tmp_path / "offsets" / "4").write_text("")  # what a power cut leaves tells nothing
    two.require_same_number(place)


def test_how_much_an_epoch_reads_is_told_by_source(tmp_path):
    """Between two of Spark's files; before the first one, from where each source began."""
    sources, checkpoint = make(Reading(), None, Reading()), SparkCheckpoint.at(tmp_path)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "0").write_bytes(b'\0v1\n{"t":{"0":4}}')
    (tmp_path / "offsets" / "0").write_text(text({"t": {"0": 10}}, "17", {"u": {"0": 3}}))
    (tmp_path / "offsets" / "1").write_text(text({"t": {"0": 15, "1": 2}}, "18", {"u": {"0": 3}}))
    assert sources.sizes(checkpoint, 0) == [6, 0, 3]
    assert sources.sizes(checkpoint, 1) == [7, 0, 0]


class Losing(Reading):
    """It has lost the offsets from 5 to 9 of topic t."""

    system_id = "cluster id"

    def look(self, source, needed, end, known):
        error = SourceDataLostError("t-0 has lost 5 records", lost=5)
        return SourcePosition((topic("t"),), (error,), '{"t":{"0":10}}', '{"t":{"0":10}}')


@pytest.mark.parametrize(("given", "said"), [((Losing(), 0), 5), ((Losing(), Losing()), 10)])
def test_what_a_source_of_two_outputs_has_lost_counts_once(tmp_path, given, said):
    """It stands at two of Spark's positions; two sources of one topic have each lost their own reading of it."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits").mkdir()
    (tmp_path / "offsets" / "0").write_text(text({"t": {"0": 5}}, {"t": {"0": 5}}))
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    found, error = make(*given).survey(SparkCheckpoint.at(tmp_path), None, None, again=False)
    total = f"At most {said} records are lost in all." if said > 5 else ""
    assert error.what == "t-0 has lost 5 records" + (f" The same holds for 1 more partitions. {total}" if total else "")
    assert found.before == text('{"t":{"0":10}}', '{"t":{"0":10}}')


# -- what was read, after an epoch ------------------------------------------------------------------------------------


def reading(*topics):
    return LayoutSource(("s",), "cluster", "topics", "path", topics)


def test_what_grew_or_was_made_again_is_seen():
    """Another number of partitions, another id: as the topics are after the run, so were they while it read."""
    sources = make(Reading(topics=[topic("t", 1, 3), topic("u", 2)]))
    before = Layout((reading(topic("t"), topic("u")),))
    after = sources.look_again(before, text({"t": {"0": 1}, "u": {"0": 1}}))
    assert after == Layout((reading(topic("t", 1, 3), topic("u", 2)),))


def test_a_topic_that_the_epoch_found_is_added():
    """A pattern's new topic was read: from here on it is known which one that was."""
    sources = make(Reading(topics=[topic("t"), topic("new")]))
    after = sources.look_again(Layout((reading(topic("t")),)), text({"t": {"0": 1}, "new": {"0": 1}}))
    assert after == Layout((reading(topic("new"), topic("t")),))


def test_what_the_epoch_did_not_read_stays_as_it_was():
    """Of a topic without a line in offsets/N, and of one that is gone since, nothing new is told."""
    source = Reading(topics=[topic("u", 2)])
    before = Layout((reading(topic("t"), topic("u")),))
    assert make(source).look_again(before, text({"t": {"0": 1}})) == before
    assert source.asked == [("one", [["t"]])]


def test_each_system_is_asked_once_for_what_was_read_of_it():
    """Two sources of one system share a question; the same name in another system is another topic."""
    asked = []
    one = [topic("t", 5), topic("u", 6)]
    given = [Reading("one", asked, one), Reading("one", asked, one), Reading("other", asked, [topic("t", 7)]), None,
             Reading("one", asked, one)]  # fmt: skip
    before = Layout(tuple(reading() for _ in range(5)))
    after = make(*given).look_again(before, text({"t": {"0": 1}}, {"u": {"0": 1}}, {"t": {"0": 1}}, "17", {}))
    assert [source.topics for source in after.sources] == [(topic("t", 5),), (topic("u", 6),), (topic("t", 7),), (), ()]
    assert asked == [("one", [["t"], ["u"], []]), ("other", [["t"]])]


def test_states_and_all_else_stay():
    """Only topics are looked at again."""
    was = LayoutSource(("a", "b"), "cluster id", "topic t", "path", (topic("t"),))
    sources = make(Reading(topics=[topic("t", 2)]))
    (after,) = sources.look_again(Layout((was,)), text({"t": {"0": 1}})).sources
    assert after == LayoutSource(("a", "b"), "cluster id", "topic t", "path", (topic("t", 2),))
