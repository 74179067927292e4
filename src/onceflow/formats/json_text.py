"""Values as JSON text: which types have a form there, and the refusal of texts that Spark would change on their way.

Must not know: sinks, where the text goes, what else a record or a row has.
"""

from __future__ import annotations

import json
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

from onceflow.errors import ConfigurationError, RowRefusedError
from onceflow.twophase.forms import OTHER_FORM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column

_MARKER = "onceflow-not-utf8:"
# Spark's own words; a plan, which Spark prints too, has the marker alone.
_RAISED = f"[USER_RAISED_EXCEPTION] {_MARKER}"


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


def as_json(value: Column, parts: Mapping[str, tuple[Column, DataType]], options: Mapping[str, str]) -> Column:
    """A value as JSON text, of columns that have a form there.

    A row with a text that is not UTF-8 fails its task, since Spark would put U+FFFD in its place: see ``refused_from``.

    Args:
        value: What becomes an object, or an array.
        parts: The columns of which it is made, by name, with their types.
        options: Spark's, of ``to_json``.
    """
    text = F.to_json(value, dict(options))
    # One CASE for all columns: inside of each other they are too deep for Spark's stack. What it asks first is the
    # text, since to look inside of an array takes longer than to write it. CONCAT lets Spark make the text only once.
    empty = F.lit("")
    strange = F.when(~F.contains(text, F.lit("\ufffd")), empty)
    for name, (column, of) in parts.items():
        found = _not_utf8(column, of)
        if found is not None:
            told = json.dumps({"column": name, "type": of.simpleString()})
            strange = strange.when(found, F.raise_error(F.lit(_MARKER + told)).cast("string"))
    if not any(_has_text(of) for _, of in parts.values()):
        return text
    return F.concat(text, strange.otherwise(empty))


def _not_utf8(column: Column, kind: DataType) -> Column | None:
    """Whether a text inside has other bytes, never null; None where there is none."""
    match kind:
        case StringType():
            return ~F.coalesce(F.is_valid_utf8(column), F.lit(True))
        case StructType():
            found = [_not_utf8(column.getField(field.name), field.dataType) for field in kind]
        case ArrayType():
            found = [_any(column, kind.elementType)]
        case MapType():
            found = [_any(F.map_keys(column), kind.keyType), _any(F.map_values(column), kind.valueType)]
        case _:
            return None
    some = [each for each in found if each is not None]
    if not some:
        return None
    strange = some[0]
    for each in some[1:]:
        strange |= each
    return strange


def _any(items: Column, kind: DataType) -> Column | None:
    if not _has_text(kind):
        return None
    return F.coalesce(F.exists(items, lambda item: _strange(item, kind)), F.lit(False))


def _strange(item: Column, kind: DataType) -> Column:
    found = _not_utf8(item, kind)
    return F.lit(False) if found is None else found


def _has_text(kind: DataType) -> bool:
    match kind:
        case StructType():
            return any(_has_text(field.dataType) for field in kind)
        case ArrayType():
            return _has_text(kind.elementType)
        case MapType():
            return _has_text(kind.keyType) or _has_text(kind.valueType)
    return isinstance(kind, StringType)


def refused_from(message: str) -> RowRefusedError | None:
    """The row that a failed query's message speaks of, if it does.

    Args:
        message: With the plan of the query behind it, as Spark has it of a query that ended for whatever reason.
    """
    at = message.find(_RAISED)
    if at < 0:
        return None
    try:
        told, _ = json.JSONDecoder().raw_decode(message, at + len(_RAISED))
        column, kind = str(told["column"]), str(told["type"])
    except OTHER_FORM:  # cut off on its way, or a row's own text
        return None
    return RowRefusedError(
        f"column {column} ({kind}) of a row has a text that is not UTF-8, and JSON has no other",
        harmless="for the data: nothing of the epoch is visible",
        cause="bytes were made a text as they are, by cast('string') for example",
        action="in the stream function keep them binary, which JSON has as base64; or leave such rows out by "
        "F.is_valid_utf8(column), or let F.make_valid_utf8(column) put U+FFFD into them",
        column=column,
    )
