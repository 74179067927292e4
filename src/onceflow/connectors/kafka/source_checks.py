"""What a KafkaSource takes: each of its arguments, and which options of Spark's connector and of its consumer.

Must not know: brokers, what is done with the arguments. What would break the guarantee is refused, with what to do
instead; what cannot work is refused before a query is made of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, NoReturn

from onceflow.connectors.kafka.partition import is_topic_name
from onceflow.errors import ConfigurationError, RefusedSettingError
from onceflow.formats.contract import Format
from onceflow.options import arguments
from onceflow.options.rules import refuses, rule_for

SOURCE_OPTION = "onceflow.source"
"""The option by which the source of a query's plan leads back to its KafkaSource; see ``source.find``."""

_METADATA = ("key", "headers", "topic", "partition", "offset", "timestamp")
_SPARKS_OWN = "Spark's checkpoint holds the position in each partition, and nothing else may"
_OWN_SETTING = "it would get past the checks of the source's own setting"
# Lower case, since Spark ignores the case of options.
_REFUSED = (
    refuses("kafka.enable.auto.commit", _SPARKS_OWN, "remove it; group= names where offsets are published"),
    refuses("kafka.auto.offset.reset", f"{_SPARKS_OWN}: a reset would skip or repeat records", "use start="),
    refuses(
        "kafka.group.id",
        "two queries, or a query and its own restart, would share one group and disturb each other",
        "use group=, or the option groupIdPrefix",
    ),
    refuses("kafka.isolation.level", _OWN_SETTING, "use isolation="),
    refuses("kafka.key.deserializer", "Spark reads bytes; another class would fail or change them", "use key="),
    refuses("kafka.value.deserializer", "Spark reads bytes; another class would fail or change them", "use value="),
    refuses("kafka.interceptor.classes", "code between Kafka and Spark could drop or change records", "remove it"),
    refuses("kafka.bootstrap.servers", _OWN_SETTING, "use KafkaCluster"),
    refuses("kafka.security.protocol", _OWN_SETTING, "use KafkaCluster"),
    refuses("kafka.client.id", _OWN_SETTING, "use KafkaCluster"),
    refuses("failondataloss", "with false Spark goes on over lost records in silence", "remove it: it is always true"),
    refuses("startingoffsets", _OWN_SETTING, "use start="),
    refuses("startingtimestamp", _OWN_SETTING, "use start="),
    refuses("startingoffsetsbytimestamp", _OWN_SETTING, "use start="),
    refuses("startingoffsetsbytimestampstrategy", _OWN_SETTING, "use start="),
    refuses("maxoffsetspertrigger", _OWN_SETTING, "use max_records_per_epoch="),
    refuses("subscribe", _OWN_SETTING, "use topics="),
    refuses("subscribepattern", _OWN_SETTING, "use topics="),
    refuses("assign", f"{_OWN_SETTING} and would not find new partitions", "use topics="),
    refuses("includeheaders", _OWN_SETTING, 'use metadata=["headers"]'),
    refuses(SOURCE_OPTION, "it is onceflow's own", "remove it"),
    refuses("kafka.sasl.*", _OWN_SETTING, "use KafkaCluster"),
    refuses("kafka.ssl.*", _OWN_SETTING, "use KafkaCluster"),
)
_CONNECTOR_OPTIONS = {
    name.lower(): name
    for name in (
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "groupIdPrefix",
        "kafkaConsumer.pollTimeoutMs",
        "maxRecordsPerPartition",
        "maxTriggerDelay",
        "minOffsetsPerTrigger",
        "minPartitions",
    )
}
# Settings of Java's consumer, as the connector brings it, without those that are refused. Of others Java reads nothing.
CONSUMER_SETTINGS = frozenset({
    "kafka.allow.auto.create.topics", "kafka.auto.commit.interval.ms",
    "kafka.auto.include.jmx.reporter", "kafka.check.crcs",
    "kafka.client.dns.lookup", "kafka.client.rack", "kafka.connections.max.idle.ms",
    "kafka.default.api.timeout.ms", "kafka.enable.metrics.push", "kafka.exclude.internal.topics",
    "kafka.fetch.max.bytes", "kafka.fetch.max.wait.ms", "kafka.fetch.min.bytes", "kafka.group.instance.id",
    "kafka.group.protocol", "kafka.group.remote.assignor", "kafka.heartbeat.interval.ms",
    "kafka.max.partition.fetch.bytes", "kafka.max.poll.interval.ms", "kafka.max.poll.records",
    "kafka.metadata.max.age.ms",
    "kafka.metadata.recovery.strategy", "kafka.metric.reporters", "kafka.metrics.num.samples",
    "kafka.metrics.recording.level", "kafka.metrics.sample.window.ms", "kafka.partition.assignment.strategy",
    "kafka.receive.buffer.bytes", "kafka.reconnect.backoff.max.ms", "kafka.reconnect.backoff.ms",
    "kafka.request.timeout.ms", "kafka.retry.backoff.max.ms", "kafka.retry.backoff.ms",
    "kafka.security.providers", "kafka.send.buffer.bytes", "kafka.session.timeout.ms",
    "kafka.socket.connection.setup.timeout.max.ms", "kafka.socket.connection.setup.timeout.ms",
})  # fmt: skip
_PLUGINS = frozenset({"kafka.metric.reporters", "kafka.partition.assignment.strategy"})
"""Classes of the user's, which may have settings of their own."""


def wrong(name: str, value: Any, wanted: str) -> NoReturn:
    """Refuse an argument.

    Raises:
        ConfigurationError: It names the argument, its value, and what is taken.
    """
    arguments.wrong("KafkaSource", name, repr(value), wanted)


def checked_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    """One of these words."""
    if value not in choices:
        wrong(name, value, " or ".join(choices))
    return value


def checked_format(value: Format) -> Format:
    """A format that can read, as far as that is known before it is used."""
    value.require_readable()
    return value


def checked_topics(topics: Any) -> tuple[str, ...] | re.Pattern[str]:
    """Names of topics, or a pattern that Java understands, too."""
    if isinstance(topics, re.Pattern):
        if topics.flags & ~re.UNICODE or not isinstance(topics.pattern, str):
            wrong("topics", topics, "a pattern of text without flags; inside it (?i:…) works, for Java, too")
        return topics
    names = (topics,) if isinstance(topics, str) else tuple(topics) if isinstance(topics, Iterable) else ()
    if not names or not all(is_topic_name(name) for name in names) or len(set(names)) < len(names):
        wrong("topics", topics, "a topic's name, several different ones, or a compiled pattern")
    return names


def checked_metadata(metadata: Sequence[str]) -> tuple[str, ...]:
    """Metadata columns, each once."""
    names = tuple(metadata)
    if isinstance(metadata, str) or len(set(names)) < len(names) or not set(names) <= set(_METADATA):
        wrong("metadata", metadata, f"a list of any of {', '.join(_METADATA)}")
    return names


def checked_start(start: Any, group: str | None) -> str | datetime | dict[str, dict[int, int]]:
    """Where a query without a checkpoint begins."""
    if isinstance(start, datetime):
        if start.tzinfo is None:
            wrong("start", start, "a datetime with its time zone, for example datetime(2026, 1, 1, tzinfo=UTC)")
        if milliseconds(start) < 0:  # Kafka's clients look for none of these
            wrong("start", start, "a datetime from 1970 on, or earliest")
        return start
    if isinstance(start, str):
        if start == "group-offsets" and group is None:
            wrong("start", start, "group=, too: the group whose committed offsets are meant")
        return checked_choice("start", start, ("earliest", "latest", "group-offsets"))
    try:
        given = {str(topic): {int(number): int(at) for number, at in of.items()} for topic, of in start.items()}
    except (AttributeError, TypeError, ValueError):
        given = {}
    if not given or any(number < 0 or at < 0 for of in given.values() for number, at in of.items()):
        wrong("start", start, "earliest, latest, group-offsets, a datetime, or {topic: {partition: offset}}")
    return given


def milliseconds(at: datetime) -> int:
    """The first millisecond since 1970 that is at or after this moment: Kafka's times are no finer."""
    return -((datetime(1970, 1, 1, tzinfo=UTC) - at) // timedelta(milliseconds=1))


def checked_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as Spark's connector writes them.

    Raises:
        RefusedSettingError: One would break the guarantee.
        ConfigurationError: One is not known.
    """
    checked = {}
    for name, value in options.items():
        lower = name.lower()
        if rule := rule_for(lower, _REFUSED):
            raise RefusedSettingError(
                f"KafkaSource does not take the option {name}: {rule.doc}",
                cause=f"options has {name}" + (f"={value}" if "sasl" not in lower and "ssl" not in lower else ""),
                action=rule.instead,
                option=name,
            )
        if not lower.startswith("kafka.") and lower not in _CONNECTOR_OPTIONS:
            raise ConfigurationError(
                f"KafkaSource does not know the option {name}",
                cause=f"options has {name}",  # never its value: sasl.jaas.config without kafka. lands here, too
                action="consumer settings begin with kafka. (kafka.fetch.min.bytes); the connector's own are "
                f"{', '.join(_CONNECTOR_OPTIONS.values())}",
                option=name,
            )
        if (
            lower.startswith("kafka.")
            and lower not in CONSUMER_SETTINGS
            and not _PLUGINS & {n.lower() for n in options}
        ):
            meant = get_close_matches(lower, CONSUMER_SETTINGS, n=1)
            raise ConfigurationError(
                f"Kafka's consumer has no setting {name.removeprefix('kafka.')}",
                cause=f"options has {name}",
                action=f"did you mean {meant[0]}?" if meant else "remove it: the consumer would ignore it",
                option=name,
            )
        text = str(value).lower() if isinstance(value, bool) else str(value)
        checked[lower if lower.startswith("kafka.") else _CONNECTOR_OPTIONS[lower]] = text
    return checked
