"""From a query to Spark's SQL: where its rows come from, in which windows they are, and the first of each group.

What a SELECT makes of them is in ``selecting``. What Spark cannot keep of a stream is refused by name.
Must not know: connectors, Spark sessions, jobs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from onceflow.errors import ConfigurationError
from onceflow.flinksql import functions
from onceflow.flinksql.kinds import BIGINT, TIMESTAMP, common, quoted
from onceflow.flinksql.pieces import QueryText, name_of
from onceflow.flinksql.problems import Position, meant, refused, wrong
from onceflow.flinksql.reading import Read, WindowCall, read
from onceflow.flinksql.relations import (
    KEEP,
    PARTS,
    SEQUENCE,
    WINDOW_COLUMN,
    Catalogue,
    Column,
    FromEntry,
    KeepFirst,
    Query,
    SqlView,
    hidden,
    window_text,
)
from onceflow.flinksql.selecting import Selection, conjuncts, is_star, unique
from onceflow.flinksql.statements import ScriptText

_MOST = 100
"""Up to so many rows of each key are kept without a window: an epoch writes all of them again."""


def translate(source: ScriptText, catalogue: Catalogue) -> Query:
    """A query in Spark's words.

    Raises:
        ConfigurationError: It cannot be understood, does not fit the tables, or is nothing that Spark keeps.
    """
    return _Translation(read(source), catalogue, itertools.count(), {}).query()


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
        self.text: QueryText = given.text
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
            self._require_nothing_behind(node)
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
        return refused(self.text.position(node), name, why, instead)

    def wrong(self, node: exp.Expr, what: str, action: str = "") -> ConfigurationError:
        """What cannot be understood, at its place."""
        return wrong(self.text.position(node), what, action=action)

    def _require_endless(self, node: exp.Expr) -> None:
        """What needs the end of its rows."""
        if node.args.get("order") is not None:
            raise self.refused(
                node.args["order"], "ORDER BY", "a stream has no end", "order within windows by ROW_NUMBER"
            )
        if node.args.get("limit") is not None or node.args.get("offset") is not None:
            name = "FETCH" if isinstance(node.args.get("limit"), exp.Fetch) else "LIMIT"
            raise self.refused(node, name, "a stream has no end", "take the first n of a window by ROW_NUMBER")

    def _require_nothing_behind(self, node: exp.Subquery) -> None:
        """What stands behind a query in parentheses is of its rows, too."""
        self._require_endless(node)
        strange = [key for key, value in node.args.items() if value and key not in ("this", "alias", "with_")]
        if strange:
            raise self.refused(node, strange[0].upper(), "it is not taken behind a query in ()", "write it inside")

    def _union(self, node: exp.Union) -> Query:
        if node.args.get("distinct"):
            raise self.refused(node, "UNION", "it would have to keep each row for ever", "write UNION ALL")
        self._require_endless(node)
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
        self._require_endless(node)
        if node.args.get("from_") is None:
            raise self.refused(node, "SELECT without FROM", "a job here is a stream", "name a table")
        ranked = self._ranked(node)
        scope = self._from(node) if ranked is None else [ranked[0]]
        where = node.args.get("where")
        condition = None if where is None else where.this
        if ranked is not None:
            condition = ranked[1]
        return Selection(self, node, scope, condition).query()

    # -- FROM -------------------------------------------------------------------------------------

    def _from(self, node: exp.Select) -> list[FromEntry]:
        return [self.entry(node.args["from_"].this, None)]

    def entry(self, node: exp.Expr, joined: exp.Expr | None) -> FromEntry:
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
            found = self._windowed(call) if call is not None else self._named(told, self.text.position(node))
            if node.this.meta.get("start") in self._read.temporal and not found.static:
                raise self.refused(
                    node,
                    "a temporal join",
                    "Spark keeps no versions of a table",
                    "join a jdbc table, or by an interval",
                )
            name = name or (f"{call.name.lower()}{self.number()}" if call is not None else told)
        elif isinstance(node, exp.Subquery):
            self._require_nothing_behind(node)
            found = self._of(node.this)
            name = name or f"query{self.number()}"
        else:
            raise self.refused(
                joined or node, type(node).__name__.upper(), "it is not taken", "name a table, or a query"
            )
        return FromEntry(name, self.renamed(found, columns, node))

    def renamed(self, of: Query, names: Sequence[str], node: exp.Expr) -> Query:
        """The query with other names for its columns, where some are given."""
        if not names:
            return of
        if len(names) != len(of.columns):
            raise self.wrong(node, f"{len(names)} names for {len(of.columns)} columns", "name each column")
        inner = f"v{self.number()}"
        behind = hidden(of, inner)
        selected = [
            f"{quoted(inner)}.{quoted(column.name)} AS {quoted(name)}"
            for name, column in zip(names, of.columns, strict=True)
        ]
        sql = f"SELECT {', '.join([*selected, *behind])} FROM (\n{of.sql}\n) {quoted(inner)}"
        columns = tuple(replace(column, name=name) for name, column in zip(names, of.columns, strict=True))
        return replace(of, sql=sql, columns=columns)

    def _named(self, name: str, at: Position) -> Query:
        if name in self._ctes:
            return self._ctes[name]
        found = self.catalogue.table(name, at)
        if isinstance(found, SqlView):
            if self._depth > 20:
                raise wrong(at, f"view {name} reads itself", action="correct one of them")
            inner = _Translation(read(found.query), self.catalogue, self._numbers, {}, self._depth + 1)
            return inner.renamed(inner.query(), found.columns, inner.tree)
        names, changes = [column.name for column in found.columns], bool(found.changes_by)
        hidden_names = [KEEP, SEQUENCE] if changes else []
        sql = f"SELECT {', '.join(map(quoted, [*names, *hidden_names]))} FROM {quoted(found.view)}"
        keys = tuple(names.index(each) for each in found.changes_by)
        return Query(
            sql,
            found.columns,
            keys=keys,
            updating=changes,
            keep=changes,
            sequenced=changes,
            static=found.static,
            tables=(name,),
        )

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
        if time.role == "proctime":
            raise refused(
                call.time_at,
                f"{call.name} over {call.time}, which is processing time,",
                "which rows are in a window would hang on when the job ran",
                "take an event time with a WATERMARK, such as ts TIMESTAMP(3) METADATA FROM 'timestamp'",
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
            text = f"window_time({quoted(inner)}.{WINDOW_COLUMN})"
        window = window_text(call.name, text, call.lengths, call.at)
        names = [column.name for column in of.columns if column.name not in PARTS]
        selected = [f"{quoted(inner)}.{quoted(name)}" for name in names]
        sql = f"SELECT {', '.join([*selected, f'{window} AS {WINDOW_COLUMN}'])} FROM (\n{of.sql}\n) {quoted(inner)}"
        # Windows of windows: of those of before only columns with names of their own are left.
        columns = [replace(c, role="" if c.role in PARTS else c.role) for c in of.columns if c.name in names]
        columns += [Column(name, TIMESTAMP, name) for name in PARTS]
        keys = None
        if call.name == "SESSION":
            keys = call.keys
            for key in keys:
                if key not in names:
                    raise wrong(call.at, f"{call.table} has no column {key}", action=meant(key, names, "name one"))
        spoken = f"{call.name} {' '.join(map(str, call.lengths))}"
        return replace(of, sql=sql, columns=tuple(columns), window=spoken, session=keys)

    # -- ROW_NUMBER -------------------------------------------------------------------------------

    def _ranked(self, node: exp.Select) -> tuple[FromEntry, exp.Expr | None] | None:
        """The first n of each group, where FROM is a query with ROW_NUMBER and WHERE says how many."""
        inner = node.args["from_"].this
        if not isinstance(inner, exp.Subquery) or not isinstance(inner.this, exp.Select):
            return None
        selected = inner.this.expressions
        numbers = [each for each in selected if isinstance(each.unalias(), exp.Window)]
        if not numbers:
            return None
        self._require_nothing_behind(inner)
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
        return FromEntry(called or f"query{self.number()}", query), rest

    def _how_many(self, name: str, where: exp.Expr | None) -> tuple[int, exp.Expr | None]:
        conditions = [] if where is None else list(conjuncts(where.this))
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
        more = [exp.alias_(each.copy(), f"$p{i}", quoted=True) for i, each in enumerate(partition)]
        more += [exp.alias_(each.this.copy(), f"$o{i}", quoted=True) for i, each in enumerate(ordered)]
        place = next(i for i, each in enumerate(inner.expressions) if each is number)
        copy.set("expressions", [each for i, each in enumerate(copy.expressions) if i != place] + more)
        of = self._of(copy)
        columns = of.columns[: len(of.columns) - len(more)]
        if name in (column.name for column in columns):
            raise self.wrong(number, f"{name} is the name of another column, too", "give ROW_NUMBER another one")
        at = self._place_of(number, inner, len(columns))
        keys = of.columns[len(columns) : len(columns) + len(partition)]
        by = of.columns[len(columns) + len(partition) :]
        descending = [bool(each.args.get("desc")) for each in ordered]
        roles = {key.role for key in keys}
        rank = _Rank(name, at, count)
        ranked = list(zip(by, descending, strict=True))
        if of.window and {"window_start", "window_end"} <= roles and of.session is None:
            return self._top(of, columns, keys, ranked, rank, window)
        if count == 1 and len(by) == 1 and by[0].role == "rowtime" and not of.updating and not descending[0]:
            return self._first(of, columns, keys, by[0], rank)
        return self._updating_top(of, columns, keys, ranked, rank, window, _names_of(partition, inner, self.text))

    def _updating_top(
        self,
        of: Query,
        columns: Sequence[Column],
        keys: Sequence[Column],
        by: Sequence[tuple[Column, bool]],
        number: _Rank,
        node: exp.Expr,
        names: Sequence[str],
    ) -> Query:
        """The first n of a key over all rows so far: a new row replaces the one that had its place."""
        refuse = self.refused
        if of.updating:
            raise refuse(
                node, "a top-N of a query that updates", "rows would have to be taken back", "group in windows"
            )
        if of.session is not None:
            raise refuse(node, "a top-N of SESSION", "its rows are no sessions before GROUP BY", "group them first")
        if any(column.role == "proctime" for column, _ in by):
            raise refuse(
                node,
                "ROW_NUMBER by processing time",
                "all rows of an epoch have the same, and which came last is not known",
                "ORDER BY an event time, or by metadata of the record: its offset",
            )
        if number.count > _MOST:
            raise refuse(
                node,
                f"the first {number.count} of a key without a window",
                "each epoch writes all of them of each key that it changed",
                f"take up to {_MOST}, or PARTITION BY window_start, window_end",
            )
        plain = replace(of, window="", columns=tuple(replace(each, role="") for each in of.columns))
        found = self._top(plain, [replace(each, role="") for each in columns], keys, by, number, node)
        given = [column.name for column in columns]
        places = [given.index(name) + (number.at <= given.index(name)) for name in names if name in given]
        whole = len(places) == len(names) > 0
        note = "it updates: in each epoch the first rows of keys that have changed are given; keys are kept for ever"
        return replace(
            found,
            keys=(*places, *([number.at] if number.count > 1 else [])) if whole else (),
            updating=True,
            notes=(*found.notes, note),
        )

    def _place_of(self, number: exp.Expr, inner: exp.Select, count: int) -> int:
        """How many columns stand before ROW_NUMBER: an INSERT takes them by their places."""
        place = next(i for i, each in enumerate(inner.expressions) if each is number)
        before, behind = inner.expressions[:place], inner.expressions[place + 1 :]
        if not any(map(is_star, behind)):
            return count - len(behind)
        if not any(map(is_star, before)):
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
        """The first n of each group; in a window where the query is in one."""
        inner, outer = f"r{self.number()}", f"r{self.number()}"
        down = by[0][1]
        order = []
        for column, descending in by:
            text = f"{quoted(inner)}.{quoted(column.name)}"
            if descending != down:
                if not column.kind.is_number and not column.kind.is_time:
                    raise self.refused(
                        node,
                        "ORDER BY in two directions",
                        "of anything but numbers and times it is not taken yet",
                        "use one direction",
                    )
                order.append(f"({text} IS NULL)")  # turned round a null would still be the least
                text = f"(- {f'unix_micros({text})' if column.kind.is_time else text})"
            order.append(text)
        plain = [f"{quoted(inner)}.{quoted(column.name)}" for column in columns]
        comparable = [text for text, column in zip(plain, columns, strict=True) if column.kind.name != "MAP"]
        row = f"struct({', '.join(plain)})"
        # Rows that are equal in order would be told apart by when they came, which differs in every run.
        rank = f"struct({', '.join([*order, *comparable])})"
        groups = [f"{quoted(inner)}.{WINDOW_COLUMN}"] if of.window else []
        groups += [f"{quoted(inner)}.{quoted(key.name)}" for key in keys if key.role not in PARTS or not of.window]
        best = f"{'max_by' if down else 'min_by'}({row}, {rank}, {number.count})"
        gathered = f"SELECT {', '.join(groups)}, {best} AS `$top` FROM (\n{of.sql}\n) {quoted(inner)}\n"
        gathered += f"GROUP BY {', '.join(groups)}"
        given = unique([*(column.name for column in columns), number.name])
        selected = [
            f"`$each`.{quoted(column.name)} AS {quoted(to)}" for column, to in zip(columns, given[:-1], strict=True)
        ]
        selected.insert(number.at, f"CAST(`$place` + 1 AS BIGINT) AS {quoted(given[-1])}")
        selected += [f"{quoted(outer)}.{WINDOW_COLUMN}"] if of.window else []
        sql = f"SELECT {', '.join(selected)} FROM (\n{gathered}\n) {quoted(outer)}\n"
        sql += f"LATERAL VIEW posexplode({quoted(outer)}.`$top`) `$e` AS `$place`, `$each`"
        result = [replace(column, name=to) for column, to in zip(columns, given[:-1], strict=True)]
        result = [column if column.role in PARTS else replace(column, role="") for column in result]
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


def _names_of(partition: Sequence[exp.Expr], inner: exp.Select, text: QueryText) -> list[str]:
    """Under which names a query selects the columns of PARTITION BY; as many as there are only if it selects all."""
    every = any(map(is_star, inner.expressions))
    found = []
    for each in partition:
        if not isinstance(each, exp.Column):
            continue
        said = [of for of in inner.expressions if isinstance(of, exp.Column | exp.Alias) and of.unalias() == each]
        if said:
            found.append(name_of(said[0].args["alias"] if isinstance(said[0], exp.Alias) else said[0].this, text))
        elif every:
            found.append(name_of(each.this, text))
    return found if len(found) == len(partition) else []


def _cast_all(of: Query, columns: Sequence[Column]) -> str:
    """Each column as the type that both sides of a UNION have; what is of it already stays, with its watermark."""
    texts = []
    for given, wanted in zip(of.columns, columns, strict=True):
        text = quoted(given.name)
        if given.kind.spark() != wanted.kind.spark():
            text = f"CAST({text} AS {wanted.kind.spark()})"
        texts.append(f"{text} AS {quoted(wanted.name)}")
    return f"SELECT {', '.join(texts)} FROM (\n{of.sql}\n)"


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
