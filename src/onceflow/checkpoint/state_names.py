"""What Spark's own files call the columns of each state.

Must not know: plans, the journal, what is made of the names. Of a checkpoint that an older onceflow has written nothing
else tells what stands in a state. Spark writes the schemas of an operator's stores beside its first partition, those of
a state class into the operator's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from onceflow.errors import CheckpointStoreError
from onceflow.storage.files import numbers
from onceflow.storage.store import Store
from onceflow.twophase.forms import OTHER_FORM

_SIDES = ("left-keyWithIndexToValue", "right-keyWithIndexToValue")
_MATCHED, _STATE = "matched", "groupState"
_OF_SPARK = "$"
"""So begin the names of what Spark keeps for itself: timers, times at which values end."""


def names_in(checkpoint: Store) -> list[tuple[str, ...]] | None:
    """For each operator, the names of its columns that tell them apart, in any order of operators.

    Of a join both sides' columns, of a function with state its state's fields, of a state class its variables, of any
    other its keys: functions of an aggregation are called by their kind alone. None where Spark's files do not tell.
    """
    states = checkpoint.below("state")
    try:
        return [tuple(_names(states.below(str(number)))) for number in sorted(numbers(states.names()))]
    except (CheckpointStoreError, FileNotFoundError, *OTHER_FORM):
        return None


def _names(operator: Store) -> Iterator[str]:
    first = operator.below("0")
    if "left-keyWithIndexToValue" in first.names():
        for side in _SIDES:
            _, values = _schemas(first.below(side))
            own = values[-1:] == [(_MATCHED, [])]  # Spark's own stands behind the columns, one of which may be named so
            yield from (name for name, _ in (values[:-1] if own else values))
        return
    versions = numbers(operator.below("_metadata").below("v2").names())
    if versions:
        text = operator.below("_metadata").below("v2").read(str(max(versions))).decode()
        told = json.loads(json.loads(text.partition("\n")[2])["operatorPropertiesJson"])
        names = (str(each["stateName"]) for each in told["stateVariables"])
        yield from sorted(name for name in names if not name.startswith(_OF_SPARK))
        return
    keys, values = _schemas(first)
    yield from dict(values).get(_STATE) or [name for name, _ in keys]


_Columns = list[tuple[str, list[str]]]
"""Names of columns, in order, each with the names of its fields; two may have the same."""


def _schemas(store: Store) -> tuple[_Columns, _Columns]:
    """The columns of the key, and of the value."""
    text = store.below("_metadata").read("schema").decode(errors="replace")
    found, at = [], text.find('{"type":"struct"')
    while at >= 0:
        schema, end = json.JSONDecoder().raw_decode(text, at)
        found.append([(str(field["name"]), _fields(field["type"])) for field in schema["fields"]])
        at = text.find('{"type":"struct"', end)
    return found[0], found[1]


def _fields(kind: Any) -> list[str]:
    return [str(field["name"]) for field in kind.get("fields", ())] if isinstance(kind, dict) else []
