"""``python -m bench.before COMMIT``: epochs of few records, of an older commit and of what is here, in turns.

Both run on the same machine, minutes apart, with the same libraries; only onceflow's own code differs. The figures go
into bench/results/latest.json. Must not know: what changed in between.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from bench import machine, scale
from bench.stage import ROOT, stage

RESULTS = Path(__file__).resolve().parent / "results" / "latest.json"
CASES = ((4, 4), (128, 128))
_FIGURES = ("first_epoch_ms", "prepare_ms", "whole_ms")


def main() -> int:
    """Measure in turns and write the results; 1 if a run was void."""
    parser = argparse.ArgumentParser(prog="python -m bench.before", description=__doc__)
    parser.add_argument("commit", nargs="?", help="the older commit; needs the repository's history")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)  # measure what is imported, into this file
    asked = parser.parse_args()
    if asked.one is not None:
        with stage() as here:
            asked.one.write_text(json.dumps(scale.participants(here, CASES)))
        return 0
    if asked.commit is None:
        parser.error("which commit?")
    load = machine.load()
    with tempfile.TemporaryDirectory(prefix="onceflow-before-") as folder:
        older = Path(folder) / "older"
        _git("worktree", "add", "--detach", "--quiet", str(older), asked.commit)
        try:
            runs = [
                {"code": code, "round": number, **row}
                for number in range(asked.rounds)
                for code, at in (("before", older), ("now", ROOT))
                for row in _measured(at, Path(folder) / "rows.json")
            ]
        finally:
            _git("worktree", "remove", "--force", str(older))
    results = json.loads(RESULTS.read_text())
    results["before"] = {
        "commit": _git("rev-parse", "--short", asked.commit),
        "now": _git("rev-parse", "--short", "HEAD"),
        "rounds": asked.rounds,
        "load_before": load,
        "rows": summary(runs),
        "runs": runs,
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    for row in results["before"]["rows"]:
        print(row)
    return 1 if any(run["void"] for run in runs) else 0


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By number of partitions: the medians before and now, and the median of the rounds' ratios, now : before."""
    rows = []
    for partitions, _ in CASES:
        of = {
            code: [run for run in runs if (run["code"], run["partitions"]) == (code, partitions) and not run["void"]]
            for code in ("before", "now")
        }
        pairs = [(a, b) for a in of["before"] for b in of["now"] if a["round"] == b["round"]]
        row: dict[str, Any] = {"partitions": partitions, "pairs": len(pairs)}
        for figure in _FIGURES if pairs else ():
            row |= {
                f"{figure}_before": median(a[figure] for a, _ in pairs),
                f"{figure}_now": median(b[figure] for _, b in pairs),
                f"{figure}_ratio": round(median(b[figure] / a[figure] for a, b in pairs), 3),
            }
        rows.append(row)
    return rows


def _measured(code: Path, into: Path) -> list[dict[str, Any]]:
    """The rows of a process whose onceflow, and whose jobs', is that of a folder."""
    paths = os.pathsep.join((str(code / "src"), str(ROOT)))
    command = [sys.executable, "-m", "bench.before", "--one", str(into)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": paths}, check=True)
    rows: list[dict[str, Any]] = json.loads(into.read_text())
    return rows


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
