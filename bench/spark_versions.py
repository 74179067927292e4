"""``python -m bench.spark_versions``: the tests that hang on Spark, on each minor release that onceflow is tested with.

It runs pytest once for each suite in the environment of each Spark, and writes down what ran and how it ended, after
each; then the table in docs/versions.md. Must not know: what the tests prove.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import machine

from onceflow.spark.versions import TESTED

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "versions.json"
PAGE = ROOT / "docs" / "versions.md"
BEGIN = "<!-- Made by `make test-versions` from bench/results/versions.json; do not edit. -->"
END = "<!-- Made until here. -->"
_ALL, _QUICK = "faults or not faults", "not faults"
SUITES: Mapping[str, Sequence[str]] = {
    "contract": ("tests/integration/test_contract.py",),
    "crash points": ("tests/integration/test_crash_points.py",),
    "state": ("tests/integration/test_timers.py", "tests/integration/test_state_schemas.py"),
    "savepoints": ("tests/integration/test_savepoints.py",),
    "plans": ("tests/integration/test_plan_sources.py", "tests/integration/test_kept.py"),
    "unit": ("tests/unit", "-n", "2", "--dist", "loadfile"),
}
"""What is run under each Spark, as pytest is told."""
UPGRADES = "upgrades"


def python_of(minor: str) -> Path:
    """The environment of a Spark, which make makes."""
    return ROOT / f".venv-spark-{minor}" / "bin" / "python"


def run(python: Path, suite: Sequence[str], marks: str) -> dict[str, Any]:
    """Run tests with an interpreter, and say how each ended that did not pass.

    Args:
        python: The interpreter.
        suite: Files.
        marks: Which of their tests, as pytest's ``-m`` is told.
    """
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        subprocess.run(
            [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report.name}", "-m", marks, *suite],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
            cwd=ROOT,
            check=False,
        )
        text = Path(report.name).read_text()
    today = datetime.now(UTC).date().isoformat()
    ended: dict[str, Any] = {"date": today, "marks": marks, "passed": 0, "failed": [], "skipped": []}
    for case in ET.fromstring(text).iter("testcase") if text else ():  # noqa: S314 - pytest has just written it
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            ended["failed"].append(name)
        elif case.find("skipped") is not None:
            ended["skipped"].append(name)
        else:
            ended["passed"] += 1
    return ended


def pyspark_of(python: Path) -> str:
    """The release of PySpark in an environment."""
    ask = "from importlib.metadata import version; print(version('pyspark'))"
    return subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()


def table(results: Mapping[str, Any]) -> str:
    """The table of docs/versions.md: for each Spark and suite, how many tests passed, of how many."""
    sparks = [f"Spark {r['pyspark']}" for r in results["runs"]]
    lines = [f"| suite | {' | '.join(sparks)} |"]
    lines.append("|---" * (len(results["runs"]) + 1) + "|")
    lines += [f"| {suite} | {' | '.join(_told(r['suites'].get(suite)) for r in results['runs'])} |" for suite in SUITES]
    lines += ["", f"One checkpoint under one Spark after the other: {_told(results.get(UPGRADES))}."]
    lines += [
        f"* Spark {r['pyspark']}, {suite}, **failed**: `{name}`"
        for r in results["runs"]
        for suite, ended in r["suites"].items()
        for name in ended["failed"]
    ]
    of = results["machine"]
    return "\n".join(
        [*lines, "", f"Python {of['python']}, Java {of['java']}, {of['cores']} cores of {of['processor']}."]
    )


def _told(ended: Mapping[str, Any] | None) -> str:
    if ended is None:
        return "not run"
    many = ended["passed"] + len(ended["failed"])
    skipped = f", {len(ended['skipped'])} skipped" if ended["skipped"] else ""
    quick = "" if ended["marks"] != _QUICK else ", without `faults`"
    return f"{ended['passed']} of {many} passed{skipped}{quick} ({ended['date']})"


def page(text: str, results: Mapping[str, Any]) -> str:
    """A page with the table in its place."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table(results)}\n\n{END}{rest.partition(END)[2]}"


def main() -> int:
    """Exit code 0 if all that is written down has passed."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_versions", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=TESTED, default=TESTED, help="minor releases of Spark")
    parser.add_argument("--suites", nargs="*", choices=(*SUITES, UPGRADES), default=(*SUITES, UPGRADES))
    parser.add_argument("--quick", action="store_true", help="without the tests that are marked `faults`: minutes")
    parser.add_argument("--page", action="store_true", help="run nothing; write the page anew")
    asked = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"runs": []}
    if not asked.page:
        _run_all(asked.only, asked.suites, results, _QUICK if asked.quick else _ALL)
    PAGE.write_text(page(PAGE.read_text(), results))
    ended = [each for r in results["runs"] for each in r["suites"].values()] + [results.get(UPGRADES, {"failed": []})]
    return int(any(each["failed"] for each in ended))


def _run_all(minors: Sequence[str], suites: Sequence[str], results: dict[str, Any], marks: str) -> None:
    for minor in minors:
        python = python_of(minor)
        release = pyspark_of(python)
        anew: dict[str, Any] = {"pyspark": release, "suites": {}}
        mine = next((r for r in results["runs"] if r["pyspark"] == release), anew)
        others = [r for r in results["runs"] if not r["pyspark"].startswith(f"{minor}.")]  # a release replaces another
        results["runs"] = sorted([*others, mine], key=lambda r: r["pyspark"])
        for suite in [each for each in SUITES if each in suites]:
            print(f"== Spark {release}: {suite}", flush=True)
            mine["suites"][suite] = run(python, SUITES[suite], marks)
            _write(results)
    if UPGRADES in suites:
        print("== from one Spark to another", flush=True)
        results[UPGRADES] = run(Path(sys.executable), ("tests/integration/test_upgrades.py",), UPGRADES)
        _write(results)


def _write(results: Mapping[str, Any]) -> None:
    told = {**results, "machine": machine.machine(), "versions": machine.versions()}
    RESULTS.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
