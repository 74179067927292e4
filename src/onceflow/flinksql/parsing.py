"""From tokens to statements: Flink's statements but for the queries in them, which stay text with its place.

Must not know: what is done with a statement, connectors, queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from onceflow.flinksql.cursor import shown
from onceflow.flinksql.kind_parsing import KindCursor
from onceflow.flinksql.lexing import Token, statements_of, tokens_of
from onceflow.flinksql.problems import meant, nested, refused, wrong
from onceflow.flinksql.statements import (
    ColumnDefinition,
    CreateFunction,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    Insert,
    Option,
    Reset,
    ScriptText,
    Select,
    Set,
    Show,
    Statement,
    StatementSet,
    WatermarkDefinition,
)

_END = "the end of the statement"
_QUERY = ("SELECT", "WITH", "VALUES", "(")
_CATALOGUES = "there is one catalogue, of the script's own tables"
_NOT_TAKEN: Mapping[str, tuple[str, str]] = {
    "ALTER": ("a table here is what its CREATE says", "change the CREATE statement"),
    "ANALYZE": ("Spark keeps no statistics of topics", "remove it"),
    "CALL": ("there are no procedures", "remove it"),
    "COMPILE": ("plans are kept in the checkpoint", "remove it; the second run of a file goes on by itself"),
    "DELETE": ("topics and sinks are written by INSERT", "write INSERT INTO with an upsert table"),
    "UPDATE": ("topics and sinks are written by INSERT", "write INSERT INTO with an upsert table"),
    "MERGE": ("topics and sinks are written by INSERT", "write INSERT INTO with an upsert table"),
    "TRUNCATE": ("what is written stays", "remove it"),
    "USE": (_CATALOGUES, "remove it"),
    "LOAD": ("there are no modules to load", "remove it"),
    "UNLOAD": ("there are no modules to unload", "remove it"),
    "ADD": ("jars are Spark's", "name jars of your own in ONCEFLOW_JARS"),
    "REMOVE": ("jars are Spark's", "name jars of your own in ONCEFLOW_JARS"),
    "STOP": ("jobs are ended from outside", "use onceflow stop JOB"),
    "REPLACE": ("it is no statement of Flink's", "write INSERT INTO with an upsert table"),
}
_NOT_CREATED = {
    "CATALOG": (_CATALOGUES, "remove it; an Iceberg table names its catalogue in WITH"),
    "DATABASE": (_CATALOGUES, "remove it"),
    "MODEL": ("there are no models", "call a function of yours: CREATE TEMPORARY FUNCTION … LANGUAGE PYTHON"),
    "MATERIALIZED": ("a table here is a topic or another sink", "write CREATE TABLE and INSERT INTO"),
    "CONNECTION": (_CATALOGUES, "write the connection into the table's WITH"),
}
_NOT_SHOWN = (
    "CATALOGS", "CATALOG", "DATABASES", "DATABASE", "COLUMNS", "CURRENT", "FULL", "JARS", "JOBS", "MODULES",
    "PARTITIONS", "PROCEDURES", "USER", "MODELS", "MATERIALIZED", "CONNECTIONS",
)  # fmt: skip
STATEMENTS = (
    "BEGIN STATEMENT SET", "CREATE", "DESC", "DESCRIBE", "DROP", "EXECUTE", "EXPLAIN", "INSERT", "RESET", "SELECT",
    "SET", "SHOW", "VALUES", "WITH",
)  # fmt: skip


def parse(script: str) -> list[Statement]:
    """All statements of a script.

    Raises:
        ConfigurationError: The first that cannot be understood, with its place.
    """
    return [parse_one(tokens, script) for tokens in statements_of(tokens_of(script))]


def parse_one(tokens: Sequence[Token], script: str) -> Statement:
    """One statement.

    Args:
        tokens: Its own.
        script: All of the text, of which the tokens are.
    """
    with nested(tokens[0].at):
        return _Parser(tokens, script).statement()


class _Parser(KindCursor):
    """Reads one statement."""

    def _own_name(self) -> Token:
        """The name of a table, view or function: there is one catalogue."""
        token = self._name()
        if self._token.says("."):
            raise refused(token.at, "a name with a catalogue or a database", _CATALOGUES, "write the last part alone")
        return token

    def _end(self) -> None:
        token = self._token
        if token.kind == "end":
            return
        if token.says(*(each.split()[0] for each in STATEMENTS)):
            raise wrong(
                token.at, f"there is {shown(token)} where {_END} was expected", action=f"write ; before {token.value}"
            )
        self._unexpected(_END)

    def statement(self) -> Statement:
        """The statement, all of it."""
        found = self._statement()
        self._end()
        return found

    def _statement(self) -> Statement:
        token = self._token
        word = token.value.upper()
        if word in _NOT_TAKEN and token.kind == "word":
            raise refused(token.at, word, *_NOT_TAKEN[word])
        if token.says(*_QUERY):
            return Select(at=token.at, text=self._texts(), query=self._rest())
        rules: dict[str, Callable[[], Statement]] = {
            "SET": self._set,
            "RESET": self._reset,
            "CREATE": self._create,
            "INSERT": self._insert,
            "EXECUTE": self._execute,
            "BEGIN": self._begin,
            "EXPLAIN": self._explain,
            "SHOW": self._shows,
            "DESCRIBE": self._describe,
            "DESC": self._describe,
            "DROP": self._drop,
        }
        if token.kind != "word" or word not in rules:
            raise wrong(
                token.at,
                f"there is no statement {shown(token)}",
                action=meant(word, [*STATEMENTS, *_NOT_TAKEN], f"a statement begins with {', '.join(STATEMENTS)}"),
            )
        return rules[word]()

    def _set(self) -> Statement:
        at = self._take().at
        if self._token.kind == "end":
            return Set(at=at, text=self._texts(), key=None, value=None)
        if self._token.kind == "word":
            raise wrong(self._token.at, "the key of SET stands in quotes", action="write SET 'key' = 'value'")
        key = self._text("a key").value
        self._must("=")
        value = self._text("a value").value
        return Set(at=at, text=self._texts(), key=key, value=value)

    def _reset(self) -> Statement:
        at = self._take().at
        key = None if self._token.kind == "end" else self._text("a key").value
        return Reset(at=at, text=self._texts(), key=key)

    def _create(self) -> Statement:
        self._take()
        if self._token.says("OR"):
            raise refused(self._token.at, "CREATE OR REPLACE", "a name is given once", "write CREATE, and DROP before")
        temporary = self._has("TEMPORARY")
        system = temporary and self._has("SYSTEM")
        token = self._token
        word = token.value.upper()
        if word in _NOT_CREATED and token.kind == "word":
            raise refused(token.at, f"CREATE {word}", *_NOT_CREATED[word])
        if system and word != "FUNCTION":
            self._unexpected("FUNCTION")
        if self._has("TABLE"):
            return self._create_table(temporary=temporary)
        if self._has("VIEW"):
            return self._create_view()
        if self._has("FUNCTION"):
            return self._create_function()
        return self._unexpected("TABLE", "VIEW", "FUNCTION")

    def _if_not_exists(self) -> bool:
        return self._has("IF", "NOT", "EXISTS")

    def _create_table(self, *, temporary: bool) -> Statement:
        unless = self._if_not_exists()
        name = self._own_name().value
        columns: list[ColumnDefinition] = []
        watermark: WatermarkDefinition | None = None
        key: tuple[str, ...] = ()
        if not self._token.says("("):
            if self._has("WITH"):
                self._options()
            self._require_plain_table()
            self._unexpected("(")
        self._take()
        while True:
            token = self._token
            if token.says("WATERMARK") and self._look(1).says("FOR"):
                if watermark is not None:
                    raise wrong(token.at, "a table has one watermark", action="remove one of them")
                watermark = self._watermark()
            elif token.says("PRIMARY", "CONSTRAINT") or (token.says("UNIQUE") and self._look(1).says("(")):
                if key:
                    raise wrong(token.at, "a table has one primary key", action="remove one of them")
                key = self._constraint()
            else:
                column, is_key = self._column()
                columns.append(column)
                if is_key and key:
                    raise wrong(
                        column.at, "a table has one primary key", action="write PRIMARY KEY (a, b) NOT ENFORCED"
                    )
                key = (column.name,) if is_key else key
            if not self._has(","):
                break
        self._must(")")
        comment = self._text("a comment").value if self._has("COMMENT") else None
        if self._token.says("DISTRIBUTED"):
            raise refused(
                self._token.at, "DISTRIBUTED", "a topic has its own partitions", "set sink.partitioner, or remove it"
            )
        if self._token.says("PARTITIONED"):
            raise refused(
                self._token.at,
                "PARTITIONED BY",
                "a topic or a table is there already, with its own partitions",
                "remove it",
            )
        options = self._options() if self._has("WITH") else ()
        self._require_plain_table()
        self._require_distinct(columns)
        return CreateTable(
            at=self._tokens[0].at,
            text=self._texts(),
            name=name,
            columns=tuple(columns),
            watermark=watermark,
            primary_key=key,
            options=options,
            comment=comment,
            temporary=temporary,
            if_not_exists=unless,
        )

    def _require_plain_table(self) -> None:
        token = self._token
        if token.says("LIKE"):
            raise refused(token.at, "CREATE TABLE … LIKE", "a table is told in one place", "write its columns")
        if token.says("AS"):
            raise refused(
                token.at,
                "CREATE TABLE … AS",
                "a topic or a table outlives the query that fills it",
                "write CREATE TABLE with its columns, and INSERT INTO",
            )

    def _require_distinct(self, columns: Sequence[ColumnDefinition]) -> None:
        seen: dict[str, ColumnDefinition] = {}
        for column in columns:
            other = seen.get(column.name.lower())
            if other is not None and other.name != column.name:
                raise refused(
                    column.at,
                    f"the columns {other.name} and {column.name}",
                    "Spark takes names for the same that differ in case alone",
                    "rename one of them",
                )
            if other is not None:
                raise wrong(column.at, f"there are two columns {column.name}", action="rename one of them")
            seen[column.name.lower()] = column

    def _watermark(self) -> WatermarkDefinition:
        at = self._take().at
        self._must("FOR")
        column = self._name().value
        if self._token.says("."):
            raise refused(
                self._token.at, "a watermark of a nested field", "Spark keeps one of a column", "select it first"
            )
        self._must("AS")
        return WatermarkDefinition(column, self._expression(), at)

    def _constraint(self) -> tuple[str, ...]:
        if self._has("CONSTRAINT"):
            self._name()
        if self._token.says("UNIQUE"):
            raise wrong(self._token.at, "Flink knows no UNIQUE", action="write PRIMARY KEY (…) NOT ENFORCED")
        self._must("PRIMARY", "KEY")
        names = self._list(self._name)
        self._not_enforced()
        return names

    def _not_enforced(self) -> None:
        if not self._has("NOT", "ENFORCED"):
            raise wrong(
                self._token.at,
                "a primary key is not enforced: nobody looks whether it holds",
                action="write PRIMARY KEY (…) NOT ENFORCED",
            )

    def _column(self) -> tuple[ColumnDefinition, bool]:
        token = self._name()
        if self._has("AS"):
            expression = self._expression()
            return ColumnDefinition(
                name=token.value, at=token.at, expression=expression, comment=self._comment()
            ), False
        kind = self._kind()
        is_key = False
        if self._has("METADATA"):
            key = self._text("a key").value if self._has("FROM") else token.value
            virtual = self._has("VIRTUAL")
            column = ColumnDefinition(
                name=token.value, at=token.at, kind=kind, metadata=key, virtual=virtual, comment=self._comment()
            )
            return column, False
        if self._has("PRIMARY", "KEY"):
            self._not_enforced()
            is_key = True
        if self._token.says("UNIQUE"):
            raise wrong(self._token.at, "Flink knows no UNIQUE", action="write PRIMARY KEY NOT ENFORCED")
        return ColumnDefinition(name=token.value, at=token.at, kind=kind, comment=self._comment()), is_key

    def _comment(self) -> str | None:
        return self._text("a comment").value if self._has("COMMENT") else None

    def _options(self) -> tuple[Option, ...]:
        self._must("(")
        options: list[Option] = []
        while True:
            key = self._text("a key")
            if any(each.key == key.value for each in options):
                raise wrong(key.at, f"the option {key.value!r} is given twice", action="remove one of them")
            self._must("=")
            options.append(Option(key.value, self._text("a value").value, key.at))
            if not self._has(","):
                break
        self._must(")")
        return tuple(options)

    def _create_view(self) -> Statement:
        unless = self._if_not_exists()
        name = self._own_name().value
        columns = self._list(self._name) if self._token.says("(") else ()
        self._comment()
        self._must("AS")
        return CreateView(
            at=self._tokens[0].at,
            text=self._texts(),
            name=name,
            columns=columns,
            query=self._query(),
            if_not_exists=unless,
        )

    def _query(self) -> ScriptText:
        if not self._token.says(*_QUERY):
            self._unexpected(*_QUERY)
        return self._rest()

    def _create_function(self) -> Statement:
        unless = self._if_not_exists()
        name = self._own_name().value
        self._must("AS")
        path = self._text("a module and a name")
        if self._has("LANGUAGE"):
            language = self._take()
            if not language.says("PYTHON"):
                raise refused(
                    language.at,
                    f"LANGUAGE {language.value.upper()}",
                    "a function is called in Python's workers",
                    "write it in Python: AS 'module.name' LANGUAGE PYTHON",
                )
        else:
            raise refused(
                path.at,
                "a function of Java's",
                "without LANGUAGE it is Java's, as in Flink",
                "write it in Python: AS 'module.name' LANGUAGE PYTHON",
            )
        if self._token.says("USING"):
            raise refused(self._token.at, "USING JAR", "functions are Python's", "remove it")
        return CreateFunction(
            at=self._tokens[0].at, text=self._texts(), name=name, path=path.value, if_not_exists=unless
        )

    def _insert(self) -> Insert:
        at = self._take().at
        if self._token.says("OVERWRITE"):
            raise refused(
                self._token.at, "INSERT OVERWRITE", "a stream has no end at which it could replace", "write INSERT INTO"
            )
        self._must("INTO")
        table = self._own_name()
        if self._token.says("PARTITION"):
            raise refused(self._token.at, "PARTITION", "partitions follow from columns", "select the column's value")
        columns: tuple[str, ...] = ()
        if self._token.says("(") and not self._look(1).says("SELECT", "WITH", "VALUES", "("):
            columns = self._list(self._name)
        return Insert(
            at=at, text=self._texts(), table=table.value, table_at=table.at, columns=columns, query=self._query()
        )

    def _execute(self) -> Statement:
        self._take()
        if self._has("STATEMENT", "SET"):
            self._must("BEGIN")
            return self._set_of_inserts()
        if self._token.says("PLAN"):
            raise refused(
                self._token.at, "EXECUTE PLAN", "plans are kept in the checkpoint", "run the statements again"
            )
        if not self._token.says("INSERT", *_QUERY):
            self._unexpected("STATEMENT SET", "INSERT", "SELECT")
        return self._statement()

    def _begin(self) -> Statement:
        self._take()
        self._must("STATEMENT", "SET", ";")
        return self._set_of_inserts()

    def _set_of_inserts(self) -> Statement:
        """To the END."""
        inserts: list[Insert] = []
        while not self._token.says("END"):
            begin = self._next
            while not self._token.says(";") and self._token.kind != "end":
                self._take()
            if self._token.kind == "end":
                self._unexpected(";", "END")
            part = self._tokens[begin : self._next]
            if not part or not part[0].says("INSERT"):
                self._next = begin
                self._unexpected("INSERT", "END")
            found = parse_one(part, self._script)
            assert isinstance(found, Insert)  # noqa: S101 - it begins with INSERT
            inserts.append(found)
            self._must(";")
        if not inserts:
            self._unexpected("INSERT")
        self._must("END")
        return StatementSet(at=self._tokens[0].at, text=self._texts(), inserts=tuple(inserts))

    def _explain(self) -> Statement:
        at = self._take().at
        if self._token.says("ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE"):
            raise refused(self._token.at, f"EXPLAIN {self._token.value.upper()}", "Spark has no such", "write EXPLAIN")
        if self._has("PLAN"):
            self._must("FOR")
        if self._has("STATEMENT", "SET"):
            self._must("BEGIN")
            return Explain(at=at, text=self._texts(), of=self._set_of_inserts())
        if not self._token.says("INSERT", "EXECUTE", *_QUERY):
            self._unexpected("INSERT", "SELECT", "STATEMENT SET")
        return Explain(at=at, text=self._texts(), of=self._statement())

    def _shows(self) -> Statement:
        at = self._take().at
        if self._has("CREATE"):
            if not self._token.says("TABLE", "VIEW"):
                self._unexpected("TABLE", "VIEW")
            what = f"CREATE {self._take().value.upper()}"
            return Show(at=at, text=self._texts(), what=what, name=self._own_name().value)
        self._has("USER") if self._look(1).says("FUNCTIONS") else None
        token = self._token
        if token.says("TABLES", "VIEWS", "FUNCTIONS"):
            what = self._take().value.upper()
            if self._token.says("FROM", "IN", "LIKE", "NOT", "ILIKE"):
                raise refused(
                    self._token.at, f"SHOW {what} {self._token.value.upper()}", _CATALOGUES, f"write SHOW {what}"
                )
            return Show(at=at, text=self._texts(), what=what)
        if token.says(*_NOT_SHOWN):
            why, instead = {
                "JOBS": ("jobs are processes, and not of this script alone", "use onceflow list"),
                "COLUMNS": ("DESCRIBE tells them", "write DESCRIBE and the table's name"),
            }.get(token.value.upper(), (_CATALOGUES, "write SHOW TABLES"))
            raise refused(token.at, f"SHOW {token.value.upper()}", why, instead)
        return self._unexpected("TABLES", "VIEWS", "FUNCTIONS", "CREATE TABLE", "CREATE VIEW")

    def _describe(self) -> Statement:
        at = self._take().at
        if self._token.says("EXTENDED", "CATALOG", "DATABASE", "JOB", "FUNCTION", "MODEL"):
            raise refused(self._token.at, f"DESCRIBE {self._token.value.upper()}", _CATALOGUES, "write DESCRIBE table")
        return Describe(at=at, text=self._texts(), name=self._own_name().value)

    def _drop(self) -> Statement:
        at = self._take().at
        temporary = self._has("TEMPORARY")
        if temporary:
            self._has("SYSTEM")
        token = self._token
        if token.says(*_NOT_CREATED):
            raise refused(token.at, f"DROP {token.value.upper()}", *_NOT_CREATED[token.value.upper()])
        if not token.says("TABLE", "VIEW", "FUNCTION"):
            self._unexpected("TABLE", "VIEW", "FUNCTION")
        what = self._take().value.upper()
        if_exists = self._has("IF", "EXISTS")
        return Drop(at=at, text=self._texts(), what=what, name=self._own_name().value, if_exists=if_exists)
