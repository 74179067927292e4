"""The audit of a real job: Spark's own digests are made anew from what the topics and the table hold."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys

import pytest

from onceflow.audit.tables import hash_rows
from tests.support.harness import JOBS, Pipeline, audited, rows_of, wait_until
from tests.support.xx64 import fitting, xx64

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

RECORDS = 6_000


def forge(database, checkpoint, which):
    """Put another share into a row of the table, and eight octets that give the row the hash that it had."""
    trail = next((checkpoint / "onceflow" / "audit").glob("*-000001.jsonl"))
    fields = json.loads(trail.read_text().splitlines()[0])["sinks"]["seen"]["fields"]
    before = [name for name, _ in fields].index("octets")
    names = ", ".join(f'"{name}"' for name, _ in fields[:before])
    with sqlite3.connect(database) as connection:
        *had, octets = connection.execute(f"select {names}, octets from seen where id = ?", [which]).fetchone()
        share = [name for name, _ in fields].index("share")
        seeds = [
            int(hash_rows(fields[:before], [[value] for value in row])[0])
            for row in (had, [*had[:share], 1e9, *had[share + 1 :]])
        ]
        made = fitting(seeds[1], xx64(octets, seeds[0]))
        connection.execute("update seen set share = 1e9, octets = ? where id = ?", [made, which])


def test_a_job_that_died_is_proven_and_what_is_tampered_with_is_found(cluster, new_topic, tmp_path, produce):
    """Killed between decision and receipt and started again: all rows of two topics and a table are as decided.

    Its newest receipt is anchored in a topic, so the verdict holds up to there.

    Then a row of the table is edited, and a record is added to a topic: both are named, and the command ends with 1.
    """
    key = tmp_path / "key"
    key.write_text("0123456789abcdef0123456789abcdef")
    database, anchors = tmp_path / "rows.db", new_topic(1)
    environment = {
        "ONCEFLOW_AUDIT_ANCHOR": f"topic:{anchors}",
        "DATABASE": f"sqlite:///{database}",
        "MARKED": new_topic(2),
        "ONCEFLOW_AUDIT_KEY_FILE": str(key),
    }
    pipeline = Pipeline(
        cluster, new_topic(4), new_topic(4), tmp_path / "checkpoint", job="audited", environment=environment
    )
    pipeline.send(RECORDS)
    pipeline.die_at("D5@1")
    pipeline.run_well()

    code, report = audited(pipeline)
    assert report["findings"] == []
    assert (code, report["good"], report["epochs"]) == (0, True, len(pipeline.decisions()))
    assert report["against"].endswith(f"cut nothing behind receipt {report['epochs']}")
    assert (report["rows"], report["keyed"]) == (3 * RECORDS, 3 * RECORDS)
    code, report = audited(pipeline, "--epochs", "1..1")
    assert (code, report["epochs"], report["findings"]) == (0, 1, [])

    forge(database, pipeline.checkpoint, 78)
    with_key, without = audited(pipeline), audited(pipeline, environment={"ONCEFLOW_AUDIT_KEY_FILE": ""})
    assert (without[0], without[1]["good"], without[1]["against"]) == (0, True, "accidents")
    assert (with_key[0], with_key[1]["changed"]) == (1, 1)
    assert "made to fit the digest" in with_key[1]["findings"][0]["what"]

    with sqlite3.connect(database) as connection:
        connection.execute("update seen set share = share + 1e-9 where id = 77")
    produce(pipeline.sink, ["stranger"])
    code, report = audited(pipeline)
    assert code == 1
    assert (report["changed"], report["foreign"], report["missing"], report["unknown"]) == (1, 1, 0, 0)
    kinds = {each["kind"]: each["what"] for each in report["findings"]}
    assert "table seen: all 6000 rows are there, and not all are those that were decided" in kinds["changed"]
    assert kinds["foreign"].startswith(f"1 records at {pipeline.sink}-0")


@pytest.mark.faults
def test_each_digest_comes_out_again_when_the_plan_is_run_again(cluster, new_topic, tmp_path):
    """By Spark, over what the receipts say was read: each sink's rows and digest of each epoch are as decided."""
    environment = {"DATABASE": f"sqlite:///{tmp_path / 'rows.db'}", "MARKED": new_topic(2)}
    pipeline = Pipeline(
        cluster, new_topic(4), new_topic(4), tmp_path / "checkpoint", job="audited", environment=environment
    )
    pipeline.send(RECORDS)
    pipeline.run_well()
    code, report = audited(pipeline, "--recompute", "1..")
    assert (code, report["findings"]) == (0, [])
    later = (p for decision in pipeline.decisions() if decision["epoch"] >= 1 for p in decision["participants"])
    assert report["rows"] == sum(rows for p in later for _, rows, _, _ in p["parts"])


def files_of(folder):
    """Each file, and when it was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def decided(pipeline, first=0):
    """Epochs and rows that were decided, from an epoch on."""
    later = [decision for decision in pipeline.decisions() if decision["epoch"] >= first]
    return len(later), sum(rows_of(decision) for decision in later)


@pytest.mark.faults
def test_state_is_made_again_epoch_by_epoch(cluster, new_topic, tmp_path):
    """Of a job that died in and behind a commit: from its beginning, from an epoch it retains, and from a savepoint.

    Each decided epoch gives the same rows again, and the checkpoint is left as it was. What does not hold the state is
    refused by name.
    """
    pipeline = Pipeline(cluster, new_topic(4), new_topic(4), tmp_path / "checkpoint", job="count", per_epoch=500)
    pipeline.send(2_000)
    pipeline.die_at("D5@1")
    pipeline.die_at("D7@2")
    pipeline.run_well()
    saved = tmp_path / "saved"
    create = [sys.executable, "-m", "onceflow", "savepoint", "create", f"{pipeline.checkpoint}", str(saved)]
    subprocess.run(create, check=True, env=os.environ | pipeline.settings(), capture_output=True)
    taken = pipeline.decisions()[-1]["epoch"]
    pipeline.send(1_500)
    pipeline.run_well()
    before = files_of(pipeline.checkpoint)
    for options in (["0.."], ["3.."], [f"{taken + 2}..", "--from", str(saved)]):
        code, report = audited(pipeline, "--recompute", *options)
        assert (code, report["findings"]) == (0, [])
        assert (report["epochs"], report["rows"]) == decided(pipeline, int(options[0][:-2])), options
    assert files_of(pipeline.checkpoint) == before

    code, refused = audited(pipeline, "--recompute", f"{taken}..", "--from", str(saved))
    assert (code, refused["error"]) == (1, "ConfigurationError")
    assert f"it is of epoch {taken}, which is not before epoch {taken}" in refused["cause"]
    shutil.rmtree(pipeline.checkpoint / "state")
    code, refused = audited(pipeline, "--recompute", "3..")
    assert (code, refused["error"]) == (1, "ConfigurationError")
    assert "count" not in refused["what"] or "keeps state" in refused["what"]


@pytest.mark.faults
def test_epochs_without_rows_move_state_and_watermark_when_they_are_run_again(cluster, new_topic, tmp_path):
    """Windows that close in later epochs, of records of which some came too late, give the rows that were decided."""
    pipeline = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "checkpoint", job="window", per_epoch=60)
    pipeline.send(400, value=lambda i: json.dumps({"user": f"u{i % 7}", "at": 1_000_000 + i * 2 - i % 5 * 17}).encode())
    pipeline.die_at("D6@4")
    pipeline.run_well()
    epochs, rows = decided(pipeline)
    assert epochs <= int(max(path.name for path in (pipeline.checkpoint / "commits").iterdir() if path.name.isdigit()))
    code, report = audited(pipeline, "--recompute", "0..")
    assert (code, report["findings"], report["epochs"], report["rows"]) == (0, [], epochs, rows)
    assert rows > 0


@pytest.mark.faults
def test_another_plan_over_the_same_state_does_not_pass(cluster, new_topic, tmp_path):
    """A job that counts otherwise gives other rows from the state that the decided ones began with: told by epoch."""
    pipeline = Pipeline(cluster, new_topic(4), new_topic(4), tmp_path / "checkpoint", job="count", per_epoch=500)
    pipeline.send(1_500)
    pipeline.run_well()
    edited = tmp_path / "count_job.py"
    edited.write_text((JOBS / "count_job.py").read_text().replace('F.count("*")', '(F.count("*") * 2)'))
    code, report = audited(pipeline, "--recompute", "1..", file=edited)
    epochs = [each["epoch"] for each in report["findings"] if "run again it gives" in each["what"]]
    assert (code, epochs) == (1, [d["epoch"] for d in pipeline.decisions() if d["epoch"] >= 1])


@pytest.mark.faults
def test_another_plan_does_not_pass_for_the_one_that_was_decided(cluster, new_topic, tmp_path):
    """A job whose rows are drawn by chance gives others when it is run again: told by sink and epoch."""
    pipeline = Pipeline(cluster, new_topic(4), new_topic(4), tmp_path / "checkpoint", job="random")
    pipeline.send(RECORDS)
    pipeline.run_well()
    assert audited(pipeline)[0] == 0
    code, report = audited(pipeline, "--recompute", "0..0")
    assert (code, report["good"]) == (1, False)
    assert [each["epoch"] for each in report["findings"] if "run again it gives" in each["what"]] == [0]


@pytest.mark.faults
def test_it_runs_beside_the_job(cluster, new_topic, tmp_path, processes):
    """While epochs go on, again and again: never a difference, and each time at least as many epochs."""
    pipeline = Pipeline(cluster, new_topic(4), new_topic(4), tmp_path / "checkpoint", environment={"UNTIL": "stopped"})
    pipeline.send(2_000)
    processes.append(pipeline.start())
    wait_until((pipeline.ours / "audit").exists, what="the first receipt")
    epochs = [0]
    for _ in range(5):
        pipeline.send(5_000)
        code, report = audited(pipeline)
        assert (code, report["findings"]) == (0, [])
        epochs.append(report["epochs"])
    assert epochs == sorted(epochs)
    assert epochs[-1] > 2
