"""Schemas of Avro and their bytes, by a library that is not Spark's."""

import io

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
