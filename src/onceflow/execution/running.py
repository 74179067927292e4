"""A job that runs: Spark's query, the driver, and what is open beside them, from the query's start to its end.

Must not know: the rules, how a start comes to a query. It ends all of it at a clean point.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Sequence

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from onceflow.connectors.contract import SinkConnection
from onceflow.errors import EpochFailedError, FencedError, OnceflowError
from onceflow.execution.driver import Driver
from onceflow.execution.failures import from_spark
from onceflow.execution.job_log import JobLog
from onceflow.execution.progress import Progress
from onceflow.execution.source_check import Sources
from onceflow.execution.stop import StopRequested
from onceflow.execution.sweeper import Sweeper
from onceflow.spark import sentences
from onceflow.spark.internals import application_ended, java_ended, scala_context

log = logging.getLogger(__name__)

_STOP_WITHIN_S = 8.0
_HARD_STOP_WITHIN_S = 1.5
_BOUNDARY_S = 1.0


class ApplicationEndedError(Exception):
    """Spark has ended the application of this process: no query runs in it any more."""


class RunningJob:
    """A job that runs: Spark's query and what surrounds it.

    Args:
        query: Spark's query.
        driver: What runs its epochs.
        connections: Of the sinks.
        sources: What it reads.
        progress: What tells of its epochs.
        anchor: Tells the newest receipt elsewhere.
        ends_when_idle: It is to end when it has caught up, and Spark does not see when that is.
    """

    def __init__(
        self,
        query: StreamingQuery,
        driver: Driver,
        connections: Sequence[SinkConnection],
        sources: Sources,
        progress: Progress,
        anchor: Callable[[], None],
        *,
        ends_when_idle: bool = False,
    ) -> None:
        self.query = query
        self.driver = driver
        self._connections = connections
        self._sources = sources
        self._progress = progress
        self._ends_when_idle = ends_when_idle
        self._has_begun = False
        self._sweeper = Sweeper(driver.sweep, anchor, driver.refresh_mark, self._replaced, driver.name)

    def stop(self) -> bool:
        """End at a clean point: an undecided epoch aborts, a decided one finishes. False: it could not finish in time.

        What is not finished is rolled forward by the next start.
        """
        self.driver.stop.request(self._cancel)
        clean = self.driver.wait_outside(_STOP_WITHIN_S)
        if not clean:
            self.driver.stop.give_up()
        # Spark waits without end for a foreachBatch or a source that waits for a broker.
        stopping = threading.Thread(target=self._stop_query, name="onceflow-stop", daemon=True)
        stopping.start()
        stopping.join(_HARD_STOP_WITHIN_S)
        return clean and not stopping.is_alive()

    def _cancel(self) -> None:
        """Cancel the Spark jobs of the epoch in work."""
        scala_context(self.query).cancelJobGroup(str(self.query.runId))

    def _stop_query(self) -> None:
        with contextlib.suppress(Exception):  # the query may have ended with the error that stopping caused
            self.query.stop()

    def close(self) -> None:
        """Let go of connections and threads, after the query has ended."""
        self._stop_query()  # one that has failed is told of before Spark has forgotten it: its name could not be taken
        self._sweeper.close()
        ended = False
        with contextlib.suppress(Exception):  # Java may be gone
            ended = not self.query.isActive
        failure, failed = self.driver.failure, self.driver.failed
        if failure is not None and failed is not None and not isinstance(failure, StopRequested):
            self._progress.hear_failure(failed, failure)
        self._progress.close(ended=ended)
        self.driver.close()
        self._sources.close()
        for connection in self._connections:
            connection.close()

    def wait(self, asked: Callable[[], str | None]) -> bool:
        """Wait for the query's end, or end it.

        Args:
            asked: Tells what is asked of it by now: ``"cancel"``, ``"stop"`` (behind the epoch in work), or nothing.

        Returns:
            False: it could not finish its epoch in time.

        Raises:
            OnceflowError: What ended it.
        """
        try:
            while not self.query.awaitTermination(0.5):  # type: ignore[arg-type]  # it takes fractions of a second
                self._look_whether_idle()
                self.driver.look_at_time(self._cancel)
                what = asked() or ("stop" if self._ends_when_idle and self.driver.is_idle else None)
                if what == "cancel" or (what is not None and self.driver.wait_outside(_BOUNDARY_S)):
                    return self.stop()
            if isinstance(self.driver.failure, FencedError):
                raise self.driver.failure  # it was idle, and its sweep found the newer start
        except StreamingQueryException as error:
            if isinstance(self.driver.failure, StopRequested):
                return True
            why = self._why(error)
            if why.retriable and (application_ended() or sentences.application_ended(f"{error}\n{why.what}")):
                raise ApplicationEndedError from why  # no restart in this process helps
            raise why from why.__cause__
        return True

    def close_after(self) -> None:
        """Wait for the end of a query that is its caller's, tell of what ended it, and let go."""
        try:
            while not self.query.awaitTermination(0.5):  # type: ignore[arg-type]
                self._look_whether_idle()
                self.driver.look_at_time(self._cancel)
                if not self.query.isActive:
                    self.stop()  # the caller's stop() waits for the epoch, and that perhaps for a broker
        except StreamingQueryException as error:
            if self.driver.failure is None:  # else the driver has told it
                log.error("%s: %s", self.driver.name, self._why(error))  # noqa: TRY400 - it says what there is to say
        except Exception:
            log.debug("query ended with an error", exc_info=True)
        self.close()

    def _look_whether_idle(self) -> None:
        """Tell, once, that a start has found nothing to read: Spark tells so of itself only ten seconds later."""
        if self._has_begun:
            return
        waits = sentences.waits_for_data(self.query.status)
        self._has_begun = self.driver.newest_epoch() is not None  # then its own line is on its way
        if waits and not self._has_begun:
            self._has_begun = True
            self._progress.hear_idle(str(self.query.runId))

    def _why(self, error: StreamingQueryException) -> OnceflowError:
        """Our error for what ended a query: the driver's, or Spark's in our words."""
        failure = self.driver.failure
        told = [from_spark(each, self.driver.explain) for each in (failure, error) if each is not None]
        ours = next(filter(None, told), None)
        if ours is not None:
            ours = self.driver.true_cause(ours)
            ours.__cause__ = None  # what its message has made clear
            return ours
        raw = EpochFailedError(
            f"the query ended: {str(error).splitlines()[0]}",
            harmless="always for the data: nothing that is not decided is visible",
            cause="what Spark says there; ONCEFLOW_DEBUG=1 shows all of it",
            action="mend the cause and start the job again",
        )
        raw.__cause__ = failure or error
        return self.driver.true_cause(raw)

    def _replaced(self) -> None:
        """End a job that a newer start took over from: nothing else tells a driver whose topic is quiet."""
        self.driver.failure = self.driver.failure or self.driver.fenced()
        JobLog(log, self.driver.name).error("%s", self.driver.failure)
        self._stop_query()


def java_is_gone(error: BaseException) -> EpochFailedError | None:
    """Our error for the end of Spark's Java, if that is what an error comes of."""
    code = java_ended(error)
    if code is None:
        return None
    return EpochFailedError(
        f"Spark's Java ended with {code if code >= 0 else signal.Signals(-code).name} while the job ran",
        harmless="always for the data: nothing that is not decided is visible, and what is decided is finished by the "
        "next start",
        cause="it was killed, by the system for want of memory or by somebody, or it crashed (then an hs_err file is "
        "in the working folder)",
        action="start the job again; if it happens again, give it more memory, or Java less (spark.driver.memory)",
    )


def application_is_gone(error: BaseException) -> EpochFailedError | None:
    """Our error for the end of Spark's application, if that is what an error comes of."""
    if not isinstance(error, ApplicationEndedError) and not application_ended():
        return None
    return EpochFailedError(
        "Spark's application was ended by its cluster",
        harmless="always for the data: nothing that is not decided is visible, and what is decided is finished by the "
        "next start",
        cause="somebody has killed it, the master has removed it, as it does where executors could not be started ten "
        "times, or no master answered (spark.master); Spark's own lines above, and the logs of its master and workers, "
        "say why",
        action="see to the cluster, then start the job again",
    )
