"""Records of 20 bytes to 100 kB: the unchanged copy, with values of one length.

Must not know: how a system works.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench import throughput
from bench.stage import Stage, System
from bench.workload import Numbers

# Bytes of a value, and how many records: a small and a large run, of which the difference is what is warm.
CASES = ((20, 1_000_000, 4_000_000), (110, 1_000_000, 4_000_000), (1_000, 250_000, 1_000_000), (100_000, 2_000, 10_000))
SYSTEMS = ("onceflow", "spark", "flink")


def measure(stage: Stage, systems: Sequence[System], rounds: int, *, quick: bool) -> list[dict[str, Any]]:
    """Every size on every system in every round; quick: the smallest and the largest, with a tenth of the records."""
    runs = []
    for value_bytes, *counts in CASES[:: 3 if quick else 1]:
        inputs = [throughput.Input(stage, Numbers(n // 10 if quick else n, value_bytes)) for n in counts]
        for number in range(rounds):
            for given in inputs:
                for system in systems:
                    if system.name in SYSTEMS:
                        run = throughput.one(stage, system, "copy", given, inputs[0].given.records)
                        run |= {"round": number + 1, "value_bytes": value_bytes}
                        print(f"  {value_bytes:>7} bytes {throughput.line(run)}", flush=True)
                        runs.append(run)
        stage.drop(*(given.topic for given in inputs))
    return runs


def summary(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each size what ``throughput.summary`` says, and the warm rate in MB a second."""
    table = []
    for value_bytes in dict.fromkeys(run["value_bytes"] for run in runs):
        for row in throughput.summary(run for run in runs if run["value_bytes"] == value_bytes):
            warm = row["warm_rate"] and round(row["warm_rate"] * value_bytes / 1e6, 1)
            table.append(row | {"value_bytes": value_bytes, "warm_mb": warm})
    return table
