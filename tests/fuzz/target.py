"""What a target is: a reader, what it promises, and good inputs to begin with.

Must not know: how inputs are made of those, what is looked at.
"""

from __future__ import annotations

import functools
import os
import re
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_KEPT = ROOT / "tests" / "corpus" / "kept"


_KEY = re.compile(rb'"[a-z_]+"(?=:)|"kind": *"[\w-]+"|"[a-z_]+" *(?=: *[\[{])')


@dataclass(frozen=True)
class Target:
    """One place where bytes are read.

    Attributes:
        name: Its name.
        read: Reads the bytes; it has a folder of its own, which is empty.
        promised: The kinds of errors that the reader may raise.
        seeds: Good inputs, made when they are asked for.
    """

    name: str
    read: Callable[[bytes, Path], object]
    promised: tuple[type[BaseException], ...]
    seeds: Callable[[], list[bytes]]


@functools.cache
def _all_kept() -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for path in sorted(_KEPT.glob("*.tar.xz")):
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile() and member.size < 20_000 and not member.name.endswith(".crc"):
                    read = archive.extractfile(member)
                    found[f"{path.name}/{member.name}"] = b"" if read is None else read.read()
    return found


def kept(pattern: str, most: int = 12) -> list[bytes]:
    """Files of the checkpoints that the project keeps: the smallest of each shape, then others that differ.

    Args:
        pattern: Of their paths, as ``fnmatch`` has it.
        most: So many at most.
    """
    found = sorted({data for name, data in _all_kept().items() if fnmatch(name, pattern)}, key=lambda d: (len(d), d))
    shapes: dict[frozenset[bytes], bytes] = {}
    for data in found:
        shapes.setdefault(frozenset(_KEY.findall(data)), data)
    return list(dict.fromkeys([*shapes.values(), *found]))[:most]


def put(folder: Path, name: str | bytes, data: bytes) -> Path:
    """A file of the reader's folder, with the folders above it."""
    path = folder / os.fsdecode(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def named(data: bytes, otherwise: bytes) -> tuple[str, bytes]:
    """An input whose first line is a file's name: that, if a folder can have it, and the content."""
    name, _, content = data.partition(b"\n")
    if not name or b"/" in name or b"\0" in name or name in (b".", b"..") or len(name) > 200:
        name = otherwise
    return os.fsdecode(name), content
