"""Targets: what is said to a running job, and by what says it is one: sockets, the registry, the metrics' port."""

from __future__ import annotations

import contextlib
import io
import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Self
from unittest import mock

from onceflow.control import client, server
from onceflow.control.standing import JobStatus
from onceflow.errors import ConfigurationError
from onceflow.metrics import endpoint
from onceflow.options.job_options import MetricsAddress
from tests.fuzz.target import Target


def _control(data: bytes, _: Path) -> None:
    """Whoever reaches a job's socket: it answers one line of JSON, and takes no order but two."""
    standing = JobStatus("fraud", "file:/c")
    made = object.__new__(server.Server)
    made._standing, made._path, made._socket = standing, "", None
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        made._talk(ours)
        said = _heard(theirs)
    for line in said.splitlines():
        json.loads(line)
    asked = data.partition(b"\n")[0].strip()
    assert (standing.ordered is None) or asked.decode() == standing.ordered, standing.ordered


def _heard(line: socket.socket) -> bytes:
    said = b""
    with contextlib.suppress(ConnectionResetError):  # not all was read of what it was told
        while more := line.recv(65_536):
            said += more
    return said


class _Said:
    """A socket that somebody else has put into the registry's folder."""

    AF_UNIX, SOCK_STREAM = socket.AF_UNIX, socket.SOCK_STREAM

    def __init__(self, said: bytes) -> None:
        self._said = said

    def socket(self, *_: object) -> _Said:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """It goes."""

    def __getattr__(self, _: str) -> object:
        return lambda *_: None

    def makefile(self, _: str) -> io.BytesIO:
        return io.BytesIO(self._said)


def _registry(data: bytes, folder: Path) -> None:
    """What answers where jobs are looked for: two of them, with one answer each."""
    answers = iter(data.split(b"\n%%\n")[:2] * 8)
    with (
        mock.patch.object(client, "sockets", return_value=[folder / "1-0.sock", folder / "2-0.sock"]),
        mock.patch.object(client, "folder", return_value=folder),
        mock.patch.object(client.socket, "socket", side_effect=lambda *_: _Said(next(answers))),
    ):
        for job in client.running():
            assert isinstance(job.name, str), job
            assert isinstance(job.pid, int), job
        client.find("fraud")


def _registry_seeds() -> list[bytes]:
    told = json.dumps(JobStatus("fraud", "file:/c").to_json() | {"pid": 12, "started_at": "2026"}).encode()
    return [told, told + b"\n%%\n" + told.replace(b"12", b"13").replace(b"fraud", b"other"), b'{"error": "x"}']


def _http(data: bytes, _: Path) -> None:
    """Whoever reaches the metrics' port."""
    answering = endpoint.Endpoint(MetricsAddress(), lambda: (), lambda: ["it has not begun"])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        endpoint._Handler(ours, ("", 0), SimpleNamespace(answer=answering.answer))  # type: ignore[arg-type]
        ours.shutdown(socket.SHUT_WR)
        said = _heard(theirs)
    assert said.count(b"HTTP/1.0 200") <= 1, "more than one answer"


TARGETS = (
    Target("control", _control, (), lambda: [b"standing\n", b"stop\n", b"cancel\n", b"hold\nrelease\n"]),
    Target("registry", _registry, (ConfigurationError,), _registry_seeds),
    Target(
        "http",
        _http,
        (),
        lambda: [
            b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /ready HTTP/1.0\r\n\r\n",
            b"GET /metrics?a=b HTTP/1.1\r\nExpect: 100-continue\r\nConnection: keep-alive\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
            b"GET //../../etc/passwd\r\n",
        ],
    ),
)
