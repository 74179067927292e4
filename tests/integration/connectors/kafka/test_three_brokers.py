"""A cluster of three brokers that loses some: leaders and coordinators are killed, disks are lost, laggards elected.

Run by ``make test-three``. A job goes on where the copies that are left allow it, and where acknowledged records are
gone it stops and says so. Each test leaves all three brokers running.
"""

import logging
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from kafka.admin import NewTopic

from onceflow.connectors.kafka import durability, oracle, transactions
from onceflow.connectors.kafka.client import TRANSACTION, KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.prepared import PreparedTransaction, read
from onceflow.connectors.kafka.sink import KafkaSink
from onceflow.connectors.kafka.writer import TransactionWriter
from onceflow.local.devcluster import DevCluster
from onceflow.twophase.messages import Outcome
from tests.support.harness import JOBS, Pipeline, kafka_asked_for, wait_until

pytestmark = [pytest.mark.three, pytest.mark.kafka]

EPOCH = 1
PARTITIONS = 4


@pytest.fixture(scope="module")
def three():
    """Three brokers; topics have three copies, of which two must be in sync, unless a test says otherwise."""
    with DevCluster(brokers=3, **kafka_asked_for()) as running:
        yield running


@pytest.fixture
def kafka(three):
    return KafkaCluster(three.bootstrap_servers)


@pytest.fixture
def client(kafka):
    with KafkaClient(kafka) as opened:
        yield opened


@pytest.fixture
def make_topic(client):
    """``make_topic(copies=3, **settings)`` makes a topic; ``on`` puts all partitions on these brokers, first leads."""

    def make(copies: int = 3, *, on: tuple[int, ...] = (), partitions: int = PARTITIONS, **settings: str) -> str:
        name = f"three-{uuid.uuid4().hex[:8]}"
        configs = {key.replace("_", "."): value for key, value in settings.items()}
        if on:
            new = NewTopic(
                name, -1, -1, replica_assignments={p: list(on) for p in range(partitions)}, topic_configs=configs
            )
        else:
            new = NewTopic(name, partitions, copies, topic_configs=configs)
        client.admin.create_topics([new])
        wait_until(lambda: all(n >= 0 for n in leaders(client, name).values()) and leaders(client, name), what=name)
        return name

    return make


@pytest.fixture
def pipeline(kafka, make_topic, tmp_path):
    def make(sink: str, job: str = "copy") -> Pipeline:
        made = Pipeline(kafka, make_topic(), sink, tmp_path / "checkpoint", job=job)
        made.send(6_000)
        return made

    return make


def leaders(client: KafkaClient, topic: str) -> dict[int, int]:
    found = client.topics([topic]).get(topic)
    return dict(found.leaders) if found else {}


def stopped_at(p: Pipeline, point: str) -> subprocess.Popen[str]:
    """The job, started and stopped (SIGSTOP) at a crash point."""
    process = p.start(ONCEFLOW_CRASH=f"{point}@{EPOCH}:stop")
    wait_until(lambda: p.mark.exists() or process.poll() is not None, 90, f"crash point {point}")
    state = Path(f"/proc/{process.pid}/stat")
    wait_until(
        lambda: process.poll() is not None or state.read_text().rpartition(")")[2].split()[0] == "T", what="stop"
    )
    assert process.poll() is None, p.end(process).log
    return process


def resolve(p: Pipeline, choice: str) -> None:
    """What an operator does about the epoch that is undone."""
    command = [
        "txn",
        "resolve",
        str(JOBS / f"{p.job}_job.py"),
        str(EPOCH),
        "--choice",
        choice,
        "--why",
        "test",
        "--yes",
    ]
    ended = subprocess.run(
        [sys.executable, "-c", "from onceflow.cli.main import main; main()", *command],
        env=os.environ | p.settings(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def go_on(p: Pipeline, process: subprocess.Popen[str]) -> None:
    """Let it go on to its end, which is a good one, or one that starting it again cures."""
    os.kill(process.pid, signal.SIGCONT)
    ended = p.end(process, 180)
    if ended.code != 0:
        p.run_well()


def lose_the_disk(three: DevCluster, broker: int) -> None:
    """Kill a broker, delete all its records, and start it again."""
    three.kill(broker)
    data = three.data_dir / f"broker-{broker}" / "data"
    for log in data.iterdir():
        if log.is_dir():
            shutil.rmtree(log)
    for checkpoint in data.glob("*checkpoint*"):
        checkpoint.unlink()
    three.restart(broker)


# -- what is said at start ------------------------------------------------------------------------------------------


def test_settings_that_let_a_broken_broker_take_records_are_named_at_start(client, kafka, make_topic, caplog):
    """Of a sink's topic: min.insync.replicas=1, unclean election and a single copy are each named with their value."""
    caplog.set_level(logging.WARNING)
    sound = make_topic()
    weak = make_topic(min_insync_replicas="1", unclean_leader_election_enable="true")
    single = make_topic(copies=1)
    said = {}
    for topic in (sound, weak, single):
        caplog.clear()
        sink = KafkaSink(kafka, topic)
        sink.connect().close()
        said[topic] = [record.getMessage() for record in caplog.records if topic in record.getMessage()]
    assert said[sound] == []
    assert [("min.insync.replicas=1 with replication factor 3" in m, "unclean.leader.election.enable=true" in m)
            for m in said[weak]] == [(True, False), (False, True)]  # fmt: skip
    assert len(said[single]) == 1
    assert "replication factor 1 on a cluster of several brokers" in said[single][0]
    assert all("rows of finished epochs" in m for m in said[weak] + said[single])


def test_a_weak_transaction_log_is_named_at_start(client, caplog):
    """Kafka's own log of transactions is looked at, too: with it go the verdicts on decided transactions."""
    producer = Producer({"bootstrap.servers": client.cluster.bootstrap_servers, "transactional.id": "make-it-exist"})
    producer.init_transactions()
    caplog.set_level(logging.WARNING)
    durability.warn(durability.weak_transaction_log(client))
    assert not caplog.records
    set_topic(client, durability.TRANSACTION_LOG, **{"min.insync.replicas": "1"})
    try:
        durability.warn(durability.weak_transaction_log(client))
    finally:
        set_topic(client, durability.TRANSACTION_LOG, **{"min.insync.replicas": "2"})
    (said,) = [record.getMessage() for record in caplog.records]
    assert "__transaction_state has min.insync.replicas=1" in said
    assert "what became of decided transactions" in said


def set_topic(client: KafkaClient, topic: str, **settings: str) -> None:
    from kafka.admin import ConfigResource, ConfigResourceType

    client.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=settings)])
    wait_until(lambda: client.topic_configs([topic])[topic].items() >= settings.items(), what=f"settings of {topic}")


# -- brokers that die and come back ------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("point", ["D4", "D5", "D6"])
@pytest.mark.parametrize("who", ["leader", "coordinator"])
def test_a_broker_is_killed_around_the_decision(three, client, make_topic, pipeline, point, who):
    """Prepared, decided or partly committed: a sink partition's leader, or a transaction's coordinator, dies."""
    p = pipeline(make_topic())
    process = stopped_at(p, point)
    names = p.open_transactions()
    if who == "coordinator" and names:
        victim = client.coordinators(TRANSACTION, names)[names[0]]
    else:
        victim = leaders(client, p.sink)[0]
    three.kill(victim)
    try:
        go_on(p, process)
    finally:
        three.restart(victim)
    p.check()


@pytest.mark.spark
def test_leaders_are_killed_in_the_middle_of_a_run(three, client, make_topic, pipeline):
    """Each broker in turn is killed while epochs run, and comes back: every record is there once."""
    p = pipeline(make_topic())
    p.per_epoch = 300
    process = p.start()
    for victim in range(3):
        done = len(p.decisions()) if (p.ours / "journal").exists() else 0
        wait_until(lambda done=done: process.poll() is not None or
                   ((p.ours / "journal").exists() and len(p.decisions()) > done), 120, "a decision")  # fmt: skip
        three.kill(victim)
        three.restart(victim)
    if p.end(process, 240).code != 0:
        p.run_well()
    p.check()


# -- records that are gone ---------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_decided_transaction_whose_only_copy_is_lost_stops_the_job(three, client, make_topic, pipeline):
    """A commit would be answered with success and rows would be missing: the start stops, and says which partition."""
    p = pipeline(make_topic(copies=1))
    p.die_at(f"D5@{EPOCH}")
    decided = p.open_transactions()
    assert decided
    before = Counter(p.read())
    lost = leaders(client, p.sink)[0]
    lose_the_disk(three, lost)
    wait_until(lambda: leaders(client, p.sink)[0] >= 0, what="a leader")
    # What is still Ongoing may be told yet, where its witness stands: it expires. So whoever asks is patient for a
    # minute: a start once, the tool before and after its own start, and a start behind the choice three times.
    ended = p.end(p.start(), 300)
    assert ended.code == 1, ended.log
    assert "nothing of it is open in" in ended.log
    assert f"{p.sink}-0" in ended.log
    assert p.open_transactions() == decided
    assert not Counter(p.read()) - before

    resolve(p, "write-again")
    ended = p.end(p.start(), 600)
    assert ended.code == 0, ended.log
    p.run_well()  # its sweep ends what was given up, which held the readers back
    assert p.open_transactions() == []
    found = Counter(p.read())
    assert max(found.values()) == 1, "doubled"
    assert not found - Counter(p.sent)
    assert not (Counter(p.sent) - found) - before, "more is missing than what the disk held of finished epochs"


def test_after_an_unclean_election_the_oracle_does_not_take_anothers_record_for_ours(three, client, kafka, make_topic):
    """A laggard is elected and gives a transaction's offsets to other records: unknown, never committed or aborted."""
    topic = make_topic(on=(0, 1), partitions=1, min_insync_replicas="1", unclean_leader_election_enable="true")
    bystander = Producer(kafka.for_librdkafka())
    three.kill(1)
    name = f"unclean-{uuid.uuid4().hex[:8]}"
    writer = TransactionWriter(name, topic, kafka.for_librdkafka(), 60_000)
    writer.write(pa.RecordBatch.from_pydict({"value": pa.array([b"ours"] * 5)}))
    prepared = read(writer.prepare())
    assert isinstance(prepared, PreparedTransaction)
    sealed = prepared.sealed(client.cluster_id, client.topics([topic])[topic].topic_id)
    handle, witness = sealed.handle, sealed.witness
    assert oracle.look_for(client, handle, witness) is None
    three.kill(0)
    three.restart(1)
    wait_until(lambda: leaders(client, topic)[0] == 1, what="an unclean election")
    for _ in range(20):
        bystander.produce(topic, b"another's", partition=0)
    assert bystander.flush(30) == 0
    three.restart(0)
    gone = oracle.look_for(client, handle, witness)
    assert gone is not None
    assert gone.outcome is Outcome.UNKNOWN
    # The coordinator knows nothing of it, and commits: that is why an open transaction is looked for in the log.
    wait_until(lambda: transactions.commit(client, [handle])[handle] == 0, what="the commit's answer")
    evidence = oracle.ask(client, handle, witness)
    assert evidence.outcome is Outcome.UNKNOWN, evidence
