"""Two drivers of one job, and epochs that outlive their transactions: the true cause is named, the right one goes on.

A supervisor that goes by ``retriable`` must do the right thing in each.
"""

import os
import re
import signal
import uuid
from collections import Counter
from pathlib import Path

import pytest

from onceflow import errors
from onceflow.checkpoint.identity import read_identity
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.launch.ownership import identify
from onceflow.launch.request import StartRequest, place_of
from onceflow.options.checkpointing import Checkpointing
from tests.support.harness import Ended, Pipeline, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ROOT = Path(__file__).parents[3]


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path):
    """A job over an empty topic."""
    made = Pipeline(cluster, new_topic(4), new_topic(4), tmp_path / "checkpoint")
    made.environment = {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    return made


def error_in(ended: Ended) -> type[errors.OnceflowError]:
    """The class of the error that ended a job."""
    names = re.findall(r"^  (\w+Error), exit code", ended.log, re.MULTILINE)
    assert names, ended.log
    return getattr(errors, names[-1])


def commits(p: Pipeline) -> list[int]:
    folder = p.checkpoint / "commits"
    return sorted(int(f.name) for f in folder.glob("*") if f.name.isdigit()) if folder.exists() else []


@pytest.mark.faults
def test_an_idle_driver_that_was_replaced_ends(pipeline, processes):
    """No record comes, so no epoch tells it: its sweep finds the newer start, and it ends as fenced."""
    p = pipeline
    p.job = "short_sweep"
    p.send(1_000)
    older = p.start(UNTIL="stopped")
    processes.append(older)
    wait_until(lambda: commits(p) and len(p.read()) == 1_000, what="the first epoch")
    newer = p.start(UNTIL="stopped")
    processes.append(newer)
    ended = p.end(older)
    assert ended.code == 1
    assert error_in(ended) is errors.FencedError
    assert not errors.FencedError.retriable
    p.send(500)
    wait_until(lambda: len(p.read()) == 1_500, what="the newer one's epoch")
    newer.send_signal(signal.SIGTERM)
    p.end(newer)
    p.check()


@pytest.mark.faults
def test_a_start_beside_a_driver_that_is_just_recording_its_epoch_goes_on(pipeline, processes):
    """The older one had confirmed epoch 1 and records it after the newer start has looked: the newer one goes on."""
    p = pipeline
    p.per_epoch = 1_000
    p.send(4_000)
    older = p.start(ONCEFLOW_CRASH="D7@1:stop")
    processes.append(older)
    wait_until(p.mark.exists, what="the older one's confirmation")
    p.mark.unlink()
    newer = p.start(ONCEFLOW_CRASH="S2:stop")
    processes.append(newer)
    wait_until(p.mark.exists, what="the newer one's sweep")
    assert commits(p) == [0]
    os.kill(older.pid, signal.SIGCONT)
    ended = p.end(older)
    assert error_in(ended) is errors.FencedError
    assert 1 in commits(p)
    os.kill(newer.pid, signal.SIGCONT)
    assert p.end(newer).code == 0
    p.check()


@pytest.mark.faults
def test_a_start_as_new_that_fails_behind_its_job_json_forgets_nothing(pipeline, processes):
    """--as-new left the job beside its living driver and got no further: that driver decides nothing any more.

    It ends as fenced, and the next start, without the flag, is the new job's: each record is there once, when what the
    old driver had open has expired.
    """
    p = pipeline
    p.environment["TIMEOUT"] = "30 s"
    p.send(1_000)
    older = p.start(UNTIL="stopped")
    processes.append(older)
    wait_until(lambda: commits(p) == [0] and len(p.read()) == 1_000, what="the first epoch")
    plan = StartRequest("copy", Checkpointing(p.checkpoint), takeover="as-new")
    place = place_of(plan)
    identify(place, read_identity(place.ours).cluster_id, plan.prefix, plan.takeover)
    p.send(1_000)
    ended = p.end(older)
    assert ended.code == 1
    assert error_in(ended) is errors.FencedError
    assert len(p.read()) == 1_000
    p.run_well()
    wait_until(lambda: len(p.read()) >= 2_000, 120, what="the records behind the old job's transactions")
    p.check()


@pytest.fixture
def slow(short_lived, tmp_path):
    """A job that does some five hundred records a second, with transactions that live for twelve seconds."""
    names = [f"slow-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    with KafkaClient(short_lived) as client:
        client.admin.create_topics({n: {"num_partitions": 4, "replication_factor": 1} for n in names})
        wait_until(lambda: len(client.topics(names)) == 2, what="topics")
    return Pipeline(short_lived, *names, tmp_path / "checkpoint", job="slow", environment={"TIMEOUT": "12 s"})


def run_as_a_supervisor_does(p: Pipeline, most: int = 6) -> list[Ended]:
    """Start the job again for as long as its error says that this helps."""
    ended = [p.end(p.start(), 900)]
    while ended[-1].code != 0 and error_in(ended[-1]).retriable and len(ended) < most:
        ended.append(p.end(p.start(), 900))
    return ended


@pytest.mark.faults
def test_an_epoch_that_outlives_its_transactions_is_cut_smaller(slow):
    """Written until its transactions expired: the error says so, not "a refused record"; the next start drains it."""
    slow.per_epoch = 60_000
    slow.send(12_000)
    ended = run_as_a_supervisor_does(slow)
    assert error_in(ended[0]) is errors.EpochTooLongError, ended[0].log
    assert "transaction_timeout is 12 s" in ended[0].log
    assert ended[-1].code == 0, ended[-1].log
    assert "until one is decided, each source reads at most" in ended[1].log, ended[1].log
    assert Counter(slow.read()) == Counter(slow.sent)


@pytest.mark.faults
@pytest.mark.timeout(1_200)
def test_a_backlog_of_twenty_time_outs_is_drained_without_a_limit_being_set(slow):
    """Nobody set max_records_per_epoch: epochs are bounded all the same, and a weekend's backlog is read to its end."""
    slow.per_epoch = 0
    slow.send(20 * 12 * 500)
    ended = run_as_a_supervisor_does(slow)
    assert ended[-1].code == 0, ended[-1].log
    assert len(slow.decisions()) > 20
    assert Counter(slow.read()) == Counter(slow.sent)
