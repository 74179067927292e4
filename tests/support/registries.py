"""A real schema registry behind a door of one's own: with logins, TLS, or lies, as companies put one there.

Must not know: what asks it.
"""

import base64
import contextlib
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.logins import Pair, pem

Allowed = Callable[[str], bool]
"""Whether a request with this ``Authorization`` is let through."""


def basic(name: str, password: str) -> Allowed:
    """By a name and a password."""
    wanted = "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()
    return lambda given: given == wanted


@contextlib.contextmanager
def door(registry: str, allowed: Allowed, tls: tuple[Pair, Path] | None = None) -> Iterator[str]:
    """The address of a server that asks the registry what it is asked, where the login is right.

    Args:
        registry: The registry's address.
        allowed: Looks at the login.
        tls: A certificate and a folder for its files.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._handed_on(None)

        def do_POST(self) -> None:
            self._handed_on(self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def _handed_on(self, body: bytes | None) -> None:
            if not allowed(self.headers.get("Authorization", "")):
                self._answer(401, b'{"error_code":401,"message":"who are you?"}')
                return
            kind = {"Content-Type": self.headers["Content-Type"]} if body else {}
            request = urllib.request.Request(registry + self.path, body, kind)  # noqa: S310 - our own address
            try:
                with urllib.request.urlopen(request) as answer:  # noqa: S310
                    self._answer(answer.status, answer.read())
            except urllib.error.HTTPError as error:
                self._answer(error.code, error.read())

        def _answer(self, code: int, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with _serving(Handler, tls) as url:
        yield url


@contextlib.contextmanager
def liar(code: int, body: bytes, after_s: float = 0.0) -> Iterator[str]:
    """The address of a server that gives the same answer to all."""
    closing = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            closing.wait(after_s)
            self.send_response(code)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the library's name

        def log_message(self, *_: object) -> None:
            pass

    with _serving(Handler, None) as url:
        try:
            yield url
        finally:
            closing.set()


@contextlib.contextmanager
def _serving(handler: type[BaseHTTPRequestHandler], tls: tuple[Pair, Path] | None) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if tls is not None:
        (own, key), folder = tls
        whole = folder / "door.pem"
        whole.write_text(pem(own) + pem(key))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(whole)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
