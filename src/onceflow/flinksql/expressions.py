"""From an expression, as sqlglot reads it, to Spark's text and the type of its value.

Whatever is not here is refused by its name: nothing is handed on to Spark as it stands. Must not know: tables, joins,
aggregation; a name is looked up by a function that is given, and what stands for an aggregate by another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from onceflow.errors import ConfigurationError
from onceflow.flinksql import functions
from onceflow.flinksql.functions import AGGREGATES, FUNCTIONS, REFUSED
from onceflow.flinksql.kinds import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    Kind,
    as_decimal,
    common,
    decimal,
    quoted,
)
from onceflow.flinksql.patterns import takes_part
from onceflow.flinksql.problems import Position, meant, refused, wrong
from onceflow.flinksql.reserved import RESERVED, TAKEN_AS_NAMES

_INT_MAX = 2**31 - 1
_COMPARISONS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}
_ARITHMETIC: Mapping[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_WHOLE_FROM = "4503599627370496"
"""2^52: a DOUBLE from here on has nothing behind the point."""
_MILLIS = {"SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}
# What Java's old and new formats of times, of which Flink and Spark have one each, read and write in the same way.
_TIME_FORM = re.compile(r"(?:yyyy|MM|dd|HH|mm|ss|S{1,6}|[^A-Za-z'\[\]{}#]|'[A-Za-z]+')+")
_FRACTION = "SSSSSS"
_FLOORS = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
# What Spark and Flink's JSON_VALUE go along in the same way: names and places.
_JSON_PATH = re.compile(r"(?:lax\s+)?(\$(?:\.\w+|\['[\w .:/-]+'\])+)")


@dataclass(frozen=True, slots=True)
class Piece:
    """An expression in Spark's words.

    Attributes:
        sql: Its text.
        kind: What it gives.
        role: What it is beside its value: a time attribute ("rowtime"), a part of a window ("window_start",
            "window_end", "window_time"), the row's number ("rank"), an INTERVAL in whole days ("days") or in
            months ("months"); "" for anything else.
        window: Of a part of a window: the text of the window itself.
        literal: The value of text, a number or a number of days that is written there.
    """

    sql: str
    kind: Kind
    role: str = ""
    window: str = ""
    literal: str | None = None


Lookup = Callable[[exp.Column], Piece]
Special = Callable[[exp.Expr], Piece | None]


@dataclass(frozen=True)
class QueryText:
    """What a query is made of, for the places of its parts.

    Attributes:
        text: As sqlglot got it.
        at: Where it begins in the script.
        casts: The types that stand in CASTs, by the names that were put in their places.
    """

    text: str
    at: Position
    casts: Mapping[str, Kind]

    def place(self, of: exp.Expr) -> Position:
        """Where a part of the query stands: its first name's place."""
        starts = [node.meta["start"] for node in of.walk() if "start" in node.meta]
        if not starts and of.parent is not None:
            return self.place(of.parent)
        return self.place_of(min(starts, default=0))

    def place_of(self, offset: int) -> Position:
        """Where a character of the text stands."""
        before = self.text[:offset]
        lines = before.count("\n")
        column = offset - before.rfind("\n") if lines else self.at.column + offset
        return Position(self.at.line + lines, column)


def literal(text: str) -> str:
    """Text as Spark reads it back."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def name_of(identifier: exp.Expr, text: QueryText) -> str:
    """A name, which is no word of SQL unless it is quoted."""
    name = str(identifier.this)
    if not identifier.args.get("quoted") and name.upper() in RESERVED - TAKEN_AS_NAMES:
        raise wrong(text.place(identifier), f"{name} is a word of SQL, and no name", action=f"write `{name}`")
    return name


def interval_ms(of: exp.Expr, text: QueryText) -> int:
    """The length of ``INTERVAL '10' SECOND``; months have none.

    Raises:
        ConfigurationError: It is none, or not of one unit.
    """
    if not isinstance(of, exp.Interval):
        raise wrong(text.place(of), "an interval is expected here", action="write INTERVAL '10' SECOND")
    unit = of.args.get("unit")
    value = of.this
    if not isinstance(unit, exp.Var) or not isinstance(value, exp.Literal) or not value.is_string:
        raise refused(
            text.place(of),
            "an interval of two units",
            "it is not taken yet",
            "write it in the smaller unit: '90' SECOND",
        )
    name = str(unit.this).upper().removesuffix("S")
    if name not in _MILLIS:
        why = "Flink takes it for an hour" if name == "WEEK" else "it has no length of its own"
        raise refused(text.place(of), f"an interval in {name}", why, "write it in DAY")
    try:
        return round(float(str(value.this)) * _MILLIS[name])
    except ValueError:
        raise wrong(
            text.place(of), f"{value.this!r} is no length of an interval", action="write INTERVAL '10' SECOND"
        ) from None


def spark_interval(milliseconds: int) -> str:
    """A length as Spark's INTERVAL literal."""
    return f"INTERVAL '{milliseconds / 1000:.3f}' SECOND"


class Expressions:
    """Translates expressions of one query.

    Args:
        text: The query's text.
        lookup: What a column's name means.
        special: Asked first of each node: what stands for it, or None.
        own: The script's functions: what each gives.
    """

    def __init__(self, text: QueryText, lookup: Lookup, special: Special, own: Mapping[str, Kind]) -> None:
        self._text, self._lookup, self._special, self._own = text, lookup, special, own
        rules: dict[type[exp.Expr], Callable[[exp.Expr], Piece]] = {
            exp.Column: self._column,
            exp.Literal: self._literal,
            exp.Boolean: lambda node: Piece("true" if node.this else "false", BOOLEAN),
            exp.Null: lambda _: Piece("NULL", NULL),
            exp.Paren: self._paren,
            exp.And: self._logic("AND"),
            exp.Or: self._logic("OR"),
            exp.Not: lambda node: Piece(f"(NOT {self._boolean(node.this)})", BOOLEAN),
            exp.Neg: self._negative,
            exp.Div: self._division,
            exp.Mod: self._modulo,
            exp.DPipe: self._concat,
            exp.Is: self._is,
            exp.NullSafeEQ: self._comparison,
            exp.NullSafeNEQ: self._comparison,
            exp.Between: self._between,
            exp.In: self._in,
            exp.Like: self._like,
            exp.Escape: self._escape,
            exp.Case: self._case,
            exp.Cast: self._cast,
            exp.TryCast: self._cast,
            exp.Interval: self._interval,
            exp.Extract: self._extract,
            exp.Trim: self._trim,
            exp.Substring: self._substring,
            exp.StrPosition: self._position,
            exp.Ceil: self._rounded,
            exp.Floor: self._rounded,
            exp.Bracket: self._bracket,
            exp.Dot: self._dot,
            exp.Array: self._array,
            exp.CurrentTimestamp: lambda _: Piece("current_timestamp()", TIMESTAMP_LTZ),
            exp.CurrentDate: lambda _: Piece("current_date()", DATE),
            exp.Anonymous: self._function,
        }
        rules.update(dict.fromkeys(_COMPARISONS, self._comparison))
        rules.update(dict.fromkeys(_ARITHMETIC, self._arithmetic))
        self._rules = rules

    def piece(self, node: exp.Expr) -> Piece:
        """The expression in Spark's words.

        Raises:
            ConfigurationError: It is not taken, or does not fit together.
        """
        found = self._special(node)
        if found is not None:
            return found
        rule = self._rules.get(type(node))
        if rule is None:
            raise self.no_such(node)
        return rule(node)

    def no_such(self, node: exp.Expr) -> ConfigurationError:
        """The refusal of something that has no rule."""
        names: Mapping[type[exp.Expr], tuple[str, str]] = {
            exp.Exists: ("EXISTS", "write an interval join, and keep one row by ROW_NUMBER"),
            exp.Subquery: ("a query inside of an expression", "join it"),
            exp.Select: ("a query inside of an expression", "join it"),
            exp.Window: ("OVER", "use windows in FROM, or ROW_NUMBER with WHERE rn <= n"),
            exp.CurrentTime: ("CURRENT_TIME", "use CURRENT_TIMESTAMP"),
            exp.Star: ("* here", "write COUNT(*), or name the columns"),
            exp.SimilarTo: ("SIMILAR TO", "use REGEXP(value, pattern)"),
        }
        name, instead = names.get(type(node), (type(node).__name__.upper(), "write it otherwise, see docs/sql.md"))
        return refused(
            self._text.place(node), name, "Spark cannot keep it of a stream, or it is not taken yet", instead
        )

    def _boolean(self, node: exp.Expr) -> str:
        found = self.piece(node)
        if found.kind.name not in ("BOOLEAN", "NULL"):
            raise wrong(
                self._text.place(node), f"a condition is expected, and this is {found.kind}", action="compare it"
            )
        return "CAST(NULL AS BOOLEAN)" if found.kind.name == "NULL" else found.sql

    def _misfit(self, node: exp.Expr, what: str, *kinds: Kind) -> ConfigurationError:
        told = " and ".join(map(str, kinds))
        return wrong(self._text.place(node), f"{what} does not take {told}", action="write a CAST")

    # -- names and literals -----------------------------------------------------------------------

    def _column(self, node: exp.Expr) -> Piece:
        assert isinstance(node, exp.Column)  # noqa: S101 - by the table of rules
        if (
            isinstance(node.this, exp.Identifier)
            and not node.this.args.get("quoted")
            and node.args.get("table") is None
        ):
            word = str(node.this.this).upper()
            if word == "LOCALTIMESTAMP":
                return Piece("current_timestamp()", TIMESTAMP)
            if word in REFUSED:
                raise refused(self._text.place(node), word, *REFUSED[word])
        return self._lookup(node)

    def _literal(self, node: exp.Expr) -> Piece:
        text = str(node.this)
        if node.is_string:
            return Piece(literal(text), STRING, literal=text)
        if "e" in text.lower():
            return Piece(f"{text}D" if text.lower() else text, DOUBLE, literal=text)
        if "." in text:
            whole, _, fraction = text.partition(".")
            kind = decimal(len(whole) + len(fraction), len(fraction))  # Flink counts zeros in front, too
            return Piece(f"CAST({text} AS {kind.spark()})", kind, literal=text)
        return Piece(text, INT if int(text) <= _INT_MAX else BIGINT, literal=text)

    def _paren(self, node: exp.Expr) -> Piece:
        inner = self.piece(node.this)
        role = inner.role if inner.kind.name == "INTERVAL" else ""
        return Piece(f"({inner.sql})", inner.kind, role, literal=inner.literal)

    def _interval(self, node: exp.Expr) -> Piece:
        unit = node.args.get("unit")
        name = str(unit.this).upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
        if name in ("YEAR", "MONTH"):
            return Piece(f"INTERVAL {literal(str(node.this.this))} {name}", INTERVAL, "months")
        length = interval_ms(node, self._text)
        if name == "DAY" and length % _MILLIS["DAY"] == 0:
            return Piece(spark_interval(length), INTERVAL, "days", literal=str(length // _MILLIS["DAY"]))
        return Piece(spark_interval(length), INTERVAL)

    # -- operators --------------------------------------------------------------------------------

    def _logic(self, word: str) -> Callable[[exp.Expr], Piece]:
        return lambda node: Piece(
            f"({self._boolean(node.this)} {word} {self._boolean(node.expression)})",
            BOOLEAN,
        )

    def _negative(self, node: exp.Expr) -> Piece:
        inner = self.piece(node.this)
        if not inner.kind.is_number:
            raise self._misfit(node, "-", inner.kind)
        if inner.literal == str(_INT_MAX + 1):
            return Piece(f"CAST({-_INT_MAX - 1} AS INT)", INT, literal=str(-_INT_MAX - 1))
        return Piece(
            functions.negative(inner.sql, inner.kind),
            inner.kind,
            literal=None if inner.literal is None else f"-{inner.literal}",
        )

    def _pair(self, node: exp.Expr) -> tuple[Piece, Piece]:
        return self.piece(node.this), self.piece(node.args["expression"])

    def _comparison(self, node: exp.Expr) -> Piece:
        left, right = self._comparable(node, "a comparison", *self._pair(node))
        if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
            same = f"({left.sql} <=> {right.sql})"
            return Piece(same if isinstance(node, exp.NullSafeEQ) else f"(NOT {same})", BOOLEAN)
        return Piece(_compared(left, _COMPARISONS[type(node)], right), BOOLEAN)

    def _comparable(self, node: exp.Expr, what: str, left: Piece, right: Piece) -> tuple[Piece, Piece]:
        """Both; text in quotes beside a time or a DATE is read as one."""
        left, right = self._beside(node, left, right), self._beside(node, right, left)
        if common(left.kind, right.kind) is None or "MAP" in (left.kind.name, right.kind.name):
            raise self._misfit(node, what, left.kind, right.kind)
        for one, other in ((left, right), (right, left)):
            if one.kind.name == "FLOAT" and other.kind.name == "DOUBLE" and other.literal is not None:
                raise refused(
                    self._text.place(node),
                    f"{what} of a FLOAT with {other.literal}",
                    "Flink cuts its digits to those of a FLOAT, Spark does not",
                    "CAST the FLOAT to DOUBLE, or write the number without E",
                )
        return left, right

    def _beside(self, node: exp.Expr, of: Piece, other: Piece) -> Piece:
        is_time = other.kind.is_time
        if of.kind.name != "STRING" or of.literal is None or not (is_time or other.kind.name == "DATE"):
            return of
        form = r"\d{4}-\d\d-\d\d" + (r"( \d\d:\d\d:\d\d(\.\d{1,6})?)?" if is_time else "")
        if re.fullmatch(form, of.literal) is None:
            instead = "'2026-01-31 23:59:59'" if is_time else "'2026-01-31'"
            raise wrong(self._text.place(node), f"{of.literal!r} is no {other.kind}", action=f"write {instead}")
        text = f"{'TIMESTAMP' if is_time else 'DATE'} {of.sql}"
        return Piece(cut(text, other.kind) if is_time else text, other.kind)

    def _arithmetic(self, node: exp.Expr) -> Piece:
        left, right = self._pair(node)
        sign = _ARITHMETIC[type(node)]
        kinds = {left.kind.name, right.kind.name}
        text = f"({left.sql} {sign} {right.sql})"
        if "INTERVAL" in kinds:
            time, by = (right, left) if left.kind.name == "INTERVAL" else (left, right)
            if not functions.suits(time.kind, "day") or sign == "*" or (sign == "-" and by is left):
                raise self._misfit(node, sign, left.kind, right.kind)
            return self._moved_day(node, time, sign, by) if time.kind.name == "DATE" else Piece(text, time.kind)
        if "NULL" in kinds and (left.kind.is_number or right.kind.is_number):
            return Piece(text, right.kind if left.kind.name == "NULL" else left.kind)
        if not (left.kind.is_number and right.kind.is_number):
            raise self._misfit(node, sign, left.kind, right.kind)
        return _calculated(left, sign, right)

    def _moved_day(self, node: exp.Expr, day: Piece, sign: str, by: Piece) -> Piece:
        """A DATE and an interval, which is a DATE again."""
        if by.role == "months":
            return Piece(f"({day.sql} {sign} {by.sql})", DATE)
        if by.role != "days" or by.literal is None:
            raise self._no_hours(node)
        return Piece(f"date_add({day.sql}, {int(by.literal) * (-1 if sign == '-' else 1)})", DATE)

    def _no_hours(self, node: exp.Expr) -> ConfigurationError:
        why, instead = "Flink leaves out what is less than a day", "CAST it to TIMESTAMP(3), or write days"
        return refused(self._text.place(node), "hours of a DATE", why, instead)

    def _division(self, node: exp.Expr) -> Piece:
        left, right = self._pair(node)
        if not (left.kind.is_number and right.kind.is_number):
            raise self._misfit(node, "/", left.kind, right.kind)
        kind = _computed(left.kind, right.kind, "/")
        if kind.is_whole:  # Flink's division of whole numbers is one; Spark's / is not
            return Piece(f"CAST(({left.sql} DIV {right.sql}) AS {kind.spark()})", kind)
        return _calculated(left, "/", right)

    def _modulo(self, node: exp.Expr) -> Piece:
        left, right = self._pair(node)
        return self._rest(node, "%", left, right)

    def _rest(self, node: exp.Expr, word: str, left: Piece, right: Piece) -> Piece:
        """Of a division: of floating-point numbers Flink knows none."""
        kind = common(left.kind, right.kind)
        if kind is None or not kind.is_number or kind.is_approximate:
            raise self._misfit(node, word, left.kind, right.kind)
        if kind.is_whole:  # it is less than what it is divided by
            return Piece(f"CAST(({left.sql} % {right.sql}) AS {right.kind.spark()})", right.kind)
        one, other = _as_decimals(left, right)
        a, b = as_decimal(left.kind), as_decimal(right.kind)
        scale = max(a.scale or 0, b.scale or 0)
        whole = min((a.precision or 0) - (a.scale or 0), (b.precision or 0) - (b.scale or 0))
        return Piece(f"({one} % {other})", decimal(whole + scale, scale))

    def _concat(self, node: exp.Expr) -> Piece:
        left, right = self._pair(node)
        if not all(each.kind.name in ("STRING", "NULL") for each in (left, right)):
            raise self._misfit(node, "||", left.kind, right.kind)
        return Piece(f"concat({left.sql}, {right.sql})", STRING)

    def _is(self, node: exp.Expr) -> Piece:
        inner, test = self.piece(node.this), node.args["expression"]
        if isinstance(test, exp.Null):
            return Piece(f"({inner.sql} IS NULL)", BOOLEAN)
        if isinstance(test, exp.Boolean):
            return Piece(f"({self._boolean(node.this)} <=> {'true' if test.this else 'false'})", BOOLEAN)
        raise self.no_such(node)

    def _between(self, node: exp.Expr) -> Piece:
        value, low, high = self.piece(node.this), self.piece(node.args["low"]), self.piece(node.args["high"])
        if node.args.get("symmetric"):
            raise refused(self._text.place(node), "BETWEEN SYMMETRIC", "it is not taken yet", "write both comparisons")
        _, low = self._comparable(node, "BETWEEN", value, low)
        _, high = self._comparable(node, "BETWEEN", value, high)
        if any(each.kind.is_approximate for each in (value, low, high)):
            return Piece(f"({_compared(value, '>=', low)} AND {_compared(value, '<=', high)})", BOOLEAN)
        return Piece(f"({value.sql} BETWEEN {low.sql} AND {high.sql})", BOOLEAN)

    def _in(self, node: exp.Expr) -> Piece:
        if not node.expressions:
            raise refused(
                self._text.place(node), "IN with a query", "its rows would have to be kept for ever", "write a join"
            )
        value = self.piece(node.this)
        values = [self._comparable(node, "IN", value, self.piece(each))[1] for each in node.expressions]
        for each in values:
            if (value.kind.is_whole or value.kind.name == "FLOAT") and each.kind.name in ("DECIMAL", "DOUBLE"):
                raise refused(
                    self._text.place(node),
                    f"IN of {value.kind} with {each.kind}",
                    "Flink cuts the digits of what is in the list",
                    "CAST the value before IN to the type of those in the list",
                )
        if any(each.kind.is_approximate for each in (value, *values)):
            return Piece(f"({' OR '.join(_compared(value, '=', each) for each in values)})", BOOLEAN)
        return Piece(f"({value.sql} IN ({', '.join(each.sql for each in values)}))", BOOLEAN)

    def _like(self, node: exp.Expr, escape: str = "") -> Piece:
        value, pattern = self._pair(node)
        if value.kind.name != "STRING" or pattern.literal is None:
            raise refused(
                self._text.place(node),
                "LIKE without a pattern in quotes",
                "it is not taken yet",
                "use POSITION or REGEXP",
            )
        # Spark takes a backslash for an escape where none is named; Flink takes none.
        text = pattern.literal
        doubled = literal(text.replace("\\", "\\\\"))
        text = f"{literal(text)} ESCAPE {literal(escape)}" if escape else doubled
        return Piece(f"({value.sql} {'NOT ' if node.args.get('negate') else ''}LIKE {text})", BOOLEAN)

    def _escape(self, node: exp.Expr) -> Piece:
        sign = node.args["expression"]
        if not isinstance(node.this, exp.Like) or not isinstance(sign, exp.Literal) or len(str(sign.this)) != 1:
            raise self.no_such(node)
        return self._like(node.this, str(sign.this))

    def _case(self, node: exp.Expr) -> Piece:
        of = None if node.this is None else self.piece(node.this)
        text, kinds = "CASE", []
        for each in node.args["ifs"]:
            if of is None:
                condition = self._boolean(each.this)
            else:
                _, value = self._comparable(node, "CASE", of, self.piece(each.this))
                condition = _compared(of, "=", value)
            then = self.piece(each.args["true"])
            kinds.append(then.kind)
            text += f" WHEN {condition} THEN {then.sql}"
        if node.args.get("default") is not None:
            default = self.piece(node.args["default"])
            kinds.append(default.kind)
            text += f" ELSE {default.sql}"
        kind = self._one_kind(node, "CASE", kinds)
        return Piece(_as_float(f"{text} END", kind), kind)

    def _one_kind(self, node: exp.Expr, what: str, kinds: Sequence[Kind]) -> Kind:
        found: Kind | None = kinds[0]
        for kind in kinds[1:]:
            found = None if found is None else common(found, kind)
        if found is None or {"FLOAT", "DOUBLE"} <= {kind.name for kind in kinds}:
            raise self._misfit(node, what, *kinds)  # of FLOAT and DOUBLE Flink makes FLOAT, and digits are lost
        return found

    # -- CAST -------------------------------------------------------------------------------------

    def _cast(self, node: exp.Expr) -> Piece:
        to = node.args["to"]
        name = str(to.args.get("kind") or to.this.value).lower()
        if name in self._text.casts:
            return self.cast(node, self.piece(node.this), self._text.casts[name], trying=isinstance(node, exp.TryCast))
        if isinstance(node.this, exp.Literal) and name in ("timestamp", "date"):
            return self._dated(node, name, str(node.this.this))
        raise self.no_such(node)

    def _dated(self, node: exp.Expr, name: str, text: str) -> Piece:
        """``DATE '…'`` and ``TIMESTAMP '…'``."""
        pattern = r"\d{4}-\d\d-\d\d" + (r" \d\d:\d\d:\d\d(\.\d{1,6})?" if name == "timestamp" else "")
        if re.fullmatch(pattern, text) is None:
            form = "TIMESTAMP '2026-01-31 23:59:59'" if name == "timestamp" else "DATE '2026-01-31'"
            raise wrong(self._text.place(node), f"{text!r} is no {name.upper()}", action=f"write {form}")
        kind = DATE if name == "date" else Kind("TIMESTAMP", len(text.partition(".")[2]))
        return Piece(f"{name.upper()} {literal(text)}", kind)

    def cast(self, node: exp.Expr, of: Piece, to: Kind, *, trying: bool = False) -> Piece:
        """CAST, or TRY_CAST: of what Flink takes, with what it gives."""
        word, given = "try_cast" if trying else "CAST", of.kind
        if to.name == "STRING" and to.precision is not None:
            raise refused(
                self._text.place(node),
                "a CAST to text of a length",
                "Spark does not cut it",
                "CAST it to STRING, and use LEFT",
            )
        if to.name == "STRING" and given.name in ("ARRAY", "MAP", "ROW"):
            raise refused(
                self._text.place(node),
                f"a CAST of {given.name} to text",
                "the engines write it differently",
                "name its parts, and put them together by CONCAT",
            )
        if to.name == "STRING" and given.name == "BOOLEAN":
            return Piece(f"upper(CAST({of.sql} AS STRING))", to)
        if trying and given.is_number and to.is_whole and _loses(given, to):
            raise refused(
                self._text.place(node),
                f"a TRY_CAST of {given} to {to}",
                "of what does not fit Flink gives another number",
                "write CAST, which stops the job",
            )
        if given.name == "STRING" and to.is_whole:
            return Piece(f"{word}({functions.whole_from_text(of.sql)} AS {to.spark()})", to)
        if given.name == "STRING" and to.name == "BOOLEAN":  # Spark would leave out blanks
            otherwise = "NULL" if trying else f"CAST(concat('blanks in ', {of.sql}) AS BOOLEAN)"
            return Piece(f"if({of.sql} <> trim({of.sql}), {otherwise}, {word}({of.sql} AS BOOLEAN))", to)
        if given.name == "STRING" and (to.is_time or to.name == "DATE"):
            return self._time_from_text(of, to, trying=trying)
        if to.name == "STRING" and given.is_time:
            digits = given.precision or 0
            form = "yyyy-MM-dd HH:mm:ss" + (f".{_FRACTION[:digits]}" if digits else "")
            return Piece(f"date_format({of.sql}, '{form}')", to)
        if to.is_time:
            if given.is_number or given.name == "BOOLEAN":
                raise refused(
                    self._text.place(node),
                    f"a CAST of {given} to {to}",
                    "Flink takes none",
                    "use TO_TIMESTAMP_LTZ(n, 3)",
                )
            return Piece(cut(f"{word}({of.sql} AS TIMESTAMP)", to), to)
        if given.is_time and to.name != "DATE":
            raise refused(self._text.place(node), f"a CAST of {given} to {to}", "Flink takes none", "use EXTRACT")
        return Piece(f"{word}({of.sql} AS {to.spark()})", to)

    def _time_from_text(self, of: Piece, to: Kind, *, trying: bool) -> Piece:
        word, kind = "try_cast" if trying else "CAST", to.spark()
        given, fits = functions.from_text(of.sql, to.name)
        failure = literal(f"a text is no {to.name}: write it as 2026-01-31 or 2026-01-31 23:59:59.999")
        otherwise = "" if trying else f" WHEN {of.sql} IS NULL THEN NULL ELSE raise_error({failure})"
        text = f"CASE WHEN {fits} THEN {word}({given} AS {kind}){otherwise} END"
        return Piece(cut(text, to) if to.is_time else text, to)

    # -- functions with a grammar -----------------------------------------------------------------

    def _extract(self, node: exp.Expr) -> Piece:
        unit = str(node.this.this).upper()
        of = self.piece(node.args["expression"])
        if unit not in functions.UNITS:
            action = meant(unit, functions.UNITS, f"take one of {', '.join(functions.UNITS)}")
            raise wrong(self._text.place(node), f"EXTRACT knows no {unit} here", action=action)
        if not functions.suits(of.kind, "day"):
            raise self._misfit(node, "EXTRACT", of.kind)
        self._require_time(node, unit, of)
        return Piece(functions.part(unit, of.sql), BIGINT)

    def _require_time(self, node: exp.Expr, unit: str, of: Piece) -> None:
        if of.kind.name == "DATE" and unit in ("HOUR", "MINUTE", "SECOND"):
            raise refused(self._text.place(node), f"the {unit} of a DATE", "Flink gives any number", "write 0")

    def _trim(self, node: exp.Expr) -> Piece:
        of = self.piece(node.this)
        where = str(node.args.get("position") or "BOTH").upper()
        what = node.args.get("expression")
        signs = "" if what is None else f"{self.piece(what).sql} "
        return Piece(f"trim({where} {signs}FROM {of.sql})", STRING)

    def _substring(self, node: exp.Expr) -> Piece:
        parts = [node.this, node.args["start"], *filter(None, [node.args.get("length")])]
        given = [self.piece(each) for each in parts]
        if given[0].kind.name != "STRING" or not all(each.kind.is_whole for each in given[1:]):
            raise self._misfit(node, "SUBSTRING", *(each.kind for each in given))
        return self._part_of_text(node, given)

    def _part_of_text(self, _: exp.Expr, given: Sequence[Piece]) -> Piece:
        """SUBSTRING: of a start before the text Flink gives '', of a length below 0 NULL; Spark gives what is left."""
        text = f"substr({', '.join(each.sql for each in given)})"
        guards = ""
        if len(given) == 3 and not _is_natural(given[2]):
            guards += f" WHEN {given[2].sql} < 0 THEN NULL"
        if not _is_natural(given[1]):
            guards += f" WHEN {given[1].sql} < - char_length({given[0].sql}) THEN ''"
        return Piece(f"CASE{guards} ELSE {text} END" if guards else text, STRING)

    def _position(self, node: exp.Expr) -> Piece:
        of, what = self.piece(node.this), self.piece(node.args["substr"])
        return Piece(f"position({what.sql} IN {of.sql})", INT)

    def _rounded(self, node: exp.Expr) -> Piece:
        of, word = self.piece(node.this), type(node).__name__.lower()
        unit = node.args.get("to")
        if node.args.get("decimals") is not None:
            raise wrong(self._text.place(node), f"{word.upper()} takes one argument", action="use ROUND")
        if unit is not None:
            return self._floor_of_time(node, of, word, str(unit.this).upper())
        if not of.kind.is_number:
            raise self._misfit(node, word.upper(), of.kind)
        kind = decimal(of.kind.precision or 38, 0) if of.kind.name == "DECIMAL" else of.kind
        if of.kind.is_whole:
            return Piece(of.sql, kind)
        text = f"CAST({word}({of.sql}) AS {kind.spark()})"
        if kind.is_approximate:  # Spark's goes through a BIGINT, which has no NaN, nothing infinite and no -0.0
            zero = f" WHEN {of.sql} > -1 AND {of.sql} < 0 THEN CAST('-0.0' AS {kind.spark()})" if word == "ceil" else ""
            kept = f"isnan({of.sql}) OR {of.sql} = 0 OR abs({of.sql}) >= {_WHOLE_FROM}"
            text = f"CASE WHEN {kept} THEN {of.sql}{zero} ELSE {text} END"
        return Piece(text, kind)

    def _floor_of_time(self, node: exp.Expr, of: Piece, word: str, unit: str) -> Piece:
        told = f"{word.upper()} TO"
        if not functions.suits(of.kind, "day"):
            raise self._misfit(node, told, of.kind)
        if unit not in _FLOORS:
            why = "Flink's begins on Sunday, Spark's on Monday" if unit == "WEEK" else "it is not taken yet"
            raise refused(self._text.place(node), f"{told} {unit}", why, f"take one of {', '.join(_FLOORS)}")
        text = f"date_trunc('{unit}', {of.sql})"
        if word == "ceil" and of.kind.name == "DATE" and unit not in ("YEAR", "QUARTER", "MONTH"):
            raise refused(
                self._text.place(node), f"CEIL TO {unit} of a DATE", "Flink gives another day", "write the DATE alone"
            )
        if word == "ceil":
            step = "'3' MONTH" if unit == "QUARTER" else f"'1' {unit}"
            millis = cut(of.sql, TIMESTAMP)  # Flink looks at no more digits
            text = f"if({text} = {millis}, {text}, {text} + INTERVAL {step})"
        return Piece(f"CAST({text} AS DATE)" if of.kind.name == "DATE" else text, of.kind)

    def _bracket(self, node: exp.Expr) -> Piece:
        if (
            isinstance(node.this, exp.Column)
            and str(node.this.this.this).upper() == "MAP"
            and not node.this.args.get("table")
        ):
            return self._map(node)
        of, at = self.piece(node.this), self.piece(node.expressions[0])
        if of.kind.name == "ARRAY" and at.kind.is_whole:
            if not _is_natural(at):  # Spark would count from the end
                text = f"CASE WHEN {at.sql} < 1 THEN raise_error('the first item of an ARRAY is 1') "
                text += f"ELSE try_element_at({of.sql}, CAST({at.sql} AS INT)) END"
                return Piece(text, of.kind.inner[0])
            if at.literal == "0":
                raise wrong(self._text.place(node), "the first item of an ARRAY is 1, and not 0", action="write [1]")
            return Piece(f"try_element_at({of.sql}, CAST({at.sql} AS INT))", of.kind.inner[0])
        if of.kind.name == "MAP":
            return Piece(f"try_element_at({of.sql}, {at.sql})", of.kind.inner[1])
        raise self._misfit(node, "[…]", of.kind, at.kind)

    def _dot(self, node: exp.Expr) -> Piece:
        return self.field(node, self.piece(node.this), str(node.args["expression"].this))

    def field(self, node: exp.Expr, of: Piece, name: str) -> Piece:
        """A field of a ROW."""
        if of.kind.name != "ROW" or name not in of.kind.fields:
            known = of.kind.fields if of.kind.name == "ROW" else ()
            raise wrong(
                self._text.place(node), f"{of.kind} has no field {name}", action=meant(name, known, "name another one")
            )
        return Piece(f"{of.sql}.{quoted(name)}", of.kind.inner[of.kind.fields.index(name)])

    def _array(self, node: exp.Expr) -> Piece:
        items = [self.piece(each) for each in node.expressions]
        kind = self._one_kind(node, "ARRAY", [each.kind for each in items]) if items else NULL
        return Piece(f"array({', '.join(each.sql for each in items)})", Kind("ARRAY", inner=(kind,)))

    def _map(self, node: exp.Expr) -> Piece:
        items = [self.piece(each) for each in node.expressions]
        if len(items) % 2:
            raise wrong(self._text.place(node), "a MAP has a value for each key", action="write MAP['a', 1, 'b', 2]")
        keys = self._one_kind(node, "MAP", [each.kind for each in items[::2]])
        values = self._one_kind(node, "MAP", [each.kind for each in items[1::2]])
        return Piece(f"map({', '.join(each.sql for each in items)})", Kind("MAP", inner=(keys, values)))

    # -- functions by name ------------------------------------------------------------------------

    def _function(self, node: exp.Expr) -> Piece:
        called = node.this
        name = str(called.this if isinstance(called, exp.Identifier) else called)
        word = name.upper()
        if name in self._own:
            given = [self.piece(each) for each in node.expressions]
            return Piece(f"{quoted(name)}({', '.join(each.sql for each in given)})", self._own[name])
        if word in REFUSED:
            raise refused(self._text.place(node), word, *REFUSED[word])
        if word in _WITH_RULES:
            return _WITH_RULES[word](self, node)
        if word in AGGREGATES:
            raise wrong(
                self._text.place(node), f"{word} stands where no rows are gathered", action="use it in SELECT or HAVING"
            )
        if word not in FUNCTIONS:
            known = [*FUNCTIONS, *AGGREGATES, *self._own, *REFUSED, *functions.ELSEWHERE]
            action = meant(name, known, "docs/sql-options.md has all; CREATE TEMPORARY FUNCTION makes one of your own")
            raise wrong(self._text.place(node), f"there is no function {name}", action=action)
        return self._known(node, word)

    def _known(self, node: exp.Expr, word: str) -> Piece:
        function = FUNCTIONS[word]
        given = [self.piece(each) for each in node.expressions]
        if word == "TO_DATE" and len(given) == 2:
            raise refused(
                self._text.place(node),
                "TO_DATE with a form",
                "of text that does not fit it Flink gives days that are none",
                "write CAST(TO_TIMESTAMP(text, form) AS DATE)",
            )
        if len(given) < function.least or (function.most is not None and len(given) > function.most):
            wanted = str(function.least) if function.least == function.most else f"{function.least} or more"
            raise wrong(self._text.place(node), f"{word} takes {wanted} arguments, and {len(given)} are given")
        for i, each in enumerate(given):
            if not functions.suits(each.kind, function.takes[min(i, len(function.takes) - 1)]):
                raise self._misfit(node, word, each.kind)
        if word in ("DATE_FORMAT", "TO_TIMESTAMP", "FROM_UNIXTIME") and len(given) > 1:
            self._require_form(node, word, given[1])
        if word in ("HOUR", "MINUTE", "SECOND"):
            self._require_time(node, word, given[0])
        kind = function.kind([each.kind for each in given])
        if kind is None:
            raise self._misfit(node, word, *(each.kind for each in given))
        if word in _WITH_CARE:
            return _WITH_CARE[word](self, node, given)
        return Piece(_as_float(function.text([each.sql for each in given]), kind), kind)

    def _mod(self, node: exp.Expr, given: Sequence[Piece]) -> Piece:
        return self._rest(node, "MOD", given[0], given[1])

    def _abs(self, _: exp.Expr, given: Sequence[Piece]) -> Piece:
        of = given[0]
        if of.kind.name != "DECIMAL":
            return Piece(f"abs({of.sql})", of.kind)
        return Piece(f"if({of.sql} < 0, {functions.negative(of.sql, of.kind)}, {of.sql})", of.kind)

    def _nullif(self, node: exp.Expr, given: Sequence[Piece]) -> Piece:
        one, other = self._comparable(node, "NULLIF", *given)
        return Piece(f"CASE WHEN {_compared(one, '=', other)} THEN NULL ELSE {one.sql} END", one.kind)

    def _round(self, node: exp.Expr, given: Sequence[Piece]) -> Piece:
        of, places = given[0], given[1].literal if len(given) > 1 else "0"
        if places is None or re.fullmatch(r"-?\d+", places) is None:
            raise refused(
                self._text.place(node),
                "ROUND to places that are not written there",
                "Spark has to know them before it starts",
                "write CASE n WHEN 0 THEN ROUND(x, 0) WHEN 1 THEN ROUND(x, 1) … END",
            )
        kind, count = of.kind, int(places)
        if kind.name == "DECIMAL" and count < (kind.scale or 0):
            left = max(count, 0)
            kind = decimal(1 + (kind.precision or 0) - (kind.scale or 0) + left, left)
        return Piece(f"CAST(round({of.sql}, {count}) AS {kind.spark()})", kind)

    def _sign(self, _: exp.Expr, given: Sequence[Piece]) -> Piece:
        return Piece(f"CAST(sign({given[0].sql}) AS {given[0].kind.spark()})", given[0].kind)

    def _json_value(self, node: exp.Expr, given: Sequence[Piece]) -> Piece:
        found = None if given[1].literal is None else _JSON_PATH.fullmatch(given[1].literal)
        if found is None:
            raise refused(
                self._text.place(node),
                "this path of JSON_VALUE",
                "of anything but names the engines think differently",
                "write a path in quotes, such as '$.a.b[''c d'']', without strict; an ARRAY can be a column of its own",
            )
        return Piece(f"get_json_object({given[0].sql}, {literal(found.group(1))})", STRING)

    def _regexp_extract(self, node: exp.Expr, given: Sequence[Piece]) -> Piece:
        if len(given) > 2 and given[2].literal != "0":
            pattern, number = given[1].literal, int(given[2].literal or 0) if _is_natural(given[2]) else None
            if pattern is None or not takes_part(pattern, number):
                raise refused(
                    self._text.place(node),
                    "a group of REGEXP_EXTRACT that may take no part",
                    "Flink gives NULL for it and Spark '', as for one that is empty",
                    "write a pattern in quotes, and the number of a group that is neither optional nor beside a |",
                )
        return Piece(FUNCTIONS["REGEXP_EXTRACT"].text([each.sql for each in given]), STRING)

    def _regexp_replace(self, node: exp.Expr, given: Sequence[Piece]) -> Piece:
        if given[2].literal is None or set(given[2].literal) & set("$\\"):
            raise refused(
                self._text.place(node),
                "REGEXP_REPLACE by anything but plain text in quotes",
                "$ and \\ stand for groups in Spark, and for themselves in Flink",
                "write text without them, or use REGEXP_EXTRACT with CONCAT",
            )
        return Piece(f"regexp_replace({', '.join(each.sql for each in given)})", STRING)

    def _split_index(self, node: exp.Expr, given: Sequence[Piece]) -> Piece:
        sign = given[1].literal
        if not sign or "\\E" in sign:
            raise self._no_plain_text(node, "SPLIT_INDEX without a separator in quotes")
        text = FUNCTIONS["SPLIT_INDEX"].text([each.sql for each in given])
        return Piece(f"CASE WHEN {given[0].sql} <> '' THEN {text} END", STRING)  # of '' Flink has no parts

    def _replace(self, node: exp.Expr, given: Sequence[Piece]) -> Piece:
        if not given[1].literal:
            raise self._no_plain_text(node, "REPLACE of anything but text in quotes")
        return Piece(f"replace({', '.join(each.sql for each in given)})", STRING)

    def _no_plain_text(self, node: exp.Expr, what: str) -> ConfigurationError:
        return refused(self._text.place(node), what, "of '' the engines think differently", "write it as text: ','")

    def _padded(self, node: exp.Expr, given: Sequence[Piece]) -> Piece:
        text = f"{str(node.this).lower()}({', '.join(each.sql for each in given)})"
        if _is_natural(given[1]) and given[2].literal:
            return Piece(text, STRING)
        return Piece(f"CASE WHEN {given[1].sql} < 0 OR {given[2].sql} = '' THEN NULL ELSE {text} END", STRING)

    def _require_form(self, node: exp.Expr, word: str, form: Piece) -> None:
        if form.literal is None or _TIME_FORM.fullmatch(form.literal) is None:
            raise refused(
                self._text.place(node),
                f"the form of {word}",
                "of other letters than yyyy, MM, dd, HH, mm, ss and S the engines think differently",
                "write for example 'yyyy-MM-dd HH:mm:ss'",
            )

    def _row(self, node: exp.Expr) -> Piece:
        given = [self.piece(each) for each in node.expressions]
        names = tuple(f"EXPR${i}" for i in range(len(given)))
        fields = ", ".join(f"{literal(name)}, {each.sql}" for name, each in zip(names, given, strict=True))
        kind = Kind("ROW", fields=names, inner=tuple(each.kind for each in given))
        return Piece(f"named_struct({fields})", kind)

    def _to_timestamp_ltz(self, node: exp.Expr) -> Piece:
        given = [self.piece(each) for each in node.expressions]
        scale = given[1].literal if len(given) == 2 else None
        if scale not in ("0", "3") or not given[0].kind.is_whole:
            raise refused(
                self._text.place(node),
                "TO_TIMESTAMP_LTZ of anything but a whole number with 0 or 3",
                "it is not taken yet",
                "write TO_TIMESTAMP_LTZ(milliseconds, 3)",
            )
        name, unit = ("timestamp_seconds", 1) if scale == "0" else ("timestamp_millis", 1_000)
        of = given[0].sql  # out of the years from 1 to 9999 Flink gives NULL
        fits = f"{of} BETWEEN {_FIRST_SECOND * unit} AND {(_LAST_SECOND + 1) * unit - 1}"
        return Piece(f"CASE WHEN {fits} THEN {name}({of}) END", TIMESTAMP_LTZ)

    def _timestamp_moved(self, node: exp.Expr) -> Piece:
        word = str(node.this).upper()
        unit_node, one, two = node.expressions if len(node.expressions) == 3 else (None, None, None)
        unit = "" if not isinstance(unit_node, exp.Column) else str(unit_node.this.this).upper()
        if (
            unit not in ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
            or one is None
            or two is None
        ):
            raise wrong(
                self._text.place(node), f"{word} takes a unit and two values", action=f"write {word}(DAY, a, b)"
            )
        first, second = self.piece(one), self.piece(two)
        fits = first.kind.is_whole if word == "TIMESTAMPADD" else functions.suits(first.kind, "day")
        if not fits or not functions.suits(second.kind, "day") or _is_mixed(first.kind, second.kind):
            raise self._misfit(node, word, first.kind, second.kind)
        if word == "TIMESTAMPADD":
            text = f"timestampadd({unit}, CAST({first.sql} AS INT), {second.sql})"
            if second.kind.name != "DATE":
                return Piece(text, second.kind)
            if unit in ("SECOND", "MINUTE", "HOUR"):
                raise self._no_hours(node)
            return Piece(f"CAST({text} AS DATE)", DATE)
        if unit in ("MONTH", "QUARTER", "YEAR"):
            raise refused(
                self._text.place(node),
                f"TIMESTAMPDIFF of {unit}",
                "at a month's end, and by the time of day, the engines count differently",
                "count DAY, or take the difference of YEAR(…) * 12 + MONTH(…)",
            )
        millis = Kind("TIMESTAMP", 3)  # Flink looks at no more digits
        return Piece(f"CAST(timestampdiff({unit}, {cut(first.sql, millis)}, {cut(second.sql, millis)}) AS INT)", INT)

    def _proctime(self, _: exp.Expr) -> Piece:
        return Piece("current_timestamp()", TIMESTAMP_LTZ, role="proctime")


_WITH_RULES: Mapping[str, Callable[[Expressions, exp.Expr], Piece]] = {
    "ROW": Expressions._row,  # noqa: SLF001 - the class above
    "TO_TIMESTAMP_LTZ": Expressions._to_timestamp_ltz,  # noqa: SLF001
    "TIMESTAMPADD": Expressions._timestamp_moved,  # noqa: SLF001
    "TIMESTAMPDIFF": Expressions._timestamp_moved,  # noqa: SLF001
    "PROCTIME": Expressions._proctime,  # noqa: SLF001
}


_WITH_CARE: Mapping[str, Callable[[Expressions, exp.Expr, Sequence[Piece]], Piece]] = {
    "ABS": Expressions._abs,  # noqa: SLF001
    "JSON_VALUE": Expressions._json_value,  # noqa: SLF001 - the class above
    "LPAD": Expressions._padded,  # noqa: SLF001
    "MOD": Expressions._mod,  # noqa: SLF001
    "NULLIF": Expressions._nullif,  # noqa: SLF001
    "REGEXP_EXTRACT": Expressions._regexp_extract,  # noqa: SLF001
    "REGEXP_REPLACE": Expressions._regexp_replace,  # noqa: SLF001
    "REPLACE": Expressions._replace,
    "ROUND": Expressions._round,  # noqa: SLF001
    "RPAD": Expressions._padded,  # noqa: SLF001
    "SIGN": Expressions._sign,  # noqa: SLF001
    "SPLIT_INDEX": Expressions._split_index,  # noqa: SLF001
    "SUBSTR": Expressions._part_of_text,  # noqa: SLF001
}
"""Of which some arguments give something else in Spark: guarded, or refused."""


def _compared(left: Piece, sign: str, right: Piece) -> str:
    """A comparison: NaN is equal to nothing, and neither more nor less, where Spark takes it for the greatest."""
    text = f"({left.sql} {sign} {right.sql})"
    doubtful = [each.sql for each in (left, right) if each.kind.is_approximate and each.literal is None]
    if not doubtful:
        return text
    nan = " OR ".join(f"isnan({each})" for each in doubtful)
    missing = f"{left.sql} IS NULL OR {right.sql} IS NULL"
    given = "true" if sign == "<>" else "false"
    return f"(CASE WHEN {nan} THEN if({missing}, NULL, {given}) ELSE {text} END)"


def _as_float(text: str, kind: Kind) -> str:
    """A FLOAT beside a whole number is a DOUBLE to Spark."""
    return f"CAST({text} AS FLOAT)" if kind.name == "FLOAT" else text


def _is_mixed(one: Kind, other: Kind) -> bool:
    """A DATE and a time of the zone, between which Flink counts nothing."""
    return {one.name, other.name} == {"DATE", "TIMESTAMP_LTZ"}


def _is_natural(of: Piece) -> bool:
    """A whole number that is written there, and not below 0."""
    return of.literal is not None and of.literal.isdigit()


def _loses(given: Kind, to: Kind) -> bool:
    return not given.is_whole or common(given, to) != to


def _as_decimals(one: Piece, other: Piece) -> tuple[str, str]:
    """The texts of two numbers: beside a DECIMAL a whole one has its type's digits, as in Flink.

    Spark would count those of a literal, and 20 of a BIGINT: the result would have other digits behind the point.
    """
    if "DECIMAL" not in (one.kind.name, other.kind.name):
        return one.sql, other.sql
    first, second = (
        f"CAST({each.sql} AS {as_decimal(each.kind).spark()})" if each.kind.is_whole else each.sql
        for each in (one, other)
    )
    return first, second


def cut(text: str, to: Kind) -> str:
    """A time cut to its digits behind the second, as Flink does; Spark has six and three and none."""
    if to.precision in (None, 6):
        return text
    units = {0: "SECOND", 3: "MILLISECOND"}
    if to.precision in units:
        return f"date_trunc('{units[to.precision]}', {text})"
    step = 10 ** (6 - (to.precision or 0))
    return f"timestamp_micros(unix_micros({text}) - pmod(unix_micros({text}), {step}))"


def _calculated(left: Piece, sign: str, right: Piece) -> Piece:
    kind = _computed(left.kind, right.kind, sign)
    if kind.name == "FLOAT":  # Spark would take DOUBLE beside a whole number, and for any quotient
        one, other = (f"CAST({each.sql} AS FLOAT)" if each.kind.is_whole else each.sql for each in (left, right))
        return Piece(f"CAST(({one} {sign} {other}) AS FLOAT)", kind)
    one, other = _as_decimals(left, right)
    return Piece(f"({one} {sign} {other})", kind)


def _computed(one: Kind, other: Kind, sign: str) -> Kind:
    """The type of a sum, difference, product or quotient."""
    if "FLOAT" in (one.name, other.name) and all(each.name == "FLOAT" or each.is_whole for each in (one, other)):
        return Kind("FLOAT")
    if one.is_approximate or other.is_approximate:
        return DOUBLE
    if one.is_whole and other.is_whole:
        return common(one, other) or BIGINT
    a, b = as_decimal(one), as_decimal(other)
    p1, s1, p2, s2 = a.precision or 0, a.scale or 0, b.precision or 0, b.scale or 0
    if sign == "*":
        return decimal(p1 + p2 + 1, s1 + s2)
    if sign == "/":
        scale = max(6, s1 + p2 + 1)
        return decimal(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    return decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)
