"""What a cluster's settings let a broken broker take away, though it was acknowledged; told before a job starts.

Must not know: sinks, sources. Exactly-once rests on what the brokers keep: a record that every in-sync copy has is safe
only while one of those copies lives and leads. A cluster of one broker has no choice, so nothing is said of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from onceflow.connectors.kafka.client import KafkaClient
from onceflow.errors import KafkaRightsError

log = logging.getLogger(__name__)

TRANSACTION_LOG = "__transaction_state"
_LOST_WITH_IT = "what became of decided transactions"


def warn_of_weak_topics(client: KafkaClient, topics: Iterable[str], lost: str) -> None:
    """One warning for each setting of these topics by which acknowledged records can be lost.

    Args:
        client: The cluster.
        topics: Their names; one that does not exist, or that this user may not describe, is passed over.
        lost: What would be lost, in words.
    """
    for said in weak_settings(client, topics, lost):
        log.warning(said)


def warn_of_weak_transaction_log(client: KafkaClient) -> None:
    """The same for Kafka's own log of transactions."""
    warn_of_weak_topics(client, [TRANSACTION_LOG], _LOST_WITH_IT)


def weak_settings(client: KafkaClient, topics: Iterable[str], lost: str) -> list[str]:
    """A sentence for each such setting, with its value and what it could cost."""
    if len(client.brokers()) < 2:
        return []
    try:
        found = client.topics(topics)
    except KafkaRightsError:  # only the transaction log: a job's own topics were described before
        return []
    settings = client.topic_configs(found)
    said: list[str] = []
    for name, topic in sorted(found.items()):
        has = settings.get(name, {})
        if topic.copies == 1:
            said.append(
                f"topic {name} has replication factor 1 on a cluster of several brokers: a broker that is lost with "
                f"its disk takes {lost} with it; make the topic with replication factor 3"
            )
            continue  # the other two settings ask for more than one copy
        if has.get("min.insync.replicas") == "1":
            said.append(
                f"topic {name} has min.insync.replicas=1 with replication factor {topic.copies}: a write is "
                f"acknowledged when a single broker has it, and {lost} can be lost with that one; set it to 2"
            )
        if has.get("unclean.leader.election.enable") == "true":
            said.append(
                f"topic {name} has unclean.leader.election.enable=true: a broker that lags behind may become the "
                f"leader, and {lost} can be cut off and their offsets given to others; set it to false"
            )
    return said
