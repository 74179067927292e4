"""Kafka's error codes that mean something to us, by their names, and which of them are treated alike.

Must not know: what was asked. What a code proves of a commit stands in ``transactions``; here is only what holds for
every request.
"""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """Kafka's number and name."""

    UNKNOWN_SERVER_ERROR = -1
    NO_ANSWER = -1
    """Ours, for a request without an answer: Kafka's own -1 says no more than that."""
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    ILLEGAL_GENERATION = 22
    UNKNOWN_MEMBER_ID = 25
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_PRODUCER_EPOCH = 47
    """What PRODUCER_FENCED says, from brokers or requests that do not know that one."""
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    """The transactional id is unknown, or has another producer id now."""
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    """The end of a transaction is under way: its markers are being written, or another request of it is served."""
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    PRODUCER_FENCED = 90
    """The producer epoch has moved: by a newer producer, by an abort, or by the time-out."""
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103
    TRANSACTIONAL_ID_NOT_FOUND = 105
    STALE_MEMBER_EPOCH = 113


MOVED = frozenset({Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR})
"""A coordinator that is loading, moving or not there: the same request again, after a look at who it is now."""

RIGHT_MISSING = frozenset(
    {
        Code.TOPIC_AUTHORIZATION_FAILED,
        Code.GROUP_AUTHORIZATION_FAILED,
        Code.CLUSTER_AUTHORIZATION_FAILED,
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""This user may not do that to a topic, to a group, to the cluster, or under a transactional id."""

TOPIC_GONE = frozenset({Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID, Code.INCONSISTENT_TOPIC_ID})
"""There is no topic with this id."""


def named(code: int) -> str:
    """A code as messages show it: its name and its number, also of one that has no other meaning here."""
    try:
        return f"{Code(code).name} ({code:d})"
    except ValueError:
        import kafka.errors as kafka_errors  # noqa: PLC0415 - what only compares codes needs no client

        error = kafka_errors.for_code(code)
        return f"{getattr(error, 'message', error.__name__)} ({code:d})"
