"""What is found about a job before it runs: findings, and checks of which all are made before one of them ends a start.

A start and ``onceflow doctor`` make the same checks. What a start refuses is an error, and becomes a finding with the
error's own words; what it only warns of, and what only a person asks, is a finding from the beginning.

Must not know: what is looked at, how findings are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from onceflow.errors import OnceflowError


class Level(StrEnum):
    """How much it matters."""

    ERROR = "error"
    """A start is refused, or the job cannot go on for long."""
    WARNING = "warning"
    """The job runs; what is told can cost rows, a start or a person's time."""
    NOTE = "note"
    """Good to know."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found.

    Attributes:
        level: How much it matters.
        what: What is so.
        why: Why that matters.
        setting: The setting that it hangs on, with its present value; "" where there is none.
        command: What to run or to change.
    """

    level: Level
    what: str
    why: str
    setting: str = ""
    command: str = ""


def of_error(error: OnceflowError) -> list[Finding]:
    """The findings of an error and of those that were found with it."""
    return [
        Finding(
            Level.ERROR,
            each.what,
            f"the job does not start; harmless: {each.harmless}" if each.harmless else "the job does not start",
            each.cause,
            each.action,
        )
        for each in (error, *error.others)
    ]


def together(errors: Sequence[OnceflowError]) -> OnceflowError:
    """One error of one or more: the first that starting again does not mend, else the first; it tells of the others."""
    chosen = next((each for each in errors if not each.retriable), errors[0])
    others = [each for each in errors if each is not chosen]
    return chosen.beside(others) if others else chosen


class Checks:
    """Checks that do not hang on one another. Each is made; what they refuse is raised at the end, as one error."""

    def __init__(self) -> None:
        self._refused: list[OnceflowError] = []

    @contextmanager
    def one(self) -> Iterator[None]:
        """Make one check inside; what it refuses is kept.

        Raises:
            OnceflowError: A system did not answer. Each further question would wait for it again.
        """
        try:
            yield
        except OnceflowError as error:
            self._refused += [error, *error.others]
            if error.retriable:
                self.end()

    def end(self) -> None:
        """Raise what was refused, if anything was.

        Raises:
            OnceflowError: It tells of all.
        """
        if self._refused:
            raise together(self._refused)
