"""From a query to Spark's SQL: what it reads, joins, groups and keeps; and what Spark cannot keep of a stream, by name.

Must not know: connectors, Spark sessions, jobs.

A window is carried beside the columns of its rows, as Spark's own struct, in a hidden column: by that Spark knows when
a window is over. So is, of a query that updates, whether the row is still there (``$keep``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sqlglot import exp

from onceflow.errors import ConfigurationError
from onceflow.flinksql import functions
from onceflow.flinksql.expressions import Expressions, Piece, Text, interval_ms, name_of, spark_interval
from onceflow.flinksql.functions import AGGREGATES
from onceflow.flinksql.kinds import BIGINT, TIMESTAMP, Kind, common, quoted
from onceflow.flinksql.problems import Position, meant, refused, wrong
from onceflow.flinksql.reading import Read, WindowCall, read
from onceflow.flinksql.statements import Source

WINDOW, KEEP = "$window", "$keep"
_WINDOW, _KEEP = quoted(WINDOW), quoted(KEEP)
_PARTS = ("window_start", "window_end", "window_time")
_SESSION_STEP_MS = 1
_LEGACY = {"START": "window_start", "END": "window_end", "ROWTIME": "window_time"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table or of a query.

    Attributes:
        name: Its name.
        kind: Its type.
        role: What it is beside its value, see ``Piece``.
    """

    name: str
    kind: Kind
    role: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """What a query can read.

    Attributes:
        view: Its name in Spark.
        columns: Its columns.
        static: It is looked up, and no stream.
    """

    view: str
    columns: tuple[Column, ...]
    static: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """A query under a name."""

    query: Source
    columns: tuple[str, ...] = ()


class Catalogue(Protocol):
    """What a script has."""

    def table(self, name: str, at: Position) -> Table | View:
        """A table or a view.

        Raises:
            ConfigurationError: There is none of this name, or none that can be read.
        """

    @property
    def functions(self) -> Mapping[str, Kind]:
        """The script's own functions, and what they give."""


@dataclass(frozen=True, slots=True)
class KeepFirst:
    """What SQL cannot say to Spark: of the rows with a key the first by its time, when the watermark has passed it.

    Attributes:
        view: Under what name the rows are read then.
        sql: The rows.
        keys: Names of the columns by which rows are the same.
        time: Name of the column by which they are in order.
        columns: All columns of the rows, those included.
    """

    view: str
    sql: str
    keys: tuple[str, ...]
    time: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Query:
    """A query in Spark's words.

    Attributes:
        sql: Its text.
        columns: What it gives, in order; hidden columns are not among them.
        window: What window its rows are in, in words, if they are in one; then ``WINDOW`` is a hidden column.
        keys: Of a query that updates: the places of the columns that tell which row is replaced.
        updating: Its rows replace earlier ones.
        keep: It has a hidden column ``KEEP``: whether the row is there, or gone.
        session: Of rows in sessions that are not gathered yet: by what they are told apart.
        static: It reads no stream.
        steps: What has to be done before.
        tables: The tables that it reads.
        notes: What is to be said at a start.
    """

    sql: str
    columns: tuple[Column, ...]
    window: str = ""
    keys: tuple[int, ...] = ()
    updating: bool = False
    keep: bool = False
    session: tuple[str, ...] | None = None
    static: bool = False
    steps: tuple[KeepFirst, ...] = ()
    tables: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def translate(source: Source, catalogue: Catalogue) -> Query:
    """A query in Spark's words.

    Raises:
        ConfigurationError: It cannot be understood, does not fit the tables, or is nothing that Spark keeps.
    """
    return _Translation(read(source), catalogue, itertools.count(), {}).query()


@dataclass(frozen=True, slots=True)
class _Entry:
    """One of the things that FROM names.

    Attributes:
        alias: What it is called.
        query: What it is.
        in_window: Its rows are still those of a window; behind a join they may not be.
        in_time: Its event time still is one; behind a join it may not be.
    """

    alias: str
    query: Query
    in_window: bool = True
    in_time: bool = True

    def piece(self, column: Column) -> Piece:
        """A column of it."""
        if column.role in _PARTS and self.query.window:
            window = f"{quoted(self.alias)}.{_WINDOW}"
            text = _part(window, column.role, self.query)
            return Piece(text, column.kind, column.role, window) if self.in_window else Piece(text, column.kind)
        role = "" if column.role in _PARTS or (column.role == "rowtime" and not self.in_time) else column.role
        return Piece(f"{quoted(self.alias)}.{quoted(column.name)}", column.kind, role)


def _part(window: str, role: str, of: Query) -> str:
    # A session's end is a millisecond late in Spark's struct, see _sessions.
    end = f"{window}.end"
    if of.window.startswith("SESSION"):
        end = f"({end} - {spark_interval(_SESSION_STEP_MS)})"
    if role == "window_start":
        return f"{window}.start"
    return end if role == "window_end" else f"({end} - {spark_interval(1)})"


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


@dataclass(frozen=True, slots=True)
class _Rank:
    """ROW_NUMBER: its name, before how many columns it stands, and how many rows it lets through."""

    name: str
    at: int
    count: int


class _Translation:
    """Translates one query, and the queries inside of it."""

    def __init__(
        self, given: Read, catalogue: Catalogue, numbers: Iterator[int], ctes: Mapping[str, Query], depth: int = 0
    ) -> None:
        self._read, self.catalogue, self._numbers, self._depth = given, catalogue, numbers, depth
        self.text: Text = given.text
        self.tree = given.tree
        self._ctes = dict(ctes)

    def number(self) -> int:
        """One that no other name has."""
        return next(self._numbers)

    def query(self) -> Query:
        """The whole of it."""
        return self._of(self._read.tree)

    # -- SELECT, UNION, WITH ----------------------------------------------------------------------

    def _of(self, node: exp.Expr) -> Query:
        with_ = node.args.get("with_")
        if with_ is not None:
            outer = dict(self._ctes)
            for each in with_.expressions:
                found = self._of(each.this)
                columns = [name_of(name, self.text) for name in each.args["alias"].args.get("columns") or ()]
                self._ctes[name_of(each.args["alias"].this, self.text)] = self.renamed(found, columns, each)
            node.set("with_", None)
            try:
                return self._of(node)
            finally:
                self._ctes = outer
        if isinstance(node, exp.Subquery):
            self._refuse_behind(node)
            return self._of(node.this)
        if isinstance(node, exp.Union) and type(node) is exp.Union:
            return self._union(node)
        if isinstance(node, exp.Select):
            return self._select(node)
        if isinstance(node, exp.Values):
            raise self.refused(node, "VALUES", "it ends at once, and a job here is a stream", "use a datagen table")
        raise self.refused(node, type(node).__name__.upper(), "it is not taken", "write SELECT")

    def refused(self, node: exp.Expr, name: str, why: str, instead: str) -> ConfigurationError:
        """What is not taken, at its place."""
        return refused(self.text.place(node), name, why, instead)

    def wrong(self, node: exp.Expr, what: str, action: str = "") -> ConfigurationError:
        """What cannot be understood, at its place."""
        return wrong(self.text.place(node), what, action=action)

    def _refuse_ends(self, node: exp.Expr) -> None:
        """What needs the end of its rows."""
        if node.args.get("order") is not None:
            raise self.refused(
                node.args["order"], "ORDER BY", "a stream has no end", "order within windows by ROW_NUMBER"
            )
        if node.args.get("limit") is not None or node.args.get("offset") is not None:
            name = "FETCH" if isinstance(node.args.get("limit"), exp.Fetch) else "LIMIT"
            raise self.refused(node, name, "a stream has no end", "take the first n of a window by ROW_NUMBER")

    def _refuse_behind(self, node: exp.Subquery) -> None:
        """What stands behind a query in parentheses is of its rows, too."""
        self._refuse_ends(node)
        strange = [key for key, value in node.args.items() if value and key not in ("this", "alias", "with_")]
        if strange:
            raise self.refused(node, strange[0].upper(), "it is not taken behind a query in ()", "write it inside")

    def _union(self, node: exp.Union) -> Query:
        if node.args.get("distinct"):
            raise self.refused(node, "UNION", "it would have to keep each row for ever", "write UNION ALL")
        self._refuse_ends(node)
        left, right = self._of(node.this), self._of(node.expression)
        if len(left.columns) != len(right.columns):
            raise self.wrong(
                node, f"UNION ALL of {len(left.columns)} and of {len(right.columns)} columns", "select as many"
            )
        if left.updating or right.updating:
            raise self.refused(
                node, "UNION ALL of a query that updates", "its rows replace each other", "group behind it"
            )
        columns = []
        for one, other in zip(left.columns, right.columns, strict=True):
            kind = common(one.kind, other.kind)
            if kind is None:
                raise self.wrong(node, f"column {one.name} is {one.kind} and {other.kind}", "write a CAST")
            columns.append(Column(one.name, kind, one.role if one.role == other.role == "rowtime" else ""))
        parts = [_cast_all(each, columns) for each in (left, right)]
        return Query(
            sql=f"{parts[0]}\nUNION ALL\n{parts[1]}",
            columns=tuple(columns),
            static=left.static and right.static,
            steps=left.steps + right.steps,
            tables=left.tables + right.tables,
            notes=left.notes + right.notes,
        )

    def _select(self, node: exp.Select) -> Query:
        for part, name in (("distinct", "SELECT DISTINCT"), ("windows", "WINDOW"), ("laterals", "LATERAL")):
            if node.args.get(part):
                raise self.refused(
                    node, name, "Spark would give a row again", "keep the first by ROW_NUMBER, or group by a window"
                )
        known = {
            "expressions",
            "from_",
            "joins",
            "where",
            "group",
            "having",
            "kind",
            "with_",
            "order",
            "limit",
            "offset",
        }
        strange = [key for key, value in node.args.items() if value and key not in known]
        if strange:
            raise self.refused(node, strange[0].upper(), "it is not taken", "see docs/sql.md")
        self._refuse_ends(node)
        if node.args.get("from_") is None:
            raise self.refused(node, "SELECT without FROM", "a job here is a stream", "name a table")
        ranked = self._ranked(node)
        scope = self._from(node) if ranked is None else [ranked[0]]
        where = node.args.get("where")
        condition = None if where is None else where.this
        if ranked is not None:
            condition = ranked[1]
        return _Select(self, node, scope, condition).query()

    # -- FROM -------------------------------------------------------------------------------------

    def _from(self, node: exp.Select) -> list[_Entry]:
        return [self.entry(node.args["from_"].this, None)]

    def entry(self, node: exp.Expr, joined: exp.Expr | None) -> _Entry:
        """One of the things that FROM and JOIN name."""
        alias = node.args.get("alias")
        name = None if alias is None or alias.this is None else name_of(alias.this, self.text)
        columns = [] if alias is None else [name_of(each, self.text) for each in alias.args.get("columns") or ()]
        if node.args.get("sample") or node.args.get("pivots") or node.args.get("joins"):
            raise self.refused(node, "what stands behind this table", "it is not taken", "see docs/sql.md")
        if isinstance(node, exp.Table):
            told = name_of(node.this, self.text) if isinstance(node.this, exp.Identifier) else None
            if told is None:
                raise self.refused(
                    node, "a function in FROM", "there are no table functions", "use TUMBLE, HOP or SESSION"
                )
            if node.args.get("db") is not None:
                raise self.refused(
                    node, "a name with a catalogue", "there is one catalogue", "write the last part alone"
                )
            call = self._read.windows.get(told)
            found = self._windowed(call) if call is not None else self._named(told, self.text.place(node))
            if node.this.meta.get("start") in self._read.temporal and not found.static:
                raise self.refused(
                    node,
                    "a temporal join",
                    "Spark keeps no versions of a table",
                    "join a jdbc table, or by an interval",
                )
            name = name or (f"{call.name.lower()}{self.number()}" if call is not None else told)
        elif isinstance(node, exp.Subquery):
            self._refuse_behind(node)
            found = self._of(node.this)
            name = name or f"query{self.number()}"
        else:
            raise self.refused(
                joined or node, type(node).__name__.upper(), "it is not taken", "name a table, or a query"
            )
        return _Entry(name, self.renamed(found, columns, node))

    def renamed(self, of: Query, names: Sequence[str], node: exp.Expr) -> Query:
        """The query with other names for its columns, where some are given."""
        if not names:
            return of
        if len(names) != len(of.columns):
            raise self.wrong(node, f"{len(names)} names for {len(of.columns)} columns", "name each column")
        inner = f"v{self.number()}"
        hidden = _hidden(of, inner)
        selected = [
            f"{quoted(inner)}.{quoted(column.name)} AS {quoted(name)}"
            for name, column in zip(names, of.columns, strict=True)
        ]
        sql = f"SELECT {', '.join([*selected, *hidden])} FROM (\n{of.sql}\n) {quoted(inner)}"
        columns = tuple(replace(column, name=name) for name, column in zip(names, of.columns, strict=True))
        return replace(of, sql=sql, columns=columns)

    def _named(self, name: str, at: Position) -> Query:
        if name in self._ctes:
            return self._ctes[name]
        found = self.catalogue.table(name, at)
        if isinstance(found, View):
            if self._depth > 20:
                raise wrong(at, f"view {name} reads itself", action="correct one of them")
            inner = _Translation(read(found.query), self.catalogue, self._numbers, {}, self._depth + 1)
            return inner.renamed(inner.query(), found.columns, inner.tree)
        columns = ", ".join(quoted(column.name) for column in found.columns)
        sql = f"SELECT {columns} FROM {quoted(found.view)}"
        return Query(sql, found.columns, static=found.static, tables=(name,))

    # -- window functions -------------------------------------------------------------------------

    def _windowed(self, call: WindowCall) -> Query:
        of = self._named(call.table, call.table_at)
        if of.updating:
            raise refused(
                call.at, f"{call.name} over a query that updates", "its rows replace each other", "group in windows"
            )
        time = next((column for column in of.columns if column.name == call.time), None)
        if time is None:
            names = [column.name for column in of.columns]
            raise wrong(
                call.time_at, f"{call.table} has no column {call.time}", action=meant(call.time, names, "name one")
            )
        if time.role not in ("rowtime", "window_time"):
            raise wrong(
                call.time_at,
                f"{call.time} is no event time: {call.table} has no watermark for it",
                action=f"write WATERMARK FOR {call.time} AS {call.time} - INTERVAL '10' SECOND into its CREATE TABLE",
            )
        inner = f"w{self.number()}"
        text = f"{quoted(inner)}.{quoted(time.name)}"
        if time.role == "window_time":
            if of.window.startswith("SESSION"):
                raise refused(
                    call.time_at,
                    "a window over the window_time of a SESSION",
                    "Spark's struct of a session ends a millisecond later than Flink's",
                    "group the sessions into a table, and read that",
                )
            text = f"window_time({quoted(inner)}.{_WINDOW})"
        window = window_text(call.name, text, call.lengths, call.at)
        names = [column.name for column in of.columns if column.name not in _PARTS]
        selected = [f"{quoted(inner)}.{quoted(name)}" for name in names]
        sql = f"SELECT {', '.join([*selected, f'{window} AS {_WINDOW}'])} FROM (\n{of.sql}\n) {quoted(inner)}"
        # Windows of windows: of those of before only columns with names of their own are left.
        columns = [replace(c, role="" if c.role in _PARTS else c.role) for c in of.columns if c.name in names]
        columns += [Column(name, TIMESTAMP, name) for name in _PARTS]
        keys = None
        if call.name == "SESSION":
            keys = call.keys
            for key in keys:
                if key not in names:
                    raise wrong(call.at, f"{call.table} has no column {key}", action=meant(key, names, "name one"))
        spoken = f"{call.name} {' '.join(map(str, call.lengths))}"
        return replace(of, sql=sql, columns=tuple(columns), window=spoken, session=keys)

    # -- ROW_NUMBER -------------------------------------------------------------------------------

    def _ranked(self, node: exp.Select) -> tuple[_Entry, exp.Expr | None] | None:
        """The first n of each group, where FROM is a query with ROW_NUMBER and WHERE says how many."""
        inner = node.args["from_"].this
        if not isinstance(inner, exp.Subquery) or not isinstance(inner.this, exp.Select):
            return None
        selected = inner.this.expressions
        numbers = [each for each in selected if isinstance(each.unalias(), exp.Window)]
        if not numbers:
            return None
        self._refuse_behind(inner)
        if len(numbers) > 1 or node.args.get("joins"):
            raise self.refused(
                numbers[0], "OVER", "it is not taken here", "write one ROW_NUMBER, and no join around it"
            )
        window = numbers[0].unalias()
        if not isinstance(window.this, exp.Anonymous) or str(window.this.this).upper() != "ROW_NUMBER":
            name = str(window.this.this).upper() if isinstance(window.this, exp.Anonymous) else "an aggregate"
            why, instead = functions.REFUSED.get(name, ("it would have to keep each row", "use windows in FROM"))
            raise self.refused(window, f"{name} OVER", why, instead)
        if not isinstance(numbers[0], exp.Alias):
            raise self.wrong(numbers[0], "ROW_NUMBER has no name", "write ROW_NUMBER() OVER (…) AS rn")
        name = name_of(numbers[0].args["alias"], self.text)
        where = node.args.get("where")
        count, rest = self._how_many(name, where)
        query = self._first_of(inner.this, numbers[0], window, name, count)
        alias = inner.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise self.refused(inner, "names for columns behind ROW_NUMBER", "it is not taken yet", "write AS inside")
        called = name_of(alias.this, self.text) if alias is not None and alias.this is not None else None
        return _Entry(called or f"query{self.number()}", query), rest

    def _how_many(self, name: str, where: exp.Expr | None) -> tuple[int, exp.Expr | None]:
        conditions = [] if where is None else list(_conjuncts(where.this))
        for each in conditions:
            count = _at_most(each, name)
            if count is not None:
                rest = [other for other in conditions if other is not each]
                return count, exp.and_(*rest) if rest else None
        node = where if where is not None else self._read.tree
        raise self.refused(
            node, "ROW_NUMBER without a bound", "it would have to keep each row", f"write WHERE {name} <= 10 around it"
        )

    def _first_of(self, inner: exp.Select, number: exp.Expr, window: exp.Expr, name: str, count: int) -> Query:
        partition = list(window.args.get("partition_by") or ())
        order = window.args.get("order")
        ordered = [] if order is None else list(order.expressions)
        if not partition or not ordered:
            raise self.refused(
                window,
                "ROW_NUMBER over all rows",
                "one task would have to keep them",
                "write PARTITION BY and ORDER BY",
            )
        for each in ordered:
            if bool(each.args.get("nulls_first")) == bool(each.args.get("desc")):
                raise self.refused(
                    each,
                    "NULLS FIRST and NULLS LAST",
                    "only Flink's default is taken: with ASC nulls are first, with DESC last",
                    "remove it, or order by a COALESCE of the column",
                )
        copy = inner.copy()
        hidden = [exp.alias_(each.copy(), f"$p{i}", quoted=True) for i, each in enumerate(partition)]
        hidden += [exp.alias_(each.this.copy(), f"$o{i}", quoted=True) for i, each in enumerate(ordered)]
        place = next(i for i, each in enumerate(inner.expressions) if each is number)
        copy.set("expressions", [each for i, each in enumerate(copy.expressions) if i != place] + hidden)
        of = self._of(copy)
        columns = of.columns[: len(of.columns) - len(hidden)]
        if name in (column.name for column in columns):
            raise self.wrong(number, f"{name} is the name of another column, too", "give ROW_NUMBER another one")
        at = self._place_of(number, inner, len(columns))
        keys = of.columns[len(columns) : len(columns) + len(partition)]
        by = of.columns[len(columns) + len(partition) :]
        descending = [bool(each.args.get("desc")) for each in ordered]
        roles = {key.role for key in keys}
        if of.window and {"window_start", "window_end"} <= roles and of.session is None:
            rank = _Rank(name, at, count)
            return self._top(of, columns, keys, list(zip(by, descending, strict=True)), rank, window)
        if count == 1 and len(by) == 1 and by[0].role == "rowtime" and not of.updating:
            if descending[0]:
                raise self.refused(
                    window,
                    "keeping the last row",
                    "each new row takes the one before it back",
                    "write all rows into an upsert-kafka table with that key",
                )
            return self._first(of, columns, keys, by[0], _Rank(name, at, count))
        raise self.refused(
            window,
            "a top-N without a window",
            "a new row takes an earlier one back",
            "PARTITION BY window_start, window_end; or keep the first row by its event time: ORDER BY it, WHERE rn = 1",
        )

    def _place_of(self, number: exp.Expr, inner: exp.Select, count: int) -> int:
        """How many columns stand before ROW_NUMBER: an INSERT takes them by their places."""
        place = next(i for i, each in enumerate(inner.expressions) if each is number)
        before, behind = inner.expressions[:place], inner.expressions[place + 1 :]
        if not any(map(_is_star, behind)):
            return count - len(behind)
        if not any(map(_is_star, before)):
            return len(before)
        raise self.refused(number, "ROW_NUMBER between two *", "its place is not known", "write it as the last column")

    def _top(
        self,
        of: Query,
        columns: Sequence[Column],
        keys: Sequence[Column],
        by: Sequence[tuple[Column, bool]],
        number: _Rank,
        node: exp.Expr,
    ) -> Query:
        inner, outer = f"r{self.number()}", f"r{self.number()}"
        down = by[0][1]
        order = []
        for column, descending in by:
            text = f"{quoted(inner)}.{quoted(column.name)}"
            if descending != down:
                if not column.kind.is_number:
                    raise self.refused(
                        node,
                        "ORDER BY in two directions",
                        "of anything but numbers it is not taken yet",
                        "use one direction",
                    )
                order.append(f"({text} IS NULL)")  # turned round a null would still be the least
                text = f"(- {text})"
            order.append(text)
        plain = [f"{quoted(inner)}.{quoted(column.name)}" for column in columns]
        comparable = [text for text, column in zip(plain, columns, strict=True) if column.kind.name != "MAP"]
        row = f"struct({', '.join(plain)})"
        # Rows that are equal in order would be told apart by when they came, which differs in every run.
        rank = f"struct({', '.join([*order, *comparable])})"
        groups = [f"{quoted(inner)}.{_WINDOW}"]
        groups += [f"{quoted(inner)}.{quoted(key.name)}" for key in keys if key.role not in _PARTS]
        best = f"{'max_by' if down else 'min_by'}({row}, {rank}, {number.count})"
        gathered = f"SELECT {', '.join(groups)}, {best} AS `$top` FROM (\n{of.sql}\n) {quoted(inner)}\n"
        gathered += f"GROUP BY {', '.join(groups)}"
        given = unique([*(column.name for column in columns), number.name])
        selected = [
            f"`$each`.{quoted(column.name)} AS {quoted(to)}" for column, to in zip(columns, given[:-1], strict=True)
        ]
        selected.insert(number.at, f"CAST(`$place` + 1 AS BIGINT) AS {quoted(given[-1])}")
        selected.append(f"{quoted(outer)}.{_WINDOW}")
        sql = f"SELECT {', '.join(selected)} FROM (\n{gathered}\n) {quoted(outer)}\n"
        sql += f"LATERAL VIEW posexplode({quoted(outer)}.`$top`) `$e` AS `$place`, `$each`"
        result = [replace(column, name=to) for column, to in zip(columns, given[:-1], strict=True)]
        result = [column if column.role in _PARTS else replace(column, role="") for column in result]
        result.insert(number.at, Column(given[-1], BIGINT, "rank"))
        return replace(of, sql=sql, columns=tuple(result))

    def _first(
        self, of: Query, columns: Sequence[Column], keys: Sequence[Column], time: Column, number: _Rank
    ) -> Query:
        view = f"$first{self.number()}"
        every = tuple(of.columns)
        step = KeepFirst(view, of.sql, tuple(key.name for key in keys), time.name, every)
        selected = [quoted(column.name) for column in columns]
        selected.insert(number.at, f"CAST(1 AS BIGINT) AS {quoted(number.name)}")
        result = [replace(column, role="") for column in columns]
        result.insert(number.at, Column(number.name, BIGINT, "rank"))
        note = "the first row of a key is given when the watermark has passed it, and its key is kept for ever"
        return Query(
            f"SELECT {', '.join(selected)} FROM {quoted(view)}",
            tuple(result),
            steps=(*of.steps, step),
            tables=of.tables,
            notes=(*of.notes, note),
        )


class _Select:
    """One SELECT whose FROM is known."""

    def __init__(self, of: _Translation, node: exp.Select, scope: list[_Entry], condition: exp.Expr | None) -> None:
        self._of, self._node, self._scope, self._condition = of, node, scope, condition
        self._text: Text = of.text
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

    def _found(self, names: Sequence[str], node: exp.Expr) -> tuple[_Entry, Column, Sequence[str]]:
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
            self._notes.append("a join without times keeps all rows of both sides for ever")
        if right.query.static and side in ("RIGHT", "FULL"):
            raise refuse(on, f"a {side} JOIN with a table", "a stream has no end", "write LEFT JOIN")
        self._after_join(windows=windows, timed=timed, streams=streams)
        word = f"{side} OUTER JOIN" if side else "JOIN"
        return f"{table}\n{word} (\n{right.query.sql}\n) {quoted(right.alias)} ON {text}"

    def _conditions(self, on: exp.Expr, left: _Entry | None, right: _Entry) -> tuple[bool, str, bool]:
        """Whether it joins windows; its text; whether it bounds times."""
        texts, parts, timed = [], set(), False
        for each in _conjuncts(on):
            pair = self._pair_of_windows(each)
            if pair is not None and left is not None and left.query.window and right.query.window:
                parts.add(pair)
                continue
            texts.append(self._where(each))
            timed = timed or self._bounds_times(each)
        if parts and parts != {"window_start", "window_end"}:
            raise self._of.refused(
                on, "a join by a part of a window", "windows are joined whole", "write window_start and window_end"
            )
        if parts and left is not None:
            if left.query.window != right.query.window:
                raise self._of.wrong(on, f"windows of two kinds: {left.query.window} and {right.query.window}")
            texts.insert(0, f"{quoted(left.alias)}.{_WINDOW} = {quoted(right.alias)}.{_WINDOW}")
        return bool(parts), " AND ".join(texts) or "true", timed

    def _pair_of_windows(self, node: exp.Expr) -> str | None:
        if (
            not isinstance(node, exp.EQ)
            or not isinstance(node.this, exp.Column)
            or not isinstance(node.expression, exp.Column)
        ):
            return None
        one, other = self._column(node.this), self._column(node.expression)
        return one.role if one.role == other.role and one.role in _PARTS[:2] and one.window != other.window else None

    def _bounds_times(self, node: exp.Expr) -> bool:
        columns = [each for each in node.find_all(exp.Column) if not isinstance(each.this, exp.Star)]
        times = {piece.sql.partition(".")[0] for each in columns if (piece := self._rows.piece(each)).role == "rowtime"}
        return len(times) > 1 and isinstance(node, exp.Between | exp.GT | exp.GTE | exp.LT | exp.LTE | exp.EQ)

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
            texts.append(f"{alias}.{_WINDOW}")
        keep = first.keep
        if first.updating:
            kept = [f"{alias}.{_KEEP}"] if keep else []
            if where:
                kept.append(f"coalesce({where}, false)")
            texts += [f"({' AND '.join(kept)}) AS {_KEEP}"] if kept else []
            keep, where = bool(kept), ""
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
            if _is_star(node):
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
        return any(_is_aggregate(each) for part in parts for each in part.find_all(exp.Anonymous))

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
            texts.append(_WINDOW)
        keep = updating and bool(condition)
        if keep:
            texts.append(f"coalesce({condition}, false) AS {_KEEP}")
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
            if piece.role in _PARTS and piece.window:
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
        return window_text(name, piece.sql, given, self._text.place(node)), f"{name} {' '.join(map(str, given))}"

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
        if piece.role in _PARTS and piece.window and piece.window == groups.window:
            return Piece(_part(_WINDOW, piece.role, self._spoken()), piece.kind, piece.role, _WINDOW)
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
            _is_aggregate(each) for each in node.find_all(exp.Anonymous)
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
        return Piece(_part(_WINDOW, role, self._spoken()), TIMESTAMP, role, _WINDOW)

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
                "use APPROX_COUNT_DISTINCT",
            )
        if isinstance(argument, exp.Star):
            if word != "COUNT":
                raise self._of.wrong(node, f"{word} takes a value", "name a column")
            text, kind = f"count(1){condition}", BIGINT
        else:
            if any(_is_aggregate(each) for each in argument.find_all(exp.Anonymous)):
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


def window_text(name: str, time: str, lengths: Sequence[int], at: Position) -> str:
    """A window in Spark's words.

    Raises:
        ConfigurationError: Lengths that do not go together.
    """
    if any(length <= 0 for length in lengths[: 2 if name == "HOP" else 1]):
        raise wrong(at, f"{name} has a length that is not positive", action="write INTERVAL '1' MINUTE")
    offset_at = {"TUMBLE": 1, "HOP": 2}.get(name, len(lengths))
    if len(lengths) > offset_at and abs(lengths[offset_at]) >= lengths[0]:
        what = "size" if name == "TUMBLE" else "slide"
        raise wrong(at, f"{name}'s offset is not less than its {what}", action="write what is left of it")
    texts = [f"{length} milliseconds" for length in lengths]
    if name == "SESSION":
        # Flink joins two sessions that touch, Spark does not: a gap that is longer by the smallest step does.
        return f"session_window({time}, '{lengths[0] + _SESSION_STEP_MS} milliseconds')"
    if name == "TUMBLE":
        offset = f", '{texts[0]}', '{texts[1]}'" if len(texts) > 1 else ""
        return f"window({time}, '{texts[0]}'{offset})"
    if len(lengths) < 2:
        raise wrong(at, "HOP takes a slide and a size", action="write HOP(…, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)")
    slide, size = lengths[:2]
    if size % slide:
        raise wrong(at, f"HOP's size of {size} ms is no multiple of its slide of {slide} ms", action="make it one")
    offset = f", '{texts[2]}'" if len(texts) > 2 else ""
    return f"window({time}, '{texts[1]}', '{texts[0]}'{offset})"


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
    return piece.role if piece.role in ("rowtime", *_PARTS) else ""


def _column_of(entry: _Entry, name: str) -> Column | None:
    return next((column for column in entry.query.columns if column.name == name), None)


def _hidden(of: Query, alias: str) -> list[str]:
    return [f"{quoted(alias)}.{quoted(name)}" for name, there in ((WINDOW, of.window), (KEEP, of.keep)) if there]


def _cast_all(of: Query, columns: Sequence[Column]) -> str:
    """Each column as the type that both sides of a UNION have; what is of it already stays, with its watermark."""
    texts = []
    for given, wanted in zip(of.columns, columns, strict=True):
        text = quoted(given.name)
        if given.kind.spark() != wanted.kind.spark():
            text = f"CAST({text} AS {wanted.kind.spark()})"
        texts.append(f"{text} AS {quoted(wanted.name)}")
    return f"SELECT {', '.join(texts)} FROM (\n{of.sql}\n)"


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _is_aggregate(node: exp.Expr) -> bool:
    if not isinstance(node, exp.Anonymous) or str(node.this).upper() not in (*AGGREGATES, *_GATHERING):
        return False
    above: exp.Expr | None = node
    while above is not None and not isinstance(above, exp.Select):
        if isinstance(above, exp.Window):
            return False
        above = above.parent
    return True


_GATHERING = ("FIRST_VALUE", "LAST_VALUE", "LISTAGG", "COLLECT", "ARRAY_AGG", "STDDEV_SAMP", "VAR_SAMP")


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that all have to hold."""
    if isinstance(node, exp.And):
        yield from _conjuncts(node.this)
        yield from _conjuncts(node.expression)
    elif isinstance(node, exp.Paren) and isinstance(node.this, exp.And):
        yield from _conjuncts(node.this)
    else:
        yield node


def _at_most(node: exp.Expr, name: str) -> int | None:
    """The n of ``rn <= n``, ``rn < n``, ``rn = 1`` and of the same the other way round."""
    signs: Mapping[type[exp.Expr], str] = {exp.LTE: "<=", exp.LT: "<", exp.EQ: "="}
    turned: Mapping[type[exp.Expr], str] = {exp.GTE: "<=", exp.GT: "<", exp.EQ: "="}
    column, bound = node.args.get("this"), node.args.get("expression")
    sign = signs.get(type(node))
    if isinstance(column, exp.Literal):
        column, bound, sign = bound, column, turned.get(type(node))
    if not isinstance(column, exp.Column) or str(column.this.this) != name or not isinstance(bound, exp.Literal):
        return None
    if bound.is_string or not str(bound.this).isdigit():
        return None
    n = int(str(bound.this))
    if sign == "<=" or (sign == "=" and n == 1):
        return n or None
    return n - 1 or None if sign == "<" else None
