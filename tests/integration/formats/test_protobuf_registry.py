"""Protobuf by a real schema registry, its records written by Confluent's own serializer: jobs whose schemas change."""

import json
import uuid

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import onceflow as of
from onceflow.errors import ConfigurationError, MalformedRecordError
from tests.support import avro
from tests.support.advice import parts_of
from tests.support.harness import read_topic
from tests.support.protobuf import class_of, framed, schema_from

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

MONEY = 'syntax = "proto3"; package money; message Amount { int64 units = 1; }'
V1 = """
syntax = "proto3"; package bank; import "money.proto";
message Header { int32 n = 1; }
message Payment { string user = 1; money.Amount amount = 2; }
"""
V2 = V1.replace("string user = 1;", "string owner = 1; optional string currency = 3;")
MISFIT = V1.replace("string user = 1;", "int64 user = 1;")
PLACE = b"\x02\x02"
"""The second message of its file."""


@pytest.fixture(scope="module")
def money(shared):
    SchemaRegistryClient({"url": shared}).register_schema("money.proto", Schema(MONEY, "PROTOBUF"))


def registered(url, subject, text):
    reference = SchemaReference("money.proto", "money.proto", 1)
    return SchemaRegistryClient({"url": url}).register_schema(subject, Schema(text, "PROTOBUF", [reference]))


def record(schema_id, text, **fields):
    made = class_of(schema_from(text, money=MONEY), "bank.Payment")
    return framed(schema_id, made(**fields).SerializeToString(), PLACE)


def payments(shared, **more):
    return of.Protobuf(registry=of.SchemaRegistry(shared), message="bank.Payment", **more)


def test_a_schema_that_comes_while_a_job_runs_needs_no_person(world, shared, money, produce, caplog):
    """With state and an import: fields by their numbers, the reader's schema stays, each row is there once."""
    one = registered(shared, f"{world.topic}-value", V1)
    other = registered(shared, f"{world.topic}-next", V2)
    produce(world.topic, [record(one, V1, user="a", amount={"units": n}) for n in range(5)])
    produce(world.topic, [record(other, V2, owner="a", amount={"units": n}, currency="USD") for n in range(5, 9)])
    caplog.set_level("INFO")
    rows = world.run(payments(shared), lambda frame: frame.dropDuplicates(["user", "amount"]))
    assert sorted(row["amount"]["units"] for row in rows) == list(range(9))
    assert {row["user"] for row in rows} == {"a"}
    assert world.place.failures.read() == []
    assert f"schema {other}, which the checkpoint does not have yet" in caplog.text
    assert world.kept() == sorted(
        [f"id.registry.{one}.json", f"id.registry.{other}.json", f"read.registry.{world.topic}-value.json"]
    )


def test_what_confluents_serializer_writes_is_read_and_what_is_written_it_reads(world, shared, produce, new_topic):
    """Its schema is registered as descriptors, with what it imports; a sink writes by the subject's newest."""
    made = class_of(schema_from(V1.replace("money.proto", "m.proto"), m=MONEY), "bank.Payment")
    client = SchemaRegistryClient({"url": shared})
    for topic in (world.topic, world.out):
        serializer = ProtobufSerializer(made, client, {"use.deprecated.format": False})
        context = SerializationContext(topic, MessageField.VALUE)
        blobs = [serializer(made(user="u", amount={"units": n}), context) for n in (1, 2**62)]
    produce(world.topic, blobs)
    job = of.Job(f"copy-{world.topic}", checkpointing=of.Checkpointing(world.where, interval="100 ms"))
    source = of.KafkaSource(world.cluster, world.topic, value=payments(shared))
    sink = of.KafkaSink(world.cluster, world.out, value=payments(shared))

    @job.stream(sources=[source], sinks=[sink])
    def copied(spark):
        return source.load(spark)

    job.run(until="caught-up")
    found = [value for _, value in read_topic(world.cluster, world.out)]
    assert found == blobs
    deserializer = ProtobufDeserializer(made, {"use.deprecated.format": False}, client)
    context = SerializationContext(world.out, MessageField.VALUE)
    assert [deserializer(each, context).amount.units for each in found] == [1, 2**62]


def test_what_does_not_fit_is_malformed_by_its_reason(world, shared, money, produce, caplog):
    """A schema of another type, another message, one of Avro, one that is not there: each left out, the rest read."""
    one = registered(shared, f"{world.topic}-value", V1)
    misfit = registered(shared, f"{world.topic}-misfit", MISFIT)
    client = SchemaRegistryClient({"url": shared})
    plain = {"type": "record", "name": f"R{uuid.uuid4().hex}", "fields": [{"name": "n", "type": "int"}]}
    of_avro = client.register_schema(f"{world.topic}-avro", Schema(json.dumps(plain), "AVRO"))
    good = record(one, V1, user="a", amount={"units": 1})
    bad = [record(misfit, MISFIT, user=1), framed(one, b"", b"\0"), avro.framed(of_avro, b"\x02"), framed(99_999, b"")]
    produce(world.topic, [good, *bad, good])
    rows = world.run(payments(shared), on_malformed="skip")
    assert len(rows) == 2
    for words in (
        "field user is int64",
        "another message of schema",
        f"schema {of_avro} is not in",
        "schema 99999 is not",
    ):
        assert words in caplog.text
    produce(world.topic, bad[:1])
    with pytest.raises(MalformedRecordError) as error:
        world.run(payments(shared))
    parts_of(error.value, MalformedRecordError, "field user is int64", world.topic)
    assert len(world.rows()) == 2


@pytest.mark.parametrize("first", ["avro", pytest.param("protobuf", marks=pytest.mark.faults)])
def test_avro_and_protobuf_of_one_registry_stand_in_one_checkpoint(world, shared, money, produce, new_topic, first):
    """Each source reads by the schemas of its own kind, whichever asks for a new one first; the next start, too."""
    other = new_topic()
    schema = {"type": "record", "name": "P", "fields": [{"name": "user", "type": "string"}]}
    later = {**schema, "doc": other}
    client = SchemaRegistryClient({"url": shared})
    avros = [client.register_schema(f"{other}-value", Schema(json.dumps(each), "AVRO")) for each in (schema,)]
    ids = [registered(shared, f"{world.topic}-value", V1)]
    job = of.Job("both", checkpointing=of.Checkpointing(world.where, interval="100 ms"))
    source = of.KafkaSource(world.cluster, world.topic, value=payments(shared), on_malformed="skip")
    second = of.KafkaSource(
        world.cluster, other, value=of.Avro(registry=of.SchemaRegistry(shared)), on_malformed="skip"
    )
    written = of.KafkaSink(world.cluster, world.out)

    @job.stream(sources=[source, second], sinks=[written])
    def both(session):
        order = (second, source) if first == "avro" else (source, second)
        one, two = (each.load(session).select("user") for each in order)
        return one.union(two)

    for n, name in enumerate(("a", "b", "c")):
        produce(world.topic, [record(ids[-1], V1, user=name)])
        produce(other, [avro.framed(avros[-1], avro.bytes_of(schema, {"user": name.upper()}))])
        job.run(until="caught-up")
        if n == 0:  # new ones of both kinds, in mid-stream
            avros.append(client.register_schema(f"{other}-later", Schema(json.dumps(later), "AVRO")))
            ids.append(registered(shared, f"{world.topic}-later", V1.replace("Header {", "Heading {")))
    assert sorted(row["user"] for row in world.rows()) == ["A", "B", "C", "a", "b", "c"]


@pytest.mark.faults
def test_known_schemas_need_no_registry(world, own, produce, caplog):
    """It is away at the next start, and records are read by the checkpoint's copies."""
    SchemaRegistryClient({"url": own.url}).register_schema("money.proto", Schema(MONEY, "PROTOBUF"))
    one = registered(own.url, f"{world.topic}-value", V1)
    produce(world.topic, [record(one, V1, user="a", amount={"units": 1})])
    form = payments(own.url)
    assert len(world.run(form)) == 1
    own.stop()
    produce(world.topic, [record(one, V1, user="a", amount={"units": 2})])
    assert [row["amount"]["units"] for row in world.run(form)] == [1, 2]
    assert "goes on with the schemas that its checkpoint has" in caplog.text


def test_a_sink_is_refused_a_schema_of_its_own_beside_a_registry(world, shared, spark):
    """It writes by what is registered; and outside of a job there is no registry at all."""
    form = of.Protobuf(
        schema_from(V1, money=MONEY).compiled, message="bank.Payment", registry=of.SchemaRegistry(shared)
    )
    job = of.Job("refused", checkpointing=of.Checkpointing(world.where))
    source = of.KafkaSource(world.cluster, world.topic, value=of.Json("user string"))
    sink = of.KafkaSink(world.cluster, world.out, value=form)

    @job.stream(sources=[source], sinks=[sink])
    def copied(session):
        return source.load(session)

    with pytest.raises(ConfigurationError, match="writes by the newest schema"):
        job.run(until="caught-up")
