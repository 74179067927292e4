"""What is kept of each epoch for people: bounded, whole lines only, and shown in Flink's three views."""

import json
import logging
import os
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from onceflow.checkpoint import statistics
from onceflow.checkpoint.failures import FailureLine, Failures
from onceflow.checkpoint.statistics import EpochStatistics, Statistics
from onceflow.cli.app import app
from onceflow.errors import ConfigurationError, EpochTimedOutError, PreCommitError, TimeoutTooShortError
from onceflow.execution.epoch_report import EpochReport
from onceflow.execution.progress import failed
from onceflow.execution.progress import statistics as of_progress
from onceflow.operations.checkpoints.overview import Spread, overview
from onceflow.storage.store import Store

DONE = EpochStatistics(
    7, 2, "COMPLETED", "2026-01-01T10:00:00.000Z", 250, {"prepare": 100.0, "commit": 5.5}, {"topic orders": 40},
    {"alerts": 3}, 1, 12, 4_096, "2026-01-01T09:59:00.000Z", 0,
)  # fmt: skip
FAILED = EpochStatistics(8, 2, "FAILED", "2026-01-01T10:00:01.000Z", failure="PreCommitError", what="not proven")


@pytest.fixture
def kept(tmp_path):
    """A checkpoint's, with a start in its journal."""
    journal = tmp_path / "onceflow" / "journal"
    journal.mkdir(parents=True)
    return Statistics(Store(tmp_path / "onceflow" / "statistics"))


def test_what_is_kept_comes_back(kept):
    """Every field, oldest first."""
    kept.add(DONE)
    kept.add(FAILED)
    assert kept.read() == [DONE, FAILED]


def test_it_is_bounded(monkeypatch, tmp_path):
    """At least the newest so many, at most twice as many; another process goes on counting."""
    monkeypatch.setattr(statistics, "KEPT", 3)
    kept = Statistics(Store(tmp_path / "onceflow" / "statistics"))
    for epoch in range(5):
        kept.add(replace(DONE, epoch=epoch))
    again = Statistics(Store(tmp_path / "onceflow" / "statistics"))
    for epoch in range(5, 8):
        again.add(replace(DONE, epoch=epoch))
    assert [each.epoch for each in again.read()] == [3, 4, 5, 6, 7]


def test_a_line_that_is_torn_is_passed_over(kept, tmp_path):
    """A power cut took its end; what another process adds behind it is whole. A newer version's fields are left out."""
    kept.add(DONE)
    file = tmp_path / "onceflow" / "statistics" / "current.jsonl"
    file.write_text(file.read_text()[:-20])
    again = Statistics(Store(tmp_path / "onceflow" / "statistics"))
    again.add(FAILED)
    with file.open("a") as more:
        more.write(json.dumps(json.loads(FAILED.dumps()) | {"colour": "red"}) + "\n[]\n{}\n")
    assert again.read() == [FAILED, FAILED]


def test_a_job_goes_on_without_it(kept, tmp_path, caplog):
    """Where the folder cannot be written it is said, and nothing is raised."""
    (tmp_path / "onceflow" / "statistics").write_text("a file")
    with caplog.at_level(logging.WARNING):
        kept.add(DONE)
    assert "what epoch 7 was like is not kept" in caplog.text


def test_what_spark_and_the_driver_tell_of_an_epoch():
    """Records by source, rows by sink, state, watermark, phases in milliseconds."""
    report = EpochReport(7, 2, rows={"alerts": 3}, participants=1, phases={"prepare": 0.1})
    progress = {
        "timestamp": "2026-01-01T10:00:00.000Z",
        "durationMs": {"triggerExecution": 250},
        "sources": [{"numInputRows": 40}, {"numInputRows": 2}],
        "stateOperators": [
            {"operatorName": "dedupe", "numRowsTotal": 12, "memoryUsedBytes": 4_000},
            {"operatorName": "stateStoreSave", "numRowsTotal": 1, "memoryUsedBytes": 96},
        ],
        "eventTime": {"watermark": "2026-01-01T09:59:00.000Z"},
    }
    source = SimpleNamespace(describe=lambda: "topic orders", system="kafka")
    found = of_progress(report, progress, [source, None], 5)
    assert found == EpochStatistics(
        7, 2, "COMPLETED", "2026-01-01T10:00:00.000Z", 250, {"prepare": 100.0}, {"topic orders": 40, "source 1": 2},
        {"alerts": 3}, 1, 13, 4_096, "2026-01-01T09:59:00.000Z", 5,
    )  # fmt: skip
    plain = of_progress(report, {**progress, "stateOperators": [], "eventTime": {}}, [source, None], None)
    assert (plain.state_rows, plain.state_bytes, plain.watermark, plain.lag) == (None, None, None, None)


def test_what_is_kept_of_an_epoch_that_failed():
    """Our error's class and its first part; of another's its first line."""
    ours = failed(EpochReport(8, 2), PreCommitError("not proven", cause="x"))
    assert (ours.status, ours.failure, ours.what) == ("FAILED", "PreCommitError", "not proven")
    reasons = {EpochTimedOutError: "timed out", TimeoutTooShortError: "expired", PreCommitError: "declined"}
    assert {kind: failed(EpochReport(8, 2), kind("x")).reason for kind in reasons} == reasons
    other = failed(EpochReport(8, 2), RuntimeError("a line\nand another"))
    assert (other.failure, other.what) == ("RuntimeError", "a line")


def test_the_three_views(kept, tmp_path):
    """Counts, the spread of what was measured, and each epoch; a failed one counts in no spread."""
    (tmp_path / "onceflow" / "job.json").write_text("{}")
    kept.add(DONE)
    kept.add(replace(DONE, epoch=8, duration_ms=350, records_in={"topic orders": 60}))
    kept.add(FAILED)
    found = overview(str(tmp_path))
    assert (found.completed, found.failed, found.restored) == (2, {"PreCommitError": 1}, 0)
    assert found.summary["duration_ms"] == Spread(250, 300, 350)
    assert found.summary["records_in"] == Spread(40, 50, 60)
    assert found.summary["commit_ms"] == Spread(5.5, 5.5, 5.5)
    assert [each.status for each in found.history] == ["COMPLETED", "COMPLETED", "FAILED"]


def test_where_nothing_is_there_is_nothing_to_show(tmp_path):
    """A folder that was never a checkpoint's is refused, by its path."""
    with pytest.raises(ConfigurationError, match="there is no checkpoint at"):
        overview(os.fspath(tmp_path / "none"))


def test_the_command(kept, tmp_path):
    """For people lines, the newest of the history; for programs one object."""
    (tmp_path / "onceflow" / "job.json").write_text("{}")
    kept.add(DONE)
    kept.add(FAILED)
    lines = CliRunner().invoke(app, ["checkpoints", str(tmp_path), "--last", "1"]).stdout.splitlines()
    assert lines[1] == "completed 1, failed 1 (1 PreCommitError), restored 0"
    why = "incarnation 2  PreCommitError: not proven"
    assert lines[-1] == f"2026-01-01T10:00:01.000Z  epoch 8  FAILED  0 in, 0 out, 0 participants  {why}"
    told = json.loads(CliRunner().invoke(app, ["checkpoints", str(tmp_path), "--output", "json"]).stdout)
    assert [each["epoch"] for each in told["history"]] == [7, 8]
    assert told["summary"]["duration_ms"] == {"minimum": 250, "average": 250, "maximum": 250}


def test_what_the_job_has_failed_by(tmp_path):
    """Kept beside the epochs, whole lines only; for people lines, for programs one object."""
    (tmp_path / "onceflow").mkdir()
    (tmp_path / "onceflow" / "job.json").write_text("{}")
    failures = Failures(Store(tmp_path / "onceflow" / "failures"))
    first = FailureLine("2026-01-01T10:00:00.000+00:00", "PreCommitError", "not proven", "restart after 1.0 s", 7, 8, 7)
    last = FailureLine("2026-01-01T11:00:00.000+00:00", "Died", "killed", "the job ended", 9)
    failures.add(first)
    file = tmp_path / "onceflow" / "failures" / "current.jsonl"
    file.write_text(file.read_text() + '{"at": "torn')
    Failures(Store(tmp_path / "onceflow" / "failures")).add(last)
    assert failures.read() == [first, last]
    told = CliRunner().invoke(app, ["exceptions", str(tmp_path), "--output", "json"]).stdout
    assert json.loads(told)["exceptions"] == [asdict(first), asdict(last)]
    lines = CliRunner().invoke(app, ["exceptions", str(tmp_path), "--last", "1"]).stdout.splitlines()
    assert lines == ["2026-01-01T11:00:00.000+00:00  Died: killed  ->  the job ended  (pid 9)"]
