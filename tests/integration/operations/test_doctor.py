"""``onceflow doctor`` on real brokers: nothing is found where nothing is wrong, and each of many seeded mistakes is.

Brokers' settings, rights and topics are wrong in one cluster of the file's own. No Spark is started.
"""

import json
import sys
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
)

import onceflow as of
from onceflow.checkpoint.identity import JobIdentity, create_identity
from onceflow.checkpoint.place import Place
from onceflow.cli import main as entry
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.transactional_id import name_transaction
from onceflow.errors import ConfigurationError
from onceflow.launch.systems import look_at_systems
from onceflow.local.devcluster import DevCluster
from onceflow.spark import java_client
from tests.support.harness import kafka_asked_for

pytestmark = pytest.mark.kafka

GOOD = """
import os
import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job("well", checkpointing=of.Checkpointing(os.environ["CHECKPOINT"]), spark={"spark.driver.memory": "256m"})

@job.stream(sinks=[of.KafkaSink(kafka, os.environ["OUT"])],
            sources=[of.KafkaSource(kafka, os.environ["IN"], value=of.Text())])
def copied(spark):
    raise AssertionError("it is not called")
"""

BAD = """
import os
import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job("ill", checkpointing=of.Checkpointing(os.environ["CHECKPOINT"]))
sinks = [
    of.KafkaSink(kafka, "not-there"),
    of.KafkaSink(kafka, "no-copies"),
    of.KafkaSink(kafka, "own-times", timestamp="at"),
    of.KafkaSink(kafka, "good", name="too-long", transaction_timeout="1 h"),
    of.KafkaSink(kafka, "good", name="too-short", transaction_timeout="10 s"),
    of.KafkaSink(kafka, "compacted"),
    of.KafkaSink(kafka, "unwritable"),
]
sources = [of.KafkaSource(kafka, topic, value=of.Text()) for topic in ("gone", "short", "compacted", "unreadable")]
sources.append(of.KafkaSource(kafka, "good", value=of.Text(), group="forbidden"))

@job.stream(sinks=sinks, sources=sources)
def copied(spark):
    raise AssertionError("it is not called")
"""

SEEDED = {
    "a sink's topic that is not there": ("error", "topic not-there of sink not-there does not exist"),
    "a source's topic that is not there": ("error", "there is no topic gone"),
    "more in-sync copies than copies": (
        "error",
        "topic no-copies acknowledges no write: it asks for 2 copies and has 1",
    ),
    "a topic that keeps no times of its writers": (
        "error",
        "topic own-times of sink own-times does not keep the times",
    ),
    "a time-out that the broker does not allow": ("error", "transaction_timeout of sink too-long is 3600000 ms"),
    "a time-out shorter than a downtime": ("warning", "a decided transaction of sink too-short may expire"),
    "ids that the brokers forget": ("warning", "the brokers forget a transactional id after 60 s"),
    "a mark that the brokers forget": ("warning", "the job's mark is kept for 1 min"),
    "a retention shorter than a downtime": ("error", "topic short deletes records after 1 s"),
    "a compacted source": ("warning", "topic compacted, which is read, has cleanup.policy=compact"),
    "a compacted sink": ("warning", "topic compacted of sink compacted has cleanup.policy=compact"),
    "no right to write": ("error", "this user lacks WRITE on Topic unwritable"),
    "no right to read": ("error", "topic unreadable cannot be read"),
    "no right to a group": ("error", "finding the coordinator of 'forbidden-onceflow-doctor' was refused"),
}


@pytest.fixture(scope="module")
def ill():
    """A broker with settings, topics and rights that are wrong."""
    settings = {
        "transactional.id.expiration.ms": "60000",
        "offsets.retention.minutes": "1",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    topics = {
        "good": {},
        "short": {"retention.ms": "1000"},
        "compacted": {"cleanup.policy": "compact"},
        "no-copies": {"min.insync.replicas": "2"},
        "own-times": {"message.timestamp.type": "LogAppendTime"},
        "unwritable": {},
        "unreadable": {},
    }
    with DevCluster(settings=settings, **kafka_asked_for()) as broker:
        cluster = of.KafkaCluster(broker.bootstrap_servers)
        with KafkaClient(cluster) as client:
            client.admin.create_topics(
                {name: {"num_partitions": 2, "replication_factor": 1, "configs": told} for name, told in topics.items()}
            )
            client.admin.wait_for_topics(list(topics))
            client.admin.create_acls([
                ACL("User:ANONYMOUS", "*", right, ACLPermissionType.ALLOW, ResourcePattern(ResourceType.TOPIC, topic))
                for topic in ("unwritable", "unreadable")
                for right in (ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS)
            ])  # fmt: skip
            forbidden = ResourcePattern(ResourceType.GROUP, "forbidden", ACLResourcePatternType.PREFIXED)
            client.admin.create_acls([ACL("User:somebody", "*", ACLOperation.READ, ACLPermissionType.ALLOW, forbidden)])
        yield cluster


@pytest.fixture
def doctor(tmp_path, monkeypatch, capsys):
    """``doctor(text, cluster, **environment)``: exit code and findings of the command."""

    def call(text, cluster, *more, **environment):
        file = tmp_path / "job.py"
        file.write_text(text)
        told = {"KAFKA": cluster.bootstrap_servers, "CHECKPOINT": str(tmp_path / "checkpoint")} | environment
        for name, value in told.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["onceflow", "doctor", str(file), "--output", "json", *more])
        with pytest.raises(SystemExit) as end:
            entry.main()
        found = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert found["exit_code"] == (end.value.code or 0)
        return found["exit_code"], found["findings"]

    return call


@contextmanager
def left_open(cluster, name, topic):
    """A transaction of this name that its writer has left open."""
    producer = Producer(cluster.for_librdkafka() | {"transactional.id": name, "transaction.timeout.ms": 60_000})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"a")
    producer.flush()
    yield
    producer.abort_transaction()


def test_nothing_is_found_where_nothing_is_wrong_and_what_lingers_is(cluster, new_topic, tmp_path, doctor):
    """Exit code 0, not a word, and no file left; then an open transaction of an older start, and a torn record, are.

    All three clients reach the broker; of one that cannot, its own words are told.
    """
    told = {"IN": new_topic(2), "OUT": new_topic(2)}
    assert doctor(GOOD, cluster, **told) == (0, [])
    assert [path.name for path in tmp_path.iterdir()] == ["job.py"]

    settings = {name.removeprefix("kafka."): value for name, value in cluster.for_spark().items()}
    good, bad = java_client.tried([settings, settings | {"bootstrap.servers": "nowhere"}])
    assert good == ""
    assert "ConfigException" in bad

    place = Place.at(tmp_path / "checkpoint", 100)
    place.ours.make()
    with KafkaClient(cluster) as client:
        identity = create_identity(place.ours, JobIdentity.new(place.uri, client.cluster_id, "onceflow"))
    place.records.make()
    for _ in range(2):
        Place.at(tmp_path / "checkpoint", 100).journal.start(identity.job_id)
    assert doctor(GOOD, cluster, **told) == (0, [])
    name = name_transaction("onceflow", identity.job_id, 1, told["OUT"], 0, 0, 5)
    with left_open(cluster, name, told["OUT"]):
        code, found = doctor(GOOD, cluster, **told)
        (lingers,) = found
        assert (code, lingers["level"]) == (0, "warning")
        assert name in lingers["what"]
        assert lingers["command"].endswith("onceflow txn abort JOB.py --all-lingering")
    newest = max(place.records.folder.glob("*.json"))
    newest.write_bytes(newest.read_bytes()[:40])
    code, found = doctor(GOOD, cluster, **told)
    assert code == 1
    assert newest.name in found[0]["what"]


def test_each_of_the_seeded_mistakes_is_found(ill, doctor):
    """All of them in one call, each with why it matters and what to do; and exit code 1."""
    code, found = doctor(BAD, ill)
    assert code == 1
    missed = [
        mistake
        for mistake, (level, what) in SEEDED.items()
        if not any(each["level"] == level and what in each["what"] for each in found)
    ]
    assert missed == [], json.dumps(found, indent=1)
    assert len(SEEDED) >= 10
    assert all(each["why"] and each["setting"] and each["command"] for each in found), found


def test_a_start_tells_of_all_that_it_refuses(ill, tmp_path):
    """The first as before, with its class and its words; the others beside it, with what to do."""
    good, there = of.KafkaSink(ill, "good"), of.KafkaSource(ill, "short", value=of.Text())
    sinks = [of.KafkaSink(ill, "not-there"), good, of.KafkaSink(ill, "no-copies"), of.KafkaSink(ill, "unwritable")]
    place = Place.at(tmp_path / "checkpoint", 100)
    with pytest.raises(ConfigurationError, match="topic not-there of sink not-there does not exist") as refused:
        look_at_systems(sinks, [there], place, "onceflow", "ill", lambda _: None, taken_over=False)
    assert [type(each).__name__ for each in refused.value.others] == ["ConfigurationError", *["KafkaRightsError"] * 2]
    assert "Found as well: topic no-copies acknowledges no write" in str(refused.value)
    assert [each.facts["right"] for each in refused.value.others[1:]] == ["WRITE", "READ"]
    with pytest.raises(ConfigurationError) as alone:
        look_at_systems(sinks[:1], [there], place, "onceflow", "ill", lambda _: None, taken_over=False)
    assert alone.value.others == ()
