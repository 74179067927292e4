"""Dead letters: each malformed record is in their topic once, each good one in the output, and nothing else."""

import json
import sqlite3
import uuid
from collections import Counter

import pytest
from confluent_kafka import Producer
from examples.own_store import StoreSink
from kafka.admin import NewTopic
from pyspark.sql import functions as F  # noqa: N812

import onceflow as of
from onceflow.connectors.kafka.source import CONNECTOR
from onceflow.errors import CheckpointConflictError, ConfigurationError
from onceflow.execution.outputs import Outputs
from tests.support.harness import Pipeline, read_messages, read_topic, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EPOCH = 1
EACH = 100
"""One record of so many is malformed."""


def value_of(i: int) -> bytes:
    return b'{"id":"much"}' if i % EACH == 0 else json.dumps({"id": i}).encode()


class Dead(Pipeline):
    """A pipeline with a topic of dead letters."""

    @property
    def dead(self) -> str:
        return self.environment["DEAD"]

    def outputs(self) -> list[tuple[bytes | None, bytes | None]]:
        more = self.environment.get("OUT2")
        return self.read() + (read_topic(self.cluster, more) if more else [])

    def check_all(self) -> None:
        """The dead letters and the output are what a plain read of the source says, and nothing is open."""
        topics = [self.environment[name] for name in ("IN2",) if name in self.environment]
        records = [m for topic in (self.source, *topics) for m in read_messages(self.cluster, topic)]
        bad = {(m.topic(), m.partition(), m.offset()): m for m in records if not well_formed(m.value())}
        good = Counter((m.key(), json.loads(m.value())["id"]) for m in records if well_formed(m.value()))
        found = read_messages(self.cluster, self.dead)
        assert Counter(map(where, found)) == dict.fromkeys(bad, 1)
        for letter in found:
            check_letter(letter, bad[where(letter)])
        if self.environment.get("SHAPE") == "count":
            newest: dict[bytes | None, int] = {}
            for key, text in self.read():
                newest[key] = max(json.loads(text)["n"], newest.get(key, 0))
            assert newest == dict(Counter(key for key, _ in good.elements()))
        else:
            assert Counter((key, json.loads(text)["id"]) for key, text in self.outputs()) == good
        assert self.open_transactions() == []


def well_formed(value: bytes | None) -> bool:
    try:
        return isinstance(json.loads(value or b"")["id"], int)
    except (ValueError, TypeError, KeyError):
        return False


def where(letter) -> tuple[str, int, int]:
    told = dict(letter.headers())
    names = ("topic", "partition", "offset")
    topic, partition, offset = (told[f"onceflow.{name}"].decode() for name in names)
    return topic, int(partition), int(offset)


def check_letter(letter, record) -> None:
    """It is the record as it was, and behind its headers those that say what became of it."""
    assert (letter.key(), letter.value()) == (record.key(), record.value())
    own = record.headers() or []
    assert letter.headers()[: len(own)] == own
    names = ["reason", "topic", "partition", "offset", "timestamp"]
    assert [name for name, _ in letter.headers()[len(own) :]] == [f"onceflow.{name}" for name in names]
    told = dict(letter.headers())
    assert told["onceflow.reason"].decode().startswith("its value: ")
    assert int(told["onceflow.timestamp"]) == record.timestamp()[1]


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path):
    """Three epochs' worth of input, some of it malformed, and a job over it."""

    def make(shape: str = "copy", **more: str) -> Dead:
        made = Dead(cluster, new_topic(4), new_topic(2), tmp_path / "checkpoint", job="dead")
        made.environment = {"SHAPE": shape, "DEAD": new_topic(2), "OUT2": new_topic(1)} | more
        made.send(6_000, value=value_of)
        return made

    return make


def test_a_death_after_the_decision_loses_and_doubles_no_dead_letter(pipeline, cluster, produce):
    """D5: they are decided with the epoch. Key, value and headers are the record's; a tombstone is one, too."""
    p = pipeline()
    produce(p.source, ["no JSON", "", None], headers=[("of", b"the record"), ("none", None)])
    p.die_at(f"D5@{EPOCH}")
    ended = p.run_well()
    p.check_all()
    letters = {m.value(): dict(m.headers())["onceflow.reason"] for m in read_messages(cluster, p.dead)}
    assert letters == {
        b'{"id":"much"}': b"its value: field id is no int",
        b"no JSON": b"its value: it is no JSON object, or one that is cut short",
        b"": b"its value: it is empty",
        None: b"its value: it is null, a tombstone",
    }
    assert "malformed records went to sink dead (topic " in ended.log


@pytest.mark.faults
@pytest.mark.parametrize("shape", ["copy", "two", "function", "count"])
@pytest.mark.parametrize("point", ["D3", "D4", "D5", "D6", "D7"])
def test_deaths(pipeline, shape, point):
    """Read with the output or apart, before the decision and after it: each is there once."""
    p = pipeline(shape)
    p.die_at(f"{point}@{EPOCH}")
    p.send(500, value=value_of)
    p.run_well()
    p.check_all()


@pytest.mark.faults
@pytest.mark.parametrize("shape", ["copy", "two", "count"])
@pytest.mark.parametrize(("point", "scope"), [("D5", "whole"), ("D6", "parts")])
def test_expiry(client, tmp_path, shape, point, scope):
    """A decided epoch whose transactions expired, all or in part, is written again with its dead letters, once."""
    names = [f"dead-{what}-{uuid.uuid4().hex[:8]}" for what in ("in", "out", "out2", "dead")]
    client.admin.create_topics([NewTopic(name, 3, 1) for name in names])
    client.admin.wait_for_topics(names)
    p = Dead(client.cluster, names[0], names[1], tmp_path / "checkpoint", job="dead")
    p.environment = {"SHAPE": shape, "OUT2": names[2], "DEAD": names[3], "TIMEOUT": "30 s"}
    p.send(6_000, value=value_of)
    p.die_at(f"{point}@{EPOCH}")
    assert p.open_transactions(), "there is nothing that could expire"
    wait_until(lambda: not p.open_transactions(), 90, "expiry")
    p.run_well()
    assert [r["record"]["scope"] for r in p.records() if r["kind"] == "replay"] == [scope]
    p.check_all()


@pytest.mark.faults
def test_two_sources_share_a_sink_of_dead_letters(pipeline, new_topic):
    """Each sends its own there, and a death loses none."""
    other = new_topic(2)
    p = pipeline(IN2=other)
    producer = Producer(p.cluster.for_librdkafka())
    for i in range(3_000):
        producer.produce(other, value_of(i), f"k{i % 50}".encode())
    assert producer.flush(30) == 0
    p.die_at(f"D5@{EPOCH}")
    p.run_well()
    p.check_all()


# -- on one session -----------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path):
    return str(tmp_path / "checkpoint")


@pytest.fixture
def filled(new_topic, produce):
    topic = new_topic(1)
    produce(topic, [value_of(i) for i in range(200)])
    return topic


def run(frame, checkpoint, sinks=()):
    query = of.start(frame, sinks=sinks, name="dead", checkpointing=of.Checkpointing(checkpoint), until="caught-up")
    assert query.awaitTermination(120)


def records(spark, cluster, topic, sink, **more):
    letters = "skip" if sink is None else of.DeadLetter(sink)
    return of.KafkaSource(cluster, topic, value=of.Json("id int"), on_malformed=letters, **more).load(spark)


def test_a_store_that_takes_no_part_in_the_decision_takes_dead_letters(
    spark, cluster, filled, new_topic, checkpoint, tmp_path
):
    """A sink of one's own need not say which system it is: it is no source's."""
    store = StoreSink(str(tmp_path / "letters.db"), key="offset")
    run({of.KafkaSink(cluster, new_topic(1)): records(spark, cluster, filled, store)}, checkpoint)
    with sqlite3.connect(store.path) as connection:
        found = dict(connection.execute("select key, value from pairs"))
    assert set(found) == {"0", "100"}
    assert {json.loads(value)["reason"] for value in found.values()} == {"its value: field id is no int"}


@pytest.mark.faults
def test_a_source_of_two_outputs_sends_each_once_to_a_table(spark, cluster, filled, new_topic, checkpoint, tmp_path):
    """A table gets a row of each, with columns; the outputs, of which one keeps a state, have the others."""
    file = tmp_path / "dead.db"
    table = of.DatabaseSink(f"sqlite:///{file}", "letters", create_table=True)
    frame = records(spark, cluster, filled, table)
    outputs = {
        of.KafkaSink(cluster, new_topic(1), name="a"): frame.where("id < 150"),
        of.KafkaSink(cluster, new_topic(1), name="b"): frame.dropDuplicates(["id"]),
    }
    run(outputs, checkpoint)
    assert [len(read_topic(cluster, sink.topic)) for sink in outputs] == [148, 198]
    with sqlite3.connect(file) as connection:
        query = 'select topic, "partition", "offset", reason, "key", "value", headers from letters order by "offset"'
        found = connection.execute(query).fetchall()
    said = "its value: field id is no int"
    assert found == [(filled, 0, at, said, None, b'{"id":"much"}', None) for at in (0, 100)]


@pytest.mark.faults
def test_what_would_mix_or_double_dead_letters_is_refused(spark, cluster, filled, new_topic, checkpoint):
    """The job's own input, an output's sink, a source that is loaded twice: each says what to do instead."""
    out, letters = of.KafkaSink(cluster, new_topic(1), name="out"), of.KafkaSink(cluster, new_topic(1), name="dead")
    own = of.KafkaSink(cluster, filled, name="own")
    with pytest.raises(ConfigurationError, match="reads the dead letters that it writes") as refused:
        run(records(spark, cluster, filled, own), checkpoint, [out])
    assert filled in str(refused.value)
    with pytest.raises(ConfigurationError, match="an output and dead letters"):
        run(records(spark, cluster, filled, out), checkpoint, [out])
    twice = [records(spark, cluster, filled, letters) for _ in range(2)]
    with pytest.raises(ConfigurationError, match="each would be there twice") as refused:
        run(twice[0].union(twice[1]), checkpoint, [out])
    assert "call load() once" in refused.value.action
    shaped = of.KafkaSink(cluster, letters.topic, name="dead", key="key", value=of.Raw())
    with pytest.raises(ConfigurationError, match="written as they were read") as refused:
        run(records(spark, cluster, filled, shaped), checkpoint, [out])
    assert "key=, value=" in refused.value.cause
    with pytest.raises(ConfigurationError, match="its formats read any bytes"):
        of.KafkaSource(cluster, filled, value=of.Raw(), on_malformed=of.DeadLetter(letters)).load(spark)
    assert read_topic(cluster, letters.topic) == read_topic(cluster, out.topic) == []


@pytest.mark.faults
def test_dead_letters_are_an_output_to_a_checkpoint(spark, cluster, filled, new_topic, produce, checkpoint):
    """Added to a job that runs, or taken from it, they are refused like any output, and the job goes on as it was."""
    out, letters = of.KafkaSink(cluster, new_topic(1), name="out"), of.KafkaSink(cluster, new_topic(1), name="dead")
    run(records(spark, cluster, filled, None), checkpoint, [out])
    with pytest.raises(CheckpointConflictError, match="dead letters"):
        run(records(spark, cluster, filled, letters), checkpoint, [out])
    again = checkpoint + "-2"
    out = of.KafkaSink(cluster, new_topic(1), name="out")
    run(records(spark, cluster, filled, letters), again, [out])
    assert len(read_topic(cluster, letters.topic)) == 2
    produce(filled, [value_of(0)])
    with pytest.raises(CheckpointConflictError, match="dead letters"):
        run(records(spark, cluster, filled, None), again, [out])
    run(records(spark, cluster, filled, letters), again, [out])
    assert len(read_topic(cluster, letters.topic)) == 3


@pytest.mark.faults
def test_the_sources_of_a_plan_find_their_dead_letters(spark, cluster, filled):
    """What is made of a frame has none of its own: a source has them once, whatever starts from it."""
    letters = of.KafkaSink(cluster, "dead")
    frame = records(spark, cluster, filled, letters)
    made = {of.KafkaSink(cluster, name): frame.where(F.col("id") > n) for n, name in enumerate("ez")}
    found = Outputs(made, [], [CONNECTOR])
    assert [leaf.outputs for leaf in found.leaves()] == [("dead",), ("e",), ("z",)]
    assert found.together == "0+1+2"
