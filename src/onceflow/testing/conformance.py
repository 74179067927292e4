"""Whether a sink keeps its contract: checks that anybody can run against a sink of theirs.

Must not know: any particular sink, Spark, the journal. It does to a sink what drivers and tasks do, and what happens to
them: deaths, retries, two starts at once.

A user's test, once ``World`` is written for the sink::

    @pytest.mark.parametrize("check", conformance.CHECKS, ids=str)
    def test_my_sink(check):
        check(MyWorld())
"""

from __future__ import annotations

from dataclasses import dataclass
from unittest import SkipTest

from onceflow.testing import commits, connections, evidence, plain
from onceflow.testing.check import FOUND, Broken, Check
from onceflow.testing.trial import World

_FILES = (commits, evidence, connections, plain)
CHECKS: tuple[Check, ...] = tuple(
    sorted(FOUND, key=lambda check: [each.__name__ for each in _FILES].index(check.body.__module__))
)
"""All checks, in the order in which they are best read."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A check that was not made, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Report:
    """What the whole suite found."""

    broken: tuple[Broken, ...]
    skipped: tuple[Skipped, ...]


def run(world: World) -> Report:
    """Make all checks, whatever the ones before have found."""
    broken, skipped = [], []
    for check in CHECKS:
        try:
            check(world)
        except Broken as error:
            broken.append(error)
        except SkipTest as reason:
            skipped.append(Skipped(check.name, str(reason)))
    return Report(tuple(broken), tuple(skipped))


__all__ = ["CHECKS", "Broken", "Check", "Report", "Skipped", "World", "run"]
