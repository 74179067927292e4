"""A pgbouncer of a test's own before a PostgreSQL, where ``pgbouncer`` is on the path.

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

import psycopg
import pytest

from tests.support.harness import wait_until
from tests.support.postgres import HOST, Postgres, free_port

_POOLER = shutil.which("pgbouncer")


@contextlib.contextmanager
def pooled(server: Postgres, **settings: object) -> Iterator[int]:
    """The port of a pooler before a server, for some tests, which are skipped where there is none.

    Args:
        server: It runs.
        settings: pgbouncer's.
    """
    if _POOLER is None:
        pytest.skip("there is no pgbouncer")
    user = "nobody" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="onceflow-pooler-"))
    port = free_port()
    told = {
        "listen_addr": HOST,
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "ignore_startup_parameters": "extra_float_digits",
        **settings,
    }
    lines = "\n".join(f"{name} = {value}" for name, value in told.items())
    (folder / "pooler.ini").write_text(
        f"[databases]\npostgres = host={HOST} port={server.port} user=postgres\n[pgbouncer]\n{lines}\n"
    )
    if user:
        shutil.chown(folder, user)
    runs = subprocess.Popen(
        [_POOLER, "-q", folder / "pooler.ini"],
        user=user,
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def answers() -> bool:
        try:
            psycopg.connect(server.url(port=port), connect_timeout=5).close()
        except psycopg.OperationalError:
            assert runs.poll() is None, "pgbouncer has ended"
            return False
        return True

    try:
        wait_until(answers, what="pgbouncer")
        yield port
    finally:
        runs.terminate()
        runs.wait()
        shutil.rmtree(folder, ignore_errors=True)
