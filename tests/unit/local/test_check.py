"""What `make` asks of the machine before it fetches anything: one plain line for a Python or Java that will not do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onceflow.local import jars

ROOT = Path(__file__).parents[3]
CHECK = ROOT / "requirements" / "check.py"


def checked(*arguments, python=None, **environment):
    """Exit code and output of the check; ``python`` is the version that it shall take itself for."""
    told = f"import sys; sys.version_info = {python or tuple(sys.version_info)}; sys.argv = {['', *arguments]}\n"
    program = f"{told}import runpy; runpy.run_path({str(CHECK)!r}, run_name='__main__')"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=os.environ | environment
    )
    return ended.returncode, ended.stdout + ended.stderr


def java(folder, says):
    """A ``java`` that tells this version."""
    (folder / "java").write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    (folder / "java").chmod(0o755)
    return {"PATH": str(folder), "JAVA_HOME": ""}


def test_an_old_python_is_told_in_one_line():
    """Its version, the one that is needed, and how to name another."""
    code, said = checked(python=(3, 10, 13, "final", 0))
    assert code == 1
    assert said.startswith("onceflow needs Python 3.11 or newer, and ")
    assert "is 3.10. Name another one: make PYTHON=" in said
    assert said.count("\n") == 1
    assert checked(python=(3, 12, 0, "final", 0)) == (0, "")


@pytest.mark.parametrize(
    ("says", "found"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "is Java 11"),
        ('java version "1.8.0_202"', "is Java 8"),
        ("?", "did not"),
    ],
)
def test_an_old_java_is_told_in_one_line(tmp_path, says, found):
    """Only where Java is asked for, and as ``onceflow`` itself tells it later."""
    there = java(tmp_path, says)
    code, said = checked("--java", **there)
    assert code == 1
    assert said.startswith("onceflow needs Java 17 or 21, and ")
    assert found in said
    assert said.count("\n") == 1
    assert checked(**there) == (0, "")


def test_a_missing_java_is_told_in_one_line(tmp_path):
    """On PATH, or where JAVA_HOME says that it is."""
    code, said = checked("--java", PATH=str(tmp_path), JAVA_HOME="")
    assert (code, "no java is on PATH" in said, said.count("\n")) == (1, True, 1)
    code, said = checked("--java", JAVA_HOME="/nowhere")
    assert (code, "JAVA_HOME=/nowhere has no bin/java" in said, said.count("\n")) == (1, True, 1)


def test_a_java_that_is_new_enough_is_taken(tmp_path):
    """The oldest is the same as in the package."""
    assert checked("--java", **java(tmp_path, f'openjdk version "{jars.OLDEST_JAVA}.0.1"')) == (0, "")
    assert checked("--java", **java(tmp_path, f'openjdk version "{jars.OLDEST_JAVA - 1}.0.1"'))[0] == 1


@pytest.mark.parametrize("given", [{"PYTHON": "/nowhere/python"}, {"JAVA_HOME": "/nowhere"}])
def test_make_says_so_before_it_makes_an_environment(tmp_path, given):
    """``make jars`` without Python or without Java ends with the line, and no folder is there."""
    words = [f"{name}={value}" for name, value in given.items()]
    ended = subprocess.run(
        ["make", "jars", f"VENV={tmp_path}/venv", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "onceflow needs " in ended.stdout + ended.stderr
    assert not (tmp_path / "venv").exists()
