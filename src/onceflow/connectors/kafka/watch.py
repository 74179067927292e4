"""Watching the brokers of open connections: a line when one gives no answer any more, and one when it is back.

What waits for a broker (Spark's reader, a writer in a worker, a commit) waits without a word, each in its own library.
So one thread for each cluster asks every broker once a second, for as long as the driver has a connection there.

Must not know: what waits, transactions.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Protocol

from onceflow.connectors import silence
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.listeners import unanswered

log = logging.getLogger(__name__)

_EVERY_S = 1.0
_ANSWERS_WITHIN_S = 1.5


class Watched(Protocol):
    """An open connection to a cluster."""

    cluster: KafkaCluster

    def addresses(self) -> Mapping[int, str]:
        """``host:port`` of each broker that is known, by its id."""

    def answering(self, brokers: list[int], within_s: float) -> set[int]:
        """Those of these brokers that answer in time."""


class _Watch:
    """One cluster's."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.connections: list[Watched] = []
        self.ended = threading.Event()
        self._cluster = cluster
        self._silent: dict[str, float] = {}
        """Since when, by address."""
        threading.Thread(target=self._run, name="onceflow-watch", daemon=True).start()

    def _run(self) -> None:
        while not self.ended.wait(_EVERY_S):
            connection = next(iter(self.connections[:1]), None)
            if connection is not None:
                try:
                    self._round(connection)
                except Exception:  # the lines are lost, the job is not
                    log.debug("the brokers could not be watched", exc_info=True)

    def _round(self, connection: Watched) -> None:
        brokers = connection.addresses()
        asked = [broker for broker, address in brokers.items() if address not in self._silent]
        answered = connection.answering(asked, _ANSWERS_WITHIN_S)
        doubted = [brokers[broker] for broker in asked if broker not in answered]
        # A connection may be closed, or wait before it is opened again: the broker itself is asked before it is told.
        why = unanswered(self._cluster, [*doubted, *self._silent])
        if self.ended.is_set():
            return
        for address in doubted:
            if address in why:
                self._silent[address] = time.monotonic()
                log.warning(
                    "Kafka broker %s gives no answer (%s): an epoch that needs it waits, and goes on when it is back",
                    address,
                    why[address],
                )
        for address in [address for address in self._silent if address not in why]:
            log.warning("Kafka broker %s is back after %.0f s", address, time.monotonic() - self._silent.pop(address))
        self._tell()

    def _tell(self) -> None:
        with _changes:
            if self.ended.is_set():
                return
            _silent[self] = {f"Kafka broker {address}": since for address, since in self._silent.items()}
            _tell_of_all()


_watches: dict[KafkaCluster, _Watch] = {}
_silent: dict[_Watch, Mapping[str, float]] = {}
_changes = threading.Lock()


def begin(connection: Watched) -> None:
    """Watch the cluster of an open connection, if nobody does yet."""
    with _changes:
        found = _watches.get(connection.cluster)
        if found is None:
            found = _watches[connection.cluster] = _Watch(connection.cluster)
        found.connections.append(connection)


def end(connection: Watched) -> None:
    """The connection is closed; with a cluster's last one its watch ends. Safe to call twice."""
    with _changes:
        found = _watches.get(connection.cluster)
        if found is None or connection not in found.connections:
            return
        found.connections.remove(connection)
        if not found.connections:
            found.ended.set()
            del _watches[connection.cluster]
            _silent.pop(found, None)
            _tell_of_all()


def _tell_of_all() -> None:
    silence.replace({place: since for each in _silent.values() for place, since in each.items()})
