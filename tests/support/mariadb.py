"""A MariaDB or a MySQL of a test's own, on a port of its own.

The first where ``mariadbd`` is on the path; the second where ``MYSQLD`` names a program, or ``mysqld`` is one of MySQL.
Must not know: what is tested. Tests of a database start no Spark and no broker.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from onceflow.connectors.database.sink import DatabaseSink
from tests.support.harness import wait_until
from tests.support.postgres import HOST, free_port
from tests.support.sqlite_worlds import Saying, SqliteWorld

_SERVER = shutil.which("mariadbd")
_MYSQL = os.environ.get("MYSQLD") or shutil.which("mysqld")


BINLOG = ("--log-bin=binlog", "--binlog-format=ROW", "--binlog-row-image=FULL", "--server-id=7")
"""What Debezium asks of a server."""


class MariaDb:
    """A server in a folder of its own, on a port of its own. It does not run as root: there it is nobody's.

    Args:
        more: What else it is told.

    Attributes:
        engines: Those beside InnoDB, which keep no transactions.
        exact: The collation by which texts that differ differ.
    """

    scheme = "mariadb"
    engines: tuple[str, ...] = ("MyISAM", "Aria")
    exact = "utf8mb4_nopad_bin"

    def __init__(self, *more: str) -> None:
        self._more = more
        self._folder = Path(tempfile.mkdtemp(prefix="onceflow-mariadb-"))
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self._folder, self._user)
        self.port = free_port()
        self._install()
        self.start()

    def world(self, **more: Any) -> MariaDbWorld:
        """A table of it."""
        return MariaDbWorld(self.port, scheme=self.scheme, **more)

    def saying(self, **more: Any) -> SayingMariaDb:
        """A table of it that is asked what its rows say."""
        return SayingMariaDb(self.port, scheme=self.scheme, **more)

    def _install(self) -> None:
        base = Path(_SERVER or "").resolve().parents[1]
        self._command = [
            str(_SERVER),
            "--no-defaults",
            f"--basedir={base}",
            f"--lc-messages-dir={base}/share/mysql",
            f"--datadir={self._folder}/data",
            f"--tmpdir={self._folder}",
        ]
        subprocess.run(
            [
                base / "bin" / "mariadb-install-db",
                "--no-defaults",
                "--force",
                "--skip-test-db",
                "--auth-root-authentication-method=normal",
                f"--basedir={base}",
                f"--datadir={self._folder}/data",
            ],
            user=self._user,
            cwd="/",
            check=True,
            capture_output=True,
        )

    def start(self) -> None:
        """Start, and wait until it answers."""
        self._server = subprocess.Popen(
            [
                *self._command,
                *self._more,
                f"--port={self.port}",
                f"--bind-address={HOST}",
                f"--socket={self._folder}/socket",
            ],
            user=self._user,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._answers, what="the server")

    def execute(self, *statements: str) -> Any:
        """Statements in one transaction; the rows of the last."""
        with pymysql.connect(host=HOST, port=self.port, user="root", database="bank") as connection:
            cursor = connection.cursor()
            for each in statements:
                cursor.execute(each)
            connection.commit()
            return cursor.fetchall()

    def kill(self) -> None:
        """``kill -9``."""
        self._server.kill()
        self._server.wait()

    def _answers(self) -> bool:
        try:
            with pymysql.connect(host=HOST, port=self.port, user="root") as connection:
                connection.cursor().execute("create database if not exists bank character set utf8mb4")
        except pymysql.err.OperationalError:
            assert self._server.poll() is None, "it has ended"
            return False
        return True

    def stop(self) -> None:
        """End it, and remove what it has written."""
        self._server.terminate()
        self._server.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class MySql(MariaDb):
    """A server of MySQL."""

    scheme = "mysql"
    engines = ("MyISAM",)
    exact = "utf8mb4_0900_bin"

    def _install(self) -> None:
        self._command = [str(_MYSQL), "--no-defaults", f"--datadir={self._folder}/data", f"--tmpdir={self._folder}"]
        subprocess.run(
            [*self._command, "--initialize-insecure"], user=self._user, cwd="/", check=True, capture_output=True
        )
        self._command += ["--mysqlx=OFF", "--secure-file-priv=NULL"]


class MariaDbWorld(SqliteWorld):
    """A table of a real server."""

    def __init__(self, port: int, *, scheme: str = "mariadb", **more: Any) -> None:
        self.port, self.scheme = port, scheme
        self.more = {"table": "payments", "create_table": True} | more

    def sink(self) -> DatabaseSink:
        return DatabaseSink(f"{self.scheme}://root@{HOST}:{self.port}/bank", **self.more)

    def ask(self, query: str, *values: object) -> Any:
        with pymysql.connect(host=HOST, port=self.port, user="root", database="bank") as connection:
            cursor = connection.cursor()
            cursor.execute(query, values)
            connection.commit()
            return cursor.fetchall()

    def visible(self) -> list[str]:
        return [key for (key,) in self.ask("select `key` from payments")]

    def whole(self) -> list[dict[str, object]]:
        names = [str(name) for name, *_ in self.ask("show columns from payments")]
        return [dict(zip(names, row, strict=True)) for row in self.ask("select * from payments")]

    def open_transactions(self, job_id: str) -> int:
        query = "select count(*) from onceflow_attempts where job=%s and state <> 'aborted'"
        return int(self.ask(query, job_id)[0][0])


class SayingMariaDb(Saying, MariaDbWorld):
    """A table of a real server, of which it is asked what its rows say."""

    def pairs(self) -> list[tuple[str, int]]:
        return list(self.ask("select `key`, amount from payments"))


@contextlib.contextmanager
def running_mariadb(*more: str) -> Iterator[MariaDb]:
    """A server for some tests, which are skipped where there is none."""
    if _SERVER is None:
        pytest.skip("there is no mariadbd")
    server = MariaDb(*more)
    try:
        yield server
    finally:
        server.stop()


def is_mysql() -> bool:
    """Whether there is a server of MySQL: some systems call one of MariaDB so."""
    if _MYSQL is None:
        return False
    told = subprocess.run([_MYSQL, "--no-defaults", "--version"], capture_output=True, text=True, check=False).stdout
    return bool(told) and "MariaDB" not in told


@contextlib.contextmanager
def running_mysql() -> Iterator[MySql]:
    """A server of MySQL for some tests, which are skipped where there is none."""
    if not is_mysql():
        pytest.skip("there is no mysqld of MySQL")
    server = MySql()
    try:
        yield server
    finally:
        server.stop()
