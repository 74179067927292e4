"""Launching a job: from a streaming DataFrame and sinks to a query that commits exactly once.

Must not know: the rules of the commit. The order here is part of them, though: whose checkpoint is it, may we write,
has Kafka seen a newer one, take over, finish and clean up, and only then start Spark's query.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import methodcaller
from typing import Any, Literal

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from onceflow.checkpoint.identity import Mark, read_identity
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.spark_files import positions, records_between
from onceflow.connectors.contract import Committer, Connector, EpochLimit, Sink, SinkConnection
from onceflow.errors import ConfigurationError
from onceflow.execution import pace
from onceflow.execution.collect import Collector
from onceflow.execution.driver import Driver
from onceflow.execution.failures import from_failure
from onceflow.execution.outputs import Outputs
from onceflow.execution.ownership import claimed, identify, refuse_left, refuse_rewound
from onceflow.execution.progress import Progress
from onceflow.execution.running import RunningJob
from onceflow.execution.source_check import Sources
from onceflow.execution.surroundings import Surroundings
from onceflow.execution.task import Output
from onceflow.options.checkpointing import Checkpointing
from onceflow.spark.plan import (
    keys_repeat,
    require_read_committed,
    require_readable_again,
    unrepeatable,
    warn_of_unrepeatable,
)
from onceflow.spark.session import pin, spark_path
from onceflow.twophase.coordinator import Coordinator, objection
from onceflow.twophase.names import PREFIX
from onceflow.twophase.records import Decide

log = logging.getLogger(__name__)

_BROKERS_MAXIMUM_S = 900.0  # Kafka's default for transactions' time-outs, where the sinks are not known yet
_MODES = ("append", "update", "complete")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to launch.

    Attributes:
        name: The job's name.
        checkpointing: Where the checkpoint is, and how often.
        prefix: First part of the transactional ids.
        output_mode: Spark's.
        bounded: Take what is there and end.
        takeover: None; ``"claim"``: the checkpoint was moved or put back on purpose; ``"as-new"``: it is a second,
            independent job from here on.
        limits: The sources were loaded with the limit that ``epoch_limit`` gave.
        connectors: Who may have made the plan's sources.
    """

    name: str
    checkpointing: Checkpointing
    prefix: str = "onceflow"
    output_mode: str = "append"
    bounded: bool = False
    takeover: Literal["claim", "as-new"] | None = None
    limits: bool = False
    connectors: Sequence[Connector] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ConfigurationError(
                f"a job cannot be named {self.name!r}",
                cause="Spark shows its query under this name, and takes none that is empty",
                action="give it a name",
            )
        if not isinstance(self.prefix, str) or PREFIX.fullmatch(self.prefix) is None:
            raise ConfigurationError(
                f"transactional_id_prefix {self.prefix!r} is refused",
                cause="it begins transactional ids: letters, digits, '.', '_' and '-', at most 64",
                action="choose another one",
            )
        if self.output_mode not in _MODES:
            raise ConfigurationError(f"there is no output mode {self.output_mode!r}", action=f"one of {_MODES}")


def launch(
    session: SparkSession, result: object, sinks: Sequence[Sink], plan: Plan, *, finished: bool = False
) -> RunningJob:
    """Take over the checkpoint and start the query.

    Args:
        session: The SparkSession of the DataFrames.
        result: One streaming DataFrame, or ``{sink: DataFrame}``.
        sinks: The sinks that get the rows of one DataFrame.
        plan: The rest.
        finished: ``finish_decided`` has taken over an undone epoch already.

    Raises:
        OnceflowError: It cannot run, and why. Nothing is left running, and nothing that was decided waits for it.
    """
    if not finished:
        finish_decided(tuple(result) if isinstance(result, Mapping) else sinks, plan)
    outputs = Outputs(result, sinks)
    taking_part = [sink for sink in outputs.sinks if sink.participates]
    if taking_part:
        require_readable_again(outputs.query)
        require_read_committed(outputs.query)
        warn_of_unrepeatable(outputs.query)
    pin(session, plan.checkpointing.retain)
    place = place_of(plan)
    where = spark_path(session, place.checkpoint.folder)
    sources = Sources(outputs.leaves(), outputs.states(), plan.connectors)
    connections: dict[str, SinkConnection] = {}
    try:
        connections = _connected(outputs.sinks, methodcaller("connect"))
        if plan.takeover != "claim":  # which has to leave a mark first: without one no command goes on
            _foresee(place, sources)
        driver = _driver(place, {s.name: connections[s.name] for s in taking_part}, plan)
        progress = Progress(plan.name, driver.reports, sources.distinct)
        try:
            driver.take_over()
            refuse_left(place, driver)
            repeat = keys_repeat(unrepeatable(outputs.query))
            writers = [Output(sink.name, connections[sink.name].writer_factory()) for sink in outputs.sinks]
            runner = Collector(writers, outputs.query.sparkSession, keys_repeat=repeat)
            driver.settle(runner, sources, cuts=plan.limits)
            progress.listen(session)
            query = _start(outputs, driver, where, plan)
        except BaseException:
            progress.close(ended=False)
            driver.close()
            raise
        progress.watch(str(query.runId))
    except BaseException:
        sources.close()
        for connection in connections.values():
            connection.close()
        raise
    return RunningJob(query, driver, tuple(connections.values()), sources, progress)


def _connected(sinks: Iterable[Sink], how: Callable[[Sink], SinkConnection]) -> dict[str, SinkConnection]:
    """Each sink's connection by its name; none is left open when one fails."""
    connections: dict[str, SinkConnection] = {}
    try:
        for sink in sinks:
            if sink.name not in connections:  # two of one name are refused where outputs are put together
                connections[sink.name] = how(sink)
    except BaseException:
        for connection in connections.values():
            connection.close()
        raise
    return connections


def finish_decided(sinks: Sequence[object], plan: Plan) -> bool:
    """Commit what is decided and not finished, before any check may end the start.

    Consumers are waiting for it, and it expires with its transactions. Nothing of it needs Spark, the plan or the
    sources, so their troubles are none of its business. Where nothing is undone it only reads the journal.

    Args:
        sinks: The job's sinks, as far as they are known.
        plan: The rest.

    Returns:
        Whether an undone epoch was found and taken over; False also where not all of its sinks are among these.

    Raises:
        OnceflowError: The checkpoint is not this job's, or cannot be read; or a system was not reached.
    """
    taking_part = [sink for sink in sinks if isinstance(sink, Sink) and sink.participates]
    place = place_of(plan)
    if not taking_part or plan.takeover == "as-new" or not place.has_undone():
        return False
    connections = _connected(taking_part, methodcaller("attach"))
    try:
        systems = {connection.system_id for connection in connections.values()}
        identity = read_identity(place.ours) if plan.takeover is None else claimed(place)
        if identity is not None and (not identity.cluster_id or systems < set(identity.cluster_id.split(","))):
            return False  # not all sinks are listed: those that the stream function returns finish it
        driver = _driver(place, connections, plan, preflight=False)
        try:
            driver.take_over()
        finally:
            driver.close()
        return True
    finally:
        for connection in connections.values():
            connection.close()


def epoch_limit(plan: Plan, sinks: Sequence[Sink]) -> EpochLimit:
    """How many records each source may read for an epoch, from what the journal has measured."""
    known = [s for s in (sink.expires_after_s() for sink in sinks if sink.participates) if s is not None]
    timeout_s = min(known, default=_BROKERS_MAXIMUM_S)
    history, entries = place_of(plan).journal.history()
    decided = [e.record for e in entries if isinstance(e.record, Decide)]
    measured = [
        (_records_between(before.offsets, after.offsets), after.took_ms)
        for before, after in pairwise(decided)
        if after.epoch == before.epoch + 1
    ]
    sources = len(history.layout.sources) if history.layout is not None else 1
    most = None if history.recut is None else history.recut.limit
    if most is not None and history.recut is not None:
        log.warning(
            "epoch %d outlived its transactions: until one is decided, each source reads at most %d records for it",
            history.recut.epoch,
            most,
        )
    return EpochLimit(pace.limit(measured, timeout_s, sources), most)


def _records_between(before: str, after: str) -> int:
    """At most how many records an epoch read, over all sources, from the offsets files before and of it."""
    return sum(records_between(a, b) for a, b in zip(positions(before), positions(after), strict=False))


def _start(outputs: Outputs, driver: Driver, where: str, plan: Plan) -> StreamingQuery:
    writer: Any = (
        outputs.query.writeStream.queryName(plan.name)
        .outputMode(plan.output_mode)
        .option("checkpointLocation", where)
        .foreachBatch(driver)
    )
    if plan.bounded:
        return writer.trigger(availableNow=True).start()  # type: ignore[no-any-return]
    interval = f"{plan.checkpointing.interval_ms} milliseconds"
    return writer.trigger(processingTime=interval).start()  # type: ignore[no-any-return]


def place_of(plan: Plan) -> Place:
    """The job's checkpoint."""
    return Place.at(plan.checkpointing.location, plan.checkpointing.retain)


def _foresee(place: Place, sources: Sources) -> None:
    """Refuse what the start would refuse, before a driver that runs is ended for nothing.

    While an epoch is undone there is nothing to foresee: it may have to be read again, and the start knows.
    """
    while not place.has_undone():
        history, _ = place.journal.history()
        newest = place.checkpoint.newest_commit()
        found, error = sources.survey(place.checkpoint, None, history.layout, again=False)
        failure = objection(history, None, (-1 if newest is None else newest) + 1, found)
        if failure is None:
            return
        # A driver that runs may have gone on in the meantime; then what was looked for was read long ago.
        if (place.journal.history()[0], place.checkpoint.newest_commit()) == (history, newest):
            raise from_failure(failure, error, place.uri, "")


def _driver(place: Place, connections: Mapping[str, SinkConnection], plan: Plan, *, preflight: bool = True) -> Driver:
    """The driver of the sinks that take part, from their connections by name."""
    systems = {connection.system_id for connection in connections.values()}
    identity = identify(place, ",".join(sorted(systems)), plan.prefix, plan.takeover)
    committers: dict[str, Committer] = {}
    try:
        for name, connection in connections.items():
            committers[name] = connection.committer(identity.prefix, identity.job_id)
        if preflight:
            for committer in committers.values():
                committer.preflight()
        place.records.make()
        if plan.takeover is None:
            refuse_rewound(committers.values(), place.journal, identity, place.checkpoint)
        above = _claimed_incarnation(committers.values()) if plan.takeover == "claim" else 0
        coordinator, around = Coordinator(committers), Surroundings.of_process(len(committers))
        return Driver(identity, place.journal, place.checkpoint, committers, place.uri, coordinator, around, above)
    except BaseException:
        for committer in committers.values():
            committer.close()
        raise


def _claimed_incarnation(committers: Iterable[Committer]) -> int:
    """The newest incarnation that Kafka knows of: a claimed older copy must go on above it, or names come twice."""
    marks = [Mark.loads(text) for text in (c.read_mark() for c in committers) if text is not None]
    log.warning(
        "the checkpoint is claimed; leave --claim away at the next start, it turns off the check for old copies"
    )
    return max((mark.incarnation for mark in marks if mark is not None), default=0)
