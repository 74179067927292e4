"""What a cluster's settings let a broken broker take away, though it was acknowledged; told before a job starts.

Must not know: sinks, sources. Exactly-once rests on what the brokers keep: a record that every in-sync copy has is safe
only while one of those copies lives and leads. A cluster of one broker has no choice, so nothing is said of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from onceflow.connectors.kafka import broker_checks
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.errors import KafkaRightsError
from onceflow.findings import Finding

log = logging.getLogger(__name__)

TRANSACTION_LOG = "__transaction_state"
_LOST_WITH_IT = "what became of decided transactions"


def warn(found: Iterable[Finding]) -> None:
    """One line of the log for each."""
    for each in found:
        log.warning("%s: %s; %s", each.what, each.why, each.command)


def weak_topics(client: KafkaClient, topics: Iterable[str], lost: str) -> list[Finding]:
    """Settings of these topics by which acknowledged records can be lost.

    Args:
        client: The cluster.
        topics: Their names; one that does not exist, or that this user may not describe, is passed over.
        lost: What would be lost, in words.
    """
    if len(client.brokers()) < 2:
        return []
    try:
        found = client.topics(topics)
    except KafkaRightsError:  # only the transaction log: a job's own topics were described before
        return []
    settings = client.topic_configs(found)
    return [
        finding
        for name, topic in sorted(found.items())
        for finding in broker_checks.weak(name, topic.copies, settings.get(name, {}), lost)
    ]


def weak_transaction_log(client: KafkaClient) -> list[Finding]:
    """The same for Kafka's own log of transactions."""
    return weak_topics(client, [TRANSACTION_LOG], _LOST_WITH_IT)
