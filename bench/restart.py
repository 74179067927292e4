"""``python -m bench.restart``: the fraud job fails in the middle, and is started again in its process: how long?

From the line that tells of the failure to the line of the first epoch that Spark has recorded after it; rows that were
decided before are visible sooner. The strategy waits 0 s. Then every alert is counted.
Must not know: how a restart is made.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from bench import machine, reading
from bench.expiry import send_all
from bench.stage import ALL, Stage, stage
from bench.workload import Payments

RESULTS = Path(__file__).resolve().parent / "results" / "restart.json"

RECORDS = 40_000
STEP_US = 10_000
CHUNK = 4_000
FAILS_IN = 5
POINTS = {
    "D3": "before the decision: some of its tasks were prepared",
    "D4": "before the decision: all was prepared",
    "D5": "decided, nothing committed",
    "D7": "committed, not recorded by Spark",
}
_PATIENCE_S = 240.0
_RESTARTS_AT_ONCE = {
    "ONCEFLOW__RESTART_STRATEGY__TYPE": "fixed-delay",
    "ONCEFLOW__RESTART_STRATEGY__FIXED_DELAY__DELAY": "0 s",
}
_AT = r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})"


def main() -> int:
    """The figures, as a file. 1 if an alert was lost or doubled, or nothing failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.restart", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--points", nargs="+", choices=tuple(POINTS), default=list(POINTS))
    asked = parser.parse_args()
    results: dict[str, Any] = machine.head() | {
        "seed": asked.seed,
        "payments": RECORDS,
        "rounds": asked.rounds,
        "points": {},
    }
    payments = Payments(RECORDS, asked.seed, STEP_US)
    with stage() as here:
        source = here.topic("payments")
        send_all(here, source, payments)
        for point in asked.points:
            rounds = [_round(here, source, payments, point) for _ in range(asked.rounds)]
            told = {name: [each[name] for each in rounds] for name in rounds[0]}
            middle = round(statistics.median(told["first_commit_s"]), 2)
            results["points"][point] = {"what": POINTS[point], "median_first_commit_s": middle, **told}
            print(point, json.dumps(results["points"][point]), flush=True)
    results["load_after"] = machine.load()
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    wrong = [each for each in results["points"].values() if sum(each["wrong"]) or not all(each["failed"])]
    return 1 if wrong else 0


def _round(here: Stage, source: str, payments: Payments, point: str) -> dict[str, Any]:
    """One run of the job through one failure."""
    system = ALL["onceflow"]
    assignment = here.assignment(system, "fraud", source, per_epoch=CHUNK, interval_ms=200)
    crash = {"ONCEFLOW_CRASH": f"{point}@{FAILS_IN}:fail", "ONCEFLOW_CRASH_MARK": f"{assignment.scratch}/mark"}
    with here.run(system, assignment, _RESTARTS_AT_ONCE | crash) as process:
        code = process.wait(_PATIENCE_S)
        log = process.log.read_text(errors="replace")
    right, found = payments.alerts(), reading.alerts_of(here.servers, assignment.sink)
    times = _times(log)
    here.clear(assignment)
    wrong = (right - found).total() + (found - right).total()
    return times | {"exit_code": code, "wrong": wrong}


def _times(log: str) -> dict[str, Any]:
    """When what happened after the failure, in seconds from it; and the phases of the start that followed."""
    lines = log.splitlines()
    at = next((i for i, line in enumerate(lines) if "it failed, and is started again" in line), None)
    if at is None:
        return {"failed": False, "first_commit_s": float("nan"), "phases": {}}
    behind = lines[at:]
    first = next(line for line in behind if re.search(r": epoch \d+: .* in, ", line))
    phases = {
        re.sub(r"^(the checkpoint|checks of Kafka).*", r"\1", name): float(took)  # without paths and topics
        for line in behind
        for told in re.findall(r"the job runs, [\d.]+ s after its start began: (.*)", line)
        for name, took in re.findall(r"(?:^|(?<= s, ))(.+?) ([\d.]+) s(?=, |$)", told)
    }
    return {"failed": True, "first_commit_s": round(_s(first) - _s(lines[at]), 2), "phases": phases}


def _s(line: str) -> float:
    told = re.match(_AT, line)
    return datetime.strptime(told[1], "%Y-%m-%d %H:%M:%S,%f").timestamp() if told else float("nan")  # noqa: DTZ007


if __name__ == "__main__":
    sys.exit(main())
