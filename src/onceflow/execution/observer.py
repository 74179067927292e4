"""What is told of a job while it runs, to whoever shows it.

Must not know: who that is. Nothing hangs on it: an observer neither waits nor raises.
"""

from __future__ import annotations

from collections.abc import Mapping

from onceflow.checkpoint.statistics import EpochStatistics
from onceflow.twophase.messages import Action, Event


class Observer:
    """One that makes nothing of it. Each method is called from a thread of its own kind, some at the same time."""

    def began(self, epoch: int, expires_after_s: float) -> None:
        """An epoch is in work, and its transactions expire so long after they began; ``inf`` where nothing does."""

    def performed(self, action: Action, event: Event) -> None:
        """The driver has done what the rules asked for, in an epoch or in a start."""

    def ended(self) -> None:
        """The epoch in work is over, well or not."""

    def recorded(self, epoch: EpochStatistics, lag: Mapping[tuple[str, str], int] | None) -> None:
        """Spark has recorded an epoch.

        Args:
            epoch: What it was like.
            lag: Records that were there and not read, by topic and partition; None where that was not looked up.
        """

    def idle(self) -> None:
        """Spark has looked and found nothing to read."""

    def failed(self, epoch: EpochStatistics) -> None:
        """An epoch has failed, and the query with it."""

    def published(self, *, taken: bool) -> None:
        """A group was told where the job stands, and took it or not."""


NOBODY = Observer()
"""For a job that nobody observes."""
