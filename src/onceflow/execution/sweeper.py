"""The thread beside the epochs: every half minute a sweep and an anchor, and every hour the mark once more.

Must not know: what a sweep does, what an anchor is, how a mark is kept, Spark.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable

from onceflow.errors import OnceflowError
from onceflow.execution.job_log import JobLog

log = logging.getLogger(__name__)

EVERY_S = 30.0
SWEEPS_A_MARK = 120  # once an hour; Kafka forgets a group's offsets after 7 days by default
_ENDS_WITHIN_S = 5.0


class Sweeper:
    """Runs from its making until it is closed, or was told that this start is not the newest any more.

    Args:
        sweep: Ends what older starts left open; whether this is still the newest start.
        anchor: Tells the newest receipt elsewhere; called once more at the end.
        refresh_mark: Writes the mark again.
        replaced: Called once, when it is not.
        name: The job's name, for its log.
    """

    def __init__(
        self,
        sweep: Callable[[], bool],
        anchor: Callable[[], None],
        refresh_mark: Callable[[], None],
        replaced: Callable[[], None],
        name: str = "",
    ) -> None:
        self._log = JobLog(log, name)
        self._sweep = sweep
        self._anchor = anchor
        self._refresh_mark = refresh_mark
        self._replaced = replaced
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onceflow-sweep", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """No sweep begins any more; wait for the one that is under way and the last anchor, though not without end."""
        self._ended.set()
        self._thread.join(_ENDS_WITHIN_S)

    def _run(self) -> None:
        for turn in itertools.count(1):
            ended = self._ended.wait(EVERY_S)
            try:
                self._anchor()  # first: it needs nothing of the systems that a sweep asks
                if ended:
                    return
                if not self._sweep():
                    self._replaced()
                    return
                if turn % SWEEPS_A_MARK == 0:
                    self._refresh_mark()
            except OnceflowError as error:
                self._log.warning("could not look for lingering transactions: %s", error.what)
            except Exception:  # noqa: BLE001 - it is logged whole, and the sweep must go on for as long as the job runs
                self._log.exception("could not look for lingering transactions")
            if ended:
                return
