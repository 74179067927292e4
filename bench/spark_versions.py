"""``python -m bench.spark_versions``: the tests that hang on Spark, on each Spark, Python and Java that can be had.

It runs pytest once for each suite in the environment of each, and writes down what ran and how it ended, after each;
then the tables in docs/versions.md, and what the README promises. Must not know: what the tests prove.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import interpreters, machine

from onceflow.local.jars import java_executable
from onceflow.spark.versions import NEWEST, TESTED

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "versions.json"
PAGE = ROOT / "docs" / "versions.md"
README = ROOT / "README.md"
BEGIN = "<!-- Made by `make test-versions` from bench/results/versions.json; do not edit. -->"
END = "<!-- Made until here. -->"
_ALL, _QUICK = "faults or not faults", "not faults"
SUITES: Mapping[str, Sequence[str]] = {
    "contract": ("tests/integration/connectors/kafka/test_contract.py",),
    "crash points": ("tests/integration/execution/test_crash_points.py",),
    "state": ("tests/integration/spark/test_timers.py", "tests/integration/checkpoint/test_state_schemas.py"),
    "savepoints": ("tests/integration/operations/test_savepoints.py",),
    "plans": ("tests/integration/launch/test_plan_sources.py", "tests/integration/spark/test_kept.py"),
    "unit": ("tests/unit", "-n", "2", "--dist", "loadfile"),
}
"""What is run under each Spark, as pytest is told."""
UPGRADES, OTHERS = "upgrades", "pythons and javas"
_OWN = ".".join(map(str, sys.version_info[:2]))
_NAMES = (*(f"python{each}" for each in interpreters.PYTHONS), *(f"java{each}" for each in interpreters.JAVAS))
"""What ``--only`` calls the Pythons and Javas."""


def python_of(minor: str) -> Path:
    """The environment of a Spark, which make makes."""
    return ROOT / f".venv-spark-{minor}" / "bin" / "python"


def run(python: Path, suite: Sequence[str], marks: str, java_home: Path | None = None) -> dict[str, Any]:
    """Run tests with an interpreter, and say how each ended that did not pass.

    Args:
        python: The interpreter.
        suite: Files.
        marks: Which of their tests, as pytest's ``-m`` is told.
        java_home: The Java that they start; None is the one that onceflow would find.
    """
    java = {} if java_home is None else {"JAVA_HOME": str(java_home)}
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        subprocess.run(
            [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report.name}", "-m", marks, *suite],
            env=os.environ | java | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
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


def environment_of(minor: str, interpreter: Path) -> Path:
    """The Python of an environment with the locked packages: this one's, or another's, which make makes."""
    if minor == _OWN:
        return Path(sys.executable)
    subprocess.run(["make", f".venv-python-{minor}/.ready", f"PYTHON={interpreter}"], cwd=ROOT, check=True)
    return ROOT / f".venv-python-{minor}" / "bin" / "python"


def pyspark_of(python: Path) -> str:
    """The release of PySpark in an environment."""
    ask = "from importlib.metadata import version; print(version('pyspark'))"
    return subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()


def table(results: Mapping[str, Any]) -> str:
    """The tables of docs/versions.md: for each Spark, Python and Java and each suite, how many passed, of how many."""
    sparks = {f"Spark {r['pyspark']}": r["suites"] for r in results["runs"]}
    others = {f"Python {r['python']}, Java {r['java']}": r["suites"] for r in results.get(OTHERS, ())}
    of = results["machine"]
    lines = [*_columns(sparks), "", f"One checkpoint under one Spark after the other: {_told(results.get(UPGRADES))}."]
    on = {what: " and ".join(sorted({r.get(what, of[what]) for r in results["runs"]})) for what in ("python", "java")}
    lines += ["", f"Those ran on Python {on['python']} and Java {on['java']}; these on Spark {NEWEST}:", ""]
    lines += _columns(others)
    missing = [*_without(interpreters.PYTHONS, results, "python"), *_without(interpreters.JAVAS, results, "java")]
    lines += ["", f"Not run: {', '.join(missing)}."] if missing else []
    failed = [
        f"* {column}, {suite}, **failed**: `{name}`"
        for column, suites in (sparks | others).items()
        for suite, ended in suites.items()
        for name in ended["failed"]
    ]
    lines += ["", *failed] if failed else []
    return "\n".join([*lines, "", f"Each on {of['cores']} cores of {of['processor']}."])


def _columns(runs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = [f"| suite | {' | '.join(runs)} |", "|---" * (len(runs) + 1) + "|"]
    return lines + [
        f"| {suite} | {' | '.join(_told(ended.get(suite)) for ended in runs.values())} |" for suite in SUITES
    ]


def _without(known: Sequence[str], results: Mapping[str, Any], what: str) -> list[str]:
    ran = {_known_as(run[what], known) for run in results.get(OTHERS, ())}
    return [f"{what.title()} {release}" for release in known if release not in ran]


def _known_as(release: str, known: Sequence[str]) -> str:
    """The one of the known releases that a release is a patch of: ``3.12`` for ``3.12.1``, ``21`` for ``21.0.8``."""
    return ".".join(release.split(".")[: known[0].count(".") + 1])


def promised(results: Mapping[str, Any]) -> dict[str, list[str]]:
    """The Pythons and Javas on which the contract and the crash points ran, and on which nothing failed."""
    good = [
        r
        for r in results.get(OTHERS, ())
        if all(r["suites"].get(suite, {}).get("passed") for suite in ("contract", "crash points"))
        and not any(ended["failed"] for ended in r["suites"].values())
    ]
    return {
        what: [release for release in known if release in {_known_as(r[what], known) for r in good}]
        for what, known in (("python", interpreters.PYTHONS), ("java", interpreters.JAVAS))
    }


def readme(text: str, results: Mapping[str, Any]) -> str:
    """The README with what ran in its row of versions."""
    python, java = (" and ".join(", ".join(each).rsplit(", ", 1)) for each in promised(results).values())
    return re.sub(r"Python [\w., ]+, Java [\w, ]+, Kafka", f"Python {python}, Java {java}, Kafka", text, count=1)


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
    parser.add_argument(
        "--only", nargs="+", choices=(*TESTED, *_NAMES), default=(*TESTED, *_NAMES), metavar="4.2|java21"
    )
    parser.add_argument("--suites", nargs="*", choices=(*SUITES, UPGRADES), default=(*SUITES, UPGRADES))
    parser.add_argument("--quick", action="store_true", help="without the tests that are marked `faults`: minutes")
    parser.add_argument(
        "--python", nargs="+", type=Path, default=[], help="interpreters that are not found by themselves"
    )
    parser.add_argument(
        "--java", nargs="+", type=Path, default=[], help="homes of Javas that are not found by themselves"
    )
    parser.add_argument("--page", action="store_true", help="run nothing; write the page and the README's row anew")
    asked = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"runs": []}
    if not asked.page:
        marks = _QUICK if asked.quick else _ALL
        _run_sparks([each for each in TESTED if each in asked.only], asked.suites, results, marks)
        _run_others(asked, results, marks)
    PAGE.write_text(page(PAGE.read_text(), results))
    README.write_text(readme(README.read_text(), results))
    runs = [*results["runs"], *results.get(OTHERS, ())]
    ended = [each for r in runs for each in r["suites"].values()] + [results.get(UPGRADES, {"failed": []})]
    return int(any(each["failed"] for each in ended))


def _run_sparks(minors: Sequence[str], suites: Sequence[str], results: dict[str, Any], marks: str) -> None:
    for minor in minors:
        python = python_of(minor)
        release, java = pyspark_of(python), interpreters.java_release(_java_home())
        anew: dict[str, Any] = {"pyspark": release, "suites": {}}
        mine = next((r for r in results["runs"] if r["pyspark"] == release), anew)
        others = [r for r in results["runs"] if not r["pyspark"].startswith(f"{minor}.")]  # a release replaces another
        results["runs"] = sorted([*others, mine], key=lambda r: r["pyspark"])
        mine |= {"python": interpreters.python_release(python), "java": java}
        for suite in [each for each in SUITES if each in suites]:
            print(f"== Spark {release}: {suite}", flush=True)
            mine["suites"][suite] = run(python, SUITES[suite], marks)
            _write(results)
    if UPGRADES in suites and minors:
        print("== from one Spark to another", flush=True)
        results[UPGRADES] = run(Path(sys.executable), ("tests/integration/checkpoint/test_upgrades.py",), UPGRADES)
        _write(results)


def _run_others(asked: argparse.Namespace, results: dict[str, Any], marks: str) -> None:
    """Each Python with the Java that onceflow would start; each other Java with the Python that runs this."""
    own_java = _java_home()
    pythons = interpreters.pythons([Path(sys.executable), *asked.python])
    javas = interpreters.javas([own_java, *asked.java])
    found = {f"python{minor}": (minor, path, own_java) for minor, path in pythons.items()}
    found |= {f"java{major}": (_OWN, Path(sys.executable), home) for major, home in javas.items()}
    missing = [name for name in _NAMES if name in asked.only and name not in found]
    if missing:
        print(f"== not here: {', '.join(missing)}; --python and --java name what is not found by itself", flush=True)
    for name, (minor, interpreter, home) in found.items():
        if name not in asked.only or (name.startswith("java") and home == own_java):
            continue
        python = environment_of(minor, interpreter)
        told = {"python": interpreters.python_release(python), "java": interpreters.java_release(home)}
        mine = begun(results, told)
        for suite in [each for each in SUITES if each in asked.suites]:
            print(f"== Python {told['python']}, Java {told['java']}: {suite}", flush=True)
            mine["suites"][suite] = run(python, SUITES[suite], marks, home)
            _write(results)


def _java_home() -> Path:
    """Of the Java that onceflow would start."""
    return Path(java_executable()).resolve().parent.parent


def begun(results: dict[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """The run of a Python and a Java among the results; of another patch release than before it is a new one."""
    anew: dict[str, Any] = {**told, "suites": {}}
    mine: dict[str, Any] = next((r for r in results.get(OTHERS, ()) if told.items() <= r.items()), anew)
    others = [r for r in results.get(OTHERS, ()) if _place(r) != _place(told)]
    results[OTHERS] = sorted([*others, mine], key=_place)
    return mine


def _place(run: Mapping[str, Any]) -> tuple[int, int]:
    """The minor release of a Python and the major one of a Java, by which runs replace each other and are sorted."""
    return int(run["python"].split(".")[1]), int(run["java"].split(".")[0])


def _write(results: Mapping[str, Any]) -> None:
    told = {**results, "machine": machine.machine(), "versions": machine.versions()}
    RESULTS.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
