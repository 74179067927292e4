"""A running job's end of its socket: it says how the job stands, and takes an order to end.

Must not know: what ending means. One line of JSON is asked, one is answered; nothing that is asked runs code.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Self

from onceflow.control.registry import new_socket
from onceflow.control.standing import JobStatus
from onceflow.errors import SetupError

log = logging.getLogger(__name__)

_LONGEST = 4_096
_WITHIN_S = 5.0
HELD_WITHIN_S = 60.0
"""So long an epoch that is in work is waited for."""
HELD_FOR_S = 60.0
"""After so long the next epoch begins, whoever holds it."""


class Server:
    """One job's. Where it cannot listen the job runs without.

    Args:
        standing: How the job stands, and what takes its orders.
    """

    def __init__(self, standing: JobStatus) -> None:
        self._standing = standing
        self._path = ""
        self._socket: socket.socket | None = None
        try:
            self._listen()
        except (SetupError, OSError) as error:
            log.warning("onceflow list will not show this job: %s", getattr(error, "what", error))

    def _listen(self) -> None:
        path = new_socket()
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # Between bind and listen nobody answers: by its own name it would be removed as one of a killed job.
        unheard = path.with_suffix(".new")
        try:
            unheard.unlink(missing_ok=True)
            listening.bind(str(unheard))
            listening.listen()
            unheard.rename(path)
        except OSError:
            listening.close()
            raise
        self._path, self._socket = str(path), listening
        threading.Thread(target=self._serve, args=(listening,), name="onceflow-control", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Listen no more."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                Path(self._path).unlink()
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
            self._socket.close()
            self._socket = None

    def _serve(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            # Each in a thread of its own: one may hold the job for a while.
            talk = threading.Thread(target=self._talk, args=(connection,), name="onceflow-asked", daemon=True)
            talk.start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(_WITHIN_S)
            lines = connection.makefile("rb")
            asked = lines.readline(_LONGEST).decode("utf-8", "replace").strip()
            if asked == "hold":
                self._hold(connection, lines)
            else:
                connection.sendall(json.dumps(self._answer(asked)).encode() + b"\n")

    def _hold(self, connection: socket.socket, lines: BinaryIO) -> None:
        """Hold the next epoch for who is at the other end: until it says so, is gone, or takes too long."""
        gate = self._standing.gate
        if gate is None or not gate.hold(HELD_WITHIN_S):
            connection.sendall(b'{"held": false}\n')
            return
        try:
            connection.sendall(b'{"held": true}\n')
            connection.settimeout(HELD_FOR_S)
            in_time = bool(lines.readline(_LONGEST))  # nothing where the other end is gone
        finally:
            gate.release()
        connection.sendall(json.dumps({"released": in_time}).encode() + b"\n")

    def _answer(self, asked: str) -> Mapping[str, Any]:
        match asked:
            case "stop" | "cancel":
                self._standing.order(asked)
            case "standing":
                pass
            case _:
                return {"error": f"a job does not know {asked!r}"}
        return self._standing.to_json()
