"""The processor time of a system: of every process in its tree, together.

Must not know: which system it is. A process is asked again and again while it lives, so what it spends in its last
quarter of a second is not counted.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Self

import psutil

_EVERY_S = 0.25


class ProcessorTime:
    """Adds up while it is entered.

    Args:
        tree: The process ids that count, asked anew each time.
    """

    def __init__(self, tree: Callable[[], Sequence[int]]) -> None:
        self._tree = tree
        self._spent: dict[tuple[int, float], float] = {}  # by process id and birth: ids come again
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def seconds(self) -> float:
        """User and system time of all processes that were seen."""
        return sum(self._spent.values())

    def _watch(self) -> None:
        while True:
            for pid in self._tree():
                with contextlib.suppress(psutil.Error):
                    process = psutil.Process(pid)
                    times = process.cpu_times()
                    self._spent[pid, process.create_time()] = times.user + times.system
            if self._done.wait(_EVERY_S):
                return
