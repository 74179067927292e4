"""Java's class archive (application class-data sharing): Spark's classes as Java has them in memory, to be mapped.

Must not know: Spark sessions, how an archive is made. It says where one lies, and whether it may be used.

Of the seconds that a job needs to start, Java spends four on reading 16,000 classes out of jars and checking them. An
archive (JEP 350, Java 13 and later) holds them loaded. Java checks that it fits (version, class path, each jar's size
and time) and leaves it aside with a warning if not; its name is made from all of these, so that one which does not fit
is not even found. A file that is cut off makes Java (17) die of SIGBUS: so its size is in its name too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from onceflow.jars import cache_folder, java_build, spark_home_jars

_KEPT = 3  # archives of other environments, 180 MB each


def find(class_path: Sequence[Path]) -> Path | None:
    """The archive for a Spark that PySpark starts with these jars before its own; None if none is there whole.

    Raises:
        SetupError: Java or PySpark's own jars are not there.
    """
    for archive in _where().glob(f"{_key(class_path)}-*.jsa"):
        if archive.stem.endswith(f"-{archive.stat().st_size}"):
            with contextlib.suppress(OSError):  # it may be another user's
                os.utime(archive)  # it is in use, see keep()
            return archive
    return None


def options(archive: Path) -> list[str]:
    """What makes Java use it. It checks the content too (a tenth of a second) and leaves a damaged one aside."""
    return [f"-XX:SharedArchiveFile={archive}", "-XX:+VerifySharedSpaces"]


def keep(made: Path, class_path: Sequence[Path]) -> Path:
    """Take a new archive in, from a file in ``folder()``; those of others that were not used for longest go.

    Returns:
        Where it lies now.
    """
    with made.open("rb") as file:
        os.fsync(file.fileno())
        size = os.fstat(file.fileno()).st_size
    archive = folder() / f"{_key(class_path)}-{size}.jsa"
    made.replace(archive)
    others = [path for path in folder().glob("*.jsa") if path != archive]
    for path in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[_KEPT:]:
        path.unlink(missing_ok=True)
    return archive


def folder() -> Path:
    """Where archives lie; made if need be."""
    _where().mkdir(parents=True, exist_ok=True)
    return _where()


def _where() -> Path:
    return cache_folder() / "classes"


def _key(class_path: Sequence[Path]) -> str:
    known = hashlib.sha256(java_build().encode())
    for jar in [*class_path, *spark_home_jars()]:
        about = jar.stat()
        known.update(f"{jar}\0{about.st_size}\0{about.st_mtime_ns}\0".encode())
    return known.hexdigest()[:16]
