"""What a source topic may do while a job runs or is down: grow, hold an open transaction, be compacted.

The sink topic grows, too. The broker's cleaner and its expiry are set to fractions of a second.
"""

import contextlib
import json
import signal
import time
import uuid
from collections import Counter

import pytest
from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic

import onceflow as of
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.local.devcluster import FAST_EXPIRY, DevCluster
from onceflow.processes import kill_tree
from tests.support.harness import Pipeline, follow, read_messages, read_topic, rows_of, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EPOCH = 1
FAST_CLEANER = {"log.cleaner.backoff.ms": "100", "log.retention.check.interval.ms": "500"}


@pytest.fixture(scope="module")
def client():
    """A broker of our own that compacts and expires at once."""
    with (
        DevCluster(settings=dict(FAST_EXPIRY) | FAST_CLEANER) as broker,
        KafkaClient(KafkaCluster(broker.bootstrap_servers)) as open_client,
    ):
        yield open_client


@pytest.fixture
def new(client):
    """``new("in", 4)`` makes a topic and gives its name."""

    def make(what: str, partitions: int) -> str:
        name = f"{what}-{uuid.uuid4().hex[:8]}"
        client.admin.create_topics([NewTopic(name, partitions, 1)])
        client.admin.wait_for_topics([name])
        return name

    return make


@pytest.fixture
def pipeline(client, new, tmp_path):
    """A job over an empty topic."""

    def make(job: str = "copy") -> Pipeline:
        return Pipeline(client.cluster, new("in", 4), new("out", 4), tmp_path / "checkpoint", job=job)

    return make


# -- partitions that are added --------------------------------------------------------------------


def grow(client: KafkaClient, topic: str, partitions: int) -> None:
    client.admin.create_partitions({topic: NewPartitions(partitions)})
    wait_until(lambda: partitions_of(client, topic) == partitions, what="partitions")


def partitions_of(client: KafkaClient, topic: str) -> int:
    return len(client.topics([topic])[topic].leaders)


def used(topic: str, p: Pipeline) -> set[int]:
    return {m.partition() for m in read_messages(p.cluster, topic)}


@pytest.mark.faults
def test_partitions_that_are_added_while_the_job_runs(pipeline, client):
    """Source and sink grow under a running job: new partitions are read from their first record, and written to."""
    p = pipeline()
    p.send(2_000)
    job = p.start(UNTIL="stopped")
    try:
        wait_until(lambda: len(p.read()) == 2_000, what="the first records")
        grow(client, p.source, 7)
        grow(client, p.sink, 6)
        p.send(2_000)
        wait_until(lambda: len(p.read()) >= 4_000 or job.poll() is not None, what="the records behind the growth")
        job.send_signal(signal.SIGTERM)
        assert p.end(job).code == 128 + signal.SIGTERM
    finally:
        if job.poll() is None:
            kill_tree(job.pid)
    p.check()
    assert used(p.source, p) == set(range(7))
    assert used(p.sink, p) == set(range(6))


@pytest.mark.faults
@pytest.mark.parametrize(("job", "point"), [("copy", "D4"), ("copy", "D5"), ("count", "D6"), ("count", "D7")])
def test_deaths_in_the_epoch_that_first_has_new_partitions(pipeline, client, job, point):
    """D4 to D7: the epoch with the new partitions is finished or run again over exactly its own range."""
    p = pipeline(job)
    p.send(2_000)
    p.run_well()
    grow(client, p.source, 7)
    grow(client, p.sink, 6)
    p.send(2_000)
    p.die_at(point)
    grow(client, p.source, 9)
    p.send(2_000)
    p.run_well()
    p.check()
    assert used(p.source, p) == set(range(9))


def test_a_new_partition_is_read_from_its_first_record_though_the_start_was_latest(
    spark, cluster, admin, new_topic, produce, tmp_path
):
    """start="latest" is about the partitions of the first start; records of a partition that is younger all count."""
    source, sink = new_topic(1), new_topic(1)
    produce(source, ["before"])
    frame = of.KafkaSource(cluster, source, value=of.Text(), start="latest").load(spark)
    checkpointing = of.Checkpointing(str(tmp_path / "checkpoint"), interval="200 ms")
    query = of.start(frame, sinks=[of.KafkaSink(cluster, sink, value=of.Text())], name="n", checkpointing=checkpointing)
    try:
        wait_until((tmp_path / "checkpoint" / "offsets" / "0").exists, what="the first epoch")
        produce(source, ["a"])
        wait_until(lambda: read_topic(cluster, sink), what="a")
        admin.create_partitions({source: NewPartitions(2)})
        wait_until(lambda: len(admin.describe_topics([source])[0]["partitions"]) == 2, what="the partition")
        produce(source, ["b", "c"], partition=1)
        wait_until(lambda: len(read_topic(cluster, sink)) >= 3, what="b and c")
    finally:
        query.stop()
    assert sorted(v for _, v in read_topic(cluster, sink)) == [b"a", b"b", b"c"]


@pytest.mark.faults
def test_a_partition_that_was_added_and_has_lost_its_first_records_has_a_way_out(pipeline, client):
    """Spark reads it from record 0 or stops, at every start: the start says what is lost, and give-up-rows leads on."""
    p = pipeline()
    p.send(2_000)
    p.run_well()
    grow(client, p.source, 5)
    producer = Producer(p.cluster.for_librdkafka())
    for number in range(100):
        producer.produce(p.source, f"new-{number}".encode(), b"k", partition=4)
    assert producer.flush(30) == 0
    client.admin.delete_records({TopicPartition(p.source, 4): 30})
    ended = p.run()
    assert ended.code == 1
    assert f"topic {p.source}, partition 4: the query needs offset 0 and on" in ended.log, ended.log
    assert "At most 30 records" in follow(p, ended)
    p.sent += [(b"k", f"new-{number}".encode()) for number in range(30, 100)]
    p.send(1_000)
    p.run_well()
    p.check()


@pytest.mark.faults
def test_a_lost_part_that_was_compacted_stops(pipeline, client):
    """One part visible, three expired; compaction has taken records of the three: none is lost in silence."""
    p = pipeline()
    p.environment = {"TIMEOUT": "20 s"}
    producer = Producer(p.cluster.for_librdkafka())
    for i in range(2_000):
        producer.produce(p.source, f"old {i}", f"u{i}", partition=i % 4)
    assert producer.flush(30) == 0
    p.die_at("D6")
    wait_until(lambda: not p.open_transactions(), 90, "expiry")
    decided = [part for one in p.decisions()[0]["participants"] for part in one["parts"]]
    assert 0 < len(p.read()) < 2_000
    origin = next(origin for number, _, _, origin in decided if number == 0)
    kept = int(origin.split("[")[0].rpartition("-")[2])
    configure(client, p.source, {"cleanup.policy": "compact", "segment.ms": "100", "max.compaction.lag.ms": "200",
                                 "min.cleanable.dirty.ratio": "0.0001"})  # fmt: skip

    def old_left() -> int:
        found = (m for m in read_messages(p.cluster, p.source) if m.partition() != kept)
        return sum(m.value().startswith(b"old") for m in found)

    deadline = time.monotonic() + 60
    while old_left() == 1_500:
        assert time.monotonic() < deadline, "the source was not compacted"
        for i in range(2_000):
            if i % 4 != kept and i % 8 < 4:
                producer.produce(p.source, f"new {i}", f"u{i}", partition=i % 4)
        for partition in range(4):
            producer.produce(p.source, "roll", f"roll-{partition}", partition=partition)
        assert producer.flush(30) == 0
    configure(client, p.source, {"cleanup.policy": "delete"})
    ended = p.run()
    old = Counter(value for _, value in p.read() if value.startswith(b"old"))
    assert ended.code != 0 or len(old) == 2_000, f"{2_000 - len(old)} decided rows are lost, exit code 0"


# -- an open transaction of somebody else ---------------------------------------------------------


@contextlib.contextmanager
def foreign_transaction(p: Pipeline, values: list[bytes]):
    """Somebody else's open transaction in partition 0 of the source; yields its producer."""
    settings = {"transactional.id": f"somebody-else-{p.source}", "transaction.timeout.ms": 300_000}
    producer = Producer(p.cluster.for_librdkafka() | settings)
    producer.init_transactions()
    producer.begin_transaction()
    for value in values:
        producer.produce(p.source, value, b"k0", partition=0)
    assert producer.flush(30) == 0
    yield producer


def send_behind(p: Pipeline, values: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Committed records in partition 0, behind whatever is open there."""
    producer = Producer(p.cluster.for_librdkafka())
    for value in values:
        producer.produce(p.source, value, b"k1", partition=0)
    assert producer.flush(30) == 0
    return [(b"k1", value) for value in values]


@pytest.mark.faults
@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_an_open_transaction_in_the_source_holds_the_epochs_end(pipeline, ends):
    """Nothing behind it is read until it ends; then all of that is there once, and its own records if it committed."""
    p = pipeline()
    p.send(3_000)
    theirs = [f"theirs-{i}".encode() for i in range(100)]
    with foreign_transaction(p, theirs) as foreign:
        before = list(p.sent)
        behind = send_behind(p, [f"behind-{i}".encode() for i in range(100)])
        p.run_well()
        assert Counter(p.read()) == Counter(before), "caught up: with what is before the open transaction"
        p.sent += behind
        p.run_well()
        assert Counter(p.read()) == Counter(before)
        foreign.commit_transaction(30) if ends == "commit" else foreign.abort_transaction(30)
    if ends == "commit":
        p.sent += [(b"k0", value) for value in theirs]
    p.run_well()
    p.check()


@pytest.mark.faults
@pytest.mark.parametrize("ends", ["commit", "abort"])
@pytest.mark.parametrize(("job", "point"), [("copy", "D5"), ("count", "D7"), ("copy", "D4")])
def test_a_death_with_an_open_transaction_in_the_source(pipeline, job, point, ends):
    """D4, D5, D7: the epoch's range ended before the open transaction, whatever became of that since."""
    p = pipeline(job)
    p.send(2_000)
    with foreign_transaction(p, [f"theirs-{i}".encode() for i in range(100)]) as foreign:
        p.die_at(point)
        behind = send_behind(p, [f"behind-{i}".encode() for i in range(100)])
        foreign.commit_transaction(30) if ends == "commit" else foreign.abort_transaction(30)
    if ends == "commit":
        p.sent += [(b"k0", f"theirs-{i}".encode()) for i in range(100)]
    p.sent += behind
    p.run_well()
    p.check()


@pytest.mark.faults
def test_a_running_job_goes_on_when_the_open_transaction_ends(pipeline):
    """The job runs beside it, reads other partitions meanwhile, and what was held back follows when it commits."""
    p = pipeline()
    p.send(1_000)
    with foreign_transaction(p, [b"theirs"]) as foreign:
        job = p.start(UNTIL="stopped")
        try:
            wait_until(lambda: len(p.read()) == 1_000, what="the first records")
            p.send(2_000)
            elsewhere = Counter((m.key(), m.value()) for m in read_messages(p.cluster, p.source))
            assert 1_000 < elsewhere.total() < 3_000
            wait_until(lambda: Counter(p.read()) == elsewhere, what="the other partitions' records")
            foreign.commit_transaction(30)
            p.sent.append((b"k0", b"theirs"))
            wait_until(lambda: len(p.read()) >= 3_001 or job.poll() is not None, what="what was held back")
            job.send_signal(signal.SIGTERM)
            assert p.end(job).code == 128 + signal.SIGTERM
        finally:
            if job.poll() is None:
                kill_tree(job.pid)
    p.check()


# -- compaction -----------------------------------------------------------------------------------


def compact(client: KafkaClient, p: Pipeline) -> None:
    """Have older records of the source's keys removed; then turn the cleaner off again.

    The newest segment is never compacted: records that are sent here, and counted among those sent, make new ones.
    """
    configure(client, p.source, {"cleanup.policy": "compact", "segment.ms": "100", "max.compaction.lag.ms": "200",
                                 "min.cleanable.dirty.ratio": "0.0001"})  # fmt: skip
    before = len(read_topic(p.cluster, p.source))
    deadline = time.monotonic() + 60
    while len(read_topic(p.cluster, p.source)) > before // 4:
        assert time.monotonic() < deadline, "the source was not compacted"
        producer = Producer(p.cluster.for_librdkafka())
        for partition in range(4):
            key, value = f"roll-{partition}".encode(), json.dumps({"id": len(p.sent)}).encode()
            producer.produce(p.source, value, key, partition=partition)
            p.sent.append((key, value))
        assert producer.flush(30) == 0
    configure(client, p.source, {"cleanup.policy": "delete"})


def configure(client: KafkaClient, topic: str, configs: dict[str, str]) -> None:
    client.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=configs)])


@pytest.mark.faults
@pytest.mark.parametrize(("job", "point"), [("copy", "D5"), ("count", "D7"), ("copy", "D4")])
def test_offsets_with_holes(pipeline, client, job, point):
    """D4, D5, D7 over a topic that was compacted before: what it holds is there once, and counted right."""
    p = pipeline(job)
    p.per_epoch = 3_000
    p.send(6_000)
    compact(client, p)
    p.send(500)
    p.sent = read_topic(p.cluster, p.source)
    assert len(p.sent) < 3_000
    p.die_at(point)
    p.run_well()
    assert Counter(read_topic(p.cluster, p.source)) == Counter(p.sent), "the cleaner went on; this proves nothing"
    p.check()


def die_and_compact(client: KafkaClient, p: Pipeline, point: str) -> None:
    p.send(6_000)
    p.die_at(f"{point}@{EPOCH}")
    compact(client, p)


@pytest.mark.faults
def test_a_decided_stateless_epoch_needs_no_second_run(pipeline, client):
    """D5, compacted while the job is down: the epoch is committed as it was written, with the records that are gone."""
    p = pipeline()
    die_and_compact(client, p, "D5")
    decided = sum(map(rows_of, p.decisions()))
    p.run_well()
    first_two = {d["epoch"]: rows_of(d) for d in p.decisions()}
    assert first_two[0] + first_two[EPOCH] == decided
    assert len(p.read()) == sum(first_two.values())
    assert not Counter(p.read()) - Counter(p.sent)
    assert p.open_transactions() == []


@pytest.mark.faults
def test_state_that_cannot_be_built_again_stops_the_job(pipeline, client):
    """D7, compacted while the job is down: the second run counts other rows than were decided; it stops and says so."""
    p = pipeline("count")
    die_and_compact(client, p, "D7")
    before = Counter(p.read())
    ended = p.run()
    assert ended.code == 1
    assert "gave other rows when it was run again" in ended.log, ended.log
    assert Counter(p.read()) == before


@pytest.mark.faults
def test_a_replay_of_fewer_rows_is_told(pipeline, client):
    """D5, expiry, and compacted while the job is down: fewer rows are written again; it stops or says so."""
    p = pipeline()
    p.environment = {"TIMEOUT": "30 s"}
    p.send(6_000)
    p.die_at(f"D5@{EPOCH}")
    decided = rows_of(p.decisions()[-1])
    wait_until(lambda: not p.open_transactions(), 90, "expiry")
    compact(client, p)
    ended = p.run()
    replays = [r["record"] for r in p.records() if r["kind"] == "replay"]
    again = sum(map(rows_of, replays))
    assert ended.code == 1 or again < decided, "compaction took none of the epoch's records"
    loud = [line.replace(",", "") for line in ended.log.splitlines() if "WARNING" in line]
    assert ended.code == 1 or any(str(decided) in line for line in loud), ended.log
