"""A schema registry on this machine, for development and tests: Apicurio, which speaks Confluent's API.

It keeps its schemas in memory: they are gone when it ends. Must not know: brokers, jobs, what schemas are for.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from onceflow.errors import SetupError
from onceflow.local.devcluster import watch
from onceflow.local.devcluster.cluster import free_port
from onceflow.local.devcluster.config import HOST
from onceflow.local.jars import java_executable, registry_home
from onceflow.processes import command_line
from onceflow.waiting import turns

_HEAP = "-Xmx400m"
_ANSWERS_WITHIN_S = 120.0
_API = "apis/ccompat/v7"


class DevRegistry:
    """One, as a context, or until ``stop``.

    Args:
        directory: Where its log and its process's id lie.
        port: Where it listens; None takes a free one.
        detached: It outlives this process.
    """

    def __init__(self, directory: Path, port: int | None = None, *, detached: bool = False) -> None:
        self._directory = directory
        self._detached = detached
        self.port = port or free_port(set())
        self._child: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """For ``SchemaRegistry``."""
        return f"http://{HOST}:{self.port}/{_API}"

    def start(self) -> Self:
        """Start it, and wait until it answers.

        Raises:
            SetupError: It cannot be had, ended, or did not answer in time; the message holds its log's end.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        (runner,) = registry_home().glob("*-runner.jar")
        command = [
            *(java_executable(), _HEAP, f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={self.port}"),
            *("-jar", str(runner)),
        ]
        if not self._detached:
            command = [sys.executable, "-I", "-S", str(Path(watch.__file__)), str(os.getpid()), *command]
        with self._log.open("a") as console:
            self._child = subprocess.Popen(
                command,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=console if self._detached else subprocess.PIPE,
                stderr=console,
                text=True,
                start_new_session=True,
            )
        pid = self._child.pid
        if self._child.stdout is not None:
            pid = int(self._child.stdout.readline())
        self._pid.write_text(f"{pid} {self.port}\n")
        if not any(self._child.poll() is not None or self._answers() for _ in turns(_ANSWERS_WITHIN_S, 0.1)):
            self.stop()
            raise self._failed("did not answer in time")
        if self._child.poll() is not None:
            raise self._failed("ended right after its start")
        return self

    def stop(self) -> None:
        """End it, and wait until it is gone; good too if it does not run."""
        stop_detached(self._directory)
        if self._child is not None:
            self._child.wait(30)
            if self._child.stdout is not None:
                self._child.stdout.close()
            self._child = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _log(self) -> Path:
        return self._directory / "registry.log"

    @property
    def _pid(self) -> Path:
        return self._directory / "registry.pid"

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=2) as answer:  # noqa: S310 - our own address
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def _failed(self, how: str) -> SetupError:
        tail = "\n".join(f"    {line[:300]}" for line in self._log.read_text("utf-8", "replace").splitlines()[-12:])
        return SetupError(
            f"the schema registry {how}. Its log ends with\n{tail}",
            cause=f"port {self.port} is taken, or there is too little memory; the log is {self._log}",
            action="free the port or memory, or choose another port",
        )


def running(directory: Path) -> str | None:
    """The address of the registry of a folder; None where none runs."""
    found = _process(directory)
    return None if found is None else f"http://{HOST}:{found[1]}/{_API}"


def stop_detached(directory: Path) -> bool:
    """End the registry of a folder; whether there was one."""
    found = _process(directory)
    if found is None:
        return False
    os.kill(found[0], signal.SIGKILL)  # it keeps nothing
    deadline = time.monotonic() + 30
    any(_process(directory) is None for _ in turns(deadline - time.monotonic(), 0.05))
    (directory / "registry.pid").unlink(missing_ok=True)
    return True


def _process(directory: Path) -> tuple[int, int] | None:
    try:
        pid, port = map(int, (directory / "registry.pid").read_text().split())
    except (OSError, ValueError):
        return None
    return (pid, port) if f"-Dquarkus.http.port={port}" in command_line(pid) else None
