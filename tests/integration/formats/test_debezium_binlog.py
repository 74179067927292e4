"""Changes of a real MariaDB by Debezium's real connector for MySQL, which reads its binlog, into a real MariaDB."""

# ruff: noqa: DTZ001 - Spark gives a time without its zone, which is UTC

import datetime as dt
import random
from contextlib import ExitStack, closing
from decimal import Decimal

import pymysql
import pytest
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

import onceflow as of
from onceflow.formats.contract import PartOfRecord
from tests.support.debezium import BinlogConnector
from tests.support.harness import read_topic
from tests.support.mariadb import BINLOG, running_mariadb
from tests.support.postgres import HOST

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

TABLE = "id bigint primary key, owner varchar(60), balance decimal(18,2), at datetime(6), day date, note longtext"
ROWS = of.Json("id bigint, owner string, balance decimal(18,2), at bigint, day int, note string")


@pytest.fixture(scope="module")
def server():
    with running_mariadb(*BINLOG) as one:
        yield one


@pytest.fixture
def table(server):
    """An empty database, onceflow's tables of another test gone too."""
    for (name,) in server.execute("show tables"):
        server.execute(f"drop table {name}")
    server.execute(f"create table account ({TABLE})", f"create table copy ({TABLE})")
    return server


def copied(spark, cluster, connector, server, where):
    """A run of the job until it has read what is there; its rows."""
    source = of.KafkaSource(cluster, connector.topic("bank.account"), value=of.Debezium(ROWS))
    rows = source.load(spark)
    rows = rows.withColumn("at", F.timestamp_micros("at").cast("timestamp_ntz"))
    sink = of.DatabaseSink(
        f"mariadb://root@{HOST}:{server.port}/bank",
        "copy",
        key="id",
        delete_when="debezium_deleted",
        sequence_by="debezium_sequence",
    )
    query = of.start(
        rows.withColumn("day", F.date_from_unix_date("day")),
        sinks=[sink],
        name="copy",
        checkpointing=of.Checkpointing(where / "checkpoint"),
        until="caught-up",
    )
    assert query.awaitTermination(240)
    return server.execute("select * from copy order by id")


def session(server):
    """One whose locks hold rows alone, and not what lies between them."""
    level = "set session transaction isolation level read committed"
    where = {"host": HOST, "port": server.port, "user": "root", "database": "bank"}
    return closing(pymysql.connect(**where, init_command=level))


def disturbed(server, chance, changes):
    """Two sessions that change rows, each in transactions of several statements, by this seed."""
    with session(server) as a, session(server) as b:
        held = {a: set(), b: set()}
        for n in range(changes):
            one = chance.choice((a, b))
            other = b if one is a else a
            key, what = chance.randrange(12), chance.random()
            if key in held[other]:
                continue
            held[one].add(key)
            cursor = one.cursor()
            if what < 0.25:
                cursor.execute("delete from account where id = %s", [key])
            elif what < 0.4:
                free = chance.randrange(100, 200)
                if free not in held[other]:
                    held[one].add(free)
                    cursor.execute("delete from account where id = %s", [free])
                    cursor.execute("update account set id = %s where id = %s", [free, key])
            else:
                cursor.execute(
                    "insert into account values (%s, %s, %s, '2026-01-01 10:00:00.123456', '2026-03-01', %s) "
                    "on duplicate key update owner = values(owner), balance = values(balance), note = values(note)",
                    [key, f"ö{n}", n, "b" * chance.choice((1, 100_000))],
                )
            if chance.random() < 0.3:
                one.commit()
                held[one].clear()
        a.commit()
        b.commit()


SHIFT = (
    "update account set id = id + 1 where id < 50 order by id desc",
    "update account set id = id - 1 where id <= 50 order by id",
)
"""Each key between the ends is deleted and made again, at one position of the log."""
STEPS = ("change", "change", "shift", "rotate", "open", "commit", "kill", "start", "copy")


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.faults) for n in range(2, 10))])
def test_a_table_is_copied(spark, cluster, table, tmp_path, seed):
    """Snapshot, sessions in each other, keys that move in one event, new binlogs, a connector that dies."""
    chance = random.Random(seed)
    disturbed(table, chance, 40)
    left, opened, alive = [], 0, True
    with ExitStack() as sessions, BinlogConnector(tmp_path, cluster, table, ["bank.account"]) as connector:
        disturbed(table, chance, 40)
        connector.wait_sent()
        for step in ["change", *chance.choices(STEPS, k=14)]:
            if step == "change":
                disturbed(table, chance, 20)
            elif step in ("shift", "rotate"):
                table.execute(*(SHIFT if step == "shift" else ("flush binary logs",)))
            elif step == "open":
                left.append(sessions.enter_context(session(table)))
                left[-1].cursor().execute("insert into account (id, owner) values (%s, 'early')", [500 + opened])
                opened += 1
            elif step == "commit" and left:
                left.pop(chance.randrange(len(left))).commit()
            elif step in ("kill", "start") and alive == (step == "kill"):
                connector.kill() if alive else connector.start()
                alive = not alive
            elif step == "copy":
                copied(spark, cluster, connector, table, tmp_path)
        for each in left:
            each.commit()
        if not alive:
            connector.start()
        connector.wait_sent()
        found = copied(spark, cluster, connector, table, tmp_path)
        assert found == table.execute("select * from account order by id")
        assert len(found) > 3


TYPES = {
    "id bigint primary key": ("id bigint", "1", 1),
    "a decimal(18,2)": ("a decimal(18,2)", "10.50", Decimal("10.50")),
    "b timestamp(6)": ("b timestamp", "'2026-01-01 10:00:00.123456'", dt.datetime(2026, 1, 1, 10, 0, 0, 123456)),
    "c datetime(6)": ("c bigint", "'2026-01-01 10:00:00.123456'", 1767261600123456),
    "d datetime(3)": ("d bigint", "'2026-01-01 10:00:00.123'", 1767261600123),
    "e date": ("e int", "'2026-01-01'", 20454),
    "f time(3)": ("f bigint", "'10:00:00.5'", 36_000_500_000),
    "g enum('fine')": ("g string", "'fine'", "fine"),
    "h set('x','y')": ("h string", "'x,y'", "x,y"),
    "i json": ("i string", """'{"a": 1}'""", '{"a": 1}'),
    "j blob": ("j binary", "x'01ff'", bytearray(b"\x01\xff")),
    "k int unsigned": ("k bigint", "4294967295", 4294967295),
    "l bigint unsigned": ("l decimal(20,0)", "18446744073709551615", Decimal(18446744073709551615)),
    "m tinyint(1)": ("m tinyint", "1", 1),
    "n bit(1)": ("n boolean", "1", True),
    "o year": ("o int", "2026", 2026),
    "p double": ("p double", "1.5", 1.5),
}
"""A column in MariaDB: in the schema, a value, and what of it comes."""


def test_each_type(spark, cluster, server, tmp_path):
    """As docs/formats.md has it, by a real connector; in the snapshot and from the log."""
    server.execute("set time_zone = '+00:00'", "drop table if exists typed", f"create table typed ({', '.join(TYPES)})")
    one = f"insert into typed values ({', '.join(value for _, value, _ in TYPES.values())})"
    server.execute("set time_zone = '+00:00'", one)
    more = {"bigint_unsigned_handling_mode": "precise"}
    with BinlogConnector(tmp_path, cluster, server, ["bank.typed"], **more) as connector:
        server.execute("set time_zone = '+00:00'", "delete from typed", one)
        connector.wait_sent()
        records = [value for _, value in read_topic(cluster, connector.topic("bank.typed"))]
    form = of.Debezium(of.Json(", ".join(column for column, *_ in TYPES.values())))
    reading = form.reading(PartOfRecord(("t",), "value"))
    frame = spark.createDataFrame([(at, bytearray(v)) for at, v in enumerate(records) if v], "at int, value binary")
    frame = frame.select("at", "value", reading.parsed(F.col("value")).alias("it"))
    malformed = reading.malformed(F.col("value"), F.col("it"), None).alias("malformed")
    rows = frame.select("at", malformed, *reading.columns(F.col("it"))).orderBy("at").collect()
    assert [row.debezium_deleted for row in rows] == [False, True, False]
    for row in rows:
        assert not row.malformed
        assert [row[name] for name in form.row.fields().names] == [found for *_, found in TYPES.values()]
