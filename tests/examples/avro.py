"""Records of an example in Avro: by schemas of which the second comes in the middle, and read by a library of others.

Must not know: the job, onceflow's own Avro.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import fastavro
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from tests.examples import inputs

_FIRST = {
    "type": "record",
    "name": "Payment",
    "namespace": "shop",
    "fields": [
        {"name": "payment_id", "type": "string"},
        {"name": "user_id", "type": "string"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}},
        {"name": "paid_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
_CURRENCY = {
    "name": "currency",
    "type": {"type": "enum", "name": "Currency", "symbols": ["EUR", "USD"]},
    "default": "EUR",
}
_LATE = {"name": "late", "type": "boolean", "default": False}
_SECOND = {**_FIRST, "fields": [_CURRENCY, *_FIRST["fields"], _LATE]}
SCHEMAS: Mapping[str, Sequence[Mapping[str, Any]]] = {"avro-payments": (_FIRST, _SECOND)}
"""By topic: those of its records, in the order in which they come."""


class Codec:
    """What the input is written by, and all is read by.

    Args:
        url: The registry's.
    """

    def __init__(self, url: str) -> None:
        self._client = SchemaRegistryClient({"url": url})
        # A subject of its own for each: what the job does not read ahead it must look up when it comes.
        self._ids = {
            topic: [
                self._client.register_schema(f"{topic}-value{'-next' * n}", Schema(json.dumps(schema), "AVRO"))
                for n, schema in enumerate(schemas)
            ]
            for topic, schemas in SCHEMAS.items()
        }
        self._read: dict[int, Any] = {}

    def encode(self, topic: str, value: Mapping[str, Any], which: int) -> bytes:
        """A record by one of its topic's schemas."""
        schema, out = SCHEMAS[topic][which], io.BytesIO()
        given = dict(value) | {
            "amount": Decimal(str(value["amount"])),
            "paid_at": datetime.fromisoformat(value["paid_at"]),
        }
        if which:
            given |= {"currency": "USD", "late": bool(value.get("late"))}
        fastavro.schemaless_writer(out, fastavro.parse_schema(dict(schema)), given)
        return b"\0" + struct.pack(">I", self._ids[topic][which]) + out.getvalue()

    def decode(self, data: bytes) -> Mapping[str, Any]:
        """A record as JSON would have it, but for its decimals."""
        (schema_id,) = struct.unpack(">I", data[1:5])
        if schema_id not in self._read:
            self._read[schema_id] = fastavro.parse_schema(
                json.loads(str(self._client.get_schema(schema_id).schema_str))
            )
        found = fastavro.schemaless_reader(io.BytesIO(data[5:]), self._read[schema_id], None)
        told = {name: inputs.said(value) if isinstance(value, datetime) else value for name, value in found.items()}
        return {name: value for name, value in told.items() if value is not False}
