"""What the user's own lines raised: in a function that tasks run, or in the stream function.

Of the one Spark carries a traceback's text, of the other there is the exception.

Must not know: epochs, what is told beside it.
"""

from __future__ import annotations

import builtins
import linecache
import re
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import AnalysisException

from onceflow.errors import ConfigurationError

_TRACE = re.compile(r"Traceback \(most recent call last\):\n((?:[ \t].*\n)+)(\S.*)")
_FRAME = re.compile(r'^[ \t]+File "(.+)", line (\d{1,9}), in (.+)(?:\n[ \t]+(?!File ")(\S.*))?', re.MULTILINE)
_LED_TO = re.compile(r"^(During handling of|The above exception was the direct cause of)", re.MULTILINE)
_LIBRARIES = re.compile(r"/(site|dist)-packages/|/lib/python\d[.\d]*/|/pyspark(\.zip)?/|^<frozen ")
_OURS = f"{Path(__file__).parents[1]}/"

_OF_THE_RECORD = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    TypeError,
    ValueError,
)
"""What a function raises of the same records whenever it gets them; of all others nobody knows."""

_REPEATS_VALUES = (ValueError, KeyError)
"""Whose words, where Python or a library chose them, hold the value."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception in a function of the user's.

    Attributes:
        kind: Its class, as a traceback names it.
        words: What it says, in one line; "" where it says nothing, and where ``hides``.
        hides: Its words may hold a record's value, which the function's author did not put there.
        file: Where the newest line of the user's is.
        line: Its number.
        function: In which function.
        text: The line itself, where it is known.
        comes_again: The same records raise it again.
    """

    kind: str
    words: str
    hides: bool
    file: str
    line: int
    function: str
    text: str
    comes_again: bool

    @property
    def place(self) -> str:
        """The line, as editors find it."""
        return f"{self.file}:{self.line}"

    def __str__(self) -> str:
        said = f"{self.kind}: {self.words}" if self.words else self.kind
        return f"{said}, at {self.place}, in {self.function}" + (f": {self.text}" if self.text else "")


def in_a_task(text: str) -> Raised | None:
    """The exception of a user's function in what Spark says of a failed run; None where no line of it is the user's."""
    frames, said = _first(text)
    theirs = [frame for frame in frames if is_theirs(frame[0])]
    if not theirs or not said:
        return None
    file, number, function, shown = theirs[-1]
    source = shown or linecache.getline(file, int(number)).strip()
    kind, _, words = said.partition(": ")
    known = _class_of(kind)
    chosen = theirs[-1] == frames[-1] and source.startswith(("raise ", "assert "))
    hides = bool(words) and known is not None and issubclass(known, _REPEATS_VALUES) and not chosen
    again = known is not None and issubclass(known, _OF_THE_RECORD) and not issubclass(known, OSError)
    return Raised(kind, "" if hides else words, hides, file, int(number), function, source, again)


def is_theirs(file: str) -> bool:
    """Whether a frame's file is the user's: neither onceflow's, nor PySpark's, Python's or another library's."""
    return _LIBRARIES.search(file) is None and not file.startswith(_OURS)


def _first(text: str) -> tuple[list[tuple[str, str, str, str]], str]:
    """Frames and last line of the first exception in a text; of several that led to one another, those of the last."""
    found = None
    for trace in _TRACE.finditer(text):
        if found is not None and not _LED_TO.search(text, found.end(), trace.start()):
            break
        found = trace
    if found is None:
        return [], ""
    return _FRAME.findall(found[1]), found[2].strip()


def _class_of(name: str) -> type[BaseException] | None:
    """The class of this name, of Python itself or of a module that is loaded here; None where it is not known."""
    module, _, kind = name.rpartition(".")
    loaded = sys.modules.get(module or builtins.__name__)
    found = None if loaded is None else vars(loaded).get(kind)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def by_the_plan(error: AnalysisException) -> ConfigurationError:
    """Our error for a step of the stream function that Spark does not plan."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_theirs(frame.filename)]
    at = f"{frames[-1].filename}:{frames[-1].lineno}, in {frames[-1].name}" if frames else "the stream function"
    condition, given = error.getCondition() or "", error.getMessageParameters() or {}
    if condition.startswith("UNRESOLVED_COLUMN") and "objectName" in given:
        what = f"there is no column {given['objectName']}"
        cause = "its name is misspelt, or a step before this one leaves it out"
        cause += f"; the names there that are most like it: {given['proposal']}" if given.get("proposal") else ""
    else:
        what = re.sub(r"^\[\S+\] | ?SQLSTATE: .*|;$", "", str(error).strip().splitlines()[0])
        cause = f"what Spark says there ({condition})" if condition else "what Spark says there"
    return ConfigurationError(
        f"{at}: {what}",
        harmless="always: no row was read or written",
        cause=cause,
        action="correct that line; `onceflow check` says whether the job would start",
    )
