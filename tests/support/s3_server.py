"""``python -m tests.support.s3_server``: moto, which speaks S3, as a server that keeps S3's promise of a create.

Must not know: what is tested.

Moto looks whether an object is there, and writes it then, in as many threads as there are requests: of those at one
moment several may win. Here one request that changes anything is answered after the other.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


class OneAtATime:
    """An application whose changes are one step each."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """As WSGI has it."""
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return self._application(environ, start_response)
        with self._lock:
            return list(self._application(environ, start_response))


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, OneAtATime(DomainDispatcherApplication(create_backend_app)), threaded=True)
    print(server.server_port, flush=True)
    server.serve_forever()
