"""Each right of a Kafka login that an epoch or a recovery would miss is named before the job starts, on a real broker.

Each login lacks one right that docs/security.md lists, and has the others. Where no check is made no Spark is started.
"""

import json
import sys

import kafka.errors as kafka_errors
import pytest
from kafka import TopicPartition
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

import onceflow as of
from onceflow.audit.anchors import InTopic
from onceflow.cli import main as entry
from onceflow.connectors.kafka import anchor
from onceflow.connectors.kafka.client import GROUP, KafkaClient
from onceflow.errors import KafkaRightsError
from onceflow.local.devcluster import DevCluster
from tests.support.harness import kafka_asked_for, wait_until

pytestmark = pytest.mark.kafka

JOB = """
import json, os
import onceflow as of

kafka = of.KafkaCluster(
    os.environ["KAFKA"], security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", username=os.environ["WHO"],
    password="secret",
)
job = of.Job(
    "guarded",
    checkpointing=of.Checkpointing(os.environ["CHECKPOINT"]),
    transactional_id_prefix=os.environ["PREFIX"],
    spark={"spark.driver.memory": "256m"},
)

@job.stream(sinks=[of.KafkaSink(kafka, "alerts")],
            sources=[of.KafkaSource(kafka, "payments", value=of.Text(), **json.loads(os.environ["MORE"]))])
def copied(spark):
    raise AssertionError("it is not called")
"""

PREFIX = "bank"
READ, WRITE, DESCRIBE = ACLOperation.READ, ACLOperation.WRITE, ACLOperation.DESCRIBE
TOPIC, IDS, GROUPS = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID, ResourceType.GROUP
LISTED = [
    (IDS, f"{PREFIX}-", WRITE),
    (IDS, f"{PREFIX}-", DESCRIBE),
    (TOPIC, "alerts", WRITE),
    (TOPIC, "alerts", DESCRIBE),
    (TOPIC, "alerts", READ),
    (TOPIC, "payments", READ),
    (TOPIC, "payments", DESCRIBE),
    (GROUPS, f"{PREFIX}-", READ),
    (GROUPS, f"{PREFIX}-", DESCRIBE),
    (GROUPS, "spark-kafka-source", READ),
    (GROUPS, "spark-kafka-source", DESCRIBE),
]
"""The rights of docs/security.md; the names of ids and groups are beginnings."""

TAKEN = {
    "noids": [(IDS, f"{PREFIX}-", WRITE)],
    "nowrite": [(TOPIC, "alerts", WRITE)],
    "noproof": [(TOPIC, "alerts", READ)],
    "nosource": [(TOPIC, "payments", READ)],
    "nomark": [(GROUPS, f"{PREFIX}-", READ)],
    "nogroup": [(GROUPS, f"{PREFIX}-", READ), (GROUPS, f"{PREFIX}-", DESCRIBE)],
    "nospark": [(GROUPS, "spark-kafka-source", READ), (GROUPS, "spark-kafka-source", DESCRIBE)],
}
"""What each login lacks."""

GIVEN = {"all": LISTED, **{who: [right for right in LISTED if right not in lacks] for who, lacks in TAKEN.items()}}
GIVEN["anchors"] = [(TOPIC, "anchors", WRITE), (TOPIC, "anchors", DESCRIBE)]
GIVEN["auditor"] = [(TOPIC, "anchors", READ), (TOPIC, "anchors", DESCRIBE)]
GIVEN["nolag"] = [*LISTED, (GROUPS, "lag-", DESCRIBE)]
GIVEN["usual"] = [(kind, name.replace(f"{PREFIX}-", "onceflow-"), right) for kind, name, right in LISTED]


@pytest.fixture(scope="module")
def guarded():
    """``guarded(who)``: a cluster that asks for rights, by a login."""
    users = " ".join(f'user_{who}="secret"' for who in GIVEN)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",  # the brokers themselves, and this test
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f"{module} {users};",
    }
    listeners = {"LOGIN": "SASL_PLAINTEXT"}
    with (
        DevCluster(settings=settings, extra_listeners=listeners, **kafka_asked_for()) as broker,
        KafkaClient(of.KafkaCluster(broker.bootstrap_servers)) as client,
    ):
        client.admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1} for name in TOPICS})
        client.admin.wait_for_topics(TOPICS)
        acls = [acl(who, *right) for who, rights in GIVEN.items() for right in rights]
        client.admin.create_acls(acls)
        every = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, EVERYTHING)
        wait_until(lambda: len(client.admin.describe_acls(every)[0]) == len(acls), what="the rights")

        def by(who):
            login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "password": "secret"}
            return of.KafkaCluster(broker.bootstrap("LOGIN"), username=who, **login)

        by.client = client
        yield by


TOPICS = ["alerts", "anchors", "payments"]
EVERYTHING = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)


def acl(who, kind, name, right):
    how = ACLResourcePatternType.LITERAL if kind is TOPIC else ACLResourcePatternType.PREFIXED
    return ACL(f"User:{who}", "*", right, ACLPermissionType.ALLOW, ResourcePattern(kind, name, how))


@pytest.fixture
def doctor(guarded, tmp_path, monkeypatch, capsys):
    """``doctor(who, **arguments of the source)``: the exit code and the findings of the command."""

    def call(who, prefix=PREFIX, **more):
        file = tmp_path / "job.py"
        file.write_text(JOB)
        told = {"KAFKA": guarded(who).bootstrap_servers, "WHO": who, "PREFIX": prefix, "MORE": json.dumps(more)}
        for name, value in {**told, "CHECKPOINT": str(tmp_path / "checkpoint")}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["onceflow", "doctor", str(file), "--output", "json"])
        with pytest.raises(SystemExit) as end:
            entry.main()
        found = json.loads(capsys.readouterr().out.splitlines()[-1])
        return end.value.code or 0, found["findings"]

    return call


def groups(client):
    """The groups that keep anything."""
    return {group.group_id for group in client.admin.list_groups()}


def test_a_login_with_the_rights_of_the_readme_lacks_nothing(guarded, doctor):
    """And what was tried has left nothing: no group, and no record."""
    assert doctor("all") == (0, [])
    assert groups(guarded.client) == set()


@pytest.mark.parametrize(
    ("who", "said", "option"),
    [
        (
            "noids",
            "this user lacks WRITE on TransactionalId bank-",
            "--transactional-id 'bank-' --resource-pattern-type prefixed",
        ),
        ("nowrite", "this user lacks WRITE on Topic alerts", "--topic 'alerts'"),
        ("noproof", "this user lacks READ on Topic alerts", "--topic 'alerts'"),
        ("nosource", "topic payments cannot be read", "--topic 'payments'"),
        ("nomark", "this user lacks READ on Group bank-", "--group 'bank-' --resource-pattern-type prefixed"),
        ("nogroup", "this user lacks READ on Group bank-", "--group 'bank-' --resource-pattern-type prefixed"),
        ("nospark", "this user lacks READ on Group spark-kafka-source", "--group 'spark-kafka-source' --resource-"),
    ],
)
def test_a_right_that_is_missing_is_named_with_the_command_that_gives_it(guarded, doctor, who, said, option):
    """Each alone, with the principal; nothing is left of what was tried."""
    code, found = doctor(who)
    errors = [each for each in found if each["level"] == "error"]
    assert (code, [said in each["what"] for each in errors]) == (1, [True] * len(errors)), found
    assert errors
    right = TAKEN[who][0][2].name
    give = f"--add --allow-principal 'User:{who}' --operation {right} {option}"
    assert all(f"to User:{who}" in each["setting"] and give in each["command"] for each in errors), found
    assert groups(guarded.client) == set()


def test_who_anchors_receipts_appends_and_rewrites_nothing(guarded):
    """By the rights of docs/audit.md the job's own login adds an anchor, and neither removes one nor changes the topic.

    The auditor's login reads them.
    """
    with KafkaClient(guarded("anchors")) as job:
        anchor.append(job, "anchors", "", key="job")
        for line in ("first", "second"):
            anchor.append(job, "anchors", line, key="job")
        end = {TopicPartition("anchors", number): -1 for number in range(2)}
        setting = ConfigResource(ConfigResourceType.TOPIC, "anchors", {"retention.ms": "1"})
        before = guarded.client.topic_configs(["anchors"])
        for forbidden in (lambda: job.admin.delete_records(end), lambda: job.admin.delete_topics(["anchors"])):
            with pytest.raises(kafka_errors.KafkaError, match="AuthorizationFailed"):
                forbidden()
        job.admin.alter_configs([setting], raise_on_unknown=False)  # it tells no refusal
        assert guarded.client.topic_configs(["anchors"]) == before
        with pytest.raises(KafkaRightsError):
            anchor.append(job, "alerts", "elsewhere", key="job")
    place = InTopic("anchors", guarded("auditor").connection)
    assert [line for _, line in place.lines()] == [b"first", b"second"]


@pytest.mark.faults
def test_the_group_that_shows_the_lag_is_only_warned_of(doctor):
    """A job without it runs; its own group is given, and one that the source names is not."""
    code, found = doctor("nolag", group="lag-of-mine")
    assert (code, [each["level"] for each in found]) == (0, ["warning"])
    assert "group lag-of-mine does not take the offsets" in found[0]["what"]
    assert "--allow-principal 'User:nolag' --operation READ --group 'lag-of-mine'" in found[0]["command"]


@pytest.mark.faults
def test_a_login_with_the_prefix_of_every_job_is_advised_to_have_its_own(doctor):
    """Whoever has these rights may fence every job that has kept the prefix."""
    code, found = doctor("usual", "onceflow")
    assert (code, [each["level"] for each in found]) == (0, ["warning"])
    assert "as those of every job do that names no prefix" in found[0]["what"]
    assert "it logs in as User:usual" in found[0]["setting"]


def test_what_a_group_refuses_is_tried_without_an_offset(guarded):
    """The broker finds the group's coordinator for who may, and keeps nothing."""
    with KafkaClient(guarded("all")) as client:
        wait_until(lambda: client.coordinators(GROUP, [f"{PREFIX}-a"]), what="the coordinator")
    assert groups(guarded.client) == set()


@pytest.mark.spark
@pytest.mark.parametrize(("who", "said"), [("noproof", "READ on Topic alerts"), ("nomark", "READ on Group bank-")])
@pytest.mark.parametrize("listed", [True, False])
def test_a_check_does_not_say_that_a_job_without_a_right_would_start(spark, guarded, tmp_path, who, said, listed):
    """Also of a sink that only the stream function names."""

    def check(by):
        source = of.KafkaSource(guarded(by), "payments", value=of.Text())
        sink = of.KafkaSink(guarded(by), "alerts", value=of.Text())
        place = of.Checkpointing(tmp_path / "checkpoint")
        job = of.Job("checked", checkpointing=place, transactional_id_prefix=PREFIX)
        named = {"sinks": [sink], "sources": [source]} if listed else {}
        job.stream(**named)(lambda session: source.load(session) if listed else {sink: source.load(session)})
        job.check()

    check("all")
    with pytest.raises(KafkaRightsError, match=said):
        check(who)
