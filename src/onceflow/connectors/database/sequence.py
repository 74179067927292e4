"""The order of changes: which of a key's rows is the newest, among those that are staged and beside the table's own.

Must not know: the ledger, who staged the rows, what they are changes of.

The sequence of each key's newest change stands in a table of ours, of deleted keys too, and is written by the
transaction that changes the row. Two changes are ordered

* by their generation;
* else, where both are of one server, by their positions: each lies between two, and the one whose first is behind the
  other's last is the newer;
* else, where both came through one stream, by their arrival in it.

What is ordered by none of these is refused, and so is what arrived behind a change that its positions lie before,
unless it is known exactly where it lies: of such ones a log sends some again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    Subquery,
    TableClause,
    and_,
    case,
    column,
    exists,
    func,
    literal,
    not_,
    or_,
    select,
    table,
    true,
)

from onceflow.connectors.database import tables as own
from onceflow.connectors.database.target import Target, UnorderedError
from onceflow.connectors.database.urls import database_of

GENERATION, SERVER, NOT_BEFORE, NOT_AFTER, STREAM, ARRIVAL = own.SEQUENCE
_RANK = "onceflow_rank"

_TELL = "and tell the servers in their order: Debezium(…, servers=(…))"
_FRESH = f"begin the connector with a topic.prefix of its own, whose snapshot reads the table anew, {_TELL}"
_NO_SEQUENCE = ("{} rows have no sequence: it is null", "filter such rows in the stream function, or give them one")
_TIES = (
    "{} keys have several changes of one sequence that differ",
    "let sequence_by name a column that is another one for each change of a key",
)
_SERVERS = (
    "{} keys have changes of several servers, whose positions do not compare",
    f"see whether both are meant {_TELL}",
)
_STREAMS = (
    "{} keys have changes from several partitions, whose positions do not tell which is the newer",
    f"leave the topic's number of partitions as it was; or {_FRESH}",
)
_PUT_BACK = (
    "{} keys were read by a snapshot that came behind changes and lies before them: the source was put back",
    _FRESH,
)
"""What is refused, with the number of keys or rows; and what to do."""


def hold(connection: Connection, schema: str | None, target: Target) -> None:
    """Wait until no other transaction writes this target's sequences, and let others wait.

    Two would not see each other's, and the older change could win.
    """
    marks = own.tables(schema).marks
    query = select(marks.c.id).where(marks.c.id == own.sequence_mark(target.sequence or ""))
    connection.execute(query.with_for_update()).all()


def newest(held: FromClause, schema: str | None, target: Target, attempts: Sequence[str]) -> Subquery:
    """Of the rows that these attempts have staged those which the target is to have: of each key at most one.

    Args:
        held: The staging table, or what stands for it.
        schema: Of onceflow's own tables.
        target: The target.
        attempts: Whose rows.
    """
    row, other = _candidates(held, target, attempts, "row"), _candidates(held, target, attempts, "other")
    kept = _sequences(schema, target)
    newer_staged = exists().where(_same_key(row, other, target), _newer(other, row))
    not_newer = exists().where(_same_key(row, kept, target), not_(_newer(row, kept)))
    columns: dict[str, ColumnElement[Any]] = {name: row.c[name] for name in (own.ID, own.HASH, *target.held)}
    columns |= _closer(row, [_exact(held, target, attempts), kept], target)
    named = (each.label(name) for name, each in columns.items())
    return select(*named).where(not_(newer_staged), not_(not_newer)).subquery("newest")


def _closer(row: Subquery, others: Sequence[FromClause], target: Target) -> dict[str, ColumnElement[Any]]:
    """Where the newest row of a key lies, known closer by those that it replaces: it is no older than they are.

    Without this a change that is sent again would win against a snapshot's read that came behind it.
    """
    server: ColumnElement[Any] = row.c[SERVER]
    first: ColumnElement[Any] = row.c[NOT_BEFORE]
    for other in others:
        alike = and_(_same_key(row, other, target), other.c[GENERATION] == row.c[GENERATION])
        behind = case((other.c[NOT_BEFORE] == other.c[NOT_AFTER], other.c[NOT_BEFORE] + 1), else_=other.c[NOT_BEFORE])
        of_other = select(behind).where(alike).correlate(row).scalar_subquery()
        first = case((of_other > first, of_other), else_=first)
        server = func.coalesce(server, select(other.c[SERVER]).where(alike).correlate(row).scalar_subquery())
    ranged = row.c[NOT_BEFORE] < row.c[NOT_AFTER]
    return {SERVER: server, NOT_BEFORE: case((ranged, first), else_=row.c[NOT_BEFORE])}


def require_order(
    connection: Connection, schema: str | None, held: FromClause, target: Target, attempts: Sequence[str]
) -> None:
    """Refuse rows of which nothing says whether they are newer than another one of their key.

    Args:
        connection: Within a transaction.
        schema: Of onceflow's own tables.
        held: The staging table.
        target: The target.
        attempts: Whose rows.

    Raises:
        UnorderedError: There are some.
    """
    mine, key = held.c[own.ID].in_(attempts), [held.c[name] for name in target.key]
    staged = select(literal(1)).where(mine)
    unknown = or_(*(held.c[name].is_(None) for name in (GENERATION, NOT_BEFORE, NOT_AFTER, STREAM, ARRIVAL)))
    _refuse(connection, staged.where(unknown), _NO_SEQUENCE)
    several = func.count(held.c[SERVER].distinct()) > 1
    _refuse(connection, staged.group_by(*key, held.c[GENERATION]).having(several), _SERVERS)
    differ = func.min(held.c[own.HASH]) != func.max(held.c[own.HASH])
    _refuse(connection, staged.group_by(*key, *(held.c[name] for name in own.SEQUENCE)).having(differ), _TIES)
    row, other = _candidates(held, target, attempts, "row"), _candidates(held, target, attempts, "other")
    kept = _sequences(schema, target)
    beside_kept = select(literal(1)).select_from(row.join(kept, _same_key(row, kept, target)))
    one = row.c[GENERATION] == kept.c[GENERATION]
    same = and_(*(row.c[name] == kept.c[name] for name in own.SEQUENCE))
    _refuse(connection, beside_kept.where(one, row.c[SERVER] != kept.c[SERVER]), _SERVERS)
    _refuse(connection, beside_kept.where(same, row.c[own.HASH] != kept.c[own.HASH]), _TIES)
    for beside in (other, kept):
        pairs = select(literal(1)).select_from(row.join(beside, _same_key(row, beside, target)))
        pairs = pairs.where(row.c[GENERATION] == beside.c[GENERATION])
        _refuse(connection, pairs.where(_overlap(row, beside), row.c[STREAM] != beside.c[STREAM]), _STREAMS)
        came_behind = and_(row.c[STREAM] == beside.c[STREAM], row.c[ARRIVAL] > beside.c[ARRIVAL])
        lies_before = and_(row.c[SERVER] == beside.c[SERVER], row.c[NOT_AFTER] < beside.c[NOT_BEFORE])
        _refuse(connection, pairs.where(row.c[NOT_BEFORE] < row.c[NOT_AFTER], came_behind, lies_before), _PUT_BACK)


def _refuse(connection: Connection, rows: Select[Any], said: tuple[str, str]) -> None:
    count = int(connection.execute(select(func.count()).select_from(rows.subquery())).scalar_one())
    if count:
        raise UnorderedError(said[0].format(count), said[1])


def keep(connection: Connection, schema: str | None, target: Target, merged: FromClause) -> None:
    """Write the sequences of rows that were merged; behind this they are no longer the newest.

    Args:
        connection: Within a transaction.
        schema: Of onceflow's own tables.
        target: The target.
        merged: They, as ``newest`` gave them.
    """
    names = (*target.key, *own.SEQUENCE, own.HASH, *([own.DELETE] if target.deletes else []))
    kept = Target(schema, str(target.sequence), "", names, target.key)
    source = select(*(merged.c[name] for name in names)).where(true())  # SQLite asks for a condition
    connection.execute(database_of(connection).insertion(_sequences(schema, target), kept, source))


def _sequences(schema: str | None, target: Target) -> TableClause:
    """The sequences of what the target has, as a statement names them."""
    columns = (*target.key, *own.SEQUENCE, own.HASH, own.DELETE)
    return table(str(target.sequence), *map(column, columns), schema=schema)


def _candidates(held: FromClause, target: Target, attempts: Sequence[str], name: str) -> Subquery:
    """Of each key the newest change whose position is known exactly, and all others.

    So a key that has changed often in an epoch is not compared with itself as often as that, squared.
    """
    ranked = _ranked(held, target, attempts, f"ranked_{name}")
    kept = [ranked.c[each] for each in (own.ID, own.HASH, *target.held)]
    return select(*kept).where(or_(ranked.c[_RANK] == 1, not_(_is_exact(ranked)))).subquery(name)


def _exact(held: FromClause, target: Target, attempts: Sequence[str]) -> Subquery:
    """Of each key the newest change whose position is known exactly."""
    ranked = _ranked(held, target, attempts, "ranked_exact")
    columns = (ranked.c[name] for name in (*target.key, *own.SEQUENCE))
    return select(*columns).where(_is_exact(ranked), ranked.c[_RANK] == 1).subquery("exact")


def _ranked(held: FromClause, target: Target, attempts: Sequence[str], name: str) -> Subquery:
    order = (held.c[GENERATION].desc(), held.c[NOT_BEFORE].desc(), held.c[ARRIVAL].desc())
    by = [*(held.c[each] for each in target.key), _is_exact(held)]
    rank = func.row_number().over(partition_by=by, order_by=order).label(_RANK)
    columns = [held.c[each] for each in (own.ID, own.HASH, *target.held)]
    return select(*columns, rank).where(held.c[own.ID].in_(attempts)).subquery(name)


def _is_exact(row: FromClause) -> ColumnElement[bool]:
    """It is known at which position it lies, and of which server that is."""
    return and_(row.c[NOT_BEFORE] == row.c[NOT_AFTER], row.c[SERVER].is_not(None))


def _same_key(one: FromClause, other: FromClause, target: Target) -> ColumnElement[bool]:
    return and_(*(one.c[name] == other.c[name] for name in target.key))


def _overlap(one: FromClause, other: FromClause) -> ColumnElement[bool]:
    """Their positions do not order them: they are of no known server, or none lies behind the other."""
    unknown = or_(one.c[SERVER].is_(None), other.c[SERVER].is_(None))
    return or_(unknown, and_(one.c[NOT_BEFORE] <= other.c[NOT_AFTER], other.c[NOT_BEFORE] <= one.c[NOT_AFTER]))


def _newer(one: FromClause, other: FromClause) -> ColumnElement[bool]:
    """Whether one is newer; false or true, never null, of rows that were not refused."""
    known = and_(one.c[SERVER].is_not(None), other.c[SERVER].is_not(None))
    behind = and_(known, one.c[NOT_BEFORE] > other.c[NOT_AFTER])
    later = and_(_overlap(one, other), one.c[ARRIVAL] > other.c[ARRIVAL])
    same_generation = and_(one.c[GENERATION] == other.c[GENERATION], or_(behind, later))
    return or_(one.c[GENERATION] > other.c[GENERATION], same_generation)
