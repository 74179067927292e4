"""What a column of a table would change of a value that it takes without a word: a row that is not staged.

Must not know: staging, decisions, where rows come from. Tasks look by it at what they are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import types as sql

from onceflow.formats import arrow_values

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlalchemy.engine.interfaces import ReflectedColumn

    from onceflow.connectors.database.system import Database


class NoFormError(Exception):
    """A value that the database, or a column of the table, has no form for: told by its column."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A column's.

    Attributes:
        letters: So many letters of a text are kept, and blanks behind them cut off in silence; None for any.
        octets: So many bytes of a text, likewise.
        blanks: Blanks at a text's end are kept.
        nulls: It takes null, and makes no value of it.
    """

    letters: int | None = None
    octets: int | None = None
    blanks: bool = True
    nulls: bool = True

    def trouble(self, name: str, values: pa.Array) -> str | None:
        """What the column would change of some values, told by the column's name; None where it would nothing."""
        import pyarrow as pa  # noqa: PLC0415 - only in a worker
        import pyarrow.compute as pc  # noqa: PLC0415

        if not self.nulls and values.null_count:
            return f"column {name} takes no null, and {values.null_count} rows have one"
        if not pa.types.is_string(values.type):
            return None
        if self.letters is not None and (pc.max(pc.utf8_length(values)).as_py() or 0) > self.letters:
            return f"column {name} takes {self.letters} letters, and a row's text has more"
        if self.octets is not None and (pc.max(pc.binary_length(values)).as_py() or 0) > self.octets:
            return f"column {name} takes {self.octets} bytes, and a row's text has more"
        if not self.blanks and pc.any(pc.ends_with(values, " ")).as_py():
            return f"column {name} takes a text and the same with blanks behind it for one, and a row's text has some"
        return None


def limits(columns: Mapping[str, ReflectedColumn], required: set[str], database: Database) -> dict[str, Limit]:
    """Of columns of a table that have any.

    Args:
        columns: As they were found.
        required: Those that take no null.
        database: Which it is.
    """
    found = {name: _limit(column["type"], name in required, database) for name, column in columns.items()}
    return {name: limit for name, limit in found.items() if limit != Limit()}


def require_forms(columns: Mapping[str, pa.Array], of: Mapping[str, Limit], database: Database) -> None:
    """Refuse rows of which the table would have another value than is sent.

    Args:
        columns: As they are loaded, by their names.
        of: Their limits.
        database: Which it is.

    Raises:
        NoFormError: By the first column that has such a value.
    """
    for name, values in columns.items():
        why = arrow_values.trouble(name, values) or _no_number(name, values, database)
        if why or (why := of.get(name, Limit()).trouble(name, values)):
            raise NoFormError(why)


def _no_number(name: str, values: pa.Array, database: Database) -> str | None:
    import pyarrow as pa  # noqa: PLC0415 - only in a worker
    import pyarrow.compute as pc  # noqa: PLC0415

    if database.takes_nan or not pa.types.is_floating(values.type):
        return None
    bad = pc.is_nan(values) if database.takes_infinity else pc.invert(pc.is_finite(values))
    return (
        f"column {name} has {'NaN' if database.takes_infinity else 'NaN or infinity'}" if pc.any(bad).as_py() else None
    )


def _limit(kind: sql.TypeEngine[object], required: bool, database: Database) -> Limit:
    if not database.cuts_off or not isinstance(kind, sql.String) or isinstance(kind, sql.Enum):
        return Limit(nulls=not required)
    octets = [size for of, size in database.octets.items() if isinstance(kind, of) and kind.length is None]
    padded = isinstance(kind, sql.CHAR | sql.NCHAR) and kind.length is not None
    return Limit(kind.length, octets[0] if octets else None, blanks=not padded, nulls=not required)
