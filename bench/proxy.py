"""A TCP proxy that knows Kafka's frames, and can hold one kind of request back.

Must not know: who talks through it. A request is a length of 4 bytes and then, first of all, its API key (2 bytes) and
version (2 bytes); so it can be told without knowing anything else of the protocol. Used to kill a client between its
checkpoint and its commit, a window too small to be hit by chance.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Self

END_TXN = 26
_FIRST_FLEXIBLE_END_TXN = 3


class Proxy:
    """Passes bytes between clients and one broker; while armed, commits (``EndTxn``) stay here and never arrive.

    Args:
        port: Where it listens, on 127.0.0.1.
        broker: The broker's port.
    """

    def __init__(self, port: int, broker: int) -> None:
        self.held = 0
        self.one_is_held = threading.Event()
        self._armed = threading.Event()
        self._broker = broker
        self._listener = socket.create_server(("127.0.0.1", port))
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for one in list(self._open):
            self._close(one)

    def hold_commits(self) -> None:
        """From now on no commit passes. A connection on which one was held is silent from there on."""
        self._armed.set()

    def pass_all(self) -> None:
        """Let everything pass again. What was held is gone: its sender is dead."""
        self._armed.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                broker = socket.create_connection(("127.0.0.1", self._broker))
            except OSError:
                return
            for one in (client, broker):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open |= {client, broker}
            threading.Thread(target=self._requests, args=(client, broker), daemon=True).start()
            threading.Thread(target=self._answers, args=(broker, client), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while (head := _exactly(client, 4)) is not None:
                frame = _exactly(client, struct.unpack(">i", head)[0])
                if frame is None:
                    break
                if self._armed.is_set() and is_commit(frame):
                    self.held += 1
                    self.one_is_held.set()
                    continue
                broker.sendall(head + frame)
        self._close(client)
        self._close(broker)

    def _answers(self, broker: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := broker.recv(65_536):
                client.sendall(data)
        self._close(client)
        self._close(broker)

    def _close(self, one: socket.socket) -> None:
        self._open.discard(one)
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


def is_commit(frame: bytes) -> bool:
    """Whether a request (without its length) is an EndTxn that commits."""
    key, version = struct.unpack(">hh", frame[:4])
    # The last field says commit or abort; from version 3 on an empty list of tags (one zero) comes behind it.
    return key == END_TXN and bool(frame[-2 if version >= _FIRST_FLEXIBLE_END_TXN else -1])


def _exactly(source: socket.socket, count: int) -> bytes | None:
    """So many bytes, or None at the connection's end."""
    parts = bytearray()
    while len(parts) < count:
        data = source.recv(count - len(parts))
        if not data:
            return None
        parts += data
    return bytes(parts)
