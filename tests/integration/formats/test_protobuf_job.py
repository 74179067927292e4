"""A job in Protobuf, with state, whose schema changes in mid-stream: each record is there once, whatever dies."""

from collections import Counter

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from onceflow.local.devregistry import DevRegistry
from tests.support.harness import Pipeline, audited, read_topic
from tests.support.protobuf import class_of, framed, schema_from

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

RECORDS, CHANGE = 6_000, 3_200
IMPORT = 'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message Payment { uint64 id = 1;'
OLD = IMPORT + " string user = 2; google.protobuf.Timestamp at = 3; }"
NEW = IMPORT + " string owner = 2; google.protobuf.Timestamp at = 3; optional string currency = 4; }"
TOP = 2**63
"""Where ids begin: a reader that takes them for signed has other ones."""


class InProtobuf(Pipeline):
    """Its records are of the old schema, from some on of the new one, and now and then of none."""

    def send_payments(self, count: int) -> None:
        client = SchemaRegistryClient({"url": self.environment["REGISTRY"]})
        ids = [
            client.register_schema(f"{self.source}-{of}", Schema(text, "PROTOBUF"))
            for of, text in (("value", OLD), ("later", NEW))
        ]
        client.register_schema(f"{self.sink}-value", Schema(OLD, "PROTOBUF"))
        old, new = (class_of(schema_from(text), "Payment") for text in (OLD, NEW))

        def value(i: int) -> bytes:
            if i % 100 == 50:
                return framed(ids[0], b"\x0a\x01x")
            known = {"id": TOP + i, "at": {"seconds": 1_767_225_600 + i}}
            made = old(user=f"u{i}", **known) if i < CHANGE else new(owner=f"u{i}", currency="EUR", **known)
            return framed(ids[i >= CHANGE], made.SerializeToString())

        self.send(count, value=value)

    def check_payments(self) -> None:
        """Each is there once, as Google's library reads it; what was none is aside, once."""
        made = class_of(schema_from(OLD), "Payment")
        found = [made.FromString(value[6:]) for _, value in self.read()]
        good = [i for i in range(len(self.sent)) if i % 100 != 50]
        assert Counter(each.id - TOP for each in found) == dict.fromkeys(good, 1)
        assert all(each.user == f"u{each.id - TOP}" for each in found)
        assert all(each.at.seconds == 1_767_225_600 + each.id - TOP for each in found)
        aside = read_topic(self.cluster, self.environment["ASIDE"])
        assert Counter(aside) == Counter(each for i, each in enumerate(self.sent) if i % 100 == 50)
        assert self.open_transactions() == []


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with DevRegistry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path, registry):
    made = InProtobuf(cluster, new_topic(1), new_topic(2), tmp_path / "checkpoint", job="protobuf")
    made.environment = {"REGISTRY": registry.url, "ASIDE": new_topic(1)}
    return made


@pytest.mark.parametrize(
    ("point", "epoch"),
    [
        ("D5", 1),
        *(pytest.param(point, n, marks=pytest.mark.faults) for n in (0, 1) for point in ("D2", "D3", "D4", "D6", "D7")),
    ],
)
def test_a_death_on_either_side_of_a_new_schema(pipeline, point, epoch):
    """The epoch before it, and the one in which it comes: what was decided is what is there."""
    pipeline.send_payments(RECORDS)
    pipeline.die_at(f"{point}@{epoch}")
    pipeline.run_well()
    pipeline.check_payments()
    code, report = audited(pipeline)
    assert (code, report["good"]) == (0, True)
