"""Rows that have no form where they go: found while they are written, and told by their column.

Spark would put something else in the place of what has no form, or fail by words that name no column. So the text
or bytes that are written carry a condition, which raises a line of ours; it never holds anything of the row.
Must not know: sinks, where the bytes go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from onceflow.errors import ConfigurationError, RowRefusedError
from onceflow.twophase.forms import OTHER_FORM

if TYPE_CHECKING:
    from pyspark.sql import Column

_MARKER = "onceflow-row-refused:"
# Spark's own words; a plan, which Spark prints too, has the marker alone.
_RAISED = f"[USER_RAISED_EXCEPTION] {_MARKER}"

NOT_UTF8 = "has a text that is not UTF-8"
_KEEP_BINARY = (
    "in the stream function keep it binary, which JSON has as base64; or leave such rows out by "
    "F.is_valid_utf8(column), or let F.make_valid_utf8(column) put U+FFFD into them"
)
_ACTION = "in the stream function leave such rows out, or make them what the sink's format has"


def refusing(refusals: Iterable[tuple[Column, str, DataType, str]]) -> Column | None:
    """An empty text; where one of the conditions holds the row fails its task. None where there is no condition.

    Args:
        refusals: Conditions, each with the column's name, its type, and why it has no form.
    """
    found: Column | None = None
    for condition, name, of, why in refusals:
        told = json.dumps({"column": name, "type": of.simpleString(), "why": why})
        failure = F.raise_error(F.lit(_MARKER + told)).cast("string")
        found = F.when(condition, failure) if found is None else found.when(condition, failure)
    return None if found is None else found.otherwise(F.lit(""))


def refusing_by(column: Column, why: Column) -> Column:
    """Bytes that are never had: the row fails its task, by a column's name and a reason that were found in it."""
    told = F.to_json(F.struct(column.alias("column"), F.lit("").alias("type"), why.alias("why")))
    return F.raise_error(F.concat(F.lit(_MARKER), told)).cast("binary")


def require_no_trouble(troubles: Sequence[str], columns: Sequence[StructField], whose: str) -> None:
    """Refuse columns that a schema cannot hold.

    Args:
        troubles: Why, of each by its name, its type, and what the schema has; empty where all fit.
        columns: All of them.
        whose: Whose schema it is, for the message.

    Raises:
        ConfigurationError: There is a trouble.
    """
    if troubles:
        raise ConfigurationError(
            f"the columns do not fit {whose}: {'; '.join(troubles)}",
            harmless="always: nothing was written",
            cause=f"the output has {', '.join(f'{field.name} {field.dataType.simpleString()}' for field in columns)}",
            action="cast or rename the columns in the stream function, or give the sink's format another schema",
            columns=[field.name for field in columns],
        )


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
        column, kind, why = str(told["column"]), str(told["type"]), str(told["why"])
    except OTHER_FORM:  # cut off on its way, or a row's own text
        return None
    return RowRefusedError(
        f"column {column}{f' ({kind})' if kind else ''} of a row {why}",
        harmless="for the data: nothing of the epoch is visible",
        cause="a row that the sink's format has no form for"
        if why != NOT_UTF8
        else "bytes were made a text as they are, by cast('string') for example",
        action=_KEEP_BINARY if why == NOT_UTF8 else _ACTION,
        column=column,
    )


def not_utf8(column: Column, kind: DataType) -> Column | None:
    """Whether a text inside has other bytes, never null; None where there is no text inside."""
    match kind:
        case StringType():
            return ~F.coalesce(F.is_valid_utf8(column), F.lit(True))
        case StructType():
            found = [not_utf8(column.getField(field.name), field.dataType) for field in kind]
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
    if not has_text(kind):
        return None
    return F.coalesce(F.exists(items, lambda item: _strange(item, kind)), F.lit(False))


def _strange(item: Column, kind: DataType) -> Column:
    found = not_utf8(item, kind)
    return F.lit(False) if found is None else found


def has_text(kind: DataType) -> bool:
    """Whether a type has a text inside."""
    match kind:
        case StructType():
            return any(has_text(field.dataType) for field in kind)
        case ArrayType():
            return has_text(kind.elementType)
        case MapType():
            return has_text(kind.keyType) or has_text(kind.valueType)
    return isinstance(kind, StringType)
