"""Real registries, and a job that reads by them."""

import pytest

from onceflow.launch import schemas
from onceflow.local.devregistry import DevRegistry
from tests.support.registry_job import World


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A registry for all tests that leave it as it is; their subjects are their own."""
    with DevRegistry(tmp_path_factory.mktemp("registry")) as running:
        yield running.url


@pytest.fixture
def own(tmp_path):
    """A registry that a test may end and begin again, emptied."""
    with DevRegistry(tmp_path / "own-registry") as running:
        yield running


@pytest.fixture
def world(spark, cluster, new_topic, tmp_path, monkeypatch):
    monkeypatch.setattr(schemas, "_ABSENT_S", 0.0)
    assert spark
    return World(cluster, new_topic(), new_topic(), str(tmp_path / "checkpoint"))
