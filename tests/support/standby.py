"""A PostgreSQL with standbys that follow it, of which one takes its address when it dies.

Must not know: what is tested. Tests of a database start no Spark and no broker.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
from collections.abc import Iterator

from tests.support.harness import wait_until
from tests.support.postgres import HOST, Postgres, free_port


class Standby(Postgres):
    """It follows its primary from a copy of it (``pg_basebackup -R``), on a port of its own.

    Args:
        primary: It runs, and stays at its address.
        name: Of the folder.
    """

    def __init__(self, primary: Primary, name: str) -> None:
        self._folder, self._user, self._settings = primary._folder, primary._user, primary._settings
        self._server = None
        self.port = free_port()
        self._data = self._folder / name
        source = ["-h", HOST, "-p", str(primary.port), "-U", "postgres"]
        self._run("pg_basebackup", *source, "-D", str(self._data), "-R", "-X", "stream", "-c", "fast", "--no-sync")
        self.start()
        wait_until(lambda: self.has(primary.reached()), what="a standby that has everything")

    def has(self, position: str) -> bool:
        """Whether it shows what was written up to there."""
        return self.execute("select pg_last_wal_replay_lsn() >= %(at)s::pg_lsn", at=position) == [(True,)]

    def detach(self) -> None:
        """From here on it gets nothing more."""
        assert self._server is not None
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait()


class Primary(Postgres):
    """The one at the address: the first server, until a standby is promoted."""

    def __init__(self) -> None:
        super().__init__()
        self._generation = 0

    def reached(self) -> str:
        """How far it has written."""
        return str(self.execute("select pg_current_wal_lsn()")[0][0])

    def standby(self, name: str) -> Standby:
        """A standby that has everything, and follows."""
        return Standby(self, name)

    def fail_over(self, to: Standby) -> None:
        """The server dies, and a copy of a standby takes its address; so the same one may do so again.

        Args:
            to: Attached or not; it is detached.
        """
        self.kill()
        if to._server is not None and to._server.poll() is None:
            to.detach()
        self._generation += 1
        old, self._data = self._data, self._folder / f"data-{self._generation}"
        subprocess.run(["cp", "-a", to._data, self._data], check=True)
        with (self._data / "postgresql.auto.conf").open("a") as settings:
            settings.write("primary_conninfo = ''\n")  # else it would follow itself
        shutil.rmtree(old, ignore_errors=True)
        self.start()
        self.execute("select pg_promote()")

    def is_followed(self) -> bool:
        """Whether a synchronous standby is there, for which each commit waits."""
        return self.execute("select count(*) from pg_stat_replication where sync_state = 'sync'") == [(1,)]


@contextlib.contextmanager
def replicated() -> Iterator[Primary]:
    """A server that has a standby when it is asked to."""
    server = Primary()
    try:
        server.start()
        yield server
    finally:
        server.stop()
