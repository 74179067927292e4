"""Inputs from inputs: bytes that are flipped, cut, spliced; JSON that is nested or of other types; traversal names.

Must not know: any target. One seed gives one input.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

_NAMES = (
    "../../../../etc/passwd",
    "/etc/passwd",
    "..",
    "a/../../b",
    "a\0b",
    "a\\..\\b",
    ".",
    "",
    "~",
    "file:///etc/passwd",
)
_NUMBERS = (0, -1, 1, 255, 65_536, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**40, 10**4_200)
_TEXTS = (
    "",
    "\ud800",
    "\udc80",
    "\x1b[2J",
    "\u202e",
    "²",
    "٣",
    "\n",
    "\0",
    "'",
    '"',
    "{}",
    "[]",
    "1e400",
    "A" * 4_000,
    *_NAMES,
)
_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    [],
    {},
    0.5,
    float("inf"),
    float("nan"),
    [[]],
    {"": None},
    *_NUMBERS,
    *_TEXTS,
)
_DEEP = (50, 200, 330, 500, 900, 1_500, 5_000)
_RAW = (
    b"Infinity",
    b"NaN",
    b"1e999",
    b"-1",
    b"\x00",
    b"\xff\xff\xff\xff",
    b"\x80" * 12,
    b"\x7f\xff\xff\xff",
    b"\xff" * 8,
)
_WHOLE = tuple(str(n).encode() for n in _NUMBERS)
_WHOLE += (b"9" * 5_000,)  # more digits than Python makes a number of
_RAW += _WHOLE + tuple(name.encode() for name in _NAMES)
_WORD = re.compile(rb"[A-Za-z_][\w.-]{1,40}|'[^'\n]{0,40}'|\"[^\"\n]{0,40}\"|[<>=!|]{1,2}|[();,]")
_NUMBER = re.compile(rb"-?\d+")
_PATH = re.compile(rb"[\w.:%-]*(?:/[\w.:%-]+)+")


def dictionary(seeds: Sequence[bytes], most: int = 2_000) -> list[bytes]:
    """The words of the seeds."""
    found = dict.fromkeys(word for seed in seeds for word in _WORD.findall(seed))
    return list(found)[:most]


class Mutator:
    """Makes inputs.

    Args:
        seeds: Good inputs: others are spliced with them, and words are taken from them.
        longest: No input is longer.
    """

    def __init__(self, seeds: Sequence[bytes], longest: int) -> None:
        self._seeds = list(seeds) or [b""]
        self._words = dictionary(seeds) or [b"x"]
        self._longest = longest
        self._ways: Sequence[Callable[[bytes, random.Random], bytes]] = (
            _flipped, _cut, _doubled, _removed, self._spliced, *[self._word] * 5, _raw, _number, _nested,
            _path, _json, _json, _json, _key_twice, _swapped,
        )  # fmt: skip

    def mutated(self, data: bytes, seed: int) -> bytes:
        """One input from another one."""
        chance = random.Random(seed)
        for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
            data = chance.choice(self._ways)(data, chance)
        return data[: self._longest]

    def _spliced(self, data: bytes, chance: random.Random) -> bytes:
        other = chance.choice(self._seeds)
        return data[: _at(data, chance)] + other[_at(other, chance) :]

    def _word(self, data: bytes, chance: random.Random) -> bytes:
        word, at = chance.choice(self._words), _at(data, chance)
        held = list(_WORD.finditer(data))
        if held and chance.random() < 0.7:
            place = chance.choice(held)
            begin, end = (place.end(), place.end()) if chance.random() < 0.5 else place.span()
            return data[:begin] + b" " * (begin == end) + word + b" " * (begin == end) + data[end:]
        return data[:at] + word + data[at:]


def _at(data: bytes, chance: random.Random) -> int:
    return chance.randrange(len(data) + 1)


def _piece(data: bytes, chance: random.Random) -> tuple[int, int]:
    begin = _at(data, chance)
    return begin, min(len(data), begin + chance.choice((1, 2, 4, 8, 32, 200)))


def _flipped(data: bytes, chance: random.Random) -> bytes:
    if not data:
        return bytes([chance.randrange(256)])
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: _at(data, chance)]


def _doubled(data: bytes, chance: random.Random) -> bytes:
    begin, end = _piece(data, chance)
    return data[:end] + data[begin:end] * chance.choice((1, 1, 2, 20)) + data[end:]


def _removed(data: bytes, chance: random.Random) -> bytes:
    begin, end = _piece(data, chance)
    return data[:begin] + data[end:]


def _swapped(data: bytes, chance: random.Random) -> bytes:
    lines = data.split(b"\n")
    chance.shuffle(lines)
    return b"\n".join(lines)


def _raw(data: bytes, chance: random.Random) -> bytes:
    begin, end = _piece(data, chance)
    return data[:begin] + chance.choice(_RAW) + data[end if chance.random() < 0.5 else begin :]


def _number(data: bytes, chance: random.Random) -> bytes:
    held = list(_NUMBER.finditer(data))
    if not held:
        return _raw(data, chance)
    place, other = chance.choice(held), chance.choice(_WHOLE if chance.random() < 0.7 else _RAW)
    return data[: place.start()] + other + data[place.end() :]


def _path(data: bytes, chance: random.Random) -> bytes:
    """A name of a file becomes one that leads elsewhere."""
    held = list(_PATH.finditer(data))
    if not held:
        return _raw(data, chance)
    place, name = chance.choice(held), chance.choice(_NAMES).encode()
    begin = place.start() if chance.random() < 0.7 else place.end()
    return data[:begin] + b"/" * (begin != place.start()) + name + data[place.end() :]


def _nested(data: bytes, chance: random.Random) -> bytes:
    begin, end = _piece(data, chance)
    opening, closing = chance.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"(", b")"), (b"ARRAY<", b">"), (b"NOT ", b"")))
    deep = chance.choice(_DEEP)
    inner = b"1" if begin == end else data[begin:end]
    return data[:begin] + opening * deep + inner + closing * deep + data[end:]


# -- JSON, of all of it or of one line -------------------------------------------------------------------------------


def _json(data: bytes, chance: random.Random) -> bytes:
    lines = data.split(b"\n")
    for at in (None, *chance.sample(range(len(lines)), min(3, len(lines)))):
        try:
            value = json.loads(data if at is None else lines[at])
        except (ValueError, RecursionError):
            continue
        try:
            told = json.dumps(_changed(value, chance), separators=(",", ":")).encode()
        except (ValueError, RecursionError):
            continue
        return told if at is None else b"\n".join([*lines[:at], told, *lines[at + 1 :]])
    return _raw(data, chance)


def _changed(value: Any, chance: random.Random) -> Any:
    """A value with one thing in it changed."""
    inside = isinstance(value, dict | list) and bool(value)
    if not inside or chance.random() < 0.08:
        return _other(value, chance)
    if isinstance(value, list):
        at = chance.randrange(len(value))
        match chance.randrange(6):
            case 0:
                return [*value[:at], *value[at + 1 :]]
            case 1:
                return [*value, value[at]]
            case _:
                return [*value[:at], _changed(value[at], chance), *value[at + 1 :]]
    key = chance.choice(list(value))
    match chance.randrange(8):
        case 0:
            return {k: v for k, v in value.items() if k != key}
        case 1:
            return {(str(chance.choice(_TEXTS)) if k == key else k): v for k, v in value.items()}
        case 2:
            return value | {str(chance.choice(_TEXTS)): value[key]}
        case _:
            return value | {key: _changed(value[key], chance)}


def _other(value: Any, chance: random.Random) -> Any:
    match chance.randrange(5):
        case 0:
            return [value]
        case 1:
            return {"a": value}
        case 2:
            return str(value)
        case _:
            return chance.choice(_VALUES)


def _key_twice(data: bytes, chance: random.Random) -> bytes:
    held = list(re.finditer(rb'"[^"\n]{1,40}"\s*:\s*("[^"\n]*"|-?\d+|true|false|null)', data))
    if not held:
        return _doubled(data, chance)
    place, other = chance.choice(held), chance.choice(held)
    return data[: place.end()] + b"," + place[0].partition(b":")[0] + b":" + other[1] + data[place.end() :]
