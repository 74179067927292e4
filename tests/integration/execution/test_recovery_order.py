"""The order of a start: what is decided is finished first, and each refusal names the command that leads out of it."""

import json
import uuid
from collections import Counter

import pytest
from kafka import TopicPartition

from onceflow.connectors.kafka.client import KafkaClient
from tests.support.harness import Pipeline, follow, rows_of, wait_until
from tests.support.remade import make_again

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def pipeline(short_lived, tmp_path):
    """A job over an empty topic."""

    def make(job: str, **more) -> Pipeline:
        names = [f"order-{uuid.uuid4().hex[:8]}" for _ in range(2)]
        with KafkaClient(short_lived) as client:
            client.admin.create_topics({n: {"num_partitions": 4, "replication_factor": 1} for n in names})
            wait_until(lambda: len(client.topics(names)) == 2, what="topics")
        return Pipeline(short_lived, *names, tmp_path / "checkpoint", job=job, **more)

    return make


def delete_records(p: Pipeline) -> None:
    """Retention takes all that the source holds."""
    with KafkaClient(p.cluster) as client:
        client.admin.delete_records({TopicPartition(p.source, n): -1 for n in range(4)})


def decided_rows(p: Pipeline) -> int:
    return sum(map(rows_of, p.decisions()))


@pytest.mark.faults
def test_decided_rows_become_visible_although_the_source_is_gone(pipeline):
    """The state of the epoch cannot be built any more, but its output is committed before the start is refused.

    The message's command goes on with what the source has, and every later record is counted.
    """
    p = pipeline("count")
    p.send(6_000)
    p.die_at("D5@1")
    seen = len(p.read())
    delete_records(p)
    ended = p.run()
    assert ended.code == 1
    assert "records are lost" in ended.log
    assert len(p.read()) == decided_rows(p) > seen, "decided rows were not committed"
    assert p.open_transactions() == []
    follow(p, ended)
    p.send(1_000)
    p.run_well()
    assert p.open_transactions() == []
    assert len(p.read()) == decided_rows(p), "what was committed, and nothing else, is visible"
    newest = {key: max(json.loads(v)["n"] for k, v in p.read() if k == key) for key in {k for k, _ in p.read()}}
    assert sum(newest.values()) > len(p.sent) - 6_000, "later records were not counted"


@pytest.mark.faults
def test_decided_rows_become_visible_although_the_topic_was_made_again(pipeline):
    """A stateless epoch needs no source at all once it is decided; then the start says what else is lost."""
    p = pipeline("copy")
    p.send(6_000)
    p.die_at("D5@1")
    make_again(p.cluster, p.source)
    old = Counter(p.sent)
    p.sent.clear()
    p.send(700, value=lambda i: f"new {i}".encode())
    ended = p.run()
    assert ended.code == 1
    assert "was deleted and made again" in ended.log
    assert len(p.read()) == decided_rows(p) > 2_500
    follow(p, ended)
    p.run_well()
    found = Counter(p.read())
    assert not Counter(p.sent) - found, "records of the new topic are missing"
    assert not found - Counter(p.sent) - old
    assert max(found.values()) == 1


@pytest.mark.faults
@pytest.mark.parametrize("job", ["copy", "count"])
def test_an_epoch_that_neither_sink_nor_source_has_can_be_given_up(pipeline, job):
    """Decided, expired, and the records gone: refused with the number of rows, and the command that goes on without."""
    p = pipeline(job, environment={"TIMEOUT": "30 s"})
    p.send(6_000)
    p.die_at("D5@1")
    lost = rows_of(p.decisions()[1])
    wait_until(lambda: not p.open_transactions(), 90, "expiry")
    delete_records(p)
    before = Counter(p.read())
    ended = p.run()
    assert ended.code == 1
    assert "records are lost" in ended.log
    said = follow(p, ended)
    assert f"{lost} rows of this epoch are given up" in said
    p.send(900, value=lambda i: f"later {i}".encode())
    p.run_well()
    assert p.open_transactions() == []
    after = Counter(p.read())
    assert not before - after
    if job == "copy":
        assert Counter(p.sent[-900:]) == after - before


@pytest.mark.faults
def test_lost_records_that_were_never_read_can_be_given_up(pipeline):
    """Nothing is decided; retention ran past the job's position: the command goes on with what is left."""
    p = pipeline("count", per_epoch=1_000)
    p.send(2_000)
    p.die_at("D8@0")
    delete_records(p)
    ended = p.run()
    assert ended.code == 1
    assert "records are lost" in ended.log
    follow(p, ended)
    seen = len(p.read())
    p.send(500)
    p.run_well()
    assert p.open_transactions() == []
    assert len(p.read()) > seen, "the later records were not counted"


@pytest.mark.faults
def test_a_renamed_sink_does_not_keep_decided_rows_from_becoming_visible(pipeline):
    """What was decided for a sink of another name is committed by one of the same cluster; then the edit is refused."""
    p = pipeline("outputs")
    p.send(2_000)
    told = lambda name: {"OUTPUTS": json.dumps([[name, p.sink, p.source, 1_000, "copy"]])}  # noqa: E731
    p.die_at("D5@1", **told("a"))
    ended = p.run(**told("b"))
    assert ended.code == 1
    assert "the plan does not fit the checkpoint" in ended.log
    assert len(p.read()) == decided_rows(p) > 1_000
    p.run_well(**told("a"))
    p.check_output()


@pytest.mark.faults
@pytest.mark.parametrize("listed", ["a", "b"])
def test_one_listed_sink_is_enough_to_finish_an_epoch_of_two_before_the_stream_function_runs(pipeline, listed):
    """D5: both sinks' rows become visible although the function fails; mended, the job goes on without a gap."""
    p, q = pipeline("outputs"), pipeline("outputs")
    p.send(2_000)
    told = {"OUTPUTS": json.dumps([[n, t.sink, p.source, 800, "copy"] for n, t in (("a", p), ("b", q))])}
    p.die_at("D5@1", **told)
    decided = [sum(rows_of(d, name) for d in p.decisions()) for name in "ab"]
    ended = p.run(**told, LISTED=listed, FAIL="1")
    assert ended.code == 1
    assert "the stream function fails" in ended.log
    assert [len(p.read()), len(q.read())] == decided
    assert p.open_transactions() == []
    p.run_well(**told, LISTED=listed)
    assert Counter(p.read()) == Counter(q.read()) == Counter(p.sent)


@pytest.mark.faults
def test_a_choice_for_other_rows_loses_and_doubles_no_input(pipeline):
    """A plan that gives other rows in every run, a part of its epoch visible, the rest expired, and accepted.

    What the visible part had read is known, so every input is there once.
    """
    p = pipeline("random", environment={"TIMEOUT": "30 s"})
    p.send(6_000)
    p.die_at("D6@1")
    wait_until(lambda: not p.open_transactions(), 90, "expiry")
    ended = p.run()
    assert ended.code == 1
    assert "gave other rows when it was run again" in ended.log
    said = follow(p, ended)
    assert "every other input is written once" in said
    p.run_well()
    inputs = Counter(value.partition(b"|")[0] for _, value in p.read())
    assert inputs == Counter(value for _, value in p.sent)
