"""Faults that the fuzzer must find: readers that are broken on purpose, by a patch of the real one where there is one.

Must not know: how inputs are made. Each fault has the number of executions within which it must be found.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from onceflow.audit import batches as record_batches
from onceflow.checkpoint import identity, lines
from onceflow.operations.savepoints import manifest, reading
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS
from tests.fuzz.watch import Find


@dataclass(frozen=True)
class Plant:
    """A fault.

    Attributes:
        target: What is fuzzed.
        kind: Of the find.
        says: What its words hold.
        patch: Plants it.
        within: So many executions find it.
        is_guided: It stands behind more than one step, of which only coverage tells.
    """

    target: Target
    kind: str
    says: str
    patch: Callable[[], contextlib.AbstractContextManager[Any]]
    within: int
    is_guided: bool = False

    def is_found(self, find: Find) -> bool:
        """Whether it is what was found."""
        return find.kind == self.kind and self.says in find.what

    def planted(self) -> contextlib.AbstractContextManager[Any]:
        """Inside it is there."""
        return self.patch()


def _recursing() -> contextlib.AbstractContextManager[Any]:
    """Looks into a value by a call of its own for each bracket."""
    real = identity.Mark.loads

    def depth(text: str) -> int:
        return 1 + depth(text[1:]) if text[:1] in "[{" and text else 0

    def loads(text: str) -> identity.Mark | None:
        depth(text[text.find("[") :])
        return real(text)

    return mock.patch.object(identity.Mark, "loads", loads)


def _following() -> contextlib.AbstractContextManager[Any]:
    """Opens each file that a savepoint names, wherever that is."""
    real = reading.read

    def read(path: Path) -> manifest.Manifest:
        found = real(path)
        for name in found.files:
            with contextlib.suppress(OSError, ValueError):
                (path / "files" / name).read_bytes()
        return found

    return _both(mock.patch.object(reading, "read", read), mock.patch.object(manifest, "_within", str))


def _allocating() -> contextlib.AbstractContextManager[Any]:
    """Takes a length for what it says before it looks at what is there."""
    real = record_batches.batches

    def batches(data: bytes) -> Iterator[record_batches.Batch]:
        if len(data) >= 12:
            (length,) = struct.unpack_from(">i", data, 8)
            bytearray(max(0, length))
        return real(data)

    return mock.patch.object(record_batches, "batches", batches)


def _crashing(data: bytes, _: Path) -> None:
    """A parser that crashes on one keyword, behind two others: each is one step more, which coverage tells."""
    words = data.split()
    if words[:1] != [b"SELECT"]:
        return
    if words[1:2] != [b"FROM"]:
        return
    if words[2:3] == [b"LIMIT"]:
        raise KeyError(words[2])


def _hanging() -> contextlib.AbstractContextManager[Any]:
    """Goes on by what a line says of an epoch, which it takes for growing."""
    real = lines.Line.loads.__func__

    def loads(cls: type[lines.Line], line: str) -> lines.Line | None:
        found = real(cls, line)
        epoch = getattr(found, "epoch", None)
        while isinstance(epoch, int) and epoch < 0:
            epoch -= 1
        return found

    return mock.patch.object(lines.Line, "loads", classmethod(loads))


@contextlib.contextmanager
def _both(*patches: contextlib.AbstractContextManager[Any]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        yield


_WORDS = [
    b"SELECT a",
    b"b FROM c",
    b"x WHERE y GROUP z",
    b"ORDER BY HAVING LIMIT",
    b"INSERT INTO VALUES",
    b"WINDOW UNION AS ON",
]

PLANTS = {
    "recursing": Plant(TARGETS["marks"], "error", "RecursionError", _recursing, 10_000),
    "following": Plant(TARGETS["savepoint"], "reach", "open", _following, 10_000),
    "allocating": Plant(TARGETS["kafka-page"], "error", "MemoryError", _allocating, 600),
    "hanging": Plant(TARGETS["lines"], "slow", "more than", _hanging, 20_000),
    "crashing": Plant(
        Target("crashing", _crashing, (), lambda: list(_WORDS)),
        "error",
        "KeyError",
        contextlib.nullcontext,
        100_000,
        is_guided=True,
    ),
}
