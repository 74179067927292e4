"""Job: what a user writes. One stream function, its sinks, and where the checkpoint is.

Must not know: how an epoch commits; exit codes and the terminal, which are ``program.py``'s.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, MappingProxyType
from typing import Literal, Self, TypeVar

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from onceflow import program
from onceflow.connectors.contract import Sink, limited
from onceflow.connectors.kafka.sink import KafkaSink
from onceflow.connectors.kafka.source import CONNECTOR
from onceflow.errors import ConfigurationError, EpochFailedError, FencedError
from onceflow.execution.failures import from_spark
from onceflow.execution.launch import Plan, epoch_limit, finish_decided, launch
from onceflow.execution.running import RunningJob
from onceflow.execution.stop import StopRequested
from onceflow.options.checkpointing import Checkpointing
from onceflow.spark.session import make_session, require_session

log = logging.getLogger(__name__)

CONNECTORS = (CONNECTOR,)
"""The systems that a job may read from."""

Takeover = Literal["claim", "as-new"]
# A Mapping takes no other type of key than its own: a dict with KafkaSinks would not fit Mapping[Sink, …].
Result = DataFrame | Mapping[Sink, DataFrame] | Mapping[KafkaSink, DataFrame]
StreamFunction = TypeVar("StreamFunction", bound=Callable[[SparkSession], Result])


class Stopped(BaseException):
    """SIGTERM or Ctrl-C ended ``Job.run``. What was not finished is rolled forward by the next start.

    Attributes:
        signal: Which signal.
        clean: False: the job was still starting, or its epoch could not be ended in time. Threads and parts of Spark
            are left as they stood, and the process should end.
    """

    def __init__(self, number: signal.Signals, *, clean: bool) -> None:
        super().__init__(f"stopped by {number.name}")
        self.signal = number
        self.clean = clean


class Job:
    """A streaming job with one stream function.

    Args:
        name: The job's name, for logs and Spark.
        checkpointing: Where the checkpoint is and how often one is made.
        transactional_id_prefix: First part of the transactional ids; what Kafka's ACLs name.
        output_mode: Spark's output mode; ``append`` unless said otherwise.
        spark: Spark settings for the session that ``run`` makes.
    """

    def __init__(
        self,
        name: str,
        *,
        checkpointing: Checkpointing,
        transactional_id_prefix: str = "onceflow",
        output_mode: str = "append",
        spark: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self._checkpointing = checkpointing
        self._prefix = transactional_id_prefix
        self._output_mode = output_mode
        self._spark = dict(spark)
        self._function: Callable[[SparkSession], Result] | None = None
        self._sinks: tuple[Sink, ...] = ()

    @property
    def checkpointing(self) -> Checkpointing:
        """Where the checkpoint is and how often one is made."""
        return self._checkpointing

    @property
    def transactional_id_prefix(self) -> str:
        """First part of the transactional ids."""
        return self._prefix

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """The sinks named by ``stream``; empty when only the stream function knows them."""
        return self._sinks

    def stream(self, *, sinks: Sequence[Sink] = ()) -> Callable[[StreamFunction], StreamFunction]:
        """Decorate the function that makes the stream.

        It gets the SparkSession and returns one streaming DataFrame, whose rows go to all of ``sinks``, or
        ``{sink: DataFrame}``: several outputs, one query, one epoch, one decision.
        """

        def remember(function: StreamFunction) -> StreamFunction:
            if self._function is not None:
                raise ConfigurationError(
                    f"job {self.name} has two stream functions, {self._function.__name__} and {function.__name__}",
                    cause="one job is one query: its outputs commit together",
                    action="return {sink: DataFrame} from one function, or make two jobs",
                )
            self._function, self._sinks = function, tuple(sinks)
            return function

        return remember

    def main(self, *, until: Literal["stopped", "caught-up"] = "stopped", takeover: Takeover | None = None) -> None:
        """Run as what this process is for: the line under ``if __name__ == "__main__"`` of a job's file.

        As ``run``, and it shows onceflow's log on stderr where no logging is set up. SIGTERM and Ctrl-C end the job at
        a clean point and the process with 128 + the signal's number, within ten seconds: where the job was still
        starting, or an epoch waits for a silent broker, without waiting for any thread (``os._exit``). Returns when
        the job has ended by itself.

        Raises:
            OnceflowError: Why it could not start or go on.
        """
        program.show_log()
        try:
            self.run(until=until, takeover=takeover)
        except Stopped as stopped:
            program.end(stopped.signal, clean=stopped.clean)

    def run(self, *, until: Literal["stopped", "caught-up"] = "stopped", takeover: Takeover | None = None) -> None:
        """Run until stopped by SIGTERM or Ctrl-C, or, with ``until="caught-up"``, until what is there is done.

        For programs: it sets up no logging and never ends the process. Called in the main thread it takes SIGTERM and
        SIGINT while it runs, and then gives them back to whom they belonged; in another thread it takes none.

        Args:
            until: When to end.
            takeover: ``"claim"`` or ``"as-new"``, for a checkpoint that was moved, put back or copied on purpose.

        Raises:
            OnceflowError: Why it could not start or go on.
            Stopped: A signal ended it, within ten seconds. Not an ``Exception``: no retry must take it for a failure.
        """
        if self._function is None:
            raise ConfigurationError(f"job {self.name} has no stream function", action="decorate one with @job.stream")
        bounded = until == "caught-up"
        place = (self.name, self._checkpointing, self._prefix, self._output_mode, bounded, takeover)
        plan = Plan(*place, limits=True, connectors=CONNECTORS)
        own_session = SparkSession.getActiveSession() is None
        with _Signals() as signals:
            tidy = True
            try:
                # Before anything that could fail: consumers wait for what is decided, and it may expire.
                finished = finish_decided(self._sinks, plan)
                session = make_session(self.name, self._spark)
                signals.install()
                with limited(epoch_limit(plan, self._sinks)):
                    result = self._function(session)
                running = launch(session, result, self._sinks, plan, finished=finished)
                tidy = self._wait(running, signals)
            except BaseException as error:
                # An interrupted start may end with py4j's word for it instead of ours.
                if signals.received is None:
                    raise
                log.debug("stopped while starting", exc_info=True)
                tidy = False
                raise Stopped(signals.received, clean=False) from error
            finally:
                active = SparkSession.getActiveSession() if tidy and own_session else None
                if active is not None:
                    active.stop()
        if signals.received is not None:
            log.info("stopped by %s", signals.received.name)
            raise Stopped(signals.received, clean=tidy)

    def _wait(self, running: RunningJob, signals: _Signals) -> bool:
        """Wait for the end and let go; False, and nothing is let go, when a stop could not finish the epoch in time."""
        signals.interrupting = False
        in_time = True
        try:
            in_time = _wait(running, signals)
        finally:
            if in_time:
                running.close()
        if not in_time:
            log.warning("the query could not be ended in time; the next start goes on from the checkpoint")
        return in_time


def start(
    df: Result,
    *,
    sinks: Sequence[Sink] = (),
    name: str,
    checkpointing: Checkpointing,
    transactional_id_prefix: str = "onceflow",
    output_mode: str = "append",
    until: Literal["stopped", "caught-up"] = "stopped",
    takeover: Takeover | None = None,
) -> StreamingQuery:
    """Start a query that commits exactly once: the line that takes the place of ``df.writeStream…start()``.

    Args:
        df: A streaming DataFrame, or ``{sink: DataFrame}``.
        sinks: The sinks of one DataFrame.
        name: The job's name.
        checkpointing: Where the checkpoint is and how often one is made.
        transactional_id_prefix: First part of the transactional ids.
        output_mode: Spark's output mode.
        until: ``"caught-up"`` ends the query when what is there is done.
        takeover: As in ``Job.run``.

    Returns:
        Spark's query. ``query.stop()`` is safe at any time: what was decided and not recorded is rolled forward by
        the next start.

    Raises:
        OnceflowError: It cannot run, and why: for example a Kafka source that is not read_committed.
    """
    frames = [df] if isinstance(df, DataFrame) else list(df.values())
    if not frames:
        raise ConfigurationError("there is no output", action="pass a streaming DataFrame")
    session = frames[0].sparkSession
    require_session(session)
    plan = Plan(
        name, checkpointing, transactional_id_prefix, output_mode, until == "caught-up", takeover, connectors=CONNECTORS
    )
    running = launch(session, df, sinks, plan)
    threading.Thread(target=_close_after, args=(running,), name="onceflow-close", daemon=True).start()
    return running.query


def _close_after(running: RunningJob) -> None:
    try:
        while not running.query.awaitTermination(0.5):  # type: ignore[arg-type]  # it takes fractions of a second
            if not running.query.isActive:
                running.stop()  # the caller's stop() waits for the epoch, and that perhaps for a broker
    except Exception:
        log.debug("query ended with an error", exc_info=True)
    running.close()


def _wait(running: RunningJob, signals: _Signals) -> bool:
    """Wait for the query's end or for a signal; False when a stop could not finish the epoch in time."""
    try:
        while not running.query.awaitTermination(0.5):  # type: ignore[arg-type]  # it takes fractions of a second
            if signals.received is not None:
                return running.stop()
        if isinstance(running.driver.failure, FencedError):
            raise running.driver.failure  # it was idle, and its sweep found the newer start
    except StreamingQueryException as error:
        failure = running.driver.failure
        if isinstance(failure, StopRequested):
            return True
        said = [from_spark(each, running.driver.explain) for each in (failure, error) if each is not None]
        ours = next(filter(None, said), None)
        if ours is not None:
            raise running.driver.true_cause(ours) from None
        raw = EpochFailedError(
            f"the query ended: {str(error).splitlines()[0]}",
            harmless="always for the data: nothing that is not decided is visible",
            cause="see Spark's message above",
            action="mend the cause and start the job again",
        )
        raise running.driver.true_cause(raw) from error
    return True


class _Signals:
    """SIGTERM and SIGINT while a job runs. In another thread than the main one it does nothing.

    While the job starts they interrupt it where it stands, as a crash would; once it runs they are remembered.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.interrupting = True
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        self.install()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def install(self) -> None:
        """Take the signals; again after Spark has started, which takes SIGINT for itself."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                if signal.getsignal(number) is not None:  # one that is not Python's could not be given back
                    self._before.setdefault(number, signal.signal(number, self._remember))

    def _remember(self, number: int, _: FrameType | None) -> None:
        self.received = signal.Signals(number)
        if self.interrupting:
            self.interrupting = False  # once: what ends then must not be interrupted again
            raise StopRequested
