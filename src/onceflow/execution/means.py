"""What a start works with: a way to its checkpoint, rules, threads, a clock, and the way to stop it.

Must not know: what any of it is used for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

from onceflow.checkpoint.place import Place
from onceflow.execution.stop import Stop
from onceflow.spark.locations import place_at
from onceflow.twophase.coordinator import Coordinator

Opened = Callable[[str | os.PathLike[str], int], Place]
"""Opens the checkpoint at a location, of which so many epochs are kept."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """One driver's.

    Attributes:
        stop: How it is asked to stop.
        now: Seconds on a clock that nobody sets.
        commits: Threads for what goes out to several sinks at once, and one for what is read meanwhile.
        marks: A thread for marks, which must never stand in a commit's way.
    """

    stop: Stop
    now: Callable[[], float]
    commits: Executor
    marks: Executor

    @classmethod
    def of_process(cls, sinks: int) -> Self:
        """Real ones, for so many sinks."""
        commits = ThreadPoolExecutor(max(1, sinks) + 1, "onceflow-commit")
        return cls(Stop(), time.monotonic, commits, ThreadPoolExecutor(1, "onceflow-mark"))


@dataclass(frozen=True, slots=True)
class Means:
    """What a start makes its driver of.

    Attributes:
        opened: Opens the checkpoint. Asked again for each driver, which has a view of the journal of its own.
        rules: Makes the rules for the sinks that take part.
        around: Makes what a driver has of its process, for so many sinks.
    """

    opened: Opened = place_at
    rules: Callable[[Collection[str]], Coordinator] = Coordinator
    around: Callable[[int], Surroundings] = Surroundings.of_process


REAL = Means()
"""Files, threads and clock of this process."""
