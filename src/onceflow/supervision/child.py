"""A supervised job's end of the line to its parent: it tells its failures, and is told what follows.

Lines of JSON, over a socket that the parent leaves open for this process alone. Must not know: Spark, what
the parent does.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from onceflow.checkpoint.failures import FailureLine
from onceflow.supervision.counting import Reported

log = logging.getLogger(__name__)

LINE = "ONCEFLOW_SUPERVISOR"
"""The variable by which the parent says which descriptor the socket is."""


def parent() -> Parent | None:
    """This process's parent, if it supervises; asked once."""
    told = os.environ.pop(LINE, None)  # it is no parent of what this process starts
    if told is None:
        return None
    try:
        line = socket.socket(fileno=int(told))
    except (OSError, ValueError):
        return None
    line.set_inheritable(False)
    return Parent(line)


class Parent:
    """The parent, as its child sees it. When it is gone this process ends, as by SIGTERM.

    Args:
        line: The socket.

    Attributes:
        pid: Its process.
    """

    def __init__(self, line: socket.socket) -> None:
        self.pid = os.getppid()
        self._line = line
        self._keep: Callable[[FailureLine], None] = lambda _: None
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name="onceflow-parent", daemon=True).start()

    def begin(self, job: Mapping[str, Any], keep: Callable[[FailureLine], None]) -> Mapping[str, Any]:
        """Say which job this is; what the parent knows of the starts before.

        Args:
            job: What the parent is to know.
            keep: Keeps a failure that the parent cannot keep by itself.
        """
        self._keep = keep
        return self._ask({"begin": dict(job)})

    def reached(self, epoch: int | None) -> None:
        """As ``Counts.reached``. It waits for nothing: an epoch must not hang on its parent."""
        with contextlib.suppress(OSError):
            self._line.send(json.dumps({"reached": epoch}).encode() + b"\n", socket.MSG_DONTWAIT)

    def failed(self, failure: Reported) -> float | None:
        """As ``Counts.failed``."""
        wait_s = self._ask({"failed": asdict(failure)}).get("wait_s")
        return None if wait_s is None else float(wait_s)

    def _ask(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        with contextlib.suppress(OSError):
            self._line.sendall(json.dumps(message).encode() + b"\n")
            answer = self._answers.get() or {}
            for failure in answer.get("keep", ()):
                self._keep(FailureLine(**failure))
            return answer
        return {}

    def _listen(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in self._line.makefile("rb"):
                self._answers.put(json.loads(line))
        self._answers.put(None)
        log.warning("the process that supervises this one has ended; the job ends, too")
        os.kill(os.getpid(), signal.SIGTERM)
