"""What a person asks of a Kafka cluster beside what a start asks: facts for the rules of ``broker_checks``.

Must not know: the journal, how findings are shown. It only looks; what it tries leaves nothing behind.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable

import kafka.errors as kafka_errors
from confluent_kafka import OFFSET_END, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka import KafkaError as LibraryError

from onceflow.connectors.kafka import broker_checks, canary, group_offsets, rights
from onceflow.connectors.kafka.client import GROUP, KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.transactional_id import name_transaction
from onceflow.errors import KafkaRightsError, OnceflowError
from onceflow.findings import Finding, of_error

_ANSWER_WITHIN_S = 10.0
_REFUSALS = (LibraryError.TOPIC_AUTHORIZATION_FAILED, LibraryError.CLUSTER_AUTHORIZATION_FAILED)
_NOBODY = "000000000000"
_OPEN_AT_MOST_MS = 10_000  # no job sweeps what we leave if we are killed here


def of_cluster(client: KafkaClient) -> list[Finding]:
    """What is told once of each cluster: its brokers, their version, and whether librdkafka reaches it."""
    brokers = client.brokers()
    answering, addresses = client.answering(brokers, _ANSWER_WITHIN_S), client.addresses()
    silent = [addresses.get(broker, str(broker)) for broker in brokers if broker not in answering]
    found = list(broker_checks.silent_brokers(silent))
    found += broker_checks.transaction_version(client.version(), _transaction_version(client))
    said = _tried_by_librdkafka(client.cluster)
    if said:
        found.append(broker_checks.unreached("librdkafka", client.cluster.bootstrap_servers, said))
    return found


def clock_of(client: KafkaClient, prefix: str, sink: str, topic: str) -> list[Finding]:
    """How far the brokers' clock is away from ours, by when a canary of ours began; nothing where none could fly."""
    name = name_transaction(prefix, _NOBODY, 0, sink, 0, 0, uuid.uuid4().int % 2**48)
    try:
        return list(broker_checks.clocks(canary.fly(client, name, topic, _OPEN_AT_MOST_MS, f"{prefix}-")))
    except OnceflowError:  # the start's own canary has told of it
        return []


def may_read(cluster: KafkaCluster, topics: Iterable[str]) -> list[Finding]:
    """Which of these topics may not be read: by a consumer at the end of the first partition of each."""
    settings = {"group.id": f"onceflow-doctor-{uuid.uuid4().hex}", "enable.auto.commit": False}
    consumer = Consumer(cluster.for_librdkafka() | settings | {"enable.partition.eof": True, "log_level": 0})
    left, found = set(topics), []
    deadline = time.monotonic() + _ANSWER_WITHIN_S
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_END) for topic in sorted(left)])
        while left and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None:
                left.discard(str(message.topic()))  # its end, a record that came just now, or a refusal
                error = message.error()
                if error is not None and error.code() in _REFUSALS:
                    name = str(message.topic())
                    give = rights.command(cluster, "READ", "Topic", name)
                    found.append(broker_checks.may_not_read(name, error.str(), rights.principal(cluster), give))
    finally:
        consumer.close()
    return found


def may_join(client: KafkaClient, begins: str) -> list[Finding]:
    """Whether groups of such names may be asked for, as each of Spark's consumers does; nothing is made by it."""
    try:
        client.coordinators(GROUP, [f"{begins}-onceflow-doctor"])
    except KafkaRightsError as error:
        return of_error(rights.missing(client.cluster, error.what, "READ", "Group", begins, begins=begins))
    return []


def may_publish(client: KafkaClient, group: str, topics: Iterable[str]) -> list[Finding]:
    """Whether a group takes the offsets by which a job's lag is seen; none is written."""
    try:
        group_offsets.require_rights(client, group, next(iter(sorted(topics)), ""))
    except KafkaRightsError as error:
        return [broker_checks.lag_unseen(group, error.cause, rights.command(client.cluster, "READ", "Group", group))]
    return []


def _transaction_version(client: KafkaClient) -> int | None:
    try:
        found = client.admin.describe_features().get("transaction.version", {})
    except kafka_errors.KafkaError:
        return None
    return int(found["finalized"][1]) if "finalized" in found else None


def _tried_by_librdkafka(cluster: KafkaCluster) -> str:
    """What librdkafka says where it does not reach the cluster; "" where it does."""
    said: list[str] = []
    producer = Producer(cluster.for_librdkafka() | {"log_level": 0, "error_cb": lambda error: said.append(error.str())})
    try:
        producer.list_topics(timeout=_ANSWER_WITHIN_S)
    except KafkaException as error:
        return said[0] if said else str(error.args[0].str())
    return ""
