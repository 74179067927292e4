"""Two supervisors of one job: the newer one's process goes on, the older one says so and ends, and nobody fights."""

import os
import signal
import subprocess
import sys

import pytest

from onceflow.processes import kill_tree
from tests.support.harness import JOBS, Pipeline, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.faults, pytest.mark.timeout(900)]

PATIENCE_S = 240
"""Two jobs start side by side, where others may be at work."""

RESTARTED = {
    "ONCEFLOW__RESTART_STRATEGY__TYPE": "fixed-delay",
    "ONCEFLOW__RESTART_STRATEGY__FIXED_DELAY__DELAY": "0 s",
    "ONCEFLOW__RESTART_STRATEGY__FIXED_DELAY__ATTEMPTS": "100",
}


@pytest.fixture
def supervised(cluster, new_topic, tmp_path):
    """Starts a supervisor of the one job; each has a runtime folder of its own, as on a machine of its own."""
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "checkpoint", "copy", environment=RESTARTED)
    started = []

    def start(name: str) -> subprocess.Popen[bytes]:
        environment = os.environ | p.settings() | {"ONCEFLOW_RUNTIME_DIR": str(tmp_path / name)}
        with (tmp_path / f"{name}.log").open("w") as log:
            command = [sys.executable, "-m", "onceflow", "run", str(JOBS / "copy_job.py"), "--supervise"]
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT))
        return started[-1]

    start.pipeline = p
    start.said = lambda name: (tmp_path / f"{name}.log").read_text()
    yield start
    for each in started:
        kill_tree(each.pid)
        each.wait()


def starts(p: Pipeline) -> int:
    return sum(r["kind"] == "start" for r in p.records())


def test_the_older_one_ends_and_is_not_started_again(supervised):
    """Its process is told by its fence that a newer start runs; its parent starts none; each record is there once."""
    p = supervised.pipeline
    p.send(200)
    first = supervised("first")
    wait_until(lambda: len(p.read()) == 200, PATIENCE_S, "the first one's rows")
    second = supervised("second")
    wait_until(lambda: starts(p) == 2, PATIENCE_S, "the second one's start")
    p.send(200)
    assert first.wait(PATIENCE_S) == 1, "a person is needed, and no start"
    assert "newer start" in supervised.said("first")
    assert "is started again" not in supervised.said("first")
    wait_until(lambda: len(p.read()) == 400, PATIENCE_S, "the second one's rows")
    assert starts(p) == 2
    assert second.poll() is None
    second.send_signal(signal.SIGTERM)
    assert second.wait(PATIENCE_S) == 128 + signal.SIGTERM, supervised.said("second")
    p.check()


def test_two_that_start_at_once(supervised):
    """Whichever comes second to the journal goes on; the other one ends, and does not come back."""
    p = supervised.pipeline
    p.send(200)
    both = {name: supervised(name) for name in ("first", "second")}
    wait_until(
        lambda: starts(p) >= 2 or any(each.poll() is not None for each in both.values()), PATIENCE_S, "both starts"
    )
    p.send(200)
    wait_until(lambda: any(each.poll() is not None for each in both.values()), PATIENCE_S, "the end of one")
    wait_until(lambda: len(p.read()) == 400, PATIENCE_S, "all rows")
    (left,) = (name for name, each in both.items() if each.poll() is None)
    assert starts(p) <= 4
    both[left].send_signal(signal.SIGTERM)
    assert both[left].wait(PATIENCE_S) == 128 + signal.SIGTERM, supervised.said(left)
    p.check()
