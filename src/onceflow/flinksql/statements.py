"""What each statement says, once it is parsed: frozen values.

Must not know: how they are parsed, what is done with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onceflow.flinksql.kinds import Kind
from onceflow.flinksql.problems import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Any.

    Attributes:
        at: Where it begins.
        text: As it is written.
    """

    at: Position
    text: str


@dataclass(frozen=True, slots=True)
class Option:
    """One ``'key' = 'value'`` of a table, with its place."""

    key: str
    value: str
    at: Position


@dataclass(frozen=True, slots=True)
class ScriptText:
    """A query or an expression as text, and where it stands in the script: what is wrong with it is told by that.

    Attributes:
        text: As it is written.
        at: Where it begins.
    """

    text: str
    at: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDefinition:
    """One column of CREATE TABLE.

    Attributes:
        name: Its name.
        at: Where.
        kind: Its type; None of a computed one.
        expression: Of a computed one.
        metadata: Of a metadata column the key: its FROM, or its name.
        virtual: Metadata that is read and not written.
        comment: Its comment.
    """

    name: str
    at: Position
    kind: Kind | None = None
    expression: ScriptText | None = None
    metadata: str | None = None
    virtual: bool = False
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class WatermarkDefinition:
    """``WATERMARK FOR column AS expression``."""

    column: str
    expression: ScriptText
    at: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable(Statement):
    """CREATE TABLE."""

    name: str
    columns: tuple[ColumnDefinition, ...]
    watermark: WatermarkDefinition | None
    primary_key: tuple[str, ...]
    options: tuple[Option, ...]
    comment: str | None = None
    temporary: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView(Statement):
    """CREATE VIEW."""

    name: str
    columns: tuple[str, ...]
    query: ScriptText
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateFunction(Statement):
    """CREATE FUNCTION … LANGUAGE PYTHON."""

    name: str
    path: str
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Set(Statement):
    """SET; without a key it shows all."""

    key: str | None
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(Statement):
    """RESET; without a key all."""

    key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert(Statement):
    """INSERT INTO table query."""

    table: str
    table_at: Position
    columns: tuple[str, ...]
    query: ScriptText


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementSet(Statement):
    """EXECUTE STATEMENT SET BEGIN … END."""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Select(Statement):
    """A query alone."""

    query: ScriptText


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain(Statement):
    """EXPLAIN of a query, an INSERT or a set."""

    of: Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Show(Statement):
    """SHOW TABLES, VIEWS or FUNCTIONS; SHOW CREATE TABLE or VIEW with a name."""

    what: str
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe(Statement):
    """DESCRIBE."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(Statement):
    """DROP TABLE, VIEW or FUNCTION."""

    what: str
    name: str
    if_exists: bool


Settings = Mapping[str, str]
