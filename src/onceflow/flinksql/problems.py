"""What is wrong with a statement, told by its line and column; and the word that may have been meant.

Must not know: statements, queries, connectors.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from onceflow.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Position:
    """Where something stands in a script; both count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


def wrong(at: Position, what: str, *, action: str = "", cause: str = "") -> ConfigurationError:
    """What cannot be understood, or does not fit."""
    return ConfigurationError(
        f"{at}: {what}",
        harmless="always: nothing of this statement was started",
        cause=cause,
        action=action,
        line=at.line,
        column=at.column,
    )


@contextlib.contextmanager
def nested(at: Position) -> Iterator[None]:
    """What is read inside calls itself as often as a statement is nested: too deep a one is wrong, and told.

    Raises:
        ConfigurationError: It is nested too deeply.
    """
    try:
        yield
    except RecursionError:
        raise wrong(
            at, "it is nested too deeply to be understood", action="give what is inside a name: CREATE VIEW, or WITH"
        ) from None


def refused(at: Position, name: str, why: str, instead: str) -> ConfigurationError:
    """What Flink has and this has not, by its name.

    Args:
        at: Where it stands.
        name: What it is called.
        why: Why it is not taken.
        instead: What to do instead.
    """
    return ConfigurationError(
        f"{at}: {name} is refused: {why}",
        harmless="always: nothing of this statement was started",
        action=instead,
        line=at.line,
        column=at.column,
        refused=name,
    )


_WHOLE = re.compile("-?[0-9]{1,18}")


def whole_number(at: Position, key: str, text: str) -> int:
    """The whole number that an option is, as far as Java counts.

    Raises:
        ConfigurationError: It is none.
    """
    if _WHOLE.fullmatch(text) is None:
        raise wrong(at, f"'{key}': {text!r:.40} is no whole number", action="write one, of at most 18 digits")
    return int(text)


def meant(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """Ask whether another word was meant; or something else where nothing is close."""
    by_lower = {each.lower(): each for each in known}
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean {by_lower[found[0]]}?" if found else otherwise
