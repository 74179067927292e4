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

A change's position is known exactly, or it is a *read*: a snapshot's, which lies anywhere before a position, or one of
which the server is unknown. Of one key and generation any two reads overlap, so the last that arrived is the newest of
them, and what is to be told is whether the newest exact change is newer than that. So each row is looked at beside two
others, which one pass of window functions finds: rows of a key are never joined with each other, which a server that
takes the staging table for empty would do in squares.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Subquery,
    TableClause,
    and_,
    case,
    column,
    func,
    literal,
    not_,
    or_,
    select,
    table,
)

from onceflow.connectors.database import tables as own
from onceflow.connectors.database.target import Target, UnorderedError
from onceflow.connectors.database.urls import database_of
from onceflow.formats.changes import FIRST, LAST

log = logging.getLogger(__name__)

GENERATION, SERVER, NOT_BEFORE, NOT_AFTER, STREAM, ARRIVAL = own.SEQUENCE
_EXACT, _TOP, _LAST, _KEPT = "onceflow_exact", "top_", "last_", "kept_"
_PLACE, _READ_PLACE, _NEWEST_GENERATION = "onceflow_place", "onceflow_read_place", "onceflow_newest_generation"
_SAME_SERVER, _SAME_CONTENT = "onceflow_same_server", "onceflow_same_content"

_TELL = "and tell the servers in their order: Debezium(…, servers=(…))"
_FRESH = f"begin the connector with a topic.prefix of its own, whose snapshot reads the table anew, {_TELL}"
_NO_SEQUENCE = (
    "{} rows have no sequence: it is null, or begins neither with the log nor where it ends",
    "filter such rows in the stream function, or give them one",
)
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

_AGAIN = (
    "table %s: %s of its keys are read by a second snapshot. A row that was deleted between the two stays there: no "
    "record tells it. Harmless if the snapshot was asked of a connector that ran all the time: its log has the "
    "deletes. Likely cause: the connector died in its first snapshot and began another. What to do: compare the number "
    "of rows with the source's; if they differ, begin a new job with an empty table, and a connector with a "
    "topic.prefix of its own"
)
_TOLD_AGAIN = set[str]()  # a snapshot lasts for many epochs


def hold(connection: Connection, schema: str | None, target: Target) -> None:
    """Wait until no other transaction writes this target's sequences, and let others wait.

    Two would not see each other's, and the older change could win.
    """
    marks = own.tables(schema).marks
    query = select(marks.c.id).where(marks.c.id == own.sequence_mark(target.sequence or ""))
    connection.execute(query.with_for_update()).all()


def keep(connection: Connection, schema: str | None, held: FromClause, target: Target, attempts: Sequence[str]) -> int:
    """Write the sequences of those rows that the target is to have: of each key at most one.

    Args:
        connection: Within a transaction, which has held the target's order.
        schema: Of onceflow's own tables.
        held: The staging table.
        target: The target.
        attempts: Whose rows.

    Returns:
        How many rows it is not to have: they are older than another one, or than what it has.

    Raises:
        UnorderedError: Nothing says of some rows whether they are newer than another one of their key.
    """
    row = _compared(held, schema, target, attempts)
    older = _require_order(connection, row, target)
    here, top, kept = _Change(row), _Change(row, _TOP), _Change(row, _KEPT)
    names = (*target.key, own.ID, *own.SEQUENCE, own.HASH, own.DELETE)
    columns: dict[str, ColumnElement[Any]] = {name: row.c[name] for name in names if name in row.c}
    columns.setdefault(own.DELETE, literal(0))
    # It is no older than what it replaces: else a change that is sent again would win against a snapshot's read that
    # came behind it.
    first: ColumnElement[Any] = here.not_before
    server: ColumnElement[Any] = here.server
    for other, there in ((top, _there_is(row.c[_TOP + _EXACT])), (kept, here.generation == kept.generation)):
        behind = case((other.not_before == other.not_after, other.not_before + 1), else_=other.not_before)
        first = case((and_(there, behind > first), behind), else_=first)
        server = func.coalesce(server, case((there, other.server)))
    columns |= {SERVER: server, NOT_BEFORE: case((here.ranged, first), else_=here.not_before)}
    source = select(*(each.label(name) for name, each in columns.items())).where(_wins(row))
    into = Target(schema, str(target.sequence), "", names, target.key)
    connection.execute(database_of(connection).insertion(_sequences(schema, target), into, source))
    return older


def winners(held: FromClause, schema: str | None, target: Target, attempts: Sequence[str]) -> Subquery:
    """The staged rows of which ``keep`` has written the sequences.

    Args:
        held: The staging table.
        schema: Of onceflow's own tables.
        target: The target.
        attempts: Whose rows.
    """
    kept, names = _sequences(schema, target), (own.ID, *target.held)
    alike = [held.c[name] == kept.c[name] for name in (*target.key, own.ID, GENERATION, STREAM, ARRIVAL, own.HASH)]
    alike.append(held.c[NOT_AFTER] == kept.c[NOT_AFTER])  # where it begins was known closer
    # A row may be there twice: with a sequence and a content that are the same it is one change.
    key = [held.c[name] for name in target.key]
    once = func.row_number().over(partition_by=key, order_by=key).label(_PLACE)
    found = select(*(held.c[name] for name in names), once).select_from(held.join(kept, and_(*alike)))
    row = found.where(held.c[own.ID].in_(attempts)).subquery("matched")
    return select(*(row.c[name] for name in names)).where(row.c[_PLACE] == 1).subquery("newest")


def _require_order(connection: Connection, row: Subquery, target: Target) -> int:
    """Refuse rows of which nothing says whether they are newer than another one; how many do not win."""
    here, top, last, kept = (_Change(row, of) for of in ("", _TOP, _LAST, _KEPT))
    is_exact, has_top = _there_is(row.c[_EXACT]), _there_is(row.c[_TOP + _EXACT])
    beside_top = and_(has_top, not_(is_exact))
    # An exact change that is not the newest of them is never written: nothing hangs on it.
    beside_kept = and_(or_(row.c[_PLACE] == 1, not_(is_exact)), here.generation == kept.generation)
    same = and_(*(row.c[name] == row.c[_KEPT + name] for name in own.SEQUENCE))
    # All that is told below of two reads rests on both beginning where the log does.
    no_range = or_(here.not_before > here.not_after, and_(here.ranged, here.not_before != FIRST))
    null = (row.c[name].is_(None) for name in (GENERATION, NOT_BEFORE, NOT_AFTER, STREAM, ARRIVAL))
    unknown = or_(no_range, *null)
    servers = or_(row.c[_SAME_SERVER] == 0, and_(beside_kept, here.server != kept.server))
    ties = or_(row.c[_SAME_CONTENT] == 0, and_(beside_kept, same, row.c[own.HASH] != row.c[_KEPT + own.HASH]))
    streams = or_(
        and_(not_(is_exact), here.stream != last.stream),
        and_(beside_top, _overlap(here, top), here.stream != top.stream),
        and_(is_exact, here.not_before == top.not_before, here.stream != top.stream),
        and_(beside_kept, _overlap(here, kept), here.stream != kept.stream),
    )
    put_back = and_(
        here.ranged, or_(and_(beside_top, _came_behind(here, top)), and_(beside_kept, _came_behind(here, kept)))
    )
    refused = ((_SERVERS, servers), (_TIES, ties), (_STREAMS, streams), (_PUT_BACK, put_back))
    rows = func.sum(_number(unknown)).label("r")
    keys = [func.max(_number(holds)).label(f"k{n}") for n, (_, holds) in enumerate(refused)]
    older = func.sum(case((_wins(row), 0), else_=1)).label("older")
    # A key that only snapshots have told of, and at another position now. One of a single key has none.
    read_again = and_(here.ranged, here.not_after < LAST, kept.not_before == FIRST, kept.not_after < here.not_after)
    again = func.max(_number(and_(beside_kept, read_again))).label("again")
    of_key = select(older, again, rows, *keys).group_by(*(row.c[name] for name in target.key)).subquery()
    left_out, told_again, *counts = connection.execute(select(*(func.sum(each) for each in of_key.c))).one()
    for (said, what_to_do), count in zip((_NO_SEQUENCE, *(said for said, _ in refused)), counts, strict=True):
        if count:
            raise UnorderedError(said.format(count), what_to_do)
    if told_again and target.name not in _TOLD_AGAIN:
        _TOLD_AGAIN.add(target.name)
        log.warning(_AGAIN, target.name, told_again)
    return int(left_out or 0)


def _sequences(schema: str | None, target: Target) -> TableClause:
    """The sequences of what the target has, as a statement names them."""
    columns = (*target.key, own.ID, *own.SEQUENCE, own.HASH, own.DELETE)
    return table(str(target.sequence), *map(column, columns), schema=schema)


def _compared(held: FromClause, schema: str | None, target: Target, attempts: Sequence[str]) -> Subquery:
    """Each row, with what it is looked at beside.

    ``top_``: of its key and generation the newest exact change, if there is one; ``last_``: the read that arrived last,
    if there is one; ``kept_``: what the target has of the key.
    """
    key = [held.c[name] for name in target.key]
    exact = _number(and_(held.c[NOT_BEFORE] == held.c[NOT_AFTER], held.c[SERVER].is_not(None)))
    of = [*key, held.c[GENERATION]]
    by_position: dict[str, Any] = {
        "partition_by": of,
        "order_by": (exact.desc(), held.c[NOT_BEFORE].desc(), held.c[ARRIVAL].desc()),
    }
    by_arrival: dict[str, Any] = {"partition_by": of, "order_by": (exact, held.c[ARRIVAL].desc())}
    alike: dict[str, Any] = {"partition_by": [*key, *(held.c[name] for name in own.SEQUENCE)]}
    least, greatest = (of_all(held.c[SERVER]).over(partition_by=of) for of_all in (func.min, func.max))
    one, other = (of_all(held.c[own.HASH]).over(**alike) for of_all in (func.min, func.max))
    columns = [held.c[name] for name in (own.ID, own.HASH, *target.held)]
    columns += [
        exact.label(_EXACT),
        func.row_number().over(**by_position).label(_PLACE),
        func.row_number().over(**by_arrival).label(_READ_PLACE),
        func.max(held.c[GENERATION]).over(partition_by=key).label(_NEWEST_GENERATION),
        case((least != greatest, 0), else_=1).label(_SAME_SERVER),
        case((one != other, 0), else_=1).label(_SAME_CONTENT),
    ]
    for prefix, window in ((_TOP, by_position), (_LAST, by_arrival)):
        columns += [func.first_value(held.c[n]).over(**window).label(prefix + n) for n in own.SEQUENCE[1:]]
        columns += [
            held.c[GENERATION].label(prefix + GENERATION),
            func.first_value(exact).over(**window).label(prefix + _EXACT),
        ]
    row = select(*columns).where(held.c[own.ID].in_(attempts)).subquery("staged")
    kept = _sequences(schema, target)
    of_kept = [kept.c[name].label(_KEPT + name) for name in (*own.SEQUENCE, own.HASH)]
    same_key = and_(*(row.c[name] == kept.c[name] for name in target.key))
    return select(*row.c, *of_kept).select_from(row.outerjoin(kept, same_key)).subquery("compared")


class _Change:
    """A change's sequence, as columns of a row.

    Args:
        row: The row.
        prefix: Of the columns' names.
    """

    def __init__(self, row: FromClause, prefix: str = "") -> None:
        self.generation, self.server, self.not_before, self.not_after, self.stream, self.arrival = (
            row.c[prefix + name] for name in own.SEQUENCE
        )
        self.ranged = self.not_before < self.not_after


def _wins(row: Subquery) -> ColumnElement[bool]:
    """It is the newest of its key's rows that are staged, and newer than what the target has of it."""
    top, last = _Change(row, _TOP), _Change(row, _LAST)
    no_read = _there_is(row.c[_LAST + _EXACT])
    exact = and_(_there_is(row.c[_TOP + _EXACT]), or_(no_read, _newer(top, last)))
    place = case((exact, row.c[_PLACE]), else_=row.c[_READ_PLACE])
    kept = _Change(row, _KEPT)
    behind_kept = or_(kept.generation.is_(None), _newer(_Change(row), kept))
    return and_(row.c[GENERATION] == row.c[_NEWEST_GENERATION], place == 1, behind_kept)


def _overlap(one: _Change, other: _Change) -> ColumnElement[bool]:
    """Their positions do not order them: they are of no known server, or none lies behind the other."""
    unknown = or_(one.server.is_(None), other.server.is_(None))
    return or_(unknown, and_(one.not_before <= other.not_after, other.not_before <= one.not_after))


def _newer(one: _Change, other: _Change) -> ColumnElement[bool]:
    """Whether one is newer; false or true, never null, of rows that were not refused."""
    known = and_(one.server.is_not(None), other.server.is_not(None))
    behind = and_(known, one.not_before > other.not_after)
    later = and_(_overlap(one, other), one.arrival > other.arrival)
    same_generation = and_(one.generation == other.generation, or_(behind, later))
    return or_(one.generation > other.generation, same_generation)


def _came_behind(one: _Change, other: _Change) -> ColumnElement[bool]:
    """It arrived later, and lies before the other."""
    later = and_(one.stream == other.stream, one.arrival > other.arrival)
    return and_(later, one.server == other.server, one.not_after < other.not_before)


def _number(holds: ColumnElement[bool]) -> ColumnElement[int]:
    return case((holds, literal(1)), else_=literal(0))


def _there_is(number: ColumnElement[int]) -> ColumnElement[bool]:
    return number == 1
