"""What is shipped works: the built wheel, installed elsewhere, runs a job."""

import subprocess
import sys

import pytest

from tests.support.harness import Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_a_job_runs_from_the_built_wheel(cluster, new_topic, tmp_path):
    """The wheel holds all that a job needs, its jar list too, and nothing is taken from the source tree."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("onceflow-*.whl")
    site = tmp_path / "elsewhere"
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site), str(wheel)]
    subprocess.run([sys.executable, *install], check=True)
    where = [sys.executable, "-c", "import onceflow; print(onceflow.__file__)"]
    found = subprocess.run(where, env={"PYTHONPATH": str(site)}, check=True, capture_output=True, text=True)
    assert found.stdout.startswith(str(site))
    pipeline = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "checkpoint")
    pipeline.environment = {"PYTHONPATH": str(site)}
    pipeline.send(2_000)
    pipeline.run_well()
    pipeline.check()
