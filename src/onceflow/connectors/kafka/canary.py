"""A canary: a transaction that is opened, looked for and aborted before the job starts, and writes no record.

Must not know: jobs, sinks. It proves that this user may begin, describe, list and end transactions under its prefix and
write to the topic; each missing right is named before anything is at stake.
"""

from __future__ import annotations

import time
from typing import Any

from kafka.protocol.producer import AddPartitionsToTxnRequest, InitProducerIdRequest

from onceflow.connectors.kafka import transactions
from onceflow.connectors.kafka.client import TRANSACTION, KafkaClient, translated
from onceflow.connectors.kafka.codes import MOVED, Code
from onceflow.connectors.kafka.prepared import Handle
from onceflow.connectors.kafka.rights import missing
from onceflow.connectors.kafka.transactions import Description
from onceflow.errors import ConfigurationError, KafkaRightsError, KafkaUnavailableError

# The coordinator is loading or moving, or somebody aborts the canary at this moment.
_AGAIN = MOVED | {Code.CONCURRENT_TRANSACTIONS, Code.PRODUCER_FENCED, Code.INVALID_PRODUCER_EPOCH}
_TRIES = 100
_NOT_BEGUN = "the broker refused to begin a transaction"
_CLIENT_VERSION = 3  # later versions of AddPartitionsToTxn are for brokers


def fly(client: KafkaClient, name: str, topic: str, timeout_ms: int, begins: str) -> float:
    """Open, find and abort a transaction on a topic.

    Args:
        client: The cluster.
        name: The transaction's name; nobody else may use it.
        topic: The topic.
        timeout_ms: How long it may be open.
        begins: What the names of all transactions begin with that need the same rights.

    Returns:
        By how many seconds the clock of its coordinator is ahead of ours, as far as the flight shows it: 0.0 where it
        began between our two looks at the time.

    Raises:
        KafkaRightsError: A right is missing; the message names it.
        ConfigurationError: The broker does not allow this ``transaction.timeout.ms``.
        KafkaUnavailableError: The brokers gave no usable answer.
    """
    for _ in range(_TRIES):
        handle, before = _begin(client, name, timeout_ms, begins), time.time()
        if handle is not None and _add(client, handle, topic, begins):
            try:
                after = time.time()
                seen = _look(client, name, begins)
                if isinstance(seen, Description):
                    began = seen.start_ms / 1000
                    return min(0.0, began - before) if began < after else began - after
                # An abort moves the epoch: if the handle still counts, the transaction was open all the time. If not,
                # a sweep of a job that runs, or the time-out, has ended it before it was seen.
                if seen is not None and _add(client, handle, topic, begins):
                    raise seen
            finally:
                transactions.abort(client, [handle])
        client.wait_a_little()
    raise KafkaUnavailableError(
        f"no transaction could be begun and seen under the name {name}",
        harmless="the cluster is just starting",
        cause="its transaction coordinator does not answer, or somebody aborts this job's transactions all the time",
        action="look at the brokers, then start the job again",
    )


def _look(client: KafkaClient, name: str, begins: str) -> Description | KafkaRightsError | None:
    """The open transaction, or what is missing if it cannot be found; None where nobody answered."""
    saw = "our own open transaction is not in the broker's list"
    if name in transactions.list_ids(client, name):
        described = transactions.describe(client, [name])
        if name not in described:
            return None
        found = described[name]
        if found is not None:
            return found
        saw = "our own open transaction cannot be described"
    return missing(client.cluster, saw, "DESCRIBE", "TransactionalId", name, begins=begins)


def _begin(client: KafkaClient, name: str, timeout_ms: int, begins: str = "") -> Handle | None:
    request = InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=timeout_ms, producer_id=-1, producer_epoch=-1, max_version=5
    )
    answer = _ask(client, name, request)
    if answer is None:
        return None
    code = answer.error_code
    if code == Code.NONE:
        return Handle(name, answer.producer_id, answer.producer_epoch)
    if code == Code.INVALID_TRANSACTION_TIMEOUT:
        raise ConfigurationError(
            f"the broker does not allow a transaction time-out of {timeout_ms} ms",
            cause=f"transaction_timeout is {timeout_ms} ms, more than the broker's transaction.max.timeout.ms",
            action="lower transaction_timeout, or raise transaction.max.timeout.ms on the brokers",
        )
    if code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        raise missing(client.cluster, _NOT_BEGUN, "WRITE", "TransactionalId", name, begins=begins)
    if code == Code.CLUSTER_AUTHORIZATION_FAILED:
        raise missing(client.cluster, _NOT_BEGUN, "IDEMPOTENT_WRITE", "Cluster")
    if code not in _AGAIN:
        raise translated(code, f"beginning transaction {name}")
    return None


def _add(client: KafkaClient, handle: Handle, topic: str, begins: str = "") -> bool:
    row = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[0])
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=handle.transactional_id,
        v3_and_below_producer_id=handle.producer_id,
        v3_and_below_producer_epoch=handle.producer_epoch,
        v3_and_below_topics=[row],
        max_version=_CLIENT_VERSION,
    )
    answer = _ask(client, handle.transactional_id, request)
    if answer is None:
        return False
    (code,) = (p.partition_error_code for t in answer.results_by_topic_v3_and_below for p in t.results_by_partition)
    if code == Code.TOPIC_AUTHORIZATION_FAILED:
        raise missing(client.cluster, "the broker refused to add the topic to a transaction", "WRITE", "Topic", topic)
    if code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        name, saw = handle.transactional_id, "the broker refused the transaction"
        raise missing(client.cluster, saw, "WRITE", "TransactionalId", name, begins=begins)
    if code != Code.NONE and code not in _AGAIN:
        raise translated(code, f"adding topic {topic} to a transaction")
    return bool(code == Code.NONE)


def _ask(client: KafkaClient, name: str, request: Any) -> Any:
    """The answer of the name's coordinator, or None."""
    nodes = client.coordinators(TRANSACTION, [name])
    if name not in nodes:
        return None
    (answer,) = client.send_all([(request, nodes[name])])
    if answer is None:
        client.forget_coordinator(TRANSACTION, name)
    return answer
