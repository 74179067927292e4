"""Functions that are called by their names: each as Flink has it, guarded or refused where Spark gives something else.

Must not know: tables, aggregation. The table of functions is in ``functions``; here is what a table cannot say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from onceflow.errors import ConfigurationError
from onceflow.flinksql import functions
from onceflow.flinksql.functions import FUNCTIONS
from onceflow.flinksql.kinds import DATE, INT, STRING, TIMESTAMP_LTZ, Kind, decimal
from onceflow.flinksql.operands import as_float, comparable, compared, cut, is_mixed, is_natural, no_hours, rest
from onceflow.flinksql.patterns import takes_part
from onceflow.flinksql.pieces import Piece, QueryText, Translator, literal, misfit
from onceflow.flinksql.problems import refused, wrong

_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
# What Java's old and new formats of times, of which Flink and Spark have one each, read and write in the same way.
_TIME_FORM = re.compile(r"(?:yyyy|MM|dd|HH|mm|ss|S{1,6}|[^A-Za-z'\[\]{}#]|'[A-Za-z]+')+")
# What Spark and Flink's JSON_VALUE go along in the same way: names and places.
_JSON_PATH = re.compile(r"(?:lax\s+)?(\$(?:\.\w+|\['[\w .:/-]+'\])+)")


def known(by: Translator, node: exp.Expr, word: str) -> Piece:
    """A call of a function of the table.

    Raises:
        ConfigurationError: It is not called like this, or not taken like this.
    """
    function = FUNCTIONS[word]
    given = [by.piece(each) for each in node.expressions]
    if word == "TO_DATE" and len(given) == 2:
        raise refused(
            by.text.position(node),
            "TO_DATE with a form",
            "of text that does not fit it Flink gives days that are none",
            "write CAST(TO_TIMESTAMP(text, form) AS DATE)",
        )
    if len(given) < function.least or (function.most is not None and len(given) > function.most):
        wanted = str(function.least) if function.least == function.most else f"{function.least} or more"
        raise wrong(by.text.position(node), f"{word} takes {wanted} arguments, and {len(given)} are given")
    for i, each in enumerate(given):
        if not functions.suits(each.kind, function.takes[min(i, len(function.takes) - 1)]):
            raise misfit(by.text, node, word, each.kind)
    if word in ("DATE_FORMAT", "TO_TIMESTAMP", "FROM_UNIXTIME") and len(given) > 1:
        _require_form(by, node, word, given[1])
    if word in ("HOUR", "MINUTE", "SECOND"):
        require_time(by.text, node, word, given[0])
    kind = function.kind([each.kind for each in given])
    if kind is None:
        raise misfit(by.text, node, word, *(each.kind for each in given))
    if word in _WITH_CARE:
        return _WITH_CARE[word](by, node, given)
    return Piece(as_float(function.text([each.sql for each in given]), kind), kind)


def _mod(by: Translator, node: exp.Expr, given: Sequence[Piece]) -> Piece:
    return rest(by.text, node, "MOD", given[0], given[1])


def _abs(_by: Translator, _: exp.Expr, given: Sequence[Piece]) -> Piece:
    of = given[0]
    if of.kind.name != "DECIMAL":
        return Piece(f"abs({of.sql})", of.kind)
    return Piece(f"if({of.sql} < 0, {functions.negative(of.sql, of.kind)}, {of.sql})", of.kind)


def _nullif(by: Translator, node: exp.Expr, given: Sequence[Piece]) -> Piece:
    one, other = comparable(by.text, node, "NULLIF", *given)
    return Piece(f"CASE WHEN {compared(one, '=', other)} THEN NULL ELSE {one.sql} END", one.kind)


def _round(by: Translator, node: exp.Expr, given: Sequence[Piece]) -> Piece:
    of, places = given[0], given[1].literal if len(given) > 1 else "0"
    if places is None or re.fullmatch(r"-?\d+", places) is None:
        raise refused(
            by.text.position(node),
            "ROUND to places that are not written there",
            "Spark has to know them before it starts",
            "write CASE n WHEN 0 THEN ROUND(x, 0) WHEN 1 THEN ROUND(x, 1) … END",
        )
    kind, count = of.kind, int(places)
    if kind.name == "DECIMAL" and count < (kind.scale or 0):
        left = max(count, 0)
        kind = decimal(1 + (kind.precision or 0) - (kind.scale or 0) + left, left)
    return Piece(f"CAST(round({of.sql}, {count}) AS {kind.spark()})", kind)


def _sign(_by: Translator, _: exp.Expr, given: Sequence[Piece]) -> Piece:
    return Piece(f"CAST(sign({given[0].sql}) AS {given[0].kind.spark()})", given[0].kind)


def _json_value(by: Translator, node: exp.Expr, given: Sequence[Piece]) -> Piece:
    found = None if given[1].literal is None else _JSON_PATH.fullmatch(given[1].literal)
    if found is None:
        raise refused(
            by.text.position(node),
            "this path of JSON_VALUE",
            "of anything but names the engines think differently",
            "write a path in quotes, such as '$.a.b[''c d'']', without strict; an ARRAY can be a column of its own",
        )
    return Piece(f"get_json_object({given[0].sql}, {literal(found.group(1))})", STRING)


def _regexp_extract(by: Translator, node: exp.Expr, given: Sequence[Piece]) -> Piece:
    if len(given) > 2 and given[2].literal != "0":
        pattern, number = given[1].literal, int(given[2].literal or 0) if is_natural(given[2]) else None
        if pattern is None or not takes_part(pattern, number):
            raise refused(
                by.text.position(node),
                "a group of REGEXP_EXTRACT that may take no part",
                "Flink gives NULL for it and Spark '', as for one that is empty",
                "write a pattern in quotes, and the number of a group that is neither optional nor beside a |",
            )
    return Piece(FUNCTIONS["REGEXP_EXTRACT"].text([each.sql for each in given]), STRING)


def _regexp_replace(by: Translator, node: exp.Expr, given: Sequence[Piece]) -> Piece:
    if given[2].literal is None or set(given[2].literal) & set("$\\"):
        raise refused(
            by.text.position(node),
            "REGEXP_REPLACE by anything but plain text in quotes",
            "$ and \\ stand for groups in Spark, and for themselves in Flink",
            "write text without them, or use REGEXP_EXTRACT with CONCAT",
        )
    return Piece(f"regexp_replace({', '.join(each.sql for each in given)})", STRING)


def _split_index(by: Translator, node: exp.Expr, given: Sequence[Piece]) -> Piece:
    sign = given[1].literal
    if not sign or "\\E" in sign:
        raise _no_plain_text(by, node, "SPLIT_INDEX without a separator in quotes")
    text = FUNCTIONS["SPLIT_INDEX"].text([each.sql for each in given])
    return Piece(f"CASE WHEN {given[0].sql} <> '' THEN {text} END", STRING)  # of '' Flink has no parts


def _replace(by: Translator, node: exp.Expr, given: Sequence[Piece]) -> Piece:
    if not given[1].literal:
        raise _no_plain_text(by, node, "REPLACE of anything but text in quotes")
    return Piece(f"replace({', '.join(each.sql for each in given)})", STRING)


def _no_plain_text(by: Translator, node: exp.Expr, what: str) -> ConfigurationError:
    return refused(by.text.position(node), what, "of '' the engines think differently", "write it as text: ','")


def _padded(_by: Translator, node: exp.Expr, given: Sequence[Piece]) -> Piece:
    text = f"{str(node.this).lower()}({', '.join(each.sql for each in given)})"
    if is_natural(given[1]) and given[2].literal:
        return Piece(text, STRING)
    return Piece(f"CASE WHEN {given[1].sql} < 0 OR {given[2].sql} = '' THEN NULL ELSE {text} END", STRING)


def _require_form(by: Translator, node: exp.Expr, word: str, form: Piece) -> None:
    if form.literal is None or _TIME_FORM.fullmatch(form.literal) is None:
        raise refused(
            by.text.position(node),
            f"the form of {word}",
            "of other letters than yyyy, MM, dd, HH, mm, ss and S the engines think differently",
            "write for example 'yyyy-MM-dd HH:mm:ss'",
        )


def _row(by: Translator, node: exp.Expr) -> Piece:
    given = [by.piece(each) for each in node.expressions]
    names = tuple(f"EXPR${i}" for i in range(len(given)))
    fields = ", ".join(f"{literal(name)}, {each.sql}" for name, each in zip(names, given, strict=True))
    kind = Kind("ROW", fields=names, inner=tuple(each.kind for each in given))
    return Piece(f"named_struct({fields})", kind)


def _to_timestamp_ltz(by: Translator, node: exp.Expr) -> Piece:
    given = [by.piece(each) for each in node.expressions]
    scale = given[1].literal if len(given) == 2 else None
    if scale not in ("0", "3") or not given[0].kind.is_whole:
        raise refused(
            by.text.position(node),
            "TO_TIMESTAMP_LTZ of anything but a whole number with 0 or 3",
            "it is not taken yet",
            "write TO_TIMESTAMP_LTZ(milliseconds, 3)",
        )
    name, unit = ("timestamp_seconds", 1) if scale == "0" else ("timestamp_millis", 1_000)
    of = given[0].sql  # out of the years from 1 to 9999 Flink gives NULL
    fits = f"{of} BETWEEN {_FIRST_SECOND * unit} AND {(_LAST_SECOND + 1) * unit - 1}"
    return Piece(f"CASE WHEN {fits} THEN {name}({of}) END", TIMESTAMP_LTZ)


def _timestamp_moved(by: Translator, node: exp.Expr) -> Piece:
    word = str(node.this).upper()
    unit_node, one, two = node.expressions if len(node.expressions) == 3 else (None, None, None)
    unit = "" if not isinstance(unit_node, exp.Column) else str(unit_node.this.this).upper()
    if (
        unit not in ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
        or one is None
        or two is None
    ):
        raise wrong(by.text.position(node), f"{word} takes a unit and two values", action=f"write {word}(DAY, a, b)")
    first, second = by.piece(one), by.piece(two)
    fits = first.kind.is_whole if word == "TIMESTAMPADD" else functions.suits(first.kind, "day")
    if not fits or not functions.suits(second.kind, "day") or is_mixed(first.kind, second.kind):
        raise misfit(by.text, node, word, first.kind, second.kind)
    if word == "TIMESTAMPADD":
        text = f"timestampadd({unit}, CAST({first.sql} AS INT), {second.sql})"
        if second.kind.name != "DATE":
            return Piece(text, second.kind)
        if unit in ("SECOND", "MINUTE", "HOUR"):
            raise no_hours(by.text, node)
        return Piece(f"CAST({text} AS DATE)", DATE)
    if unit in ("MONTH", "QUARTER", "YEAR"):
        raise refused(
            by.text.position(node),
            f"TIMESTAMPDIFF of {unit}",
            "at a month's end, and by the time of day, the engines count differently",
            "count DAY, or take the difference of YEAR(…) * 12 + MONTH(…)",
        )
    millis = Kind("TIMESTAMP", 3)  # Flink looks at no more digits
    return Piece(f"CAST(timestampdiff({unit}, {cut(first.sql, millis)}, {cut(second.sql, millis)}) AS INT)", INT)


def _proctime(_by: Translator, _: exp.Expr) -> Piece:
    return Piece("current_timestamp()", TIMESTAMP_LTZ, role="proctime")


def part_of_text(given: Sequence[Piece]) -> Piece:
    """SUBSTRING: of a start before the text Flink gives '', of a length below 0 NULL; Spark gives what is left."""
    text = f"substr({', '.join(each.sql for each in given)})"
    guards = ""
    if len(given) == 3 and not is_natural(given[2]):
        guards += f" WHEN {given[2].sql} < 0 THEN NULL"
    if not is_natural(given[1]):
        guards += f" WHEN {given[1].sql} < - char_length({given[0].sql}) THEN ''"
    return Piece(f"CASE{guards} ELSE {text} END" if guards else text, STRING)


def require_time(text: QueryText, node: exp.Expr, unit: str, of: Piece) -> None:
    """Refuse the hours of a DATE."""
    if of.kind.name == "DATE" and unit in ("HOUR", "MINUTE", "SECOND"):
        raise refused(text.position(node), f"the {unit} of a DATE", "Flink gives any number", "write 0")


WITH_RULES: Mapping[str, Callable[[Translator, exp.Expr], Piece]] = {
    "ROW": _row,
    "TO_TIMESTAMP_LTZ": _to_timestamp_ltz,
    "TIMESTAMPADD": _timestamp_moved,
    "TIMESTAMPDIFF": _timestamp_moved,
    "PROCTIME": _proctime,
}


_WITH_CARE: Mapping[str, Callable[[Translator, exp.Expr, Sequence[Piece]], Piece]] = {
    "ABS": _abs,
    "JSON_VALUE": _json_value,
    "LPAD": _padded,
    "MOD": _mod,
    "NULLIF": _nullif,
    "REGEXP_EXTRACT": _regexp_extract,
    "REGEXP_REPLACE": _regexp_replace,
    "REPLACE": _replace,
    "ROUND": _round,
    "RPAD": _padded,
    "SIGN": _sign,
    "SPLIT_INDEX": _split_index,
    "SUBSTR": lambda _by, _node, given: part_of_text(given),
}
"""Of which some arguments give something else in Spark: guarded, or refused."""
