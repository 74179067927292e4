"""Kafka, Iceberg and Delta in one commit: whatever dies, all hold the same epochs, and each row once.

Read again by pyiceberg and deltalake: Spark's own readers of these tables would need jars of theirs.
"""

from collections import Counter

import pytest

from tests.support.harness import Pipeline, rows_of
from tests.support.lake_job import tables

RECORDS = 6_000


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path):
    """Three epochs' worth of input, and a job that writes it to a topic and two tables, which it makes."""
    lake = tmp_path / "lake"
    lake.mkdir()
    made = Pipeline(
        cluster, new_topic(4), new_topic(4), tmp_path / "checkpoint", job="lake", environment={"LAKE": str(lake)}
    )
    made.send(RECORDS)
    return made


pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EPOCH = 1


@pytest.mark.parametrize(
    "point",
    ["D5", *(pytest.param(each, marks=pytest.mark.faults) for each in ("", "D2", "D3", "D4", "D6", "D6a", "D7"))],
)
def test_a_death_leaves_each_row_once_in_all(pipeline, point, tmp_path):
    """D2 to D7 with three sinks, and none: the next start ends or finishes all, and nothing is left beside a table."""
    if point:
        pipeline.die_at(f"{point}@{EPOCH}")
    pipeline.run_well()
    pipeline.check_output()
    assert pipeline.open_transactions() == []
    decided = [d["epoch"] for d in pipeline.decisions()]
    for sink, rows, epochs in tables(pipeline):
        assert epochs == decided
        assert sum(rows_of(d, sink) for d in pipeline.decisions()) == RECORDS
        assert Counter(rows.column("id").to_pylist()) == Counter(range(RECORDS))
        assert all(row["inside"] == {"id": row["id"], "keys": [row["key"]]} for row in rows.to_pylist())
        assert all(row["by"] == [(row["key"], row["id"])] for row in rows.to_pylist())
    assert list(tmp_path.glob("lake/**/_onceflow/attempts/**/*.json")) == []


@pytest.mark.faults
def test_files_that_a_clean_up_took_are_written_again(pipeline, tmp_path):
    """The driver dies between decision and commit, and somebody removes what no version names: a replay, no loss."""
    pipeline.die_at(f"D5@{EPOCH}")
    named = {path for _, _, epochs in tables(pipeline) for path in epochs}
    assert EPOCH not in named
    for path in tmp_path.glob(f"lake/**/onceflow/*/*/*/{EPOCH}/*.parquet"):
        path.unlink()
    ended = pipeline.run_well()
    assert "proven lost" in ended.log
    pipeline.check_output()
    for _, rows, epochs in tables(pipeline):
        assert epochs == [d["epoch"] for d in pipeline.decisions()]
        assert Counter(rows.column("id").to_pylist()) == Counter(range(RECORDS))
