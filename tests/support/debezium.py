"""Real Debezium: its connector for PostgreSQL in Kafka Connect, which can be killed and goes on.

Must not know: what is tested.
"""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import psycopg

from onceflow.local.devregistry import DevRegistry
from onceflow.local.jars import connect_avro_jars, debezium_jars, java_executable
from tests.support.harness import wait_until
from tests.support.postgres import HOST, PASSWORD, Postgres, free_port

_WORKER = "org.apache.kafka.connect.cli.ConnectStandalone"
_JSON = "org.apache.kafka.connect.json.JsonConverter"


class Connector:
    """One worker with one connector, which keeps its offsets in a file.

    Args:
        folder: For a folder of its own, with that and its log.
        kafka: The broker's addresses.
        server: What it reads. It runs with ``wal_level=logical``.
        tables: With their schemas.
        prefix: Its topics' names begin so; a fresh one by default.
        registry: It writes Avro by this schema registry; else JSON.
        settings: More of the connector.
    """

    def __init__(
        self,
        folder: Path,
        kafka: str,
        server: Postgres,
        tables: Sequence[str],
        prefix: str | None = None,
        registry: DevRegistry | None = None,
        **settings: str,
    ) -> None:
        self._folder = folder / "connect"
        folder = self._folder
        folder.mkdir(parents=True, exist_ok=True)
        self.prefix = prefix or f"cdc-{uuid.uuid4().hex[:8]}"
        self.slot = self.prefix.replace("-", "_")
        self._server = server
        self._process: subprocess.Popen[bytes] | None = None
        self._jars = debezium_jars() if registry is None else [*debezium_jars(), *connect_avro_jars()]
        server.execute("create table if not exists fence (id int primary key, moved int)")
        worker = {
            "bootstrap.servers": kafka,
            "key.converter": _JSON,
            "value.converter": _JSON,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.storage.file.filename": str(folder / "offsets"),
            "offset.flush.interval.ms": "300",
            "listeners": f"http://{HOST}:{free_port()}",
        }
        if registry is not None:
            worker |= {
                "value.converter": "io.apicurio.registry.utils.converter.AvroConverter",
                "value.converter.apicurio.registry.url": f"http://{HOST}:{registry.port}/apis/registry/v2",
                "value.converter.apicurio.registry.auto-register": "true",
                "value.converter.apicurio.registry.as-confluent": "true",
                "value.converter.apicurio.registry.use-id": "contentId",
                "value.converter.apicurio.registry.headers.enabled": "false",
            }
        connector = {
            "name": self.prefix,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": HOST,
            "database.port": str(server.port),
            "database.user": "postgres",
            "database.password": PASSWORD,
            "database.dbname": "postgres",
            "plugin.name": "pgoutput",
            "publication.name": self.slot,
            "publication.autocreate.mode": "filtered",
            "slot.name": self.slot,
            "topic.prefix": self.prefix,
            "table.include.list": ",".join((*tables, "public.fence")),
            "decimal.handling.mode": "string",
            "poll.interval.ms": "50",
            "topic.creation.default.partitions": "2",
            "topic.creation.default.replication.factor": "1",
        }
        connector |= {name.replace("_", "."): value for name, value in settings.items()}
        for name, given in (("worker", worker), ("connector", connector)):
            (folder / f"{name}.properties").write_text("".join(f"{key}={value}\n" for key, value in given.items()))

    def topic(self, table: str) -> str:
        """Where a table's changes are."""
        return f"{self.prefix}.{table}"

    def start(self) -> Self:
        """Start it. Its first start has begun the snapshot when this returns, and what changes from now on it sends.

        Killed before ``wait_sent``, it begins another snapshot, and never tells what was deleted between the two.
        """
        with (self._folder / "log").open("ab") as log:
            java = [java_executable(), "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            files = [str(self._folder / f"{name}.properties") for name in ("worker", "connector")]
            self._process = subprocess.Popen(
                [*java, "-cp", ":".join(map(str, self._jars)), _WORKER, *files],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        # A slot whose position is known is through with transactions that were open before it.
        wait_until(lambda: self._slot("active and confirmed_flush_lsn is not null"), seconds=180, what="Debezium")
        return self

    def _slot(self, holds: str, **values: object) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()[-5_000:]
        slots = "pg_replication_slots left join pg_stat_replication on active_pid = pid"
        query = f"select 1 from {slots} where slot_name = %(slot)s and {holds}"
        with suppress(psycopg.OperationalError):
            return self._server.execute(query, slot=self.slot, **values) != []
        return False

    def wait_sent(self) -> None:
        """Until all that is committed now is in Kafka: changes of a table of its own move what it has confirmed."""
        wait_until(lambda: self._slot("state = 'streaming'"), seconds=180, what="the snapshot's end")
        (position,) = self._server.execute("select pg_current_wal_insert_lsn()")[0]

        def confirmed() -> bool:
            self._server.execute("insert into fence values (1, 0) on conflict (id) do update set moved = 1")
            return self._slot("confirmed_flush_lsn >= %(lsn)s", lsn=position)

        wait_until(confirmed, seconds=180, what=f"{position} to be sent")

    def pause(self, *, on: bool) -> None:
        """It stands still, or goes on."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP if on else signal.SIGCONT)

    def kill(self) -> None:
        """``kill -9``. What it has sent and not kept as sent it sends again."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
            gone = "select 1 from pg_replication_slots where slot_name = %(slot)s and active"
            wait_until(lambda: not self._server.execute(gone, slot=self.slot), what="the server to notice it")

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_: object) -> None:
        self.kill()
        slot = "from pg_replication_slots where slot_name = %(slot)s"
        self._server.execute(f"select pg_drop_replication_slot(slot_name) {slot}", slot=self.slot)
