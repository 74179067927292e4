"""Job: what a user writes. One stream function, its sinks, and where the checkpoint is.

Must not know: how an epoch commits.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, MappingProxyType
from typing import Literal

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from onceflow.connectors.contract import Sink, limited
from onceflow.connectors.kafka.source import CONNECTOR
from onceflow.errors import ConfigurationError, EpochFailedError, FencedError
from onceflow.execution.driver import StopRequested
from onceflow.execution.failures import from_spark
from onceflow.execution.launch import Plan, RunningJob, epoch_limit, finish_decided, launch
from onceflow.options.checkpointing import Checkpointing
from onceflow.spark.session import make_session, require_session

log = logging.getLogger(__name__)

CONNECTORS = (CONNECTOR,)
"""The systems that a job may read from."""

Takeover = Literal["claim", "as-new"]
StreamFunction = Callable[[SparkSession], DataFrame | Mapping[Sink, DataFrame]]


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
        self._function: StreamFunction | None = None
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

    def run(self, *, until: Literal["stopped", "caught-up"] = "stopped", takeover: Takeover | None = None) -> None:
        """Run until stopped by SIGTERM or Ctrl-C, or, with ``until="caught-up"``, until what is there is done.

        A signal ends the job at a clean point within ten seconds, and the process with 128 + its number.

        Args:
            until: When to end.
            takeover: ``"claim"`` or ``"as-new"``, for a checkpoint that was moved, put back or copied on purpose.

        Raises:
            OnceflowError: Why it could not start or go on.
        """
        if self._function is None:
            raise ConfigurationError(f"job {self.name} has no stream function", action="decorate one with @job.stream")
        _log_to_stderr()
        signals = _Signals()
        bounded = until == "caught-up"
        place = (self.name, self._checkpointing, self._prefix, self._output_mode, bounded, takeover)
        plan = Plan(*place, limits=True, connectors=CONNECTORS)
        own_session = SparkSession.getActiveSession() is None
        with signals:
            try:
                # Before anything that could fail: consumers wait for what is decided, and it may expire.
                finished = finish_decided(self._sinks, plan)
                session = make_session(self.name, self._spark)
                signals.install()
                with limited(epoch_limit(plan, self._sinks)):
                    result = self._function(session)
                self._run(session, result, plan, signals, finished=finished)
            except BaseException:
                # An interrupted start may end with py4j's word for it instead of ours.
                if signals.received is None:
                    raise
                log.debug("stopped while starting", exc_info=True)
                logging.shutdown()
                os._exit(128 + signals.received)
            finally:
                active = SparkSession.getActiveSession()
                if own_session and active is not None:
                    active.stop()
        if signals.received is not None:
            log.info("stopped by %s", signals.received.name)
            sys.exit(128 + signals.received)

    def _run(
        self,
        session: SparkSession,
        result: DataFrame | Mapping[Sink, DataFrame],
        plan: Plan,
        signals: _Signals,
        *,
        finished: bool,
    ) -> None:
        running = launch(session, result, self._sinks, plan, finished=finished)
        signals.interrupting = False
        try:
            in_time = _wait(running, signals)
            if not in_time and signals.received is not None:
                log.warning("the query could not be ended in time; the next start goes on from the checkpoint")
                logging.shutdown()
                # Threads that wait for a broker would hold the process; every step is made to be cut off.
                os._exit(128 + signals.received)
        finally:
            running.close()


def start(
    df: DataFrame | Mapping[Sink, DataFrame],
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

    def __enter__(self) -> None:
        self.install()

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def install(self) -> None:
        """Take the signals; again after Spark has started, which takes SIGINT for itself."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before.setdefault(number, signal.signal(number, self._remember))

    def _remember(self, number: int, _: FrameType | None) -> None:
        self.received = signal.Signals(number)
        if self.interrupting:
            self.interrupting = False  # once: what ends then must not be interrupted again
            raise StopRequested


def _log_to_stderr() -> None:
    """Show our log where nobody has set up logging: an epoch's line is what a user of a terminal looks for."""
    ours = logging.getLogger("onceflow")
    if not logging.getLogger().handlers and not ours.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
        ours.addHandler(handler)
        ours.setLevel(logging.INFO)
