"""From an expression, as sqlglot reads it, to Spark's text and the type of its value.

Whatever is not here is refused by its name: nothing is handed on to Spark as it stands. Must not know: tables, joins,
aggregation; a name is looked up by a function that is given, and what stands for an aggregate by another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from onceflow.errors import ConfigurationError
from onceflow.flinksql import functions
from onceflow.flinksql.calls import WITH_RULES, known, part_of_text, require_time
from onceflow.flinksql.casts import cast, dated
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
    common,
    decimal,
    quoted,
)
from onceflow.flinksql.operands import (
    as_float,
    calculated,
    comparable,
    compared,
    computed,
    cut,
    is_natural,
    no_hours,
    rest,
)
from onceflow.flinksql.pieces import (
    MILLIS,
    Lookup,
    Piece,
    QueryText,
    Special,
    interval_ms,
    literal,
    misfit,
    spark_interval,
)
from onceflow.flinksql.problems import meant, refused, wrong

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
_WHOLE_FROM = "4503599627370496"
"""2^52: a DOUBLE from here on has nothing behind the point."""
_FLOORS = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")


class Expressions:
    """Translates expressions of one query.

    Args:
        text: The query's text.
        lookup: What a column's name means.
        special: Asked first of each node: what stands for it, or None.
        own: The script's functions: what each gives.
    """

    def __init__(self, text: QueryText, lookup: Lookup, special: Special, own: Mapping[str, Kind]) -> None:
        self.text, self._lookup, self._special, self._own = text, lookup, special, own
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
            self.text.position(node), name, "Spark cannot keep it of a stream, or it is not taken yet", instead
        )

    def _boolean(self, node: exp.Expr) -> str:
        found = self.piece(node)
        if found.kind.name not in ("BOOLEAN", "NULL"):
            raise wrong(
                self.text.position(node), f"a condition is expected, and this is {found.kind}", action="compare it"
            )
        return "CAST(NULL AS BOOLEAN)" if found.kind.name == "NULL" else found.sql

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
                raise refused(self.text.position(node), word, *REFUSED[word])
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
        length = interval_ms(node, self.text)
        if name == "DAY" and length % MILLIS["DAY"] == 0:
            return Piece(spark_interval(length), INTERVAL, "days", literal=str(length // MILLIS["DAY"]))
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
            raise misfit(self.text, node, "-", inner.kind)
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
        left, right = comparable(self.text, node, "a comparison", *self._pair(node))
        if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
            same = f"({left.sql} <=> {right.sql})"
            return Piece(same if isinstance(node, exp.NullSafeEQ) else f"(NOT {same})", BOOLEAN)
        return Piece(compared(left, _COMPARISONS[type(node)], right), BOOLEAN)

    def _arithmetic(self, node: exp.Expr) -> Piece:
        left, right = self._pair(node)
        sign = _ARITHMETIC[type(node)]
        kinds = {left.kind.name, right.kind.name}
        text = f"({left.sql} {sign} {right.sql})"
        if "INTERVAL" in kinds:
            time, by = (right, left) if left.kind.name == "INTERVAL" else (left, right)
            if not functions.suits(time.kind, "day") or sign == "*" or (sign == "-" and by is left):
                raise misfit(self.text, node, sign, left.kind, right.kind)
            return self._moved_day(node, time, sign, by) if time.kind.name == "DATE" else Piece(text, time.kind)
        if "NULL" in kinds and (left.kind.is_number or right.kind.is_number):
            return Piece(text, right.kind if left.kind.name == "NULL" else left.kind)
        if not (left.kind.is_number and right.kind.is_number):
            raise misfit(self.text, node, sign, left.kind, right.kind)
        return calculated(left, sign, right)

    def _moved_day(self, node: exp.Expr, day: Piece, sign: str, by: Piece) -> Piece:
        """A DATE and an interval, which is a DATE again."""
        if by.role == "months":
            return Piece(f"({day.sql} {sign} {by.sql})", DATE)
        if by.role != "days" or by.literal is None:
            raise no_hours(self.text, node)
        return Piece(f"date_add({day.sql}, {int(by.literal) * (-1 if sign == '-' else 1)})", DATE)

    def _division(self, node: exp.Expr) -> Piece:
        left, right = self._pair(node)
        if not (left.kind.is_number and right.kind.is_number):
            raise misfit(self.text, node, "/", left.kind, right.kind)
        kind = computed(left.kind, right.kind, "/")
        if kind.is_whole:  # Flink's division of whole numbers is one; Spark's / is not
            return Piece(f"CAST(({left.sql} DIV {right.sql}) AS {kind.spark()})", kind)
        return calculated(left, "/", right)

    def _modulo(self, node: exp.Expr) -> Piece:
        left, right = self._pair(node)
        return rest(self.text, node, "%", left, right)

    def _concat(self, node: exp.Expr) -> Piece:
        left, right = self._pair(node)
        if not all(each.kind.name in ("STRING", "NULL") for each in (left, right)):
            raise misfit(self.text, node, "||", left.kind, right.kind)
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
            raise refused(
                self.text.position(node), "BETWEEN SYMMETRIC", "it is not taken yet", "write both comparisons"
            )
        _, low = comparable(self.text, node, "BETWEEN", value, low)
        _, high = comparable(self.text, node, "BETWEEN", value, high)
        if any(each.kind.is_approximate for each in (value, low, high)):
            return Piece(f"({compared(value, '>=', low)} AND {compared(value, '<=', high)})", BOOLEAN)
        return Piece(f"({value.sql} BETWEEN {low.sql} AND {high.sql})", BOOLEAN)

    def _in(self, node: exp.Expr) -> Piece:
        if not node.expressions:
            raise refused(
                self.text.position(node), "IN with a query", "its rows would have to be kept for ever", "write a join"
            )
        value = self.piece(node.this)
        values = [comparable(self.text, node, "IN", value, self.piece(each))[1] for each in node.expressions]
        for each in values:
            if (value.kind.is_whole or value.kind.name == "FLOAT") and each.kind.name in ("DECIMAL", "DOUBLE"):
                raise refused(
                    self.text.position(node),
                    f"IN of {value.kind} with {each.kind}",
                    "Flink cuts the digits of what is in the list",
                    "CAST the value before IN to the type of those in the list",
                )
        if any(each.kind.is_approximate for each in (value, *values)):
            return Piece(f"({' OR '.join(compared(value, '=', each) for each in values)})", BOOLEAN)
        return Piece(f"({value.sql} IN ({', '.join(each.sql for each in values)}))", BOOLEAN)

    def _like(self, node: exp.Expr, escape: str = "") -> Piece:
        value, pattern = self._pair(node)
        if value.kind.name != "STRING" or pattern.literal is None:
            raise refused(
                self.text.position(node),
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
                _, value = comparable(self.text, node, "CASE", of, self.piece(each.this))
                condition = compared(of, "=", value)
            then = self.piece(each.args["true"])
            kinds.append(then.kind)
            text += f" WHEN {condition} THEN {then.sql}"
        if node.args.get("default") is not None:
            default = self.piece(node.args["default"])
            kinds.append(default.kind)
            text += f" ELSE {default.sql}"
        kind = self._one_kind(node, "CASE", kinds)
        return Piece(as_float(f"{text} END", kind), kind)

    def _one_kind(self, node: exp.Expr, what: str, kinds: Sequence[Kind]) -> Kind:
        found: Kind | None = kinds[0]
        for kind in kinds[1:]:
            found = None if found is None else common(found, kind)
        if found is None or {"FLOAT", "DOUBLE"} <= {kind.name for kind in kinds}:
            raise misfit(self.text, node, what, *kinds)  # of FLOAT and DOUBLE Flink makes FLOAT, and digits are lost
        return found

    # -- CAST -------------------------------------------------------------------------------------

    def _cast(self, node: exp.Expr) -> Piece:
        to = node.args["to"]
        name = str(to.args.get("kind") or to.this.value).lower()
        if name in self.text.casts:
            return cast(
                self.text, node, self.piece(node.this), self.text.casts[name], trying=isinstance(node, exp.TryCast)
            )
        if isinstance(node.this, exp.Literal) and name in ("timestamp", "date"):
            return dated(self.text, node, name, str(node.this.this))
        raise self.no_such(node)

    # -- functions with a grammar -----------------------------------------------------------------

    def _extract(self, node: exp.Expr) -> Piece:
        unit = str(node.this.this).upper()
        of = self.piece(node.args["expression"])
        if unit not in functions.UNITS:
            action = meant(unit, functions.UNITS, f"take one of {', '.join(functions.UNITS)}")
            raise wrong(self.text.position(node), f"EXTRACT knows no {unit} here", action=action)
        if not functions.suits(of.kind, "day"):
            raise misfit(self.text, node, "EXTRACT", of.kind)
        require_time(self.text, node, unit, of)
        return Piece(functions.part(unit, of.sql), BIGINT)

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
            raise misfit(self.text, node, "SUBSTRING", *(each.kind for each in given))
        return part_of_text(given)

    def _position(self, node: exp.Expr) -> Piece:
        of, what = self.piece(node.this), self.piece(node.args["substr"])
        return Piece(f"position({what.sql} IN {of.sql})", INT)

    def _rounded(self, node: exp.Expr) -> Piece:
        of, word = self.piece(node.this), type(node).__name__.lower()
        unit = node.args.get("to")
        if node.args.get("decimals") is not None:
            raise wrong(self.text.position(node), f"{word.upper()} takes one argument", action="use ROUND")
        if unit is not None:
            return self._floor_of_time(node, of, word, str(unit.this).upper())
        if not of.kind.is_number:
            raise misfit(self.text, node, word.upper(), of.kind)
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
            raise misfit(self.text, node, told, of.kind)
        if unit not in _FLOORS:
            why = "Flink's begins on Sunday, Spark's on Monday" if unit == "WEEK" else "it is not taken yet"
            raise refused(self.text.position(node), f"{told} {unit}", why, f"take one of {', '.join(_FLOORS)}")
        text = f"date_trunc('{unit}', {of.sql})"
        if word == "ceil" and of.kind.name == "DATE" and unit not in ("YEAR", "QUARTER", "MONTH"):
            raise refused(
                self.text.position(node), f"CEIL TO {unit} of a DATE", "Flink gives another day", "write the DATE alone"
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
            if not is_natural(at):  # Spark would count from the end
                text = f"CASE WHEN {at.sql} < 1 THEN raise_error('the first item of an ARRAY is 1') "
                text += f"ELSE try_element_at({of.sql}, CAST({at.sql} AS INT)) END"
                return Piece(text, of.kind.inner[0])
            if at.literal == "0":
                raise wrong(self.text.position(node), "the first item of an ARRAY is 1, and not 0", action="write [1]")
            return Piece(f"try_element_at({of.sql}, CAST({at.sql} AS INT))", of.kind.inner[0])
        if of.kind.name == "MAP":
            return Piece(f"try_element_at({of.sql}, {at.sql})", of.kind.inner[1])
        raise misfit(self.text, node, "[…]", of.kind, at.kind)

    def _dot(self, node: exp.Expr) -> Piece:
        return self.field(node, self.piece(node.this), str(node.args["expression"].this))

    def field(self, node: exp.Expr, of: Piece, name: str) -> Piece:
        """A field of a ROW."""
        if of.kind.name != "ROW" or name not in of.kind.fields:
            known = of.kind.fields if of.kind.name == "ROW" else ()
            raise wrong(
                self.text.position(node),
                f"{of.kind} has no field {name}",
                action=meant(name, known, "name another one"),
            )
        return Piece(f"{of.sql}.{quoted(name)}", of.kind.inner[of.kind.fields.index(name)])

    def _array(self, node: exp.Expr) -> Piece:
        items = [self.piece(each) for each in node.expressions]
        kind = self._one_kind(node, "ARRAY", [each.kind for each in items]) if items else NULL
        return Piece(f"array({', '.join(each.sql for each in items)})", Kind("ARRAY", inner=(kind,)))

    def _map(self, node: exp.Expr) -> Piece:
        items = [self.piece(each) for each in node.expressions]
        if len(items) % 2:
            raise wrong(self.text.position(node), "a MAP has a value for each key", action="write MAP['a', 1, 'b', 2]")
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
            raise refused(self.text.position(node), word, *REFUSED[word])
        if word in WITH_RULES:
            return WITH_RULES[word](self, node)
        if word in AGGREGATES:
            raise wrong(
                self.text.position(node),
                f"{word} stands where no rows are gathered",
                action="use it in SELECT or HAVING",
            )
        if word not in FUNCTIONS:
            words = [*FUNCTIONS, *AGGREGATES, *self._own, *REFUSED, *functions.ELSEWHERE]
            action = meant(name, words, "docs/sql-options.md has all; CREATE TEMPORARY FUNCTION makes one of your own")
            raise wrong(self.text.position(node), f"there is no function {name}", action=action)
        return known(self, node, word)
