"""One SELECT whose FROM is known: its joins, its groups, and what it gives, in Spark's SQL.

Must not know: connectors, Spark sessions, jobs, where its tables come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sqlglot import exp

from onceflow.errors import ConfigurationError
from onceflow.flinksql import functions
from onceflow.flinksql.expressions import Expressions
from onceflow.flinksql.functions import AGGREGATES
from onceflow.flinksql.kinds import BIGINT, TIMESTAMP, Kind, quoted
from onceflow.flinksql.pieces import Piece, QueryText, interval_ms, name_of
from onceflow.flinksql.problems import meant
from onceflow.flinksql.relations import (
    KEEP_COLUMN,
    PARTS,
    SEQUENCE_COLUMN,
    WINDOW,
    WINDOW_COLUMN,
    Catalogue,
    Column,
    FromEntry,
    Query,
    part_of,
    window_text,
)

_LEGACY = {"START": "window_start", "END": "window_end", "ROWTIME": "window_time"}
_GATHERING = ("FIRST_VALUE", "LAST_VALUE", "LISTAGG", "COLLECT", "ARRAY_AGG", "STDDEV_SAMP", "VAR_SAMP")


class Around(Protocol):
    """The query that a SELECT stands in."""

    text: QueryText
    catalogue: Catalogue

    def number(self) -> int:
        """One that no other name has."""

    def entry(self, node: exp.Expr, joined: exp.Expr | None) -> FromEntry:
        """One of the things that FROM and JOIN name."""

    def refused(self, node: exp.Expr, name: str, why: str, instead: str) -> ConfigurationError:
        """What is not taken, at its place."""

    def wrong(self, node: exp.Expr, what: str, action: str = "") -> ConfigurationError:
        """What cannot be understood, at its place."""


@dataclass
class _Groups:
    """What the rows of a SELECT are gathered by, and what is computed of each group."""

    keys: dict[str, str] = field(default_factory=dict)
    """The text of each key, by its name in the gathered rows."""
    kinds: dict[str, Kind] = field(default_factory=dict)
    aggregates: dict[str, tuple[str, Kind]] = field(default_factory=dict)
    window: str = ""
    """The text of the window, if it is among the keys."""
    spoken: str = ""
    legacy: tuple[str, ...] = ()


class Selection:
    """One SELECT whose FROM is known."""

    def __init__(self, of: Around, node: exp.Select, scope: list[FromEntry], condition: exp.Expr | None) -> None:
        self._of, self._node, self._scope, self._condition = of, node, scope, condition
        self._text: QueryText = of.text
        self._catalogue = of.catalogue
        self._rows = Expressions(self._text, self._column, lambda _: None, self._catalogue.functions)
        self._groups = _Groups()
        self._notes: list[str] = []
        self._window = scope[0].query.window

    def query(self) -> Query:
        """The query."""
        table = f"(\n{self._scope[0].query.sql}\n) {quoted(self._scope[0].alias)}"
        joins = list(self._node.args.get("joins") or ())
        if len(joins) == 1 and not joins[0].args.get("side") and self._condition is not None:
            # Of an inner join WHERE and ON are one: FROM a, b WHERE a.k = b.k AND a.ts BETWEEN … bounds its times, too.
            both = [each for each in (joins[0].args.get("on"), self._condition) if each is not None]
            joins[0].set("on", exp.and_(*both) if len(both) > 1 else both[0])
            self._condition = None
        for join in joins:
            table = self._join(table, join)
        where = "" if self._condition is None else self._where(self._condition)
        if self._is_gathered():
            return self._gathered(table, where)
        return self._plain(table, where)

    def _where(self, condition: exp.Expr) -> str:
        found = self._rows.piece(condition)
        if found.kind.name not in ("BOOLEAN", "NULL"):
            raise self._of.wrong(condition, f"WHERE takes a condition, and this is {found.kind}")
        return found.sql

    # -- names ------------------------------------------------------------------------------------

    def _column(self, node: exp.Column) -> Piece:
        parts = [
            each for each in (node.args.get("catalog"), node.args.get("db"), node.args.get("table")) if each is not None
        ]
        if isinstance(node.this, exp.Star):
            raise self._of.wrong(node, "* stands for columns, and one is expected here")
        names = [name_of(each, self._text) for each in (*parts, node.this)]
        found = self._found(names, node)
        entry, column, rest = found
        piece = entry.piece(column)
        for name in rest:
            piece = self._rows.field(node, piece, name)
        return piece

    def _found(self, names: Sequence[str], node: exp.Expr) -> tuple[FromEntry, Column, Sequence[str]]:
        """By the alias and the column; or by the column alone; what is behind are fields."""
        for entry in self._scope:
            if len(names) > 1 and entry.alias == names[0]:
                column = _column_of(entry, names[1])
                if column is not None:
                    return entry, column, names[2:]
        matches = [(e, c) for e in self._scope if (c := _column_of(e, names[0])) is not None]
        if len(matches) > 1:
            aliases = " and ".join(entry.alias for entry, _ in matches)
            raise self._of.wrong(
                node, f"{names[0]} is a column of {aliases}", f"write {matches[0][0].alias}.{names[0]}"
            )
        if matches:
            return *matches[0], names[1:]
        known = [column.name for entry in self._scope for column in entry.query.columns]
        known += [entry.alias for entry in self._scope]
        raise self._of.wrong(
            node, f"there is no column {'.'.join(names)}", meant(names[-1], known, f"there are {', '.join(known)}")
        )

    # -- JOIN -------------------------------------------------------------------------------------

    def _join(self, table: str, join: exp.Expr) -> str:
        side = str(join.args.get("side") or "").upper()
        kind = str(join.args.get("kind") or "").upper()
        method = str(join.args.get("method") or "").upper()
        refuse = self._of.refused
        if join.args.get("using"):
            raise refuse(join, "USING", "it is not taken yet", "write ON a.k = b.k")
        if method or kind not in ("", "INNER", "OUTER") or side not in ("", "LEFT", "RIGHT", "FULL"):
            raise refuse(
                join, f"{method or kind} JOIN", "it is not taken", "write JOIN … ON, LEFT, RIGHT or FULL JOIN … ON"
            )
        on = join.args.get("on")
        if on is None:
            raise refuse(
                join.this, "a join without a condition", "it would have to keep each row for ever", "write JOIN … ON"
            )
        left = self._scope[-1] if len(self._scope) == 1 else None
        right = self._of.entry(join.this, join)
        if any(entry.alias == right.alias for entry in self._scope):
            raise self._of.wrong(join.this, f"two tables are called {right.alias}", "give one an alias")
        if right.query.updating or any(entry.query.updating for entry in self._scope):
            raise refuse(join, "a join of a query that updates", "its rows replace each other", "group in windows")
        outer = bool(side)
        self._scope.append(right)
        windows, text, timed = self._conditions(on, left, right)
        streams = not right.query.static and not all(entry.query.static for entry in self._scope[:-1])
        if windows:
            self._notes.append("a join of windows: each pair of rows is given once")
        elif streams and not timed:
            if outer:
                raise refuse(
                    on,
                    "an outer join without times",
                    "a row that comes later would take one back",
                    "bound it: AND a.ts BETWEEN b.ts - INTERVAL '1' HOUR AND b.ts",
                )
            self._notes.append(
                "a join that does not bound the time of one table by the other's from both sides keeps rows for ever"
            )
        if right.query.static and side in ("RIGHT", "FULL"):
            raise refuse(on, f"a {side} JOIN with a table", "a stream has no end", "write LEFT JOIN")
        self._after_join(windows=windows, timed=timed, streams=streams)
        word = f"{side} OUTER JOIN" if side else "JOIN"
        return f"{table}\n{word} (\n{right.query.sql}\n) {quoted(right.alias)} ON {text}"

    def _conditions(self, on: exp.Expr, left: FromEntry | None, right: FromEntry) -> tuple[bool, str, bool]:
        """Whether it joins windows; its text; whether it bounds times."""
        texts, parts, bounds = [], set(), set[str]()
        for each in conjuncts(on):
            pair = self._pair_of_windows(each)
            if pair is not None and left is not None and left.query.window and right.query.window:
                parts.add(pair)
                continue
            texts.append(self._where(each))
            bounds |= self._bounds_of_times(each)
        if parts and parts != {"window_start", "window_end"}:
            raise self._of.refused(
                on, "a join by a part of a window", "windows are joined whole", "write window_start and window_end"
            )
        if parts and left is not None:
            if left.query.window != right.query.window:
                raise self._of.wrong(on, f"windows of two kinds: {left.query.window} and {right.query.window}")
            texts.insert(0, f"{quoted(left.alias)}.{WINDOW_COLUMN} = {quoted(right.alias)}.{WINDOW_COLUMN}")
        return bool(parts), " AND ".join(texts) or "true", len(bounds) == 2

    def _pair_of_windows(self, node: exp.Expr) -> str | None:
        if (
            not isinstance(node, exp.EQ)
            or not isinstance(node.this, exp.Column)
            or not isinstance(node.expression, exp.Column)
        ):
            return None
        one, other = self._column(node.this), self._column(node.expression)
        return one.role if one.role == other.role and one.role in PARTS[:2] and one.window != other.window else None

    def _bounds_of_times(self, node: exp.Expr) -> set[str]:
        """From which sides a condition bounds the time of one table by that of another: both make an interval."""
        if isinstance(node, exp.Between):
            low, high = node.args["low"], node.args["high"]
            return self._bound(node.this, low, above=True) | self._bound(node.this, high, above=False)
        if isinstance(node, exp.EQ):
            bound = self._bound(node.this, node.expression, above=True)
            return {"from", "to"} if bound else bound
        if isinstance(node, exp.GT | exp.GTE | exp.LT | exp.LTE):
            return self._bound(node.this, node.expression, above=isinstance(node, exp.GT | exp.GTE))
        return set()

    def _bound(self, one: exp.Expr, other: exp.Expr, *, above: bool) -> set[str]:
        """The bound that one expression of a table's time is to another of another's, as of the table first in name."""
        of, by = self._whose_times(one), self._whose_times(other)
        if len(of) != 1 or len(by) != 1 or of == by:
            return set()
        return {"from" if above == (min(of) < min(by)) else "to"}

    def _whose_times(self, node: exp.Expr) -> set[str]:
        columns = [each for each in node.find_all(exp.Column) if not isinstance(each.this, exp.Star)]
        return {piece.sql.partition(".")[0] for each in columns if (piece := self._rows.piece(each)).role == "rowtime"}

    def _after_join(self, *, windows: bool, timed: bool, streams: bool) -> None:
        """Behind a join of streams without times Flink knows no event time, and of two windows the first is told."""
        if streams:
            self._scope[:] = [
                replace(entry, in_window=windows and i == 0, in_time=timed or (windows and i == 0))
                for i, entry in enumerate(self._scope)
            ]
        self._window = self._scope[0].query.window if windows or not streams else ""

    # -- rows as they are -------------------------------------------------------------------------

    def _plain(self, table: str, where: str) -> Query:
        first = self._scope[0].query
        if self._node.args.get("having") is not None:
            raise self._of.wrong(self._node, "HAVING without GROUP BY", "write WHERE")
        pieces = list(self._selected(self._rows))
        names = unique([name for name, _ in pieces])
        columns = [Column(name, piece.kind, _role_of(piece)) for name, (_, piece) in zip(names, pieces, strict=True)]
        texts = [f"{piece.sql} AS {quoted(name)}" for name, (_, piece) in zip(names, pieces, strict=True)]
        alias = quoted(self._scope[0].alias)
        if self._window:
            texts.append(f"{alias}.{WINDOW_COLUMN}")
        keep = first.keep
        if first.updating:
            kept = [f"{alias}.{KEEP_COLUMN}"] if keep else []
            if where:
                kept.append(f"coalesce({where}, false)")
            texts += [f"({' AND '.join(kept)}) AS {KEEP_COLUMN}"] if kept else []
            keep, where = bool(kept), ""
        if first.sequenced:
            texts.append(f"{alias}.{SEQUENCE_COLUMN}")
        sql = f"SELECT {', '.join(texts)} FROM {table}" + (f"\nWHERE {where}" if where else "")
        return self._result(sql, columns, window=self._window, keep=keep)

    def _result(self, sql: str, columns: Sequence[Column], *, window: str, keep: bool) -> Query:
        queries = [entry.query for entry in self._scope]
        first = queries[0]
        keys: list[int] = []
        if first.updating and not self._groups.keys:
            keys = self._passed_keys(columns)
        return Query(
            sql=sql,
            columns=tuple(columns),
            window=window,
            keys=tuple(keys),
            updating=first.updating,
            keep=keep,
            sequenced=first.sequenced,
            session=first.session if len(queries) == 1 else None,
            static=all(query.static for query in queries),
            steps=tuple(step for query in queries for step in query.steps),
            tables=tuple(name for query in queries for name in query.tables),
            notes=tuple(dict.fromkeys([*(note for query in queries for note in query.notes), *self._notes])),
        )

    def _passed_keys(self, columns: Sequence[Column]) -> list[int]:
        """Where the columns stand that tell a row of an updating query; nothing where one is left out."""
        first = self._scope[0]
        wanted = {first.piece(first.query.columns[i]).sql for i in first.query.keys}
        given = [piece.sql for _, piece in self._selected(self._rows)]
        found = [given.index(text) for text in sorted(wanted) if text in given]
        return found if len(found) == len(wanted) and len(columns) == len(given) else []

    def _selected(self, expressions: Expressions) -> Iterator[tuple[str, Piece]]:
        """What SELECT names, with its name."""
        for i, node in enumerate(self._node.expressions):
            if is_star(node):
                if set(filter(node.args.get, node.args)) - {"this", "table"}:
                    raise self._of.wrong(node, "Flink's * has nothing behind it", "name the columns")
                yield from self._star(node)
                continue
            if isinstance(node, exp.Alias):
                yield name_of(node.args["alias"], self._text), expressions.piece(node.this)
            else:
                piece = expressions.piece(node)
                named = node.this if isinstance(node, exp.Column) else None
                yield str(named.this) if isinstance(named, exp.Identifier) else f"EXPR${i}", piece

    def _star(self, node: exp.Expr) -> Iterator[tuple[str, Piece]]:
        of = None if isinstance(node, exp.Star) else name_of(node.args["table"], self._text)
        entries = [entry for entry in self._scope if of is None or entry.alias == of]
        if not entries:
            raise self._of.wrong(node, f"there is no table {of}", meant(str(of), [e.alias for e in self._scope]))
        if self._is_gathered():
            raise self._of.wrong(node, "* is neither gathered nor a key", "name the columns")
        for entry in entries:
            for column in entry.query.columns:
                yield column.name, entry.piece(column)

    # -- GROUP BY ---------------------------------------------------------------------------------

    def _is_gathered(self) -> bool:
        if self._node.args.get("group") is not None:
            return True
        parts = [*self._node.expressions, *filter(None, [self._node.args.get("having")])]
        return any(is_aggregate(each) for part in parts for each in part.find_all(exp.Anonymous))

    def _gathered(self, table: str, where: str) -> Query:
        refuse = self._of.refused
        if any(entry.query.updating for entry in self._scope):
            raise refuse(
                self._node,
                "an aggregation over one that updates",
                "rows would have to be taken back",
                "group in windows",
            )
        self._read_keys()
        groups = self._groups
        gathered = Expressions(self._text, self._grouped, self._special, self._catalogue.functions)
        selected = list(self._selected(gathered))
        having = self._node.args.get("having")
        condition = "" if having is None else gathered.piece(having.this).sql
        rows = "$g" + str(self._of.number())
        keys = [f"{text} AS {quoted(name)}" for name, text in groups.keys.items()]
        computed = [f"{text} AS {quoted(name)}" for name, (text, _) in groups.aggregates.items()]
        inner = f"SELECT {', '.join([*keys, *computed])} FROM {table}" + (f"\nWHERE {where}" if where else "")
        if groups.keys:
            inner += f"\nGROUP BY {', '.join(groups.keys.values())}"
        names = unique([name for name, _ in selected])
        columns = [Column(name, piece.kind, _role_of(piece)) for name, (_, piece) in zip(names, selected, strict=True)]
        texts = [f"{piece.sql} AS {quoted(name)}" for name, (_, piece) in zip(names, selected, strict=True)]
        updating = not groups.window and not all(entry.query.static for entry in self._scope)
        if groups.window:
            texts.append(WINDOW_COLUMN)
        keep = updating and bool(condition)
        if keep:
            texts.append(f"coalesce({condition}, false) AS {KEEP_COLUMN}")
        sql = f"SELECT {', '.join(texts)} FROM (\n{inner}\n) {quoted(rows)}"
        if condition and not keep:
            sql += f"\nWHERE {condition}"
        given = [piece.sql for _, piece in selected]
        places = [given.index(quoted(name)) for name in groups.keys if name != WINDOW and quoted(name) in given]
        whole = len(places) == len([name for name in groups.keys if name != WINDOW])
        result = self._result(sql, columns, window=groups.spoken, keep=keep)
        if updating:
            self._notes.append("it updates: in each epoch the groups that have changed are given once")
        return replace(
            result,
            keys=tuple(places) if updating and whole else (),
            updating=updating,
            session=None,
            notes=tuple(dict.fromkeys([*result.notes, *self._notes])),
        )

    def _read_keys(self) -> None:
        """The keys of GROUP BY; a window is one key, however it is written."""
        group, groups = self._node.args.get("group"), self._groups
        if group is None:
            return
        strange = [key for key, value in group.args.items() if value and key != "expressions"]
        if strange:
            raise self._of.refused(group, strange[0].upper(), "it is not taken yet", "write an INSERT for each set")
        parts: set[str] = set()
        names: list[str] = []
        for node in group.expressions:
            if isinstance(node, exp.Literal):
                raise self._of.wrong(node, "GROUP BY takes no number of a column", "write the expression")
            legacy = self._legacy_window(node)
            if legacy is not None:
                if groups.window:
                    raise self._of.refused(node, "two windows", "rows are in one at a time", "write one")
                groups.window, groups.spoken = legacy
                groups.legacy = tuple(each.sql() for each in node.expressions)
                continue
            piece = self._rows.piece(node)
            if piece.role in PARTS and piece.window:
                parts.add(piece.role)
                groups.window, groups.spoken = piece.window, self._window
                continue
            name = f"$k{len(groups.keys)}"
            groups.keys[name], groups.kinds[name] = piece.sql, piece.kind
            names.append(piece.sql)
        if parts and not {"window_start", "window_end"} <= parts:
            raise self._of.refused(
                group, "GROUP BY of a part of a window", "a window is over at its end", "write window_start, window_end"
            )
        self._require_session_keys(group, names)
        if groups.window:
            groups.keys = {WINDOW: groups.window, **groups.keys}

    def _require_session_keys(self, group: exp.Expr, keys: Sequence[str]) -> None:
        session = self._scope[0].query.session
        if not self._groups.spoken.startswith("SESSION"):
            return
        alias = quoted(self._scope[0].alias)
        wanted = sorted(f"{alias}.{quoted(name)}" for name in session) if session is not None else sorted(keys)
        if not keys:
            raise self._of.refused(
                group,
                "SESSION over all rows",
                "one task would have to keep them",
                "write PARTITION BY a key, and group by it",
            )
        if wanted != sorted(keys):
            raise self._of.refused(
                group,
                "SESSION by other keys than those of GROUP BY",
                "Spark makes sessions of what it groups",
                "write the same columns into PARTITION BY and behind window_start, window_end",
            )

    def _legacy_window(self, node: exp.Expr) -> tuple[str, str] | None:
        """``GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)``: its text, and in words."""
        if not isinstance(node, exp.Anonymous) or str(node.this).upper() not in functions.WINDOWS:
            return None
        name = str(node.this).upper()
        time, *lengths = node.expressions
        if not lengths:
            raise self._of.wrong(node, f"{name} takes a time and an interval", f"write {name}(ts, INTERVAL '1' MINUTE)")
        piece = self._rows.piece(time)
        if piece.role != "rowtime":
            raise self._of.wrong(
                time, f"{time.sql()} is no event time", "write a WATERMARK for it into its CREATE TABLE"
            )
        given = tuple(interval_ms(each, self._text) for each in lengths)
        return window_text(name, piece.sql, given, self._text.position(node)), f"{name} {' '.join(map(str, given))}"

    def _grouped(self, node: exp.Column) -> Piece:
        """A column behind GROUP BY: a key, or a part of the window."""
        piece = self._column(node)
        found = self._as_key(piece)
        if found is None:
            raise self._of.wrong(
                node,
                f"{node.sql()} is neither a key of GROUP BY nor gathered",
                "name it in GROUP BY, or write MAX of it",
            )
        return found

    def _as_key(self, piece: Piece) -> Piece | None:
        groups = self._groups
        if piece.role in PARTS and piece.window and piece.window == groups.window:
            return Piece(part_of(WINDOW_COLUMN, piece.role, self._spoken()), piece.kind, piece.role, WINDOW_COLUMN)
        for name, text in groups.keys.items():
            if text == piece.sql and name != WINDOW:
                return Piece(quoted(name), piece.kind)
        return None

    def _spoken(self) -> Query:
        return Query("", (), window=self._groups.spoken)

    def _special(self, node: exp.Expr) -> Piece | None:
        """Behind GROUP BY: an aggregate, a key, or what legacy windows have for their parts."""
        if isinstance(node, exp.Filter):
            return self._aggregate(node.this, node.expression)
        if isinstance(node, exp.Anonymous):
            word = str(node.this).upper()
            if word in AGGREGATES:
                return self._aggregate(node, None)
            window, _, part = word.rpartition("_")
            if window in functions.WINDOWS and part in _LEGACY:
                return self._part_of_legacy(node, _LEGACY[part])
        if isinstance(node, exp.Column | exp.Literal | exp.Window) or any(
            is_aggregate(each) for each in node.find_all(exp.Anonymous)
        ):
            return None
        if not any(True for _ in node.find_all(exp.Column)):
            return None
        try:
            piece = self._rows.piece(node)
        except ConfigurationError:
            return None  # its own rule says why
        return self._as_key(piece)

    def _part_of_legacy(self, node: exp.Expr, role: str) -> Piece:
        if tuple(each.sql() for each in node.expressions) != self._groups.legacy or not self._groups.legacy:
            raise self._of.wrong(node, f"{node.this} has other arguments than the window of GROUP BY", "write the same")
        return Piece(part_of(WINDOW_COLUMN, role, self._spoken()), TIMESTAMP, role, WINDOW_COLUMN)

    def _aggregate(self, node: exp.Expr, only: exp.Expr | None) -> Piece:
        word = str(node.this).upper()
        refuse = self._of.refused
        if word not in AGGREGATES:
            raise refuse(node, f"FILTER of {word}", "it is no aggregate", "write CASE WHEN")
        arguments = node.expressions
        if len(arguments) != 1:
            raise self._of.wrong(node, f"{word} takes one argument, and {len(arguments)} are given")
        condition = ""
        if only is not None:
            condition = f" FILTER (WHERE {self._where(only.this)})"
        argument = arguments[0]
        if isinstance(argument, exp.Distinct):
            raise refuse(
                argument,
                f"{word}(DISTINCT …)",
                "Spark does not keep each value of a stream",
                "use APPROX_COUNT_DISTINCT if a count may be wrong: its error is 5 % as a rule, and may be 10 %",
            )
        if isinstance(argument, exp.Star):
            if word != "COUNT":
                raise self._of.wrong(node, f"{word} takes a value", "name a column")
            text, kind = f"count(1){condition}", BIGINT
        else:
            if any(is_aggregate(each) for each in argument.find_all(exp.Anonymous)):
                raise self._of.wrong(argument, "an aggregate of an aggregate", "gather in a query of its own")
            piece = self._rows.piece(argument)
            aggregate = AGGREGATES[word]
            if not functions.suits(piece.kind, aggregate.takes):
                raise self._of.wrong(argument, f"{word} does not take {piece.kind}", "write a CAST")
            text, kind = aggregate.text(piece.sql, piece.kind, condition), aggregate.kind(piece.kind)
        found = next((name for name, (known, _) in self._groups.aggregates.items() if known == text), None)
        if found is None:
            found = f"$a{len(self._groups.aggregates)}"
            self._groups.aggregates[found] = (text, kind)
        return Piece(quoted(found), kind)


def unique(names: Sequence[str]) -> list[str]:
    """The same names, told apart where two are the same to Spark, which ignores case."""
    found: list[str] = []
    for name in names:
        given, i = name, 0
        while given.lower() in (each.lower() for each in found):
            given, i = f"{name}{i}", i + 1
        found.append(given)
    return found


def _role_of(piece: Piece) -> str:
    return piece.role if piece.role in ("rowtime", "proctime", *PARTS) else ""


def _column_of(entry: FromEntry, name: str) -> Column | None:
    return next((column for column in entry.query.columns if column.name == name), None)


def is_star(node: exp.Expr) -> bool:
    """``*``, or ``t.*``."""
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def is_aggregate(node: exp.Expr) -> bool:
    """Whether rows are gathered by it."""
    if not isinstance(node, exp.Anonymous) or str(node.this).upper() not in (*AGGREGATES, *_GATHERING):
        return False
    above: exp.Expr | None = node
    while above is not None and not isinstance(above, exp.Select):
        if isinstance(above, exp.Window):
            return False
        above = above.parent
    return True


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that all have to hold."""
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    elif isinstance(node, exp.Paren) and isinstance(node.this, exp.And):
        yield from conjuncts(node.this)
    else:
        yield node
