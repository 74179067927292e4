"""Windows as their user wrote them, for what is said of a state that was kept of them.

Must not know: layouts, Spark's plans. Pure. What is kept of a window is Spark's own expression for it, of many hundred
characters. It is made again here of the four things that it was made of, and only where it is the same to the letter
does the short form stand in its place: a text of another Spark stays as it is.
"""

from __future__ import annotations

import re

_OF = re.compile(r"precisetimestampconversion\(\(\(precisetimestampconversion\((.*?)\) - CASE WHEN ")
_STEP = re.compile(r" - (-?\d+)L\) % (\d+)L\) < ")
_LENGTH = re.compile(r"L\) \+ (\d+)L\)\)\)\)")
_SEVERAL = re.compile(r"one of (\d+): (.*)", re.DOTALL)
_SESSION = re.compile(
    r"named_struct\('start', precisetimestampconversion\(precisetimestampconversion\((?P<of>.*?)\)\), 'end', "
    r"knownnullable\(precisetimestampconversion\(precisetimestampconversion\(CAST\((?P=of) \+ "
    r"CAST\('(?P<gap>[^']*)' AS INTERVAL\)(?: in \S+)? AS TIMESTAMP\)\)\)\)\)"
)
_TYPE = ": STRUCT<start: TIMESTAMP, end: TIMESTAMP>"
_UNITS = (("day", 86_400_000_000), ("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000))


def in_words(means: str) -> str:
    """What a column of a state means, a window as ``window(time, '5 minutes')``; anything else as it is."""
    told = means.removesuffix(_TYPE)
    session = _SESSION.fullmatch(told)
    if session is not None:
        return f"session_window({session['of']}, '{session['gap']}')"
    several = _SEVERAL.fullmatch(told)
    whole = told if several is None else several[2]
    of, step, length = _OF.search(whole), _STEP.search(whole), _LENGTH.search(whole)
    if of is None or step is None or length is None:
        return means
    made = [_window(of[1], int(step[1]), int(step[2]), int(length[1]), i) for i in range(1 if several is None else 2)]
    if whole != " or ".join(made):
        return means
    words = [of[1], f"'{_duration(int(length[1]))}'"]
    if length[1] != step[2] or int(step[1]):
        words.append(f"'{_duration(int(step[2]))}'")
    if int(step[1]):
        words.append(f"'{_duration(int(step[1]))}'")
    return f"window({', '.join(words)})"


def _window(of: str, begins: int, step: int, length: int, back: int) -> str:
    """Spark's expression for the window of a time, or for the one so many steps before."""
    time = f"precisetimestampconversion({of})"
    rest = f"(({time} - {begins}L) % {step}L)"
    since = f"CASE WHEN ({rest} < CAST(0 AS BIGINT)) THEN ({rest} + {step}L) ELSE {rest} END"
    start = f"(({time} - {since}) - {back * step}L)"
    return (
        f"named_struct('start', knownnullable(precisetimestampconversion({start})), "
        f"'end', knownnullable(precisetimestampconversion(({start} + {length}L))))"
    )


def _duration(micros: int) -> str:
    """In the largest unit of which it is a whole number."""
    for unit, size in _UNITS:
        if micros % size == 0:
            return f"{micros // size} {unit}{'' if micros == size else 's'}"
    return f"{micros} microseconds"
