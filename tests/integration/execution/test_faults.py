"""Faults that are not a death: a refused record, a failing disk, a second driver, a driver that slept, signals."""

import os
import signal
from pathlib import Path

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from onceflow.processes import descendants
from tests.support.harness import Pipeline, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ROOT = Path(__file__).parents[3]


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path):
    """A job over an empty topic."""
    return Pipeline(cluster, new_topic(4), new_topic(4), tmp_path / "checkpoint")


def committed_epochs(p: Pipeline) -> int:
    folder = p.checkpoint / "commits"
    return len([f for f in folder.glob("*") if f.name.isdigit()]) if folder.exists() else 0


def limit_record_size(admin, topic: str, size: int) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"max.message.bytes": str(size)})
    admin.alter_configs([resource])


@pytest.mark.faults
def test_a_record_that_the_broker_refuses_fails_its_epoch(pipeline, admin):
    """T0: produce() took it and flush() left nothing, but the broker refused it: the epoch never becomes visible."""
    limit_record_size(admin, pipeline.sink, 2_000)
    pipeline.send(1_000, value=lambda i: b"x" * (5_000 if i == 700 else 100) + str(i).encode())
    ended = pipeline.run()
    assert ended.code == 1
    assert "RowRefusedError" in ended.log
    assert f"a record for topic {pipeline.sink} is larger than" in ended.log
    assert pipeline.read() == []
    assert pipeline.decisions() == []
    assert pipeline.open_transactions() == []
    limit_record_size(admin, pipeline.sink, 1_000_000)
    pipeline.run_well()
    pipeline.check()


@pytest.mark.faults
def test_a_decision_whose_append_raised_although_it_is_there_is_adopted(pipeline):
    """D4u: the disk reported a failure after the record was durable: the epoch is committed, not aborted."""
    pipeline.job = "faulty_store"
    pipeline.environment = {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    pipeline.send(5_000)
    pipeline.run_well(FAULT="after")
    pipeline.check()
    assert pipeline.aborted() == 0
    assert [r["kind"] for r in pipeline.records()].count("void") == 0


@pytest.mark.faults
def test_a_decision_that_could_not_be_written_is_voided(pipeline):
    """D4u: nothing was written: the place is taken by a void, the epoch is aborted and run again by the next start."""
    pipeline.job = "faulty_store"
    pipeline.environment = {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    pipeline.send(5_000)
    ended = pipeline.run(FAULT="before")
    assert ended.code == 75
    assert "voided" in ended.log
    assert [r["kind"] for r in pipeline.records()][-1] == "void"
    assert pipeline.open_transactions() == []
    pipeline.job, pipeline.environment = "copy", {}
    pipeline.run_well()
    pipeline.check()
    assert pipeline.aborted() > 0


def test_of_two_drivers_on_one_checkpoint_the_older_ends(pipeline, processes):
    """Z1: a second start takes over; the first ends with one clear error, and nothing is doubled."""
    pipeline.send(2_000)
    first = pipeline.start(UNTIL="stopped")
    processes.append(first)
    wait_until(lambda: committed_epochs(pipeline) >= 1, what="the first driver's epoch")
    second = pipeline.start(UNTIL="stopped")
    processes.append(second)
    wait_until(lambda: [r["kind"] for r in pipeline.records()].count("start") == 2, what="the second start")
    pipeline.send(2_000)
    ended = pipeline.end(first)
    assert ended.code == 1
    assert "a newer start of this job has taken over" in ended.log
    wait_until(
        lambda: second.poll() is not None or len(pipeline.read()) >= len(pipeline.sent), what="all records, or an end"
    )
    if second.poll() is None:
        second.send_signal(signal.SIGTERM)
        assert pipeline.end(second).code == 128 + signal.SIGTERM
    else:
        # The older one planned its last epoch at the very moment when the newer one did: Spark ends the second.
        assert "another driver of this job was at work" in pipeline.end(second).log
        pipeline.run_well()
    pipeline.check()


@pytest.mark.faults
def test_a_driver_that_slept_between_list_and_abort_aborts_nothing_of_a_newer_one(pipeline, processes):
    """Z3: stopped in its first sweep, it wakes up beside a newer driver's open transactions, and only ends."""
    pipeline.send(10_000)
    pipeline.die_at("D4@1")
    sleeper = pipeline.start(ONCEFLOW_CRASH="S2:stop")
    processes.append(sleeper)
    wait_until(pipeline.mark.exists, what="the sleeper's sweep")
    pipeline.mark.unlink()
    newer = pipeline.start(ONCEFLOW_CRASH="D4@1:stop")  # it stops with its own transactions prepared
    processes.append(newer)
    wait_until(pipeline.mark.exists, what="the newer driver's pre-commit")
    prepared = pipeline.open_transactions()
    assert prepared
    os.kill(sleeper.pid, signal.SIGCONT)
    ended = pipeline.end(sleeper)
    assert ended.code == 1
    assert "a newer start of this job has taken over" in ended.log
    assert pipeline.open_transactions() == prepared
    os.kill(newer.pid, signal.SIGCONT)
    assert pipeline.end(newer).code == 0
    pipeline.check()
    assert pipeline.aborted() > 0


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.faults)])
@pytest.mark.faults
def test_a_signal_ends_a_job_at_a_clean_point(pipeline, processes, number):
    """G1: the job ends with 128 + the signal, leaves nothing open, and the next start goes on from there."""
    pipeline.per_epoch = 500
    pipeline.send(10_000)
    process = pipeline.start(UNTIL="stopped")
    processes.append(process)
    wait_until(lambda: committed_epochs(pipeline) >= 1, what="an epoch")
    process.send_signal(number)
    ended = pipeline.end(process, 30)
    assert ended.code == 128 + number, ended.log
    assert pipeline.open_transactions() == []
    assert len(pipeline.read()) < len(pipeline.sent), "the signal came too late to prove anything"
    pipeline.per_epoch = 10_000
    pipeline.run_well()
    pipeline.check()


@pytest.mark.faults
def test_a_program_that_runs_a_job_outlives_its_signal(pipeline, processes):
    """G1: ``Job.run`` raises ``Stopped`` at a clean point; the same process runs the job again, each record once."""
    pipeline.job = "hosted"
    pipeline.environment = {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    pipeline.per_epoch = 500
    pipeline.send(10_000)
    process = pipeline.start()
    processes.append(process)
    wait_until(lambda: committed_epochs(pipeline) >= 1, what="an epoch")
    process.send_signal(signal.SIGTERM)
    ended = pipeline.end(process)
    assert ended.code == 0, ended.log
    assert "stopped by SIGTERM, clean: True" in ended.log
    assert "the program goes on" in ended.log
    pipeline.check()


@pytest.mark.faults
def test_a_signal_ends_a_job_that_is_still_starting(pipeline, processes):
    """G1: while Spark starts there is nothing to finish; the job ends with 128 + SIGTERM and the next start begins."""
    pipeline.send(1_000)
    process = pipeline.start(UNTIL="stopped")
    processes.append(process)
    wait_until(lambda: descendants(process.pid), what="Java's process")
    process.send_signal(signal.SIGTERM)
    ended = pipeline.end(process, 30)
    assert ended.code == 128 + signal.SIGTERM, ended.log
    assert not pipeline.checkpoint.exists() or pipeline.decisions() == []
    pipeline.run_well()
    pipeline.check()


@pytest.mark.faults
def test_a_signal_ends_a_job_whose_broker_is_silent(pipeline, processes, broker):
    """G1: a frozen broker answers nothing, and Spark's source waits for it; the job ends all the same."""
    pipeline.send(1_000)
    process = pipeline.start(UNTIL="stopped")
    processes.append(process)
    wait_until(lambda: committed_epochs(pipeline) >= 1, what="an epoch")
    broker.pause()
    try:
        process.send_signal(signal.SIGTERM)
        ended = pipeline.end(process, 30)
    finally:
        broker.resume()
    assert ended.code == 128 + signal.SIGTERM, ended.log
    pipeline.send(1_000)
    pipeline.run_well()
    pipeline.check()
