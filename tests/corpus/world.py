"""The place where a corpus lives, with a broker and a PostgreSQL on its data: to make it, and to go on with it.

Must not know: what is proven. Checkpoints, tables and catalogs name their place, so it is the same wherever this runs.
"""

from __future__ import annotations

import fcntl
import lzma
import shutil
import sqlite3
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.local.devcluster import DevCluster
from tests.support.harness import Pipeline
from tests.support.postgres import _BIN as BIN
from tests.support.postgres import HOST, Postgres, running

ROOT = Path("/tmp/onceflow-corpus")  # noqa: S108 - what is kept names it
KEPT = Path(__file__).parent / "kept"
PER_EPOCH = 20
RECORDS = 60
POINTS = ("S1", "D1", "D2", "D3", "D4", "D5", "D6", "D6a", "D7", "D8")
STATES = ("count", "tally")
STATE_POINTS = ("D5", "D7")
# Neither time nor the broker's tidiness may take what a test of another year needs.
LASTING = {
    "log.retention.ms": "-1",
    "offsets.retention.minutes": str(2**31 - 1),
    "transactional.id.expiration.ms": str(2**31 - 1),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(2**31 - 1),
    "offsets.topic.segment.bytes": "1048576",
    "log.segment.bytes": "1048576",
    "num.partitions": "1",
}


class World:
    """The systems that all cases share.

    Args:
        broker: Runs.
        postgres: Runs.
    """

    def __init__(self, broker: DevCluster, postgres: Postgres) -> None:
        self.broker = broker
        self.cluster = KafkaCluster(broker.bootstrap_servers)
        self.postgres = postgres

    def pipeline(self, case: str, job: str) -> Pipeline:
        """The job of a case, in its folder."""
        folder = ROOT / case
        return Pipeline(
            self.cluster,
            f"{case}-in",
            f"{case}-out",
            folder / "checkpoint",
            job=job,
            per_epoch=PER_EPOCH,
            environment={"LAKE": str(folder / "lake"), "POSTGRES": self._database(case)},
        )

    def _database(self, case: str) -> str:
        return self.postgres.url().replace("/postgres?", f"/{case.replace('-', '_').lower()}?")

    def dump(self, case: str) -> bytes:
        """A case's database as statements."""
        return self._client("pg_dump", "--inserts", "-d", self._database(case))

    def restore(self, case: str, statements: bytes) -> None:
        """Make a case's database of them."""
        self.postgres.execute(f'create database "{case.replace("-", "_").lower()}"')
        if statements:
            self._client("psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", self._database(case), given=statements)

    @staticmethod
    def _client(program: str, *args: str, given: bytes | None = None) -> bytes:
        return subprocess.run([BIN / program, *args], input=given, check=True, capture_output=True).stdout

    @staticmethod
    def shown(pipeline: Pipeline) -> dict[str, Counter[int]]:
        """What each sink of the job with all sinks shows: ids, and how often each is there."""
        lake = pipeline.environment["LAKE"]
        catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{lake}/catalog.db")
        found: dict[str, Counter[int]] = {
            "iceberg": Counter(catalog.load_table("bank.payments").scan().to_arrow().column("id").to_pylist()),
            "delta": Counter(DeltaTable(f"{lake}/delta").to_pyarrow_table().column("id").to_pylist()),
        }
        with sqlite3.connect(f"{lake}/tables.db") as tables:
            for name in ("added", "keyed"):
                found[f"sqlite-{name}"] = Counter(row[0] for row in tables.execute(f"select id from {name}"))
        with psycopg.connect(pipeline.environment["POSTGRES"]) as tables_:
            for name in ("added", "keyed"):
                found[f"postgres-{name}"] = Counter(row[0] for row in tables_.execute(f"select id from {name}"))
        return found


@contextmanager
def world(archive: Path | None = None) -> Iterator[World]:
    """Both systems, on what is kept in an archive, or empty. One at a time has the place on a machine."""
    with ROOT.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with _alone(archive) as made:
            yield made


@contextmanager
def _alone(archive: Path | None) -> Iterator[World]:
    shutil.rmtree(ROOT, ignore_errors=True)
    ROOT.mkdir(mode=0o700)
    if archive is not None:
        with tarfile.open(archive) as kept:
            kept.extractall(ROOT, filter="tar")
    try:
        with DevCluster(ROOT / "kafka", settings=LASTING) as broker, running() as postgres:
            yield World(broker, postgres)
    finally:
        shutil.rmtree(ROOT, ignore_errors=True)


def pack(release: str, folder: Path) -> None:
    """Keep all that is in a folder."""
    KEPT.mkdir(exist_ok=True)
    with lzma.open(KEPT / f"{release}.tar.xz", "wb", preset=9) as file, tarfile.open(fileobj=file, mode="w") as kept:
        kept.add(folder, arcname=".", filter=_plain)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without owners, and without what a broker or a job says to people."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return None if entry.name.endswith((".log.1", "server.log", "console.log", "/pid", "kafka/lock")) else entry


__all__ = ["HOST", "KEPT", "POINTS", "RECORDS", "ROOT", "STATES", "STATE_POINTS", "World", "pack", "world"]
