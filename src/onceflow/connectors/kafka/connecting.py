"""Opening a connection to a cluster, and saying what it waits for while no broker answers.

Must not know: topics, transactions, what the connection is for.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from onceflow.connectors.kafka.listeners import Look, addresses_of, in_words, look_at
from onceflow.connectors.kafka.login_refused import login_refused
from onceflow.errors import ConfigurationError, KafkaRightsError, KafkaUnavailableError, OnceflowError

if TYPE_CHECKING:
    from onceflow.connectors.kafka.cluster import KafkaCluster

log = logging.getLogger(__name__)

_TOLD_AFTER_S = 1.5

_announced: set[str] = set()
"""Clusters that this process has said it connects to: once is enough, it opens several connections."""


def connect(cluster: KafkaCluster, timeout_s: float) -> Any:
    """As ``KafkaCluster.admin`` says."""
    from kafka.errors import IllegalSaslStateError, KafkaTimeoutError, UnsupportedSaslMechanismError  # noqa: PLC0415

    from onceflow.connectors.kafka.kafka_python import is_refused_login, open_admin  # noqa: PLC0415

    if cluster.bootstrap_servers not in _announced:
        _announced.add(cluster.bootstrap_servers)
        log.info("connecting to Kafka at %s", cluster.bootstrap_servers)
    deadline = time.monotonic() + timeout_s
    waiting = _Waiting(cluster, timeout_s)
    round_s = 1.0
    try:
        while True:
            failures: list[Exception] = []
            try:
                # kafka-python retries a refused login until its time is over, and then says only "unable to
                # bootstrap". So give it a little time, look at why its connections failed, and go on.
                round_s = max(0.1, min(round_s, deadline - time.monotonic()))
                admin = open_admin(cluster.for_kafka_python(), round_s, failures)
            except KafkaTimeoutError as error:
                for failure in failures:
                    if isinstance(failure, KafkaRightsError):  # from our own token provider
                        raise failure from error
                    if isinstance(failure, IllegalSaslStateError | UnsupportedSaslMechanismError):
                        _require_no_mistakes(cluster, look_at(cluster, addresses_of(cluster.bootstrap_servers)))
                    if is_refused_login(failure):
                        raise _login_refused(cluster, failure) from error
                _require_no_mistakes(cluster, waiting.looks)
                if time.monotonic() >= deadline:
                    raise _unreachable(cluster, timeout_s, failures[-1] if failures else None) from error
                round_s *= 2
            else:
                waiting.answered()
                return admin
    finally:
        waiting.end()


@contextlib.contextmanager
def asking(cluster: KafkaCluster) -> Iterator[Any]:
    """A connection for requests that are made elsewhere: kafka-python's ``KafkaConnectionManager``.

    Raises:
        ConnectionError: No connection came to be; its text says why.
    """
    from onceflow.connectors.kafka.kafka_python import manager_of  # noqa: PLC0415

    try:
        admin = cluster.admin()
    except OnceflowError as error:
        raise ConnectionError(error.what) from error
    with contextlib.closing(admin):
        yield manager_of(admin)


class _Waiting:
    """Says, from a thread of its own, that no broker answers yet and why: looking up a name may hold the other.

    Attributes:
        looks: What was found at each address, once it was looked at.
    """

    def __init__(self, cluster: KafkaCluster, timeout_s: float) -> None:
        self.looks: Mapping[str, Look] = MappingProxyType({})
        self._cluster = cluster
        self._until = datetime.fromtimestamp(time.time() + timeout_s).astimezone()
        self._ended = threading.Event()
        self._said = False
        threading.Thread(target=self._run, name="onceflow-waiting", daemon=True).start()

    def answered(self) -> None:
        """A connection came to be."""
        self._ended.set()
        if self._said:
            log.warning("Kafka at %s answers", self._cluster.bootstrap_servers)

    def end(self) -> None:
        """Nothing is said any more."""
        self._ended.set()

    def _run(self) -> None:
        if self._ended.wait(_TOLD_AFTER_S):
            return
        looks = look_at(self._cluster, addresses_of(self._cluster.bootstrap_servers))
        if not self._ended.is_set():
            self._said = True
            log.warning("no broker answers yet (%s), trying until %s", in_words(looks), f"{self._until:%H:%M:%S}")
            self.looks = looks


def _require_no_mistakes(cluster: KafkaCluster, looks: Mapping[str, Look]) -> None:
    """Refuse settings that none of the listeners has: waiting would mend nothing."""
    if not looks or not all(look.is_mistake for look in looks.values()):
        return
    look = next(iter(looks.values()))
    if look.protocol:
        action = f"give the port of a listener that speaks {cluster.security_protocol} (see the brokers' listeners and "
        action += f"listener.security.protocol.map), or security_protocol={look.protocol!r}"
        if cluster.security_protocol.endswith("SSL") and not look.protocol.endswith("SSL"):
            action += ", which would not encrypt"
    else:
        action = f"set sasl_mechanism to {' or '.join(look.mechanisms)}, or enable {cluster.sasl_mechanism} at the "
        action += "brokers' listener"
    raise ConfigurationError(
        f"KafkaCluster({cluster.bootstrap_servers!r}) does not fit its brokers' listener: {in_words(looks)}",
        cause=f"security_protocol={cluster.security_protocol}, sasl_mechanism={cluster.sasl_mechanism}",
        action=action,
        bootstrap_servers=cluster.bootstrap_servers,
        listener=look.protocol or cluster.security_protocol,
    )


def _login_refused(cluster: KafkaCluster, failure: Exception) -> KafkaRightsError:
    names = ("sasl_mechanism", "username", "oauth_client_id", "ssl_certificate")
    login = {name: getattr(cluster, name) for name in names}
    return login_refused(failure, servers=cluster.bootstrap_servers, login=login)


def _unreachable(cluster: KafkaCluster, timeout_s: float, failure: Exception | None) -> KafkaUnavailableError:
    last = "" if failure is None else f"; the last attempt: {failure}"
    looks = look_at(cluster, addresses_of(cluster.bootstrap_servers))
    return KafkaUnavailableError(
        f"no broker of the Kafka cluster {cluster.bootstrap_servers} answered within {timeout_s:g} s "
        f"({in_words(looks)}){last}",
        harmless="the brokers are just starting: try again",
        cause=f"bootstrap_servers={cluster.bootstrap_servers}, security_protocol={cluster.security_protocol}, "
        f"ssl_ca={cluster.ssl_ca}",
        action="check that the address and the listener's protocol are right, and that ssl_ca has signed the "
        "brokers' certificates",
        bootstrap_servers=cluster.bootstrap_servers,
        timeout_s=timeout_s,
    )
