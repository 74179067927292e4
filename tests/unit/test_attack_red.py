"""RED: what an attack found. Each test says what should hold, and FAILS today. Scratch: to be moved or mended, not kept.

# ruff: noqa: E501, E741, PLW0108, N818, PT012 - scratch

Must not know: Spark, Kafka. Real rules, real journal, temporary folders.
"""

import pytest

from onceflow.checkpoint import store as store_module
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.cli.txn import _cost_lines
from onceflow.connectors.contract import Committer, Guarantee, Sink
from onceflow.connectors.kafka.offsets import Partition
from onceflow.errors import CheckpointConflictError, OnceflowError
from onceflow.execution import pace
from onceflow.execution.launch import Plan, finish_decided
from onceflow.operations.transactions.access import Operator
from onceflow.operations.transactions.resolution import LostInput, UndoneEpoch
from onceflow.options.checkpointing import Checkpointing
from onceflow.twophase.committable import Committable
from onceflow.twophase.messages import (
    Appended,
    Evidence,
    Outcome,
    Reply,
)
from onceflow.twophase.records import Decide
from tests.unit.test_launch import ONE, Expiring, done, identify, limit_of, place_of, started


# -- 4. --claim with some of the sinks listed ---------------------------------------------------------------------------


class FakeCommitter(Committer):
    def __init__(self, system):
        self.system = system

    def preflight(self):
        pass

    def can_finish(self, committable):
        return committable.transaction["system"] == self.system

    def seal(self, committables):
        return list(committables)

    def check(self, committables, run, age_s):
        return None

    def commit(self, committables):
        return {c.participant: Reply.COMMITTED for c in committables}

    def abort(self, committables):
        pass

    def abort_run(self, run):
        pass

    def outcomes(self, committables):
        return {c.participant: Evidence(Outcome.OPEN, "open") for c in committables}

    def lingering(self, incarnation, spared):
        return []


class FakeSink(Sink):
    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(self, name, system):
        self.name, self.system = name, system

    def connect(self):
        return self.system

    def committer(self, prefix, job_id):
        return FakeCommitter(self.system)

    def close(self):
        pass

    def columns(self, names):
        return []

    def writer_factory(self):
        raise NotImplementedError

    def describe(self):
        return self.name


# -- 6. A broker that is away for long ------------------------------------------------------------------------------------


def test_red_a_long_outage_is_not_told_as_a_time_out_that_is_too_short():
    """The leader of one partition is away; each start's epoch ends with its transactions' time-out, and is cut.

    transaction_timeout of 60 s: after eleven minutes the job reads one record an epoch; then it ends with
    TimeoutTooShortError, which no supervisor tries again, and which says that transaction_timeout is too short.
    """
    most, starts = 900_000, 0
    while most is not None and starts < 60:  # an hour
        most, starts = pace.cut([most], 60.0, 60.0), starts + 1
    assert most is not None, f"given up for good after {starts} starts of a minute each"


# -- 12. A start that may not commit ------------------------------------------------------------------------------------------


class Refused(Exception):
    pass


class Forbidden(FakeCommitter):
    """The right to WRITE was taken away while the job was down: every commit is answered with code 53, which is RETRY."""

    rounds = 0

    def commit(self, committables):
        self.rounds += 1
        if self.rounds > 6:
            raise Refused
        return {c.participant: Reply.RETRY for c in committables}


def test_red_a_right_that_is_missing_is_told_before_the_job_starts(tmp_path):
    """README: missing rights are found before the job starts. With an undone epoch the start waits without an end."""
    a = FakeSink("a", "A")
    a.committer = lambda prefix, job_id: Forbidden("A")
    identity = identify(tmp_path, systems="A")
    place = place_of(tmp_path)
    place.records.make()
    place.journal.start(identity.job_id)
    one = (Committable("a", 0, 0, 1, 7, {"id": "a", "system": "A"}),)
    assert place.journal.append(Decide(1, 0, "v1\n0", one)) == Appended()
    with pytest.raises(OnceflowError):
        finish_decided([a], Plan("test", Checkpointing(tmp_path)))


# -- 14. The operator's tool and a list of some sinks -----------------------------------------------------------------------------


def test_red_the_tool_names_the_list_that_is_too_short(tmp_path):
    """Sinks on two clusters, of which @job.stream lists one: the tool says --claim, with which the job locks itself out."""
    identify(tmp_path, systems="A,B")
    with pytest.raises(CheckpointConflictError) as caught:
        Operator(Checkpointing(tmp_path), "onceflow", [FakeSink("a", "A")])
    assert "--claim" not in caught.value.action, caught.value


# -- 15. What a topic that was made again has cost -----------------------------------------------------------------------


def test_red_the_cost_of_a_topic_that_was_made_again_is_not_none():
    """Nothing of the next epoch is planned yet, and the old topic held thousands that were not read: nobody can know."""
    lost = (LostInput(Partition("t", 0), 5_000, 5_000, remade=True),)
    found = UndoneEpoch(7, False, 2, False, False, False, (), (), lost)
    assert not any("At most 0 records" in line for line in _cost_lines(found, "give-up-rows", ()))
