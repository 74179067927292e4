"""Schemas as DDL or a ``StructType``: whether one is given, has fields, and is one that Spark understands.

Must not know: any particular format.
"""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql.types import DataType, StructType

from onceflow.errors import ConfigurationError

Given = str | StructType | None


def require_fields_in(schema: Given, whose: str) -> None:
    """Refuse a schema that is given and has no fields."""
    if schema is not None and not (schema.strip() if isinstance(schema, str) else schema.fields):
        raise ConfigurationError(
            f"{whose} has a schema without fields",
            cause=f"schema={schema!r}",
            action=_named(whose),
        )


def require_given(schema: Given, whose: str) -> None:
    """Refuse to read without a schema."""
    if schema is None:
        raise ConfigurationError(
            f"a source cannot read {whose} without a schema",
            cause=f"{whose}() has schema=None",
            action=_named(whose),
        )


def schema_of(schema: Given, whose: str) -> StructType:
    """A schema as Spark has it.

    Raises:
        ConfigurationError: There is none, Spark cannot parse it, or it is no record's.
    """
    require_given(schema, whose)
    if isinstance(schema, StructType):
        return schema
    try:
        found = DataType.fromDDL(str(schema))
    except PySparkException as error:
        first_line = next((line for line in str(error).splitlines() if line.strip()), "")
        raise ConfigurationError(
            f"the schema of {whose} is no DDL that Spark understands: {first_line}",
            cause=f"schema={schema!r}",
            action="correct it; the types are those of CREATE TABLE in Spark SQL",
        ) from error
    if not isinstance(found, StructType):
        raise ConfigurationError(
            f"the schema of {whose} is a single type, but a record has named fields",
            cause=f"schema={schema!r}",
            action=_named(whose),
        )
    return found


def _named(whose: str) -> str:
    return f'name the fields, for example {whose}("user_id string, amount decimal(18,2)")'
