"""A command, as a person types it."""

import sys

import pytest

from onceflow.cli import main as entry


def call(monkeypatch, *arguments):
    """Call ``main``; its exit code."""
    monkeypatch.setattr(sys, "argv", ["onceflow", *arguments])
    with pytest.raises(SystemExit) as end:
        entry.main()
    return end.value.code or 0
