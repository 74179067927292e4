"""A part of a query: its text for Spark with the type of its value, and where it stands in the script.

Must not know: which expressions there are, tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from onceflow.errors import ConfigurationError
from onceflow.flinksql.kinds import Kind
from onceflow.flinksql.problems import Position, refused, wrong
from onceflow.flinksql.reserved import RESERVED, TAKEN_AS_NAMES

MILLIS = {"SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}
"""How long a unit of an INTERVAL is."""


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

    def position(self, of: exp.Expr) -> Position:
        """Where a part of the query stands: its first name's place."""
        starts = [node.meta["start"] for node in of.walk() if "start" in node.meta]
        if not starts and of.parent is not None:
            return self.position(of.parent)
        return self.position_at(min(starts, default=0))

    def position_at(self, offset: int) -> Position:
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
        raise wrong(text.position(identifier), f"{name} is a word of SQL, and no name", action=f"write `{name}`")
    return name


def interval_ms(of: exp.Expr, text: QueryText) -> int:
    """The length of ``INTERVAL '10' SECOND``; months have none.

    Raises:
        ConfigurationError: It is none, or not of one unit.
    """
    if not isinstance(of, exp.Interval):
        raise wrong(text.position(of), "an interval is expected here", action="write INTERVAL '10' SECOND")
    unit = of.args.get("unit")
    value = of.this
    if not isinstance(unit, exp.Var) or not isinstance(value, exp.Literal) or not value.is_string:
        raise refused(
            text.position(of),
            "an interval of two units",
            "it is not taken yet",
            "write it in the smaller unit: '90' SECOND",
        )
    name = str(unit.this).upper().removesuffix("S")
    if name not in MILLIS:
        why = "Flink takes it for an hour" if name == "WEEK" else "it has no length of its own"
        raise refused(text.position(of), f"an interval in {name}", why, "write it in DAY")
    try:
        return round(float(str(value.this)) * MILLIS[name])
    except ValueError:
        raise wrong(
            text.position(of), f"{value.this!r} is no length of an interval", action="write INTERVAL '10' SECOND"
        ) from None


def spark_interval(milliseconds: int) -> str:
    """A length as Spark's INTERVAL literal."""
    return f"INTERVAL '{milliseconds / 1000:.3f}' SECOND"


class Translator(Protocol):
    """Who translates the parts of an expression."""

    text: QueryText

    def piece(self, node: exp.Expr) -> Piece:
        """A part in Spark's words."""


def misfit(text: QueryText, node: exp.Expr, what: str, *kinds: Kind) -> ConfigurationError:
    """The error for values of types that something does not take."""
    told = " and ".join(map(str, kinds))
    return wrong(text.position(node), f"{what} does not take {told}", action="write a CAST")
