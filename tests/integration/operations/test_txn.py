"""``onceflow txn`` on jobs that really died: what it lists, aborts and refuses, and what a job does after a choice."""

import contextlib
import json
import sys
import uuid
from collections import Counter
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.admin import NewTopic

from onceflow.cli.main import main
from onceflow.connectors.kafka import transactions
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.offsets import bounds
from onceflow.connectors.kafka.partition import Partition
from onceflow.processes import kill_tree
from tests.support.harness import JOBS, Pipeline, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

RECORDS = 5_000
PARTITIONS = 4
TIMEOUT_S = 20  # longer than an epoch on a machine with much else to do


@pytest.fixture
def pipeline(client, tmp_path):
    """Two epochs' worth of input, and a job that has not run yet."""
    names = [f"txn-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    client.admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names])
    client.admin.wait_for_topics(names)
    made = Pipeline(client.cluster, names[0], names[1], tmp_path / "checkpoint")
    made.send(RECORDS)
    return made


@dataclass
class Told:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        return json.loads(self.out.strip().splitlines()[-1])


@pytest.fixture
def txn(pipeline, monkeypatch, capsys):
    """``txn("list", ...)`` runs ``onceflow txn list JOBFILE ...`` without a terminal."""
    for name, value in {"KAFKA": pipeline.cluster.bootstrap_servers, "IN": pipeline.source, "OUT": pipeline.sink,
                        "CHECKPOINT": str(pipeline.checkpoint), "PER_EPOCH": "2500"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)

    def run(command: str, *arguments: str) -> Told:
        line = ["onceflow", "txn", command, str(JOBS / "copy_job.py"), *arguments, "--output", "json"]
        monkeypatch.setattr(sys, "argv", line)
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Told(int(ended.value.code or 0), said.out, said.err)

    return run


@contextlib.contextmanager
def foreign_transaction(pipeline: Pipeline, partition: int):
    """Somebody else's open transaction on one partition of the output; yields its producer."""
    producer = Producer(pipeline.cluster.for_librdkafka() | {"transactional.id": "somebody-else"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(pipeline.sink, b"theirs", partition=partition)
    assert producer.flush(30) == 0
    yield producer


def waiting(client: KafkaClient, topic: str) -> set[int]:
    """Partitions whose read_committed end is not their end."""
    every = [Partition(topic, n) for n in range(PARTITIONS)]
    stable, ends = bounds(client.admin, every), bounds(client.admin, every, isolation="read_uncommitted")
    return {p.number for p in every if stable[p].latest < ends[p].latest}


@pytest.mark.faults
def test_what_lingers_is_listed_and_aborted_and_what_is_foreign_only_named(pipeline, txn, client):
    """Killed at D4: its transactions are refused until a newer start makes them linger; then exactly they end."""
    with foreign_transaction(pipeline, partition=0) as foreign:
        pipeline.die_at("D4@1")
        listed = txn("list").json
        ours = listed["ours"]
        assert {t["standing"] for t in ours} == {"running"}
        assert {t["state"] for t in ours} == {"Ongoing"}
        assert listed["undone_epoch"] is None
        one = ours[0]["transactional_id"]
        refused = txn("abort", one, "--yes")
        assert refused.code == 1
        assert "newest incarnation" in refused.json["cause"]
        assert txn("abort", "somebody-else", "--yes").code == 1

        assert waiting(client, pipeline.sink) == {0, 1, 2, 3}
        assert txn("abort", one, "--claim").code == 2, "without a terminal it needs --yes"
        assert [r["kind"] for r in pipeline.records()].count("start") == 1, "what was refused appended no start"
        claimed = txn("abort", one, "--claim", "--yes").json
        assert (claimed["started"], names_of(claimed["aborted"])) == (2, {one})

        listed = txn("list").json
        assert {t["standing"] for t in listed["ours"]} == {"lingering"}
        assert names_of(listed["ours"]) == names_of(ours) - {one}
        held = {h["partition"] for t in listed["ours"] for h in t["holds"]}
        assert held == waiting(client, pipeline.sink) - {0}, "partition 0 is held by the older, foreign transaction"
        (other,) = listed["foreign"]
        assert other["transactional_id"] == "somebody-else"
        assert [(h["topic"], h["partition"]) for h in other["holds"]] == [(pipeline.sink, 0)]

        assert names_of(txn("abort", "--all-lingering", "--yes").json["aborted"]) == names_of(listed["ours"])
        assert txn("list").json["ours"] == []
        assert waiting(client, pipeline.sink) == {0}
        foreign.abort_transaction(30)  # its epoch was not touched, or this would raise
    wait_until(lambda: waiting(client, pipeline.sink) == set(), 30, "the foreign transaction's end")
    pipeline.run_well()
    pipeline.check()


def test_a_claim_fences_a_running_job(pipeline, txn):
    """After --claim a job that still runs cannot decide its next epoch: it ends, and what it wrote lingers."""
    pipeline.per_epoch = 4 * RECORDS
    process = pipeline.start(UNTIL="stopped")
    try:
        wait_until((pipeline.checkpoint / "commits" / "0").exists, 90, "the first epoch's end")
        claimed = txn("abort", "--all-lingering", "--claim", "--yes").json
        assert (claimed["started"], claimed["aborted"]) == (2, [])
        before = Counter(pipeline.sent)
        pipeline.send(1_000)
        ended = pipeline.end(process)
    finally:
        if process.poll() is None:
            kill_tree(process.pid)
    assert ended.code == 1
    assert "a newer start of this job has taken over" in ended.log
    assert [d["epoch"] for d in pipeline.decisions()] == [0]
    left = txn("list").json["ours"]
    assert {(t["standing"], t["name"]["incarnation"]) for t in left} == {("lingering", 1)}
    assert names_of(txn("abort", "--all-lingering", "--yes").json["aborted"]) == names_of(left)
    assert Counter(pipeline.read()) == before


def test_an_operator_decides_what_the_log_does_not_prove(pipeline, txn, client):
    """Decided, expired, and its records gone: the job stops and names the command; each shard then goes as chosen."""
    pipeline.die_at("D5@0", TIMEOUT=f"{TIMEOUT_S}s")
    sink = pipeline.sink
    listed = txn("list").json
    assert listed["undone_epoch"] == 0
    assert {(t["standing"], t["epoch"], t["state"]) for t in listed["ours"]} == {("decided", 0, "Ongoing")}
    one = listed["ours"][0]["transactional_id"]
    for refused in (txn("abort", one, "--yes"), txn("abort", one, "--claim", "--yes")):
        assert refused.code == 1
        assert "decided" in refused.json["cause"]
    known = txn("describe", one).json
    assert known["evidence"]["outcome"] == "open"
    assert [m["kind"] for m in known["mentions"]] == ["decide"]
    assert [r["kind"] for r in pipeline.records()].count("start") == 1, "what was refused appended no start"
    too_early = txn("resolve", "0", "--choice", "write-again", "--why", "test", "--yes")
    assert too_early.code == 1
    assert "is known" in too_early.json["what"]

    names = [t["transactional_id"] for t in listed["ours"]]
    wait_until(lambda: all(d is None or d.state == "CompleteAbort" for d in described(client, names)), 60, "expiry")
    assert {(t["standing"], t["outcome"]) for t in txn("list").json["ours"]} == {("decided", "aborted")}
    assert "writes these rows again" in txn("abort", one, "--yes").json["action"]
    ends = {TopicPartition(sink, n): at for n, at in ends_of(client, sink).items()}
    client.admin.delete_records(ends)

    stopped = pipeline.run(TIMEOUT=f"{TIMEOUT_S}s")
    assert stopped.code == 1
    assert "onceflow txn resolve <job file> 0" in stopped.log

    shown = txn("resolve").json["undone"]
    found = shown["participants"]
    assert {p["evidence"]["outcome"] for p in found} == {"unknown"}
    assert txn("resolve", "7").code == 1
    assert txn("resolve", "0", "--choice", "write-again", "--yes").code == 2, "a reason is asked for"
    assert txn("resolve", "0", "--choice", "accept-state", "--why", "test", "--yes").code == 1
    written, left = ([f"--participant={':'.join(p['id'])}" for p in of] for of in (found[:1], found[1:]))
    assert len(left) == 1
    assert txn("resolve", "0", "--choice", "count-as-written", *written, "--why", "seen there", "--yes").code == 0
    again = txn("resolve", "0", "--choice", "write-again", *left, "--why", "gone", "--who", "ann", "--yes")
    assert again.code == 0, again.err
    resolves = [r["record"] for r in pipeline.records() if r["kind"] == "resolve"]
    assert [(r["choice"], r["why"]) for r in resolves] == [("count-as-written", "seen there"), ("write-again", "gone")]
    assert resolves[0]["who"].count("@") == 1
    assert resolves[1]["who"] == "ann"

    pipeline.run_well()
    seen = pipeline.read()
    assert len(set(seen)) == len(seen), "doubled"
    assert set(seen) <= set(pipeline.sent)
    assert len(seen) == RECORDS - sum(p["rows"] for p in found[:1]), (
        "counted as written: not written again; all else is there"
    )
    assert txn("resolve").json == {"undone": None}


def names_of(rows: list[dict]) -> set[str]:
    return {row["transactional_id"] for row in rows}


def described(client: KafkaClient, names: list[str]) -> list[transactions.Description | None]:
    found = transactions.describe(client, names)
    return [found[name] for name in names]


def ends_of(client: KafkaClient, topic: str) -> dict[int, int]:
    every = [Partition(topic, n) for n in range(PARTITIONS)]
    return {p.number: held.latest for p, held in bounds(client.admin, every).items()}
