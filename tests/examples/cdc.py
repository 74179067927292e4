"""The example of Debezium's changes: three tables of a real PostgreSQL, copied into another by a job that is killed.

    python -m tests.examples.cdc --seed 7

The connector and the job are started and killed while sessions change the tables, also while the snapshot is read. In
the end both servers are asked for their rows. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psycopg

from onceflow.local.devcluster import DevCluster
from onceflow.processes import kill_tree
from tests.examples.process import ended
from tests.support.debezium import Connector
from tests.support.harness import wait_until
from tests.support.postgres import Postgres, running

JOB = Path(__file__).parents[2] / "examples" / "cdc_to_postgres.py"
TABLES = {
    "customer": "id bigint primary key, name text, city text",
    "account": "id bigint primary key, customer_id bigint, balance numeric(18,2), opened date",
    "booking": "id bigint primary key, account_id bigint, amount numeric(18,2), booked_at timestamptz, note text",
}
POINTS = ("D1", "D2", "D3", "D4", "D5", "D6", "D6a", "D7", "D8", "")
"""Where the job dies, one start after the other: at a crash point, or a random moment after its first epoch."""

_CUSTOMERS, _ACCOUNTS = 40, 60
_LARGE = 20_000  # characters: PostgreSQL stores such a value apart
_PACE_S = 0.02
_RANDOM_S = 3.0
_WITHIN_S = 180.0
_COMMITTED = " out, "
"""What the log of a job says of an epoch that is done."""


@dataclass(frozen=True)
class Verdict:
    """What is there.

    Attributes:
        changes: That the sessions have made and committed.
        rows: In the source, by table.
        lost: Rows that the copy has not, or has older ones of.
        strange: Rows of the copy that the source has not.
        deaths: Of the job: at which points.
        connectors: How often the connector was killed.
        seed: Of changes and moments.
    """

    changes: int
    rows: dict[str, int]
    lost: int
    strange: int
    deaths: list[str]
    connectors: int
    seed: int
    differences: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether the copy is the source, and all that was to die has died."""
        return not (self.lost or self.strange) and len(self.deaths) == len(POINTS)


class Sessions(threading.Thread):
    """Two sessions that change the tables, each in transactions over several of them, until they are told to stop.

    Args:
        server: Whose tables.
        seed: Of the changes.
    """

    def __init__(self, server: Postgres, seed: int) -> None:
        super().__init__(daemon=True)
        self._url, self._chance = server.url(), random.Random(seed)
        self._over = threading.Event()
        self._booking = 0
        self.changes = 0
        self.failure: Exception | None = None

    def run(self) -> None:
        """Change."""
        try:
            with (
                contextlib.closing(psycopg.connect(self._url)) as one,
                contextlib.closing(psycopg.connect(self._url)) as other,
            ):
                # Each has accounts and customers of its own: they never wait for each other.
                sessions = ((one, 0), (other, 1))
                while not self._over.wait(_PACE_S):
                    session, which = self._chance.choice(sessions)
                    self._change(session, which)
                    if self._chance.random() < 0.4:
                        session.commit()
                one.commit()
                other.commit()
        except Exception as error:  # told by whoever waits
            self.failure = error

    def stop(self) -> None:
        """Commit, and end."""
        self._over.set()
        self.join()
        if self.failure is not None:
            raise self.failure

    def _change(self, session: psycopg.Connection, which: int) -> None:
        chance = self._chance
        customer = chance.randrange(_CUSTOMERS // 2) * 2 + which
        one, two = (chance.randrange(_ACCOUNTS // 2) * 2 + which for _ in range(2))
        some = "select id from booking where account_id = %s limit 5"
        what = chance.random()
        if what < 0.5:  # from one account to another, in both tables
            amount, moved = chance.randrange(1, 10_000) / 100, self._booking
            self._booking += 2
            for number, account, sum_ in ((moved, one, -amount), (moved + 1, two, amount)):
                session.execute("update account set balance = balance + %s where id = %s", [sum_, account])
                session.execute(
                    "insert into booking values (%s, %s, %s, clock_timestamp(), %s)",
                    [number * 2 + which, account, sum_, "n" * chance.choice((1, 10, _LARGE))],
                )
        elif what < 0.6:  # the large note stays as it is, and is not sent again unless the table says so
            session.execute(f"update booking set amount = amount + 1 where id in ({some})", [one])
        elif what < 0.7:
            session.execute(f"delete from booking where id in ({some})", [one])
        elif what < 0.8:  # a key that changes: a delete and an insert
            free = chance.randrange(500) * 2 + 1_000 + which
            session.execute("delete from customer where id = %s", [free])
            session.execute("update customer set id = %s where id = %s", [free, customer])
        elif what < 0.9:
            session.execute("delete from customer where id = %s", [customer])
        else:
            session.execute(
                "insert into customer values (%s, %s, %s) "
                "on conflict (id) do update set name = excluded.name, city = excluded.city",
                [customer, f"ann {self.changes}", chance.choice(("Köln", "", None))],
            )
        self.changes += 1


class Run:
    """The job, which is started and killed.

    Args:
        folder: For checkpoint and logs.
        environment: Of the job.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder, self._environment = folder, environment
        self._mark = folder / "mark"
        self.starts = 0

    def until(self, point: str, *options: str, kill_after: float | None = None) -> bool:
        """Start it, and wait until it has died there, or ended well; whether it has died.

        Args:
            point: A crash point, or nothing.
            options: Of ``onceflow run``.
            kill_after: So many seconds behind the start's first epoch it is killed.
        """
        log = self._folder / f"job-{self.starts:02d}.log"
        self.starts += 1
        more = {"ONCEFLOW_CRASH": point, "ONCEFLOW_CRASH_MARK": str(self._mark)} if point else {}

        def meanwhile(pid: int) -> None:
            if kill_after is not None:
                wait_until(lambda: _COMMITTED in log.read_text(errors="replace"), _WITHIN_S, f"an epoch in {log}")
                time.sleep(kill_after)  # a random moment is meant
                kill_tree(pid)

        command = [sys.executable, "-m", "onceflow", "run", str(JOB), *options]
        code = ended(command, log, self._environment | more, _WITHIN_S, meanwhile)
        died = code == -signal.SIGKILL and (kill_after is not None or self._mark.exists())
        self._mark.unlink(missing_ok=True)
        if not died and code != 0:
            raise RuntimeError(f"the job ended with {code}:\n{log.read_text(errors='replace')[-6_000:]}")
        return died


def rows_of(server: Postgres, table: str) -> dict[object, tuple[object, ...]]:
    """By key, as the source's columns are."""
    columns = ", ".join(column.split()[0] for column in TABLES[table].split(", "))
    return {row[0]: row for row in server.execute(f"select {columns} from {table}")}


def run(folder: Path, seed: int) -> Verdict:
    """Copy, kill, and compare."""
    chance = random.Random(seed)
    settings = {"wal_level": "logical", "wal_sender_timeout": "5s"}
    with running(**settings) as source, running() as target, DevCluster(folder / "kafka") as kafka:
        for table, columns in TABLES.items():
            source.execute(f"create table {table} ({columns})", f"alter table {table} replica identity full")
        source.execute(
            f"insert into customer select n, 'ann', 'Ulm' from generate_series(0, {_CUSTOMERS - 1}) n",
            f"insert into account select n, n % {_CUSTOMERS}, 100, '2026-01-01' "
            f"from generate_series(0, {_ACCOUNTS - 1}) n",
        )
        environment = {
            "KAFKA": kafka.bootstrap_servers,
            "DATABASE": target.url(),
            "PREFIX": "bank",
            "PER_EPOCH": "2000",
        }
        job, sessions = Run(folder, environment), Sessions(source, seed)
        tables = [f"public.{table}" for table in TABLES]
        deaths, killed = [], 0
        with Connector(folder, kafka.bootstrap_servers, source, tables, prefix="bank") as connector:
            sessions.start()  # the snapshot is being read
            connector.wait_sent()
            for number, point in enumerate(POINTS):
                died = job.until(point, kill_after=None if point else chance.uniform(0, _RANDOM_S))
                deaths += [point or "a random moment"] if died else []
                print(f"the job {'was killed' if died else 'ENDED'}: {point or 'a random moment'}", flush=True)
                if number % 3 == 1:
                    connector.kill()
                    killed += 1
                    connector.start()
                    print("the connector was killed, and sends again", flush=True)
            sessions.stop()
            connector.wait_sent()
            job.until("", "--until", "caught-up")
        rows, lost, strange, differences = {}, 0, 0, []
        for table in TABLES:
            wanted, found = rows_of(source, table), rows_of(target, table)
            apart = [key for key in wanted if found.get(key) != wanted[key]]
            more = [key for key in found if key not in wanted]
            rows[table], lost, strange = len(wanted), lost + len(apart), strange + len(more)
            differences += [f"{table} {key}: {wanted[key]} is {found.get(key)}"[:300] for key in apart[:3]]
            differences += [f"{table} {key}: {found[key]} is not in the source"[:300] for key in more[:3]]
    return Verdict(sessions.changes, rows, lost, strange, deaths, killed, seed, differences)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.examples.cdc", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="onceflow-cdc-"))
    verdict = run(folder, asked.seed)
    if verdict.good:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print("\n".join([*verdict.differences, f"logs and checkpoint stay in {folder}"]), flush=True)
    print(json.dumps(asdict(verdict) | {"verdict": "PASS" if verdict.good else "FAIL"}), flush=True)
    return 0 if verdict.good else 1


if __name__ == "__main__":
    sys.exit(main())
