"""A job that is deleted while it runs where the deletion does not see it: it ends, and does not begin anew."""

import os
import signal
import subprocess
import sys
from collections import Counter

import pytest

from onceflow.control import client
from onceflow.processes import kill_tree
from tests.support.harness import JOBS, Pipeline, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

FILE = JOBS / "copy_job.py"


@pytest.mark.parametrize("how", ["runs", pytest.param("killed", marks=pytest.mark.faults)])
def test_a_supervised_job_does_not_begin_anew_behind_its_deletion(cluster, new_topic, tmp_path, monkeypatch, how):
    """Of another user or machine: the next epoch, or the parent's restart, finds no checkpoint and ends by 1."""
    theirs, mine = ({"ONCEFLOW_RUNTIME_DIR": str(tmp_path / who)} for who in ("theirs", "mine"))
    again = {"ONCEFLOW__RESTART_STRATEGY__TYPE": "fixed-delay", "ONCEFLOW__RESTART_STRATEGY__FIXED_DELAY__DELAY": "0 s"}
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "checkpoint", "copy", environment=theirs | again)
    p.send(200)
    log = (tmp_path / "log").open("w+")
    command = [sys.executable, "-m", "onceflow", "run", str(FILE), "--supervise"]
    process = subprocess.Popen(command, env=os.environ | p.settings(), stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: Counter(p.read()) == Counter(p.sent), 120, "all of it")
        wait_until(lambda: any((p.checkpoint / "commits").glob("[0-9]*")), 30, "the epoch's end")
        monkeypatch.setenv("ONCEFLOW_RUNTIME_DIR", theirs["ONCEFLOW_RUNTIME_DIR"])
        (running,) = client.running()
        delete = [sys.executable, "-m", "onceflow", "job", "delete", str(FILE), "--yes"]
        done = subprocess.run(delete, env=os.environ | p.settings() | mine, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        if how == "killed":
            os.kill(running.pid, signal.SIGKILL)
        before = Counter(p.sent)
        p.send(100)
        code = process.wait(180)
    finally:
        kill_tree(process.pid)
        log.close()
    said = (tmp_path / "log").read_text()
    assert code == 1, said
    assert "do not start it again as it is" in said
    assert Counter(p.read()) == before
    assert not (p.checkpoint / "onceflow" / "job.json").exists()
