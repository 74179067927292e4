"""A small REST catalog of Iceberg, over an SQL catalog: what it is asked over HTTP, and answers that get lost."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest

from tests.unit.lakes import IcebergWorld

_CODES = {
    NoSuchTableError: 404,
    CommitFailedException: 409,
    TableAlreadyExistsError: 409,
    NamespaceAlreadyExistsError: 409,
}


class RestCatalog:
    """A server on this machine; a context manager.

    Args:
        folder: Where its tables are.
    """

    def __init__(self, folder: Path) -> None:
        settings = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        self.behind = load_catalog("behind", **settings)
        self.lose = list[int]()  # codes that the next commits are answered with, though they are made
        self.refuse = list[int]()  # likewise, and they are not made
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(handler) -> None:  # noqa: N805
                handler.answer()

            do_POST = do_HEAD = do_GET  # noqa: N815

            def log_message(handler, *of: Any) -> None:  # noqa: N805
                """Say nothing."""

            def answer(handler) -> None:  # noqa: N805
                body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
                try:
                    with lock:
                        code, told = 200, self._answer(handler.command, handler.path.partition("?")[0], body)
                except tuple(_CODES) as error:
                    code, told = _CODES[type(error)], _error(_CODES[type(error)], type(error).__name__)
                except _LostError as error:
                    code, told = error.args[0], _error(error.args[0], "it was lost")
                text = json.dumps(told).encode()
                handler.send_response(code)
                handler.send_header("Content-Type", "application/json")
                handler.send_header("Content-Length", str(len(text)))
                handler.end_headers()
                handler.wfile.write(text)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *of_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, method: str, path: str, body: bytes) -> Any:
        parts = path.strip("/").split("/")[1:]  # without v1
        match method, parts:
            case "GET", ["config"]:
                return {"defaults": {}, "overrides": {}}
            case "POST", ["namespaces"]:
                self.behind.create_namespace(tuple(json.loads(body)["namespace"]))
                return json.loads(body)
            case "POST", ["namespaces", space, "tables"]:
                asked = json.loads(body)
                schema = Schema.model_validate(asked["schema"])
                return _loaded(self.behind.create_table(f"{space}.{asked['name']}", schema))
            case "GET", ["namespaces", space, "tables", name]:
                return _loaded(self.behind.load_table(f"{space}.{name}"))
            case "POST", ["namespaces", space, "tables", name]:
                if self.refuse:
                    raise _LostError(self.refuse.pop(0))
                asked = CommitTableRequest.model_validate_json(body)
                table = self.behind.load_table(f"{space}.{name}")
                made = self.behind.commit_table(table, asked.requirements, asked.updates)
                if self.lose:
                    raise _LostError(self.lose.pop(0))
                return json.loads(made.model_dump_json(by_alias=True))
        raise NoSuchTableError(path)


class _LostError(Exception):
    """The code that is answered instead."""


def _error(code: int, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "Error", "code": code}}


def _loaded(table: Any) -> dict[str, Any]:
    metadata = json.loads(table.metadata.model_dump_json(by_alias=True))
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


class RestWorld(IcebergWorld):
    """A table of a REST catalog."""

    secrets = ("rest-geheim",)

    def __init__(self, folder: Path, address: str) -> None:
        super().__init__(folder)
        self.settings = {"type": "rest", "uri": address, "token": "rest-geheim"}
