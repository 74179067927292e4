"""A job that runs is found, asked and ended from another process, and nothing is lost or doubled by it."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.harness import Pipeline, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def onceflow(*arguments, **environment):
    """A command of another shell: its exit code and its object."""
    command = [sys.executable, "-m", "onceflow", *arguments, "--output", "json"]
    done = subprocess.run(command, env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("order", ["stop", pytest.param("cancel", marks=pytest.mark.faults)])
def test_a_running_job_is_listed_and_ended(cluster, new_topic, tmp_path, order):
    """It ends by itself with 0, at a clean point; the next start goes on, and each record is there once."""
    runtime = {"ONCEFLOW_RUNTIME_DIR": str(tmp_path / "run")}
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "checkpoint", per_epoch=100, environment=runtime)
    p.send(300)
    process = p.start(UNTIL="stopped")
    try:
        wait_until(lambda: any(job["epoch"] for job in onceflow("list", **runtime)[1]["jobs"]), 120, "an epoch")
        code, found = onceflow("info", "copy", **runtime)
        assert (code, found["state"], found["pid"]) == (0, "RUNNING", process.pid)
        p.send(200)
        assert onceflow(order, "copy", **runtime) == (0, {"name": "copy", "state": "ENDED", "pid": process.pid})
    finally:
        ended = p.end(process)
    assert ended.code == 0, ended.log
    assert f"ended by onceflow {order}" in ended.log
    assert onceflow("list", **runtime) == (0, {"jobs": []})
    again = p.start(UNTIL="stopped")
    try:
        wait_until(lambda: onceflow("info", "copy", **runtime)[1].get("state") == "RUNNING", 120, "a running job")
        assert onceflow("info", "copy", **runtime)[1]["epoch"] is not None, "it knows the epochs of before"
        onceflow(order, "copy", **runtime)
    finally:
        p.end(again)
    p.run_well()
    p.check()
