"""``python -m bench.brokers``: the tests that hang on a broker's answers, on each Kafka that onceflow is tested with.

It runs pytest once for each Kafka, with a broker of that version from its own jars, and writes down what ran and how it
ended, after each. Must not know: what the tests prove.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import machine

from onceflow.local.jars import broker_jars

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "brokers.json"

# (version; empty: the one that everything else runs on), (transaction.version; empty: it does not have the feature)
KAFKAS = (("3.1", ""), ("3.7", ""), ("3.9", ""), ("4.0", "1"), ("4.0", "2"), ("", "1"), ("", "2"))
TESTS = ("test_contract.py", "test_oracle.py", "test_crash_points.py", "test_expiry.py")


def run(version: str, level: str, tests: list[str]) -> dict[str, Any]:
    """Run the tests on one Kafka, and say how each ended."""
    exact = broker_jars(version=version or None)[0].stem.partition("-")[2]
    print(f"== Kafka {exact}" + (f", transaction.version={level}" if level else ""), flush=True)
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"--junit-xml={report.name}"]
            + [str(ROOT / "tests" / "integration" / name) for name in tests],
            env=os.environ | {"TEST_KAFKA": version, "TEST_TRANSACTION_VERSION": level},
            cwd=ROOT,
            check=False,
        )
        cases = list(ET.parse(report.name).iter("testcase"))  # noqa: S314 - pytest has just written it
    ended: dict[str, dict[str, Any]] = {}
    for case in cases:
        name = case.get("classname", "").rpartition(".")[2] + ".py"
        told = ended.setdefault(name, {"date": datetime.now(UTC).date().isoformat(), "passed": 0, "not passed": []})
        if len(case):  # a failure, an error, or skipped
            told["not passed"].append(case.get("name"))
        else:
            told["passed"] += 1
    return {"kafka": exact, "transaction.version": level or None, "tests": ended}


def main() -> int:
    """Exit code 0 if all tests passed on all of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(".\n")[0])
    parser.add_argument("--only", help="one Kafka: 3.7, 4.0/1 (with its transaction.version), /1 (the newest)")
    parser.add_argument("tests", nargs="*", default=TESTS, help="other tests than the usual ones")
    asked = parser.parse_args()
    chosen = [k for k in KAFKAS if asked.only in (None, "/".join(filter(None, k)) if k[0] else f"/{k[1]}")]
    if not chosen:
        parser.error(f"there is no Kafka {asked.only}")
    before = json.loads(RESULTS.read_text())["runs"] if RESULTS.exists() else []
    for version, level in chosen:
        now = run(version, level, list(asked.tests))
        for earlier in [r for r in before if (r["kafka"], r["transaction.version"]) == (now["kafka"], level or None)]:
            now["tests"] = earlier["tests"] | now["tests"]
            before.remove(earlier)
        before = sorted([*before, now], key=lambda r: (r["kafka"], r["transaction.version"] or ""))
        told = {"machine": machine.machine(), "versions": machine.versions(), "runs": before}
        RESULTS.write_text(json.dumps(told, indent=1) + "\n")
    return int(any(not r["tests"] or any(t["not passed"] for t in r["tests"].values()) for r in before))


if __name__ == "__main__":
    sys.exit(main())
