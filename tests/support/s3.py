"""A server that speaks S3, of a test's own, and somebody between it and a client who meddles with what is said.

Must not know: what is tested.

``ONCEFLOW_TEST_S3`` names the address of another server, which takes the credentials below; else it is moto.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import os
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import patch

from onceflow.storage import s3
from onceflow.storage.objects import Bucket
from onceflow.storage.store import Store
from tests.support.elsewhere import Elsewhere

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "onceflow-tests",
    "AWS_SECRET_ACCESS_KEY": "onceflow-tests-secret",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class S3:
    """A server.

    Args:
        endpoint: Its address.
    """

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.bucket = f"test-{uuid.uuid4().hex[:12]}"

    @property
    def environment(self) -> dict[str, str]:
        """By which a client finds it."""
        return ENVIRONMENT | {"AWS_ENDPOINT_URL": self.endpoint}

    def make_bucket(self) -> None:
        """Make its bucket."""
        self.client().create_bucket(Bucket=self.bucket)

    def client(self) -> Any:
        """AWS's own client, for what a test sees and does beside the product."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=ENVIRONMENT["AWS_REGION"],
            aws_access_key_id=ENVIRONMENT["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
        )

    def reached(self, *, bucket: str = "") -> Bucket:
        """Its bucket, or another one, by a client of its own."""
        with patch.dict(os.environ, self.environment):
            s3._session.cache_clear()
            return s3._bucket.__wrapped__(bucket or self.bucket)

    def store(self, folder: str = "", **how: str) -> Store:
        """A folder there, by a client of its own; one of its own without a name."""
        bucket = self.reached(**how)
        return Store(f"{bucket.root}/{folder or f'checkpoints/{uuid.uuid4().hex}'}", bucket)


@contextlib.contextmanager
def a_server(folder: Path) -> Iterator[S3]:
    """A server with a bucket."""
    given = os.environ.get("ONCEFLOW_TEST_S3", "")
    if given:
        found = S3(given)
        found.make_bucket()
        yield found
        return
    with (folder / "s3.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.s3_server"],
            stdout=subprocess.PIPE,
            stderr=log,
            env=os.environ | ENVIRONMENT,
            text=True,
        )
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, (folder / "s3.log").read_text()
        found = S3(f"http://127.0.0.1:{port}")
        found.make_bucket()
        yield found
    finally:
        process.kill()
        process.communicate()


class Request:
    """What a client has asked."""

    def __init__(self, of: BaseHTTPRequestHandler, server: str) -> None:
        self.method, self.path = of.command, of.path
        self.headers = dict(of.headers.items())
        self.body = of.rfile.read(int(of.headers.get("Content-Length") or 0))
        self._server = server.removeprefix("http://")

    @property
    def is_create(self) -> bool:
        """Whether an object is to be made, and only where none is."""
        return self.method == "PUT" and "if-none-match" in {name.lower() for name in self.headers}

    def forward(self, method: str = "", *, without: str = "") -> Answer:
        """Ask the server; with another method it is asked for no more than its headers."""
        connection = http.client.HTTPConnection(self._server, timeout=60)
        try:
            connection.putrequest(method or self.method, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in (without, "content-length" if method else ""):
                    connection.putheader(name, value)
            connection.endheaders(None if method else self.body)
            found = connection.getresponse()
            return Answer(found.status, tuple(found.getheaders()), found.read())
        finally:
            connection.close()


Meddle = Callable[[Request], Answer | None]
"""What becomes of a request; without an answer the connection is cut."""


@contextlib.contextmanager
def between(server: S3, meddle: Meddle) -> Iterator[S3]:
    """The same server, with somebody on the way there who does this to what is to be created."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            request = Request(self, server.endpoint)
            answer = meddle(request) if request.is_create else request.forward()
            if answer is None:
                self.close_connection = True
                with contextlib.suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response_only(answer.status)
            for name, value in answer.headers:
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            length = len(answer.body)
            if request.method == "HEAD":
                length = int({name.lower(): value for name, value in answer.headers}.get("content-length", 0))
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _any  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Tests have a log of their own."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as proxy:
        proxy.daemon_threads = True
        threading.Thread(target=functools.partial(proxy.serve_forever, 0.05), daemon=True).start()
        found = S3(f"http://127.0.0.1:{proxy.server_port}")
        found.bucket = server.bucket
        try:
            yield found
        finally:
            proxy.shutdown()


@dataclass
class InS3(Elsewhere):
    """A pipeline whose checkpoint is in S3."""

    s3: S3 = field(kw_only=True)

    @property
    def uri(self) -> str:
        """The checkpoint's."""
        return f"s3a://{self.s3.bucket}/{self.folder}"

    @property
    def store(self) -> Store:
        """The checkpoint's folder, as this process sees it."""
        return self.s3.store(self.folder)

    def settings(self) -> dict[str, str]:
        """What the job's file asks of the environment; the location in its other spelling."""
        return super().settings() | self.s3.environment | {"CHECKPOINT": self.uri.replace("s3a:", "s3:")}
