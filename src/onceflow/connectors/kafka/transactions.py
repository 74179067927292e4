"""Transactions by their exact handle: commit, abort, describe, list; and what each answer proves.

Must not know: epochs, decisions, Spark. The contract test holds the same table against real brokers, from Kafka 3.1 on.

A prepared transaction can be ended by anyone who knows (transactional id, producer id, producer epoch); the
writer may be dead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.producer import EndTxnRequest, InitProducerIdRequest

from onceflow.connectors.kafka.client import TRANSACTION, KafkaClient, translated
from onceflow.connectors.kafka.codes import MOVED, Code
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.prepared import Handle
from onceflow.errors import KafkaUnavailableError
from onceflow.twophase.messages import Reply

ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT = "Ongoing", "PrepareCommit", "CompleteCommit"
OPEN_STATES = (ONGOING, PREPARE_COMMIT, "PrepareAbort")
"""States in which readers wait for a transaction."""
# How it ends is decided already: an abort has nothing left to do.
_VERDICT_GIVEN = frozenset({PREPARE_COMMIT, "PrepareAbort", "PrepareEpochFence"})
_FENCE_TRIES = 100

# What EndTxn(commit) v3 with our exact handle proves. A refusal proves nothing, since the transaction may have been
# committed before: of it the log is asked.
COMMIT_REPLIES: Mapping[int, Reply] = {
    Code.NONE: Reply.COMMITTED,  # it was Ongoing and is committed, or it was committed before
    Code.CONCURRENT_TRANSACTIONS: Reply.RETRY,  # the markers are being written
    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Reply.REFUSED,  # nothing was done
    Code.TOPIC_AUTHORIZATION_FAILED: Reply.REFUSED,
    Code.CLUSTER_AUTHORIZATION_FAILED: Reply.REFUSED,
    Code.INVALID_TXN_STATE: Reply.SUSPECT,  # aborted by a v3 abort; or a late duplicate hides a commit
    Code.PRODUCER_FENCED: Reply.SUSPECT,  # timed out or initialised again; perhaps after it was committed
    Code.INVALID_PRODUCER_EPOCH: Reply.SUSPECT,  # the same
    Code.INVALID_PRODUCER_ID_MAPPING: Reply.SUSPECT,  # the id expired or the producer id rotated; perhaps after
}


@dataclass(frozen=True, slots=True)
class Description:
    """What the coordinator says of a transactional id.

    Attributes:
        state: Kafka's name: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, ...
        handle: The id with the producer id and epoch that it has now.
        timeout_ms: The transaction's time-out.
        start_ms: When it began, in milliseconds since 1970 by the broker's clock, or -1.
        partitions: Those that take part.
    """

    state: str
    handle: Handle
    timeout_ms: int
    start_ms: int
    partitions: frozenset[Partition]


def reply_of(code: int) -> Reply:
    """What a commit's answer proves. Every code that is not in the table, and no answer, is: ask again."""
    return COMMIT_REPLIES.get(code, Reply.RETRY)


def commit(client: KafkaClient, handles: Sequence[Handle]) -> dict[Handle, int]:
    """Commit each by ``EndTxn`` v3, all at once; Kafka's error code for each.

    v3 leaves the producer epoch alone, so the same request again finds the same transaction (v5 would move it).
    """
    return _end(client, handles, commit=True, version={"max_version": 3})


def abort(client: KafkaClient, handles: Sequence[Handle]) -> dict[Handle, int]:
    """Abort each by its exact handle, so that its writer cannot go on. What it answers proves nothing.

    ``EndTxn`` v5 compares the handle and moves the epoch. A v3 abort would leave the epoch, and the writer's next
    request would open a second transaction under the same handle; so brokers without v5 (before 4.0) are sent
    ``InitProducerId`` instead.
    """
    if client.supports(EndTxnRequest, 5):
        return _end(client, handles, commit=False, version={"min_version": 5})
    return _fence(client, handles)


def _fence(client: KafkaClient, handles: Sequence[Handle]) -> dict[Handle, int]:
    """Abort each by ``InitProducerId``, which moves the epoch in the same step as it aborts what is open.

    The broker does not compare the epoch of a transaction that is open, so it is looked at first, and only where the
    name still has our exact handle is anything sent. What could get between is a younger transaction of the same name,
    which has the same incarnation: of an older one nobody can decide it, and one of our own is proven lost and
    written again.

    One answer is not enough: CONCURRENT_TRANSACTIONS says that the abort has begun, or that nothing was done, since
    another request of the writer was under way. So it is repeated until the name has moved on.
    """
    codes: dict[Handle, int] = dict.fromkeys(handles, Code.NO_ANSWER)
    left = {h.transactional_id: h for h in handles}
    for _ in range(_FENCE_TRIES):
        ours: dict[str, Description] = {}
        for name, seen in describe(client, left).items():
            handle = left[name]
            if seen is not None and seen.handle == handle and seen.state not in _VERDICT_GIVEN:
                ours[name] = seen
                continue
            codes[handle] = (
                Code.NONE if codes[handle] == Code.CONCURRENT_TRANSACTIONS else _code_of_the_past(handle, seen)
            )
            del left[name]
        for name, code in _init_again(client, ours).items():
            codes[left[name]] = code
            if code != Code.CONCURRENT_TRANSACTIONS:
                del left[name]
        if not left:
            break
        client.wait_a_little()
    return codes


def _init_again(client: KafkaClient, seen: Mapping[str, Description]) -> dict[str, int]:
    """``InitProducerId`` for each name, expecting its present handle; Kafka's error code for each that was answered."""
    answers = client.send_to_coordinators(
        TRANSACTION,
        list(seen),
        lambda name: InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=seen[name].timeout_ms,  # another one may be more than the broker allows
            producer_id=seen[name].handle.producer_id,
            producer_epoch=seen[name].handle.producer_epoch,
            min_version=3,
            max_version=5,
        ),
        lambda answer, _: int(answer.error_code),
    )
    return {name: int(answer.error_code) for name, answer in answers.items() if answer is not None}


def _code_of_the_past(handle: Handle, seen: Description | None) -> int:
    """What an abort by exact handle would have been answered, had one been sent."""
    if seen is None:
        return Code.INVALID_PRODUCER_ID_MAPPING
    return Code.PRODUCER_FENCED if seen.handle != handle else Code.INVALID_TXN_STATE


def _end(
    client: KafkaClient, handles: Sequence[Handle], *, commit: bool, version: Mapping[str, int]
) -> dict[Handle, int]:
    by_id = {h.transactional_id: h for h in handles}
    answers = client.send_to_coordinators(
        TRANSACTION,
        list(by_id),
        lambda key: EndTxnRequest(
            transactional_id=key,
            producer_id=by_id[key].producer_id,
            producer_epoch=by_id[key].producer_epoch,
            committed=commit,
            **version,
        ),
        lambda answer, _: int(answer.error_code),
    )
    return {by_id[key]: Code.NO_ANSWER if answer is None else int(answer.error_code) for key, answer in answers.items()}


def describe(client: KafkaClient, transactional_ids: Iterable[str]) -> dict[str, Description | None]:
    """What the coordinators say of each id; None for an id that its coordinator does not know.

    An id whose coordinator gave no answer is left out.

    Raises:
        KafkaRightsError: This user may not describe one of them.
    """
    nodes = client.coordinators(TRANSACTION, transactional_ids)
    by_node: dict[int, list[str]] = {}
    for key, node in nodes.items():
        by_node.setdefault(node, []).append(key)
    requests = [(DescribeTransactionsRequest(transactional_ids=ids), node) for node, ids in by_node.items()]
    found: dict[str, Description | None] = {}
    for answer, ids in zip(client.send_all(requests), by_node.values(), strict=True):
        if answer is None:  # left out, not None: "no answer" must never pass for "not known"
            for key in ids:
                client.forget_coordinator(TRANSACTION, key)
            continue
        for row in answer.transaction_states:
            if row.error_code == Code.NONE:
                found[row.transactional_id] = _description(row)
            elif row.error_code == Code.TRANSACTIONAL_ID_NOT_FOUND:
                found[row.transactional_id] = None
            elif row.error_code in MOVED:
                client.forget_coordinator(TRANSACTION, row.transactional_id)
            else:
                raise translated(row.error_code, f"describing transaction {row.transactional_id}")
    return found


def list_ids(client: KafkaClient, prefix: str, states: Sequence[str] = (ONGOING,)) -> list[str]:
    """Transactional ids with this prefix in one of these states, from all brokers.

    Kafka leaves out, without a word, what this user may not describe.

    Raises:
        KafkaUnavailableError: A broker gave no answer: the list would have a hole.
    """
    pattern = (
        {"transactional_id_pattern": _escape(prefix) + ".*"} if client.supports(ListTransactionsRequest, 2) else {}
    )
    brokers = client.brokers()
    requests = [
        (ListTransactionsRequest(state_filters=list(states), producer_id_filters=[], **pattern), broker)
        for broker in brokers
    ]
    found: set[str] = set()
    for broker, answer in zip(brokers, client.send_all(requests), strict=True):
        if answer is None:
            raise KafkaUnavailableError(
                f"broker {broker} did not list its transactions",
                harmless="the broker is just starting; it is asked again",
                cause="the broker is down or its transaction coordinator is loading",
                action="nothing, unless it stays",
                broker=broker,
            )
        if answer.error_code != Code.NONE:
            raise translated(answer.error_code, f"listing transactions of broker {broker}")
        found.update(row.transactional_id for row in answer.transaction_states)
    return sorted(key for key in found if key.startswith(prefix))


def _description(row: Any) -> Description:
    return Description(
        state=row.transaction_state,
        handle=Handle(row.transactional_id, row.producer_id, row.producer_epoch),
        timeout_ms=row.transaction_timeout_ms,
        start_ms=row.transaction_start_time_ms,
        partitions=frozenset(Partition(t.topic, p) for t in row.topics for p in t.partitions),
    )


def _escape(text: str) -> str:
    """The text as a pattern of Java's RE2, which the broker uses: a backslash before all but letters and digits."""
    return "".join(c if c.isalnum() else "\\" + c for c in text)
