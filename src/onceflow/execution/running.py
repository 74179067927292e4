"""A job that runs: Spark's query, the driver, and what is open beside them, from the query's start to its end.

Must not know: the rules, how a start comes to a query. It ends all of it at a clean point.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Sequence

from pyspark.sql.streaming.query import StreamingQuery

from onceflow.connectors.contract import SinkConnection
from onceflow.execution.driver import Driver
from onceflow.execution.progress import Progress
from onceflow.execution.source_check import Sources
from onceflow.execution.sweeper import Sweeper
from onceflow.spark.internals import scala_context

log = logging.getLogger(__name__)

_STOP_WITHIN_S = 8.0
_HARD_STOP_WITHIN_S = 1.5


class RunningJob:
    """A job that runs: Spark's query and what surrounds it."""

    def __init__(
        self,
        query: StreamingQuery,
        driver: Driver,
        connections: Sequence[SinkConnection],
        sources: Sources,
        progress: Progress,
    ) -> None:
        self.query = query
        self.driver = driver
        self._connections = connections
        self._sources = sources
        self._progress = progress
        self._sweeper = Sweeper(driver.sweep, driver.refresh_mark, self._replaced)

    def stop(self) -> bool:
        """End at a clean point: an undecided epoch aborts, a decided one finishes. False: it could not finish in time.

        What is not finished is rolled forward by the next start.
        """
        spark_context = scala_context(self.query) if self.query.isActive else None
        group = str(self.query.runId)

        def cancel() -> None:
            if spark_context is not None:
                spark_context.cancelJobGroup(group)

        self.driver.stop.request(cancel)
        clean = self.driver.wait_outside(_STOP_WITHIN_S)
        if not clean:
            self.driver.stop.give_up()
        # Spark waits without end for a foreachBatch or a source that waits for a broker.
        stopping = threading.Thread(target=self._stop_query, name="onceflow-stop", daemon=True)
        stopping.start()
        stopping.join(_HARD_STOP_WITHIN_S)
        return clean and not stopping.is_alive()

    def _stop_query(self) -> None:
        with contextlib.suppress(Exception):  # the query may have ended with the error that stopping caused
            self.query.stop()

    def close(self) -> None:
        """Let go of connections and threads, after the query has ended."""
        self._sweeper.close()
        ended = False
        with contextlib.suppress(Exception):  # Java may be gone
            ended = not self.query.isActive
        self._progress.close(ended=ended)
        self.driver.close()
        self._sources.close()
        for connection in self._connections:
            connection.close()

    def _replaced(self) -> None:
        """End a job that a newer start took over from: nothing else tells a driver whose topic is quiet."""
        self.driver.failure = self.driver.failure or self.driver.fenced()
        log.error("%s", self.driver.failure)
        self._stop_query()
