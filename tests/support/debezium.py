"""Real Debezium: its connectors for PostgreSQL and for a binlog in Kafka Connect, which can be killed and go on.

Must not know: what is tested.
"""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import psycopg
from confluent_kafka.admin import AdminClient

from onceflow import KafkaCluster
from onceflow.local.devregistry import DevRegistry
from onceflow.local.jars import connect_avro_jars, debezium_binlog_jars, debezium_jars, java_executable
from tests.support.harness import read_topic, wait_until
from tests.support.mariadb import MariaDb
from tests.support.postgres import HOST, PASSWORD, Postgres, free_port

_WORKER = "org.apache.kafka.connect.cli.ConnectStandalone"
_JSON = "org.apache.kafka.connect.json.JsonConverter"


class Worker:
    """One worker of Kafka Connect with one connector, which keeps its offsets in a file.

    Args:
        folder: For a folder of its own, with that and its log.
        kafka: The broker's addresses.
        jars: Its class path.
        prefix: Its topics' names begin so; a fresh one by default.
        registry: It writes Avro by this schema registry; else JSON.
    """

    def __init__(
        self, folder: Path, kafka: str, jars: Sequence[Path], prefix: str | None, registry: DevRegistry | None
    ) -> None:
        self._folder = folder / "connect"
        self._folder.mkdir(parents=True, exist_ok=True)
        self.prefix = prefix or f"cdc-{uuid.uuid4().hex[:8]}"
        self._process: subprocess.Popen[bytes] | None = None
        self._jars = list(jars) if registry is None else [*jars, *connect_avro_jars()]
        worker = {
            "bootstrap.servers": kafka,
            "key.converter": _JSON,
            "value.converter": _JSON,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "value.converter.decimal.format": "NUMERIC",
            "offset.storage.file.filename": str(self._folder / "offsets"),
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
        self._write("worker", worker)

    def _connects(self, settings: Mapping[str, str], more: Mapping[str, str]) -> None:
        """What the connector is told."""
        every = {
            "name": self.prefix,
            "topic.prefix": self.prefix,
            "decimal.handling.mode": "string",
            "poll.interval.ms": "50",
            "topic.creation.default.partitions": "2",
            "topic.creation.default.replication.factor": "1",
        }
        self._write("connector", every | settings | {name.replace("_", "."): value for name, value in more.items()})

    def _write(self, name: str, given: Mapping[str, str]) -> None:
        (self._folder / f"{name}.properties").write_text("".join(f"{key}={value}\n" for key, value in given.items()))

    def topic(self, table: str) -> str:
        """Where a table's changes are."""
        return f"{self.prefix}.{table}"

    def _launch(self) -> None:
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

    def _require_alive(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()[-5_000:]

    def start(self) -> Self:
        """Start it."""
        raise NotImplementedError

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

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_: object) -> None:
        self.kill()


class BinlogConnector(Worker):
    """Debezium's connector for MySQL, which reads MariaDB's binlog too.

    Args:
        folder: As of ``Worker``.
        cluster: The broker.
        server: What it reads. It runs with ``BINLOG``.
        tables: With their databases.
        settings: More of the connector.
    """

    def __init__(
        self, folder: Path, cluster: KafkaCluster, server: MariaDb, tables: Sequence[str], **settings: str
    ) -> None:
        super().__init__(folder, cluster.bootstrap_servers, debezium_binlog_jars(), None, None)
        self._cluster, self._server, self._fences = cluster, server, 0
        server.execute("create table if not exists bank.fence (id varchar(60) primary key)")
        self._connects(
            {
                "connector.class": "io.debezium.connector.mysql.MySqlConnector",
                "database.hostname": HOST,
                "database.port": str(server.port),
                "database.user": "root",
                "database.password": "",
                "database.server.id": "99",
                "database.ssl.mode": "disabled",
                "table.include.list": ",".join((*tables, "bank.fence")),
                "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
                "schema.history.internal.file.filename": str(self._folder / "history"),
            },
            settings,
        )

    def start(self) -> Self:
        """Start it; its snapshot is over when this returns."""
        self._launch()
        self.wait_sent()
        return self

    def wait_sent(self) -> None:
        """Until all that is committed now is in Kafka: behind it a row of a table of its own is."""
        self._fences += 1
        mark = f"{self.prefix}-{self._fences}"
        self._server.execute(f"insert into bank.fence values ('{mark}')")
        topic = self.topic("bank.fence")

        def sent() -> bool:
            self._require_alive()
            there = topic in self._cluster_topics()
            return there and any(mark.encode() in (value or b"") for _, value in read_topic(self._cluster, topic))

        wait_until(sent, seconds=180, what=f"{mark} to be sent")

    def _cluster_topics(self) -> set[str]:
        return set(AdminClient(self._cluster.for_librdkafka()).list_topics(timeout=30).topics)


class Connector(Worker):
    """Debezium's connector for PostgreSQL.

    Args:
        folder: As of ``Worker``.
        kafka: The broker's addresses.
        server: What it reads. It runs with ``wal_level=logical``.
        tables: With their schemas.
        prefix: As of ``Worker``.
        registry: As of ``Worker``.
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
        super().__init__(folder, kafka, debezium_jars(), prefix, registry)
        self.slot = self.prefix.replace("-", "_")
        self._server = server
        server.execute("create table if not exists fence (id int primary key, moved int)")
        self._connects(
            {
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
                "table.include.list": ",".join((*tables, "public.fence")),
            },
            settings,
        )

    def start(self) -> Self:
        """Start it. Its first start has begun the snapshot when this returns, and what changes from now on it sends.

        Killed before ``wait_sent``, it begins another snapshot, and never tells what was deleted between the two.
        """
        self._launch()
        # A slot whose position is known is through with transactions that were open before it.
        wait_until(lambda: self._slot("active and confirmed_flush_lsn is not null"), seconds=180, what="Debezium")
        return self

    def _slot(self, holds: str, **values: object) -> bool:
        self._require_alive()
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

    def kill(self) -> None:
        """As of ``Worker``; and the server knows it."""
        if self._process is not None:
            super().kill()
            gone = "select 1 from pg_replication_slots where slot_name = %(slot)s and active"
            wait_until(lambda: not self._server.execute(gone, slot=self.slot), what="the server to notice it")

    def __exit__(self, *_: object) -> None:
        self.kill()
        slot = "from pg_replication_slots where slot_name = %(slot)s"
        self._server.execute(f"select pg_drop_replication_slot(slot_name) {slot}", slot=self.slot)
