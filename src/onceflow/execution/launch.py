"""Launching a job: from a streaming DataFrame and sinks to a query that commits exactly once.

Must not know: the rules of the commit. The order here is part of them, though: whose checkpoint is it, may we write,
has Kafka seen a newer one, take over, finish and clean up, and only then start Spark's query.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from operator import methodcaller
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from onceflow.checkpoint import state_schemas
from onceflow.checkpoint.deleting import refuse_deleting
from onceflow.checkpoint.forward_key import ForwardKey
from onceflow.checkpoint.identity import JobIdentity, Mark, read_identity, write_identity
from onceflow.checkpoint.journal import above_all
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.restored import beginning
from onceflow.checkpoint.spark_files import SparkCheckpoint, positions, records_between
from onceflow.checkpoint.statistics import EpochStatistics
from onceflow.checkpoint.trail import Trail
from onceflow.connectors.contract import Committer, Connector, EpochLimit, Guarantee, Sink, SinkConnection
from onceflow.errors import CheckpointError, ConfigurationError, advised
from onceflow.execution import pace, relatives
from onceflow.execution.active import require_free
from onceflow.execution.anchoring import begun
from onceflow.execution.collect import Collector
from onceflow.execution.driver import Driver
from onceflow.execution.failures import from_failure
from onceflow.execution.foresight import Foreseen, connected, require_beside
from onceflow.execution.job_log import JobLog
from onceflow.execution.observer import NOBODY, Observer
from onceflow.execution.outputs import Outputs, settle_guarantees
from onceflow.execution.ownership import (
    claimed,
    identify,
    refuse_incomplete,
    refuse_left,
    refuse_lost,
    refuse_rewound,
    tell_of_moved,
)
from onceflow.execution.phases import Phases
from onceflow.execution.progress import Progress, lag_group
from onceflow.execution.put_back import (
    exchanged,
    leave,
    lost_commits,
    lost_of_parents,
    refuse_parents_put_back,
    refuse_put_back,
)
from onceflow.execution.relatives import targets_of
from onceflow.execution.running import RunningJob
from onceflow.execution.source_check import Sources
from onceflow.execution.surroundings import REAL, Means
from onceflow.execution.task import Output
from onceflow.execution.told import about
from onceflow.findings import Checks
from onceflow.options.auditing import Auditing
from onceflow.options.checkpointing import Checkpointing
from onceflow.spark.authentication import authenticates, require_authenticated, secret_options
from onceflow.spark.cut_windows import HeldBack, hold_back
from onceflow.spark.interpreter import to_try, try_out
from onceflow.spark.plan import (
    Leaf,
    goes_by_the_clock,
    has_state_class,
    keys_repeat,
    require_protobuf,
    require_read_committed,
    require_readable_again,
    require_streamable,
    tell_of_mode,
    unrepeatable,
    warn_of_unrepeatable,
)
from onceflow.spark.replayed import with_known_ends
from onceflow.spark.s3a import require_reached
from onceflow.spark.session import pin, require_known_form, spark_path
from onceflow.twophase.coordinator import objection
from onceflow.twophase.layout import Layout
from onceflow.twophase.names import DEFAULT_PREFIX, PREFIX
from onceflow.twophase.records import Claim, Decide, Start

log = logging.getLogger(__name__)

_BROKERS_MAXIMUM_S = 900.0  # Kafka's default for transactions' time-outs, where the sinks are not known yet
_OF_TIMEOUT = 1.5
"""An epoch is meant to take a quarter of its transactions' time-out, and so three eighths of the checkpoint's."""
OutputMode = Literal["append", "update", "complete"]


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
        parallelism: Partitions of a shuffle, where somebody has said it.
        watched: Whoever starts it waits for its end, and is told why; else the log tells it.
        code: A hash of the job's code, for its receipts; "" where it is not known.
        observer: Told of what happens while it runs.
        fixed_tables: The static tables that it reads stay as they are.
    """

    name: str
    checkpointing: Checkpointing
    prefix: str = DEFAULT_PREFIX
    output_mode: OutputMode = "append"
    bounded: bool = False
    takeover: Literal["claim", "as-new"] | None = None
    limits: bool = False
    connectors: Sequence[Connector] = ()
    watched: bool = True
    code: str = ""
    parallelism: int | None = None
    observer: Observer = NOBODY
    fixed_tables: bool = False

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ConfigurationError(
                f"a job cannot be named {self.name!r}",
                cause="Spark shows its query under this name, and takes none that is empty",
                action="give it a name",
            )
        if PREFIX.fullmatch(self.prefix) is None:
            raise ConfigurationError(
                f"transactional_id_prefix {self.prefix!r} is refused",
                cause="it begins transactional ids: letters, digits, '.', '_' and '-', at most 64",
                action="choose another one",
            )


def launch(
    session: SparkSession,
    result: object,
    sinks: Sequence[Sink],
    plan: Plan,
    phases: Phases,
    *,
    finished: bool = False,
    foreseen: Foreseen | None = None,
) -> RunningJob:
    """Take over the checkpoint and start the query.

    Args:
        session: The SparkSession of the DataFrames.
        result: One streaming DataFrame, or ``{sink: DataFrame}``.
        sinks: The sinks that get the rows of one DataFrame.
        plan: The rest.
        phases: The start's, as far as it has come.
        finished: ``finish_decided`` has taken over an undone epoch already.
        foreseen: What was looked at before Spark was there.

    Raises:
        OnceflowError: It cannot run, and why. Nothing is left running, and nothing that was decided waits for it.
    """
    place = place_of(plan)
    require_free(session, place, plan.name)
    refuse_incomplete(place, whatever_is_undone=plan.takeover == "as-new")
    if not finished:
        finish_decided(tuple(result) if isinstance(result, Mapping) else sinks, plan)
    foreseen = foreseen or Foreseen()
    phases.begin("checks of the plan")
    outputs = outputs_of(session, result, sinks, plan, keyed=(auditing := Auditing.told()).key is not None)
    _try_interpreters(session, outputs.query, phases)
    taking_part = [sink for sink in outputs.sinks if sink.participates]
    where = spark_path(session, place.checkpoint)
    leaves, states, ends = outputs.leaves(), outputs.states(), _never_caught_up(outputs, plan)
    sources = Sources(leaves, states, outputs.kept(), plan.connectors, foreseen.take_sources(), outputs.mark())
    connections: dict[str, SinkConnection] = {}
    try:
        _begin_checks(phases, foreseen, outputs, sources)
        sources.refuse_other_number(place)
        sources.refuse_other_names(place)
        refuse_early(place, sources, plan)
        connections = connected(outputs.sinks, foreseen.connect)
        _check_outputs(outputs, connections, sources)
        is_new = place.is_empty()
        begin = relatives.look(place, targets_of(outputs.sinks, connections), plan.name, plan.takeover)
        planned = max(place.checkpoint.plans_from(0), default=-1)
        phases.begin("taking over the checkpoint")
        driver = take_over(
            place,
            {s.name: connections[s.name] for s in taking_part},
            plan,
            preflight=not foreseen.allows(taking_part),
            above=_above(outputs.sinks),
        )
        progress = Progress(
            plan.name,
            driver.reports,
            sources.distinct,
            phases.end,
            planned=planned,
            newest=driver.newest_done(),
            readings=sources.readings,
            keep=_keeping(place, plan),
            group=lag_group(plan.prefix, plan.name) if plan.checkpointing.publish_offsets else None,
            observer=plan.observer,
        )
        try:
            begin()
            if is_new:
                _tell_of_new_job(leaves, place, plan)
            layout = place.journal.history()[0].layout
            runner = Collector(
                [Output(sink.name, connections[sink.name].writer_factory()) for sink in outputs.sinks],
                outputs.query.sparkSession,
                keys_repeat=keys_repeat(unrepeatable(outputs.query)),
                stateful=lambda: bool(states) or place.checkpoint.is_stateful(),
                together=outputs.together,
                metadata=place.checkpoint.metadata,
                key=auditing.key,
            )
            _audit(place, plan, outputs, auditing)
            driver.settle(runner, sources, cuts=plan.limits)
            anchor = begun(place.journal, auditing, driver.committers(), plan.name).go_on
            _tell_of_before(layout, outputs.sinks, place, planned, plan.name)
            progress.listen(session)
            phases.begin("the first epoch")
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
    return RunningJob(query, driver, tuple(connections.values()), sources, progress, anchor, ends_when_idle=ends)


def _try_interpreters(session: SparkSession, query: DataFrame, phases: Phases) -> None:
    """Look that tasks can run in each Python that the plan will ask for: else the first record would end the job."""
    for interpreter in to_try(session, query):
        phases.begin(f"a task in {interpreter}")
        try_out(session, interpreter)


def _begin_checks(phases: Phases, foreseen: Foreseen, outputs: Outputs, sources: Sources) -> None:
    """Tell of what is looked at now and was not before Spark was there."""
    if not foreseen.allows(outputs.sinks):
        phases.begin(foreseen.left(outputs.sinks, filter(None, sources.distinct)))


def _check_outputs(outputs: Outputs, connections: Mapping[str, SinkConnection], sources: Sources) -> None:
    """Look whether each output fits what it goes to. That may make a topic or a table: the plan is accepted."""
    sources.refuse_to_read({sink: connections[sink.name].system_id for sink in outputs.dead_letter_sinks})
    for sink in outputs.sinks:
        connections[sink.name].check_output(outputs.fields(sink))
    require_beside(connections)


def _never_caught_up(outputs: Outputs, plan: Plan) -> bool:
    """Whether Spark would run epochs without records for ever, where the run is to end when it has caught up."""
    if not (plan.bounded and goes_by_the_clock(outputs.query)):
        return False
    if not plan.watched:  # whoever waits for the query would be told of an end in the middle of an epoch
        raise ConfigurationError(
            'start(..., until="caught-up") is refused: the plan keeps state by processing time, for which Spark runs '
            "epochs without end",
            harmless="always: nothing was started or changed",
            cause="a timer, a timeout or a TTL by processing time: an epoch may be due without a record",
            action='make a Job of it: job.run(until="caught-up") ends when all is read; or leave until away, and stop '
            "the query when you like",
        )
    JobLog(log, plan.name).info(
        "the plan keeps state by processing time, for which Spark runs epochs without end: this run ends behind the "
        "first that reads nothing and moves no watermark; a timer that is not due by then fires in a later run"
    )
    return True


def _audit(place: Place, plan: Plan, outputs: Outputs, kept: Auditing) -> None:
    """From here on finished epochs get their receipts, which say what code and settings they are of."""
    spark = outputs.query.sparkSession.conf.getAll
    settings = {
        "checkpointing": plan.checkpointing.model_dump(mode="json", exclude={"location"}),
        "prefix": plan.prefix,
        "output_mode": plan.output_mode,
        "spark": {name: value for name, value in spark.items() if name.startswith("spark.sql.")},
    }
    told = about(plan.name, plan.code, settings, outputs)
    forward = None if kept.forward_key_file is None else ForwardKey.read(kept.forward_key_file)
    trail = Trail(place.trail, key=kept.key, forward=forward, retention=kept.retention, begins=beginning(place))
    place.journal.audited(trail, told)


def outputs_for(result: object, sinks: Sequence[Sink], plan: Plan, *, keyed: bool = False) -> Outputs:
    """The outputs of what a stream function returned, without windows of which a part was left behind.

    Args:
        result: One streaming DataFrame, or ``{sink: DataFrame}``.
        sinks: The sinks that get the rows of one DataFrame.
        plan: The rest.
        keyed: As ``Outputs`` takes it.

    Raises:
        ConfigurationError: As of ``Outputs``; or windows cannot be held back.
    """
    layout = place_of(plan).journal.history()[0].layout
    cut = None if layout is None else layout.cut
    if cut is None:
        return Outputs(result, sinks, plan.connectors, plan.output_mode, keyed=keyed)
    given = result.values() if isinstance(result, Mapping) else [result]
    # Outputs of one frame stay outputs of one: they share its positions.
    held = {id(frame): hold_back(frame, cut) for frame in given if isinstance(frame, DataFrame)}
    _require_whole(plan, held.values())

    def whole(frame: Any) -> Any:
        return held[id(frame)].frame if id(frame) in held else frame

    now = {sink: whole(frame) for sink, frame in result.items()} if isinstance(result, Mapping) else whole(result)
    return Outputs(now, sinks, plan.connectors, plan.output_mode, keyed=keyed)


def _require_whole(plan: Plan, held: Collection[HeldBack]) -> None:
    """Refuse windows that would come out without what was left behind, and say which are held back."""
    partial = sorted({name for each in held for name in each.partial})
    wider = sorted({asked for each in held for asked in each.wider})
    if partial:
        raise ConfigurationError(
            f"windows ({', '.join(partial)}) would come out that lack what was read before this job began",
            harmless="always: nothing was read or written",
            cause="the checkpoint was made of a savepoint without its state, and which windows had begun is not known: "
            "they are sessions, or of another time than the watermark's, or not all that the older job read went by "
            "one watermark"
            + (
                f", or they may count rows that its watermark has not seen, which saw those {'; '.join(wider)}"
                * bool(wider)
            ),
            action="resume with the state. Or remove the checkpoint's folder, in which no epoch has run, and run from "
            "the savepoint again with --allow-partial-windows",
        )
    said = JobLog(log, plan.name)
    if any(each.holds for each in held):
        said.warning(
            "windows that began by %s are held back: this job began behind events of up to then, without their state",
            datetime.fromtimestamp(max(each.until_ms for each in held) / 1000, UTC).isoformat(timespec="milliseconds"),
        )
    others = sorted({name for each in held for name in each.others})
    if others:
        said.warning("what %s gives lacks what the state had gathered before this job began", ", ".join(others))


def outputs_of(session: SparkSession, result: object, sinks: Sequence[Sink], plan: Plan, *, keyed: bool) -> Outputs:
    """The outputs as one query that Spark can run, in a session that is set up for it.

    Args:
        session: The SparkSession of the DataFrames.
        result: One streaming DataFrame, or ``{sink: DataFrame}``.
        sinks: The sinks that get the rows of one DataFrame.
        plan: The rest.
        keyed: As ``Outputs`` takes it.

    Raises:
        OnceflowError: It cannot run, and why.
    """
    outputs = outputs_for(result, sinks, plan, keyed=keyed)
    settle_guarantees(outputs.sinks, plan.checkpointing)
    again = any(map(must_come_again, outputs.sinks))
    check_query(outputs.query, plan.output_mode, read_again=again, fixed_tables=plan.fixed_tables)
    settings = dict(session.sparkContext.getConf().getAll())
    if not authenticates(settings):  # else nobody need walk the plan for what tasks carry
        JobLog(log, plan.name).warning("%s", require_authenticated(settings, carriers_of_secrets(outputs)))
    checkpoint = place_of(plan).checkpoint
    require_reached(session, checkpoint)
    if has_state_class(outputs.query):
        require_known_form(session, checkpoint)
    set_up(session, checkpoint, plan)
    return outputs


def _keeping(place: Place, plan: Plan) -> Callable[[EpochStatistics], None]:
    """What keeps an epoch's statistics; and says once, by what lies there, that state is written incrementally."""
    expected = plan.checkpointing.incremental

    def keep(epoch: EpochStatistics) -> None:
        nonlocal expected
        place.statistics.add(epoch)
        if expected and epoch.state_rows is not None and (seen := place.checkpoint.changelogs()):
            expected = False
            JobLog(log, plan.name).info("state is incremental: %d changelog files are in the checkpoint", seen)

    return keep


def set_up(session: SparkSession, checkpoint: SparkCheckpoint, plan: Plan) -> None:
    """Set what the query runs with, and say where the checkpoint goes before the job's settings.

    State is kept in as many partitions as at its first start.
    """
    of = plan.checkpointing
    settings = {
        "spark.sql.streaming.minBatchesToRetain": str(of.retain),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": str(of.incremental).lower(),
        "spark.sql.streaming.stateStore.rocksdb.compression": "lz4" if of.compression else "none",
    }
    if plan.parallelism is not None:
        settings["spark.sql.shuffle.partitions"] = str(plan.parallelism)
    pin(session, {**settings, **checkpoint.store.fs.spark})
    kept, wanted = checkpoint.shuffle_partitions(), session.conf.get("spark.sql.shuffle.partitions")
    if checkpoint.is_stateful() and kept is not None and str(kept) != wanted:
        JobLog(log, plan.name).warning(
            "parallelism.default (spark.sql.shuffle.partitions) is %s, and stays %d: in so many partitions the "
            "checkpoint keeps its state for as long as it lives",
            wanted,
            kept,
        )


def carriers_of_secrets(outputs: Outputs) -> list[str]:
    """What of a job has its tasks carry a secret, in words."""
    sinks = [f"the secret of sink {sink.name}" for sink in outputs.sinks if sink.carries_secret]
    read = [name for leaf in outputs.leaves() for name in secret_options(leaf.options)]
    key = ["the audit's key for rows"] if outputs.keyed else []
    return [*sinks, *dict.fromkeys(f"{name} of a source" for name in read), *key]


def must_come_again(sink: Sink) -> bool:
    """Whether a sink's rows must be the same when an epoch is run again."""
    return sink.participates or sink.guarantee is Guarantee.IDEMPOTENT_UPSERT


def check_query(query: DataFrame, mode: str, *, read_again: bool, fixed_tables: bool = False) -> None:
    """What Spark can tell of the plan before anything is touched."""
    require_streamable(query, mode)
    require_protobuf(query)
    tell_of_mode(query, mode)
    if read_again:
        checks = Checks()
        with checks.one():
            require_readable_again(query)
        with checks.one():
            require_read_committed(query)
        checks.end()
        warn_of_unrepeatable(query, fixed_tables=fixed_tables)


def finish_decided(sinks: Sequence[object], plan: Plan, means: Means = REAL) -> bool:
    """Commit what is decided and not finished, before any check may end the start.

    Consumers are waiting for it, and it expires with its transactions. Nothing of it needs Spark, the plan or the
    sources, so their troubles are none of its business. Where nothing is undone it only reads the journal.

    Args:
        sinks: The job's sinks, as far as they are known.
        plan: The rest.
        means: What the driver is made of.

    Returns:
        Whether an undone epoch was found and taken over; False also where not all of its sinks are among these.

    Raises:
        OnceflowError: The checkpoint is not this job's, or cannot be read; or a system was not reached.
    """
    settle_guarantees(sinks, plan.checkpointing)
    taking_part = [sink for sink in sinks if isinstance(sink, Sink) and sink.participates]
    place = place_of(plan, means)
    if not taking_part or plan.takeover == "as-new" or not place.has_undone():
        return False
    refuse_incomplete(place)
    connections = connected(taking_part, methodcaller("attach"))
    try:
        systems = {connection.system_id for connection in connections.values()}
        identity = read_identity(place.ours) if plan.takeover is None else claimed(place)
        if identity is not None and (not identity.cluster_id or systems < set(identity.cluster_id.split(","))):
            return False  # not all sinks are listed: those that the stream function returns finish it
        driver = _driver(place, connections, plan, means, preflight=False)
        try:
            driver.take_over()
        finally:
            driver.close()
        return True
    finally:
        for connection in connections.values():
            connection.close()


def epoch_limit(plan: Plan, sinks: Sequence[Sink], means: Means = REAL) -> EpochLimit:
    """How many records each source may read for an epoch, from what the journal has measured."""
    known = [s for s in (sink.expires_after_s() for sink in sinks if sink.participates) if s is not None]
    timeout_s = min(min(known, default=_BROKERS_MAXIMUM_S), _OF_TIMEOUT * plan.checkpointing.timeout_ms / 1000)
    history, entries = place_of(plan, means).journal.history()
    decided = [e.record for e in entries if isinstance(e.record, Decide)]
    measured = [
        (_records_between(before.offsets, after.offsets), after.took_ms)
        for before, after in pairwise(decided)
        if after.epoch == before.epoch + 1
    ]
    sources = len(history.layout.sources) if history.layout is not None else 1
    most = None if history.recut is None else history.recut.limit
    if most is not None and history.recut is not None:
        JobLog(log, plan.name).warning(
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
        .foreachBatch(with_known_ends(outputs.query.sparkSession, driver))
    )
    if plan.bounded:
        return writer.trigger(availableNow=True).start()  # type: ignore[no-any-return]
    interval = f"{plan.checkpointing.interval_ms} milliseconds"
    return writer.trigger(processingTime=interval).start()  # type: ignore[no-any-return]


def place_of(plan: Plan, means: Means = REAL) -> Place:
    """The job's checkpoint.

    Raises:
        CheckpointConflictError: It is being deleted.
    """
    place = means.opened(plan.checkpointing.location, plan.checkpointing.retain)
    refuse_deleting(place)
    return place


def take_over(
    place: Place,
    connections: Mapping[str, SinkConnection],
    plan: Plan,
    means: Means = REAL,
    *,
    preflight: bool = True,
    above: int = 0,
) -> Driver:
    """The driver of this start, which has taken over the checkpoint.

    Args:
        place: The checkpoint.
        connections: Of the sinks that take part, by name.
        plan: The rest.
        means: What the driver is made of.
        preflight: Prove first that the sinks may write; False where that was done.
        above: Its incarnation is to be greater than this.

    Raises:
        OnceflowError: It cannot go on. Nothing is left of the driver, and nothing that was decided waits for it.
    """
    driver = _driver(place, connections, plan, means, preflight=preflight, above=above)
    try:
        driver.take_over()
        refuse_left(place, driver)
        refuse_incomplete(place, whatever_is_undone=True)
        state_schemas.bring_home(place.checkpoint.store)
    except BaseException:
        driver.close()
        raise
    return driver


def _tell_of_new_job(leaves: Iterable[Leaf], place: Place, plan: Plan) -> None:
    """Say that nothing was found, where, and what follows: whoever expected a checkpoint there sees it at once."""
    reads = ", ".join(dict.fromkeys(leaf.begins for leaf in leaves))
    log.info("there is no checkpoint at %s: %s is a new job, and reads %s", place.checkpoint.where, plan.name, reads)


def _tell_of_before(known: Layout | None, sinks: Sequence[Sink], place: Place, planned: int, name: str) -> None:
    """Say what the start before has left: an epoch that is run again; sinks that are gone, or new in the middle."""
    if known is None:
        return
    if planned > (-1 if (done := place.checkpoint.newest_commit()) is None else done) and not place.has_undone():
        JobLog(log, name).info("epoch %d was planned before and not decided: it is run again", planned)
    before = {name for source in known.sources for name in source.outputs}
    now = {sink.name for sink in sinks}
    decided, newest = place.journal.history()[0].decided, place.checkpoint.newest_commit()
    first = max(-1 if decided is None else decided.epoch, -1 if newest is None else newest) + 1
    told = [f"sink {name} of the checkpoint is gone" for name in sorted(before - now)]
    told += [f"sink {name} is new: it gets epochs from {first} on" for name in sorted(now - before)]
    if told:
        log.warning("%s", "; ".join(told))


def refuse_early(place: Place, sources: Sources, plan: Plan) -> None:
    """Refuse what the start would refuse, before a driver that runs is ended for nothing.

    While an epoch is undone there is nothing to foresee: it may have to be read again, and the start knows.

    Args:
        place: The checkpoint.
        sources: What the plan reads and keeps.
        plan: The rest.

    Raises:
        OnceflowError: What the start would raise.
    """
    if plan.takeover == "claim":
        return  # it has to leave a mark first: without one no command goes on
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


def _above(sinks: Sequence[Sink]) -> int:
    """Above which incarnation a start of a job with these sinks is.

    One that takes no part keeps no mark, so nobody notices an older copy of the checkpoint; and one that upserts may
    let rows of older incarnations replace nothing. The clock tells there what no mark does.
    """
    unmarked = any(s.guarantee is Guarantee.IDEMPOTENT_UPSERT and not s.participates for s in sinks)
    return above_all() if unmarked else 0


def _driver(
    place: Place,
    connections: Mapping[str, SinkConnection],
    plan: Plan,
    means: Means,
    *,
    preflight: bool = True,
    above: int = 0,
) -> Driver:
    """The driver of the sinks that take part, from their connections by name."""
    if plan.takeover is None:
        refuse_lost(place, connections.values(), plan.prefix, plan.name)
    systems = _systems(connections)
    left = _left(place) if plan.takeover == "as-new" else None
    identity = identify(place, ",".join(sorted(set(systems.values()))), plan.prefix, plan.takeover, systems)
    committers: dict[str, Committer] = {}
    try:
        for name, connection in connections.items():
            committers[name] = connection.committer(identity.prefix, identity.job_id)
        if preflight:
            for committer in committers.values():
                committer.preflight()
        place.records.make()
        if plan.takeover is None:
            marks = refuse_rewound(committers, place.journal, identity, place.checkpoint)
            _refuse_older(place, committers, connections, identity)
            kept = {sink: mark for sink, mark in marks.items() if committers[sink].keeps_mark}
            tell_of_moved(kept, place.journal.history()[0], identity.job_id, plan.name)
        claim: Claim | None = None
        left = left or _still_to_leave(place, identity, plan)
        had = () if left is None else leave(place, left, committers, connections, now=plan.takeover == "as-new")
        if plan.takeover == "claim":
            above = max(above, _claimed_incarnation(committers.values()))
            claim = _claim(place, committers, connections, identity, plan.name)
        said = Start(0, claim=claim, systems=systems, left=had)
        rules, around = means.rules(committers), means.around(len(committers))
        files = (place.journal, place.checkpoint)
        driver = Driver(identity, *files, committers, place.uri, rules, around, above, plan.name, said)
        if plan.takeover == "claim":
            # Behind all that may refuse it: a claim that fails leaves the checkpoint as it was. Whoever dies between
            # this and the start that follows says the same again.
            write_identity(place.ours, identity)
    except BaseException:
        for committer in committers.values():
            committer.close()
        raise
    driver.look_behind = partial(_refuse_older, place, committers, connections, identity)
    driver.is_watched = plan.watched
    driver.timeout_s = plan.checkpointing.timeout_ms / 1000
    driver.min_pause_s = plan.checkpointing.min_pause_ms / 1000
    driver.observer = plan.observer
    return driver


def _left(place: Place) -> JobIdentity | None:
    """The job that a new one is to leave; None for one of which nothing can be asked, since its file is spoiled."""
    with suppress(CheckpointError):
        return read_identity(place.ours)
    return None


def _still_to_leave(place: Place, identity: JobIdentity, plan: Plan) -> JobIdentity | None:
    """The job that this one is to leave, where the start with ``--as-new`` came no further than to ``job.json``."""
    if not identity.left or place.journal.history()[0].job_id != identity.left:
        return None
    # What it has lost is given up by a claim.
    at = "" if plan.takeover == "claim" else place.uri
    return JobIdentity(identity.left, at, identity.cluster_id, identity.prefix)


def _refuse_older(
    place: Place,
    committers: Mapping[str, Committer],
    connections: Mapping[str, SinkConnection],
    identity: JobIdentity,
) -> None:
    """Refuse a sink's system that came back older than what the job has committed, or goes on from."""
    refuse_put_back(committers, _systems(connections), place.journal, identity, place.checkpoint)
    refuse_parents_put_back(place, committers, connections)


def _systems(connections: Mapping[str, SinkConnection]) -> dict[str, str]:
    return {sink: connection.system_id for sink, connection in connections.items()}


def _claim(
    place: Place,
    committers: Mapping[str, Committer],
    connections: Mapping[str, SinkConnection],
    identity: JobIdentity,
    name: str,
) -> Claim:
    """What the job has committed and its sinks do not know any more: a claim gives that up, and says what."""
    systems = _systems(connections)
    elsewhere = exchanged(committers, systems, place.journal, identity)
    for sink, newest in elsewhere.items():
        what = "sink %s writes to another system than before: what it has committed up to epoch %d is asked for no more"
        JobLog(log, name).warning(what, sink, newest.epoch)
    mine = lost_commits(committers, systems, place.journal, identity, place.checkpoint)
    older = [(f"job {parent.job_id}", lost) for parent, lost in lost_of_parents(place, committers, connections, mine)]
    found = [(whose, sink, of) for whose, lost in [("this job", mine), *older] for sink, of in lost.items()]
    for whose, sink, of in found:
        JobLog(log, name).warning(
            "sink %s does not know epoch %d to %d of %s any more: the claim gives up %s there",
            sink,
            of.epochs[-1].epoch,
            of.newest.epoch,
            whose,
            of.told,
        )
    ends = {each.handle for _, _, of in found for each in (of.newest, of.epochs[-1])}
    ends |= {newest.handle for newest in elsewhere.values()}
    # What is known of an older job is asked of that job's checkpoint.
    known = (of.known for sink, of in mine.items() if sink not in elsewhere and of.known is not None)
    return Claim(tuple(sorted(ends)), tuple(known))


def _claimed_incarnation(committers: Iterable[Committer]) -> int:
    """Above what a claimed older copy goes on: above all that any system has of its job, or names come twice.

    The marks tell it, where they are kept; a ledger or a table may have rows of starts of which no mark is left.
    """
    marks = [Mark.loads(text) for text in (c.read_mark() for c in committers) if text is not None]
    log.warning(
        "the checkpoint is claimed; the next start goes without %s, which turns off the check for old copies",
        advised("claim"),
    )
    return max([above_all(), *(mark.incarnation for mark in marks if mark is not None)])
