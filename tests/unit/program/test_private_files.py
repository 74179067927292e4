"""What others get of the files that a job writes."""

import os
import subprocess
import sys

import pytest

from onceflow import program
from onceflow.errors import ConfigurationError

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
