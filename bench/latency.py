"""Latency: from producing a record to its being visible under read_committed, and how long a killed job is away.

Must not know: how a system works.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from bench.stage import ALL, Assignment, Process, Stage, System
from bench.traffic import Traffic

RATE = 5_000  # records a second
INTERVALS_MS = (200, 1_000, 5_000)
LATENCY_CASES = (
    ("onceflow", 0),  # one epoch after the other; Flink has no such thing
    *((system, interval) for system in ("onceflow", "flink") for interval in INTERVALS_MS),
)
RECOVERY_CASES = (("onceflow", 1_000), ("flink", 1_000))

_TRICKLE = 100  # records a second, until the job shows the first one
_WARM_UP_S = 10.0
_START_S = 120.0
_DEAD_NS = 1_000_000_000  # what is seen within a second of the kill was committed before it


def latencies(stage: Stage, systems: Sequence[System], rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Every case in every round: p50, p99, maximum in ms."""
    names = {system.name for system in systems}
    runs = []
    for number in range(rounds):
        for name, interval in LATENCY_CASES:
            if name in names:
                run = _latency(stage, ALL[name], interval, seconds) | {"round": number + 1}
                print(f"  latency {name:10} {interval:>5} ms  {_said(run, ('p50_ms', 'p99_ms', 'max_ms'))}", flush=True)
                runs.append(run)
    return runs


def recoveries(stage: Stage, systems: Sequence[System], rounds: int, seed: int) -> list[dict[str, Any]]:
    """Every case in every round: seconds from SIGKILL to the first record committed by the job's restart."""
    names = {system.name for system in systems}
    dice = random.Random(seed)
    runs = []
    for number in range(rounds):
        kill_after = 8.0 + 4.0 * dice.random()
        for name, interval in RECOVERY_CASES:
            if name in names:
                run = _recovery(stage, ALL[name], interval, kill_after) | {"round": number + 1}
                print(f"  recovery {name:10} {_said(run, ('recovery_s', 'caught_up_s'))}", flush=True)
                runs.append(run)
    return runs


def summary(runs: Sequence[dict[str, Any]], fields: Sequence[str]) -> list[dict[str, Any]]:
    """Medians over the valid rounds of each case."""
    valid = [run for run in runs if run["void"] is None]
    cases = dict.fromkeys((run["system"], run["interval_ms"]) for run in valid)
    return [
        {"system": name, "title": ALL[name].title, "interval_ms": interval}
        | {
            field: median(run[field] for run in valid if (run["system"], run["interval_ms"]) == (name, interval))
            for field in fields
        }
        for name, interval in cases
    ]


def _latency(stage: Stage, system: System, interval: int, seconds: float) -> dict[str, Any]:
    source, assignment = _prepared(stage, system, interval)
    with (
        Traffic(stage.servers, source, assignment.sink, _TRICKLE) as traffic,
        stage.run(system, assignment) as process,
    ):
        fault = _started(traffic, process)
        traffic.rate = RATE
        time.sleep(_WARM_UP_S)
        first = traffic.sent
        time.sleep(seconds)
        last = traffic.sent
        fault = fault or traffic.finish(60)
        spent = sorted((a.seen_ns - a.sent_ns) / 1e6 for a in traffic.arrivals if first <= a.number < last)
    stage.clear(assignment)
    stage.drop(source)
    run = {"system": system.name, "interval_ms": interval, "records": len(spent), "void": fault}
    if not spent:
        return run | {"void": fault or "nothing was seen"}
    quantiles = {name: round(spent[int(part * (len(spent) - 1))], 1) for name, part in _QUANTILES.items()}
    return run | quantiles


_QUANTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "max_ms": 1.0}


def _recovery(stage: Stage, system: System, interval: int, kill_after: float) -> dict[str, Any]:
    source, assignment = _prepared(stage, system, interval)
    run = {"system": system.name, "interval_ms": interval, "killed_after_s": round(kill_after, 1)}
    with Traffic(stage.servers, source, assignment.sink, _TRICKLE) as traffic:
        with stage.run(system, assignment) as process:
            fault = _started(traffic, process)
            traffic.rate = RATE
            time.sleep(kill_after)
            process.kill()
            killed = time.time_ns()
        with stage.run(system, assignment) as process:
            while not (new := [a for a in traffic.arrivals if a.seen_ns > killed + _DEAD_NS]):
                if time.time_ns() - killed > _START_S * 1e9 or not process.running():
                    fault = fault or f"it did not come back: ...{process.tail()}"
                    break
                time.sleep(0.01)
            fault = fault or traffic.finish(90)
            caught_up = time.time_ns()
    stage.clear(assignment)
    stage.drop(source)
    if new:
        run["recovery_s"] = round((new[0].seen_ns - killed) / 1e9, 2)
        run["caught_up_s"] = round((caught_up - killed) / 1e9, 2)
    return run | {"void": fault}


def _prepared(stage: Stage, system: System, interval: int) -> tuple[str, Assignment]:
    assignment = stage.assignment(system, "copy", "", bounded=False, interval_ms=interval)
    source = stage.topic(assignment.sink.replace("out-", "in-", 1))
    return source, replace(assignment, source=source)


def _started(traffic: Traffic, process: Process) -> str | None:
    return None if traffic.wait_for_first(process.running, _START_S) else f"nothing was seen: ...{process.tail()}"


def _said(run: dict[str, Any], fields: Sequence[str]) -> str:
    if run["void"] is not None:
        return f"VOID: {run['void']}"
    return ", ".join(f"{field.rpartition('_')[0]} {run[field]:,}" for field in fields)
