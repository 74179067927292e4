"""Each example, its job killed at every crash point, and what was seen: ``make faults-state``.

    python -m tests.examples.deaths --only sessions --seed 3

Each example has inputs of its own. *First epoch*, *second epoch*, *last epoch*: killed at each point of the epoch,
one death after the other, so a roll forward is killed as well, and D7 comes twice in a row; the first only changes
state, the last no record brings but time alone. *Expired*: decided transactions expire before the next start, all of
them, then a part. *No empty epochs*: ``noDataMicroBatches`` off, so that only records move anything. *Resumed*: a
savepoint of what a death has left begins a new job, which is killed in its turn; what both wrote must be there once.
Results go to ``bench/results/faults-state.json`` as they come;
``tests.examples.page`` makes a page of them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.machine import machine, versions

from onceflow.local.devcluster import FAST_EXPIRY
from tests.examples.stateful import CASES, Run, Verdict, prepared

RESULTS = Path(__file__).parents[2] / "bench" / "results" / "faults-state.json"
FIRST = ("D1", "D7", "D8")
SECOND = ("D1", "D2", "D3", "D4", "D5", "D6", "D6a", "D7", "D7", "D8")
LAST = SECOND[:-1]
IN_WORKERS = {"D2", "D3"}
_LIVES_MS = 60_000
"""So long a transaction lives where it is to expire: an epoch on a slow machine takes less."""

_EXPIRING = {**FAST_EXPIRY, "transaction.max.timeout.ms": str(_LIVES_MS)}
_NO_EMPTY = {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}


def expired(run: Run) -> None:
    """All transactions of epoch 1 expire, and of epoch 2 those that are not committed."""
    for point in ("D5@1", "D6@2"):
        if run.start(point).died:
            run.wait_expired()
    run.start()
    run.settle()


def killed(epoch: int, points: Sequence[str]) -> Callable[[Run], object]:
    """Killed at each of these points of an epoch, one death after the other, and then run to its end."""

    def kill(run: Run) -> None:
        for point in points:
            if not (run.case.session and point in IN_WORKERS):
                run.start(f"{point}@{epoch}")
        run.start()
        run.settle()

    return kill


def without_empty_epochs(run: Run) -> None:
    """Killed around an epoch's decision; what is closed comes out with the records of another day."""
    run.start("D7@1")
    run.start("D5@2")
    run.start()
    run.close(3)
    run.before()
    run.start("D7")
    run.start()


def resumed(run: Run) -> None:
    """Killed, saved, begun as a new job from that, which is killed around its decisions: in its first epoch, too."""
    run.start("D8@1")
    run.resume("D4@2")
    run.start("D7@2")
    run.start("D5@3")
    run.start()
    run.settle()


def one(name: str, what: str, how: Callable[[Run], object], *, records: int, seed: int, **more: Any) -> Verdict:
    """One input of an example, and its verdict."""
    folder = Path(tempfile.mkdtemp(prefix=f"onceflow-{name}-"))
    with prepared(name, folder, records=records, seed=seed, **more) as run:
        run.before()
        how(run)
        verdict = run.judge()
    print(f"{name}, {what}: {'PASS' if verdict.good else 'FAIL'}, {verdict.rows} rows, {len(verdict.starts)} starts")
    if verdict.good:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print("\n".join([*verdict.differences, f"logs and checkpoint stay in {folder}"]))
    sys.stdout.flush()
    return verdict


def _last(name: str, records: int, seed: int) -> Verdict:
    calm = one(name, "no deaths", Run.start, records=records, seed=seed)
    return one(name, "last epoch", killed(calm.epochs - 1, LAST), records=records, seed=seed)


def _input(what: str, how: Callable[[Run], object], **more: Any) -> Callable[[str, int, int], Verdict]:
    return lambda name, records, seed: one(name, what, how, records=records, seed=seed, **more)


INPUTS: Mapping[str, Callable[[str, int, int], Verdict]] = {
    "first epoch": _input("first epoch", killed(0, FIRST)),
    "second epoch": _input("second epoch", killed(1, SECOND)),
    "last epoch": _last,
    "expired": _input("expired", expired, broker=_EXPIRING),
    "no empty epochs": _input("no empty epochs", without_empty_epochs, settings=_NO_EMPTY),
    "resumed": _input("resumed", resumed),
}


def inputs_of(name: str) -> list[str]:
    """The inputs of an example. A program with a session of its own has no start from a savepoint."""
    return [what for what in INPUTS if what != "resumed" or not CASES[name].session]


def keep(name: str, what: str, verdict: Verdict) -> None:
    """Write a result beside those that are there."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"runs": {}}
    told = asdict(verdict) | {
        "verdict": "PASS" if verdict.good else "FAIL",
        "date": datetime.now(UTC).date().isoformat(),
    }
    results["machine"], results["versions"] = machine(), versions()
    results["runs"].setdefault(name, {})[what] = told
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them; 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.examples.deaths", description=__doc__)
    parser.add_argument("--only", default=",".join(CASES), help="examples, with commas between")
    parser.add_argument("--inputs", default=",".join(INPUTS), help=f"of {', '.join(INPUTS)}; with commas between")
    parser.add_argument("--records", type=int, default=1_500)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    good = True
    for name in asked.only.split(","):
        for what in asked.inputs.split(","):
            look = INPUTS[what]
            if what in inputs_of(name):
                verdict = look(name, asked.records, asked.seed)
                keep(name, what, verdict)
                good = good and verdict.good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
