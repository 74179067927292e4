"""Schemas of Avro and their bytes, by a library that is not Spark's."""

import io
import struct

import fastavro


def record(kind, **more):
    """A record with the one field f."""
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind, **more}]}


def logical(kind, name, **more):
    """A logical type upon a type."""
    return {"type": kind, "logicalType": name, **more}


def bytes_of(schema, value):
    """A value's bytes, without a schema's id."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def framed(schema_id, data):
    """A value's bytes behind the id of their schema, as Confluent has it."""
    return b"\0" + struct.pack(">I", schema_id) + data


def id_in(data):
    """The id before a value's bytes."""
    return struct.unpack(">I", data[1:5])[0]


def nullable(kinds):
    """Fields that may be null, and are where a writer has none: by name their types."""
    return [{"name": name, "type": ["null", kind], "default": None} for name, kind in kinds.items()]
