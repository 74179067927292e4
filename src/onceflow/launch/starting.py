"""A start as far as it has come: what it is asked for, what its steps have found, and what they have opened.

Must not know: the steps, their order, any particular sink or source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from pyspark.sql import SparkSession

from onceflow.connectors.contract import Sink, SinkConnection
from onceflow.connectors.source_contract import Source
from onceflow.execution.driver import Driver
from onceflow.execution.means import REAL, Means
from onceflow.execution.outputs import Outputs
from onceflow.execution.progress import Progress
from onceflow.execution.running import RunningJob
from onceflow.execution.source_check import Sources
from onceflow.launch.phases import Phases
from onceflow.launch.request import StartRequest, place_of
from onceflow.launch.row_limits import RowLimits
from onceflow.launch.schemas import StartSchemas
from onceflow.launch.systems import Systems
from onceflow.options.auditing import Auditing
from onceflow.spark.plan import Leaf


class Starting:
    """One start, as a context: what it has opened is closed with it, unless a job runs by then.

    Each attribute below ``systems`` is there behind the step that makes it.

    Args:
        request: What is to be started.
        sinks: Its sinks, as far as they are known before its stream function is called.
        sources: Its sources, likewise.
        to: The sinks that get the rows where the stream function returns one DataFrame.
        session: Makes Spark's session, or finds it.
        stream: What the stream function returns, in that session.
        call: Raises where the program has called the start wrongly; asked behind what is decided.
        phases: Told what is waited for.
        means: What its driver is made of.

    Raises:
        CheckpointConflictError: The checkpoint is being deleted.

    Attributes:
        place: The checkpoint.
        schemas: Those that its formats ask for.
        row_limits: What its sinks take of a row.
        has_finished: An undone epoch was taken over and committed by this start.
        systems: What was looked at without Spark.
        session: Spark's.
        result: What the stream function returned.
        auditing: How its receipts are kept.
        outputs: The query, and where its rows go.
        where: The checkpoint, as Spark takes it.
        leaves: The query's sources, as they stand in the plan.
        is_stateful: Its plan keeps state.
        reads: What the query reads, and what is known of that.
        ends_when_idle: The run is to end behind the first epoch that finds nothing; Spark does not see when that is.
        connections: Of the outputs' sinks, by name.
        enter: Enters this start with the other jobs of its family.
        is_new: There was no checkpoint before this start.
        planned: The newest epoch that Spark had planned before this start; -1 for none.
        driver: Has taken over the checkpoint.
        progress: Tells of the epochs.
        tell_newest: Tells the newest receipt elsewhere.
        running: The job that runs.
    """

    session: SparkSession
    result: object
    auditing: Auditing
    outputs: Outputs
    where: str
    leaves: Sequence[Leaf]
    is_stateful: bool
    reads: Sources
    ends_when_idle: bool
    connections: dict[str, SinkConnection]
    enter: Callable[[], None]
    is_new: bool
    planned: int
    driver: Driver
    progress: Progress
    tell_newest: Callable[[], None]
    running: RunningJob

    def __init__(
        self,
        request: StartRequest,
        sinks: Sequence[Sink] = (),
        sources: Sequence[Source] = (),
        *,
        to: Sequence[Sink] = (),
        session: Callable[[], SparkSession],
        stream: Callable[[SparkSession], object],
        phases: Phases | None = None,
        call: Callable[[], None] = lambda: None,
        means: Means = REAL,
    ) -> None:
        self.request = request
        self.sinks = tuple(sinks)
        self.sources = tuple(sources)
        self.to = tuple(to)
        self.make_session = session
        self.make_stream = stream
        self.check_call = call
        self.phases = phases or Phases(None)
        self.means = means
        self.place = place_of(request, means)
        self.schemas = StartSchemas(self.place.schemas, request.wanted)
        self.row_limits = RowLimits(self.place)
        self.has_finished = False
        self.systems = Systems()
        self.opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.opened.close()
        self.systems.close()
        self.schemas.close()

    @property
    def taking_part(self) -> dict[str, SinkConnection]:
        """The connections of those sinks that take part in the decision."""
        return {sink.name: self.connections[sink.name] for sink in self.outputs.sinks if sink.participates}

    def runs(self, job: RunningJob) -> None:
        """A job runs: all that was opened is its own from now on."""
        self.opened.pop_all()
        self.running = job
