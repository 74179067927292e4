"""The examples with state run as their page says, and one of them through a death; all points: `make faults-state`."""

import random

import pytest

from tests.examples.stateful import CASES, prepared

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def run(name, servers, folder, *points):
    with prepared(name, folder, records=1_200, seed=3, servers=servers) as made:
        made.before()
        starts = [made.start(point) for point in points]
        starts.append(made.start())
        if len(made.case.make(100, random.Random(1))) > 1:
            made.settle()
        return starts, made.judge()


def test_windows_are_right_after_a_death_behind_their_commit(broker, tmp_path):
    """D7: the plan of the second epoch runs once more for its state; each hour is there once, nothing late is in it."""
    (died, again), verdict = run("hourly_sales", broker.bootstrap_servers, tmp_path, "D7@1")
    assert died.died
    assert again.found == "committed; the plan ran once more for its state"
    assert verdict.good, verdict.differences


@pytest.mark.faults
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(set(CASES) - {"hourly_sales"}))
def test_an_example_is_right_after_two_deaths(tmp_path, name):
    """D4 and D7 in the second epoch: written and not decided, then committed and not recorded."""
    starts, verdict = run(name, "", tmp_path, "D4@1", "D7@1")
    assert verdict.good, verdict.differences
    assert any(start.died for start in starts), starts
