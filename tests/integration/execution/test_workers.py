"""Python workers and executors die while the driver lives: Spark tries again, or the epoch fails; each record once.

A crash point with ``:stop`` holds one worker at a known place, so that it can be killed exactly there.
"""

import os
import signal
import subprocess

import psutil
import pytest

from onceflow.processes import descendants, kill_tree
from tests.support.harness import Pipeline, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EPOCH = 1
RETRYING = "local[2,3]"
CLUSTER = "local-cluster[2,1,1024]"


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path):
    """Three epochs' worth of input and a job over it."""
    made = Pipeline(cluster, new_topic(4), new_topic(4), tmp_path / "checkpoint")
    made.send(6_000)
    return made


@pytest.fixture
def held(pipeline):
    """``held("D3")`` starts the job and gives it and its worker that is held at that point, once it is there."""
    running = []

    def start(point: str, master: str) -> tuple[subprocess.Popen, int]:
        process = pipeline.start(ONCEFLOW_CRASH=f"{point}@{EPOCH}:stop", SPARK_MASTER=master)
        running.append(process)
        wait_until(lambda: process.poll() is not None or stopped_below(process.pid), what=f"a worker at {point}")
        assert process.poll() is None, pipeline.end(process).log
        return process, stopped_below(process.pid)[0]

    yield start
    for process in running:
        if process.poll() is None:
            kill_tree(process.pid)
            process.wait()


def stopped_below(pid: int) -> list[int]:
    """Processes below ``pid`` that were stopped by a signal."""
    below = set(descendants(pid))
    return [one.pid for one in psutil.process_iter(["status"]) if one.pid in below and one.info["status"] == "stopped"]


def parent_of(pid: int) -> int:
    return psutil.Process(pid).ppid()


def attempts(p: Pipeline) -> set[int]:
    """Which attempts of its tasks the epoch consists of."""
    held = [held for d in p.decisions() if d["epoch"] == EPOCH for held in d["participants"]]
    return {int(one["transaction"]["transactional_id"].rpartition("-")[2]) for one in held}


@pytest.mark.parametrize("point", [pytest.param("D2", marks=pytest.mark.faults), "D3"])
def test_a_worker_that_dies_is_tried_again_and_what_it_left_is_aborted(pipeline, held, point):
    """D2, D3: killed while it writes, or prepared and not reported: a second attempt counts, the first is aborted."""
    job, worker = held(point, RETRYING)
    os.kill(worker, signal.SIGKILL)
    ended = pipeline.end(job)
    assert ended.code == 0, ended.log
    assert attempts(pipeline) == {0, 1}
    pipeline.check()
    if point == "D3":
        assert pipeline.aborted() > 0, "the attempt that lost had written nothing"


@pytest.mark.faults
def test_all_workers_die_with_their_daemon(pipeline, held):
    """The process that all workers come from dies, and with it one that has prepared: Spark makes another."""
    job, worker = held("D3", RETRYING)
    kill_tree(parent_of(worker))
    ended = pipeline.end(job)
    assert ended.code == 0, ended.log
    pipeline.check()
    assert pipeline.aborted() > 0


@pytest.mark.faults
@pytest.mark.parametrize("point", ["D2", "D3"])
def test_where_spark_does_not_try_again_the_epoch_fails_and_all_of_it_is_aborted(pipeline, held, point):
    """D2, D3 in local[2]: one dead worker ends the query; the job aborts what its tasks wrote before it ends."""
    job, worker = held(point, "local[2]")
    os.kill(worker, signal.SIGKILL)
    ended = pipeline.end(job)
    assert ended.code == 75
    assert "nothing that is not decided is visible" in ended.log or "nothing of it is visible" in ended.log, ended.log
    assert [d["epoch"] for d in pipeline.decisions()] == [0]
    assert pipeline.open_transactions() == []
    pipeline.mark.unlink()
    pipeline.run_well()
    pipeline.check()


@pytest.mark.faults
def test_an_executor_dies_with_its_workers_and_another_takes_over(pipeline, held):
    """On executors of their own, one is killed that has prepared: its workers go with it, the task runs elsewhere."""
    job, worker = held("D3", CLUSTER)
    executor = parent_of(parent_of(worker))
    assert executor != job.pid
    os.kill(executor, signal.SIGKILL)
    ended = pipeline.end(job)
    assert ended.code == 0, ended.log
    assert not psutil.pid_exists(worker)
    pipeline.check()
    assert pipeline.aborted() > 0
