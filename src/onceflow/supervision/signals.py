"""SIGTERM and SIGINT while a job runs: what they interrupt, and what the caller is told.

Must not know: Spark, what a job is made of, exit codes.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Self


class Stopped(BaseException):
    """SIGTERM or Ctrl-C ended ``Job.run``. What was not finished is rolled forward by the next start.

    Args:
        number: Which signal.

    Attributes:
        signal: Which signal.
        clean: False: the job was still starting, or its epoch could not be ended in time. Threads and parts of Spark
            are left as they stood, and the process should end.
    """

    def __init__(self, number: signal.Signals, *, clean: bool) -> None:
        super().__init__(f"stopped by {number.name}")
        self.signal = number
        self.clean = clean


class Signals:
    """SIGTERM and SIGINT while a job runs. In another thread than the main one it does nothing.

    While the job starts they interrupt it where it stands, as a crash would; once it runs they are remembered.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.interrupting = True
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                if signal.getsignal(number) is not None:  # one that is not Python's could not be given back
                    self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def look(self) -> None:
        """Interrupt the start if a signal has come: where one comes in a destructor, Python drops what is raised."""
        if self.received is not None:
            raise Stopped(self.received, clean=False)

    def _remember(self, number: int, _: FrameType | None) -> None:
        self.received = signal.Signals(number)
        if self.interrupting:
            self.interrupting = False  # once: what ends then must not be interrupted again
            raise Stopped(self.received, clean=False)  # no Exception: py4j and others would take it for a failure
