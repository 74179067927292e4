"""A real Kafka of one or three brokers on this machine, for tests, the demo and development.

Must not know: jobs, topics, Spark. It owns a data directory::

    cluster.json     the cluster's id, and every broker's ports: the same over restarts
    lock             held by this process and by every broker; holds the owner's pid
    broker-<id>/     server.properties, server.log, console.log, pid, data/, metadata/

Everything listens on 127.0.0.1 only.
"""

from __future__ import annotations

import base64
import errno
import fcntl
import json
import logging
import os
import random
import shutil
import signal
import socket
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from onceflow.errors import ConfigurationError, SetupError
from onceflow.local.devcluster.broker import Broker
from onceflow.local.devcluster.config import (
    CONTROLLER,
    HOST,
    PLAINTEXT,
    BrokerNode,
    log4j1_properties,
    log4j_properties,
    server_properties,
)
from onceflow.local.jars import broker_jars

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

log = logging.getLogger(__name__)

_READY_WITHIN = 90.0  # seconds; a start takes 2 to 5 on two idle cores
_STOP_WITHIN = 20.0  # seconds for a clean stop, then SIGKILL
# Below the ports that systems give to outgoing connections (Linux from 32768, macOS from 49152): a client that
# keeps knocking at a dead broker's port from that range can connect to itself and so take the port.
_PORTS = range(20_000, 32_000)


class DevCluster:
    """Brokers in child processes. They die with this process, even if it is killed, unless ``detached``.

    Use it as a context manager, or call ``start`` and ``stop``.

    Args:
        data_dir: Where everything lies; used again, with its data and ports, if it is there. None makes a
            temporary one, which leaving the ``with`` block removes.
        brokers: 1 or 3, each broker and controller in one. Fixed when the data directory is made.
        settings: Broker settings for all brokers; they win over those made here. See ``FAST_EXPIRY``.
        extra_listeners: Listener name to security protocol, for example ``{"SASL": "SASL_SSL"}``; the rest of
            its configuration goes into ``settings``. Ask ``bootstrap(name)`` for its addresses.
        port: The first broker's port. None takes a free one, or the one it had.
        detached: The brokers outlive this process; ``onceflow dev down`` or ``stop_detached`` ends them.
        version: An older Kafka, of those in ``local/jars.toml``. None is the newest that onceflow was tested with.
        features: Kafka's feature levels, for example ``{"transaction.version": "1"}``, where not the version's own.
            Like ``version`` they are for the first start of a data directory.

    Raises:
        ConfigurationError: Another number of brokers than 1 or 3, or than the data directory has.
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        brokers: int = 1,
        settings: Mapping[str, str] = MappingProxyType({}),
        *,
        extra_listeners: Mapping[str, str] = MappingProxyType({}),
        port: int | None = None,
        detached: bool = False,
        version: str | None = None,
        features: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        if brokers not in (1, 3):
            raise ConfigurationError(f"a dev cluster has 1 or 3 brokers, not {brokers}", action="ask for 1 or 3")
        self._temporary = data_dir is None
        self.data_dir = Path(data_dir or tempfile.mkdtemp(prefix="onceflow-dev-")).absolute()
        if "," in str(self.data_dir):
            raise ConfigurationError(
                f"a dev cluster cannot lie in {str(self.data_dir)!r}",
                cause="Kafka's log.dirs is a list with commas between the folders",
                action="choose a folder without a comma in its path",
            )
        self._size = brokers
        self._settings = dict(settings)
        self._extra_listeners = dict(extra_listeners)
        self._port = port
        self._detached = detached
        self._version = version
        self._features = dict(features)
        self._lock: int | None = None
        self._brokers: list[Broker] = []

    @property
    def bootstrap_servers(self) -> str:
        """The ``host:port,…`` of all brokers, without encryption or passwords. Known once started."""
        return self.bootstrap(PLAINTEXT)

    def bootstrap(self, listener: str) -> str:
        """The ``host:port,…`` of all brokers for one listener's name."""
        return ",".join(f"{HOST}:{broker.node.ports[listener]}" for broker in self._brokers)

    def pid(self, broker: int = 0) -> int | None:
        """The process id of one broker's Java, or None if it does not run."""
        return self._brokers[broker].running_pid()

    def start(self) -> Self:
        """Start all brokers and wait until each answers and sees all others.

        Raises:
            SetupError: Java or jars are missing, the directory is in use, a port is taken, or a broker did not
                come up. Nothing is left running.
        """
        broker_jars(version=self._version)  # fetch before the lock is taken: that may take long
        began = time.monotonic()
        self._take_lock()
        try:
            cluster_id = self._lay_out()
            with ThreadPoolExecutor() as pool:  # each is a Java of its own, so side by side
                list(pool.map(lambda broker: broker.format(cluster_id, self._features), self._brokers))
            for broker in self._brokers:
                self._launch(broker)
            for broker in self._brokers:
                broker.wait_ready(time.monotonic() + _READY_WITHIN, range(self._size))
        except BaseException:
            for broker in self._brokers:
                broker.kill()
            self._free_lock()
            raise
        if self._detached:
            (self.data_dir / "lock").write_text(f"{self.pid(0)}\n")
        log.info("Kafka runs: %s, %d broker(s), %.1f s", self.bootstrap_servers, self._size, time.monotonic() - began)
        return self

    def stop(self) -> None:
        """End all brokers: SIGTERM, then SIGKILL after 20 s. The data stays."""
        _end(self._brokers)
        self._free_lock()

    def kill(self, broker: int = 0) -> None:
        """End one broker by SIGKILL. Returns when the process is gone."""
        self._brokers[broker].kill()

    def restart(self, broker: int = 0) -> None:
        """Start one broker again on its data, and wait until it answers. One that runs is stopped first.

        Raises:
            SetupError: It did not come up.
        """
        one = self._brokers[broker]
        _end([one])
        self._launch(one)
        one.wait_ready(time.monotonic() + _READY_WITHIN, [one.node.id])

    def pause(self, broker: int = 0) -> None:
        """Stop one broker's execution (SIGSTOP): it keeps its connections and answers nothing."""
        self._brokers[broker].pause()

    def resume(self, broker: int = 0) -> None:
        """Let a paused broker go on (SIGCONT)."""
        self._brokers[broker].signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def _launch(self, broker: Broker) -> None:
        if self._lock is None:
            raise SetupError("the dev cluster is not started", action="call start() first")
        for name, port in broker.node.ports.items():
            if not _is_free(port):
                raise SetupError(
                    f"port {port} on {HOST}, which broker {broker.node.id} needs ({name}), is taken",
                    cause="another Kafka or another program listens there",
                    action="stop that program, or choose another port or another data directory",
                    port=port,
                )
        broker.start(lock=self._lock, detached=self._detached)

    def _lay_out(self) -> str:
        """Read or make ``cluster.json``, write every broker's files, and return the cluster's id."""
        state_path = self.data_dir / "cluster.json"
        state: dict[str, Any] = {
            "cluster_id": base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="),
            "ports": [{} for _ in range(self._size)],
        }
        if state_path.exists():
            state = json.loads(state_path.read_text())
        if len(state["ports"]) != self._size:
            raise ConfigurationError(
                f"the dev cluster in {self.data_dir} has {len(state['ports'])} broker(s), not {self._size}",
                cause=f"brokers={self._size}",
                action="ask for as many as it has, or choose another data directory, or delete this one",
            )
        ports: list[dict[str, int]] = state["ports"]
        if self._port is not None:
            ports[0][PLAINTEXT] = self._port
        used = {port for named in ports for port in named.values()}
        for named in ports:
            for listener in (PLAINTEXT, CONTROLLER, *self._extra_listeners):
                if listener not in named:
                    named[listener] = free_port(used)
                    used.add(named[listener])
        state_path.write_text(json.dumps(state, indent=1))
        nodes = _nodes(self.data_dir, ports)
        for node in nodes:
            node.directory.mkdir(exist_ok=True)
            node.properties.touch(mode=0o600)  # settings may hold passwords
            node.properties.write_text(server_properties(node, nodes, self._extra_listeners, self._settings))
            node.log4j.write_text(log4j_properties(node))
            node.log4j1.write_text(log4j1_properties(node))
        self._brokers = [Broker(node, self._version) for node in nodes]
        cluster_id: str = state["cluster_id"]
        return cluster_id

    def _take_lock(self) -> None:
        """Kafka itself does not refuse a second start on the same directory, so a lock of our own does.

        Every broker inherits the open file, so the lock ends with the last of them, not with this process.
        """
        self.data_dir.mkdir(parents=True, exist_ok=True)
        path = self.data_dir / "lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        deadline = time.monotonic() + 5  # the brokers of a dead owner are gone within a moment
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise
                owner = path.read_text().strip()
                if _is_alive(owner) or time.monotonic() > deadline:
                    os.close(descriptor)
                    raise SetupError(
                        f"the data directory {self.data_dir} is in use by process {owner or 'unknown'}",
                        cause="a dev cluster runs there already",
                        action="use that one, stop it (onceflow dev down), or choose another directory",
                        pid=owner,
                        data_dir=str(self.data_dir),
                    ) from None
            time.sleep(0.05)
        path.write_text(f"{os.getpid()}\n")
        self._lock = descriptor

    def _free_lock(self) -> None:
        if self._lock is not None:
            # explicitly: a child forked by the caller may hold a copy of the descriptor
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            os.close(self._lock)
            self._lock = None


def brokers_of(data_dir: Path) -> list[Broker]:
    """Handles of the brokers of a data directory that another process made; empty if there is none.

    ``running_pid()`` of each says whether it runs.
    """
    state = data_dir.absolute() / "cluster.json"
    if not state.exists():
        return []
    return [Broker(node) for node in _nodes(data_dir.absolute(), json.loads(state.read_text())["ports"])]


def stop_detached(data_dir: Path) -> list[int]:
    """End the detached brokers of a data directory; returns their process ids (empty: none ran)."""
    brokers = brokers_of(data_dir)
    pids = [pid for broker in brokers if (pid := broker.running_pid()) is not None]
    _end(brokers)
    return pids


def _nodes(data_dir: Path, ports: Iterable[Mapping[str, int]]) -> list[BrokerNode]:
    return [BrokerNode(i, data_dir / f"broker-{i}", named) for i, named in enumerate(ports)]


def _end(brokers: Iterable[Broker]) -> None:
    brokers = list(brokers)
    for broker in brokers:
        broker.terminate()
    deadline = time.monotonic() + _STOP_WITHIN
    for broker in brokers:
        if not broker.wait_gone(deadline):
            log.warning("broker %d did not stop in %.0f s and is killed", broker.node.id, _STOP_WITHIN)
            broker.kill()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # old connections in TIME_WAIT do not count
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port(used: set[int]) -> int:
    """A port on which nothing listens, of those that the system gives to no connection.

    Args:
        used: Those that are taken, though nothing listens there yet.

    Raises:
        SetupError: None was found.
    """
    for port in random.sample(_PORTS, 200):
        if port not in used and _is_free(port):
            return port
    raise SetupError(
        f"no free port was found on {HOST} in {_PORTS.start}-{_PORTS.stop}",
        cause="other programs listen there",
        action="end some of them",
    )


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
