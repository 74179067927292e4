"""Tables of another table's changes: what Debezium has written, into a table that is kept like that one."""

import json
import sqlite3
from contextlib import closing
from decimal import Decimal

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from onceflow.errors import ConfigurationError
from onceflow.flinksql.script import Script
from onceflow.flinksql.select_rows import show
from onceflow.local.devregistry import DevRegistry
from tests.support.avro import bytes_of, framed, logical
from tests.support.sql_jobs import jobs_of

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

CHANGES = """
CREATE TABLE account (id BIGINT, owner STRING, balance DECIMAL(18, 2), PRIMARY KEY (id) NOT ENFORCED) WITH (
    'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = 'kafka:9092',
    'format' = 'debezium-json', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset');
"""
COPY = """
CREATE TABLE copy (id BIGINT, owner STRING NOT NULL, cents BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH (
    'connector' = 'jdbc', 'url' = 'jdbc:sqlite:{database}', 'table-name' = 'copy');
"""


def change(op, lsn, **row):
    """One of Debezium's, of its connector for PostgreSQL."""
    whole = {"owner": "ann", "balance": "1.50"} | row
    kept = {"before": {"id": row["id"]}, "after": None} if op == "d" else {"before": None, "after": whole}
    return json.dumps(kept | {"op": op, "source": {"connector": "postgresql", "name": "bank", "lsn": lsn}})


@pytest.fixture
def world(spark, cluster, new_topic, tmp_path):
    """The topic of changes, and what runs a query of them into the copy, and says what stands there."""
    assert spark
    topic, database = new_topic(1), tmp_path / "copy.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("create table copy (id bigint not null primary key, owner text not null, cents bigint)")

    def run(query, form="'debezium-json'"):
        script = CHANGES.replace("'debezium-json'", form).format(topic=topic) + COPY.format(database=database) + query
        (pipeline,) = jobs_of(script, cluster, tmp_path)
        pipeline.job.run(until="caught-up")
        with closing(sqlite3.connect(database)) as connection:
            return connection.execute("select id, owner, cents from copy order by id").fetchall()

    return topic, run


def test_a_table_is_kept_like_the_one_whose_changes_come(world, produce):
    """Several changes of a key in an epoch, deletes whose rows are no more than a key, older changes behind them."""
    topic, run = world
    query = "INSERT INTO copy SELECT id, UPPER(owner), CAST(balance * 100 AS BIGINT) FROM account;"
    newest, older = change("u", 13, id=2, owner="eve"), change("u", 12, id=2)
    produce(topic, [change("r", 5, id=1), change("c", 11, id=2), newest, older])
    assert run(query) == [(1, "ANN", 150), (2, "EVE", 150)]
    produce(topic, [change("d", 20, id=1), change("u", 14, id=1), change("c", 21, id=3), None])
    assert run(query) == [(2, "EVE", 150), (3, "ANN", 150)]
    produce(topic, [change("u", 15, id=1), change("u", 30, id=1, owner="new")])
    assert run(query) == [(1, "NEW", 150), (2, "EVE", 150), (3, "ANN", 150)]


def test_a_row_that_a_filter_lets_through_no_longer_is_taken_away(world, produce):
    """WHERE is asked of the newest change; through a view, and with the columns in another order."""
    topic, run = world
    query = """
    CREATE VIEW rich AS SELECT owner, id, CAST(balance AS BIGINT) AS whole FROM account WHERE balance > 1;
    INSERT INTO copy SELECT id, owner, whole FROM rich WHERE owner <> 'eve';
    """
    produce(topic, [change("c", 1, id=1), change("c", 2, id=2, owner="eve"), change("c", 3, id=3, balance="0.50")])
    assert run(query) == [(1, "ann", 1)]
    produce(topic, [change("u", 4, id=1, balance="0.10"), change("u", 5, id=2, owner="bob"), change("u", 6, id=3)])
    assert run(query) == [(2, "bob", 1), (3, "ann", 1)]


ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "owner", "type": ["null", "string"], "default": None},
        {"name": "balance", "type": logical("bytes", "decimal", precision=10, scale=1), "default": "\\u0000"},
    ],
}
OF_SOURCE = [*((name, "string") for name in ("version", "connector", "name")), ("lsn", ["null", "long"])]
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "bank.public.account",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "fields": [{"name": n, "type": kind} for n, kind in OF_SOURCE],
            },
        },
        {"name": "op", "type": "string"},
    ],
}


def test_changes_come_in_avro_by_a_registry(world, produce, tmp_path):
    """By the columns of the table, in the scale of its column; a row that is gone has no more than its key."""
    topic, run = world

    def sent(schema_id, op, lsn, **row):
        source = {"version": "3", "connector": "postgresql", "name": "bank", "lsn": lsn}
        whole = {"owner": "ann", "balance": Decimal("1.5")} | row
        kept = {"before": whole | {"owner": None}, "after": None} if op == "d" else {"before": None, "after": whole}
        return framed(schema_id, bytes_of(ENVELOPE, kept | {"op": op, "source": source}))

    with DevRegistry(tmp_path / "registry") as registry:
        client = SchemaRegistryClient({"url": registry.url})
        number = client.register_schema(f"{topic}-value", Schema(json.dumps(ENVELOPE), "AVRO"))
        query = "INSERT INTO copy SELECT id, owner, CAST(balance * 100 AS BIGINT) FROM account;"
        form = f"'debezium-avro-confluent', 'debezium-avro-confluent.url' = '{registry.url}'"
        produce(
            topic, [sent(number, "c", 1, id=1), sent(number, "c", 2, id=2), sent(number, "u", 3, id=2, owner="eve")]
        )
        assert run(query, form) == [(1, "ann", 150), (2, "eve", 150)]
        produce(topic, [sent(number, "d", 9, id=1), sent(number, "u", 8, id=1), None])
        assert run(query, form) == [(2, "eve", 150)]


def test_a_select_shows_changes(world, cluster, produce):
    """Each with its mark, the deletes too."""
    topic, _ = world
    produce(topic, [change("c", 1, id=1), change("d", 2, id=1)])
    script = Script({"onceflow.kafka.bootstrap.servers": cluster.bootstrap_servers})
    answers = script.run(CHANGES.format(topic=topic) + "SELECT id, owner FROM account;")
    (query,) = (answer.query for answer in answers if answer.query is not None)
    said = []
    show(script, query, said.append)
    assert [line for line in said if line[0] in "+-" and line[1] != "-"] == ["+U[1, ann]", "-D[1, NULL]"]


def test_a_change_that_cannot_be_read_stops_the_job(world, produce):
    """By its place; and a null in a NOT NULL column of a row that stays does, too."""
    topic, run = world
    query = "INSERT INTO copy SELECT id, owner, 1 FROM account;"
    produce(topic, [change("c", 1, id=1, owner=None)])
    with pytest.raises(Exception, match=r"a null in copy\.owner"):
        run(query)
    produce(topic, [json.dumps({"id": 1})])
    with pytest.raises(Exception, match="has no op"):
        run(query.replace("owner, 1", "COALESCE(owner, '?'), 1"))


@pytest.mark.parametrize(
    ("columns", "query", "said"),
    [
        ("id BIGINT", "INSERT INTO copy SELECT id, 'x', 1 FROM account;", "without a PRIMARY KEY"),
        (None, "INSERT INTO copy SELECT id + 1, owner, 1 FROM account;", "a row would replace one of another group"),
        (None, "INSERT INTO p SELECT id FROM account;", "which change of a row is the newest"),
        (None, "INSERT INTO account SELECT id, owner, balance FROM account;", "changes are read only"),
        (None, "INSERT INTO copy SELECT id, owner, COUNT(*) FROM account GROUP BY id, owner;", "over one that updates"),
        (None, "INSERT INTO copy SELECT a.id, b.owner, 1 FROM account a JOIN account b ON a.id = b.id;", "updates"),
        (
            None,
            "INSERT INTO copy SELECT id, owner, 1 FROM account UNION ALL SELECT id, owner, 2 FROM account;",
            "updates",
        ),
    ],
)
def test_what_would_have_to_take_rows_back_is_refused(columns, query, said):
    """By its name, before anything is started."""
    changes = CHANGES if columns is None else CHANGES.replace("PRIMARY KEY (id) NOT ENFORCED", "more INT")
    script = changes.format(topic="t") + COPY.format(database="/nowhere.db")
    script += "CREATE TABLE p (id BIGINT) WITH ('connector' = 'print');\n" + query
    with pytest.raises(ConfigurationError, match=said):
        list(Script({}).run(script))
