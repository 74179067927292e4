"""The main job, end to end: the demo as a user calls it, with its kills."""

import json
import os
import subprocess
import sys

import psutil
import pytest


@pytest.mark.spark
@pytest.mark.timeout(960)
def test_demo_passes_through_its_kills(tmp_path):
    """20,000 payments through two kills of the job and one of the broker: nothing lost, doubled or wrong.

    And the run was no empty proof, and leaves no process and no file behind.
    """
    command = [sys.executable, "-m", "onceflow.cli.main", "demo", "--records", "20000", "--seed", "5"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    told = subprocess.run(
        [*command, "--output", "json"], capture_output=True, text=True, check=False, timeout=900, env=environment
    )
    assert told.returncode == 0, told.stdout + told.stderr
    report = json.loads(told.stdout.splitlines()[-1])
    assert report["verdict"] == "PASS"
    assert (report["lost"], report["duplicated"], report["wrong"]) == (0, 0, 0)
    assert report["records"] == 20_000
    assert report["alerts_found"] == report["alerts_expected"] > 100
    assert report["kills"] >= 3
    assert report["aborted_seen_uncommitted"] > 0
    assert any("crash point D5" in kill["moment"] for kill in report["killed"])
    assert report["unplanned_ends"] == 0
    assert report["exit_code"] == 143
    assert not list(tmp_path.iterdir())
    # Everything that the demo starts has this in its environment, whoever its parent is by now.
    alive = [
        one for one in psutil.process_iter(["environ"]) if (one.info["environ"] or {}).get("TMPDIR") == str(tmp_path)
    ]
    assert not alive
