"""Throughput: copy and fraud, each system in turn, at two sizes, each output checked.

Must not know: how a system works.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from bench import reading
from bench.processor import ProcessorTime
from bench.stage import ALL, Stage, System
from bench.workload import Alert, Digest, Payments, Records, fill

_PATIENCE_S = 900


class Input:
    """One filled topic, and what must come out of it."""

    def __init__(self, stage: Stage, given: Records) -> None:
        self.given = given
        self.topic = stage.topic(f"{type(given).__name__.lower()}-{given.value_bytes}-{given.records}")
        began = time.monotonic()
        self._digest = fill(stage.servers, self.topic, given)
        self._alerts: Counter[Alert] | None = None
        rate = given.records / (time.monotonic() - began)
        print(f"== input {self.topic}: {given.records:,} records written, {rate:,.0f} a second", flush=True)

    def fault(self, stage: Stage, work: str, topic: str) -> str | None:
        """What is wrong with an output; None if it is right."""
        if work == "copy":
            digest: Digest = reading.digest_of(stage.servers, topic, self.given.value_bytes)
            if digest == self._digest:
                return None
            return f"{digest.count:,} records instead of {self._digest.count:,}, or not the same ones"
        if self._alerts is None:
            if not isinstance(self.given, Payments):
                raise TypeError(f"{work} reads payments")
            self._alerts = self.given.alerts()
        found = reading.alerts_of(stage.servers, topic)
        lost, strange = self._alerts - found, found - self._alerts
        if not lost and not strange:
            return None
        return f"{lost.total()} alerts lost, {strange.total()} doubled or strange, of {self._alerts.total()}"


def measure(
    stage: Stage,
    works: Sequence[str],
    systems: Sequence[System],
    sizes: dict[str, tuple[int, int]],
    rounds: int,
    seed: int,
    per_epoch: int,
) -> list[dict[str, Any]]:
    """Run everything; the runs in the order in which they were made.

    Round 0 is one small run of each system, to be read from disk and forgotten: whoever ran first took up to four
    seconds longer.

    Args:
        stage: Where.
        works: ``copy``, ``fraud``.
        systems: Systems under test.
        sizes: By system's name, a small and a large number of records.
        rounds: How often.
        seed: Of the input.
        per_epoch: Records in a micro-batch of the Spark systems.
    """
    inputs = {n: Input(stage, Payments(n, seed)) for n in sorted({n for pair in sizes.values() for n in pair})}
    runs = []

    def run(number: int, system: System, work: str, index: int) -> None:
        made = one(stage, system, work, inputs[sizes[system.name][index]], per_epoch) | {"round": number}
        runs.append(made)
        print(line(made), flush=True)

    for system in systems:
        run(0, system, works[0], 0)
    for number in range(rounds):
        # Whoever runs first in a round finds another page cache than the next one: so they take turns.
        turn = [*systems[number % len(systems) :], *systems[: number % len(systems)]]
        for work in works:
            for index in range(2):
                for system in turn:
                    run(number + 1, system, work, index)
    return runs


def one(stage: Stage, system: System, work: str, given: Input, per_epoch: int) -> dict[str, Any]:
    """One run of one system, from its start to its end, and the check of its output."""
    records = given.given.records
    # Spark shares a limit out to the partitions and rounds down: a few left over would be an epoch of their own.
    limit = per_epoch + per_epoch // 100
    assignment = stage.assignment(system, work, given.topic, per_epoch=limit, records=records)
    fault: str | None
    with stage.run(system, assignment) as process:
        with ProcessorTime(process.tree) as processor:
            code = process.wait(_PATIENCE_S)
        seconds = time.monotonic() - process.began
        fault = None if code == 0 else f"exit code {code}: ...{process.tail()}"
    if fault is None:
        fault = given.fault(stage, work, assignment.sink)
    stage.clear(assignment)
    run: dict[str, Any] = {"work": work, "system": system.name, "records": records, "seconds": round(seconds, 3)}
    return run | {"rate": round(records / seconds), "processor_s": round(processor.seconds, 2), "void": fault}


def summary(runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each work and system: median whole-run rate of the large size, and what is warm: rate and processor time.

    Warm: the difference of the sizes by the difference of the medians, which takes the start-up out. Round 0 does not
    count.
    """
    valid = [run for run in runs if run["void"] is None and run["round"]]
    table = []
    for work, system in dict.fromkeys((run["work"], run["system"]) for run in valid):
        mine = [run for run in valid if (run["work"], run["system"]) == (work, system)]
        small, large = min(run["records"] for run in mine), max(run["records"] for run in mine)
        times = {n: [run["seconds"] for run in mine if run["records"] == n] for n in (small, large)}
        gained = median(times[large]) - median(times[small])
        warm = round((large - small) / gained) if large > small and gained > 0 else None
        spread = [min(times[large]), max(times[large])]
        row = {"work": work, "system": system, "title": ALL[system].title, "records": large, "runs": len(mine)}
        row |= {"whole_rate": round(large / median(times[large])), "warm_rate": warm, "seconds_spread": spread}
        row |= {"seconds_small": median(times[small]), "seconds_large": median(times[large])}
        spent = {n: median(run["processor_s"] for run in mine if run["records"] == n) for n in (small, large)}
        more = (spent[large] - spent[small]) / (large - small) if large > small else spent[large] / large
        table.append(row | {"processor_s_per_million": round(more * 1e6, 2)})
    return table


def line(run: dict[str, Any]) -> str:
    """A run in one line."""
    fault = "" if run["void"] is None else f"  VOID: {run['void']}"
    head = f"  round {run['round']}  {run['work']:5}  {run['records']:>10,}  {run['system']:13}"
    return f"{head} {run['seconds']:7.1f} s  {run['rate']:>9,} /s{fault}"
