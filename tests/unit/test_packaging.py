"""The systemd unit: systemd takes it, and it says what the exit codes mean."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from onceflow import program

UNIT = Path(__file__).parents[2] / "packaging" / "onceflow@.service"


def test_the_unit_goes_by_the_exit_codes():
    """SIGTERM to the driver alone, 75 is started again, an ended job has not failed, 1 and 2 are left for a person."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(UNIT.read_text())
    service = unit["Service"]
    assert service["KillMode"] == "mixed"
    assert service["RestartForceExitStatus"].split() == [str(program.TRY_AGAIN)]
    assert service["SuccessExitStatus"].split() == ["130", "143"]
    assert service["Restart"] == "on-abnormal", "exit codes are left alone, signals are not"
    assert int(service["TimeoutStopSec"]) > 10, "a job needs up to ten seconds"
    assert service["ExecStart"] == "/usr/bin/env onceflow run /etc/onceflow/%i.py"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_takes_the_unit(tmp_path):
    """``systemd-analyze verify`` has nothing to say; of a line that is wrong it has."""

    def said(text):
        (tmp_path / UNIT.name).write_text(text)
        told = subprocess.run(
            ["systemd-analyze", "verify", str(tmp_path / UNIT.name)], capture_output=True, text=True, check=False
        )
        return told.returncode, [line for line in (told.stdout + told.stderr).splitlines() if UNIT.name in line]

    assert said(UNIT.read_text()) == (0, [])
    assert said(UNIT.read_text().replace("KillMode=mixed", "KillMode=often"))[1]
