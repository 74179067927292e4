"""The canary on a real broker: starts of one job at the same moment, and a sweep beside them."""

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from onceflow.connectors.kafka import transactions
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.committer import KafkaCommitter
from onceflow.connectors.kafka.source_connection import KafkaSourceConnection
from onceflow.connectors.kafka.writer import TransactionWriter
from onceflow.errors import KafkaError, KafkaRightsError, KafkaUnavailableError
from onceflow.local.devcluster import DevCluster
from onceflow.twophase.messages import Reply
from onceflow.twophase.participants import Part, Participant
from tests.support.harness import wait_until

pytestmark = pytest.mark.kafka

JOB = "0123456789ab"


def committer(client: KafkaClient, topic: str) -> KafkaCommitter:
    return KafkaCommitter(client, "out", topic, "onceflow", JOB, 60_000)


def test_starts_at_the_same_moment_and_a_sweep_do_not_end_each_others_canary(cluster, new_topic):
    """No flight sees a missing right, whatever other starts and a running job's sweep do beside it."""
    topic, ended, aborted = new_topic(1), threading.Event(), []

    def fly(_: int) -> None:
        with KafkaClient(cluster) as client:
            for _ in range(15):
                committer(client, topic).preflight()

    def sweep() -> None:
        with KafkaClient(cluster) as client:
            while not ended.is_set():
                with contextlib.suppress(KafkaUnavailableError):  # the broker is loading its first transactions
                    found = committer(client, topic).lingering(1, [])
                    aborted.extend(found)
                    committer(client, topic).abort(found)

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        with ThreadPoolExecutor(4) as starts:
            list(starts.map(fly, range(4)))
    finally:
        ended.set()
        sweeper.join()
    assert aborted, "the sweep met no canary, so nothing was tried"


def test_a_canary_that_was_left_open_is_swept(cluster, new_topic, monkeypatch):
    """A start that dies in its flight leaves a transaction that any later start knows as its own and aborts."""
    topic = new_topic(1)
    with KafkaClient(cluster) as client, monkeypatch.context() as dying:
        dying.setattr(transactions, "abort", lambda *_: {})
        committer(client, topic).preflight()
    with KafkaClient(cluster) as client:
        found = committer(client, topic).lingering(1, [])
        assert [p.sink for p in found] == ["out"]
        committer(client, topic).abort(found)
        wait_until(lambda: not committer(client, topic).lingering(1, []), 30, "the end of the canary")


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaClient]:
    """A client of a broker that asks for rights where a test has given some; topic ``out`` is there."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with DevCluster(settings=settings) as broker, KafkaClient(KafkaCluster(broker.bootstrap_servers)) as client:
        client.admin.create_topics({"out": {"num_partitions": 1, "replication_factor": 1}})
        client.admin.wait_for_topics(["out"])
        yield client


def leave_only(client: KafkaClient, right: ACLOperation, kind: ResourceType, name: str) -> None:
    """Take every right on a resource but this one."""
    client.admin.create_acls([ACL("User:ANONYMOUS", "*", right, ACLPermissionType.ALLOW, ResourcePattern(kind, name))])


def test_a_right_that_is_taken_away_before_the_commit_is_named(guarded):
    """The broker refuses the commit of what was prepared: the answer is REFUSED, and the error names the id."""
    name = f"onceflow-{JOB}-1-out-0-0-0"
    writer = TransactionWriter(name, "out", guarded.cluster.for_librdkafka() | {"acks": "all"}, 60_000)
    writer.write(pa.RecordBatch.from_pydict({"value": pa.array([b"a"], pa.binary())}))
    transaction = dict(writer.prepare())
    prepared = Participant("out", "the handle", (Part("out", 0, 1, 7),), transaction)
    leave_only(guarded, ACLOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name)
    ours = committer(guarded, "out")
    wait_until(lambda: ours.commit([prepared]) != {prepared.id: Reply.COMMITTED}, what="the refusal")
    assert ours.commit([prepared]) == {prepared.id: Reply.REFUSED}
    error = ours.refusal([prepared])
    assert name in error.what
    assert "decision stands" in error.what
    assert not error.retriable


@pytest.mark.parametrize("left", [ACLOperation.DESCRIBE, ACLOperation.DELETE])
def test_offsets_of_a_group_without_read_are_refused_and_the_right_is_named(guarded, left):
    """With DESCRIBE the group's coordinator is told and refuses; without it nobody tells where that is."""
    group = f"onceflow-lag-{left.name}"
    connection = KafkaSourceConnection(KafkaClient(guarded.cluster))
    try:
        wait_until(lambda: refused(connection, group) is None, what="the group's coordinator")
        leave_only(guarded, left, ResourceType.GROUP, group)
        wait_until(lambda: isinstance(refused(connection, group), KafkaRightsError), what="the refusal")
        error = refused(connection, group)
        assert error.cause == f"this user lacks READ on group {group}, or on out"
        assert "commit.offsets.on.checkpoint=false" in error.action
    finally:
        connection.close()


def refused(connection: KafkaSourceConnection, group: str) -> KafkaError | None:
    """Why offsets were not taken; None where they were."""
    try:
        connection.publish(group, ['{"out":{"0":0}}'])
    except KafkaError as error:
        return error
    return None
