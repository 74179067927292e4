"""Avro by a real schema registry: jobs whose schemas change, and registries that are away, emptied, others, or lie."""

import dataclasses
import io
import json
import uuid
from functools import reduce

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

import onceflow as of
from onceflow.checkpoint.place import Place
from onceflow.connectors.registry.client import RegistryClient
from onceflow.errors import (
    CheckpointConflictError,
    ConfigurationError,
    MalformedRecordError,
    RegistryError,
    RegistryRightsError,
    RegistryUnavailableError,
    UnknownSchemaError,
)
from onceflow.launch import schemas
from onceflow.operations.savepoints import restoring, writing
from onceflow.operations.savepoints.contents import contents
from tests.support import avro
from tests.support.advice import parts_of
from tests.support.avro import framed
from tests.support.harness import read_messages, read_topic
from tests.support.logins import certificate, pem
from tests.support.registries import basic, door, liar

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

V1 = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": "user", "type": "string"}, {"name": "amount", "type": "long"}],
}
V2 = {**V1, "fields": [*V1["fields"], {"name": "currency", "type": "string", "default": "EUR"}]}
V3 = {**V2, "fields": [*V2["fields"], {"name": "channel", "type": ["null", "string"], "default": None}]}


def bytes_of(schema_id, schema, **row):
    return framed(schema_id, avro.bytes_of(schema, row))


def registered(url, subject, schema, *references):
    return SchemaRegistryClient({"url": url}).register_schema(
        subject, Schema(json.dumps(schema), "AVRO", list(references))
    )


def test_a_schema_that_comes_while_a_job_runs_needs_no_person(world, shared, produce, caplog):
    """In a job with state: the query begins again with it, no failure is counted, and each row is there once."""
    one = registered(shared, f"{world.topic}-value", V1)
    other = registered(shared, f"{world.topic}-next", V3)
    produce(world.topic, [bytes_of(one, V1, user="a", amount=n) for n in range(5)])
    produce(world.topic, [bytes_of(other, V3, user="a", amount=n, currency="USD", channel=None) for n in range(5, 9)])
    produce(world.topic, [bytes_of(one, V1, user="b", amount=9)])

    def first_of_each(frame):
        return frame.dropDuplicates(["user", "amount"])

    caplog.set_level("INFO")
    rows = world.run(of.Avro(registry=of.SchemaRegistry(shared)), first_of_each)
    assert sorted(row["amount"] for row in rows) == list(range(10))
    assert all(set(row) == {"user", "amount"} for row in rows)  # the reader's schema stays
    assert world.place.failures.read() == []
    assert f"schema {other}, which the checkpoint does not have yet" in caplog.text
    assert world.kept() == sorted(
        [f"id.registry.{one}.json", f"id.registry.{other}.json", f"read.registry.{world.topic}-value.json"]
    )


@pytest.mark.faults
def test_known_schemas_need_no_registry(world, own, produce, caplog):
    """It is away at the next start, and records of known ids are read; a new id ends the job by the registry's name."""
    one, two = registered(own.url, f"{world.topic}-value", V1), registered(own.url, f"{world.topic}-next", V2)
    produce(world.topic, [bytes_of(one, V1, user="a", amount=1), bytes_of(two, V2, user="a", amount=2, currency="USD")])
    form = of.Avro(registry=of.SchemaRegistry(own.url))
    assert len(world.run(form)) == 2
    own.stop()
    produce(world.topic, [bytes_of(two, V2, user="a", amount=3, currency="USD")])
    assert len(world.run(form)) == 3
    assert "goes on with the schemas that its checkpoint has" in caplog.text
    produce(world.topic, [bytes_of(77, V3, user="a", amount=4, currency="USD", channel=None)])
    with pytest.raises(RegistryUnavailableError) as error:
        world.run(form)
    parts_of(error.value, RegistryUnavailableError, "schema 77", own.url)
    assert len(world.rows()) == 3


@pytest.mark.faults
def test_a_registry_that_was_emptied_is_told_and_one_that_is_another_is_refused(world, own, produce, caplog):
    """What it does not have any more is read by the checkpoint's copy; an id of another schema ends the start."""
    one = registered(own.url, f"{world.topic}-value", V1)
    produce(world.topic, [bytes_of(one, V1, user="a", amount=1)])
    form = of.Avro(registry=of.SchemaRegistry(own.url))
    world.run(form)
    own.stop()
    own.start()
    produce(world.topic, [bytes_of(one, V1, user="a", amount=2)])
    assert [row["amount"] for row in world.run(form)] == [1, 2]
    assert f"does not have schema {one} any more" in caplog.text
    assert registered(own.url, "something-else", V3) == one
    with pytest.raises(CheckpointConflictError) as error:
        world.run(form)
    parts_of(error.value, CheckpointConflictError, f"schema {one}", own.url)


@pytest.mark.faults
def test_two_registries_may_have_the_same_ids(world, own, shared, produce, new_topic, spark):
    """Each has a name, under which the checkpoint keeps its schemas."""
    other = new_topic()
    here = registered(own.url, f"{world.topic}-value", V1)
    there = SchemaRegistryClient({"url": shared})
    while registered(shared, f"filler-{uuid.uuid4().hex}", {**V3, "doc": uuid.uuid4().hex}) < here - 1:
        pass
    of_other = there.register_schema(f"{other}-value", Schema(json.dumps(V2), "AVRO"))
    produce(world.topic, [bytes_of(here, V1, user="a", amount=1)])
    produce(other, [bytes_of(of_other, V2, user="b", amount=2, currency="USD")])
    job = of.Job("two", checkpointing=of.Checkpointing(world.where, interval="100 ms"))
    first = of.KafkaSource(world.cluster, world.topic, value=of.Avro(registry=of.SchemaRegistry(own.url)))
    second = of.KafkaSource(world.cluster, other, value=of.Avro(registry=of.SchemaRegistry(shared, name="other")))
    written = of.KafkaSink(world.cluster, world.out)

    @job.stream(sources=[first, second], sinks=[written])
    def both(session):
        return first.load(session).unionByName(second.load(session), allowMissingColumns=True)

    job.run(until="caught-up")
    assert sorted(map(json.dumps, world.rows())) == sorted(
        map(
            json.dumps,
            [{"user": "a", "amount": 1, "currency": None}, {"user": "b", "amount": 2, "currency": "USD"}],
        )
    )
    assert {f"id.registry.{here}.json", f"id.other.{of_other}.json"} <= set(world.kept())


def test_an_id_that_the_registry_does_not_have(world, shared, produce):
    """Under "fail" it ends the job by the record's place, and nothing is kept of it; under "skip" it is left out."""
    one = registered(shared, f"{world.topic}-value", V1)
    form = of.Avro(registry=of.SchemaRegistry(shared))
    produce(world.topic, [bytes_of(one, V1, user="a", amount=1), bytes_of(987_654, V1, user="a", amount=2)])
    with pytest.raises(RegistryError) as error:
        world.run(form)
    parts_of(error.value, RegistryError, f"topic {world.topic}, partition 0, offset 1", "schema 987654")
    assert not any("987654" in name for name in world.kept())
    assert [row["amount"] for row in world.run(form, on_malformed="skip")] == [1]
    assert "id.registry.987654.json" in world.kept()


@pytest.mark.faults
def test_the_readers_schema_moves_by_a_start_that_says_so(world, shared, produce):
    """A newer version of the subject changes no column until the source names it."""
    registry = of.SchemaRegistry(shared)
    one = registered(shared, f"{world.topic}-value", V1)
    produce(world.topic, [bytes_of(one, V1, user="a", amount=1)])
    world.run(of.Avro(registry=registry))
    two = registered(shared, f"{world.topic}-value", V2)
    produce(world.topic, [bytes_of(two, V2, user="a", amount=2, currency="USD")])
    assert set(world.run(of.Avro(registry=registry))[-1]) == {"user", "amount"}
    produce(world.topic, [bytes_of(one, V1, user="a", amount=3)])
    assert world.run(of.Avro(registry=registry, version=2))[-1] == {"user": "a", "amount": 3, "currency": "EUR"}
    with pytest.raises(ConfigurationError, match="no schema under subject"):
        world.run(of.Avro(registry=registry, version=3))


@pytest.mark.faults
def test_a_schema_that_refers_to_others_is_read(world, shared, produce):
    """Confluent's references become one text in the checkpoint."""
    money = {"type": "record", "name": "Money", "namespace": "bank", "fields": [{"name": "cents", "type": "long"}]}
    whole = {"type": "record", "name": "P", "fields": [{"name": "paid", "type": "bank.Money"}]}
    registered(shared, f"money-{world.topic}", money)
    one = registered(shared, f"{world.topic}-value", whole, SchemaReference("bank.Money", f"money-{world.topic}", 1))
    inlined = {**whole, "fields": [{"name": "paid", "type": money}]}
    produce(world.topic, [bytes_of(one, inlined, paid={"cents": 5})])
    assert world.run(of.Avro(registry=of.SchemaRegistry(shared))) == [{"paid": {"cents": 5}}]


@pytest.mark.faults
def test_a_schema_that_cannot_be_read_makes_its_records_malformed(world, shared, produce):
    """One that is inside of itself, or nested without end: other records are read, and the log says why."""
    one = registered(shared, f"{world.topic}-value", V1)
    itself = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"], "default": None}]}
    deep = reduce(lambda inner, _: {"type": "array", "items": inner}, range(400), "int")
    others = [registered(shared, f"{world.topic}-{n}", schema) for n, schema in enumerate((itself, deep))]
    produce(world.topic, [bytes_of(one, V1, user="a", amount=1), *(framed(n, b"\0") for n in others)])
    form = of.Avro(registry=of.SchemaRegistry(shared))
    with pytest.raises(RegistryError, match="is inside of itself"):
        world.run(form)
    assert [row["amount"] for row in world.run(form, on_malformed="skip")] == [1]


@pytest.mark.faults
def test_a_savepoint_has_the_schemas(world, own, produce, tmp_path):
    """A job that goes on from it, elsewhere and without the registry, reads by the same ones, to the same columns."""
    one, two = registered(own.url, f"{world.topic}-value", V1), registered(own.url, f"{world.topic}-next", V2)
    produce(world.topic, [bytes_of(one, V1, user="a", amount=1), bytes_of(two, V2, user="a", amount=2, currency="USD")])
    form = of.Avro(registry=of.SchemaRegistry(own.url))
    world.run(form)
    registered(own.url, f"{world.topic}-value", V2)  # the newest by now
    saved = writing.create(world.place, tmp_path / "savepoint")
    named = {name.rpartition("/")[2] for name in contents(world.place).files if "/schemas/" in name}
    assert named == set(world.kept())
    own.stop()
    newer = dataclasses.replace(world, where=str(tmp_path / "newer"))
    restoring.restore(tmp_path / "savepoint", saved.manifest, newer.place)
    assert newer.kept() == world.kept()
    produce(world.topic, [bytes_of(two, V2, user="a", amount=3, currency="USD")])
    assert newer.run(form)[-1] == {"user": "a", "amount": 3}


def test_a_sink_registers_at_its_start_and_only_where_it_is_told_to(world, shared, produce, spark):
    """Another start writes by the same id; another library reads what is written."""
    produce(world.topic, ["5", "6"])
    registry = of.SchemaRegistry(shared)

    def run(form):
        job = of.Job("write", checkpointing=of.Checkpointing(world.where, interval="100 ms"))
        read = of.KafkaSource(world.cluster, world.topic, value=of.Text())
        written = of.KafkaSink(world.cluster, world.out, value=form)

        @job.stream(sources=[read], sinks=[written])
        def numbers(session):
            return read.load(session).select(F.col("value").cast("long").alias("n"))

        job.run(until="caught-up")

    client = SchemaRegistryClient({"url": shared})
    with pytest.raises(ConfigurationError, match="no schema under subject"):
        run(of.Avro(registry=registry))
    assert RegistryClient(registry).versions(f"{world.out}-value") == []
    run(of.Avro(registry=registry, register=True))
    produce(world.topic, ["7"])
    run(of.Avro(registry=registry, register=True))
    written = client.get_latest_version(f"{world.out}-value")
    assert RegistryClient(registry).versions(f"{world.out}-value") == [1]
    schema = fastavro.parse_schema(json.loads(written.schema.schema_str))
    blobs = [value for _, value in read_topic(world.cluster, world.out)]
    assert {value[:5] for value in blobs} == {framed(written.schema_id, b"")}
    assert [fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None) for value in blobs] == [
        {"n": 5},
        {"n": 6},
        {"n": 7},
    ]


def test_a_schema_that_the_subject_does_not_take_is_not_registered(shared, tmp_path):
    """Whether it is compatible is asked before; a look changes nothing."""
    subject = f"s-{uuid.uuid4().hex}"
    registered(shared, subject, V1)
    SchemaRegistryClient({"url": shared}).set_compatibility(subject, "BACKWARD")
    strange = {**V1, "fields": [{"name": "other", "type": "long"}]}
    registry = of.SchemaRegistry(shared)
    asked = schemas.StartSchemas(Place.at(tmp_path / "c", 10).schemas)
    with pytest.raises(ConfigurationError, match="no schema by which subject"):
        asked.writing(registry, subject, "AVRO", text=json.dumps(V2), register=True)
    asked.may = "register"
    with pytest.raises(RegistryError) as error:
        asked.writing(registry, subject, "AVRO", text=json.dumps(strange), register=True)
    parts_of(error.value, RegistryError, subject)
    assert RegistryClient(registry).versions(subject) == [1]
    asked.may = "look"
    assert asked.writing(registry, subject, "AVRO", text=json.dumps(V2), register=True).id == 0
    assert RegistryClient(registry).versions(subject) == [1]
    made = schemas.StartSchemas(Place.at(tmp_path / "d", 10).schemas)
    made.may = "register"
    assert made.writing(registry, subject, "AVRO", text=json.dumps(V2), register=True).id > 0
    assert RegistryClient(registry).versions(subject) == [1, 2]


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (200, b"<html>hello</html>"),
        (200, b"[]"),
        (404, b"<html>not here</html>"),
        (500, b""),
        (302, b""),
        (200, b"\xff"),
    ],
)
def test_what_is_no_registry_is_told(code, body):
    """A proxy's page, another server, an error of the registry's own: by its address, and it may pass."""
    with liar(code, body) as url:
        client = RegistryClient(of.SchemaRegistry(url))
        with pytest.raises(RegistryUnavailableError) as error:
            client.schema(1)
        parts_of(error.value, RegistryUnavailableError, url, "schema 1")


def test_a_registry_that_does_not_answer_is_told(monkeypatch):
    """It is asked for a few seconds; nothing waits for ever."""
    monkeypatch.setattr("onceflow.connectors.registry.client._WITHIN_S", 0.2)
    with liar(200, b"{}", after_s=600) as url, pytest.raises(RegistryUnavailableError) as error:
        RegistryClient(of.SchemaRegistry(url)).look()
    parts_of(error.value, RegistryUnavailableError, "Timeout")


def test_the_next_address_is_asked(shared):
    """Where one does not answer, or is no registry."""
    RegistryClient(of.SchemaRegistry(["http://127.0.0.1:9", shared])).look()
    with liar(503, b"") as url:
        RegistryClient(of.SchemaRegistry([url, shared])).look()


def test_each_login_is_taken_or_refused_by_name(shared, tokens, tmp_path):
    """A password, a token, tokens by OAuth, and TLS with an authority of one's own; no secret is told."""
    with door(shared, basic("me", "pa:ss")) as url:
        RegistryClient(of.SchemaRegistry(url, username="me", password="pa:ss")).look()
        with pytest.raises(RegistryRightsError) as error:
            RegistryClient(of.SchemaRegistry(url, username="me", password="wrong-one")).look()
        parts_of(error.value, RegistryRightsError, url)
        assert "wrong-one" not in str(error.value)
    with door(shared, lambda given: given == "Bearer abc") as url:
        RegistryClient(of.SchemaRegistry(url, token="abc")).look()
    with door(shared, lambda given: given.rpartition(".")[2] in tokens.signatures) as url:
        login = {"oauth_token_endpoint": tokens.url, "oauth_client_id": "job", "oauth_client_secret": tokens.secret}
        RegistryClient(of.SchemaRegistry(url, **login)).look()
        with pytest.raises(RegistryUnavailableError) as away:
            RegistryClient(of.SchemaRegistry(url, **{**login, "oauth_client_secret": "wrong-one"})).look()
        assert "wrong-one" not in str(away.value)
    authority = certificate("authority")
    server = certificate("registry", signed_by=authority)
    (tmp_path / "ca.pem").write_text(pem(authority[0]))
    with door(shared, basic("me", "x"), (server, tmp_path)) as url:
        RegistryClient(of.SchemaRegistry(url, username="me", password="x", ssl_ca=tmp_path / "ca.pem")).look()
        with pytest.raises(RegistryUnavailableError, match="CERTIFICATE"):
            RegistryClient(of.SchemaRegistry(url, username="me", password="x")).look()


@pytest.mark.faults
def test_a_record_that_is_none_of_its_schema_is_told_by_its_place(world, shared, produce):
    """It is malformed as any other; its reason has the schema's id."""
    one = registered(shared, f"{world.topic}-value", V1)
    produce(world.topic, [bytes_of(one, V1, user="a", amount=1) + b"x"])
    with pytest.raises(MalformedRecordError) as error:
        world.run(of.Avro(registry=of.SchemaRegistry(shared)))
    parts_of(error.value, MalformedRecordError, f"topic {world.topic}, partition 0, offset 0", f"schema {one}")


def test_what_a_record_of_a_new_schema_says_is_all_that_is_told():
    """A query's message has it, and nothing of the record; one that a row only looks like is not taken for it."""
    from onceflow.connectors.kafka.source import _UNKNOWN, unknown_from

    told = '{"topic":"t","partition":1,"offset":5,"schema":"registry/7"}'
    error = parts_of(unknown_from(f"x {_UNKNOWN}{told} y"), UnknownSchemaError, "topic t", "offset 5", "schema 7")
    assert (error.facts["registry"], error.facts["schema"]) == ("registry", 7)
    for other in ('{"topic":"t"}', '{"topic":"t","partition":1,"offset":5,"schema":"x"}', '{"topic":"t","partition":1'):
        assert unknown_from(_UNKNOWN + other) is None


def test_json_behind_the_id_of_its_schema(world, shared, produce, new_topic):
    """Read by its fields, whatever the id; written behind the subject's newest, which the checkpoint keeps."""
    client = SchemaRegistryClient({"url": shared})
    for title in ("older", "newer"):
        text = json.dumps({"title": title, "type": "object", "properties": {"user": {"type": "string"}}})
        newest = client.register_schema(f"{world.out}-value", Schema(text, "JSON"))
    good = [framed(n, b'{"user": "%d"}' % n) for n in (1, 70_000)]
    produce(world.topic, [*good, b'{"user": "without"}', framed(5, b'{"user": 5'), b"\0\0\0"])
    job = of.Job(f"copy-{world.topic}", checkpointing=of.Checkpointing(world.where, interval="100 ms"))
    dead = of.KafkaSink(world.cluster, new_topic())
    source = of.KafkaSource(
        world.cluster, world.topic, value=of.JsonSchema("user string"), on_malformed=of.DeadLetter(dead)
    )
    sink = of.KafkaSink(world.cluster, world.out, value=of.JsonSchema(registry=of.SchemaRegistry(shared)))

    @job.stream(sources=[source], sinks=[sink])
    def copied(spark):
        return source.load(spark)

    job.run(until="caught-up")
    found = [value for _, value in read_topic(world.cluster, world.out)]
    assert found == [framed(newest, b'{"user":"%d"}' % n) for n in (1, 70_000)]
    reasons = [dict(each.headers())["onceflow.reason"].decode() for each in read_messages(world.cluster, dead.topic)]
    without = "its value: it does not begin with a schema's id, the byte 0 and four more"
    assert reasons == [without, "its value: it is no JSON object, or one that is cut short", without]
    assert [name for name in world.kept() if name.startswith("write.")]
    with pytest.raises(ConfigurationError, match="needs the registry"):
        of.JsonSchema().encode([], None)


def test_a_sink_that_changes_its_format_asks_anew(world, shared, produce):
    """What was kept for Avro is none for JSON Schema: the id before a value says which of both it is."""
    client = SchemaRegistryClient({"url": shared})
    produce(world.topic, [b'{"user": "a"}'])
    of_avro = registered(shared, f"{world.out}-value", {**V1, "fields": V1["fields"][:1]})
    registry = of.SchemaRegistry(shared)

    def copied(value):
        job = of.Job(f"copy-{world.topic}", checkpointing=of.Checkpointing(world.where, interval="100 ms"))
        source = of.KafkaSource(world.cluster, world.topic, value=of.Json("user string"))
        sink = of.KafkaSink(world.cluster, world.out, value=value)
        job.stream(sources=[source], sinks=[sink])(source.load)
        job.run(until="caught-up")

    copied(of.Avro(registry=registry))
    other, of_user = f"{world.out}-json", {"title": "u", "type": "object", "properties": {"user": {"type": "string"}}}
    of_json = client.register_schema(other, Schema(json.dumps(of_user), "JSON"))
    produce(world.topic, [b'{"user": "b"}'])
    copied(of.JsonSchema(registry=registry, subject=other))
    found = [value[:5] for _, value in read_topic(world.cluster, world.out)]
    assert found == [framed(of_avro, b""), framed(of_json, b"")]


@pytest.mark.faults
def test_a_sink_of_a_registry_that_was_filled_again_is_refused(world, own, produce):
    """Its records would stand behind the id of another schema; one that is away, or has it still, is none."""
    registered(own.url, f"{world.out}-value", {**V1, "fields": V1["fields"][:1]})
    form = of.Avro(registry=of.SchemaRegistry(own.url))

    def copied():
        job = of.Job(f"copy-{world.topic}", checkpointing=of.Checkpointing(world.where, interval="100 ms"))
        source = of.KafkaSource(world.cluster, world.topic, value=of.Json("user string"))
        sink = of.KafkaSink(world.cluster, world.out, value=form)
        job.stream(sources=[source], sinks=[sink])(source.load)
        produce(world.topic, [b'{"user": "a"}'])
        job.run(until="caught-up")

    copied()
    copied()
    own.stop()
    copied()
    own.start()
    copied()
    registered(own.url, "something-else", V3)
    with pytest.raises(CheckpointConflictError, match="is another one"):
        copied()
    assert len(read_topic(world.cluster, world.out)) == 4
