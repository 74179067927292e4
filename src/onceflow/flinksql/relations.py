"""What a query reads, and what it is in Spark's words: frozen values, and a window's parts.

Must not know: connectors, Spark sessions, jobs, how SQL is written.

A window is carried beside the columns of its rows, as Spark's own struct, in a hidden column: by that Spark knows when
a window is over. So is, of a query that updates, whether the row is still there (``$keep``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from onceflow.flinksql.kinds import Kind, quoted
from onceflow.flinksql.pieces import Piece, spark_interval
from onceflow.flinksql.problems import Position, wrong
from onceflow.flinksql.statements import ScriptText

WINDOW, KEEP, SEQUENCE = "$window", "$keep", "$sequence"
WINDOW_COLUMN, KEEP_COLUMN, SEQUENCE_COLUMN = quoted(WINDOW), quoted(KEEP), quoted(SEQUENCE)
PARTS = ("window_start", "window_end", "window_time")
"""Columns that rows in windows have."""
_SESSION_STEP_MS = 1


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
class SqlTable:
    """What a query can read.

    Attributes:
        view: Its name in Spark.
        columns: Its columns.
        static: It is looked up, and no stream.
        changes_by: Its rows are changes of another table's, which are told by these columns; empty: they are rows.
    """

    view: str
    columns: tuple[Column, ...]
    static: bool = False
    changes_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SqlView:
    """A query under a name."""

    query: ScriptText
    columns: tuple[str, ...] = ()


class Catalogue(Protocol):
    """What a script has."""

    def table(self, name: str, at: Position) -> SqlTable | SqlView:
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
        sequenced: It has a hidden column ``SEQUENCE``, by which changes of a row are in an order.
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
    sequenced: bool = False
    session: tuple[str, ...] | None = None
    static: bool = False
    steps: tuple[KeepFirst, ...] = ()
    tables: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def output_mode(self) -> Literal["append", "update"]:
        """Spark's, of a query like this. Changes of another table's rows are rows to it."""
        return "update" if self.updating and not self.sequenced else "append"


@dataclass(frozen=True, slots=True)
class FromEntry:
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
        if column.role in PARTS and self.query.window:
            window = f"{quoted(self.alias)}.{WINDOW_COLUMN}"
            text = part_of(window, column.role, self.query)
            return Piece(text, column.kind, column.role, window) if self.in_window else Piece(text, column.kind)
        role = "" if column.role in PARTS or (column.role == "rowtime" and not self.in_time) else column.role
        return Piece(f"{quoted(self.alias)}.{quoted(column.name)}", column.kind, role)


def part_of(window: str, role: str, of: Query) -> str:
    """A part of a window, from Spark's struct."""
    # A session's end is a millisecond late there, see window_text.
    end = f"{window}.end"
    if of.window.startswith("SESSION"):
        end = f"({end} - {spark_interval(_SESSION_STEP_MS)})"
    if role == "window_start":
        return f"{window}.start"
    return end if role == "window_end" else f"({end} - {spark_interval(1)})"


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


def hidden(of: Query, alias: str) -> list[str]:
    """The hidden columns that it has."""
    columns = ((WINDOW, of.window), (KEEP, of.keep), (SEQUENCE, of.sequenced))
    return [f"{quoted(alias)}.{quoted(name)}" for name, there in columns if there]
