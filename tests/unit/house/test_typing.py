"""What a user's type checker says of calls of ours: mypy, strict, on the files of ``tests/typing``."""

import re
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[3]
FILES = ROOT / "tests" / "typing"


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Lines with errors and their codes, by file; one run, with a cache of its own."""
    cache = tmp_path_factory.mktemp("mypy")
    files = [str(path) for path in sorted(FILES.glob("*.py"))]
    # The project's own settings for libraries without types; not its list of packages.
    out, trouble, _ = api.run(["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(cache), *files])
    assert not trouble
    found = {Path(file).name: set() for file in files}
    for file, line, code in re.findall(r"^(.+?):(\d+): error: .*\[([\w-]+)\]$", out, re.MULTILINE):
        found[Path(file).name].add((int(line), code))
    return found


def expected(name):
    """The lines of a file that name an error."""
    lines = (FILES / name).read_text().splitlines()
    return {(n, m[1]) for n, line in enumerate(lines, 1) if (m := re.search(r"# expect: ([\w-]+)$", line))}


def test_what_is_right_is_accepted(said):
    """Every setting in each form that it takes has types that fit."""
    assert said["accepted.py"] == set()


def test_what_is_wrong_is_refused(said):
    """A misspelt setting, a wrong type or a word that is not one of the choices: each is found, and nothing else."""
    assert said["refused.py"] == expected("refused.py")
    assert len(expected("refused.py")) >= 10
