"""A table whose rows are known by a key, beside a topic: what is there after a death, a resume, a delete."""

import json
import shutil
import sqlite3
from collections import Counter

import pytest

import onceflow as of
from tests.support.harness import Pipeline
from tests.support.postgres import running

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EPOCH = 1
RECORDS = 6_000


@pytest.fixture(scope="module")
def server():
    with running() as one:
        yield one


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path, server):
    """Three epochs' worth of input, and a job that counts it into a topic and a new table."""
    server.execute("drop schema public cascade", "create schema public")
    made = Pipeline(cluster, new_topic(4), new_topic(4), tmp_path / "checkpoint", job="totals")
    made.environment = {"DATABASE": server.url()}
    made.send(RECORDS)
    return made


def counts(server) -> dict[bytes, int]:
    """The table."""
    return {key.encode(): n for key, n in server.execute("select key, n from totals")}


def newest(p: Pipeline) -> dict[bytes, int]:
    """The newest count of each key in the topic."""
    found = Counter()
    for key, value in p.read():
        found[key] = max(found[key], int(value.decode().partition('"n":')[2].rstrip("}")))
    return dict(found)


@pytest.mark.parametrize(
    "point", ["D4", *(pytest.param(each, marks=pytest.mark.faults) for each in ("D2", "D3", "D5", "D6", "D6a", "D7"))]
)
@pytest.mark.faults
def test_a_death_in_the_middle_of_an_epoch(pipeline, server, point):
    """D2 to D7: nothing is missing, doubled or left staged."""
    pipeline.die_at(f"{point}@{EPOCH}")
    pipeline.run_well()
    exact = dict(Counter(key for key, _ in pipeline.sent))
    assert counts(server) == newest(pipeline) == exact
    epochs = [d["epoch"] for d in pipeline.decisions()]
    assert [n for (n,) in server.execute("select epoch from onceflow_ledger order by epoch")] == epochs
    assert server.execute("select count(*) from totals_onceflow_staged") == [(0,)]
    assert server.execute("select count(*) from onceflow_attempts where state <> 'aborted'") == [(0,)]
    assert pipeline.open_transactions() == []


@pytest.mark.faults
def test_a_resume_with_lower_epochs(pipeline, server, tmp_path):
    """An older copy of the checkpoint, claimed: its epochs have lower numbers, and their rows win all the same."""
    pipeline.die_at(f"D8@{EPOCH - 1}")
    shutil.copytree(pipeline.checkpoint, tmp_path / "copy")
    pipeline.run_well()
    pipeline.send(1_000)
    pipeline.run_well()
    shutil.rmtree(pipeline.checkpoint)
    shutil.copytree(tmp_path / "copy", pipeline.checkpoint)
    ended = pipeline.run()
    assert ended.code == 1
    assert 'takeover="claim"' in ended.log
    pipeline.per_epoch = 700  # other borders: the newest epoch of before is not reached at the same place
    pipeline.run_well(TAKEOVER="claim")
    assert counts(server) == dict(Counter(key for key, _ in pipeline.sent))


def test_a_changelog_with_deletes(spark, cluster, new_topic, produce, tmp_path):
    """A marked row deletes the one of its key, and the mark is not in the table."""
    source, path = new_topic(2), tmp_path / "bank.db"
    sink = of.DatabaseSink(f"sqlite:///{path}", "bank", key="id", delete_when="gone", create_table=True)

    def change(*of_these):
        for id_, n, gone in of_these:
            produce(source, [json.dumps({"id": id_, "n": n, "gone": gone})], partition=id_ % 2)
        query = of.start(
            of.KafkaSource(cluster, source, value=of.Json("id bigint, n bigint, gone boolean")).load(spark),
            sinks=[sink],
            name="changes",
            checkpointing=of.Checkpointing(tmp_path / "checkpoint"),
            until="caught-up",
        )
        assert query.awaitTermination(120)
        with sqlite3.connect(path) as file:
            return file.execute("select * from bank order by id").fetchall()

    assert change(*((i, 10 * i, False) for i in range(4))) == [(0, 0), (1, 10), (2, 20), (3, 30)]
    changes = ((0, None, True), (1, 11, False), (2, 21, None), (7, 1, True))
    assert change(*changes) == [(1, 11), (2, 21), (3, 30)]
    assert change((0, 5, False)) == [(0, 5), (1, 11), (2, 21), (3, 30)]
