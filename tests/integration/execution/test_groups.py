"""Partitions in groups: many partitions on few task slots, deaths and losses, and other groups in every run.

Where a test needs other groups in the next start, that start has another number of slots.
"""

import json
from collections import Counter

import pytest
from pyspark.sql import functions as F  # noqa: N812

import onceflow as of
from onceflow.connectors.kafka.client import KafkaClient
from tests.support.harness import Pipeline, read_topic, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EPOCH = 1
PARTITIONS = 12
SLOTS = {"SPARK_MASTER": "local[2]"}
OTHER_SLOTS = {"SPARK_MASTER": "local[3]"}


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path):
    """Three epochs' worth of input in twelve partitions, and a job over it on two slots."""
    made = Pipeline(cluster, new_topic(PARTITIONS), new_topic(4), tmp_path / "checkpoint")
    made.environment = dict(SLOTS)
    made.send(6_000)
    return made


def numbers(participant):
    return [number for number, *_ in participant["parts"]]


@pytest.mark.faults
def test_there_are_as_many_transactions_as_task_slots(pipeline):
    """Twelve partitions on two slots: two transactions for each epoch, which hold each partition's part once."""
    pipeline.run_well()
    pipeline.check()
    for decision in pipeline.decisions():
        assert len(decision["participants"]) == 2
        held = [number for p in decision["participants"] for number in numbers(p)]
        assert sorted(held) == list(range(PARTITIONS))
        origins = {origin for p in decision["participants"] for *_, origin in p["parts"]}
        assert len(origins - {""}) == PARTITIONS, "what each partition read is known"


@pytest.mark.faults
@pytest.mark.parametrize("point", ["D3", "D4", "D5", "D6", "D7"])
def test_a_death_with_groups(pipeline, point):
    """Before the decision, behind it, and between two commits; the next start has other groups: each record once."""
    pipeline.die_at(f"{point}@{EPOCH}")
    pipeline.run_well(**OTHER_SLOTS)
    pipeline.check()
    assert {len(d["participants"]) for d in pipeline.decisions() if d["epoch"] > EPOCH} == {3}


@pytest.mark.faults
def test_part_of_the_transactions_is_lost_and_found_in_other_groups(short_lived, tmp_path):
    """One of two transactions expires; its six parts are written again by three tasks that take four partitions each.

    So at least one of them holds parts of both transactions, and is silent in part.
    """
    p = Pipeline(
        short_lived, "groups-in", "groups-out", tmp_path / "checkpoint", environment=SLOTS | {"TIMEOUT": "30 s"}
    )
    with KafkaClient(short_lived) as client:
        made = {p.source: PARTITIONS, p.sink: 4}
        client.admin.create_topics({t: {"num_partitions": n, "replication_factor": 1} for t, n in made.items()})
        wait_until(lambda: len(client.topics(made)) == 2, what="topics")
    p.send(6_000)
    p.die_at(f"D6@{EPOCH}")
    assert p.open_transactions(), "there is nothing that could expire"
    wait_until(lambda: not p.open_transactions(), 90, "expiry")
    p.run_well(**OTHER_SLOTS)
    p.check_output()
    assert p.open_transactions() == []
    (replay,) = [r["record"] for r in p.records() if r["kind"] == "replay"]
    assert (replay["epoch"], replay["scope"], len(replay["kept"])) == (EPOCH, "parts", 1)
    (decided,) = [d for d in p.decisions() if d["epoch"] == EPOCH]
    lost = [each for each in decided["participants"] if [each["sink"], each["handle"]] not in replay["kept"]]
    assert content(replay["participants"]) == content(lost), "the lost transaction's parts, and no others"
    assert any(len(numbers(each)) < PARTITIONS / 3 for each in replay["participants"]), "no shard was silent in part"


def content(participants):
    """Rows and digest of each part."""
    return Counter((rows, digest) for each in participants for _, rows, digest, _ in each["parts"])


@pytest.mark.faults
@pytest.mark.parametrize("point", ["D4", "D6"])
def test_two_outputs_in_one_union(pipeline, new_topic, point):
    """Each output's partitions have numbers of their own, though both begin at the same source's first one."""
    p, upper = pipeline, new_topic(2)
    p.job = "outputs"
    told = [["a", p.sink, p.source, 2_500, "copy"], ["b", upper, p.source, 2_500, "upper"]]
    p.environment |= {"OUTPUTS": json.dumps(told)}
    p.die_at(f"{point}@{EPOCH}")
    p.run_well(**OTHER_SLOTS)
    assert Counter(read_topic(p.cluster, p.sink)) == Counter(p.sent)
    assert Counter(read_topic(p.cluster, upper)) == Counter((key, value.upper()) for key, value in p.sent)
    for decision in p.decisions():
        held = {sink: [n for each in decision["participants"] if each["sink"] == sink for n in numbers(each)]
                for sink in "ab"}  # fmt: skip
        assert sorted(held["a"]) == list(range(PARTITIONS))
        assert sorted(held["b"]) == list(range(PARTITIONS, 2 * PARTITIONS))


@pytest.mark.faults
def test_a_large_epoch_has_more_tasks_and_one_partition_may_hold_nearly_all(pipeline, produce):
    """200,000 records, all but a hundredth in one partition: four tasks on two slots, and each record is there once."""
    p = pipeline
    p.per_epoch = 400_000
    p.sent.clear()
    values = [json.dumps({"skewed": i}).encode() for i in range(194_000)]
    for first in range(0, len(values), 50_000):
        produce(p.source, values[first : first + 50_000], partition=3)
    p.run_well()
    found = Counter(value for _, value in p.read())
    assert sum(found.values()) == len(found) == 200_000
    assert not set(values) - found.keys()
    assert [len(d["participants"]) for d in p.decisions()] == [4]


def test_a_plan_that_keeps_state_is_not_grouped(spark, cluster, new_topic, produce, tmp_path):
    """Each of its tasks takes one partition: with several, Spark 4.2 gives an operator another one's state store."""
    source, out = new_topic(1), new_topic(1)
    produce(source, [json.dumps({"id": i}) for i in range(60)] * 2)
    read = of.KafkaSource(cluster, source, value=of.Json("id int")).load(spark)
    frame = read.dropDuplicates(["id"]).groupBy("id").agg(F.count("*").alias("n"))
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "5")
    try:
        checkpointing = of.Checkpointing(str(tmp_path / "checkpoint"))
        sink = of.KafkaSink(cluster, out, name="s")
        more = {"checkpointing": checkpointing, "until": "caught-up", "output_mode": "update"}
        assert of.start(frame, sinks=[sink], name="test", **more).awaitTermination(120)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert Counter(value for _, value in read_topic(cluster, out)) == Counter(
        json.dumps({"id": i, "n": 1}, separators=(",", ":")).encode() for i in range(60)
    )
    journal = tmp_path / "checkpoint" / "onceflow" / "journal"
    records = [json.loads(path.read_text()) for path in journal.glob("*.json")]
    (decision,) = [record["record"] for record in records if record["kind"] == "decide"]
    assert sorted(n for each in decision["participants"] for n in numbers(each)) == list(range(5))
    assert [len(numbers(each)) for each in decision["participants"]] == [1] * 5
