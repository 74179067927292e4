"""``python -m bench.executors``: what a second executor brings, on a standalone Spark cluster on this machine.

A master and workers of one core each, every one a process of its own. The same copy with one and with two: large epochs
for throughput, epochs of a few records for what an epoch costs whatever it holds. What epochs took is read from the
job's own statistics. The figures go into bench/results/executors.json and docs/clusters.md. Must not know: peers.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench import machine
from bench.stage import ALL, ROOT, Stage, stage
from bench.workload import Numbers, fill
from tests.support.standalone import Standalone, reached

from onceflow.checkpoint.place import Place
from onceflow.checkpoint.statistics import EpochStatistics

RESULTS = Path(__file__).resolve().parent / "results" / "executors.json"
PAGE = ROOT / "docs" / "clusters.md"
BEGINS, ENDS = "<!-- executors: python -m bench.executors -->\n", "<!-- executors: end -->"
_JOB = ALL["onceflow"]
_WARMING = 2  # epochs that do not count: workers start in them
_PATIENCE_S = 400
_BYTES = 110
WORKS = {"large": (400_000, 8), "small": (40, 40)}
"""Records of an epoch, and how many epochs."""


def main() -> int:
    """Measure in turns, write results and page; 1 if a run was void."""
    parser = argparse.ArgumentParser(prog="python -m bench.executors", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    results: dict[str, Any] = machine.head() | {"runs": []}
    with stage() as here, tempfile.TemporaryDirectory(prefix="onceflow-executors-") as folder:
        topics = {}
        for work, (records, epochs) in WORKS.items():
            topics[work] = here.topic(work)
            fill(here.servers, topics[work], Numbers(records * epochs, _BYTES))
        for number in range(asked.rounds):
            for executors in (1, 2) if number % 2 == 0 else (2, 1):
                with Standalone(Path(folder) / f"{number}-{executors}", executors) as cluster:
                    for work in WORKS:
                        made = run(here, cluster.url, work, topics[work]) | {"executors": executors}
                        results["runs"].append(made)
                        print(json.dumps(made), flush=True)
    results["rows"] = summary(results["runs"])
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    page(results)
    return 1 if any(each["void"] for each in results["runs"]) else 0


def run(here: Stage, master: str, work: str, topic: str) -> dict[str, Any]:
    """One run of the job; what its epochs took."""
    records, epochs = WORKS[work]
    spark = reached(master, memory="900m")
    told = here.assignment(_JOB, "copy", topic, per_epoch=records, interval_ms=0, spark=spark)
    with here.run(_JOB, told, {"SPARK_LOCAL_IP": "127.0.0.1"}) as process:
        code = process.wait(_PATIENCE_S)
        fault = "" if code == 0 else process.tail()
    done = [each for each in Place.at(told.checkpoint, 2).statistics.read() if each.status == "COMPLETED"][_WARMING:]
    read = sum(sum(each.records_in.values()) for each in done)
    if not fault and len(done) < epochs - _WARMING - 1:
        fault = f"{len(done)} epochs in place of {epochs - _WARMING}"
    here.clear(told)
    return {"work": work, "epochs": len(done), "records": read, "void": fault or None, **_took(done)}


def _took(done: Sequence[EpochStatistics]) -> dict[str, Any]:
    took = [each.duration_ms for each in done if each.duration_ms is not None]
    return {"all_ms": sum(took), "epoch_ms": median(took) if took else None}


def summary(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each number of executors: records a second of the large epochs, and milliseconds of a small one."""
    rows = []
    for executors in (1, 2):
        mine = [each for each in runs if each["executors"] == executors and not each["void"]]
        rates = [each["records"] / each["all_ms"] * 1000 for each in mine if each["work"] == "large"]
        small = [each["epoch_ms"] for each in mine if each["work"] == "small"]
        rows.append(
            {
                "executors": executors,
                "runs": len(rates),
                "records_s": round(median(rates)) if rates else None,
                "small_epoch_ms": round(median(small)) if small else None,
            }
        )
    return rows


def table(results: dict[str, Any]) -> list[str]:
    """The lines of the page."""
    lines = ["| executors of one core | records a second, large epochs | an epoch of 40 records |", "|---:|---:|---:|"]
    return [*lines, *(f"| {r['executors']} | {r['records_s']:,} | {r['small_epoch_ms']} ms |" for r in results["rows"])]


def page(results: dict[str, Any]) -> None:
    """Put them where the page has its place for them."""
    text = PAGE.read_text()
    before, rest = text.split(BEGINS)
    behind = rest.split(ENDS)[1]
    told = f"{results['machine']['cores']} cores, a load of {results['load_before']} before it began"
    body = "\n".join([*table(results), "", f"Driver, broker and executors share {told}; {results['made'][:10]}."])
    PAGE.write_text(f"{before}{BEGINS}\n{body}\n\n{ENDS}{behind}")


if __name__ == "__main__":
    sys.exit(main())
