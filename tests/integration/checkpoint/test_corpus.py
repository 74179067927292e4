"""What releases have left behind goes on: killed at each crash point, with every kind of sink, and from savepoints.

``tests/corpus/kept`` has one archive for each release: its checkpoints, its broker's data, its tables. They are never
made again, so a change of what is durable is seen here: it goes on with the older form, or refuses it by name.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.corpus.world import KEPT, POINTS, RECORDS, ROOT, STATE_POINTS, STATES, World, world
from tests.support.commands import onceflow
from tests.support.harness import follow, read_topic

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

RELEASES = sorted(path.name.removesuffix(".tar.xz") for path in KEPT.glob("*.tar.xz"))
IN_SHORT = ("D5",)
UNDONE = ("S1", "D5", "D6", "D6a", "D7")
"""Where these deaths left an epoch that is decided and not done."""


@pytest.fixture(scope="module", params=RELEASES)
def systems(request):
    """The systems of a release, on the data that it has left."""
    with world(KEPT / f"{request.param}.tar.xz") as made:
        yield made


def _more(systems: World, case: str, job: str):
    """The job of a case, with what it has been sent, and more."""
    p = systems.pipeline(case, job)
    p.sent = [(key or b"", value or b"") for key, value in read_topic(p.cluster, p.source)]
    assert len(p.sent) == RECORDS
    p.send(RECORDS // 3)
    return p


@pytest.mark.parametrize(
    "point",
    [pytest.param(point, marks=() if point in IN_SHORT else pytest.mark.faults) for point in ("end", *POINTS)],
)
def test_every_kind_of_sink_goes_on(systems, point):
    """Each record of before and of now is in each of the seven sinks once.

    Of a decided epoch the one that is no sink any more, into which tasks wrote straight, is refused by its name.
    """
    case = f"fan-{point}"
    systems.restore(case, (ROOT / case / "postgres.sql").read_bytes())
    p = _more(systems, case, "fan")
    if point in UNDONE:
        ended = p.run()
        assert ended.code == 1
        assert "its sink sqlite-straight is none of the job's sinks now" in ended.log
        assert "sink sqlite-straight count as written" in follow(p, ended)
    p.run_well()
    p.check_output()
    ids = Counter(json.loads(value)["id"] for _, value in p.sent)
    for sink, found in systems.shown(p).items():
        assert found == ids, sink
    assert p.open_transactions() == []


@pytest.mark.faults
@pytest.mark.parametrize("job", STATES)
@pytest.mark.parametrize("point", ["end", *STATE_POINTS])
def test_a_job_with_state_goes_on(systems, job, point):
    """The newest count of each key is right, and none is there twice."""
    p = _more(systems, f"{job}-{point}", job)
    p.run_well()
    p._check_counted()


@pytest.mark.faults
@pytest.mark.parametrize("job", STATES)
def test_a_savepoint_is_verified(systems, job):
    """It is whole, as its manifest says."""
    code, _, said = onceflow("savepoint", "verify", ROOT / f"{job}-end" / "savepoint")
    assert code == 0, said
