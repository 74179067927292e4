"""Which Pythons and Javas are on this machine: those that were named, and those that lie where they usually do.

Must not know: what is run on them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""Minor releases that PySpark 4.2 says it runs on, less those that onceflow is too new for."""

JAVAS = ("17", "21", "25")
"""Releases with long-term support since Spark's oldest."""


def pythons(named: Sequence[Path], usual: Iterable[Path] | None = None) -> dict[str, Path]:
    """A path for each of ``PYTHONS`` that is here, by its minor release.

    Args:
        named: Interpreters that go before all others.
        usual: Where to look behind them; None is on PATH, and what pyenv has built.
    """
    found: dict[str, Path] = {}
    for path in (*named, *(_usual_pythons() if usual is None else usual)):
        release = python_release(path)
        if release is not None:
            found.setdefault(".".join(release.split(".")[:2]), path)
    return _known(found, PYTHONS)


def javas(named: Sequence[Path], usual: Iterable[Path] | None = None) -> dict[str, Path]:
    """A home for each of ``JAVAS`` that is here, by its major release.

    Args:
        named: Homes that go before all others.
        usual: Where to look behind them; None is where Debian and most installers put them.
    """
    found: dict[str, Path] = {}
    for home in (*named, *(sorted(Path("/usr/lib/jvm").glob("*")) if usual is None else usual)):
        release = java_release(home)
        if release is not None:
            found.setdefault(release.split(".")[0], home)
    return _known(found, JAVAS)


def python_release(python: Path) -> str | None:
    """What an interpreter says it is, or None if it does not run: pyenv's ``python3.12`` may be a name for nothing."""
    return _told([python, "-c", "import platform; print(platform.python_version())"], r"^(3\.\d+\.\d+\S*)")


def java_release(home: Path) -> str | None:
    """What a Java says it is, or None if it does not run."""
    return _told([home / "bin" / "java", "-version"], r'version "(\d[^"]*)"')


def _usual_pythons() -> Iterator[Path]:
    for minor in PYTHONS:
        on_path = shutil.which(f"python{minor}")
        yield from [Path(on_path)] if on_path else []
    yield from sorted(Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser().glob("versions/3.*/bin/python3"))


def _told(command: Sequence[str | Path], pattern: str) -> str | None:
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(pattern, told.stdout + told.stderr)
    return found.group(1) if found and told.returncode == 0 else None


def _known(found: Mapping[str, Path], known: Sequence[str]) -> dict[str, Path]:
    return {release: found[release] for release in known if release in found}
