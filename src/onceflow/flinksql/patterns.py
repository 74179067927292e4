"""Groups of a regular expression: which of them take part in each match.

Must not know: SQL. Both engines hand patterns to Java; what is not understood here is taken for a group that may not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_FLAGS = re.compile(r"\(\?[imsud-]*([:)])")
_NAMED = re.compile(r"\(\?<[A-Za-z]\w*>")
_CLASS = re.compile(r"\[\^?(?:\\.|[^\]\[\\])+\]")
_NOT_ALWAYS = re.compile(r"[?*]|\{0")
_QUOTED = "\\Q"


@dataclass
class _Open:
    """A group that is not closed yet: the numbers in it, its own among them, and what they hang on."""

    number: int | None = None
    inside: set[int] = field(default_factory=set)
    denied: bool = False
    either: bool = False

    @property
    def whole(self) -> set[int]:
        """The numbers of all that it is."""
        return self.inside if self.number is None else self.inside | {self.number}

    def absent(self, *, optional: bool) -> set[int]:
        """The numbers of what may be left out of it."""
        return self.whole if self.denied or optional else self.inside if self.either else set()


def takes_part(pattern: str, number: int | None) -> bool:
    """Whether a group takes part in each match; one that there is not counts as one that does.

    Args:
        pattern: In Java's form.
        number: The group's; None: each of them is asked for.
    """
    absent = _may_be_absent(pattern)
    return absent is not None and (not absent if number is None else number not in absent)


def _may_be_absent(pattern: str) -> set[int] | None:
    """The groups that a match may leave out; None where that is not known."""
    stack, absent, count, i = [_Open()], set[int](), 0, 0
    while i < len(pattern):
        length, group = _opened(pattern, i, count + 1) if pattern[i] == "(" else (_plain(pattern, i), None)
        if length == 0 or (pattern[i] == ")" and len(stack) == 1):
            return None
        if group is not None:
            count = max(count, group.number or 0)
            stack.append(group)
        elif pattern[i] == "|":
            stack[-1].either = True
        elif pattern[i] == ")":
            closed = stack.pop()
            stack[-1].inside |= closed.whole
            absent |= closed.absent(optional=_NOT_ALWAYS.match(pattern, i + 1) is not None)
        i += length
    return None if len(stack) > 1 else absent | stack[0].absent(optional=False)


def _plain(pattern: str, at: int) -> int:
    """How long what is no group's begin is; 0 where it is not known."""
    if pattern.startswith(_QUOTED, at):
        return 0
    if pattern[at] == "[":
        found = _CLASS.match(pattern, at)
        return 0 if found is None else len(found.group())
    return 2 if pattern[at] == "\\" else 1


def _opened(pattern: str, at: int, number: int) -> tuple[int, _Open | None]:
    """How long the sign of a group's begin is, 0 if it is not known, and the group; None for flags alone."""
    if not pattern.startswith("(?", at):
        return 1, _Open(number)
    for sign in ("(?<!", "(?!"):
        if pattern.startswith(sign, at):
            return len(sign), _Open(denied=True)
    for sign in ("(?<=", "(?=", "(?>"):
        if pattern.startswith(sign, at):
            return len(sign), _Open()
    if found := _NAMED.match(pattern, at):
        return len(found.group()), _Open(number)
    if found := _FLAGS.match(pattern, at):
        return len(found.group()), _Open() if found.group(1) == ":" else None
    return 0, None
