"""Tables of Avro by a real schema registry: what Flink's records are read as, and what it would read of ours."""

import datetime as dt
import io
import json
import struct
from decimal import Decimal

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from onceflow.errors import ConfigurationError
from onceflow.flinksql.script import Script
from onceflow.flinksql.select_rows import show
from onceflow.local.devregistry import DevRegistry
from tests.support.avro import bytes_of, framed, id_in, logical, nullable
from tests.support.harness import read_topic
from tests.support.sql_jobs import jobs_of

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

AT = dt.datetime(2026, 1, 1, 10, 0, 0, 123000, tzinfo=dt.UTC)
COLUMNS = """
    id BIGINT NOT NULL, small TINYINT, amount DECIMAL(12, 2), `at` TIMESTAMP(3), seen TIMESTAMP_LTZ(6), dy DATE,
    tags ARRAY<STRING>, marks MAP<STRING, INT>, place ROW<town STRING, code INT>, bits BYTES, ok BOOLEAN
"""
FLINKS = {
    "type": "record",
    "name": "record",
    "namespace": "org.apache.flink.avro.generated",
    "fields": [
        {"name": "id", "type": "long"},
        *nullable(
            {
                "small": "int",
                "amount": logical("bytes", "decimal", precision=12, scale=2),
                "at": logical("long", "timestamp-millis"),
                "seen": logical("long", "timestamp-micros"),
                "dy": logical("int", "date"),
                "tags": {"type": "array", "items": ["null", "string"]},
                "marks": {"type": "map", "values": ["null", "int"]},
                "place": {
                    "type": "record",
                    "name": "record_place",
                    "fields": nullable({"town": "string", "code": "int"}),
                },
                "bits": "bytes",
                "ok": "boolean",
            }
        ),
    ],
}
ROW = {
    "id": 7,
    "small": 3,
    "amount": Decimal("10.50"),
    "at": AT,
    "seen": AT,
    "dy": dt.date(2026, 1, 1),
    "tags": ["a", None],
    "marks": {"x": 1},
    "place": {"town": "Bonn", "code": None},
    "bits": b"\0\1",
    "ok": True,
}
EMPTY = dict.fromkeys(ROW) | {"id": 8}


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with DevRegistry(tmp_path_factory.mktemp("registry")) as running:
        yield running.url


@pytest.fixture
def client(registry):
    return SchemaRegistryClient({"url": registry})


def record(schema_id, schema, row):
    return framed(schema_id, bytes_of(schema, row))


def row_of(client, data):
    """A record's row, by the schema of its id; and that."""
    schema = json.loads(client.get_schema(id_in(data)).schema_str)
    return fastavro.schemaless_reader(io.BytesIO(data[5:]), fastavro.parse_schema(schema), None), schema


def table(name, topic, columns, registry, **more):
    options = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": "kafka:9092",
        "format": "avro-confluent",
        "avro-confluent.url": registry,
        "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "latest-offset",
    } | more
    given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items() if value is not None)
    return f"CREATE TABLE {name} ({columns}) WITH ({given});\n"


def run(spark, cluster, folder, script):
    assert spark
    (pipeline,) = jobs_of(script, cluster, folder)
    pipeline.job.run(until="caught-up")


def test_each_type_goes_through_a_table_and_has_flinks_schema(
    spark, cluster, new_topic, produce, tmp_path, registry, client
):
    """Read as Flink's writer has it, written by the schema that Flink registers: its names, types, defaults."""
    topic, out = new_topic(1), new_topic(1)
    number = client.register_schema(f"{topic}-value", Schema(json.dumps(FLINKS), "AVRO"))
    produce(topic, [record(number, FLINKS, row) for row in (ROW, EMPTY)])
    script = table("given", topic, COLUMNS, registry) + table("kept", out, COLUMNS, registry)
    run(spark, cluster, tmp_path, script + "INSERT INTO kept SELECT * FROM given;")
    found = [row_of(client, value) for _, value in read_topic(cluster, out)]
    assert [row for row, _ in found] == [ROW, EMPTY]
    assert found[0][1] == FLINKS
    assert (
        client.get_latest_version(f"{out}-value").schema_id
        == struct.unpack(">I", read_topic(cluster, out)[0][1][1:5])[0]
    )


def test_a_writer_of_other_units_and_fields_is_read_by_the_tables_columns(
    spark, cluster, new_topic, produce, tmp_path, registry, client
):
    """Microseconds for a TIMESTAMP(3), a smaller scale, a field that the table has not, one that the writer has not."""
    topic, out = new_topic(1), new_topic(1)
    writer = {
        "type": "record",
        "name": "Payment",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "at", "type": logical("long", "timestamp-micros")},
            {"name": "amount", "type": logical("bytes", "decimal", precision=6, scale=1)},
            {"name": "more", "type": "string"},
        ],
    }
    number = client.register_schema(f"{topic}-value", Schema(json.dumps(writer), "AVRO"))
    produce(topic, [record(number, writer, {"id": 1, "at": AT, "amount": Decimal("2.5"), "more": "x"})])
    columns = "id BIGINT NOT NULL, `at` TIMESTAMP(3), amount DECIMAL(12, 2), later STRING"
    script = table("given", topic, columns, registry) + table("kept", out, columns, registry)
    run(spark, cluster, tmp_path, script + "INSERT INTO kept SELECT * FROM given;")
    ((row, _),) = [row_of(client, value) for _, value in read_topic(cluster, out)]
    assert row == {"id": 1, "at": AT, "amount": Decimal("2.50"), "later": None}


def test_keys_and_tombstones_of_upsert_kafka(spark, cluster, new_topic, produce, tmp_path, registry, client):
    """Key and value by a schema each; where HAVING no longer lets the group through its record is a tombstone."""
    topic, out = new_topic(1), new_topic(1)
    given = table("given", topic, "town STRING, n INT", registry, format="json", **{"avro-confluent.url": None})
    options = {f"{part}.format": "avro-confluent" for part in ("key", "value")}
    options |= {f"{part}.avro-confluent.url": registry for part in ("key", "value")}
    options |= {"connector": "upsert-kafka", **dict.fromkeys(("format", "avro-confluent.url", "scan.startup.mode"))}
    columns = "town STRING, total BIGINT, PRIMARY KEY (town) NOT ENFORCED"
    kept = table("kept", out, columns, registry, **options)
    script = given + kept + "INSERT INTO kept SELECT town, SUM(n) FROM given GROUP BY town HAVING SUM(n) < 5;"
    for n in (3, 4):
        produce(topic, [json.dumps({"town": "Bonn", "n": n})])
        run(spark, cluster, tmp_path, script)
    (key, value), (again, gone) = read_topic(cluster, out)
    assert row_of(client, key)[0] == {"town": "Bonn"}
    assert row_of(client, value)[0] == {"town": "Bonn", "total": 3}
    assert (again, gone) == (key, None)


def test_records_without_an_id_are_of_the_tables_schema(spark, cluster, new_topic, produce, tmp_path, registry):
    """'avro' asks no registry."""
    topic, out = new_topic(1), new_topic(1)
    schema = {**FLINKS, "fields": FLINKS["fields"][:3]}
    produce(topic, [record(0, schema, {name: ROW[name] for name in ("id", "small", "amount")})[5:]])
    columns, plain = "id BIGINT NOT NULL, small TINYINT, amount DECIMAL(12, 2)", {"avro-confluent.url": None}
    script = table("given", topic, columns, registry, format="avro", **plain)
    script += table("kept", out, columns, registry, format="avro", **plain)
    run(spark, cluster, tmp_path, script + "INSERT INTO kept SELECT * FROM given WHERE id > 0;")
    ((_, value),) = read_topic(cluster, out)
    assert value == record(0, schema, {name: ROW[name] for name in ("id", "small", "amount")})[5:]


def test_what_is_not_to_be_registered_must_be_there(spark, cluster, new_topic, produce, tmp_path, registry):
    """'auto.register.schemas' = 'false': the start is refused, and nothing is written."""
    topic, out = new_topic(1), new_topic(1)
    produce(topic, [json.dumps({"n": 1})])
    script = table("given", topic, "n INT", registry, format="json", **{"avro-confluent.url": None})
    script += table("kept", out, "n INT", registry, **{"avro-confluent.auto.register.schemas": "false"})
    with pytest.raises(ConfigurationError, match=f"does not stand under subject {out}-value"):
        run(spark, cluster, tmp_path, script + "INSERT INTO kept SELECT * FROM given;")
    assert read_topic(cluster, out) == []


def test_a_select_shows_rows_of_several_schemas(spark, cluster, new_topic, produce, tmp_path, registry, client):
    """Also of one that the registry had under no version of the subject when it began."""
    topic = new_topic(1)
    first = {"type": "record", "name": "P", "fields": [{"name": "id", "type": "long"}]}
    second = {**first, "fields": [*first["fields"], {"name": "town", "type": "string"}]}
    for subject, schema, row in (
        (f"{topic}-value", first, {"id": 1}),
        (f"{topic}-other", second, {"id": 2, "town": "Bonn"}),
    ):
        number = client.register_schema(subject, Schema(json.dumps(schema), "AVRO"))
        produce(topic, [record(number, schema, row)])
    script = Script({"onceflow.kafka.bootstrap.servers": cluster.bootstrap_servers})
    asked = table("given", topic, "id BIGINT NOT NULL, town STRING", registry) + "SELECT id, town FROM given;"
    (query,) = (answer.query for answer in script.run(asked) if answer.query is not None)
    said = []
    show(script, query, said.append)
    assert [line for line in said if line.startswith("+I")] == ["+I[1, NULL]", "+I[2, Bonn]"]


def test_a_job_with_two_registries_is_refused(spark, cluster, new_topic, tmp_path, registry):
    """Their ids could not be told apart in the checkpoint, and SQL has no name for them."""
    script = table("given", new_topic(1), "n INT", registry) + table("kept", new_topic(1), "n INT", f"{registry}/")
    with pytest.raises(ConfigurationError, match="two schema registries of this job"):
        run(spark, cluster, tmp_path, script + "INSERT INTO kept SELECT * FROM given;")


@pytest.mark.parametrize(
    "fields",
    [
        [("to_account", "string"), ("from_account", "string")],
        [("from_account", "string"), ("to_account", "bytes")],
        [("from_account", "string"), ("to_account", "string"), ("more", "int")],
    ],
)
def test_a_schema_that_is_none_of_the_columns_is_refused(spark, cluster, new_topic, tmp_path, registry, fields):
    """Another order would swap columns, and another type would be cast."""
    assert spark
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": n, "type": kind} for n, kind in fields]})
    columns, topic = "from_account STRING, to_account STRING", new_topic(1)
    script = table("given", topic, columns, registry, **{"avro-confluent.schema": text})
    script += "CREATE TABLE p (a STRING) WITH ('connector' = 'print'); INSERT INTO p SELECT to_account FROM given;"
    with pytest.raises(ConfigurationError, match="is none of the table's columns"):
        run(spark, cluster, tmp_path, script)


def test_the_columns_of_a_primary_key_may_not_be_null(spark, cluster, new_topic, produce, tmp_path, registry, client):
    """As in Flink: the schema of the key has no null in it."""
    topic, out = new_topic(1), new_topic(1)
    produce(topic, [json.dumps({"town": "Bonn"})])
    given = table("given", topic, "town STRING", registry, format="json", **{"avro-confluent.url": None})
    options = {"connector": "upsert-kafka", "key.format": "avro-confluent", "value.format": "json"}
    options |= {
        "key.avro-confluent.url": registry,
        **dict.fromkeys(("format", "avro-confluent.url", "scan.startup.mode")),
    }
    kept = table("kept", out, "town STRING, n BIGINT, PRIMARY KEY (town) NOT ENFORCED", registry, **options)
    query = "INSERT INTO kept SELECT town, COUNT(*) FROM given GROUP BY town;"
    run(spark, cluster, tmp_path, given + kept + query)
    ((key, _),) = read_topic(cluster, out)
    assert row_of(client, key)[1]["fields"] == [{"name": "town", "type": "string"}]
