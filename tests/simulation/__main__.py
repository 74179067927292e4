"""``python -m tests.simulation --seed N`` replays one seed with its trace; ``--seeds N`` runs many.

``--exhaustive 2`` runs every pair of faults in three epochs, two sinks and two partitions: the better part of an hour.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import sys
import time
from collections import Counter
from pathlib import Path

from bench.machine import head

from tests.simulation.checks import INVARIANTS
from tests.simulation.explore import Result, every_run, run_scripted, run_seed
from tests.simulation.mutants import MUTANTS
from tests.simulation.sim_driver import Plan, quiet

RESULTS = Path(__file__).resolve().parents[2] / "bench" / "results" / "simulation.json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this seed and print what happened")
    parser.add_argument("--seeds", type=int, default=10_000, help="run so many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--keep", action="store_true", help=f"keep the figures in {RESULTS.name}")
    parser.add_argument("--together", type=int, default=0, help="so many tasks of four are committed as one")
    parser.add_argument("--exhaustive", type=int, metavar="DEPTH", help="every run with at most so many faults")
    parser.add_argument("--script", help='replay faults by step, as an exhaustive run names them: {"12": "die"}')
    parser.add_argument("--mutants", action="store_true", help="which invariant notices which broken rule, as a table")
    asked = parser.parse_args()
    fixed = {"together": asked.together, "partitions": 4} if asked.together else {}
    with quiet():
        if asked.mutants:
            return _mutants()
        if asked.seed is not None:
            return _show(run_seed(asked.seed, traced=True, **fixed), f"seed {asked.seed}")
        if asked.script is not None:
            script = {int(step): fault for step, fault in json.loads(asked.script).items()}
            return _show(run_scripted(Plan(), script, traced=True)[0], f"script {asked.script}")
        if asked.exhaustive is not None:
            runs = ((f"script {json.dumps(script)}", r) for script, r in every_run(Plan(), asked.exhaustive))
            return _many(runs, "--script")
        seeds = range(asked.first, asked.first + asked.seeds)
        runs = ((f"seed {seed}", run_seed(seed, **fixed)) for seed in seeds)
        return _many(runs, "--seed", head() | {"first": asked.first, "seeds": asked.seeds} if asked.keep else None)


def _mutants() -> int:
    print("| Broken rule | Noticed by | First seed | Faults, plan |\n|---|---|---|---|")
    for mutant in MUTANTS:
        how = ", ".join([*mutant.focus, *(f"{k}={v}" for k, v in mutant.fixed.items())]) or "all"
        with mutant.broken():
            runs = ((seed, run_seed(seed, focus=mutant.focus, **mutant.fixed).violation) for seed in range(5_000))
            seed, found = next(
                ((s, v) for s, v in runs if v is not None and v.name in mutant.caught_by), ("none", None)
            )
        print(f"| {mutant.name} | {found.name if found else 'nobody'} | {seed} | {how} |", flush=True)
    print("\n| Invariant | |\n|---|---|")
    for name, words in INVARIANTS.items():
        print(f"| {name} | {words} |")
    return 0


def _show(result: Result, name: str) -> int:
    print("\n".join(result.trace))
    print(f"{name}: {result.violation or result.refusal or 'good'}")
    return int(result.violation is not None)


def _many(runs, option: str, keep: dict | None = None) -> int:
    began, count, bad, refused, faults, marks = time.monotonic(), 0, 0, 0, 0, Counter()
    for name, result in runs:
        count += 1
        marks.update(result.marks)
        faults += len(result.faults)
        refused += result.refusal is not None
        if result.violation is not None:
            bad += 1
            print(f"{name}: {result.violation}\n  replay it with {option}", flush=True)
    for mark, times in sorted(marks.items()):
        print(f"{times:8d}  {mark}")
    print(f"{count} runs, {faults} faults, {refused} refusals, {bad} violations, {time.monotonic() - began:.0f} s")
    if keep is not None:
        took = {"faults": faults, "refusals": refused, "violations": bad, "seconds": round(time.monotonic() - began)}
        _keep(keep | took)
    return int(bad > 0)


def _keep(run: dict) -> None:
    """One more run in the file, which two processes may write to at the same time."""
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        runs = json.loads(RESULTS.read_text())["runs"] if RESULTS.exists() else []
        RESULTS.write_text(json.dumps({"runs": [*runs, run]}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
