"""What a power cut leaves of Spark's files, which Spark does not sync: empty, or not there.

A start goes on where the journal knows enough, and names the file and the way out where it does not.
"""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.support.harness import Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def p(cluster, new_topic, tmp_path):
    """A job over an empty topic."""
    return Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "checkpoint")


def cut(p: Pipeline, name: str, *, empty: bool) -> None:
    """The power cut took the file's content, or all of it."""
    path = p.checkpoint / name
    assert path.exists()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.write_bytes(b"") if empty else path.unlink()


@pytest.mark.parametrize("empty", [True, pytest.param(False, marks=pytest.mark.faults)])
@pytest.mark.parametrize("name", [pytest.param("commits/1", marks=pytest.mark.faults), "offsets/1"])
def test_a_decided_epoch_is_finished_whatever_is_left_of_sparks_files(p, name, empty):
    """Epoch 1 was done: its record, or its range, is gone; the journal holds both, and nothing is written twice."""
    p.send(200)
    p.run_well()
    p.send(200)
    p.run_well()
    cut(p, name, empty=empty)
    p.send(100)
    p.run_well()
    p.check()


@pytest.mark.faults
def test_a_plan_that_is_empty_and_not_decided_is_made_again(p):
    """D1: Spark had planned epoch 1, and nothing of it was written."""
    p.send(200)
    p.run_well()
    p.send(200)
    p.die_at("D1")
    cut(p, "offsets/1", empty=True)
    p.run_well()
    p.check()


@pytest.mark.faults
def test_an_epoch_without_output_whose_range_is_gone_has_a_way_out(p):
    """Each start names the file, and none is told as passing; what the message says leads on, and nothing is lost."""
    p.send(200)
    p.run_well()
    for _ in range(2):
        p._transaction([(b"k0", b"aborted")] * 10, commit=False)
        p.run_well()
    newest = max(int(path.name) for path in (p.checkpoint / "commits").iterdir() if path.name.isdigit())
    assert newest > max(d["epoch"] for d in p.decisions())
    cut(p, f"offsets/{newest}", empty=False)
    p.send(100)
    for _ in range(2):
        ended = p.run()
        assert ended.code == 1
        assert f"error: Spark's {p.checkpoint}/offsets/{newest} is missing" in ended.log, ended.log
    named = re.findall(r"remove (\S+) and (\S+) as well", ended.log)[-1]
    assert {Path(name).name for name in named} == {str(newest), f".{newest}.crc"}
    for name in named:
        Path(name).unlink(missing_ok=True)
    p.run_well()
    assert Counter(p.read()) == Counter(p.sent)


@pytest.mark.parametrize(("job", "more"), [("copy", True), pytest.param("count", False, marks=pytest.mark.faults)])
@pytest.mark.faults
def test_a_plan_that_an_older_driver_has_written_over_a_decided_one(p, job, more):
    """It slept between Spark's look and its rename. Decided and open: the next start restores what was decided."""
    p.job = job
    p.send(200)
    p.run_well()
    p.send(200)
    p.die_at("D5")
    plan = p.checkpoint / "offsets" / "1"
    version, metadata, position = plan.read_text().splitlines()
    ((topic, ends),), by = json.loads(position).items(), 20 if more else -20
    cut(p, "offsets/1", empty=True)
    plan.write_text("\n".join([version, metadata, json.dumps({topic: {n: end + by for n, end in ends.items()}})]))
    p.send(100)
    ended = p.run_well()
    assert "offsets/1 is not what epoch 1 reads" in ended.log
    p.check()
