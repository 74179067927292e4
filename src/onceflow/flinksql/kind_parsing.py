"""From tokens to a type, as a column or a CAST has it.

Must not know: which statements there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onceflow.flinksql.cursor import Cursor
from onceflow.flinksql.kinds import Kind, Name
from onceflow.flinksql.lexing import Token, tokens_of
from onceflow.flinksql.problems import meant, nested, refused, wrong
from onceflow.flinksql.statements import ScriptText

_PLAIN: Mapping[str, Name] = {
    "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INT": "INT", "INTEGER": "INT",
    "BIGINT": "BIGINT", "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "STRING": "STRING", "BYTES": "BYTES", "DATE": "DATE",
}  # fmt: skip
_NO_KINDS = {
    "MULTISET": ("Spark has no bag of values", "use a MAP from value to count"),
    "TIME": ("Spark's streams have no time of day without its day", "use STRING, or INT seconds of the day"),
    "RAW": ("Spark has no serializer of Flink's", "use BYTES"),
    "VARIANT": ("it is not taken yet", "use STRING"),
    "STRUCTURED": ("there are no classes of Java's", "use ROW"),
    "INTERVAL": ("no topic holds one", "use BIGINT, with a number of milliseconds"),
}


class KindCursor(Cursor):
    """Reads a type where one comes."""

    def _kind(self) -> Kind:
        kind = self._bare_kind()
        while self._token.says("ARRAY", "MULTISET"):
            if self._token.says("MULTISET"):
                raise refused(self._token.at, "MULTISET", *_NO_KINDS["MULTISET"])
            self._take()
            kind = Kind("ARRAY", inner=(kind,))
        if self._has("NOT", "NULL"):
            return Kind(kind.name, kind.precision, kind.scale, kind.fields, kind.inner, nullable=False)
        self._has("NULL")
        return kind

    def _bare_kind(self) -> Kind:
        token = self._take()
        word = token.value.upper()
        if token.kind != "word":
            self._next -= 1
            self._unexpected("a type")
        if word in _NO_KINDS:
            raise refused(token.at, word, *_NO_KINDS[word])
        if word in _PLAIN:
            if word == "DOUBLE":
                self._has("PRECISION")
            return Kind(_PLAIN[word])
        rules: Mapping[str, Callable[[Token], Kind]] = {
            "DECIMAL": self._decimal,
            "DEC": self._decimal,
            "NUMERIC": self._decimal,
            "CHAR": self._sized,
            "VARCHAR": self._sized,
            "BINARY": self._sized,
            "VARBINARY": self._sized,
            "TIMESTAMP": self._timestamp,
            "TIMESTAMP_LTZ": self._timestamp,
            "ARRAY": self._array,
            "MAP": self._map,
            "ROW": self._row,
        }
        if word not in rules:
            names = [*_PLAIN, *rules, *_NO_KINDS]
            raise wrong(token.at, f"there is no type {token.value}", action=meant(word, names, "see docs/sql.md"))
        return rules[word](token)

    def _decimal(self, token: Token) -> Kind:
        precision, scale = 10, 0
        if self._has("("):
            precision = self._number()
            scale = self._number() if self._has(",") else 0
            self._must(")")
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise wrong(token.at, f"there is no DECIMAL({precision}, {scale})", action="it has at most 38 digits")
        return Kind("DECIMAL", precision, scale)

    def _sized(self, token: Token) -> Kind:
        length = None
        if self._has("("):
            length = self._number()
            self._must(")")
        name: Name = "BYTES" if "BINARY" in token.value.upper() else "STRING"
        # As in Flink by default: the length is not looked at where rows are written or read.
        return Kind(name, precision=1 if length is None and not token.value.upper().startswith("VAR") else length)

    def _timestamp(self, token: Token) -> Kind:
        name: Name = "TIMESTAMP_LTZ" if token.value.upper() == "TIMESTAMP_LTZ" else "TIMESTAMP"
        precision = 6
        if self._has("("):
            precision = self._number()
            self._must(")")
        if self._has("WITH"):
            if self._has("LOCAL"):
                name = "TIMESTAMP_LTZ"
            elif name == "TIMESTAMP":
                raise refused(
                    token.at, "TIMESTAMP WITH TIME ZONE", "no engine keeps a zone with each value", "use TIMESTAMP_LTZ"
                )
            self._must("TIME", "ZONE")
        elif self._has("WITHOUT"):
            self._must("TIME", "ZONE")
        if precision > 9:
            raise wrong(token.at, f"there is no {name}({precision})", action=f"write {name}(3)")
        if precision > 6:
            raise refused(
                token.at, f"{name}({precision})", "Spark's times have six digits behind the second", f"write {name}(6)"
            )
        return Kind(name, precision)

    def _array(self, _: Token) -> Kind:
        self._must("<")
        inner = self._kind()
        self._must(">")
        return Kind("ARRAY", inner=(inner,))

    def _map(self, _: Token) -> Kind:
        self._must("<")
        key = self._kind()
        self._must(",")
        value = self._kind()
        self._must(">")
        return Kind("MAP", inner=(key, value))

    def _row(self, _: Token) -> Kind:
        close = "<" if self._token.says("<") else "("
        self._must(close)
        names: list[str] = []
        kinds: list[Kind] = []
        while True:
            names.append(self._name().value)
            kinds.append(self._kind())
            if self._token.kind == "text":
                self._take()  # a comment
            if not self._has(","):
                break
        self._must(">" if close == "<" else ")")
        return Kind("ROW", fields=tuple(names), inner=tuple(kinds))


def kind_of(text: ScriptText) -> Kind:
    """A type alone, as in CAST.

    Raises:
        ConfigurationError: It is none, or one that is refused.
    """
    tokens = tokens_of(text.text)
    parser = KindCursor(tokens[:-1], text.text)
    with nested(text.at):
        return parser._kind()  # noqa: SLF001 - it is this file's own
