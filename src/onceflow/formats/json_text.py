"""Values as JSON text: which types have a form there, and what is made of them.

Must not know: sinks, where the text goes, what else a record or a row has.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
)

from onceflow.errors import ConfigurationError
from onceflow.formats.refused import NOT_UTF8, not_utf8, refusing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column


def without_form(kind: DataType) -> str | None:
    """Why values of a type have no form in JSON, anywhere inside; None where they have.

    What is no text becomes one as a map's key: of bytes, arrays and structs what they are called in Java, another text
    in each run; of dates and times a count of days or microseconds.
    """
    match kind:
        case MapType():
            if not isinstance(kind.keyType, StringType | NumericType | BooleanType):
                return f"its keys are {kind.keyType.simpleString()}, and a key is a text there"
            return without_form(kind.valueType)
        case ArrayType():
            return without_form(kind.elementType)
        case StructType():
            twice = [name for name, times in Counter(kind.names).items() if times > 1]
            if twice:
                return f"it has two fields {twice[0]}"
            return next(filter(None, (without_form(field.dataType) for field in kind)), None)
    return None


def require_form(fields: Sequence[StructField]) -> None:
    """Refuse columns whose types have no form in JSON.

    Raises:
        ConfigurationError: By their names.
    """
    wrong = {field.name: why for field in fields if (why := without_form(field.dataType))}
    if wrong:
        raise ConfigurationError(
            "; ".join(f"column {name} has no form in JSON: {why}" for name, why in wrong.items()),
            cause=f"the output has {', '.join(f'{field.name} {field.dataType.simpleString()}' for field in fields)}",
            action="give it another type in the stream function; of a map's key for example "
            "F.transform_keys(column, lambda key, value: F.hex(key)), or key.cast('string')",
        )


def as_json(value: Column, columns: Mapping[str, tuple[Column, DataType]], options: Mapping[str, str]) -> Column:
    """A value as JSON text, of columns that have a form there.

    A row with a text that is not UTF-8 fails its task, since Spark would put U+FFFD in its place: see ``refused``.

    Args:
        value: What becomes an object, or an array.
        columns: Those of which it is made, by name, with their types.
        options: Spark's, of ``to_json``.
    """
    return only_utf8(F.to_json(value, dict(options)), columns)


def only_utf8(text: Column, columns: Mapping[str, tuple[Column, DataType]]) -> Column:
    """A text that Spark has made of columns; a row of which one had other bytes than UTF-8 fails its task.

    Args:
        text: The text, with U+FFFD where there were such bytes.
        columns: Of which it is made, by name, with their types.
    """
    conditions = [(not_utf8(column, of), name, of, NOT_UTF8) for name, (column, of) in columns.items()]
    refusal = refusing([(found, name, of, why) for found, name, of, why in conditions if found is not None])
    if refusal is None:
        return text
    # One CASE for all columns: inside of each other they are too deep for Spark's stack. What it asks first is the
    # text, since to look inside of an array takes longer than to write it. CONCAT lets Spark make the text only once.
    return F.concat(text, F.when(~F.contains(text, F.lit("\ufffd")), F.lit("")).otherwise(refusal))
