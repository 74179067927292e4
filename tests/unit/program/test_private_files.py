"""What others get of the files that a job writes."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import typer

from onceflow import program
from onceflow.cli import app
from onceflow.errors import ConfigurationError
from onceflow.processes import umask
from tests.support import checkpoints

PROGRAM = (
    "import os; os.umask({before}); from onceflow import program; program.keep_files_private(); open({file!r}, 'w')"
)


@pytest.mark.parametrize(
    ("before", "given", "mode"),
    [
        (0o022, None, 0o600),
        (0o022, "", 0o600),
        (0o022, "077", 0o600),
        (0o022, "027", 0o640),
        (0o022, "007", 0o640),  # what the process has already stays
        (0o002, "007", 0o660),
        (0o077, "022", 0o600),
    ],
)
def test_files_are_their_owners_unless_a_group_is_named(tmp_path, before, given, mode):
    variables = os.environ | ({} if given is None else {"ONCEFLOW_UMASK": given})
    file = tmp_path / "file"
    command = [sys.executable, "-c", PROGRAM.format(before=before, file=str(file))]
    subprocess.run(command, env=variables, check=True)
    assert file.stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("given", ["9", "rwx", "-1", "01000", "0.5"])
def test_what_is_no_umask_is_refused(monkeypatch, given):
    monkeypatch.setenv("ONCEFLOW_UMASK", given)
    with pytest.raises(ConfigurationError, match="no umask"):
        program.keep_files_private()


def test_a_savepoint_is_its_owners(tmp_path):
    """It has all of a checkpoint, whose files are private: a copy of them must not be less so."""
    checkpoints.make(tmp_path / "checkpoint", 2)
    commands = [
        ["create", str(tmp_path / "checkpoint"), str(tmp_path / "made")],
        ["export", str(tmp_path / "made"), str(tmp_path / "copy")],
    ]
    for command in commands:
        subprocess.run([sys.executable, "-m", "onceflow", "savepoint", *command], umask=0o022, check=True)
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("made", "copy")} == {0o700}
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "copy").rglob("*")} == {0}


@pytest.mark.parametrize("name", sorted(typer.main.get_command(app.app).commands))
def test_each_command_writes_its_files_for_its_user_alone_but_for_what_is_for_others(name):
    """A project that `init` begins, and a cache of jars, which root may fill for all."""
    before = os.umask(0o022)
    try:
        app.options(SimpleNamespace(invoked_subcommand=name))
        assert oct(umask()) == ("0o22" if name in ("init", "jars", "class-archive") else "0o77")
    finally:
        os.umask(before)
