"""What a test has done to the logger of onceflow, as a command does to its process, is undone behind it."""

import logging

import pytest


@pytest.fixture(autouse=True)
def _logger_as_it_was():
    ours = logging.getLogger("onceflow")
    before = ours.level, ours.propagate, ours.handlers[:]
    yield
    ours.setLevel(before[0])
    ours.propagate = before[1]
    ours.handlers[:] = before[2]
