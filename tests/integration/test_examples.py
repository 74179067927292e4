"""Each example with state through one death, its output as its page says; all points: `make faults-state`."""

import random

import pytest

from tests.examples.stateful import CASES, prepared

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


ALONE = {"backfill", "fan_out"}
"""They read a topic of another one's name."""


@pytest.mark.parametrize("name", CASES)
def test_an_example_is_right_after_a_death_behind_its_commit(broker, tmp_path, name):
    """D7: the plan of the second epoch runs once more for its state; each row is there once, and none is wrong."""
    servers = "" if name in ALONE else broker.bootstrap_servers
    with prepared(name, tmp_path, records=1_200, seed=3, servers=servers) as made:
        made.before()
        died, again = made.start("D7@1"), made.start()
        if len(made.case.make(100, random.Random(1))) > 1:
            made.settle()
        verdict = made.judge()
    assert died.died
    assert again.found.startswith("committed"), again
    assert verdict.good, verdict.differences
