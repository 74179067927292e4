"""Scale of onceflow itself: partitions and participants, history, memory.

Must not know: peers. It reads what onceflow tells everybody: an epoch's log line.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from bench import reading
from bench.stage import ALL, Assignment, Stage
from bench.throughput import Input
from bench.traffic import Traffic
from bench.workload import PARTITIONS, Payments, send
from confluent_kafka import Producer

from onceflow.checkpoint.journal import Journal
from onceflow.storage.store import Store
from onceflow.twophase.records import Decide

PHASES = ("prepare", "check", "decide", "commit")
"""An epoch's, as its log line names them; what is left of the whole is Spark's."""

_EPOCHS = 8
_WARMING = 2  # epochs that do not count: workers start in them
_PER_PARTITION = 10  # records in an epoch
_PATIENCE_S = 300.0
_KEPT = 100  # epochs whose files Spark keeps
_LINE = re.compile(r"epoch (\d+): ([\d,]+) in, .*?([\d,]+) participants, ([\d,]+) ms \(([^)]*)\)")


def participants(stage: Stage, cases: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Time of small epochs' phases, by source partitions and how many of them have records; in ms.

    Each epoch is one transaction of the producer, and the next one comes when it is done: so every epoch has to ask
    Kafka for its records, which it would not if they had all lain there before the first one.
    """
    rows = []
    for partitions, filled in cases:
        name = f"partitions-{partitions}-{filled}"
        source = stage.topic(name, partitions)
        # Back to back, an epoch would often begin while the producer's transaction is visible in some partitions only.
        assignment = stage.assignment(ALL["onceflow"], "copy", source, bounded=False, interval_ms=1_000)
        fault, log = _in_bursts(stage, assignment, filled)
        whole = [epoch for epoch in epochs_of(log) if epoch["records"] == filled * _PER_PARTITION]
        row: dict[str, Any] = {"partitions": partitions, "filled": filled, "epochs": len(whole[_WARMING:])}
        row |= {"title": f"{partitions} partitions, {filled} with records", "void": fault}
        if not whole[_WARMING:] or whole[0]["epoch"] != 0:
            row["void"] = fault or f"too few epochs had {filled * _PER_PARTITION} records"
        else:
            row["first_epoch_ms"] = whole[0]["whole"]
            row["participants"] = median(epoch["participants"] for epoch in whole[_WARMING:])
            for phase in (*PHASES, "whole"):
                spent = [epoch[phase] for epoch in whole[_WARMING:]]
                row |= {f"{phase}_ms": median(spent), f"{phase}_max_ms": max(spent)}
        print(f"  participants {row}", flush=True)
        rows.append(row)
        stage.clear(assignment)
        stage.drop(source)
    return rows


def _in_bursts(stage: Stage, assignment: Assignment, filled: int) -> tuple[str | None, str]:
    """Run the job and give it one epoch's records after another; what is wrong, if anything, and its log."""
    producer = Producer({"bootstrap.servers": stage.servers, "transactional.id": assignment.source, "log_level": 0})
    producer.init_transactions(60)
    rows = Payments(filled * _PER_PARTITION).rows(0, filled * _PER_PARTITION)
    with stage.run(ALL["onceflow"], assignment) as process:
        for sent in range(len(rows), _EPOCHS * len(rows) + 1, len(rows)):
            producer.begin_transaction()
            send(producer, assignment.source, [(n % filled, key, value) for n, (_, key, value) in enumerate(rows)])
            producer.commit_transaction(60)
            deadline = time.monotonic() + _PATIENCE_S
            # An epoch's line comes when Spark has recorded it: then it waits for the next second.
            while sum(epoch["records"] for epoch in epochs_of(process.log.read_text(errors="replace"))) < sent:
                if time.monotonic() > deadline or not process.running():
                    return f"no epoch for {_PATIENCE_S:.0f} s: ...{process.tail()}", process.log.read_text(
                        errors="replace"
                    )
                time.sleep(0.05)
    seen = sum(map(len, reading.batches(stage.servers, assignment.sink)))
    fault = None if seen == _EPOCHS * len(rows) else f"{seen} records instead of {_EPOCHS * len(rows)}"
    return fault, process.log.read_text(errors="replace")


def epochs_of(log: str) -> list[dict[str, float]]:
    """The epochs that a log tells of: records read, participants, the phases and the whole in ms."""
    found = []
    for line in log.splitlines():
        if match := _LINE.search(line):
            phases = dict(re.findall(r"(\w+) ([\d.]+)", match[5]))
            numbers = [float(text.replace(",", "")) for text in match.groups()[:4]]
            epoch = dict(zip(("epoch", "records", "participants", "whole"), numbers, strict=True))
            found.append(epoch | {name: float(phases.get(name, 0)) for name in PHASES})
    return found


def history(stage: Stage, lengths: Sequence[int]) -> list[dict[str, Any]]:
    """Checkpoint files, and time to start, after so many epochs.

    One epoch is real. The others are synthetic: its decision, appended again and again by the real journal under the
    next epochs' numbers, and Spark's own files as they would lie there (the newest hundred). So what is measured is
    what a start reads, lists and checks, not what the epochs themselves would have cost.
    """
    rows = []
    for length in lengths:
        source = stage.topic(f"history-{length}")
        _spread(stage.servers, source, PARTITIONS, 1_000)
        assignment = stage.assignment(ALL["onceflow"], "copy", source)
        fault, _ = _to_end(stage, assignment)
        folder = Path(assignment.checkpoint)
        began = time.monotonic()
        grow(folder, length)
        appended = time.monotonic() - began
        files = [path for path in folder.rglob("*") if path.is_file()]
        began = time.monotonic()
        Journal(Store(folder / "onceflow" / "journal")).history()
        read = time.monotonic() - began
        row: dict[str, Any] = {"epochs": length, "files": len(files), "bytes": sum(p.stat().st_size for p in files)}
        row |= {"append_ms": round(appended / max(1, length - 1) * 1000, 2), "read_journal_ms": round(read * 1000, 1)}
        row |= _start(stage, replace(assignment, bounded=False))
        row["void"] = fault or row["void"]
        print(f"  history {row}", flush=True)
        rows.append(row)
        stage.clear(assignment)
        stage.drop(source)
    return rows


def grow(checkpoint: Path, length: int) -> None:
    """Make a checkpoint look as after ``length`` epochs (see ``history``)."""
    journal = Journal(Store(checkpoint / "onceflow" / "journal"), retain=_KEPT)
    known, entries = journal.history()
    before = journal.start(known.job_id)
    decision = next(entry.record for entry in reversed(entries) if isinstance(entry.record, Decide))
    newest = decision.epoch
    for epoch in range(newest + 1, newest + length):
        journal.append(replace(decision, incarnation=before.incarnation, epoch=epoch))
        journal.purge()  # as the driver does when an epoch is committed
    for name in ("offsets", "commits"):
        folder = checkpoint / name
        content = (folder / str(newest)).read_bytes()
        for epoch in range(max(newest + 1, newest + length - _KEPT), newest + length):
            (folder / str(epoch)).write_bytes(content)
        if length > _KEPT:
            (folder / str(newest)).unlink()
            (folder / f".{newest}.crc").unlink(missing_ok=True)


def memory(stage: Stage, records: int, seed: int) -> list[dict[str, Any]]:
    """Peak resident memory of each kind of process, for one epoch of so many records. In MB."""
    given = Input(stage, Payments(records, seed))
    rows = []
    for work in ("copy", "fraud"):
        assignment = stage.assignment(ALL["onceflow"], work, given.topic, per_epoch=2 * records)
        peaks: dict[int, tuple[str, int]] = {}
        with stage.run(ALL["onceflow"], assignment) as process:
            while process.running():
                for pid in process.tree():
                    if (peak := _peak(pid, process.pid)) is not None:
                        peaks[pid] = peak
                time.sleep(0.2)
            code = process.wait(1)
        fault = given.fault(stage, work, assignment.sink) if code == 0 else f"exit code {code}: {process.tail()}"
        row: dict[str, Any] = {"work": work, "records": records, "void": fault}
        for role in ("driver_python", "driver_java", "worker"):
            row[f"{role}_mb"] = max((mb for who, mb in peaks.values() if who == role), default=0)
        print(f"  memory {row}", flush=True)
        rows.append(row)
        stage.clear(assignment)
    return rows


def _peak(pid: int, driver: int) -> tuple[str, int] | None:
    """What kind of process it is, and the most memory that it ever had resident (VmHWM), in MB."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = re.search(r"VmHWM:\s*(\d+) kB", status)
    name = re.search(r"Name:\s*(\S+)", status)
    if found is None or name is None:
        return None
    role = "driver_python" if pid == driver else "driver_java" if name[1] == "java" else "worker"
    return role, round(int(found[1]) / 1024)


def _spread(servers: str, topic: str, partitions: int, records: int) -> None:
    """Records over all partitions, the same number in each."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 50, "log_level": 0})
    rows = Payments(records).rows(0, records)
    send(producer, topic, [(number % partitions, key, value) for number, (_, key, value) in enumerate(rows)])
    producer.flush(60)


def _to_end(stage: Stage, assignment: Assignment) -> tuple[str | None, str]:
    with stage.run(ALL["onceflow"], assignment) as process:
        code = process.wait(_PATIENCE_S)
        fault = None if code == 0 else f"exit code {code}: ...{process.tail()}"
    return fault, process.log.read_text(errors="replace")


def _start(stage: Stage, assignment: Assignment) -> dict[str, Any]:
    """Time from the process's start to the first record that it made visible."""
    with (
        Traffic(stage.servers, assignment.source, assignment.sink, 100) as traffic,
        stage.run(ALL["onceflow"], assignment) as process,
    ):
        began = time.monotonic()
        if not traffic.wait_for_first(process.running, _PATIENCE_S):
            return {"start_s": None, "void": f"it did not start: ...{process.tail()}"}
        return {"start_s": round(time.monotonic() - began, 2), "void": None}
