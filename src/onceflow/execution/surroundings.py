"""What a driver is given of its process: threads, a clock, and the way to stop it.

Must not know: what any of it is used for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

from onceflow.execution.stop import Stop


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
