"""The page of versions: what it says of Spark is what ``make test-versions`` has written down."""

import json

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


def test_what_did_not_pass_is_named():
    """A failure is on the page by its name, a suite that did not run as not run."""
    ended = {
        "date": "2026-01-01",
        "marks": "",
        "passed": 2,
        "failed": ["test_a::test_b"],
        "skipped": ["test_a::test_c"],
    }
    text = spark_versions.table(
        {
            "machine": {"python": "3.11", "java": "17", "cores": 2, "processor": "A"},
            "runs": [{"pyspark": "4.0.5", "suites": {"contract": ended}}],
        }
    )
    assert "| contract | 2 of 3 passed, 1 skipped (2026-01-01) |" in text
    assert "| unit | not run |" in text
    assert "* Spark 4.0.5, contract, **failed**: `test_a::test_b`" in text
