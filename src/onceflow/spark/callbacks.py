"""Who may call PySpark's callback server: what Java asks Python through it, and nobody but this user's processes.

Must not know: what is called. The server listens on a port of 127.0.0.1 and asks for no token (Java's side never sends
one), so each user of the machine could call any attribute of the objects behind it. Linux says whose a connection is.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

_TABLES = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
_ESTABLISHED = "01"
_GUARDED = "_onceflow_guarded"


def guard(server: Any) -> None:
    """Let a callback server take connections of this user's processes alone, and calls of public methods alone.

    Where there is no ``/proc/self/net/tcp`` (it is Linux's) nothing is known of a connection, and all are taken.

    Args:
        server: ``py4j.java_gateway.CallbackServer``, which may run already.
    """
    if getattr(server, _GUARDED, False) or not _TABLES[0].exists():
        return
    setattr(server, _GUARDED, True)
    refused: list[bool] = []
    made = server._create_connection  # noqa: SLF001 - py4j asks a subclass for it, and PySpark makes the server

    def create(to: socket.socket, stream: Any) -> Any:
        if not _is_own(to):
            if not refused:  # once: it must not fill a log
                refused.append(True)
                log.warning("a connection to Spark's callback port is refused: it comes from another user's process")
            return _Refused(to, stream)
        connection = made(to, stream)
        _limit(connection)
        return connection

    server._create_connection = create  # noqa: SLF001 - likewise
    with server.lock:
        there = list(server.connections)
    for connection in there:  # taken before this
        if connection.socket is not None and not _is_own(connection.socket):
            connection.close()
        else:
            _limit(connection)


class _Refused:
    """In the place of a connection that is not taken: py4j starts it and may close it."""

    def __init__(self, to: socket.socket, stream: Any) -> None:
        self.socket = to
        self._stream = stream

    def start(self) -> None:
        """Hang up."""
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._stream.close()
        self.socket.close()


class _From:
    """A stream of which one line was read already."""

    def __init__(self, line: bytes, stream: Any) -> None:
        self._line: bytes | None = line
        self._stream = stream

    def readline(self) -> bytes:
        """The line that was read, then those behind it."""
        line, self._line = self._line, None
        return self._stream.readline() if line is None else line


def _limit(connection: Any) -> None:
    """Java's interfaces have methods with public names; a call of another one is answered as one of no method."""
    call = connection._call_proxy  # noqa: SLF001 - py4j has no other place for it

    def limited(object_id: str, stream: Any) -> Any:
        name = stream.readline()
        return call(object_id, _From(b"no method\n" if name.startswith(b"_") else name, stream))

    connection._call_proxy = limited  # noqa: SLF001 - likewise


def _is_own(to: socket.socket) -> bool:
    """Whether the other end of a connection is held by a process of this user, now.

    An end that nobody holds any more has no inode, and Linux gives it the user id 0.
    """
    try:
        there, here = _as_listed(to.family, *to.getpeername()[:2]), _as_listed(to.family, *to.getsockname()[:2])
    except OSError:  # it has hung up
        return False
    return any(uid == os.getuid() for uid in _owners(there, here))


def _as_listed(family: int, host: str, port: int) -> str:
    """An address as Linux lists it, each word of four bytes in the machine's order; one of IPv4 ends as in IPv6."""
    raw = socket.inet_pton(family, host)
    words = (int.from_bytes(raw[at : at + 4], sys.byteorder) for at in range(0, len(raw), 4))
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


def _owners(local: str, remote: str) -> Iterator[int]:
    """The user ids of those who hold an established connection of this machine, from one address to the other."""
    for table in _TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, here, there, state, _, _, _, uid, _, inode, *_ = line.split()
            if here.endswith(local) and there.endswith(remote) and state == _ESTABLISHED and inode != "0":
                yield int(uid)
