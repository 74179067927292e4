"""One broker's process: start it, wait until it answers, signal it, end it.

Must not know: the other brokers, the data directory's lock, who wants the cluster. A broker is found again by
its pid file, and the pid is believed only if that process was started with this broker's configuration file.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from onceflow.errors import SetupError
from onceflow.local.devcluster import watch
from onceflow.local.devcluster.config import HOST, PLAINTEXT, BrokerNode
from onceflow.local.jars import broker_jars, java_executable
from onceflow.processes import command_line, stands_still
from onceflow.waiting import turns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

log = logging.getLogger(__name__)

_HEAP = ("-Xms256m", "-Xmx512m")
_POLL = 0.05  # seconds between two looks
_STILL_S = 30


class Broker:
    """A handle of one broker, running or not.

    Args:
        node: Where it lies.
        version: An older Kafka to start instead of the usual one.
    """

    def __init__(self, node: BrokerNode, version: str | None = None) -> None:
        self.node = node
        self._version = version
        self._child: subprocess.Popen[str] | None = None

    def format(self, cluster_id: str, features: Mapping[str, str]) -> None:
        """Make the metadata directory, as Kafka asks for before the first start. Does nothing if it is there.

        ``features`` are Kafka's feature levels by name.

        Raises:
            SetupError: The storage tool refused; the message holds what it said.
        """
        if (self.node.directory / "metadata" / "meta.properties").exists():
            return
        # C1 only: the tool lives for a second, and the optimising compiler would not pay
        command = [*self._java("-XX:TieredStopAtLevel=1"), "kafka.tools.StorageTool", "format"]
        # One cluster id of 64 begins with "-": behind a "=" the tool does not take it for an option.
        command += ["--ignore-formatted", f"--cluster-id={cluster_id}", "-c", str(self.node.properties)]
        for name, level in features.items():
            command += ["--feature", f"{name}={level}"]
        told = subprocess.run(
            command, env=self._environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
        if told.returncode != 0:
            raise SetupError(
                f"Kafka could not format the storage of broker {self.node.id}:\n{told.stdout}{told.stderr}",
                cause="a broker setting or a feature level that Kafka does not take",
                action="correct the settings and features given to the dev cluster",
            )

    def start(self, *, lock: int, detached: bool) -> None:
        """Start the process; ``lock`` is a file descriptor that it holds open for as long as it lives."""
        command = [*self._java(*_HEAP), "kafka.Kafka", str(self.node.properties)]
        if not detached:
            command = [sys.executable, "-I", "-S", str(Path(watch.__file__)), str(os.getpid()), *command]
        with self.node.console.open("a") as console:
            self._child = subprocess.Popen(
                command,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=console if detached else subprocess.PIPE,
                stderr=console,
                text=True,
                pass_fds=[lock],
                start_new_session=True,  # Ctrl-C in the terminal is for our process, which then stops the broker
            )
        pid = self._child.pid
        if self._child.stdout is not None:
            pid = int(self._child.stdout.readline())
        self.node.pid.write_text(f"{pid}\n")
        log.debug("broker %d started, pid %d", self.node.id, pid)

    def running_pid(self) -> int | None:
        """The process id, or None if this broker does not run."""
        if self._child is not None and self._child.poll() is not None:
            if self._child.stdout is not None:
                self._child.stdout.close()
            self._child = None
        try:
            pid = int(self.node.pid.read_text())
        except (FileNotFoundError, ValueError):
            return None
        return pid if str(self.node.properties) in command_line(pid) else None

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal; False if the broker does not run."""
        pid = self.running_pid()
        if pid is None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def pause(self) -> None:
        """Stop its execution (SIGSTOP), and wait until it stands still: one thread after another hears the signal.

        Raises:
            SetupError: It does not run, or does not stand still.
        """
        pid = self.running_pid()
        if pid is None or not self.signal(signal.SIGSTOP):
            raise SetupError(f"broker {self.node.id} does not run, so it cannot be paused", action="restart it first")
        if not _until(lambda: stands_still(pid), time.monotonic() + _STILL_S):
            raise SetupError(f"broker {self.node.id} (process {pid}) goes on in spite of SIGSTOP", action="kill it")

    def terminate(self) -> None:
        """Ask it to stop; a paused one is woken first, or it would not hear."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self.wait_gone(time.monotonic() + 30)

    def wait_gone(self, deadline: float) -> bool:
        """Wait until the process has ended; False if it still runs at ``deadline`` (of the monotonic clock)."""
        child = self._child
        gone = _until(lambda: self.running_pid() is None and (child is None or child.poll() is not None), deadline)
        if gone:
            self.node.pid.unlink(missing_ok=True)
        return gone

    def wait_ready(self, deadline: float, brokers: Collection[int]) -> None:
        """Wait until it answers clients and knows ``brokers`` (ids) as alive.

        Raises:
            SetupError: It ended, or did not get there by ``deadline``; the message holds the log's tail.
        """
        admin = AdminClient(
            {
                "bootstrap.servers": f"{HOST}:{self.node.ports[PLAINTEXT]}",
                "logger": logging.getLogger(f"{__name__}.wait"),  # librdkafka would write to stderr
                "log_level": 0,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 50,
            }
        )

        def ended_or_answers() -> bool:
            if self._has_ended():
                return True
            try:
                return set(brokers) <= set(admin.list_topics(timeout=0.5).brokers)
            except KafkaException:
                return False

        if not _until(ended_or_answers, deadline):
            raise self._failed("did not answer in time")
        if self._has_ended():
            raise self._failed("ended right after its start")

    def _has_ended(self) -> bool:
        """Whether the process that ``start`` made has ended.

        By its exit and not by ``running_pid``: on a busy machine a command line can be read, empty, before the kernel
        has put it in place, and the broker would be taken for dead in its first moment.
        """
        return self._child is None or self._child.poll() is not None

    def _failed(self, how: str) -> SetupError:
        return SetupError(
            f"broker {self.node.id} {how}. Its log ends with\n{self._log_tail()}",
            cause=f"a broker setting that Kafka does not take, or too little memory; the log is {self.node.log}",
            action="correct the settings given to the dev cluster, or free memory",
            broker=self.node.id,
            log=str(self.node.log),
        )

    def _log_tail(self) -> str:
        tail: list[str] = []
        for path, lines in ((self.node.log, 12), (self.node.console, 5)):
            if path.exists():
                said = path.read_text("utf-8", errors="replace").splitlines()
                # stack frames would push the reason out
                tail += [line for line in said if not line.startswith("\tat ")][-lines:]
        return "\n".join(f"    {line[:300]}" for line in tail)

    def _java(self, *options: str) -> list[str]:
        own_tmp = self.node.directory / "tmp"  # native libraries are unpacked there; a kill leaves them behind
        own_tmp.mkdir(exist_ok=True)
        return [
            java_executable(),
            *options,
            "-Djava.awt.headless=true",
            f"-Djava.io.tmpdir={own_tmp}",
            f"-Dlog4j2.configurationFile={self.node.log4j.as_uri()}",
            f"-Dlog4j.configuration={self.node.log4j1.as_uri()}",
        ]

    def _environment(self) -> dict[str, str]:
        """The class path goes by environment: the command line stays readable in ``ps``."""
        return {**os.environ, "CLASSPATH": os.pathsep.join(map(str, broker_jars(version=self._version)))}


def _until(condition: Callable[[], bool], deadline: float) -> bool:
    """Look again and again until ``condition`` holds; False if it does not by ``deadline``."""
    return any(condition() for _ in turns(deadline - time.monotonic(), _POLL))
