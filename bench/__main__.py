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

from bench import machine, throughput
from bench.stage import ALL, missing, stage

RESULTS = Path(__file__).resolve().parent / "results"
PARTS = ("throughput",)


def main() -> int:
    """Run what is asked for; 1 if a run was void."""
    asked = _arguments()
    systems = [ALL[name] for name in asked.systems]
    absent = [why for system in systems if (why := missing(system))]
    for why in absent:
        print(why, file=sys.stderr)
    if absent:
        return 1
    began = datetime.now(UTC)
    results: dict[str, Any] = {
        "made": began.isoformat(timespec="seconds"),
        "arguments": {**vars(asked), "output": str(asked.output)},
        "machine": machine.machine() | {"load_before": machine.load()},
        "versions": machine.versions(),
        "seed": asked.seed,
    }
    with stage() as here:
        if "throughput" in asked.parts:
            quix = (asked.sizes[0] // 20, asked.sizes[1] // 20)
            sizes = {s.name: quix if s.name == "quix" else asked.sizes for s in systems}
            runs = throughput.measure(here, asked.works, systems, sizes, asked.rounds, asked.seed, asked.per_epoch)
            results |= {"throughput": throughput.summary(runs), "runs": runs}
    results["ratios"] = ratios(results)
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(json.dumps(results, indent=1) + "\n")
    _print(results)
    print(f"\n{asked.output}")
    return 1 if any(run["void"] for run in results.get("runs", [])) else 0


def ratios(results: dict[str, Any]) -> dict[str, float | None]:
    """How we compare; warm rates, so above 1 we are faster. Of latency and recovery below 1 is better."""
    warm = {(row["work"], row["system"]): row["warm_rate"] for row in results.get("throughput", [])}

    def ratio(ours: float | None, theirs: float | None) -> float | None:
        return round(ours / theirs, 3) if ours and theirs else None

    return {
        f"{work}_vs_{peer}": ratio(warm.get((work, "onceflow")), warm.get((work, peer)))
        for work, peer in (
            ("fraud", "spark"),
            ("fraud", "flink"),
            ("copy", "spark"),
            ("copy", "flink"),
            ("fraud", "quix"),
        )
    }


def _print(results: dict[str, Any]) -> None:
    if rows := results.get("throughput"):
        print(f"\n{'':44}{'whole run':>12}{'warm':>12}   (records a second)")
        for row in rows:
            warm = f"{row['warm_rate']:,}" if row["warm_rate"] else "-"
            print(f"{row['work']:6}{row['title']:38}{row['whole_rate']:>12,}{warm:>12}")
    for name, value in results["ratios"].items():
        if value is not None:
            print(f"{name:24}{value:>8.2f}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="What exactly-once costs, beside its peers.")
    parser.add_argument("--works", nargs="+", choices=("copy", "fraud"), default=["copy", "fraud"])
    parser.add_argument(
        "--systems", nargs="+", choices=list(ALL), default=["onceflow", "onceflow-alo", "spark", "flink"]
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sizes", nargs=2, type=int, metavar=("SMALL", "LARGE"), help="records; 2 and 10 million")
    parser.add_argument("--rounds", type=int, help="3")
    parser.add_argument("--per-epoch", type=int, help="records in a micro-batch of the Spark systems; the small size")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="200,000 and 1,000,000 records, one round: no figures")
    parser.add_argument("--output", type=Path, default=RESULTS / "latest.json")
    asked = parser.parse_args()
    asked.sizes = tuple(asked.sizes or ((200_000, 1_000_000) if asked.quick else (2_000_000, 10_000_000)))
    asked.rounds = asked.rounds or (1 if asked.quick else 3)
    asked.per_epoch = asked.per_epoch or asked.sizes[0]
    return asked


if __name__ == "__main__":
    sys.exit(main())
