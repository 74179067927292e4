"""A query's text made ready for sqlglot, and read: what its grammar lacks is taken out, and a name stands for it.

Window functions over a TABLE, types in CASTs, and FOR SYSTEM_TIME leave as much room as they took: the places of all
else stay. Must not know: tables, what a query means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from onceflow.flinksql.dialect import Flink
from onceflow.flinksql.kind_parsing import kind_of
from onceflow.flinksql.kinds import Kind
from onceflow.flinksql.lexing import Token, tokens_of
from onceflow.flinksql.pieces import QueryText, interval_ms
from onceflow.flinksql.problems import Position, refused, wrong
from onceflow.flinksql.statements import ScriptText

_WINDOWS = ("TUMBLE", "HOP", "SESSION", "CUMULATE")
_NAMES = ("DATA", "TIMECOL", "SIZE", "SLIDE", "GAP", "OFFSET", "STEP")
_KEEPS = "of what has been it would have to keep, and to take back, more than Spark does"
_REFUSED: Mapping[tuple[str, ...], tuple[str, str, str]] = {
    ("MATCH_RECOGNIZE",): ("MATCH_RECOGNIZE", "Spark finds no patterns", "join the stream with itself by an interval"),
    ("GROUPING", "SETS"): ("GROUPING SETS", "it is not taken yet", "write an INSERT for each set"),
    ("ROLLUP", "("): ("ROLLUP", "it is not taken yet", "write an INSERT for each set"),
    ("CUBE", "("): ("CUBE", "it is not taken yet", "write an INSERT for each set"),
    ("TABLESAMPLE",): ("TABLESAMPLE", "Flink takes none of a stream", "filter by a hash of a key"),
    ("PIVOT",): ("PIVOT", "it is not taken yet", "write MAX(…) FILTER (WHERE …) for each column"),
    ("UNPIVOT",): ("UNPIVOT", "it is not taken yet", "write a UNION ALL"),
    ("LATERAL",): ("LATERAL", "there are no table functions", "write a Python function that gives an ARRAY"),
    ("UNNEST",): ("UNNEST", "it is not taken yet", "write arrays as they are, or send a record for each item"),
    ("INTERSECT",): ("INTERSECT", _KEEPS, "write an interval join"),
    ("EXCEPT",): ("EXCEPT", _KEEPS, "write an interval join"),
    ("MINUS",): ("MINUS", _KEEPS, "write an interval join"),
    ("WITHIN", "GROUP"): ("WITHIN GROUP", "order of rows is not the same in every run", "use MIN, MAX or a top-N"),
    ("QUALIFY",): ("QUALIFY", "it is not taken yet", "write the ROW_NUMBER in a query, and WHERE rn <= n around it"),
    ("SIMILAR", "TO"): ("SIMILAR TO", "it is not taken yet", "use REGEXP(value, pattern)"),
    ("WITH", "RECURSIVE"): ("WITH RECURSIVE", "a stream has no end to come back from", "write each step"),
    ("CURRENT", "ROW"): ("OVER with ROWS or RANGE", _KEEPS, "use windows in FROM"),
}
_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "UNION", "LIMIT", "JOIN")
_NO_SQL = {
    "RLIKE": "REGEXP(value, pattern)",
    "ILIKE": "UPPER(value) LIKE 'PATTERN'",
    "SAFE_CAST": "TRY_CAST",
}


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A window function over a table: ``TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)``.

    Attributes:
        name: TUMBLE, HOP or SESSION.
        table: What it is over.
        table_at: Where that stands.
        time: The column of DESCRIPTOR.
        time_at: Where that stands.
        keys: Of SESSION what PARTITION BY names.
        lengths: The intervals, in milliseconds and in their order: size; slide and size; gap. An offset behind them.
        at: Where it begins.
    """

    name: str
    table: str
    table_at: Position
    time: str
    time_at: Position
    keys: tuple[str, ...]
    lengths: tuple[int, ...]
    at: Position


@dataclass(frozen=True)
class Read:
    """A query that was read.

    Attributes:
        tree: As sqlglot has it.
        text: Its text, for places.
        windows: Window functions by the names that stand for them.
        temporal: Where tables stand that are joined FOR SYSTEM_TIME.
    """

    tree: exp.Expr
    text: QueryText
    windows: Mapping[str, WindowCall] = field(default_factory=dict)
    temporal: frozenset[int] = frozenset()


def read(source: ScriptText) -> Read:
    """Read a query.

    Raises:
        ConfigurationError: It cannot be understood, or has something that is refused.
    """
    return _Reader(source).read(is_query=True)


def read_expression(source: ScriptText) -> Read:
    """Read an expression alone, as of a computed column."""
    return _Reader(source).read(is_query=False)


class _Reader:
    def __init__(self, source: ScriptText) -> None:
        self._source = source
        self._tokens = tokens_of(source.text)
        self._letters = list(source.text)
        self._windows: dict[str, WindowCall] = {}
        self._casts: dict[str, Kind] = {}
        self._temporal: set[int] = set()

    def read(self, *, is_query: bool) -> Read:
        self._require_taken()
        i = 0
        while i < len(self._tokens):
            i = self._window(i) or self._cast(i) or self._system_time(i) or i + 1
        text = "".join(self._letters)
        told = QueryText(text, self._source.at, self._casts)
        try:
            tree = sqlglot.parse_one(text if is_query else f"SELECT {text}", read=Flink)
        except (ParseError, TokenError) as error:
            raise self._not_understood(error, told, 0 if is_query else len("SELECT ")) from None
        if not is_query:
            expressions = tree.expressions
            if not isinstance(tree, exp.Select) or len(expressions) != 1 or tree.args.get("from_") is not None:
                raise wrong(self._source.at, "one expression is expected here", action="correct it")
            tree = expressions[0]
            told = QueryText(
                f"SELECT {text}", Position(self._source.at.line, self._source.at.column - len("SELECT ")), self._casts
            )
        return Read(tree, told, self._windows, frozenset(self._temporal))

    def _at(self, token: Token) -> Position:
        return QueryText(self._source.text, self._source.at, {}).position_at(token.start)

    def _not_understood(self, error: Exception, text: QueryText, shift: int) -> Exception:
        found = getattr(error, "errors", None) or [{}]
        line, column = found[0].get("line"), found[0].get("col")
        word = str(found[0].get("highlight") or "")
        at = self._source.at
        if line is not None and column is not None:
            lines = text.text.split("\n")
            column = column - max(len(word) - 1, 0) - (shift if line == 1 else 0)
            at = text.position_at(sum(len(each) + 1 for each in lines[: line - 1]) + max(column - 1, 0))
        what = f"the query cannot be understood at {word!r}" if word else "the query cannot be understood"
        said = str(found[0].get("description") or "").rstrip(".")
        return wrong(at, what, cause=said, action="correct it; docs/sql.md has what is taken")

    def _require_taken(self) -> None:
        for i, token in enumerate(self._tokens):
            if token.kind not in ("word", "sign"):
                continue
            for words, told in _REFUSED.items():
                if all(i + j < len(self._tokens) and self._tokens[i + j].says(word) for j, word in enumerate(words)):
                    raise refused(self._at(token), *told)
            self._require_no_gap(i)
            word = token.value.upper()
            if word in _NO_SQL:
                raise refused(self._at(token), word, "it is not taken", f"use {_NO_SQL[word]}")

    def _require_no_gap(self, i: int) -> None:
        """What sqlglot passes over: nothing selected, a comma with nothing behind it, a number for an interval."""
        token, behind = self._tokens[i], self._tokens[min(i + 1, len(self._tokens) - 1)]
        if (token.says("SELECT") and behind.says("FROM")) or (
            token.says(",") and (behind.kind == "end" or behind.says(")", *_CLAUSES))
        ):
            raise wrong(self._at(behind), "an expression is missing", action="write it, or remove the comma")
        if token.says("INTERVAL") and behind.kind == "number":
            raise refused(
                self._at(behind), "an interval without quotes", "it is not taken", f"write INTERVAL '{behind.value}'"
            )

    def _says(self, i: int, *words: str) -> bool:
        return all(i + j < len(self._tokens) and self._tokens[i + j].says(word) for j, word in enumerate(words))

    def _closing(self, i: int) -> int | None:
        """The token that closes the parenthesis at ``i``."""
        depth = 0
        for j in range(i, len(self._tokens)):
            depth += self._tokens[j].says("(") - self._tokens[j].says(")")
            if depth == 0:
                return j
        return None

    def _put(self, begin: Token, end: Token, text: str) -> None:
        """Put a text in the place of all from one token to another, and blanks behind it."""
        room = self._source.text[begin.start : end.end]
        rest = re.sub(r"[^\n]", " ", room[len(text) :])
        self._letters[begin.start : end.end] = list((text + rest).ljust(len(room)))
        if len(text) > len(room):  # never in what is replaced here
            raise AssertionError(text)

    # -- CAST(x AS type) --------------------------------------------------------------------------

    def _cast(self, i: int) -> int | None:
        if not (self._says(i, "CAST", "(") or self._says(i, "TRY_CAST", "(")):
            return None
        end = self._closing(i + 1)
        depth, at = 0, None
        for j in range(i + 1, end or i + 1):
            depth += self._tokens[j].says("(") - self._tokens[j].says(")")
            if depth == 1 and self._tokens[j].says("AS"):
                at = j
        if end is None or at is None or at + 1 >= end:
            return None
        first, last = self._tokens[at + 1], self._tokens[end - 1]
        name = f"k{len(self._casts):02d}"
        self._casts[name] = kind_of(ScriptText(self._source.text[first.start : last.end], self._at(first)))
        self._put(first, last, name)
        return None  # what is inside is looked at, too

    # -- FOR SYSTEM_TIME AS OF x ------------------------------------------------------------------

    def _system_time(self, i: int) -> int | None:
        if not self._says(i, "FOR", "SYSTEM_TIME", "AS", "OF"):
            return None
        last = i + 4
        while self._says(last + 1, "."):
            last += 2
        if self._says(last + 1, "("):
            last = self._closing(last + 1) or last
        self._temporal.add(self._tokens[i - 1].start)
        self._put(self._tokens[i], self._tokens[last], "")
        return last + 1

    # -- TUMBLE(TABLE t, …) -----------------------------------------------------------------------

    def _window(self, i: int) -> int | None:
        begin = i
        outer = self._says(i, "TABLE", "(") and i + 2 < len(self._tokens) and self._tokens[i + 2].says(*_WINDOWS)
        if outer:
            i += 2
        if not (self._tokens[i].says(*_WINDOWS) and self._says(i + 1, "(")):
            return None
        if not (self._says(i + 2, "TABLE") or self._says(i + 2, "DATA", "=>")):
            if self._says(i + 2, "(", "SELECT") or self._says(i + 2, "SELECT"):
                raise refused(
                    self._at(self._tokens[i + 2]),
                    "a query inside of a window function",
                    "it is not taken yet",
                    "make a VIEW of it, and write TABLE view",
                )
            return None
        end = self._closing(i + 1)
        if end is None:
            raise wrong(self._at(self._tokens[i]), "a window function has no end", action="close it with )")
        if self._tokens[i].says("CUMULATE"):
            raise refused(self._at(self._tokens[i]), "CUMULATE", "Spark has no windows that grow", "use HOP, or TUMBLE")
        last = end
        if outer:
            if not self._says(end + 1, ")"):
                raise wrong(self._at(self._tokens[end + 1]), "TABLE( is not closed", action="close it with )")
            last = end + 1
        name = f"${len(self._windows)}"
        self._windows[name] = self._call(i, end)
        self._put(self._tokens[begin], self._tokens[last], f"`{name}`")
        return last + 1

    def _call(self, i: int, end: int) -> WindowCall:
        name = self._tokens[i].value.upper()
        arguments = list(self._arguments(i + 2, end))
        named = dict(arguments) if all(key for key, _ in arguments) else None
        order = {
            "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
            "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
            "SESSION": ("DATA", "TIMECOL", "GAP"),
        }[name]
        if named is None:
            if len(arguments) > len(order) or any(key for key, _ in arguments):
                raise wrong(
                    self._at(self._tokens[i]), f"{name} takes {', '.join(order)}", action="correct its arguments"
                )
            named = dict(zip(order, (tokens for _, tokens in arguments), strict=False))
        strange = [key for key in named if key not in order]
        missing = [key for key in order if key not in named and key != "OFFSET"]
        if strange or missing:
            raise wrong(
                self._at(self._tokens[i]),
                f"{name} has {'no ' + strange[0] if strange else 'to have a ' + missing[0]}",
                action=f"it takes {', '.join(order)}",
            )
        table, keys = self._data(named["DATA"])
        time = self._descriptor(named["TIMECOL"])
        lengths = tuple(self._length(named[key]) for key in order[2:] if key in named)
        return WindowCall(
            name, table.value, self._at(table), time.value, self._at(time), keys, lengths, self._at(self._tokens[i])
        )

    def _arguments(self, begin: int, end: int) -> Iterator[tuple[str, Sequence[Token]]]:
        depth, first = 0, begin
        for j in range(begin, end + 1):
            token = self._tokens[j]
            if (depth == 0 and token.says(",")) or j == end:
                tokens = self._tokens[first:j]
                if not tokens:
                    raise wrong(self._at(token), "an argument is missing", action="write it")
                if len(tokens) > 2 and tokens[0].says(*_NAMES) and tokens[1].says("=>"):
                    yield tokens[0].value.upper(), tokens[2:]
                else:
                    yield "", tokens
                first = j + 1
            depth += token.says("(") - token.says(")")

    def _data(self, tokens: Sequence[Token]) -> tuple[Token, tuple[str, ...]]:
        if len(tokens) < 2 or not tokens[0].says("TABLE") or tokens[1].kind not in ("word", "quoted"):
            raise refused(
                self._at(tokens[0]),
                "anything but TABLE name",
                "it is not taken yet",
                "make a VIEW of it, and write TABLE view",
            )
        rest = list(tokens[2:])
        if rest and not (len(rest) > 2 and rest[0].says("PARTITION") and rest[1].says("BY")):
            raise wrong(self._at(rest[0]), f"there is {rest[0].value} behind the table", action="remove it")
        names = [token for token in rest[2:] if token.kind in ("word", "quoted")]
        return tokens[1], tuple(token.value for token in names)

    def _descriptor(self, tokens: Sequence[Token]) -> Token:
        if len(tokens) != 4 or not tokens[0].says("DESCRIPTOR") or tokens[2].kind not in ("word", "quoted"):
            raise wrong(self._at(tokens[0]), "DESCRIPTOR(column) is expected", action="name the column of event time")
        return tokens[2]

    def _length(self, tokens: Sequence[Token]) -> int:
        text = self._source.text[tokens[0].start : tokens[-1].end]
        inner = _Reader(ScriptText(text, self._at(tokens[0]))).read(is_query=False)
        return interval_ms(inner.tree, inner.text)
