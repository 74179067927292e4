"""A job as its operator runs it: in the background, listed, killed, restarted, failing, stopped and cancelled.

Must not know: how a restart is made. What is in the topics is looked at after each step.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from onceflow.control import client
from tests.support.harness import JOBS, Pipeline, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.faults]


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    """A folder of their own for the running jobs."""
    monkeypatch.setenv("ONCEFLOW_RUNTIME_DIR", str(tmp_path / "run"))


class Operator:
    """Somebody at a shell, with one job."""

    def __init__(self, p):
        self.p = p
        self.log = p.checkpoint.parent / "job.log"
        self.file = str(JOBS / f"{p.job}_job.py")

    def types(self, *words, code=0, **environment):
        """A command, and the object that it prints last."""
        command = [sys.executable, "-m", "onceflow", *words, "--output", "json"]
        around = os.environ | self.p.settings() | environment
        done = subprocess.run(command, env=around, capture_output=True, text=True, check=False, timeout=200)
        assert done.returncode == code, done.stdout + done.stderr + self.told()
        return json.loads(done.stdout.splitlines()[-1])

    @contextmanager
    def runs(self, *settings, **environment):
        """The job in the background; what is left of it is ended."""
        flags = [word for each in settings for word in ("-D", each)]
        found = self.types("run", self.file, "--detached", "--log", str(self.log), *flags, **environment)
        try:
            yield found
        finally:
            if any(job.supervisor == found["supervisor"] for job in client.running()):
                os.kill(found["supervisor"], signal.SIGTERM)
            self.is_gone()

    def told(self):
        return self.log.read_text()[-20_000:] if self.log.exists() else ""

    def job(self):
        """How the job stands, or None."""
        return next(iter(client.running()), None)

    def is_gone(self):
        wait_until(lambda: self.job() is None, 120, f"the job's end:\n{self.told()}")

    def sees_all(self):
        """All that was sent is there, once."""

        def is_there():
            return len(self.p.read()) >= len(self.p.sent)

        wait_until(is_there, 150, f"the output:\n{self.told()}")
        self.p.check_output()


@pytest.fixture
def operator(cluster, new_topic, tmp_path, runtime):
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "checkpoint", per_epoch=100)
    p.send(200)
    return Operator(p)


STRATEGIES = {
    "fixed-delay": ["restart-strategy.fixed-delay.attempts=1", "restart-strategy.fixed-delay.delay=0 s"],
    "exponential-delay": ["restart-strategy.exponential-delay.initial-backoff=10 ms"],
    "failure-rate": ["restart-strategy.failure-rate.delay=10 ms"],
    "none": [],
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_killed_driver_by_each_strategy(operator, strategy):
    """Its parent starts it again, or ends with 75; what was sent meanwhile comes once, by it or by the next start."""
    with operator.runs(f"restart-strategy.type={strategy}", *STRATEGIES[strategy]) as found:
        operator.sees_all()
        (listed,) = operator.types("list")["jobs"]
        assert (listed["state"], listed["pid"], listed["supervisor"]) == ("RUNNING", found["pid"], found["supervisor"])
        os.kill(found["pid"], signal.SIGKILL)
        operator.p.send(100)
        if strategy == "none":
            operator.is_gone()
            assert "is not started again" in operator.told()
        else:
            operator.sees_all()
            assert (operator.job().pid != found["pid"], operator.job().restarts) == (True, 1)
            assert operator.types("stop", operator.job().name)["state"] == "ENDED"
    operator.p.run_well()
    operator.p.check()


def as_json(i):
    return b'{"id":%d}' % i


@pytest.mark.timeout(580)
def test_a_job_through_its_operators_day(  # noqa: PLR0915 - a day is long
    cluster, new_topic, tmp_path, runtime
):
    """Watched; failing within the tolerable number, past it, past its time-out, and for good; stopped, cancelled.

    After each step all that was sent is there, once, and the history says what was failed by and what followed.
    """
    moods = tmp_path / "moods"
    moods.mkdir()
    # One partition: an epoch has one task, so that what fails one task fails one epoch.
    p = Pipeline(cluster, new_topic(1), new_topic(2), tmp_path / "checkpoint", job="moody", per_epoch=100)
    p.environment = {"MOODS": str(moods)}
    operator = Operator(p)
    settings = (
        "restart-strategy.type=none",
        "execution.checkpointing.tolerable-failed-checkpoints=2",
        "execution.checkpointing.timeout=15 s",
    )

    def send(number=50):
        p.send(number, value=as_json)

    def fails(times):
        for i in range(times):
            (moods / f"fail-{i}").touch()

    def followed():
        return [each["followed_by"] for each in operator.types("exceptions", operator.file)["exceptions"]]

    borne = "restart after 0.0 s (tolerable)"
    send()
    with operator.runs(*settings):
        operator.sees_all()
        watching = subprocess.Popen(
            [sys.executable, "-m", "onceflow", "checkpoints", "moody", "--watch", "--output", "json"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            before = json.loads(watching.stdout.readline())
            send()
            seen = json.loads(watching.stdout.readline())
            assert (seen["status"], seen["epoch"] > before["history"][-1]["epoch"]) == ("COMPLETED", True)
        finally:
            watching.kill()
            watching.communicate()
        operator.sees_all()

        fails(2)
        send()
        operator.sees_all()
        assert followed() == [borne, borne]
        assert operator.job().restarts == 2

        (moods / "slow").touch()
        send()
        wait_until(lambda: len(followed()) == 3, 60, f"the time-out:\n{operator.told()}")
        (moods / "slow").unlink()
        operator.sees_all()
        history = operator.types("checkpoints", operator.file)["history"]
        assert [each["reason"] for each in history if each["status"] == "FAILED"] == [
            "declined",
            "declined",
            "timed out",
        ]

        fails(3)
        send()
        operator.is_gone()
        assert followed()[3:] == [borne, borne, "the job ended"]
        assert list(moods.iterdir()) == []

    with operator.runs(*settings):
        operator.sees_all()
        malformed = Producer(cluster.for_librdkafka())
        malformed.produce(p.source, b"no JSON")
        assert malformed.flush(30) == 0
        operator.is_gone()
    kept = operator.types("exceptions", operator.file)["exceptions"]
    assert (kept[-1]["error"], kept[-1]["followed_by"]) == ("MalformedRecordError", "the job ended")
    send()
    refused = ("-D", "state.backend.type=hashmap")
    told = operator.types("run", operator.file, "--detached", "--log", str(operator.log), *refused, code=1)
    assert (told["exit_code"], "hashmap is refused" in told["said"]) == (1, True)

    with operator.runs(*settings, MALFORMED="skip"):
        operator.sees_all()
        assert operator.types("stop", "moody")["state"] == "ENDED"
    send()
    with operator.runs(*settings, MALFORMED="skip"):
        operator.sees_all()
        assert operator.types("cancel", operator.file)["state"] == "ENDED"
    p.run_well(MALFORMED="skip")
    p.check()

    with operator.runs(
        "execution.checkpointing.externalized-checkpoint-retention=DELETE_ON_CANCELLATION", MALFORMED="skip"
    ):
        assert operator.types("cancel", "moody")["state"] == "ENDED"
    assert not p.checkpoint.exists(), operator.told()
    p.run_well(MALFORMED="skip")  # a new job, which nobody takes for the old one
    assert Counter(p.read()) == Counter(p.sent * 2)
