"""Each example with state through one death, its output as its page says; all points: `make faults-state`."""

import random

import pytest

from tests.examples.stateful import CASES, prepared

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

FIRST_ROWS = {"backfill": 2}
"""The epoch that is the first to write, where it is not the second: backfill reads on from a day before its own."""


@pytest.mark.faults
@pytest.mark.parametrize("name", CASES)
def test_an_example_is_right_after_a_death_behind_its_commit(tmp_path, name):
    """D7: the plan of an epoch runs once more for its state; each row is there once, and none is wrong.

    On a broker of its own: several of them read a topic of the same name.
    """
    with prepared(name, tmp_path, records=1_200, seed=3) as made:
        made.before()
        died, again = made.start(f"D7@{FIRST_ROWS.get(name, 1)}"), made.start()
        if len(made.case.make(100, random.Random(1))) > 1:
            made.settle()
        verdict = made.judge()
    assert died.died
    assert again.found.startswith("committed"), again
    assert verdict.good, verdict.differences
