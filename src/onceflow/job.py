"""Job: what a user writes. One stream function, its sinks, and where the checkpoint is.

Must not know: how an epoch commits; exit codes and the terminal, which are ``program.py``'s.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, TypeVar, overload

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from onceflow import program
from onceflow.checkpoint.spark_files import StateBefore
from onceflow.connectors.contract import Sink
from onceflow.connectors.kafka.sink import KafkaSink
from onceflow.connectors.kafka.source import CONNECTOR
from onceflow.connectors.source_contract import Source, limited
from onceflow.control.server import Server
from onceflow.control.standing import JobStatus
from onceflow.errors import ConfigurationError, OnceflowError
from onceflow.execution.job_log import JobLog
from onceflow.execution.running import RunningJob
from onceflow.formats.schemas import asking
from onceflow.launch import steps
from onceflow.launch.active import alone
from onceflow.launch.limit import epoch_limit
from onceflow.launch.ownership import ids_of
from onceflow.launch.phases import Phases
from onceflow.launch.receipt_header import code_of
from onceflow.launch.request import StartRequest, place_of
from onceflow.launch.schemas import StartSchemas
from onceflow.launch.starting import Starting
from onceflow.metrics.observed import observed
from onceflow.operations.transactions.deletion import delete_cancelled
from onceflow.options.arguments import checked, checked_but, require_argument
from onceflow.options.auditing import advise
from onceflow.options.checkpointing import Checkpointing
from onceflow.options.job_options import JobOptions
from onceflow.options.restarting import ExponentialDelay, NoRestart, RestartStrategy
from onceflow.rerun.lost_epochs import Again, Recomputed
from onceflow.rerun.recompute import recompute
from onceflow.rerun.write_again import write_again
from onceflow.spark import hadoop, s3a
from onceflow.spark.internals import running_session
from onceflow.spark.locations import place_at
from onceflow.spark.raised import by_the_plan
from onceflow.spark.session import make_session, require_session
from onceflow.supervision.attempts import Attempts, counting
from onceflow.supervision.child import parent
from onceflow.supervision.others import look_for_others
from onceflow.supervision.signals import Signals, Stopped

log = logging.getLogger(__name__)

CONNECTORS = (CONNECTOR,)
"""The systems that a job may read from."""

_LAST_WORDS_S = 10.0

Takeover = Literal["claim", "as-new"]
# A Mapping takes no other type of key than its own: a dict with KafkaSinks would not fit Mapping[Sink, …].
Result = DataFrame | Mapping[Sink, DataFrame] | Mapping[KafkaSink, DataFrame]
StreamFunction = TypeVar("StreamFunction", bound=Callable[[SparkSession], Result])


class Job:
    """A streaming job with one stream function.

    Args:
        name: The job's name, for logs and Spark.
        checkpointing: Where the checkpoint is and how often one is made.
        transactional_id_prefix: First part of the transactional ids; what Kafka's ACLs name.
        output_mode: Spark's output mode; ``append`` unless said otherwise.
        spark: Spark settings for the session that ``run`` makes.
        restart: What follows a failure that passes, once ``run`` has done an epoch.
        fixed_tables: The static tables that the plan reads (files, a database) stay as they are for as long as the
            checkpoint lives: what changes is written to another path. Nothing is warned of then; a second run that
            gives other rows stops the job all the same.

    Raises:
        ConfigurationError: An argument that cannot work.
    """

    @checked
    def __init__(
        self,
        name: str,
        *,
        checkpointing: Checkpointing,
        transactional_id_prefix: str = "onceflow",
        output_mode: Literal["append", "update", "complete"] = "append",
        spark: Mapping[str, str] = MappingProxyType({}),
        restart: RestartStrategy = ExponentialDelay(),  # noqa: B008 - it is frozen
        fixed_tables: bool = False,
    ) -> None:
        self.name = name
        self._restart = restart
        self._request = StartRequest(
            name, checkpointing, transactional_id_prefix, output_mode, limits=True, connectors=CONNECTORS
        )
        self._request = replace(self._request, fixed_tables=fixed_tables)
        self._spark = dict(spark)
        self._function: Callable[[SparkSession], Result] | None = None
        self._sinks: tuple[Sink, ...] = ()
        self._sources: tuple[Source, ...] = ()

    @property
    def options(self) -> JobOptions:
        """What its operator may change, as its author wrote it."""
        said = self._spark.get("spark.sql.shuffle.partitions", "")
        return JobOptions(self._request.checkpointing, self._restart, int(said) if said.isdigit() else None)

    @property
    def checkpointing(self) -> Checkpointing:
        """Where the checkpoint is and how often one is made, under the environment's and the file's settings."""
        return self.options.under({}).checkpointing

    @property
    def transactional_id_prefix(self) -> str:
        """First part of the transactional ids."""
        return self._request.prefix

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """The sinks named by ``stream``, those for dead letters and refused rows too; empty when the function knows."""
        dead_letters = [source.dead_letter.sink for source in self._sources if source.dead_letter is not None]
        refused = [sink.on_refused for sink in self._sinks if sink.on_refused is not None]
        return tuple(dict.fromkeys([*self._sinks, *dead_letters, *refused]))

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources named by ``stream``; empty when only the function knows."""
        return self._sources

    @property
    def spark_settings(self) -> Mapping[str, str]:
        """Spark settings for the session that ``run`` makes."""
        return MappingProxyType(self._spark)

    @overload
    def stream(self, function: StreamFunction, /) -> StreamFunction: ...

    @overload
    def stream(
        self, *, sinks: Sequence[Sink] = (), sources: Sequence[Source] = ()
    ) -> Callable[[StreamFunction], StreamFunction]: ...

    @checked
    def stream(
        self,
        function: Callable[..., Any] | None = None,
        *,
        sinks: Sequence[Sink] = (),
        sources: Sequence[Source] = (),
    ) -> Any:
        """Decorate the function that makes the stream: ``@job.stream(sinks=[…])``, or ``@job.stream`` alone.

        It gets the SparkSession and returns one streaming DataFrame, whose rows go to all of ``sinks``, or
        ``{sink: DataFrame}``: several outputs, one query, one epoch, one decision.

        What is named here is looked at before Spark is started: a topic, a right or a broker that is missing ends a
        start within seconds, and what is decided is committed sooner.

        Args:
            function: The function, where it is decorated without parentheses.
            sinks: The job's sinks.
            sources: What the function will ``load``.
        """

        @checked
        def remember(function: StreamFunction) -> StreamFunction:
            if self._function is not None and not _written_anew(self._function, function):
                raise ConfigurationError(
                    f"job {self.name} has two stream functions, {_name_of(self._function)} and {_name_of(function)}",
                    cause="one job is one query: its outputs commit together",
                    action="return {sink: DataFrame} from one function, or make two jobs",
                )
            self._function, self._sinks, self._sources = function, tuple(sinks), tuple(sources)
            return function

        return remember if function is None else remember(function)

    def main(self, *, until: Literal["stopped", "caught-up"] = "stopped", takeover: Takeover | None = None) -> None:
        """Run as what this process is for: the line under ``if __name__ == "__main__"`` of a job's file.

        As ``run``, and it shows onceflow's log on stderr where no logging is set up. SIGTERM and Ctrl-C end the job at
        a clean point and the process with 128 + the signal's number, within ten seconds: where the job was still
        starting, or an epoch waits for a silent broker, without waiting for any thread (``os._exit``). An
        ``OnceflowError`` ends the process with its message and 1, or 75 where starting the job again, unchanged, is
        right; with ``ONCEFLOW_DEBUG=1`` it is raised. Returns when the job has ended by itself.

        Args:
            until: As in ``run``.
            takeover: As in ``run``.
        """
        program.bear_a_full_log()
        program.show_log()
        try:
            program.keep_files_private()
            self.run(until=until, takeover=takeover)
        except Stopped as stopped:
            program.end(stopped.signal, clean=stopped.clean)
        except OnceflowError as error:
            program.fail(error)

    @checked_but("until")
    def run(
        self,
        *,
        until: Literal["stopped", "caught-up"] = "stopped",
        takeover: Takeover | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Run until stopped by SIGTERM or Ctrl-C, or, with ``until="caught-up"``, until what is there is done.

        For programs: it sets up no logging and never ends the process. Called in the main thread it takes SIGTERM and
        SIGINT while it runs, and then gives them back to whom they belonged; in another thread it takes none.

        A failure that passes (``retriable``) ends it before its first epoch; behind that the job is started again in
        the same session, with the stream function called once more, as ``restart`` says. Where Spark's Java has ended
        it ends, too: that takes a process of its own.

        Args:
            until: When to end.
            takeover: ``"claim"``: go on with a checkpoint that was moved or put back on purpose. ``"as-new"``: begin
                another, independent job on a copy of one, on that of a query without onceflow, or where one was lost.
                Each for one start only.
            settings: By Flink's keys (docs/settings.md), or Spark's, of the session that is made; they go before the
                environment's, a file's and the job's own.

        Raises:
            OnceflowError: Why it could not start or go on.
            Stopped: A signal ended it, within ten seconds. Not an ``Exception``: no retry must take it for a failure.
        """
        self._require_function()
        options = self.options.under(settings)
        advise(self.options.layers(settings)["preset"].value)
        request = replace(self._request, checkpointing=options.checkpointing, parallelism=options.parallelism)
        request = replace(request, bounded=until == "caught-up", takeover=takeover)
        theirs = running_session()
        said = JobLog(log, self.name)
        above = parent()
        hadoop.begin(request.checkpointing.location, self.name, {**self._spark, **options.spark})
        place = place_of(request)
        standing = JobStatus(self.name, place.uri, supervisor=None if above is None else above.pid)
        if takeover != "as-new":
            standing.writes_as = ids_of(place, request.prefix)
        with (
            alone(place.uri, self.name) as active,
            Signals() as signals,
            Server(standing),
            observed(standing, options) as observer,
        ):

            def start(first: bool) -> RunningJob:
                # What --claim and --as-new ask for is done by the first start.
                mine = replace(request, observer=observer, takeover=request.takeover if first else None)
                mine = replace(mine, wanted=tuple(attempts.wanted))
                mine = replace(mine, code=code_of(self._require_function()))
                with self._starting(mine, options.spark, lambda: require_argument(Job.run, "until", until)) as starting:
                    steps.start(starting, signals.look)
                active.query = starting.running.query
                return starting.running

            look_for_others(standing)
            counts = counting(options, place, standing, above)
            attempts = Attempts(self.name, counts, signals, standing, place)
            tidy = True
            try:
                tidy = attempts.run(start)
            except BaseException as error:
                end = attempts.true_end(error)
                if end is None:
                    raise
                tidy = False  # nobody is there who could be told to end, or there is no time
                raise end from error
            finally:
                made = running_session() if tidy and theirs is None else None
                if made is not None:
                    made.stop()
            if standing.ordered == "cancel" and options.checkpointing.on_cancel == "DELETE_ON_CANCELLATION":
                delete_cancelled(options.checkpointing, request.prefix, self.sinks, self.name, place_at)
        if signals.received is not None:
            said.info("stopped by %s", signals.received.name)
            raise Stopped(signals.received, clean=tidy)
        if standing.ordered:
            said.info("ended by onceflow %s", standing.ordered)
        elif request.bounded:
            said.info("ended: what was there is read")

    def _starting(
        self, request: StartRequest, spark: Mapping[str, str], call: Callable[[], None] = lambda: None
    ) -> Starting:
        """A start of this job."""
        phases = Phases(JobLog(log, self.name))
        return Starting(
            request,
            self.sinks,
            self._sources,
            to=self._sinks,
            session=lambda: self._session(request, spark, phases),
            stream=lambda session: self._stream_of(session, request, phases),
            call=call,
            phases=phases,
        )

    def _session(self, request: StartRequest, spark: Mapping[str, str], phases: Phases) -> SparkSession:
        """The active session, or a new one that reaches the checkpoint."""
        theirs = s3a.settings(request.checkpointing.location)
        return make_session(self.name, {**theirs, **self._spark, **spark}, phases.begin, s3=bool(theirs))

    def _require_function(self) -> Callable[[SparkSession], Result]:
        if self._function is None:
            raise ConfigurationError(f"job {self.name} has no stream function", action="decorate one with @job.stream")
        return self._function

    def _stream_of(self, session: SparkSession, request: StartRequest, phases: Phases) -> Result:
        """What the stream function makes, with sources that take the limit of the checkpoint."""
        function = self._require_function()
        phases.begin(f"your function {_name_of(function)}")
        try:
            with limited(epoch_limit(request, self.sinks)):
                result = function(session)
        except AnalysisException as error:
            raise by_the_plan(error) from None  # a notebook would show all of Spark's plan above it
        _require_result(function, result)
        return result

    def check(self) -> None:
        """Do all that a start looks at before it takes over the checkpoint, and start nothing.

        Brokers, topics, rights, whose the checkpoint is, the plan, and whether it fits what the checkpoint knows.
        Nothing is made or changed, no row is read or written, and a job that runs on the checkpoint goes on. It takes
        Java's and Spark's start. Where an epoch is decided and not done, whether the plan fits is left to the start.

        Raises:
            OnceflowError: Why a start would be refused.
        """
        options = self.options.under({})
        theirs = running_session()
        request = replace(self._request, checkpointing=options.checkpointing)
        hadoop.begin(request.checkpointing.location, self.name, {**self._spark, **options.spark})
        try:
            with self._starting(request, options.spark) as starting, starting.place.ours.untouched():
                steps.check(starting)
        finally:
            made = running_session() if theirs is None else None
            if made is not None:
                made.stop()

    @checked
    def recompute(self, receipts: Sequence[Mapping[str, Any]], before: StateBefore | None = None) -> list[Recomputed]:
        """Run the plan again over what these epochs have read, and write nothing (docs/audit.md).

        Args:
            receipts: Of the epochs, as ``onceflow audit`` reads them.
            before: The state that a plan begins with which keeps some.

        Returns:
            Rows and digest of each sink and epoch, as decided and as they are now.

        Raises:
            OnceflowError: The plan keeps state, and none was given; or it cannot be run over these ranges.
        """
        with self._again(f"{len(receipts)} epochs, run again") as (session, result, request):
            return recompute(session, result, self._sinks, request, receipts, before)

    @checked
    def write_again(
        self, receipts: Sequence[Mapping[str, Any]], again: Again, before: StateBefore | None = None
    ) -> Iterator[int]:
        """Write again what a put-back system has lost, as ``onceflow txn write-again`` has found it.

        Args:
            receipts: Of the lost epochs.
            again: What each sink has lost, and by whose power it is written.
            before: The state that a plan begins with which keeps some.

        Yields:
            Each epoch, when it is there again.

        Raises:
            OnceflowError: It is not what was decided, or a sink refuses it; what was yielded is there.
        """
        with self._again(f"{len(receipts)} epochs, written again") as (session, result, request):
            yield from write_again(session, result, self._sinks, request, receipts, again, before)

    @contextlib.contextmanager
    def _again(self, phase: str) -> Iterator[tuple[SparkSession, Result, StartRequest]]:
        """A session and what the stream function makes in it, for epochs that are run again."""
        self._require_function()
        theirs = running_session()
        phases = Phases(JobLog(log, self.name))
        request = replace(self._request, checkpointing=self.checkpointing)
        session = self._session(request, self.options.under({}).spark, phases)
        schemas = StartSchemas(place_of(request).schemas)
        try:
            with asking(schemas):
                result = self._stream_of(session, request, phases)
                phases.begin(phase)
                yield session, result, request
        finally:
            schemas.close()
            made = running_session() if theirs is None else None
            if made is not None:
                made.stop()


def _require_result(function: Callable[..., object], result: object) -> None:
    """Refuse what is no stream, before anything is made of it."""
    if not isinstance(result, DataFrame | Mapping):  # what is in a mapping is told of by its sinks
        told = "None" if result is None else f"something of type {type(result).__name__}"
        raise ConfigurationError(
            f"your function {_name_of(function)} returned {told}",
            cause="it started a query by itself; onceflow starts it"
            if isinstance(result, StreamingQuery)
            else "it has no return, or returns something else than its stream",
            action="return one streaming DataFrame, or {sink: DataFrame}",
        )


def _written_anew(before: Callable[..., object], now: Callable[..., object]) -> bool:
    """Whether it is the same function, of a notebook's cell that ran again; two of one name in one file are two."""
    old, new = getattr(before, "__code__", None), getattr(now, "__code__", None)
    if old is None or new is None or _name_of(before) != _name_of(now):
        return False
    return bool(old.co_filename != new.co_filename or old.co_firstlineno == new.co_firstlineno)


def _name_of(function: Callable[..., object]) -> str:
    return getattr(function, "__name__", type(function).__name__)  # a partial has none


@checked_but("df", "output_mode", "until")
def start(
    df: Result,
    *,
    sinks: Sequence[Sink] = (),
    name: str,
    checkpointing: Checkpointing,
    transactional_id_prefix: str = "onceflow",
    output_mode: Literal["append", "update", "complete"] = "append",
    until: Literal["stopped", "caught-up"] = "stopped",
    takeover: Takeover | None = None,
    fixed_tables: bool = False,
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
        fixed_tables: As in ``Job``.

    Returns:
        Spark's query. ``query.stop()`` is safe at any time: what was decided and not recorded is rolled forward by
        the next start.

    Raises:
        OnceflowError: It cannot run, and why: for example a Kafka source that is not read_committed.
    """
    bounded = until == "caught-up"
    options = JobOptions(checkpointing, NoRestart()).under({})
    checkpointing = options.checkpointing
    if options.metrics.port is not None:
        JobLog(log, name).warning("metrics.port is for jobs that a Job runs: a query of start(...) has no metrics")
    request = StartRequest(
        name, checkpointing, transactional_id_prefix, output_mode, bounded, takeover, connectors=CONNECTORS
    )
    request = replace(request, watched=False, parallelism=options.parallelism, fixed_tables=fixed_tables)

    def require_types() -> None:
        for argument, value in {"df": df, "output_mode": output_mode, "until": until}.items():
            require_argument(start, argument, value)

    def session() -> SparkSession:
        frames = [df] if isinstance(df, DataFrame) else list(df.values())
        if not frames:
            raise ConfigurationError("there is no output", action="pass a streaming DataFrame")
        require_session(frames[0].sparkSession)
        return frames[0].sparkSession

    named = tuple(df) if isinstance(df, Mapping) else sinks
    phases = Phases(JobLog(log, name))
    asked = Starting(request, named, to=sinks, session=session, stream=lambda _: df, call=require_types, phases=phases)
    with asked as starting, alone(starting.place.uri, name) as active:
        steps.start(starting)
        running = starting.running
        active.query = running.query

    def last_words() -> None:
        """At the end of a program whose query has ended: what is on its way of the last epochs is told first."""
        with contextlib.suppress(Exception):  # Java may be gone
            if not running.query.isActive:
                closing.join(_LAST_WORDS_S)

    def close() -> None:
        running.close_after()
        atexit.unregister(last_words)

    closing = threading.Thread(target=close, name="onceflow-close", daemon=True)
    closing.start()
    atexit.register(last_words)
    return running.query
