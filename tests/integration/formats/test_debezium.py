"""Debezium's changes: recorded ones of each kind on Spark, and real ones of a real PostgreSQL into real databases."""

# ruff: noqa: DTZ001 - Spark gives a time without its zone, which is UTC

import datetime as dt
import json
import random
import sqlite3
from contextlib import ExitStack, closing
from decimal import Decimal

import psycopg
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

import onceflow as of
from onceflow.errors import ConfigurationError
from onceflow.formats.contract import PartOfRecord
from onceflow.local.devregistry import DevRegistry
from tests.support.avro import bytes_of, framed, id_in, logical, nullable
from tests.support.debezium import Connector
from tests.support.harness import read_topic, wait_until
from tests.support.postgres import running

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

POSTGRES = {"connector": "postgresql", "name": "bank", "db": "b", "snapshot": "false", "lsn": 300}
MYSQL = {"connector": "mysql", "name": "shop", "server_id": 7, "file": "binlog.000003", "pos": 42, "snapshot": "false"}
ROW = {"id": 1, "owner": "ann"}


def change(op="c", before=None, after=ROW, source=POSTGRES, **more):
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1} | more


def read(spark, form, *records):
    """Each record's reason or None, and its row."""
    reading = form.reading(PartOfRecord(("t",), "value"))
    texts = (json.dumps(each) if isinstance(each, dict | list) else each for each in records)
    blobs = (each.encode() if isinstance(each, str) else each for each in texts)
    frame = spark.createDataFrame([(n, each) for n, each in enumerate(blobs)], "offset bigint, value binary")
    frame = frame.select("offset", "value", reading.parsed(F.col("value")).alias("it"))
    told = frame.select(
        "offset",
        reading.nothing(F.col("value")).alias("nothing"),
        F.when(
            reading.malformed(F.col("value"), F.col("it"), None), reading.reason(F.col("value"), F.col("it"), None)
        ).alias("reason"),
        *reading.columns(F.col("it")),
        *reading.placed(F.col("it"), F.lit("t/0"), F.col("offset")),
    )
    return told.orderBy("offset").collect()


FORM = of.Debezium(of.Json("id bigint, owner string"))


def test_changes_of_each_kind(spark):
    """A read, an insert, an update, a delete, with their positions; with a schema beside them, too."""
    first, last = -(1 << 63), (1 << 63) - 1
    rows = read(
        spark,
        FORM,
        change("r", source=POSTGRES | {"snapshot": "first"}),
        change("r", source={**POSTGRES, "snapshot": "incremental", "lsn": None}),
        change("c"),
        change("u", before={"id": 1, "owner": None}),
        change("d", before={"id": 1, "owner": None}, after=None),
        {"schema": {"type": "struct"}, "payload": change("u")},
        change("u", source=MYSQL),
        change("r", source=MYSQL | {"server_id": 0, "snapshot": "true"}),
    )
    assert [row.reason for row in rows] == [None] * 8
    assert [(row.id, row.owner, row.debezium_deleted) for row in rows] == [
        *((1, "ann", False) for _ in range(4)),
        (1, None, True),
        *((1, "ann", False) for _ in range(3)),
    ]
    binlog = (3 << 32) + 42
    assert [tuple(row.debezium_sequence) for row in rows] == [
        (0, "bank", first, 299, "t/0", 0),
        (0, "bank", first, last, "t/0", 1),
        *((0, "bank", 300, 300, "t/0", n) for n in range(2, 6)),
        (0, "shop/7", binlog, binlog, "t/0", 6),
        (0, None, first, last, "t/0", 7),
    ]


OWNER = {
    "type": "record",
    "name": "Value",
    "namespace": "bank.public.account",
    "fields": [
        {"name": "id", "type": "long"},
        *nullable(
            {
                "owner": "string",
                "balance": logical("bytes", "decimal", precision=18, scale=2),
                "seen": {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"},
            }
        ),
    ],
}


def envelope(**source):
    """What Connect's AvroConverter registers for a table: the row's record is defined in before, and named in after."""
    fields = [
        *nullable({"before": OWNER, "after": "Value"}),
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": nullable(source)}},
        {"name": "op", "type": "string"},
        *nullable({"ts_ms": "long"}),
    ]
    return {"type": "record", "name": "Envelope", "namespace": "bank.public.account", "fields": fields}


_COMMON = dict.fromkeys(("connector", "name", "snapshot", "db"), "string")
OF_POSTGRES = envelope(**_COMMON, lsn="long")
OF_MYSQL = envelope(**_COMMON, server_id="long", file="string", pos="long")


def test_changes_in_avro_are_what_they_are_in_json(spark):
    """Kinds, positions, decimals without a setting of the connector's; a source without the fields of the other."""
    row = {"id": 1, "owner": "ann", "balance": Decimal("10.50"), "seen": 1_767_261_600_123_456}
    records = [
        change("r", after=row, source=POSTGRES | {"snapshot": "first"}),
        change("c", after=row),
        change("u", before=row, after=row),
        change("d", before=row | {"owner": None}, after=None),
        change("t", after=None),
        change("u", after=row | {"owner": "__debezium_unavailable_value"}),
    ]
    form = of.Debezium(of.Avro(json.dumps(OF_POSTGRES)))
    blobs = [bytes_of(OF_POSTGRES, each) for each in records]
    found = read(spark, form, *blobs, None, blobs[1] + b"more", blobs[1][:-3])
    kept = [(1, "ann", Decimal("10.50"), row["seen"], False)] * 3 + [(1, None, Decimal("10.50"), row["seen"], True)]
    assert [(r.id, r.owner, r.balance, r.seen, r.debezium_deleted) for r in found[:4]] == kept
    assert [r.reason for r in found[:4]] == [None] * 4
    assert [r.debezium_sequence.not_after for r in found[:4]] == [299, 300, 300, 300]
    assert [r.nothing for r in found] == [False] * 6 + [True, False, False]
    said = ["a truncate", "REPLICA IDENTITY FULL", "a tombstone", "no record of the schema", "no record of the schema"]
    assert all(words in r.reason for words, r in zip(said, found[4:], strict=True))
    of_mysql = of.Debezium(of.Avro(json.dumps(OF_MYSQL)))
    (other,) = read(spark, of_mysql, bytes_of(OF_MYSQL, change("u", after=row, source=MYSQL)))
    assert tuple(other.debezium_sequence)[:4] == (0, "shop/7", (3 << 32) + 42, (3 << 32) + 42)


@pytest.mark.parametrize("missing", ["after", "source", "op"])
def test_a_schema_that_is_none_of_changes_is_refused(spark, missing):
    """As of the topics of the schema's history, of transactions' metadata, and of changes that were unwrapped."""
    assert spark
    fields = [each for each in OF_POSTGRES["fields"] if each["name"] != missing]
    form = of.Debezium(of.Avro(json.dumps({**OF_POSTGRES, "fields": fields})))
    with pytest.raises(ConfigurationError, match="none of Debezium's changes"):
        form.reading(PartOfRecord(("t",), "value"))


def test_a_table_is_copied_from_avro_by_a_registry(spark, cluster, new_topic, produce, tmp_path):
    """Each record is read by the schema of its id; the newest change of a key is what stands in the table."""
    assert spark
    topic, database = new_topic(1), tmp_path / "copy.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(
            "create table account (id bigint not null primary key, owner text, balance text, seen bigint)"
        )
    wider = {**OWNER, "fields": [*OWNER["fields"], {"name": "town", "type": ["null", "string"], "default": None}]}
    before, *rest = OF_POSTGRES["fields"]
    second = {**OF_POSTGRES, "fields": [{**before, "type": ["null", wider]}, *rest]}
    with DevRegistry(tmp_path / "registry") as registry:
        client = SchemaRegistryClient({"url": registry.url})

        def send(schema, *changes):
            number = client.register_schema(f"{topic}-value", Schema(json.dumps(schema), "AVRO"))
            produce(topic, [framed(number, bytes_of(schema, each)) for each in changes])

        def run():
            job = of.Job("copy", checkpointing=of.Checkpointing(str(tmp_path / "checkpoint"), interval="100 ms"))
            form = of.Debezium(of.Avro(registry=of.SchemaRegistry(registry.url)))
            source = of.KafkaSource(cluster, topic, value=form)
            where = {"delete_when": "debezium_deleted", "sequence_by": "debezium_sequence"}
            sink = of.DatabaseSink(f"sqlite:///{database}", "account", key="id", **where)

            @job.stream(sources=[source], sinks=[sink])
            def copied(spark):
                return source.load(spark).withColumn("balance", F.col("balance").cast("string"))

            job.run(until="caught-up")
            with closing(sqlite3.connect(database)) as connection:
                return connection.execute("select id, owner from account order by id").fetchall()

        def at(op, lsn, **row):
            whole = {"owner": None, "balance": None, "seen": None} | row
            kept = {"before": whole, "after": None} if op == "d" else {"after": whole}
            return change(op, source=POSTGRES | {"lsn": lsn}, **kept)

        send(OF_POSTGRES, at("c", 10, id=1, owner="ann"), at("c", 11, id=2, owner="bob"), at("u", 9, id=1, owner="old"))
        assert run() == [(1, "ann"), (2, "bob")]
        send(second, at("u", 20, id=1, owner="eve", town="Bonn"), at("d", 21, id=2), at("u", 15, id=2, owner="late"))
        assert run() == [(1, "eve")]


def test_a_tombstone_is_no_row(spark):
    """And nothing else is none."""
    rows = read(spark, FORM, None, change())
    assert [row.nothing for row in rows] == [True, False]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ("{", "no JSON object"),
        ("[]", "no JSON object"),
        ({"id": 1, "owner": "ann"}, "it has no op"),
        ({"ddl": "create table a (b int)", "databaseName": "shop", "position": {}}, "the schema's history"),
        ({"status": "BEGIN", "id": "571:1", "event_count": None}, "transactions' metadata"),
        (change("t", after=None), "a truncate"),
        (change("m", after=None), "a message"),
        (change("x"), "its op is none"),
        (change("u", after=None), "it has no after"),
        (change("d", after=None), "REPLICA IDENTITY is NOTHING"),
        (change(source=POSTGRES | {"connector": "oracle"}), "no order is known"),
        (change(source={}), "no order is known"),
        (change(source=POSTGRES | {"lsn": None}), "no position"),
        (change(source=MYSQL | {"file": "binlog"}), "no position"),
        (change(source=MYSQL | {"server_id": 0}), "no server_id"),
        (change(source=MYSQL | {"file": "binlog.99999999999"}), "no position"),
        (change(after={"id": "one"}), "its row: field id is no bigint"),
        (change(after={"id": 1.5}), "its row: field id is no bigint"),
        (change("u", after={"id": 1, "owner": "__debezium_unavailable_value"}), "set REPLICA IDENTITY FULL"),
    ],
)
def test_what_is_malformed(spark, record, said):
    """Each by words of its own, and nothing of the record."""
    (row,) = read(spark, FORM, record)
    assert said in row.reason


@pytest.mark.parametrize(
    ("kind", "sign"),
    [
        ("string", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="),
        ("binary", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="),
        ("string", b"__debezium_unavailable_value".hex()),
        ("array<string>", ["__debezium_unavailable_value"]),
        ("array<int>", list(b"__debezium_unavailable_value")),
    ],
)
def test_a_value_that_debezium_has_left_out(spark, kind, sign):
    """Whatever the column's type: it would stand in the table in place of the value."""
    form = of.Debezium(of.Json(f"id bigint, v {kind}"))
    row, fine = read(spark, form, change("u", after={"id": 1, "v": sign}), change("u", after={"id": 1, "v": None}))
    assert "REPLICA IDENTITY FULL" in row.reason
    assert fine.reason is None


def test_servers_in_their_order(spark):
    """A later one is a later generation; one that is not named is malformed; a snapshot of MySQL is told by name."""
    form = of.Debezium(of.Json("id bigint"), servers=("bank", "bank2", "shop/7"))
    rows = read(
        spark,
        form,
        change(),
        change(source=POSTGRES | {"name": "bank2"}),
        change(source=POSTGRES | {"name": "bank3"}),
        change(source=MYSQL),
        change(source=MYSQL | {"server_id": 8}),
        change("r", source=MYSQL | {"server_id": 0}),
    )
    told = [row.reason or row.debezium_sequence.generation for row in rows]
    strange = "it is of a server that servers does not name"
    assert told == [0, 1, strange, 2, strange, 2]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: of.Debezium(of.Text()), "row"),
        (lambda: of.Debezium(of.Json("id bigint"), servers=("a", "a")), "each once"),
        (lambda: of.Debezium(of.Json("id bigint"), servers="ab"), "servers"),
        (lambda: FORM.encode([], PartOfRecord(("t",), "value")), "for reading only"),
        (lambda: FORM.reading(PartOfRecord(("t",), "key")), "not of keys"),
    ],
)
def test_arguments_that_cannot_work(made, said):
    """Each by a sentence."""
    with pytest.raises(ConfigurationError, match=said):
        made()


# -- a real source --------------------------------------------------------------------------------


TABLE = "id bigint primary key, owner text, balance numeric(18,2), at timestamp(6), day date, tags text[], big text"
ROWS = of.Json("id bigint, owner string, balance decimal(18,2), at bigint, day int, tags array<string>, big string")


@pytest.fixture(scope="module")
def server():
    with running(wal_level="logical") as one:
        yield one


@pytest.fixture
def table(server):
    server.execute(
        "drop schema if exists copy cascade",
        "drop table if exists account",
        "create schema copy",
        f"create table account ({TABLE})",
        "alter table account replica identity full",
        f"create table copy.account ({TABLE.replace('text[]', 'text')})",
    )
    return server


def rows_of(frame):
    return frame.withColumn("at", F.timestamp_micros("at").cast("timestamp_ntz")).withColumn(
        "day", F.date_from_unix_date("day")
    )


def copied(spark, cluster, connector, server, where, servers=()):
    """A run of the job until it has read what is there; its rows."""
    value = of.Debezium(ROWS, servers=servers)
    source = of.KafkaSource(
        cluster, connector if isinstance(connector, str) else connector.topic("public.account"), value=value
    )
    sink = of.DatabaseSink(
        server.url(),
        "copy.account",
        key="id",
        delete_when="debezium_deleted",
        sequence_by="debezium_sequence",
        schema="copy",
    )
    query = of.start(
        rows_of(source.load(spark)),
        sinks=[sink],
        name="copy",
        checkpointing=of.Checkpointing(where / "checkpoint"),
        until="caught-up",
    )
    assert query.awaitTermination(240)
    return server.execute("select * from copy.account order by id")


def original(server):
    """The source's rows, as the copy has them."""
    rows = server.execute("select * from account order by id")
    return [
        (*row[:5], None if row[5] is None else json.dumps(row[5], separators=(",", ":"), ensure_ascii=False), row[6])
        for row in rows
    ]


def disturbed(server, chance, changes):
    """Three sessions that change rows, each in transactions of several statements, by this seed."""
    with closing(psycopg.connect(server.url())) as a, closing(psycopg.connect(server.url())) as b:
        held = {a: set(), b: set()}
        for n in range(changes):
            session = chance.choice((a, b))
            other = b if session is a else a
            key, what = chance.randrange(12), chance.random()
            if key in held[other]:
                continue
            held[session].add(key)
            if what < 0.25:
                session.execute("delete from account where id = %s", [key])
            elif what < 0.4:
                free = chance.randrange(100, 200)
                if free not in held[other]:
                    held[session].add(free)
                    session.execute("delete from account where id = %s", [free])
                    session.execute("update account set id = %s where id = %s", [free, key])
            else:
                session.execute(
                    "insert into account values (%s, %s, %s, '2026-01-01 10:00:00.123456', '2026-03-01', %s, %s) "
                    "on conflict (id) do update set owner = excluded.owner, balance = excluded.balance",
                    [key, f"o{n}", n, ["a", None, "ü"], "b" * chance.choice((1, 100_000))],
                )
            if chance.random() < 0.3:
                session.commit()
                held[session].clear()
        a.commit()
        b.commit()


STEPS = ("change", "change", "open", "commit", "kill", "start", "pause", "resume", "copy")


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.faults) for n in range(2, 12))])
def test_a_table_is_copied(spark, cluster, admin, table, tmp_path, seed):
    """Snapshot, sessions in each other, open transactions, a connector that is killed, stands still, sends again."""
    chance = random.Random(seed)
    disturbed(table, chance, 40)
    left, opened, alive = [], 0, True
    with (
        ExitStack() as sessions,
        Connector(tmp_path, cluster.bootstrap_servers, table, ["public.account"]) as connector,
    ):
        left.append(sessions.enter_context(closing(psycopg.connect(table.url()))))
        left[0].execute("insert into account (id, owner) values (499, 'open over the snapshot')")
        disturbed(table, chance, 40)
        connector.wait_sent()
        for step in chance.choices(STEPS, k=14):
            if step == "change":
                disturbed(table, chance, 20)
            elif step == "open":
                left.append(sessions.enter_context(closing(psycopg.connect(table.url()))))
                left[-1].execute("insert into account (id, owner) values (%s, 'early')", [500 + opened])
                opened += 1
            elif step == "commit" and left:
                left.pop(chance.randrange(len(left))).commit()
            elif step == "kill":
                connector.kill()
                alive = False
            elif step == "start" and not alive:
                connector.start()
                alive = True
            elif step in ("pause", "resume") and alive:
                connector.pause(on=step == "pause")
            elif step == "copy" and connector.topic("public.account") in admin.list_topics():
                copied(spark, cluster, connector, table, tmp_path)
        for session in left:
            session.commit()
        if not alive:
            connector.start()
        connector.pause(on=False)
        connector.wait_sent()
        assert copied(spark, cluster, connector, table, tmp_path) == original(table)


TYPES = {
    "id bigint primary key": ("id bigint", "1", 1),
    "a numeric(18,2)": ("a decimal(18,2)", "10.50", Decimal("10.50")),
    "b timestamptz": ("b timestamp", "'2026-01-01 10:00:00.123456+02'", dt.datetime(2026, 1, 1, 8, 0, 0, 123456)),
    "c timestamp": ("c bigint", "'2026-01-01 10:00:00.123456'", 1767261600123456),
    "d timestamp(3)": ("d bigint", "'2026-01-01 10:00:00.123'", 1767261600123),
    "e date": ("e int", "'2026-01-01'", 20454),
    "f time": ("f bigint", "'10:00:00'", 36_000_000_000),
    "g uuid": ("g string", "'b7a5e0ee-64a5-4e1f-9a0e-0f6a6b0e9d11'", "b7a5e0ee-64a5-4e1f-9a0e-0f6a6b0e9d11"),
    "h jsonb": ("h string", """'{"a": 1}'""", '{"a": 1}'),
    "i mood": ("i string", "'fine'", "fine"),
    "j bytea": ("j binary", "'\\x01ff'", bytearray(b"\x01\xff")),
    "k text[]": ("k array<string>", "'{a,NULL,ü}'", ["a", None, "ü"]),
    "l int[]": ("l array<int>", "'{1,2}'", [1, 2]),
    "m boolean": ("m boolean", "true", True),
    "n double precision": ("n double", "1.5", 1.5),
}
"""A column in PostgreSQL: in the schema, a value, and what of it comes."""
ONE = f"insert into typed values ({', '.join(value for _, value, _ in TYPES.values())})"


def make_typed(server):
    """The table of them, with one row."""
    server.execute(
        "drop table if exists typed",
        "drop type if exists mood",
        "create type mood as enum ('fine')",
        f"create table typed ({', '.join(TYPES)})",
        ONE,
    )


def test_each_type(spark, cluster, admin, server, tmp_path):
    """As docs/formats.md has it, by a real connector."""
    make_typed(server)
    with Connector(tmp_path, cluster.bootstrap_servers, server, ["public.typed"]) as connector:
        topic = connector.topic("public.typed")
        wait_until(lambda: topic in admin.list_topics() and read_topic(cluster, topic), what="a record")
    form = of.Debezium(of.Json(", ".join(column for column, *_ in TYPES.values())))
    ((_, record),) = read_topic(cluster, topic)
    (row,) = read(spark, form, record.decode())
    assert row.reason is None
    assert [row[name] for name in form.row.fields().names] == [found for *_, found in TYPES.values()]


IN_AVRO = {"b": "2026-01-01T08:00:00.123456Z"}
"""What is another type there than in JSON: an instant is a text."""


@pytest.mark.faults
def test_each_type_in_avro(spark, cluster, admin, server, tmp_path):
    """By a real connector and a real registry; decimals are what they are in the source, without a setting."""
    make_typed(server)
    server.execute("update typed set n = 2.5", "delete from typed")
    told = {"decimal_handling_mode": "precise", "schema_name_adjustment_mode": "avro"}
    with (
        DevRegistry(tmp_path / "registry") as registry,
        Connector(
            tmp_path, cluster.bootstrap_servers, server, ["public.typed"], registry=registry, **told
        ) as connector,
    ):
        server.execute(ONE)
        topic = connector.topic("public.typed")
        wait_until(lambda: topic in admin.list_topics() and read_topic(cluster, topic), what="a record")
        ((_, record), *_) = read_topic(cluster, topic)
        number = id_in(record)
        client = SchemaRegistryClient({"url": registry.url})
        schema = client.get_schema(number).schema_str
        assert client.get_latest_version(f"{topic}-value").schema_id == number
    form = of.Debezium(of.Avro(schema))
    (row,) = read(spark, form, record[5:])
    assert row.reason is None
    columns = [column.split()[0] for column, *_ in TYPES.values()]
    found = {name: IN_AVRO.get(name, found) for name, (*_, found) in zip(columns, TYPES.values(), strict=True)}
    assert {name: row[name] for name in columns} == found


@pytest.mark.faults
def test_a_large_value_that_is_not_sent(spark, cluster, table, tmp_path):
    """Without a full identity the job stops by the record's place, and the table keeps the value."""
    table.execute("alter table account replica identity default")
    with Connector(tmp_path / "connect", cluster.bootstrap_servers, table, ["public.account"]) as connector:
        table.execute("alter table account alter big set storage external")
        table.execute("insert into account (id, owner, big) values (1, 'ann', repeat('b', 100000))")
        table.execute("update account set owner = 'bob' where id = 1")
        connector.wait_sent()
        topic = connector.topic("public.account")
        wait_until(lambda: len(read_topic(cluster, topic)) >= 2, what="two changes")
        with pytest.raises(StreamingQueryException, match="REPLICA IDENTITY FULL"):
            copied(spark, cluster, connector, table, tmp_path)


@pytest.mark.faults
def test_a_source_that_was_put_back(spark, cluster, table, produce, new_topic, tmp_path):
    """Behind a snapshot whose log lies before what was copied the job stops; told of the servers, it goes on."""
    topic = new_topic()
    told = {**POSTGRES, "lsn": 1000}
    produce(topic, [json.dumps(change(source=told)), json.dumps(change(source=told, after={"id": 2, "owner": "bob"}))])
    assert [row[:2] for row in copied(spark, cluster, topic, table, tmp_path)] == [(1, "ann"), (2, "bob")]
    again = [
        json.dumps(change("r", after={"id": 1, "owner": "old"}, source={**POSTGRES, "lsn": 500, "snapshot": "last"}))
    ]
    produce(topic, again)
    with pytest.raises(StreamingQueryException, match="the source was put back"):
        copied(spark, cluster, topic, table, tmp_path)
    assert [row[:2] for row in table.execute("select * from copy.account order by id")] == [(1, "ann"), (2, "bob")]


@pytest.mark.faults
def test_another_server(spark, cluster, table, produce, new_topic, tmp_path):
    """Its positions do not compare: refused, until the servers are told in their order."""
    topic = new_topic()
    produce(topic, [json.dumps(change(source={**POSTGRES, "lsn": 1000}))])
    copied(spark, cluster, topic, table, tmp_path)
    produce(
        topic, [json.dumps(change(after={"id": 1, "owner": "new"}, source={**POSTGRES, "lsn": 5, "name": "bank2"}))]
    )
    with pytest.raises(StreamingQueryException, match="several servers"):
        copied(spark, cluster, topic, table, tmp_path)
    rows = copied(spark, cluster, topic, table, tmp_path, servers=("bank", "bank2"))
    assert [row[:2] for row in rows] == [(1, "new")]
