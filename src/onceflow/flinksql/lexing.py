"""A script as words with their places, and cut into statements.

Must not know: what any word means, beyond what is needed to see where a statement ends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from onceflow.flinksql.problems import Position, refused, wrong

Kind = Literal["word", "quoted", "text", "number", "sign", "end"]


@dataclass(frozen=True, slots=True)
class Token:
    """One word, literal or sign.

    Attributes:
        kind: What it is: a word, a name in backticks, text in quotes, a number, a sign, or the end.
        value: Its value: what stands inside of the quotes; of anything else as it is written.
        start: Where it begins in the script.
        end: Where it ends.
        at: The same for people.
    """

    kind: Kind
    value: str
    start: int
    end: int
    at: Position

    def says(self, *words: str) -> bool:
        """Whether it is one of these words, or signs."""
        return self.kind in ("word", "sign") and self.value.upper() in words


_PATTERNS = re.compile(
    r"""
    (?P<space>\s+)
    | (?P<comment>--[^\n]*|//[^\n]*|/\*(?!\+)(?:.|\n)*?\*/)
    | (?P<hint>/\*\+)
    | (?P<open_comment>/\*)
    | (?P<text>'(?:[^']|'')*')
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<sign>=>|<=|>=|<>|!=|\|\||[-+*/%(),.;:=<>\[\]{}?@$^&|~!])
    """,
    re.VERBOSE,
)


_LONGEST_NUMBER = 1_000
"""No type takes more than 38 digits; of thousands Python makes no number."""


def tokens_of(script: str) -> list[Token]:
    """All tokens of a script, the last of the kind "end".

    Raises:
        ConfigurationError: Quotes that are not closed, or a character that is none of SQL's.
    """
    found: list[Token] = []
    at, line, begin = 0, 1, 0
    while at < len(script):
        here = Position(line, at - begin + 1)
        match = _PATTERNS.match(script, at)
        if match is None:
            raise _stray(script[at], here)
        kind, text = str(match.lastgroup), match[0]
        if kind == "hint":
            name = "a hint"
            raise refused(here, name, "settings stand in one place", "write it into the table's WITH, or as a SET")
        if kind == "open_comment":
            raise wrong(here, "a comment that begins here does not end", action="close it with */")
        if kind == "text":
            found.append(Token("text", text[1:-1].replace("''", "'"), at, match.end(), here))
        elif kind == "quoted":
            found.append(Token("quoted", text[1:-1].replace("``", "`"), at, match.end(), here))
        elif kind in ("number", "word", "sign"):
            if kind == "number" and len(text) > _LONGEST_NUMBER:
                raise wrong(here, f"a number of {len(text)} characters", action="write fewer digits")
            found.append(Token(kind, text, at, match.end(), here))  # type: ignore[arg-type]
        lines = text.count("\n")
        if lines:
            line, begin = line + lines, at + text.rindex("\n") + 1
        at = match.end()
    found.append(Token("end", "", at, at, Position(line, at - begin + 1)))
    return found


def _stray(character: str, at: Position) -> Exception:
    if character == "'":
        return wrong(
            at, "text that begins here does not end", action="close it with '; a quote inside is written twice"
        )
    if character == "`":
        return wrong(at, "a name that begins here does not end", action="close it with a backtick")
    if character == '"':
        return wrong(at, "Flink's SQL knows no \"", action="write text in '…', and a name in `…`")
    return wrong(at, f"{character!r} is no sign of SQL", action="remove it")


def statements_of(tokens: Sequence[Token]) -> list[list[Token]]:
    """The tokens of each statement, without the semicolon behind it; a statement set is one statement."""
    found: list[list[Token]] = []
    present: list[Token] = []
    in_set = False
    for token in tokens:
        if token.kind == "end":
            break
        if token.says(";") and not in_set:
            if present:
                found.append(present)
            present = []
            continue
        present.append(token)
        if token.says("BEGIN", "SET") and _begins_set(present):
            in_set = True
        elif in_set and token.says("END") and len(present) > 1 and _ends_set(present):
            in_set = False
    if present:
        found.append(present)
    return found


def _begins_set(tokens: Sequence[Token]) -> bool:
    said = [token.value.upper() for token in tokens]
    return said in (["EXECUTE", "STATEMENT", "SET", "BEGIN"], ["BEGIN", "STATEMENT", "SET"]) or said[-4:] == [
        "EXPLAIN",
        "STATEMENT",
        "SET",
        "BEGIN",
    ]


def _ends_set(tokens: Sequence[Token]) -> bool:
    """An END of its own; one of a CASE stands inside of an INSERT that a semicolon has not closed."""
    return tokens[-2].says(";", "BEGIN", "SET")
