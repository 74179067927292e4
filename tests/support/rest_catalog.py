"""A small REST catalog of Iceberg, over an SQL catalog: what it is asked over HTTP, and answers that get lost.

Must not know: what is tested.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
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

from tests.support.lakes import IcebergWorld

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
        self._settings = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        self.reopen()
        self.lose = list[int]()  # codes that the next commits are answered with, though they are made; 0 hangs up
        self.refuse = list[int]()  # likewise, and they are not made
        self.late = list[int]()  # likewise, and they are made when the next request comes
        self._later = list[Callable[[], object]]()
        self.silent = False  # the next commit is made, and nothing is answered as long as the server lives
        self._ends = threading.Event()
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(handler) -> None:  # noqa: N805
                handler.answer()

            do_POST = do_HEAD = do_DELETE = do_GET  # noqa: N815

            def log_message(handler, *of: Any) -> None:  # noqa: N805
                """Say nothing."""

            def answer(handler) -> None:  # noqa: N805
                body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
                try:
                    with lock:
                        code, told = 200, self._answer(handler.command, handler.path.partition("?")[0], body)
                except tuple(_CODES) as error:
                    code, told = _CODES[type(error)], _error(_CODES[type(error)], type(error).__name__)
                except _SilentError:
                    self._ends.wait()
                    handler.close_connection = True
                    return
                except _LostError as error:
                    if not error.args[0]:
                        handler.close_connection = True
                        return
                    code, told = error.args[0], _error(error.args[0], "it was lost")
                text = json.dumps(told).encode()
                handler.send_response(code)
                handler.send_header("Content-Type", "application/json")
                handler.send_header("Content-Length", str(len(text)))
                handler.end_headers()
                if handler.command != "HEAD":
                    handler.wfile.write(text)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *of_error: object) -> None:
        self._ends.set()
        self._server.shutdown()
        self._server.server_close()

    def reopen(self) -> None:
        """Look at the catalog's file anew: it may be another one."""
        self.behind = load_catalog("behind", **self._settings)

    def _answer(self, method: str, path: str, body: bytes) -> Any:
        while self._later:
            with suppress(CommitFailedException):  # somebody was faster
                self._later.pop(0)()
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
                return self._commit(f"{space}.{name}", body)
        return self._owners(method, parts, body)

    def _commit(self, name: str, body: bytes) -> Any:
        if self.refuse:
            raise _LostError(self.refuse.pop(0))
        asked = CommitTableRequest.model_validate_json(body)
        table = self.behind.load_table(name)
        if self.late:
            self._later.append(partial(self.behind.commit_table, table, asked.requirements, asked.updates))
            raise _LostError(self.late.pop(0))
        made = self.behind.commit_table(table, asked.requirements, asked.updates)
        if self.silent:
            self.silent = False
            raise _SilentError
        if self.lose:
            raise _LostError(self.lose.pop(0))
        return json.loads(made.model_dump_json(by_alias=True))

    def _owners(self, method: str, parts: list[str], body: bytes) -> Any:
        """What the job does not ask for, and the table's owner does."""
        match method, parts:
            case "GET" | "HEAD", ["namespaces", space] if self.behind.namespace_exists(space):
                return {"namespace": [space]}
            case "HEAD", ["namespaces", space, "tables", name] if self.behind.table_exists(f"{space}.{name}"):
                return {}
            case "POST", ["tables", "rename"]:
                asked = json.loads(body)
                names = [".".join([*asked[of]["namespace"], asked[of]["name"]]) for of in ("source", "destination")]
                self.behind.rename_table(*names)
                return {}
            case "DELETE", ["namespaces", space, "tables", name]:
                self.behind.drop_table(f"{space}.{name}")
                return {}
        raise NoSuchTableError("/".join(parts))


class _SilentError(Exception):
    """Nothing is answered."""


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
