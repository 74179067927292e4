"""A job of which one sink gets a row now and then."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.harness import JOBS, Pipeline

ALERT = 1_000_000


def quiet_job(cluster, new_topic, tmp_path, url: str) -> Pipeline:
    """The job with a quiet sink, in this database."""
    of = {"job": "quiet", "per_epoch": 10, "environment": {"DATABASE": url}}
    return Pipeline(cluster, new_topic(1), new_topic(1), tmp_path / "checkpoint", **of)


def alerts(p: Pipeline, *ids: int) -> None:
    """Records that the quiet sink gets, too."""
    p._transaction([(b"k", json.dumps({"id": i}).encode()) for i in ids], commit=True)


def onceflow(p: Pipeline, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of the operator's."""
    command = [sys.executable, "-m", "onceflow", *map(str, words)]
    around = os.environ | p.settings() | environment
    return subprocess.run(command, env=around, capture_output=True, text=True, timeout=280, check=False)


def write_again(p: Pipeline, *words: str, file: Path | None = None, **environment: str):
    """Let what was lost be written again."""
    return onceflow(p, "txn", "write-again", file or JOBS / f"{p.job}_job.py", "--yes", *words, **environment)


def audited(p: Pipeline, *words: str) -> None:
    """What is visible is what was decided, as the audit finds it."""
    told = onceflow(p, "audit", JOBS / f"{p.job}_job.py", *words)
    assert told.returncode == 0, told.stdout + told.stderr
