"""What a script has: tables with their columns, views, functions; and what of each a query sees.

Must not know: Spark sessions, what is made of a table's options.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from onceflow.flinksql import connectors
from onceflow.flinksql.connectors import TakenOptions
from onceflow.flinksql.expressions import Expressions
from onceflow.flinksql.kinds import STRING, Kind, quoted
from onceflow.flinksql.pieces import Piece, interval_ms, name_of
from onceflow.flinksql.problems import Position, meant, refused, wrong
from onceflow.flinksql.reading import read_expression
from onceflow.flinksql.relations import Column, SqlTable, SqlView
from onceflow.flinksql.statements import ColumnDefinition, CreateTable
from onceflow.masking import shown

_METADATA: Mapping[str, str] = {
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP_LTZ",
    "headers": "MAP",
}
_WRITTEN = ("timestamp", "headers")
_READ_ONLY = "changes are read only"
_FORMATS = ("format", "key.format", "value.format")
_FORMAT_OPTION = re.compile(
    r"(key\.|value\.)?(json|csv|raw|avro|avro-confluent|debezium-json|debezium-avro-confluent)\."
)
_NO_METADATA: Mapping[str, str] = {
    "leader-epoch": "Spark's connector does not tell it",
    "timestamp-type": "Spark's connector does not tell it in words",
}


@dataclass(frozen=True, slots=True)
class Computed:
    """A computed column: its text in Spark's words, over the columns before it."""

    name: str
    sql: str
    kind: Kind


@dataclass(frozen=True)
class DefinedTable:
    """A table.

    Attributes:
        definition: As it was written.
        options: Its options.
        computed: Its computed columns.
        delay_ms: Of its watermark.
        seen: What a query sees of it.
    """

    definition: CreateTable
    options: TakenOptions
    computed: tuple[Computed, ...]
    delay_ms: int | None
    seen: SqlTable

    @property
    def name(self) -> str:
        """Its name."""
        return self.definition.name

    @property
    def physical(self) -> tuple[ColumnDefinition, ...]:
        """Columns that are in its records."""
        return tuple(each for each in self.definition.columns if each.expression is None and each.metadata is None)

    @property
    def metadata(self) -> tuple[ColumnDefinition, ...]:
        """Columns of what is known of a record."""
        return tuple(each for each in self.definition.columns if each.metadata is not None)

    @property
    def written(self) -> tuple[ColumnDefinition, ...]:
        """Columns that INSERT gives, in their order."""
        return tuple(
            each
            for each in self.definition.columns
            if each.expression is None and (each.metadata is None or not each.virtual)
        )

    @property
    def is_bounded(self) -> bool:
        """Whether reading it ends."""
        return self.options.values.get("scan.bounded.mode", "unbounded") != "unbounded"


@dataclass
class Names:
    """Everything that a script has given a name to.

    Attributes:
        tables: Tables.
        views: Views, with their text.
        own: Functions: where each is.
    """

    tables: dict[str, DefinedTable] = field(default_factory=dict)
    views: dict[str, tuple[SqlView, str]] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)

    @property
    def functions(self) -> Mapping[str, Kind]:
        """What each function gives; text, until it is loaded."""
        return {name: self.kinds.get(name, STRING) for name in self.own}

    def table(self, name: str, at: Position) -> SqlTable | SqlView:
        """A table or a view, to read it.

        Raises:
            ConfigurationError: There is none, or it cannot be read.
        """
        if name in self.views:
            return self.views[name][0]
        if name not in self.tables:
            known = [*self.tables, *self.views]
            raise wrong(at, f"there is no table {name}", action=meant(name, known, _all(known)))
        found = self.tables[name]
        _require_readable(found, at)
        return found.seen

    def sink(self, name: str, at: Position) -> DefinedTable:
        """A table, to write it.

        Raises:
            ConfigurationError: There is none, or it cannot be written.
        """
        if name in self.views:
            raise wrong(at, f"{name} is a view, and cannot be written", action="name a table")
        if name not in self.tables:
            raise wrong(at, f"there is no table {name}", action=meant(name, self.tables, _all(self.tables)))
        found = self.tables[name]
        if found.options.unwritable is not None:
            raise found.options.unwritable
        if _has_changes(found.options):
            raise refused(at, f"writing {name}", _READ_ONLY, "write a kafka table of json, or upsert-kafka")
        if found.options.connector == "datagen":
            raise wrong(at, f"{name} is a datagen table, and cannot be written", action="name another one")
        if "topic-pattern" in found.options.values or ";" in found.options.values.get("topic", ""):
            raise wrong(at, f"{name} has several topics, and cannot be written", action="make a table of one topic")
        return found


def _all(known: Iterable[str]) -> str:
    names = ", ".join(known)
    return f"there are {names}" if names else "CREATE TABLE makes one"


def _require_readable(table: DefinedTable, at: Position) -> None:
    connector = table.options.connector
    if connector == "upsert-kafka":
        raise refused(
            at,
            f"reading {table.name}, an upsert-kafka table,",
            "Spark reads records, and takes back no earlier ones",
            "make a kafka table of the topic: each change is a row of it",
        )
    if connector in ("print", "iceberg"):
        raise refused(at, f"reading {table.name}, a table of {connector},", "it is written only", "read a kafka table")


def define(statement: CreateTable, functions: Mapping[str, Kind]) -> DefinedTable:
    """A table from its statement.

    Raises:
        ConfigurationError: An option, a column, the key or the watermark does not fit.
    """
    options = connectors.checked(statement.name, statement.at, statement.options)
    columns: list[Column] = []
    computed: list[Computed] = []
    for each in statement.columns:
        if each.kind is None:
            continue
        if each.metadata is not None:
            _require_metadata(each, options.connector)
        columns.append(Column(each.name, replace(each.kind, nullable=True)))
    by_name = {column.name: column for column in columns}
    for each in statement.columns:
        if each.expression is not None:
            found = _computed(each, by_name, functions)
            computed.append(Computed(each.name, found.sql, found.kind))
            by_name[each.name] = Column(each.name, found.kind, "proctime" if found.role == "proctime" else "")
    ordered = [by_name[each.name] for each in statement.columns]
    for name in statement.primary_key:
        _known_column(name, statement, by_name)
    delay = None
    if statement.watermark is not None:
        delay = _delay(statement, by_name)
        ordered = [replace(c, role="rowtime") if c.name == statement.watermark.column else c for c in ordered]
    changes_by = statement.primary_key if _has_changes(options) else ()
    seen = SqlTable(statement.name, tuple(ordered), static=options.connector == "jdbc", changes_by=changes_by)
    table = DefinedTable(statement, options, tuple(computed), delay, seen)
    _require_form(table)
    return table


def _require_metadata(column: ColumnDefinition, connector: str) -> None:
    key = column.metadata or ""
    if connector not in ("kafka", "upsert-kafka"):
        raise wrong(column.at, f"a table of {connector} has no metadata", action="remove the column")
    if key.startswith("value."):
        raise refused(column.at, f"the metadata '{key}'", "the formats that have it are refused", "remove it")
    if key in _NO_METADATA:
        raise refused(column.at, f"the metadata '{key}'", _NO_METADATA[key], "remove it")
    if key not in _METADATA:
        raise wrong(column.at, f"there is no metadata '{key}'", action=meant(key, _METADATA, _all(_METADATA)))
    if key not in _WRITTEN and not column.virtual:
        raise wrong(column.at, f"the metadata '{key}' cannot be written", action="write VIRTUAL behind it")
    assert column.kind is not None  # noqa: S101 - a metadata column has a type
    wanted = _METADATA[key]
    allowed = {
        "TIMESTAMP_LTZ": ("TIMESTAMP_LTZ", "TIMESTAMP"),
        "INT": ("INT", "BIGINT"),
    }.get(wanted, (wanted,))
    if column.kind.name not in allowed:
        raise wrong(column.at, f"the metadata '{key}' is {wanted}, and not {column.kind}", action=f"write {wanted}")


def _known_column(name: str, statement: CreateTable, columns: Mapping[str, Column]) -> None:
    if name not in columns:
        raise wrong(
            statement.at, f"table {statement.name} has no column {name}", action=meant(name, columns, "name one")
        )


def _computed(column: ColumnDefinition, known: Mapping[str, Column], functions: Mapping[str, Kind]) -> Piece:
    assert column.expression is not None  # noqa: S101 - asked of computed columns only
    given = read_expression(column.expression)

    def lookup(node: exp.Column) -> Piece:
        names = [name_of(each, given.text) for each in (node.args.get("table"), node.this) if each is not None]
        if names[0] not in known:
            raise wrong(
                given.text.position(node), f"there is no column {names[0]}", action=meant(names[0], known, _all(known))
            )
        piece = Piece(quoted(names[0]), known[names[0]].kind)
        return piece if len(names) == 1 else expressions.field(node, piece, names[1])

    expressions = Expressions(given.text, lookup, lambda _: None, functions)
    return expressions.piece(given.tree)


def _delay(statement: CreateTable, columns: Mapping[str, Column]) -> int:
    """The delay of a watermark, in milliseconds."""
    watermark = statement.watermark
    assert watermark is not None  # noqa: S101 - asked of tables with one
    _known_column(watermark.column, statement, columns)
    kind = columns[watermark.column].kind
    if not kind.is_time:
        raise wrong(
            watermark.at,
            f"a watermark is of a TIMESTAMP(3) or a TIMESTAMP_LTZ(3), and {watermark.column} is {kind}",
            action="make a computed column: ts AS TO_TIMESTAMP_LTZ(milliseconds, 3)",
        )
    if (kind.precision or 0) > 3:
        raise wrong(
            watermark.at,
            f"a watermark is of at most three digits behind the second, and {watermark.column} is {kind}",
            action=f"write {kind.name}(3)",
        )
    given = read_expression(watermark.expression)
    node = given.tree
    if _is_column(node, watermark.column):
        return 0
    if isinstance(node, exp.Sub) and _is_column(node.this, watermark.column):
        return interval_ms(node.expression, given.text)
    raise refused(
        watermark.expression.at,
        f"the watermark {watermark.expression.text}",
        "Spark keeps a watermark that is so far behind the latest time",
        f"write {watermark.column} - INTERVAL '10' SECOND",
    )


def _is_column(node: exp.Expr, name: str) -> bool:
    return isinstance(node, exp.Column) and str(node.this.this) == name and node.args.get("table") is None


def _require_form(table: DefinedTable) -> None:
    """Whether keys and formats go together."""
    values, places, at = table.options.values, table.options.positions, table.definition.at
    connector = table.options.connector
    if connector == "upsert-kafka":
        _require_upsert(table)
        _require_no_changes(table, "value.format", _READ_ONLY)
    if connector == "kafka":
        _require_kafka(table)
    if connector in ("kafka", "upsert-kafka"):
        for key in _FORMATS:
            if key in values:
                connectors.checked_format(key, values[key], places[key])
        _require_no_changes(table, "key.format", "a key is no change")
        _require_format_options(table)
        _require_raw(table)
        _require_csv(table)
    needed = {"kafka": (), "upsert-kafka": ("topic",), "jdbc": ("url", "table-name"), "iceberg": ("catalog-name",)}
    for key in needed.get(connector, ()):
        if key not in values:
            raise wrong(at, f"table {table.name} has no '{key}'", action=f"write '{key}' = '…' into its WITH")


def _has_changes(options: TakenOptions) -> bool:
    """Whether its records are changes of another table's rows."""
    values = options.values
    return options.connector == "kafka" and values.get("value.format", values.get("format")) in connectors.CHANGES


def _require_no_changes(table: DefinedTable, key: str, why: str) -> None:
    given = table.options.values.get(key)
    if given in connectors.CHANGES:
        raise refused(table.options.positions[key], f"'{key}' = '{given}'", why, "take json")


def _require_changes(table: DefinedTable) -> None:
    at, physical = table.definition.at, [each.name for each in table.physical]
    if not table.definition.primary_key or not set(table.definition.primary_key) <= set(physical):
        raise refused(
            at,
            f"table {table.name}, of another one's changes, without a PRIMARY KEY of its columns",
            "nothing says which row a change is of",
            "write the other table's PRIMARY KEY (…) NOT ENFORCED",
        )
    if table.definition.watermark is not None:
        raise refused(
            table.definition.watermark.at,
            f"a watermark of {table.name}, whose records are changes,",
            "windows over them would have to take rows back",
            "remove it",
        )


def _require_upsert(table: DefinedTable) -> None:
    values, at = table.options.values, table.definition.at
    if not table.definition.primary_key:
        raise wrong(
            at, f"table {table.name} of upsert-kafka has no PRIMARY KEY", action="write PRIMARY KEY (…) NOT ENFORCED"
        )
    for key in ("key.format", "value.format"):
        if key not in values:
            raise wrong(at, f"table {table.name} of upsert-kafka has no '{key}'", action=f"write '{key}' = 'json'")


def _require_kafka(table: DefinedTable) -> None:
    values, places, at = table.options.values, table.options.positions, table.definition.at
    if _has_changes(table.options):
        _require_changes(table)
    elif table.definition.primary_key:
        raise wrong(
            at,
            f"table {table.name} of kafka has a PRIMARY KEY, and its records replace none",
            action="remove it and name 'key.fields', or take 'connector' = 'upsert-kafka'",
        )
    for one, other, action in (
        ("topic", "topic-pattern", "write 'topic' = '…' alone"),
        ("format", "value.format", "write 'format' = 'json' alone"),
    ):
        if (one in values) == (other in values):
            both = f"both '{one}' and '{other}'" if one in values else f"neither '{one}' nor '{other}'"
            raise wrong(at, f"table {table.name} has {both}", action=action)
    if ("key.fields" in values) != ("key.format" in values):
        raise wrong(at, f"table {table.name} has one of 'key.fields' and 'key.format'", action="write both, or none")
    for name in filter(None, values.get("key.fields", "").split(";")):
        known = [each.name for each in table.physical]
        if name not in known:
            raise wrong(places["key.fields"], f"there is no column {name}", action=meant(name, known, _all(known)))
    prefix = values.get("key.fields-prefix", "")
    if prefix and values.get("value.fields-include") != "EXCEPT_KEY":
        raise wrong(
            places["key.fields-prefix"],
            "a prefix of key columns needs 'value.fields-include' = 'EXCEPT_KEY'",
            action="write it",
        )
    mode = values.get("scan.startup.mode")
    for needed, key in (
        ("specific-offsets", "scan.startup.specific-offsets"),
        ("timestamp", "scan.startup.timestamp-millis"),
    ):
        if (mode == needed) != (key in values):
            raise wrong(at, f"'scan.startup.mode' = '{needed}' and '{key}' go together", action="write both, or none")
    if mode == "group-offsets" and "properties.group.id" not in values:
        raise wrong(places["scan.startup.mode"], "'group-offsets' needs 'properties.group.id'", action="write it")


def _require_format_options(table: DefinedTable) -> None:
    """Each is of a format that the table has, under that one's name, as Flink asks it; and they do not contradict."""
    values, places = table.options.values, table.options.positions
    has = {f"{key.removesuffix('format')}{values[key]}." for key in _FORMATS if key in values}
    for key, at in places.items():
        if _FORMAT_OPTION.match(key) and not key.startswith(tuple(has)):
            formats = ", ".join(f"'{each}' = '{values[each]}'" for each in _FORMATS if each in values)
            raise wrong(
                at,
                f"the option '{key}' is of a format that table {table.name} does not have: {formats}",
                action=f"remove it; options of this table's formats begin with {' or '.join(sorted(has))}",
            )

    def is_on(key: str) -> bool:
        return values.get(key, "false").lower() == "true"

    for part in sorted(has):
        skips, fails = f"{part}ignore-parse-errors", f"{part}fail-on-missing-field"
        if is_on(skips) and is_on(fails):
            raise wrong(places[fails], f"'{fails}' and '{skips}' contradict each other", action="set one of them")
    read = {part for part in has if not part.endswith("raw.") and (_reads_keys(table) or not part.startswith("key."))}
    if len({is_on(f"{part}ignore-parse-errors") for part in read}) > 1:
        raise refused(
            table.definition.at,
            "'ignore-parse-errors' of keys without that of values, or the other way round",
            "a record is left out as a whole, or stops the job",
            "set both, or none",
        )


def _reads_keys(table: DefinedTable) -> bool:
    """Whether a reader takes columns from the records' keys."""
    return bool(key_fields(table)) and table.options.values.get("value.fields-include") == "EXCEPT_KEY"


def _require_raw(table: DefinedTable) -> None:
    values = table.options.values
    for key, names in (
        ("key.format", key_fields(table)),
        ("format", value_fields(table)),
        ("value.format", value_fields(table)),
    ):
        if values.get(key) != "raw":
            continue
        kinds = [each.kind for each in table.physical if each.name in names]
        if len(kinds) != 1 or kinds[0] is None or kinds[0].name not in ("STRING", "BYTES"):
            raise wrong(
                table.options.positions[key],
                f"'{key}' = 'raw' is of one column of STRING or BYTES",
                action="take json, or one column",
            )


def _require_csv(table: DefinedTable) -> None:
    values = table.options.values
    for key, names in (
        ("key.format", key_fields(table)),
        ("format", value_fields(table)),
        ("value.format", value_fields(table)),
    ):
        if values.get(key) != "csv":
            continue
        for each in table.physical:
            if each.name in names and each.kind is not None and each.kind.name in ("ARRAY", "MAP", "ROW", "BYTES"):
                raise refused(each.at, f"{each.kind.name} in csv", "Spark writes none as Flink does", "use json")


def key_fields(table: DefinedTable) -> tuple[str, ...]:
    """The columns of the records' keys."""
    if table.options.connector == "upsert-kafka":
        return table.definition.primary_key
    return tuple(filter(None, table.options.values.get("key.fields", "").split(";")))


def value_fields(table: DefinedTable) -> tuple[str, ...]:
    """The columns of the records' values."""
    names = tuple(each.name for each in table.physical)
    if table.options.values.get("value.fields-include") == "EXCEPT_KEY":
        return tuple(name for name in names if name not in key_fields(table))
    return names


def created(table: DefinedTable) -> Iterator[str]:
    """The table's statement, without what is secret in it."""
    lines = []
    for each in table.definition.columns:
        told = f"  {quoted(each.name)} "
        if each.expression is not None:
            told += f"AS {each.expression.text}"
        else:
            told += str(each.kind) + ("" if each.kind is None or each.kind.nullable else " NOT NULL")
            if each.metadata is not None:
                told += f" METADATA FROM '{each.metadata}'" + (" VIRTUAL" if each.virtual else "")
        lines.append(told)
    watermark = table.definition.watermark
    if watermark is not None:
        lines.append(f"  WATERMARK FOR {quoted(watermark.column)} AS {watermark.expression.text}")
    if table.definition.primary_key:
        names = ", ".join(map(quoted, table.definition.primary_key))
        lines.append(f"  PRIMARY KEY ({names}) NOT ENFORCED")
    yield f"CREATE TABLE {quoted(table.name)} (\n" + ",\n".join(lines) + "\n) WITH ("
    yield ",\n".join(f"  '{key}' = '{shown(key, value)}'" for key, value in table.options.values.items()) + "\n)"
