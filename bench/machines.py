"""``python -m bench.machines HOURS``: the state machines on real systems for hours; what they did and found, by seed.

Each round runs one of them in a process of its own, with a seed of its own, so that a round that finds something is run
again by its seed. ``--mutants`` undoes mends one by one (``tests/machine_mutants.py``): each must be found again by its
machine, by a seed that finds nothing where all stands. Must not know: what a machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from bench import machine
from bench.stage import ROOT
from tests.machine_mutants import MUTANTS, NAMED

RESULTS = Path(__file__).resolve().parent / "results" / "machines.json"
FOUND = RESULTS.with_name("machine_mutants.json")

_LIVES, _SERVERS, _VALUES = (
    "tests/unit/connectors/test_lives.py",
    "tests/integration/connectors/test_lives.py",
    "tests/integration/connectors/test_values.py",
)
_BY_HAND = f"{_VALUES}::test_values_are_there_as_they_are_or_refused"
_BY_SPARK = f"{_VALUES}::test_rows_of_sparks_are_there_as_they_are_or_refused"


@dataclass(frozen=True, slots=True)
class Machine:
    """One of them.

    Attributes:
        tests: What pytest runs of it.
        examples: So many a round, about a minute or two of a quiet core.
        times: How many tests that is.
    """

    tests: str
    examples: int
    times: int = 1


MACHINES = {
    "lives of SQLite": Machine(f"{_LIVES}::TestSqlite", 30),
    "lives of Iceberg": Machine(f"{_LIVES}::TestIceberg", 10),
    "lives of Delta": Machine(f"{_LIVES}::TestDelta", 10),
    "lives of PostgreSQL": Machine(f"{_SERVERS}::test_the_lives_of_a_postgresql", 10),
    "lives of MariaDB": Machine(f"{_SERVERS}::test_the_lives_of_a_mariadb", 10),
    "values of PostgreSQL": Machine(f"{_BY_HAND}[postgresql]", 100),
    "values of MariaDB": Machine(f"{_BY_HAND}[mariadb]", 100),
    "values of SQLite": Machine(f"{_BY_HAND}[sqlite]", 100),
    "values of Iceberg": Machine(f"{_BY_HAND}[iceberg]", 60),
    "values of Delta": Machine(f"{_BY_HAND}[delta]", 60),
    "columns": Machine(f"{_VALUES}::test_columns_of_a_table_change_no_value", 40, times=10),
    "values of Spark in PostgreSQL": Machine(f"{_BY_SPARK}[postgresql]", 100),
    "values of Spark in MariaDB": Machine(f"{_BY_SPARK}[mariadb]", 100),
    "values of Spark in SQLite": Machine(f"{_BY_SPARK}[sqlite]", 100),
    "values of Spark in Iceberg": Machine(f"{_BY_SPARK}[iceberg]", 100),
    "values of Spark in Delta": Machine(f"{_BY_SPARK}[delta]", 100),
    "values of Spark in Kafka": Machine(f"{_BY_SPARK}[kafka]", 100),
}
_SHARE = {_BY_SPARK: 4, f"{_VALUES}::test_columns_of_a_table_change_no_value": 2}
"""These tests make one example of so many that are asked for."""


@dataclass(slots=True)
class Sum:
    """What one of them has done."""

    rounds: int = 0
    examples: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    found: list[dict[str, Any]] = field(default_factory=list)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m bench.machines", description=__doc__)
    parser.add_argument("hours", nargs="?", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each has the next one")
    parser.add_argument("--only", default="", help="machines whose name has this in it")
    parser.add_argument("--mutants", action="store_true", help="undo mends one by one, and see each found again")
    parser.add_argument("--rounds", type=int, default=8, help="for a mutant, at most")
    args = parser.parse_args()
    if args.mutants:
        sys.exit(_mutants(args.only, args.seed, args.rounds))
    sys.exit(_hours(args.hours, args.only, args.seed))


def _hours(hours: float, only: str, seed: int) -> int:
    told: dict[str, Any] = {**machine.head(), "hours": hours, "first_seed": seed, "machines": {}}
    sums = {name: Sum() for name in MACHINES if only in name}
    before = json.loads(RESULTS.read_text())["runs"] if RESULTS.exists() else []
    end = time.monotonic() + hours * 3600
    while time.monotonic() < end:
        name = min(sums, key=lambda each: sums[each].seconds)
        seconds, cpu, failure = round_of(name, seed, {})
        mine, one = sums[name], MACHINES[name]
        mine.rounds, mine.examples = mine.rounds + 1, mine.examples + one.examples * one.times
        mine.seconds, mine.cpu_seconds = mine.seconds + seconds, mine.cpu_seconds + cpu
        if failure is not None:
            mine.found.append({"seed": seed, "told": failure})
        print(f"{name}, seed {seed}: {seconds:.0f} s, {cpu:.0f} s of a core: {failure or 'nothing'}", flush=True)
        told |= {"load_after": machine.load(), "next_seed": seed + 1}
        told["machines"] = {each: _plain(of) for each, of in sums.items() if of.rounds}
        told["hours_run"] = round(sum(of.seconds for of in sums.values()) / 3600, 2)
        RESULTS.write_text(json.dumps({"runs": [*before, told]}, indent=1) + "\n")
        seed += 1
    return int(any(of.found for of in sums.values()))


def _plain(of: Sum) -> dict[str, Any]:
    return {
        "rounds": of.rounds,
        "examples": of.examples,
        "hours": round(of.seconds / 3600, 3),
        "core_hours": round(of.cpu_seconds / 3600, 3),
        "found": of.found,
    }


def _mutants(only: str, seed: int, rounds: int) -> int:
    told: dict[str, Any] = {**machine.head(), "first_seed": seed, "rounds": rounds}
    before = json.loads(FOUND.read_text())["mutants"] if FOUND.exists() else []
    told["mutants"] = [line for line in before if only not in f"{line['rule']}, {line['machine']}"]
    missed = 0
    for number, mutant in enumerate(MUTANTS):
        if only not in f"{mutant.name}, {mutant.machine}":
            continue
        tried = ((each, _undone(mutant.machine, each, number)) for each in range(seed, seed + rounds))
        alone = ((each, why) for each, why in tried if why and _whole(mutant.machine, each) is None)
        found = next(alone, None)
        missed += found is None
        line: dict[str, Any] = {"rule": mutant.name, "machine": mutant.machine}
        line |= {"seed": None} if found is None else {"seed": found[0], "told": found[1]}
        told["mutants"].append(line)
        print(json.dumps(line), flush=True)
        FOUND.write_text(json.dumps(told, indent=1) + "\n")
    return int(missed > 0)


def _undone(name: str, seed: int, number: int) -> str | None:
    return round_of(name, seed, {NAMED: str(number)})[2]


@cache
def _whole(name: str, seed: int) -> str | None:
    """What is found where all stands."""
    return round_of(name, seed, {})[2]


def round_of(name: str, seed: int, more: dict[str, str]) -> tuple[float, float, str | None]:
    """One round of a machine: its seconds, those of a core, and the failure's last line, or None.

    Args:
        name: Which.
        seed: Hypothesis's.
        more: Of its environment.
    """
    one = MACHINES[name]
    asked = one.examples * next((by for tests, by in _SHARE.items() if one.tests.startswith(tests)), 1)
    env = {**os.environ, "LIVES": str(asked), "ONCEFLOW_VALUES": str(asked), **more}
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "tests.machine_mutants", "--timeout", "3600"]
    options += ["-m", "faults or not faults", f"--hypothesis-seed={seed}"]
    before, began = _children(), time.monotonic()
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, one.tests],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds, cpu = time.monotonic() - began, _children() - before
    if run.returncode == 0:
        return seconds, cpu, None
    told = re.findall(r"^(?:E|  \| ) +(\w+(?:Error|Exception|Group|Failed)?: .*)$", run.stdout, re.MULTILINE)
    told = told or run.stdout.splitlines()[-1:] or [run.stderr]
    return seconds, cpu, told[0][:300]


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
