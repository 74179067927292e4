"""The page of versions: what it says of Spark is what ``make test-versions`` has written down."""

import json
import tomllib

from bench import spark_versions

from onceflow.spark.versions import TESTED, minor


def test_the_table_is_made_of_the_results():
    """Nobody has edited it by hand, or forgotten it."""
    results, text = json.loads(spark_versions.RESULTS.read_text()), spark_versions.PAGE.read_text()
    assert spark_versions.page(text, results) == text


def test_each_spark_that_is_told_as_tested_has_run():
    """The crash points and the contract are passed on each minor release that a start takes without a warning."""
    runs = {minor(run["pyspark"]): run["suites"] for run in json.loads(spark_versions.RESULTS.read_text())["runs"]}
    assert tuple(runs) == TESTED
    for suites in runs.values():
        for suite in ("contract", "crash points"):
            assert suites[suite]["passed"] > 0
            assert suites[suite]["failed"] == []


def test_a_python_and_a_java_are_promised_as_they_ran():
    """The README's row is made of the results; the package's classifiers name the same Pythons, and no others."""
    results, text = json.loads(spark_versions.RESULTS.read_text()), spark_versions.README.read_text()
    assert spark_versions.readme(text, results) == text
    project = tomllib.loads((spark_versions.ROOT / "pyproject.toml").read_text())["project"]
    named = [each.rpartition(" ")[2] for each in project["classifiers"] if ":: Python :: 3." in each]
    assert named == spark_versions.promised(results)["python"]


def test_what_failed_or_ran_in_part_is_not_promised():
    """One failure in any suite is too many, and a Python without the crash points has not run."""
    good, bad = ending(failed=[]), ending()
    row = "| Spark 4.0, Python 3.9, Java 11, Kafka 3.1 |"
    runs = [
        {"python": "3.11.7", "java": "17.0.15", "suites": {"contract": good, "crash points": good}},
        {"python": "3.11.7", "java": "21.0.8", "suites": {"contract": good, "crash points": good}},
        {"python": "3.11.7", "java": "25.0.3", "suites": {"contract": good, "crash points": good, "unit": bad}},
        {"python": "3.12.1", "java": "17.0.15", "suites": {"contract": good}},
    ]
    results = {spark_versions.OTHERS: runs}
    assert spark_versions.promised(results) == {"python": ["3.11"], "java": ["17", "21"]}
    assert spark_versions.readme(row, results) == "| Spark 4.0, Python 3.11, Java 17 and 21, Kafka 3.1 |"


def test_another_patch_release_begins_anew():
    """What ran on the one before says nothing of it; the same release goes on with what it has."""
    runs = [
        {"python": "3.11.7", "java": "17.0.15", "suites": {"unit": ending()}},
        {"python": "3.11.7", "java": "21.0.8", "suites": {"unit": ending()}},
    ]
    results = {spark_versions.OTHERS: runs}
    assert spark_versions.begun(results, {"python": "3.11.7", "java": "21.0.13"})["suites"] == {}
    assert spark_versions.begun(results, {"python": "3.11.7", "java": "17.0.15"})["suites"] == {"unit": ending()}
    assert [each["java"] for each in results[spark_versions.OTHERS]] == ["17.0.15", "21.0.13"]


def ending(**told):
    """How a suite ended."""
    return {
        "date": "2026-01-01",
        "marks": "",
        "passed": 2,
        "failed": ["test_a::test_b"],
        "skipped": ["test_a::test_c"],
    } | told


def test_what_did_not_pass_is_named():
    """A failure is on the page by its name, a suite that did not run and a Python that was not had as not run."""
    text = spark_versions.table(
        {
            "machine": {"python": "3.11", "java": "17", "cores": 2, "processor": "A"},
            "runs": [{"pyspark": "4.0.5", "suites": {"contract": ending()}}],
            spark_versions.OTHERS: [{"python": "3.13.0", "java": "17.0.15", "suites": {"unit": ending()}}],
        }
    )
    assert "| contract | 2 of 3 passed, 1 skipped (2026-01-01) |" in text
    assert "| unit | not run |" in text
    assert "* Spark 4.0.5, contract, **failed**: `test_a::test_b`" in text
    assert "| suite | Python 3.13.0, Java 17.0.15 |" in text
    assert "* Python 3.13.0, Java 17.0.15, unit, **failed**: `test_a::test_b`" in text
    assert "Not run: Python 3.11, Python 3.12, Python 3.14, Java 21, Java 25." in text
