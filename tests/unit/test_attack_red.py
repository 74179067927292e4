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


# -- 15. What a topic that was made again has cost -----------------------------------------------------------------------


def test_red_the_cost_of_a_topic_that_was_made_again_is_not_none():
    """Nothing of the next epoch is planned yet, and the old topic held thousands that were not read: nobody can know."""
    lost = (LostInput(Partition("t", 0), 5_000, 5_000, remade=True),)
    found = UndoneEpoch(7, False, 2, False, False, False, (), (), lost)
    assert not any("At most 0 records" in line for line in _cost_lines(found, "give-up-rows", ()))
