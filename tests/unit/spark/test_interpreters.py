"""Which Pythons and Javas `make test-versions` finds."""

import shutil
import sys
from pathlib import Path

import pytest
from bench import interpreters

from onceflow.local.jars import java_executable


def program(path, says, code=0):
    """A program that says something and ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def named(tmp_path):
    """A Python that is named beside one of the same release in its usual place, and three that are of no use."""
    first, second = program(tmp_path / "a" / "python", "3.13.5"), program(tmp_path / "b" / "python", "3.13.0")
    shim = program(tmp_path / "c" / "python3.12", "pyenv: python3.12: command not found", code=127)
    return first, [second, shim, program(tmp_path / "d" / "python", "3.10.1"), tmp_path / "nowhere"]


def test_a_named_python_goes_before_one_that_is_found(named):
    """One of each release; a name that runs nothing, one that is not there, and an older Python are none."""
    first, usual = named
    assert interpreters.pythons([first], usual) == {"3.13": first}
    assert interpreters.pythons([], usual) == {"3.13": usual[0]}


def test_a_java_is_known_by_what_it_says(tmp_path):
    """Its major release; a folder without one, and a release that is not among those looked for, are none."""
    homes = {said: tmp_path / said for said in ("21.0.8", "25", "1.8.0_402")}
    for said, home in homes.items():
        program(home / "bin" / "java", f'openjdk version "{said}" 2026-01-01')
    assert interpreters.javas([], [tmp_path, *homes.values()]) == {"21": homes["21.0.8"], "25": homes["25"]}


def test_what_runs_this_is_found():
    """The real Python and the real Java of these tests."""
    home = Path(java_executable()).resolve().parent.parent
    release = interpreters.python_release(Path(sys.executable))
    assert release == ".".join(map(str, sys.version_info[:3]))
    assert interpreters.java_release(home)
    assert shutil.which(str(home / "bin" / "java"))
