"""Our errors on their way out of a Spark worker: as one line of text, and back into the same error.

Must not know: what an error is about; Spark. Between a worker and the driver stands Spark, which carries an exception
as its traceback's text inside a Java exception's: in the middle of other text, indented, several times, or cut off.
"""

from __future__ import annotations

import json
import re
from typing import Any

from onceflow import errors
from onceflow.errors import OnceflowError

_PARTS = ("what", "harmless", "cause", "action")

MARKER = "onceflow-error:"
"""What the line begins with; a JSON object follows at once."""


def add_line(error: OnceflowError) -> None:
    """Give an error the line that ``find`` reads: as a note, which every traceback shows below the message.

    Facts that are not JSON stay behind. The message is made text that Spark can carry (UTF-8) and that holds no line
    of this kind itself: a row that it quotes must not be taken for one.
    """
    kind = next(c.__name__ for c in type(error).__mro__ if c.__module__ == errors.__name__)
    parts = {name: getattr(error, name) for name in _PARTS}
    facts = {name: value for name, value in error.facts.items() if _is_json(value)}
    message = str(error).encode(errors="backslashreplace").decode()
    error.args = (message.replace(MARKER, f"{MARKER} "),)
    error.add_note(MARKER + json.dumps({"error": kind, **parts, "facts": facts}))


def find(text: str) -> OnceflowError | None:
    """The error of the first complete line in a text; None when there is none."""
    for begin in re.finditer(re.escape(MARKER), text):
        try:
            said, _ = json.JSONDecoder().raw_decode(text, begin.end())
        except (ValueError, RecursionError):
            continue  # cut off, or not of ours
        if (error := _made_of(said)) is not None:
            return error
    return None


def _made_of(said: Any) -> OnceflowError | None:
    """The error that a line speaks of; None for anything that ``add_line`` does not write."""
    if not isinstance(said, dict) or said.keys() != {"error", *_PARTS, "facts"} or not isinstance(said["facts"], dict):
        return None
    if not all(isinstance(said[name], str) for name in ("error", *_PARTS)):
        return None
    if said["facts"].keys() & {"self", "others", *_PARTS}:  # a row's own text, made to look like one
        return None
    kind = getattr(errors, said["error"], None)
    if not isinstance(kind, type) or not issubclass(kind, OnceflowError):
        return None
    return kind(**{name: said[name] for name in _PARTS}, **said["facts"])


def _is_json(value: Any) -> bool:
    """Whether a value is the same after it was JSON."""
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError, RecursionError):
        return False
