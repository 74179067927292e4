"""Restarts in the process: an epoch fails in it at a point that is known, and the job goes on without a new Java."""

import pytest

from onceflow.operations.checkpoints.overview import overview
from tests.support.harness import Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

FIXED = {
    "ONCEFLOW__RESTART_STRATEGY__TYPE": "fixed-delay",
    "ONCEFLOW__RESTART_STRATEGY__FIXED_DELAY__DELAY": "0 s",
}


@pytest.fixture
def p(cluster, new_topic, tmp_path):
    """A job that counts in state, over three epochs."""
    pipeline = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "checkpoint", job="count", per_epoch=100)
    pipeline.send(300)
    return pipeline


def restarted(p, **environment):
    """Run the job through one failure: how its log goes."""
    ended = p.run_well(**FIXED | environment)
    assert p.mark.exists(), ended.log
    assert ended.log.count("start: Java and Spark") == 1, ended.log
    p.check()
    return ended.log


@pytest.mark.parametrize(
    "point",
    [pytest.param(f"D{n}", marks=() if n == 5 else pytest.mark.faults) for n in (1, 2, 3, 4, 5, 6, 7, 8)],
)
def test_a_job_whose_epoch_has_failed_goes_on_in_the_process(p, point):
    """The state is that of the run that is decided, and what was decided is committed, each row once."""
    log = restarted(p, ONCEFLOW_CRASH=f"{point}@{0 if point == 'D8' else 1}:fail")
    assert log.count("it failed, and is started again in 0.0 s") == 1
    assert "incarnation 2" in log
    assert "state is incremental: " in log
    seen = overview(str(p.checkpoint))
    assert sum(seen.failed.values()) == 1
    assert seen.restored >= 1
    assert sum(sum(each.records_in.values()) for each in seen.history if each.status == "COMPLETED") == len(p.sent)


@pytest.mark.faults
def test_state_that_is_written_whole(p):
    """Neither incremental nor compressed, on a checkpoint that was both: it goes on, through a failure, and back."""
    p.run_well()
    p.send(200)
    whole = {
        "ONCEFLOW__EXECUTION__CHECKPOINTING__INCREMENTAL": "false",
        "ONCEFLOW__EXECUTION__CHECKPOINTING__SNAPSHOT_COMPRESSION": "false",
    }
    assert "state is incremental" not in restarted(p, **whole, ONCEFLOW_CRASH="D5@5:fail")
    p.send(200)
    p.run_well()
    p.check()


@pytest.mark.faults
def test_tolerable_failures_are_none_of_the_strategys(p):
    """With no restart by the strategy at all."""
    tolerable = {"ONCEFLOW__EXECUTION__CHECKPOINTING__TOLERABLE_FAILED_CHECKPOINTS": "1"}
    restarted(p, **tolerable, ONCEFLOW__RESTART_STRATEGY__TYPE="none", ONCEFLOW_CRASH="D4@1:fail")


@pytest.mark.faults
@pytest.mark.parametrize("epoch", [0, 1])
def test_a_failure_that_is_not_borne_ends_the_job(p, epoch):
    """The first epoch's, whatever the strategy; any, with none: with the code by which it is started again."""
    strategy = FIXED if epoch == 0 else {}
    ended = p.run(**strategy, ONCEFLOW_CRASH=f"D4@{epoch}:fail")
    assert ended.code == 75
    assert "is started again in" not in ended.log
    p.run_well()
    p.check()
