"""What ``onceflow init`` writes runs as it stands."""

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_the_test_that_it_writes_passes(tmp_path):
    """By pytest in a process of its own: the job, with its settings, on the Kafka that the test starts."""
    subprocess.run([sys.executable, "-m", "onceflow", "init", "shop"], cwd=tmp_path, check=True)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path / "shop",
        env=os.environ | {"SPARK_MASTER": "local[2]"},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 passed" in ended.stdout
