"""What is shipped works: the built wheel, installed elsewhere, runs a job."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.support.harness import Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_a_job_runs_from_the_built_wheel(cluster, new_topic, tmp_path):
    """The wheel holds all that a job needs, its jar list too, and nothing is taken from the source tree.

    Nor does a job need what stands beside it in the wheel: tools, the demo, a Kafka of one's own, SQL, the auditor.
    """
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
    for tools in ("archive", "audit", "cli", "demo", "flinksql", "local/devcluster", "testing"):
        shutil.rmtree(site / "onceflow" / tools)
    fraud = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "fraud", "fraud", 2_000)
    fraud.environment = pipeline.environment | {"MORE_THAN": "10"}
    fraud.send(2_000, value=lambda n: json.dumps({"user": f"u{n % 3}", "amount": 1, "at_ms": 50 * n}).encode())
    fraud.run_well()
    found = [json.loads(value) for _, value in fraud.read()]
    assert [
        (each["user"], each["payments"], each["end_ms"]) for each in sorted(found, key=lambda each: each["user"])
    ] == [(f"u{user}", 400, 60_000) for user in range(3)]
