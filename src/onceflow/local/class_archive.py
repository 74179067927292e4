"""Java's class archive (application class-data sharing): Spark's classes as Java has them in memory, to be mapped.

Must not know: Spark sessions, how an archive is made. It says where one lies, and whether it may be used.

Of the seconds that a job needs to start, Java spends three to four on reading 16,000 classes out of jars and checking
them. An archive (JEP 350, Java 13 and later) holds them loaded. Java checks that it fits (version, class path, each
jar's size and time) and leaves it aside if not; its name is made from the same, so that one of another Java or another
PySpark is not even found. A file that is cut off makes Java (17) die of SIGBUS: so its size is in its name too.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from onceflow.local.jars import cache_folder, java_build, spark_home_jars
from onceflow.processes import others_may_write

log = logging.getLogger(__name__)

_KEPT = 3  # archives of other environments, 180 MB each


def folder() -> Path:
    """Where archives lie, if any were made."""
    return cache_folder() / "classes"


def find(class_path: Sequence[Path]) -> Path | None:
    """The archive for a Spark that PySpark starts with these jars before its own; None if none is there whole.

    Only this user's files and root's count, and none that another one may write: Java runs what is in them.
    """
    try:
        for archive in folder().glob(f"{_key(class_path)}-*.jsa"):
            if archive.stem.endswith(f"-{archive.stat().st_size}") and not others_may_write(archive):
                with contextlib.suppress(OSError):
                    os.utime(archive)  # it is in use, see forget_old()
                return archive
    except (OSError, RuntimeError) as error:  # RuntimeError: no home folder
        log.debug("no class archive: %s", error)
    return None


def options(archive: Path) -> list[str]:
    """What makes Java use it. It checks the content first (a quarter of a second) and leaves a damaged one aside."""
    return [f"-XX:SharedArchiveFile={archive}", "-XX:+VerifySharedSpaces"]


def keep(made: Path, class_path: Sequence[Path]) -> Path:
    """Take in a new archive, a file on the cache's file system; where it lies now."""
    with made.open("rb") as file:
        os.fsync(file.fileno())
        size = os.fstat(file.fileno()).st_size
    archive = folder() / f"{_key(class_path)}-{size}.jsa"
    archive.parent.mkdir(exist_ok=True)
    made.replace(archive)
    return archive


def forget_old(newest: Path) -> None:
    """Delete, beside a new one, those that were not used for longest: every environment has its own."""
    others = [path for path in folder().glob("*.jsa") if path != newest]
    for path in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[_KEPT:]:
        path.unlink(missing_ok=True)


def _key(class_path: Sequence[Path]) -> str:
    known = hashlib.sha256(java_build().encode())
    for jar in [*class_path, *spark_home_jars()]:
        about = jar.stat()
        known.update(f"{jar}\0{about.st_size}\0{int(about.st_mtime)}\0".encode())
    return known.hexdigest()[:16]
