"""Which fields of an Iceberg table files were written for, on each level; and why the table has others now.

Must not know: catalogs, tasks, decisions.

Readers find a value by its field's id. So a file that was written for a field which is another one now, or whose name
is another one's, shows its values nowhere, or under another name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType


def written(fields: Iterable[NestedField]) -> list[list[Any]]:
    """Name, id and the fields inside of each, as JSON values: lists, of two where there is nothing inside."""
    return [[f.name, f.field_id, *([written(_inside(f.field_type))] if _inside(f.field_type) else [])] for f in fields]


def required(fields: Iterable[NestedField]) -> Iterator[int]:
    """The ids of those that take no null, on each level."""
    for field in fields:
        if field.required:
            yield field.field_id
        yield from required(_inside(field.field_type))


def objection(told: Sequence[Sequence[Any]], whole: Sequence[int], now: Sequence[NestedField]) -> str | None:
    """Why files that were written for these fields do not fit any more, or None.

    Args:
        told: What ``written`` gave; an older version kept nothing of what is inside of columns.
        whole: What ``required`` gave.
        now: The table's columns.
    """
    gone, taken, needed = list[str](), list[str](), list[str]()
    _compare(told, whole, now, "", (gone, taken, needed))
    if gone:
        return (
            f"columns of the table are gone: {', '.join(gone)}. In Iceberg one that is added is another one, whatever "
            "it is called: alter the table back by making current the schema that has it"
        )
    if taken:
        return f"another column is called: {', '.join(taken)}"
    return f"columns of the table take no null, and its files may have one: {', '.join(needed)}" if needed else None


def _compare(
    told: Sequence[Sequence[Any]],
    whole: Sequence[int],
    now: Sequence[NestedField],
    within: str,
    found: tuple[list[str], list[str], list[str]],
) -> None:
    gone, taken, needed = found
    by_id, ids = {field.field_id: field for field in now}, {field.name: field.field_id for field in now}
    for name, i, *inside in told:
        if i not in by_id:
            gone.append(within + name)
        elif ids.get(name, i) != i:
            taken.append(within + name)
        elif inside:
            _compare(inside[0], whole, _inside(by_id[i].field_type), f"{within}{name}.", found)
    needed += [within + field.name for field in now if field.required and field.field_id not in whole]


def _inside(kind: IcebergType) -> tuple[NestedField, ...]:
    match kind:
        case StructType():
            return kind.fields
        case ListType():
            return (kind.element_field,)
        case MapType():
            return (kind.key_field, kind.value_field)
    return ()
