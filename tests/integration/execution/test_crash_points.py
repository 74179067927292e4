"""The driver dies at every crash point, is started again, and every record is there once."""

import shutil

import pytest

from tests.support.harness import Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EPOCH = 1
RECORDS = 6_000


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path):
    """Three epochs' worth of input and a job over it."""

    def make(job: str) -> Pipeline:
        made = Pipeline(cluster, new_topic(4), new_topic(4), tmp_path / "checkpoint", job=job)
        made.send(RECORDS)
        return made

    return make


@pytest.mark.parametrize("point", ["D1", "D8"])
@pytest.mark.faults
def test_death_outside_of_a_transaction_leaves_no_trace(pipeline, point):
    """D1, D8: before the first task and after commits/N there is nothing to undo, and the next start goes on."""
    p = pipeline("copy")
    p.die_at(f"{point}@{EPOCH}")
    p.run_well()
    p.check()
    assert p.aborted() == 0


@pytest.mark.parametrize(
    "point", [pytest.param("D2", marks=pytest.mark.faults), pytest.param("D3", marks=pytest.mark.faults), "D4"]
)
def test_death_before_the_decision_aborts_what_was_written(pipeline, point):
    """D2, D3, D4: written or prepared, but not decided: the next start aborts it at once and runs the epoch again.

    At D2 the producer may not have sent anything yet.
    """
    p = pipeline("copy")
    p.die_at(f"{point}@{EPOCH}")
    assert [d["epoch"] for d in p.decisions()] == [0]
    assert point == "D2" or p.open_transactions()
    ended = p.run_well()
    assert f"epoch {EPOCH} was planned before and not decided: it is run again" in ended.log
    p.check()
    assert point == "D2" or p.aborted() > 0


@pytest.mark.parametrize(
    ("job", "point"),
    [
        ("copy", "D5"),
        pytest.param("count", "D6", marks=pytest.mark.faults),
        pytest.param("copy", "D6a", marks=pytest.mark.faults),
        pytest.param("count", "D7", marks=pytest.mark.faults),
    ],
)
def test_death_after_the_decision_is_rolled_forward(pipeline, job, point):
    """D5, D6, D6a, D7: decided: the next start commits what is open and writes nothing again; state is rebuilt."""
    p = pipeline(job)
    p.die_at(f"{point}@{EPOCH}")
    assert [d["epoch"] for d in p.decisions()] == [0, EPOCH]
    assert not (p.checkpoint / "commits" / str(EPOCH)).exists()
    p.run_well()
    p.check()
    assert p.aborted() == 0, "a decided epoch was written again"


@pytest.mark.faults
def test_death_after_the_decision_with_the_offsets_lost(pipeline):
    """D7o: a power cut takes offsets/N, which Spark does not sync; the decision restores them byte for byte."""
    p = pipeline("count")
    p.die_at(f"D7@{EPOCH}")
    lost = p.checkpoint / "offsets" / str(EPOCH)
    before = lost.read_bytes()
    lost.unlink()
    (lost.parent / f".{EPOCH}.crc").unlink()
    p.run_well()
    assert lost.read_bytes() == before
    p.check()


@pytest.mark.faults
def test_a_second_death_during_the_recovery_from_the_first(pipeline):
    """D5 and then D6 in the roll-forward: the third start finishes what two have left."""
    p = pipeline("count")
    p.die_at(f"D5@{EPOCH}")
    p.die_at("S1")
    p.run_well()
    p.check()


@pytest.mark.faults
def test_a_torn_decision_stops_the_start_and_is_named(pipeline):
    """D4t: a torn decision may be a decision: it is never skipped; put back, the job goes on."""
    p = pipeline("copy")
    p.die_at(f"D5@{EPOCH}")
    newest = max((p.ours / "journal").glob("*.json"))
    saved = newest.read_bytes()
    newest.write_bytes(saved[: len(saved) // 2])
    ended = p.run()
    assert ended.code == 1
    assert str(newest) in ended.log
    newest.write_bytes(saved)
    p.run_well()
    p.check()


@pytest.mark.faults
def test_a_copied_checkpoint_is_refused(pipeline, tmp_path):
    """Z2: a copy at another place is refused and named; the original goes on."""
    p = pipeline("copy")
    p.die_at(f"D5@{EPOCH}")
    copy = tmp_path / "copy"
    shutil.copytree(p.checkpoint, copy)
    ended = p.run(CHECKPOINT=str(copy))
    assert ended.code == 1
    assert "another place" in ended.log
    assert 'takeover="claim"' in ended.log
    p.run_well()
    p.check()


@pytest.mark.faults
def test_a_rewound_checkpoint_is_refused(pipeline, tmp_path):
    """Z2: an older copy put back at the same place is older than the job's mark in Kafka: refused, nothing written."""
    p = pipeline("copy")
    p.die_at(f"D5@{EPOCH}")
    older = tmp_path / "older"
    shutil.copytree(p.checkpoint, older)
    p.run_well()
    shutil.rmtree(p.checkpoint)
    older.rename(p.checkpoint)
    ended = p.run()
    assert ended.code == 1
    assert "is older than what this job has done" in ended.log
    assert len(p.read()) == len(p.sent)
