"""A job whose machine's clock goes back or forward between its starts: each record is there once, and that is told.

The clock is that of libfaketime, of the job's whole process tree; the broker's stays.
"""

from pathlib import Path

import pytest

from tests.integration.harness import Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.faults, pytest.mark.timeout(900)]

HOUR_S = 3_600


@pytest.fixture
def p(cluster, new_topic, tmp_path):
    """A job that counts in state."""
    return Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "checkpoint", "count", per_epoch=100)


def clock(by_s: int) -> dict[str, str]:
    """The environment of a process whose clock is that much ahead of ours."""
    libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not libraries:
        pytest.skip("there is no libfaketime")
    # What waits by the monotonic clock would else wait as long as the clock went back.
    return {"LD_PRELOAD": str(libraries[0]), "FAKETIME": f"{by_s:+d}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def test_a_clock_that_goes_back_and_forward(p):
    """An hour back, a day ahead, and right again, with a death at each: what is decided is committed, and goes on."""
    p.send(100)
    p.run_well()
    for by_s in (-HOUR_S, 24 * HOUR_S, 0):
        p.send(100)
        p.die_at("D5", **(clock(by_s) if by_s else {}))
        p.send(100)
        ended = p.run_well(**(clock(by_s) if by_s else {}))
        told = f"{'ahead of' if by_s < 0 else 'behind'} this machine's"
        assert (told in ended.log) == bool(by_s), ended.log
        p.check()
