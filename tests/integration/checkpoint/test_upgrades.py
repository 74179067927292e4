"""One checkpoint under one Spark after the other, killed on the way: what is in Kafka is there once.

Each Spark is an environment of its own, which ``make test-versions`` makes.
"""

import dataclasses
import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.support.harness import Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.upgrades, pytest.mark.timeout(1_500)]

ROOT = Path(__file__).parents[3]
UP = ("4.0", "4.1", "4.2")
WAYS = {"up and back": (*UP, "4.0"), "one back": ("4.2", "4.1")}
USERS, DELAY_S = 5, 300


def python_of(minor):
    """The environment with a Spark."""
    found = ROOT / f".venv-spark-{minor}" / "bin" / "python"
    if not found.exists():
        pytest.skip(f"Spark {minor} is not here: make .venv-spark-{minor}/.ready")
    return str(found)


def event(i):
    """One a second."""
    return json.dumps({"user": f"u{i % USERS}", "at": i}).encode()


def counts_of(sent):
    """What the window job has to write, by a count of this test's own: windows that the watermark has passed."""
    events = [json.loads(value) for _, value in sent]
    counts = Counter((each["user"], each["at"] // 60 * 60 + 60) for each in events)
    watermark = max(each["at"] for each in events) - DELAY_S
    return Counter((user, end, n) for (user, end), n in counts.items() if end <= watermark)


def found(p):
    """What any reader of committed records sees."""
    return Counter((row["user"], row["end"], row["n"]) for row in (json.loads(value) for _, value in p.read()))


@pytest.mark.parametrize("way", WAYS)
def test_windowed_counts_go_from_one_spark_to_another(cluster, new_topic, tmp_path, way):
    """Killed before the decision and behind it under each: every window is written once, with all that it held.

    A start under another Spark goes on with the state, and with transactions that the last one left open.
    """
    delay = {"DELAY": f"{DELAY_S} seconds"}
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "c", "window", per_epoch=300, environment=delay)
    minors = WAYS[way]
    for minor in minors:
        p = dataclasses.replace(p, python=python_of(minor))
        p.send(1_500, value=event)
        first = next_epoch(p)
        p.die_at(f"D4@{first + 1}")
        p.die_at(f"D5@{first + 2}")
    p.run_well()
    expected = counts_of(p.sent)
    assert len(expected) > 100
    assert found(p) == expected
    assert p.open_transactions() == []


def is_counted_once(p):
    """Of each key every count is there once, up to how many records it has."""
    seen = Counter((key, json.loads(value)["n"]) for key, value in p.read())
    newest = Counter()
    for key, n in seen:
        newest[key] = max(n, newest[key])
    return max(seen.values()) == 1 and newest == Counter(key for key, _ in p.sent)


def sparks_files(p):
    """Every file of Spark's in the checkpoint with what is in it."""
    files = (each for each in p.checkpoint.rglob("*") if each.is_file() and p.ours not in each.parents)
    return {each: each.read_bytes() for each in files}


def test_a_state_class_goes_to_a_newer_spark(cluster, new_topic, tmp_path):
    """Killed behind a decision, and gone on with by a newer one: every record is counted once.

    PySpark 4.0 has no ``transformWithState``, but one in pandas alone.
    """
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "c", "tally", per_epoch=300)
    for minor in ("4.1", "4.2"):
        p = dataclasses.replace(p, python=python_of(minor))
        p.send(900)
        p.die_at(f"D5@{next_epoch(p) + 1}")
    p.run_well()
    assert is_counted_once(p)


def test_a_state_class_of_a_newer_spark_is_refused_by_an_older_one(cluster, new_topic, tmp_path):
    """Before Spark has written anything, with the setting that tells the state's form; the newer one goes on."""
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "c", "tally", python=python_of("4.2"), per_epoch=300)
    p.send(900)
    p.die_at("D5@1")
    before = sparks_files(p)
    ended = dataclasses.replace(p, python=python_of("4.1")).run()
    assert ended.code == 1
    assert "stateStore.rocksdb.mergeOperatorVersion=2" in ended.log
    assert "which this Spark has no setting for" in ended.log
    assert sparks_files(p) == before
    p.run_well()
    assert is_counted_once(p)


@pytest.mark.parametrize("minor", UP)
def test_the_spark_that_is_told_is_the_one_that_runs(minor):
    """An environment that has another Spark than its name says would prove nothing."""
    ask = "import pyspark; print(pyspark.__version__)"
    told = subprocess.run([python_of(minor), "-c", ask], capture_output=True, text=True, check=True).stdout
    assert told.startswith(f"{minor}.")


def next_epoch(p):
    """The first epoch that is not decided."""
    return max((d["epoch"] for d in p.decisions()), default=-1) + 1 if p.checkpoint.exists() else 0
