"""A place in a statement's tokens, that moves from left to right.

Must not know: which statements and which types there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from onceflow.flinksql.lexing import Token
from onceflow.flinksql.problems import meant, wrong
from onceflow.flinksql.reserved import RESERVED, TAKEN_AS_NAMES
from onceflow.flinksql.statements import ScriptText


def shown(token: Token) -> str:
    """A token as a message has it."""
    return f"'{token.value}'" if token.kind == "text" else token.value


class Cursor:
    """Reads the tokens of one statement from left to right."""

    def __init__(self, tokens: Sequence[Token], script: str) -> None:
        last = tokens[-1]
        self._tokens = [*tokens, Token("end", "", last.end, last.end, last.at)]
        self._script = script
        self._next = 0

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _look(self, ahead: int) -> Token:
        return self._tokens[min(self._next + ahead, len(self._tokens) - 1)]

    def _take(self) -> Token:
        token = self._token
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _has(self, *words: str) -> bool:
        """Take these words if they come now."""
        if all(self._look(i).says(word) for i, word in enumerate(words)):
            self._next += len(words)
            return True
        return False

    def _must(self, *words: str) -> None:
        for word in words:
            if not self._has(word):
                self._unexpected(word)

    def _unexpected(self, *wanted: str) -> NoReturn:
        token = self._token
        found = "the statement ends" if token.kind == "end" else f"there is {shown(token)}"
        words = ", ".join(wanted[:-1]) + (" or " if len(wanted) > 1 else "") + wanted[-1]
        likely = meant(token.value, wanted) if token.kind == "word" else ""
        raise wrong(token.at, f"{found} where {words} was expected", action=likely or "correct the statement")

    def _name(self) -> Token:
        """A name of something, in backticks where Flink asks for them."""
        token = self._token
        if token.kind == "quoted":
            return self._take()
        if token.kind != "word":
            self._unexpected("a name")
        word = token.value.upper()
        if word in RESERVED and word not in TAKEN_AS_NAMES:
            raise wrong(token.at, f"{token.value} is a word of SQL, and no name", action=f"write `{token.value}`")
        return self._take()

    def _text(self, what: str) -> Token:
        if self._token.kind != "text":
            self._unexpected(f"{what} in '…'")
        return self._take()

    def _number(self) -> int:
        token = self._take()
        if token.kind != "number" or not token.value.isdigit():
            self._next -= 1
            self._unexpected("a whole number")
        return int(token.value)

    def _rest(self) -> ScriptText:
        """Everything to the end of the statement."""
        if self._token.kind == "end":
            self._unexpected("a query")
        first, last = self._token, self._tokens[-2]
        self._next = len(self._tokens) - 1
        return ScriptText(self._script[first.start : last.end], first.at)

    def _expression(self) -> ScriptText:
        """To the comma or the parenthesis that ends it."""
        depth, first = 0, self._token
        while self._token.kind != "end":
            if depth == 0 and self._token.says(",", ")"):
                break
            if depth == 0 and self._token.says("COMMENT") and self._look(1).kind == "text":
                break
            depth += self._token.says("(", "[") - self._token.says(")", "]")
            self._take()
        if self._token is first:
            self._unexpected("an expression")
        return ScriptText(self._script[first.start : self._tokens[self._next - 1].end], first.at)

    def _texts(self) -> str:
        return self._script[self._tokens[0].start : self._tokens[-1].end]

    def _list(self, read: Callable[[], Token]) -> tuple[str, ...]:
        self._must("(")
        names = [read().value]
        while self._has(","):
            names.append(read().value)
        self._must(")")
        return tuple(names)
