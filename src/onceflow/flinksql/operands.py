"""Two values beside each other: what a comparison, a sum or a quotient of them gives, as in Flink.

Must not know: which expressions there are, tables.
"""

from __future__ import annotations

import re

from sqlglot import exp

from onceflow.errors import ConfigurationError
from onceflow.flinksql.kinds import BIGINT, DOUBLE, Kind, as_decimal, common, decimal
from onceflow.flinksql.pieces import Piece, QueryText, misfit
from onceflow.flinksql.problems import refused, wrong


def comparable(text: QueryText, node: exp.Expr, what: str, left: Piece, right: Piece) -> tuple[Piece, Piece]:
    """Both; text in quotes beside a time or a DATE is read as one."""
    left, right = _beside(text, node, left, right), _beside(text, node, right, left)
    if common(left.kind, right.kind) is None or "MAP" in (left.kind.name, right.kind.name):
        raise misfit(text, node, what, left.kind, right.kind)
    for one, other in ((left, right), (right, left)):
        if one.kind.name == "FLOAT" and other.kind.name == "DOUBLE" and other.literal is not None:
            raise refused(
                text.position(node),
                f"{what} of a FLOAT with {other.literal}",
                "Flink cuts its digits to those of a FLOAT, Spark does not",
                "CAST the FLOAT to DOUBLE, or write the number without E",
            )
    return left, right


def _beside(text: QueryText, node: exp.Expr, of: Piece, other: Piece) -> Piece:
    is_time = other.kind.is_time
    if of.kind.name != "STRING" or of.literal is None or not (is_time or other.kind.name == "DATE"):
        return of
    form = r"\d{4}-\d\d-\d\d" + (r"( \d\d:\d\d:\d\d(\.\d{1,6})?)?" if is_time else "")
    if re.fullmatch(form, of.literal) is None:
        instead = "'2026-01-31 23:59:59'" if is_time else "'2026-01-31'"
        raise wrong(text.position(node), f"{of.literal!r} is no {other.kind}", action=f"write {instead}")
    value = f"{'TIMESTAMP' if is_time else 'DATE'} {of.sql}"
    return Piece(cut(value, other.kind) if is_time else value, other.kind)


def rest(text: QueryText, node: exp.Expr, word: str, left: Piece, right: Piece) -> Piece:
    """Of a division: of floating-point numbers Flink knows none."""
    kind = common(left.kind, right.kind)
    if kind is None or not kind.is_number or kind.is_approximate:
        raise misfit(text, node, word, left.kind, right.kind)
    if kind.is_whole:  # it is less than what it is divided by
        return Piece(f"CAST(({left.sql} % {right.sql}) AS {right.kind.spark()})", right.kind)
    one, other = as_decimals(left, right)
    a, b = as_decimal(left.kind), as_decimal(right.kind)
    scale = max(a.scale or 0, b.scale or 0)
    whole = min((a.precision or 0) - (a.scale or 0), (b.precision or 0) - (b.scale or 0))
    return Piece(f"({one} % {other})", decimal(whole + scale, scale))


def no_hours(text: QueryText, node: exp.Expr) -> ConfigurationError:
    """The refusal of hours that are added to a DATE."""
    why, instead = "Flink leaves out what is less than a day", "CAST it to TIMESTAMP(3), or write days"
    return refused(text.position(node), "hours of a DATE", why, instead)


def compared(left: Piece, sign: str, right: Piece) -> str:
    """A comparison: NaN is equal to nothing, and neither more nor less, where Spark takes it for the greatest."""
    text = f"({left.sql} {sign} {right.sql})"
    doubtful = [each.sql for each in (left, right) if each.kind.is_approximate and each.literal is None]
    if not doubtful:
        return text
    nan = " OR ".join(f"isnan({each})" for each in doubtful)
    missing = f"{left.sql} IS NULL OR {right.sql} IS NULL"
    given = "true" if sign == "<>" else "false"
    return f"(CASE WHEN {nan} THEN if({missing}, NULL, {given}) ELSE {text} END)"


def as_float(text: str, kind: Kind) -> str:
    """A FLOAT beside a whole number is a DOUBLE to Spark."""
    return f"CAST({text} AS FLOAT)" if kind.name == "FLOAT" else text


def is_mixed(one: Kind, other: Kind) -> bool:
    """A DATE and a time of the zone, between which Flink counts nothing."""
    return {one.name, other.name} == {"DATE", "TIMESTAMP_LTZ"}


def is_natural(of: Piece) -> bool:
    """A whole number that is written there, and not below 0."""
    return of.literal is not None and of.literal.isdigit()


def loses(given: Kind, to: Kind) -> bool:
    """Whether a whole number of the one type may not fit into the other."""
    return not given.is_whole or common(given, to) != to


def as_decimals(one: Piece, other: Piece) -> tuple[str, str]:
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


def calculated(left: Piece, sign: str, right: Piece) -> Piece:
    """A sum, difference, product or quotient."""
    kind = computed(left.kind, right.kind, sign)
    if kind.name == "FLOAT":  # Spark would take DOUBLE beside a whole number, and for any quotient
        one, other = (f"CAST({each.sql} AS FLOAT)" if each.kind.is_whole else each.sql for each in (left, right))
        return Piece(f"CAST(({one} {sign} {other}) AS FLOAT)", kind)
    one, other = as_decimals(left, right)
    return Piece(f"({one} {sign} {other})", kind)


def computed(one: Kind, other: Kind, sign: str) -> Kind:
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
