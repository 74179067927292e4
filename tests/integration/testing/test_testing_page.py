"""docs/testing.md is true: its job and its tests are run as they stand there."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from kafka.admin import NewTopic

from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.local.devcluster import DevCluster

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "testing.md").read_text()
FILES = {found[1]: found[0] for found in re.findall(r"```python\n(# (\S+\.py)\n.*?)```", PAGE, re.DOTALL)}


@pytest.fixture
def folder(tmp_path):
    """A folder with the page's files."""
    assert set(FILES) == {"orders.py", "test_orders.py"}
    for file, text in FILES.items():
        (tmp_path / file).write_text(text)
    return tmp_path


def test_the_pages_job_and_its_first_test(spark, folder, monkeypatch):
    """In a session that is there already, on a cluster whose topics have the page's names."""
    monkeypatch.syspath_prepend(folder)
    told = runpy.run_path(str(folder / "test_orders.py"))
    monkeypatch.delitem(sys.modules, "orders")
    with DevCluster() as cluster:
        with KafkaClient(KafkaCluster(cluster.bootstrap_servers)) as client:
            client.admin.create_topics([NewTopic("orders", 2, 1)])
            client.admin.wait_for_topics(["orders"])
        told["test_paid_orders_are_written_once"](cluster.bootstrap_servers, folder)


@pytest.mark.faults
def test_the_pages_tests_pass_by_themselves(folder):
    """By pytest in a process of its own, without any of this project's fixtures: the death as well."""
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_orders.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "src")]), "SPARK_MASTER": "local[2]"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2 passed" in ended.stdout
