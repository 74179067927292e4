"""Appending one record to a topic, outside of any transaction: an anchor of the audit's.

Must not know: what it says, when it is written.
"""

from __future__ import annotations

import logging
from typing import Any

from confluent_kafka import KafkaException

from onceflow.connectors.kafka.client import KafkaClient, translated
from onceflow.connectors.kafka.produce import open_producer
from onceflow.errors import ConfigurationError, KafkaUnavailableError

log = logging.getLogger(__name__)

_WITHIN_MS = 30_000
_FOR_EVER = "-1"


def append(client: KafkaClient, topic: str, line: str, *, key: str) -> None:
    """Append a record, acknowledged by all in-sync replicas.

    Args:
        client: The cluster.
        topic: The topic, which is there.
        line: The record's value; "" looks only at the topic.
        key: The record's key.

    Raises:
        ConfigurationError: There is no such topic, or it is compacted: then newer records take older ones away.
        KafkaRightsError, KafkaUnavailableError: It was refused; or nobody acknowledged it.
    """
    if not line:
        _require(client, topic)
        return
    failed: list[Any] = []
    # Idempotence is not asked for: the same anchor twice says what it says once, and it takes no further right.
    config: dict[str, Any] = {"acks": "all", "message.timeout.ms": _WITHIN_MS, "log_level": 0}  # failures are raised
    try:
        producer = open_producer({**client.cluster.for_librdkafka(), **config})
        producer.produce(topic, line.encode(), key.encode(), on_delivery=lambda error, _: failed.append(error))
        producer.flush()
    except KafkaException as raised:
        failed.append(raised.args[0])
    error = failed[0] if failed else None
    if error is None and failed:
        return
    code = error.code() if error is not None else -1
    if code > 0:  # a broker's own; librdkafka's are negative
        raise translated(code, f"writing an anchor to topic {topic}")
    raise KafkaUnavailableError(
        f"an anchor was not acknowledged by topic {topic} within {_WITHIN_MS / 1000:g} s",
        harmless="the brokers are just starting or moving a leader",
        cause=f"{error.str() if error is not None else 'no answer'}; topic={topic}",
        action="look at the brokers; the next anchor stands for this one",
        topic=topic,
    )


def _require(client: KafkaClient, topic: str) -> None:
    if topic not in client.topics([topic]):
        raise ConfigurationError(
            f"there is no topic {topic} for the audit's anchors in {client.cluster.bootstrap_servers}",
            harmless="always: nothing was started",
            cause=f"audit.anchor is topic:{topic}",
            action="let somebody else than the job create it, with cleanup.policy=delete and retention.ms=-1, and give "
            "the job WRITE and DESCRIBE on it, and nothing more",
            topic=topic,
        )
    told = client.topic_configs([topic]).get(topic, {})
    if "compact" in told.get("cleanup.policy", ""):
        raise ConfigurationError(
            f"topic {topic} cannot hold the audit's anchors: it is compacted",
            harmless="always: nothing was started",
            cause=f"cleanup.policy={told['cleanup.policy']}: a newer record of a job takes its older ones away",
            action="give the topic cleanup.policy=delete",
            topic=topic,
        )
    for setting in ("retention.ms", "retention.bytes"):
        if told.get(setting, _FOR_EVER) != _FOR_EVER:
            log.warning(
                "topic %s does not keep all of the audit's anchors (%s=%s): an audit finds nothing cut or written anew "
                "of before those that it keeps, and whoever may write to it can push older ones out by many of his own",
                topic,
                setting,
                told[setting],
            )
