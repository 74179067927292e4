"""The driver's connection to a Kafka cluster: requests that go to the right broker, many at a time.

Must not know: what a transaction means, Spark, the journal. It turns kafka-python's futures and errors into values:
a request that got no usable answer gives None, and the caller decides what that means.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import kafka.errors as kafka_errors
from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from onceflow.connectors.kafka import watch
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.codes import MOVED, Code, named
from onceflow.connectors.kafka.kafka_python import manager_of
from onceflow.errors import ConfigurationError, KafkaError, KafkaRightsError, KafkaUnavailableError
from onceflow.waiting import turns

log = logging.getLogger(__name__)

GROUP, TRANSACTION = 0, 1

# Each is the oldest release that has what the protocol needs: the request, its version, what for.
_AGAIN_AFTER_S = 0.1
_NEEDED = (
    (ListTransactionsRequest, 0, "ListTransactions (Kafka 3.0)"),
    (DescribeTransactionsRequest, 0, "DescribeTransactions (Kafka 3.0)"),
    (FetchRequest, 13, "Fetch by topic id (Kafka 3.1)"),
)


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """What the cluster says of a topic.

    Attributes:
        name: The topic's name.
        topic_id: Its UUID.
        leaders: Partition to broker id, -1 for none.
        copies: Copies of the partition that has fewest.
    """

    name: str
    topic_id: str
    leaders: Mapping[int, int]
    copies: int = 1


class KafkaClient:
    """One connection for administration, shared by all that the driver does on a cluster. Thread-safe.

    Args:
        cluster: The cluster.
        timeout_s: How long to try to reach a broker at construction, and how long a partition without a leader is asked
            again.

    Attributes:
        timeout_s: The same.

    Raises:
        KafkaUnavailableError, KafkaRightsError: No broker answered; or it refused the login.
        ConfigurationError: The brokers are older than what the protocol needs.
    """

    def __init__(self, cluster: KafkaCluster, *, timeout_s: float = 30.0) -> None:
        self.cluster = cluster
        self.timeout_s = timeout_s
        self._admin = cluster.admin(timeout_s=timeout_s)
        self._manager = manager_of(self._admin)
        self._coordinators: dict[tuple[int, str], int] = {}
        self._require_requests()
        self.cluster_id = self._read_cluster_id()
        watch.begin(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Safe to call twice."""
        watch.end(self)
        with contextlib.suppress(Exception):
            self._admin.close()

    @property
    def admin(self) -> Any:
        """kafka-python's ``KafkaAdminClient``, for what has a method there."""
        return self._admin

    def supports(self, request: Any, version: int) -> bool:
        """Whether the brokers know this version of a request."""
        try:
            return bool(self._manager.broker_version_data.api_version(request) >= version)
        except (kafka_errors.IncompatibleBrokerVersion, kafka_errors.UnsupportedVersionError):
            return False

    # -- requests ---------------------------------------------------------------------------------

    def send_all(self, requests: Sequence[tuple[Any, int | None]]) -> list[Any]:
        """Send all requests at once; answers in the same order, None for each that got none.

        Args:
            requests: (request, broker id) pairs; a broker id of None means any broker.
        """

        async def run() -> list[Any]:
            waiting = []
            for request, node in requests:
                try:
                    waiting.append(self._manager.send(request, node_id=node))
                except kafka_errors.KafkaError as error:
                    waiting.append(error)
            return [await self._answer(future) for future in waiting]

        answers: list[Any] = self._manager.run(run)
        return answers

    async def _answer(self, future: Any) -> Any:
        if isinstance(future, Exception):
            log.debug("request not sent: %s", type(future).__name__)
            return None
        try:
            return await future
        except kafka_errors.KafkaError as error:
            log.debug("request without an answer: %s", type(error).__name__)
            return None

    def addresses(self) -> dict[int, str]:
        """``host:port`` of each broker, as far as the connection knows them now; nothing is asked."""
        return {broker.node_id: f"{broker.host}:{broker.port}" for broker in self._manager.cluster.brokers()}

    def answering(self, brokers: Sequence[int], within_s: float) -> set[int]:
        """Those of these brokers that answer in time. What does not is left alone: others may wait for it."""
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False, min_version=10)

        async def run() -> set[int]:
            waiting = {}
            for broker in brokers:
                with contextlib.suppress(kafka_errors.KafkaError):
                    waiting[broker] = self._manager.send(request, node_id=broker)
            deadline = time.monotonic() + within_s
            answered: set[int] = set()
            for broker, future in waiting.items():
                with contextlib.suppress(kafka_errors.KafkaError):
                    await self._manager.wait_for(future, max(0.0, deadline - time.monotonic()) * 1000)
                    answered.add(broker)
            return answered

        found: set[int] = self._manager.run(run)
        return found

    def send_to_coordinators(
        self, kind: int, keys: Sequence[str], request: Callable[[str], Any], error_code: Callable[[Any, str], int]
    ) -> dict[str, Any]:
        """Send one request for each key to its coordinator; the answer for each key, or None.

        A coordinator that answers "not me" is forgotten, so the next call asks who it is now.
        """
        nodes = self.coordinators(kind, keys)
        answers = self.send_all([(request(key), nodes[key]) for key in nodes])
        found: dict[str, Any] = dict.fromkeys(keys)
        for key, answer in zip(nodes, answers, strict=True):
            if answer is None or error_code(answer, key) in MOVED:
                self.forget_coordinator(kind, key)
            else:
                found[key] = answer
        return found

    def forget_coordinator(self, kind: int, key: str) -> None:
        """Ask again next time who coordinates the key."""
        self._coordinators.pop((kind, key), None)

    def coordinators(self, kind: int, keys: Iterable[str]) -> dict[str, int]:
        """The broker ids of the keys' coordinators; a key whose coordinator is not known now is left out.

        Raises:
            KafkaRightsError: This user may not know the coordinator.
        """
        wanted = list(dict.fromkeys(keys))
        asked = [key for key in wanted if (kind, key) not in self._coordinators]
        if asked:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=asked, min_version=4)
            (answer,) = self.send_all([(request, None)])
            for row in answer.coordinators if answer is not None else ():
                if row.error_code == Code.NONE:
                    self._coordinators[kind, row.key] = row.node_id
                elif row.error_code not in MOVED:
                    raise translated(row.error_code, f"finding the coordinator of {row.key!r}")
        return {key: self._coordinators[kind, key] for key in wanted if (kind, key) in self._coordinators}

    def brokers(self) -> list[int]:
        """The ids of all brokers that the cluster has now. Asks the cluster, since a cached list may miss one.

        A broker answers before it is registered, and again when its heartbeats were late, that there is none: taken for
        an answer, a list of transactions would be empty, and what lingers stay open.

        Raises:
            KafkaUnavailableError: No broker answered, or none was registered.
        """
        listed = self._answer_within(30.0, lambda: [b.node_id for b in self._metadata([]).brokers] or None, "is listed")
        return list(listed)

    def topics(self, names: Iterable[str]) -> dict[str, TopicMetadata]:
        """The topics that exist, by name.

        Raises:
            KafkaUnavailableError: No broker answered.
            KafkaRightsError: This user may not describe one of them.
        """
        wanted = list(names)
        if not wanted:
            return {}
        found: dict[str, TopicMetadata] = {}
        for row in self._metadata(wanted).topics:
            if row.error_code == Code.NONE:
                leaders = {p.partition_index: p.leader_id for p in row.partitions}
                copies = min((len(p.replica_nodes) for p in row.partitions), default=1)
                found[row.name] = TopicMetadata(row.name, str(row.topic_id), leaders, copies)
            elif row.error_code not in (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.LEADER_NOT_AVAILABLE):
                raise translated(row.error_code, f"describing topic {row.name}")
        return found

    def topic_configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Settings of topics, by topic and name; a topic that may not be described has none.

        Raises:
            KafkaUnavailableError: No broker answered.
        """
        from kafka.admin import ConfigResource, ConfigResourceType  # noqa: PLC0415 - only used at start

        return self._configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in names])

    def broker_configs(self) -> dict[str, str]:
        """The settings of a broker; none when this user may not see them.

        Raises:
            KafkaUnavailableError: No broker answered.
        """
        from kafka.admin import ConfigResource, ConfigResourceType  # noqa: PLC0415 - only used at start

        broker = str(self.brokers()[0])
        return self._configs([ConfigResource(ConfigResourceType.BROKER, broker)]).get(broker, {})

    def broker_config(self, name: str) -> str | None:
        """One setting of a broker, or None when this user may not see it."""
        return self.broker_configs().get(name)

    def version(self) -> str:
        """The brokers' version, as far as what they can do tells it."""
        return ".".join(map(str, self._manager.broker_version_data.broker_version))

    def _configs(self, resources: list[Any]) -> dict[str, dict[str, str]]:
        if not resources:
            return {}

        def described() -> Any:
            try:
                return self._admin.describe_configs(resources, config_filter="all")
            except kafka_errors.KafkaError as error:
                log.debug("settings not described: %s", type(error).__name__)
                return None

        # Of what this user may not see, the answer has no settings. Without an answer nothing is known: taken for
        # "may not see", it would skip checks in silence, and ask a broker for longer transactions than it allows.
        found = self._answer_within(self.timeout_s, described, "told its settings, or those of topics,")
        # kafka-python answers {type: {name: {setting: {"value": ...}}}}.
        return {
            str(name): {key: _value_of(setting) for key, setting in settings.items()}
            for by_name in found.values()
            for name, settings in by_name.items()
        }

    def _metadata(self, topics: list[str]) -> Any:
        rows = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=rows, allow_auto_topic_creation=False, min_version=10)
        return self._answer_within(30.0, lambda: self.send_all([(request, None)])[0], "answered")

    def _answer_within(self, seconds: float, ask: Callable[[], Any], done: str) -> Any:
        """Ask again until there is an answer.

        Raises:
            KafkaUnavailableError: There was none in time.
        """
        for _ in turns(seconds, _AGAIN_AFTER_S, now=self.now, pause=lambda _: self.wait_a_little()):
            if (answer := ask()) is not None:
                return answer
        raise KafkaUnavailableError(
            f"no broker of {self.cluster.bootstrap_servers} {done} for {seconds:g} s",
            harmless="the brokers are just starting",
            cause="the brokers are down or not reachable",
            action="start the brokers; the job goes on from its checkpoint when it is started again",
        )

    @staticmethod
    def wait_a_little() -> None:
        """The pause before a broker that gave no answer is asked again."""
        time.sleep(_AGAIN_AFTER_S)

    @staticmethod
    def now() -> float:
        """Seconds on a clock that nobody sets: by it whoever asks again gives up."""
        return time.monotonic()

    def _read_cluster_id(self) -> str:
        return str(self._metadata([]).cluster_id)

    def _require_requests(self) -> None:
        missing = [what for request, version, what in _NEEDED if not self.supports(request, version)]
        if missing:
            raise ConfigurationError(
                f"the brokers at {self.cluster.bootstrap_servers} do not know {', '.join(missing)}",
                cause="they are older than what exactly-once needs",
                action="use brokers of Kafka 3.1 or newer, or a sink with guarantee='at-least-once'",
            )


def translated(code: int, doing: str) -> KafkaError:
    """The error for a Kafka error code outside of any transaction."""
    if issubclass(kafka_errors.for_code(code), kafka_errors.AuthorizationError):
        return KafkaRightsError(
            f"{doing} was refused: {named(code)}",
            harmless="for the data: what is decided is finished by a start that has the right",
            cause="this user lacks a right",
            action="see 'Kafka rights' in docs/security.md for the rights that a job needs",
            code=code,
        )
    return KafkaUnavailableError(
        f"{doing} failed: {named(code)}",
        harmless="the cluster is just starting or moving a coordinator",
        cause="the cluster is not well",
        action="look at the brokers, then start the job again",
        code=code,
    )


def _value_of(setting: Any) -> str:
    return str(setting["value"] if isinstance(setting, Mapping) else getattr(setting, "value", setting))
