"""Which source and which state stand at Spark's positions: edited jobs, topics made again, equal names."""

import json
import uuid
from collections import Counter

import pytest

from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.local.devcluster import DevCluster
from tests.support.harness import Pipeline, follow, read_topic, wait_until
from tests.support.remade import make_again

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path):
    """A job over an empty topic of four partitions."""

    def make(job: str = "copy", **more) -> Pipeline:
        return Pipeline(cluster, new_topic(4), new_topic(4), tmp_path / "check points" / "1", job=job, **more)

    return make


FAULTS = pytest.mark.faults


@pytest.mark.parametrize("retain", ["2", pytest.param("100", marks=FAULTS)])
@pytest.mark.faults
def test_a_topic_made_again_is_noticed_however_many_epochs_were_decided(pipeline, retain):
    """K1: after five epochs, also with a journal that keeps two; the message's own command goes on in the new topic."""
    p = pipeline(per_epoch=500, environment={"RETAIN": retain})
    p.send(2_500)
    p.run_well()
    assert len(p.decisions()) >= (3 if retain == "100" else 1)
    before = Counter(p.read())
    make_again(p.cluster, p.source)
    p.sent.clear()
    p.send(9_000, value=lambda i: f"new {i}".encode())
    ended = p.run()
    assert ended.code == 1
    assert "was deleted and made again" in ended.log
    assert Counter(p.read()) == before
    follow(p, ended)
    p.run_well()
    assert Counter(p.read()) - before == Counter(p.sent)


@FAULTS
@pytest.mark.faults
def test_a_topic_made_again_while_the_job_runs_fails_the_epoch_that_reads_it(pipeline):
    """K1: the topic's id is asked for after each run, before the decision: nothing read of another topic is decided."""
    p = pipeline(per_epoch=500)
    p.send(500)
    job = p.start(UNTIL="stopped")
    wait_until(lambda: len(p.read()) == 500, what="the first records")
    make_again(p.cluster, p.source)
    p.sent.clear()
    p.send(4_000, value=lambda i: f"new {i}".encode())
    ended = p.end(job)
    assert ended.code == 1
    assert not [value for _, value in p.read() if value.startswith(b"new")], "records of another topic were decided"
    ended = p.run()
    assert "was deleted and made again" in ended.log
    follow(p, ended)
    p.run_well()
    assert Counter(v for _, v in p.read() if v.startswith(b"new")) == Counter(v for _, v in p.sent)


def outputs(p: Pipeline, *of: list) -> dict[str, str]:
    return {"OUTPUTS": json.dumps(of)}


@FAULTS
@pytest.mark.faults
def test_the_order_in_which_outputs_are_named_moves_nothing(pipeline, new_topic):
    """Two outputs, each with a source of its own on one topic: exchanged in the dict, every record is there once."""
    p = pipeline("outputs")
    second = new_topic(2)
    p.send(6_000)
    a, b = ["a", p.sink, p.source, 2_000, "copy"], ["b", second, p.source, 500, "copy"]
    p.die_at("D8@1", **outputs(p, a, b))
    p.die_at("D5@3", **outputs(p, b, a))
    p.run_well(**outputs(p, b, a))
    assert Counter(read_topic(p.cluster, p.sink)) == Counter(p.sent)
    assert Counter(read_topic(p.cluster, second)) == Counter(p.sent)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("exchanged", "would become that of output"),
        ("renamed", "would now belong to output"),
        ("added", "the plan read 2 sources"),
        ("removed", "the plan read 2 sources"),
        ("another topic", "would be dropped"),
        ("two sources made one", "two sources would become one"),
    ],
)
def test_an_edit_that_would_move_a_position_is_refused(pipeline, new_topic, edit, said):
    """Nothing is written by the edited job; put back as it was, it goes on, and every record is there once."""
    p = pipeline("outputs")
    second, third = new_topic(2), new_topic(2)
    p.send(3_000)
    a, b = (
        ["a", p.sink, p.source, 1_000, "copy:value is not null"],
        ["b", second, p.source, 300, "copy:key is not null"],
    )
    p.die_at("D8@1", **outputs(p, a, b))
    seen = [Counter(read_topic(p.cluster, topic)) for topic in (p.sink, second)]
    edited = {
        "exchanged": [[*a[:4], b[4]], [*b[:4], a[4]]],
        "renamed": [["x", *a[1:]], b],
        "added": [a, b, ["c", third, p.source, 300, "copy"]],
        "removed": [a],
        "another topic": [a, [*b[:2], third, *b[3:]]],
        "two sources made one": [a, b],
    }[edit]
    same = {"SAME": "1"} if edit == "two sources made one" else {}
    ended = p.run(**outputs(p, *edited), **same)
    assert ended.code == 1, ended.log
    assert "the plan does not fit the checkpoint" in ended.log
    assert said in ended.log
    assert [Counter(read_topic(p.cluster, topic)) for topic in (p.sink, second)] == seen
    p.run_well(**outputs(p, a, b))
    assert Counter(read_topic(p.cluster, p.sink)) == Counter(p.sent)
    assert Counter(read_topic(p.cluster, second)) == Counter(p.sent)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("exchanged", "would become that of output"),
        ("another function", "column 1 of state 0 of output a (Aggregate) was count(1)"),
        ("one less", "the plan kept 2 states and now keeps 1"),
    ],
)
def test_an_edit_that_would_move_a_state_is_refused(pipeline, new_topic, edit, said):
    """Two aggregates of one schema: Spark would count on in the other one's state; here the start is refused."""
    p = pipeline("outputs", environment={"MODE": "update"})
    second = new_topic(2)
    p.send(3_000)
    a, b = ["a", p.sink, p.source, 1_000, "count"], ["b", second, p.source, 1_000, "sum"]
    p.die_at("D8@1", **outputs(p, a, b))
    edited = {
        "exchanged": [[*a[:4], b[4]], [*b[:4], a[4]]],
        "another function": [[*a[:4], "sum"], b],
        "one less": [a, [*b[:4], "copy"]],
    }[edit]
    ended = p.run(**outputs(p, *edited))
    assert ended.code == 1, ended.log
    assert said in ended.log
    p.run_well(**outputs(p, b, a))
    newest = {}
    for key, value in read_topic(p.cluster, p.sink):
        newest[key] = max(json.loads(value)["n"], newest.get(key, 0))
    assert newest == Counter(key for key, _ in p.sent)


@FAULTS
@pytest.mark.faults
def test_what_moves_no_position_may_change(pipeline):
    """Filter, limit, interval, function: the new ones hold from the next epoch on, and nothing is there twice."""
    p = pipeline("outputs")
    p.send(3_000)
    p.die_at("D8@0", **outputs(p, ["a", p.sink, p.source, 1_000, "copy"]))
    p.run_well(**outputs(p, ["a", p.sink, p.source, 700, "copy:key <> 'k0'"]), INTERVAL="0 s")
    found, sent = Counter(p.read()), Counter(p.sent)
    assert not found - sent
    assert {key for key, _ in (sent - found)} <= {b"k0"}
    p.send(500)
    p.run_well(**outputs(p, ["a", p.sink, p.source, 700, "upper"]))
    assert Counter(p.read()) - found == Counter((key, value.upper()) for key, value in p.sent[-500:])


@pytest.mark.faults
def test_a_sink_may_be_added_to_an_output_and_taken_from_it(pipeline, new_topic):
    """A new sink begins at the present position, behind an epoch decided without it; the others miss nothing."""
    p = pipeline("outputs")
    second = new_topic(2)
    p.send(3_000)
    p.die_at("D5@1", **outputs(p, ["a", p.sink, p.source, 1_000, "copy"]))
    decided = Counter(p.read(committed=False))
    assert 0 < sum(decided.values()) < 3_000
    p.run_well(**outputs(p, ["a,c", f"{p.sink},{second}", p.source, 1_000, "copy"]))
    assert Counter(p.read()) == Counter(p.sent)
    assert Counter(read_topic(p.cluster, second)) == Counter(p.sent) - decided
    p.send(500)
    p.run_well(**outputs(p, ["c", second, p.source, 1_000, "copy"]))
    assert Counter(p.read()) == Counter(p.sent[:3_000]), "of the sink that was taken away"
    assert Counter(read_topic(p.cluster, second)) == Counter(p.sent) - decided


@FAULTS
@pytest.mark.faults
def test_a_topic_may_be_added_to_a_source_and_not_be_taken_from_it(pipeline):
    """It is read from its first record on, and every record of both is there once; taken away, the start is refused."""
    p, q = pipeline("outputs"), pipeline()
    p.send(3_000)
    q.send(700, value=lambda i: f"other {i}".encode())
    one, both = (outputs(p, ["a", p.sink, topics, 1_000, "copy"]) for topics in (p.source, f"{p.source},{q.source}"))
    p.die_at("D5@1", **one)
    p.run_well(**both)
    assert Counter(p.read()) == Counter(p.sent) + Counter(q.sent)
    ended = p.run(**one)
    assert ended.code == 1, ended.log
    assert f"the positions in {q.source} would be dropped" in ended.log
    q.send(100, value=lambda i: f"other {i}".encode())
    p.run_well(**both)
    assert Counter(p.read()) == Counter(p.sent) + Counter(q.sent)


@FAULTS
def test_an_edit_while_a_decided_epoch_must_be_read_again_is_compared_with_it(pipeline):
    """D7: its state is not recorded, so the plan runs again; the edited one gives other rows, nothing is doubled."""
    p = pipeline("outputs", environment={"MODE": "update"})
    p.send(3_000)
    was, edited = (["a", p.sink, p.source, 1_000, work] for work in ("count", "count:key <> 'k0'"))
    p.die_at("D7@1", **outputs(p, was))
    before = Counter(p.read())
    ended = p.run(**outputs(p, edited))
    assert ended.code == 1, ended.log
    assert "NotDeterministicError" in ended.log
    assert Counter(p.read()) == before
    p.run_well(**outputs(p, was))
    newest = {}
    for key, value in p.read():
        newest[key] = max(json.loads(value)["n"], newest.get(key, 0))
    assert newest == Counter(key for key, _ in p.sent)
    assert set(Counter(p.read()).values()) == {1}


@pytest.mark.faults
def test_two_clusters_with_one_topic_name_are_two_sources(pipeline, tmp_path):
    """Topics are told by cluster and id: starts in a row go on, and each record of both is there once."""
    p = pipeline("outputs")
    p.send(1_500)
    with DevCluster(tmp_path / "other") as broker:
        there = Pipeline(KafkaCluster(broker.bootstrap_servers), p.source, p.source, tmp_path / "unused")
        with KafkaClient(there.cluster) as client:
            client.admin.create_topics({p.source: {"num_partitions": 2, "replication_factor": 1}})
            wait_until(lambda: client.topics([p.source]), what="the other topic")
        there.send(700, value=lambda i: f"other {i}".encode())
        settings = outputs(p, ["a", p.sink, p.source, 400, "copy"], ["b", p.sink, "@" + p.source, 200, "copy"]) | {
            "KAFKA2": broker.bootstrap_servers
        }
        p.run_well(**settings)
        p.send(300)
        p.die_at("D5", **settings)
        there.send(100, value=lambda i: f"other {i}".encode())
        p.run_well(**settings)
        assert Counter(p.read()) == Counter(p.sent) + Counter(there.sent)
        moved = outputs(p, ["a", p.sink, p.source, 400, "copy"], ["b", p.sink, p.source, 200, "copy"])
        ended = p.run(**settings | moved)
        assert ended.code == 1, ended.log
        assert f"source 1 (topic {p.source}, output b) was on cluster" in ended.log


@pytest.mark.faults
def test_sources_that_share_a_group_publish_the_one_that_is_behind(spark, cluster, pipeline, new_topic):
    """Invariant 7 for two sources of one topic and group: whoever goes on from the group's offsets misses nothing."""
    import onceflow as of
    from onceflow.connectors.kafka import offsets

    p = pipeline()
    p.send(800)
    group = f"shared-{uuid.uuid4().hex[:8]}"

    def read(limit):
        return of.KafkaSource(cluster, p.source, value=of.Raw(), group=group, max_records_per_epoch=limit).load(spark)

    sinks = [of.KafkaSink(cluster, new_topic(1), name=name, value=of.Raw()) for name in ("fast", "slow")]
    query = of.start(
        dict(zip(sinks, (read(800), read(10)), strict=True)),
        name="shared",
        checkpointing=of.Checkpointing(p.checkpoint, interval="0 s"),
    )
    try:
        behind = {}

        def seen_behind():
            with KafkaClient(cluster) as client:
                at = sum(offsets.committed(client.admin, group).values())
            slow = len(read_topic(cluster, sinks[1].topic))
            behind[at] = slow
            return slow >= 800 or query.exception() is not None

        wait_until(seen_behind, 180, what="the slow sink")
    finally:
        query.stop()
    # Offsets count the topic's markers, too: four partitions, a commit and an abort each, ten aborted records.
    assert max(behind) > 0, "nothing was published"
    assert all(at <= slow + 18 for at, slow in behind.items()), behind
