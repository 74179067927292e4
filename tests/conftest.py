"""For all tests: their jobs are seen by no other test run's, and a property has no time limit of its own.

A busy machine proves nothing against a property; and jobs of one name that run at the same time warn of each other.
"""

import os
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture(scope="session", autouse=True)
def _runtime_dir() -> Iterator[None]:
    """The jobs that this process starts know of each other alone; a short path, since a socket's name is bounded."""
    with tempfile.TemporaryDirectory(prefix="of-") as folder:
        os.environ["ONCEFLOW_RUNTIME_DIR"] = folder
        yield


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    """A command that a test runs in this process keeps its files to itself; the next test's are as they were."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)
