"""The address at which a job tells its health and its figures: ``/livez``, ``/ready``, ``/metrics``; ``/`` says so.

Must not know: what they mean. It only reads, for whoever can reach the address.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import socketserver
import sys
import threading
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

from onceflow.metrics.exposition import Samples, require_library, written
from onceflow.options.job_options import MetricsAddress

log = logging.getLogger(__name__)

_AGAIN_AFTER_S = 5.0
_ENDS_WITHIN_S = 5.0
_AT_ONCE = 32
"""Connections; each takes a thread and a descriptor of the driver's, which the job needs."""
_JSON = "application/json; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_PATHS = b"""a job of onceflow tells here

/livez    200 while its process answers
/ready    200 while epochs succeed, or there is nothing to read; else 503, and why
/metrics  its figures, for Prometheus

docs/metrics.md of onceflow says what each of them means; packaging/ has a board for Grafana, and alerts.
"""
Answer = tuple[HTTPStatus, bytes, str]


class Endpoint:
    """Answers from its entry to its exit. Where the port is taken the job runs without, and it is tried again.

    A start that takes over from a driver on the same machine finds its port taken until that one has ended.

    Args:
        address: Where.
        samples: Gives the series.
        not_ready: Gives the reasons why the job is not ready.

    Raises:
        SetupError: At its entry: the library that writes figures is missing.
    """

    def __init__(self, address: MetricsAddress, samples: Samples, not_ready: Callable[[], list[str]]) -> None:
        self._address = address
        self._samples = samples
        self._not_ready = not_ready
        self._closed = threading.Event()
        self._server: _Server | None = None
        self._thread = threading.Thread(target=self._run, name="onceflow-metrics", daemon=True)

    def __enter__(self) -> Self:
        require_library()
        self._try()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join(_ENDS_WITHIN_S)

    @property
    def port(self) -> int | None:
        """The port on which it answers, or None."""
        return None if self._server is None else int(self._server.server_address[1])

    def answer(self, path: str) -> Answer:
        """What is answered to one who asks for a path."""
        match path.partition("?")[0]:
            case "/livez":
                return HTTPStatus.OK, b'{"alive": true}\n', _JSON
            case "/ready":
                reasons = self._not_ready()
                status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
                return status, json.dumps({"ready": not reasons, "reasons": reasons}).encode() + b"\n", _JSON
            case "/metrics":
                return HTTPStatus.OK, *written(self._samples)
            case found:
                return HTTPStatus.OK if found == "/" else HTTPStatus.NOT_FOUND, _PATHS, _TEXT

    def _run(self) -> None:
        while self._server is None:
            if self._closed.wait(_AGAIN_AFTER_S):
                return
            self._try(again=True)
        with self._server:
            while not self._closed.is_set():
                self._server.handle_request()

    def _try(self, *, again: bool = False) -> None:
        host, port = self._address.host, self._address.port
        try:
            self._server = _Server((host, port or 0), self.answer)
        except OSError as error:
            if not again:
                log.warning(
                    "no metrics at %s:%s: %s; the job runs without, and it is tried again every %.0f s",
                    host,
                    port,
                    error.strerror or error,
                    _AGAIN_AFTER_S,
                )
        else:
            log.info("metrics at http://%s:%s/metrics, health at /livez and /ready", host, self.port)


class _Server(socketserver.ThreadingTCPServer):
    """Unlike ``HTTPServer`` it asks no name service who it is."""

    allow_reuse_address = True
    daemon_threads = True
    timeout = 0.2  # for so long it waits for a request before it looks whether it is to end

    def __init__(self, address: tuple[str, int], answer: Callable[[str], Answer]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.answer = answer
        self._open: deque[Any] = deque()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take one more; where too many are open the oldest is hung up, so that who asks now is answered."""
        self._open.append(request)
        if len(self._open) > _AT_ONCE:
            with contextlib.suppress(OSError):
                self._open.popleft().shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """One is over."""
        with contextlib.suppress(ValueError):  # it was hung up
            self._open.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the library's signature
        """One line at DEBUG: whoever hangs up could else fill the job's log."""
        log.debug("a request at the metrics' port was not answered: %r", sys.exception())


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: _Server
    server_version = "onceflow"
    sys_version = ""
    timeout = 5

    def do_GET(self) -> None:
        """Answer."""
        status, body, kind = self.server.answer(self.path)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Nothing: a scrape every few seconds is no news."""
