"""Flink's types: how they are written, which of Spark's carries each, and which fit into which without a CAST.

Must not know: tables, queries, Spark sessions.

``TIMESTAMP`` and ``TIMESTAMP_LTZ`` are both Spark's ``timestamp``, and the session's zone is UTC: the local time of the
one is the UTC time of the other, and Spark can keep a watermark of both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Name = Literal[
    "NULL", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "BYTES", "DATE",
    "TIMESTAMP", "TIMESTAMP_LTZ", "ARRAY", "MAP", "ROW", "INTERVAL",
]  # fmt: skip

WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_APPROXIMATE = ("FLOAT", "DOUBLE")
_NUMBERS = (*WHOLE, "DECIMAL", *_APPROXIMATE)
_TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ")
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}


@dataclass(frozen=True, slots=True)
class Kind:
    """A type.

    Attributes:
        name: Flink's name, without its arguments.
        precision: Of DECIMAL and of times; the length of text that has one.
        scale: Of DECIMAL.
        fields: The names of a ROW's fields.
        inner: What is inside: of an ARRAY its items, of a MAP keys and values, of a ROW its fields.
        nullable: Whether a value may be missing.
    """

    name: Name
    precision: int | None = None
    scale: int | None = None
    fields: tuple[str, ...] = ()
    inner: tuple[Kind, ...] = field(default=())
    nullable: bool = True

    @property
    def is_whole(self) -> bool:
        """A whole number."""
        return self.name in WHOLE

    @property
    def is_number(self) -> bool:
        """Any number."""
        return self.name in _NUMBERS

    @property
    def is_approximate(self) -> bool:
        """A floating-point number."""
        return self.name in _APPROXIMATE

    @property
    def is_time(self) -> bool:
        """A point in time, with its day."""
        return self.name in _TIMES

    def __str__(self) -> str:
        match self.name:
            case "DECIMAL":
                return f"DECIMAL({self.precision}, {self.scale})"
            case "TIMESTAMP" | "TIMESTAMP_LTZ":
                return f"{self.name}({self.precision})"
            case "ARRAY":
                return f"ARRAY<{self.inner[0]}>"
            case "MAP":
                return f"MAP<{self.inner[0]}, {self.inner[1]}>"
            case "ROW":
                parts = (f"`{name}` {of}" for name, of in zip(self.fields, self.inner, strict=True))
                return f"ROW<{', '.join(parts)}>"
            case _:
                return self.name

    def spark(self) -> str:
        """The type of Spark's that carries it, as DDL."""
        match self.name:
            case "DECIMAL":
                return f"DECIMAL({self.precision}, {self.scale})"
            case "TIMESTAMP" | "TIMESTAMP_LTZ":
                return "TIMESTAMP"
            case "BYTES":
                return "BINARY"
            case "NULL":
                return "VOID"
            case "ARRAY":
                return f"ARRAY<{self.inner[0].spark()}>"
            case "MAP":
                return f"MAP<{self.inner[0].spark()}, {self.inner[1].spark()}>"
            case "ROW":
                parts = (f"{quoted(name)}: {of.spark()}" for name, of in zip(self.fields, self.inner, strict=True))
                return f"STRUCT<{', '.join(parts)}>"
            case _:
                return self.name


def quoted(name: str) -> str:
    """A name as Spark takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


NULL = Kind("NULL")
BOOLEAN = Kind("BOOLEAN")
INT = Kind("INT")
BIGINT = Kind("BIGINT")
DOUBLE = Kind("DOUBLE")
STRING = Kind("STRING")
BYTES = Kind("BYTES")
DATE = Kind("DATE")
TIMESTAMP = Kind("TIMESTAMP", precision=3)
TIMESTAMP_LTZ = Kind("TIMESTAMP_LTZ", precision=3)
INTERVAL = Kind("INTERVAL")


def decimal(precision: int, scale: int) -> Kind:
    """A DECIMAL, cut to 38 digits as both engines do: whole digits go before those behind the point."""
    if precision <= 38:
        return Kind("DECIMAL", precision, scale)
    return Kind("DECIMAL", 38, max(38 - (precision - scale), min(scale, 6)))


def as_decimal(of: Kind) -> Kind:
    """The DECIMAL that holds every value of a whole number's type."""
    return of if of.name == "DECIMAL" else Kind("DECIMAL", _DIGITS[of.name], 0)


def common(one: Kind, other: Kind) -> Kind | None:
    """The type that takes values of both, as in CASE, COALESCE, UNION and comparisons; None where there is none."""
    if one.name == "NULL" or one == other:
        return other
    if other.name == "NULL":
        return one
    if one.is_number and other.is_number:
        return _common_number(one, other)
    if one.is_time and other.is_time:
        return Kind(one.name, max(one.precision or 0, other.precision or 0))
    if {one.name, other.name} in ({"DATE", "TIMESTAMP"}, {"DATE", "TIMESTAMP_LTZ"}):
        return one if one.is_time else other
    if one.name == other.name and one.name not in ("ARRAY", "MAP", "ROW"):
        return one
    if one.name == other.name and len(one.inner) == len(other.inner) and one.fields == other.fields:
        inner = [common(a, b) for a, b in zip(one.inner, other.inner, strict=True)]
        known = tuple(each for each in inner if each is not None)
        return Kind(one.name, fields=one.fields, inner=known) if len(known) == len(inner) else None
    return None


def _common_number(one: Kind, other: Kind) -> Kind:
    if one.is_approximate or other.is_approximate:
        floats = all(each.name == "FLOAT" or each.is_whole for each in (one, other))
        return Kind("FLOAT") if floats else DOUBLE
    if one.is_whole and other.is_whole:
        return Kind(max(one.name, other.name, key=WHOLE.index))
    a, b = as_decimal(one), as_decimal(other)
    scale = max(a.scale or 0, b.scale or 0)
    whole = max((a.precision or 0) - (a.scale or 0), (b.precision or 0) - (b.scale or 0))
    return decimal(whole + scale, scale)


def fits(given: Kind, wanted: Kind) -> bool:
    """Whether a query's column goes into a table's without a CAST.

    Whole numbers go into smaller ones, too: Spark sums an INT as BIGINT, where Flink keeps INT. What does not fit
    stops the job.
    """
    if given.name in ("NULL", wanted.name) and wanted.name not in ("ARRAY", "MAP", "ROW"):
        return True
    if given.is_whole and (wanted.is_number):
        return True
    if given.name == "DECIMAL" and wanted.is_number and not wanted.is_whole:
        return True
    if given.is_approximate and wanted.is_approximate:
        return True
    if given.is_time and wanted.is_time:
        return True
    if given.name == wanted.name and len(given.inner) == len(wanted.inner):
        return all(fits(a, b) for a, b in zip(given.inner, wanted.inner, strict=True))
    return False
