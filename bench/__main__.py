"""``python -m bench``: the figures that anybody can make again. See ``--help``.

Must not know: how anything is measured; it chooses, calls, prints the table and writes the file.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import latency, machine, scale, sizes, throughput
from bench.ratios import ratios
from bench.stage import ALL, Stage, System, missing, stage

RESULTS = Path(__file__).resolve().parent / "results"
PARTS = ("throughput", "sizes", "latency", "recovery", "participants", "history", "memory")


def main() -> int:
    """Run what is asked for; 1 if a run was void."""
    asked = _arguments()
    systems = [ALL[name] for name in asked.systems]
    absent = [why for system in systems if (why := missing(system))]
    for why in absent:
        print(why, file=sys.stderr)
    if absent:
        return 1
    results = _begun(asked)
    arguments = {name: value for name, value in vars(asked).items() if name not in ("output", "parts")}
    with stage() as here:
        for part in asked.parts:
            print(f"== {part}", flush=True)
            made = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "load_before": machine.load()}
            results |= _PARTS[part](here, asked, systems)
            results["parts"][part] = made | {"arguments": arguments}
            results["ratios"] = ratios(results)
            # After each part: an hour of runs must not be lost with the last of them.
            asked.output.write_text(json.dumps(results, indent=1) + "\n")
    _print(results)
    for run in void(results):
        print(f"\nvoid, does not count: {run}", file=sys.stderr)
    print(f"\n{asked.output}")
    return 1 if void(results) else 0


def _begun(asked: argparse.Namespace) -> dict[str, Any]:
    """Results without the parts that are asked for; the others stay if they are of this machine and these versions."""
    head = {"machine": machine.machine(), "versions": machine.versions(), "seed": asked.seed}
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    if asked.output.exists():
        found: dict[str, Any] = json.loads(asked.output.read_text())
        if "parts" in found and all(found.get(name) == value for name, value in head.items()):
            return found
    return head | {"parts": {}}


def _throughput(here: Stage, asked: argparse.Namespace, systems: list[System]) -> dict[str, Any]:
    small, large = asked.sizes
    # Quix Streams is pure Python: a twentieth of the input takes it as long.
    sizes = {s.name: (small // 20, large // 20) if s.name == "quix" else asked.sizes for s in systems}
    runs = throughput.measure(here, asked.works, systems, sizes, asked.rounds, asked.seed, asked.per_epoch)
    return {"throughput": throughput.summary(runs), "runs": runs}


def _sizes(here: Stage, asked: argparse.Namespace, systems: list[System]) -> dict[str, Any]:
    # One round: four sizes on three systems take nine minutes.
    runs = sizes.measure(here, systems, 1, quick=asked.quick)
    return {"sizes": sizes.summary(runs), "sizes_runs": runs}


def _latency(here: Stage, asked: argparse.Namespace, systems: list[System]) -> dict[str, Any]:
    runs = latency.latencies(here, systems, asked.rounds, asked.seconds)
    return {"latency": latency.summary(runs, ("p50_ms", "p90_ms", "p99_ms", "max_ms")), "latency_runs": runs}


def _recovery(here: Stage, asked: argparse.Namespace, systems: list[System]) -> dict[str, Any]:
    runs = latency.recoveries(here, systems, asked.rounds, asked.seed)
    return {"recovery": latency.summary(runs, ("recovery_s", "caught_up_s")), "recovery_runs": runs}


def _participants(here: Stage, asked: argparse.Namespace, _: list[System]) -> dict[str, Any]:
    counts = (4, 32) if asked.quick else (4, 32, 128, 512)
    # With records in every partition, and in as few as the first case has.
    cases = [(count, filled) for count in counts for filled in dict.fromkeys((count, counts[0]))]
    return {"participants": scale.participants(here, cases)}


def _history(here: Stage, asked: argparse.Namespace, _: list[System]) -> dict[str, Any]:
    return {"history": scale.history(here, (1, 1_000) if asked.quick else (1, 1_000, 20_000))}


def _memory(here: Stage, asked: argparse.Namespace, _: list[System]) -> dict[str, Any]:
    return {"memory": scale.memory(here, 500_000 if asked.quick else 5_000_000, asked.seed)}


_PARTS = {
    "throughput": _throughput,
    "sizes": _sizes,
    "latency": _latency,
    "recovery": _recovery,
    "participants": _participants,
    "history": _history,
    "memory": _memory,
}


def void(results: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs that prove nothing, because their output was wrong or they did not end well."""
    lists = ("runs", "sizes_runs", "latency_runs", "recovery_runs", "participants", "history", "memory")
    return [run for name in lists for run in results.get(name, []) if run["void"] is not None]


def _print(results: dict[str, Any]) -> None:
    if rows := results.get("throughput"):
        print(f"\n{'':44}{'whole run':>12}{'warm':>12}   (records a second){'processor s/million':>22}")
        for row in rows:
            warm = f"{row['warm_rate']:,}" if row["warm_rate"] else "-"
            spent = row.get("processor_s_per_million", "-")
            print(f"{row['work']:6}{row['title']:38}{row['whole_rate']:>12,}{warm:>12}{spent:>41}")
    for name, fields in _TABLES.items():
        if rows := results.get(name):
            print(f"\n{name}")
            for row in rows:
                said = "  ".join(f"{field} {row[field]:,}" for field in fields if row.get(field) is not None)
                print(f"  {row.get('title', row.get('work', '')):38}{said}")
    print()
    for name, value in results["ratios"].items():
        if value is not None:
            print(f"{name:30}{value:>8.2f}")


_TABLES = {
    "sizes": ("value_bytes", "warm_rate", "warm_mb", "processor_s_per_million"),
    "latency": ("interval_ms", "p50_ms", "p90_ms", "p99_ms", "max_ms"),
    "recovery": ("recovery_s", "caught_up_s"),
    "participants": ("participants", "first_epoch_ms", "prepare_ms", "decide_ms", "commit_ms", "whole_ms"),
    "history": ("epochs", "files", "bytes", "read_journal_ms", "start_s"),
    "memory": ("records", "driver_python_mb", "driver_java_mb", "worker_mb"),
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="What exactly-once costs, beside its peers. All of it: about 85 minutes on two cores.",
    )
    parser.add_argument("--works", nargs="+", choices=("copy", "fraud"), default=["copy", "fraud"])
    parser.add_argument("--systems", nargs="+", choices=list(ALL), default=list(ALL))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sizes", nargs=2, type=int, metavar=("SMALL", "LARGE"), help="records; 2 and 8 million")
    parser.add_argument("--rounds", type=int, help="3")
    parser.add_argument("--per-epoch", type=int, help="records in a micro-batch of the Spark systems; the small size")
    parser.add_argument("--seconds", type=float, help="of measured traffic for latency; 40")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="small, short, one round: to see that it works")
    parser.add_argument("--output", type=Path, default=RESULTS / "latest.json")
    asked = parser.parse_args()
    asked.sizes = tuple(asked.sizes or ((200_000, 1_000_000) if asked.quick else (2_000_000, 8_000_000)))
    asked.rounds = asked.rounds or (1 if asked.quick else 3)
    asked.per_epoch = asked.per_epoch or asked.sizes[0]
    asked.seconds = asked.seconds or (10.0 if asked.quick else 40.0)
    return asked


if __name__ == "__main__":
    sys.exit(main())
