"""The query of a job: what a stream function returned, checked and set up as one query that Spark can run.

Must not know: whose the checkpoint is, sinks' systems, how an epoch commits.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.connectors.contract import Guarantee, Sink
from onceflow.errors import ConfigurationError
from onceflow.execution.guarantees import settle_guarantees
from onceflow.execution.job_log import JobLog
from onceflow.execution.outputs import Outputs
from onceflow.execution.source_check import Sources
from onceflow.findings import Checks
from onceflow.formats.schemas import asking
from onceflow.launch.request import StartRequest, place_of
from onceflow.launch.row_limits import RowLimits
from onceflow.launch.starting import Starting
from onceflow.options.auditing import Auditing
from onceflow.spark.authentication import authenticates, require_authenticated, secret_options
from onceflow.spark.cut_windows import HeldBack, hold_back
from onceflow.spark.interpreter import to_try, try_out
from onceflow.spark.plan import (
    goes_by_the_clock,
    has_state_class,
    require_protobuf,
    require_read_committed,
    require_readable_again,
    require_streamable,
    tell_of_mode,
    warn_of_unrepeatable,
)
from onceflow.spark.s3a import require_reached
from onceflow.spark.session import pin, require_known_form, spark_path

log = logging.getLogger(__name__)


def call_function(starting: Starting) -> None:
    """Have the stream function make its stream."""
    with asking(starting.schemas):
        starting.result = starting.make_stream(starting.session)


def put_together(starting: Starting) -> None:
    """Make one query of the outputs, and see whether Spark can run it exactly once."""
    starting.phases.begin("checks of the plan")
    starting.auditing, request = Auditing.from_environment(), starting.request
    keyed = starting.auditing.key is not None
    with asking(starting.schemas):
        outputs = outputs_of(
            starting.session, starting.result, starting.to, request, keyed=keyed, limits=starting.row_limits
        )
    starting.outputs = outputs
    starting.where = spark_path(starting.session, starting.place.checkpoint)
    starting.ends_when_idle = never_caught_up(outputs, request)
    leaves, states, asked = outputs.leaves(), outputs.states(), starting.systems.take_sources()
    starting.leaves, starting.is_stateful = leaves, bool(states)
    starting.reads = Sources(leaves, states, outputs.kept(), request.connectors, asked, outputs.mark())
    starting.opened.callback(starting.reads.close)


def try_interpreters(starting: Starting) -> None:
    """Look that tasks can run in each Python that the plan will ask for: else the first record would end the job."""
    for interpreter in to_try(starting.session, starting.outputs.query):
        starting.phases.begin(f"a task in {interpreter}")
        try_out(starting.session, interpreter, starting.request.checkpointing.timeout_ms / 1000)


def outputs_for(
    result: object,
    sinks: Sequence[Sink],
    request: StartRequest,
    *,
    keyed: bool = False,
    limits: RowLimits | None = None,
) -> Outputs:
    """The outputs of what a stream function returned, without windows of which a part was left behind.

    Args:
        result: One streaming DataFrame, or ``{sink: DataFrame}``.
        sinks: The sinks that get the rows of one DataFrame.
        request: The rest.
        keyed: As ``Outputs`` takes it.
        limits: What sinks take of a row; None: what was kept of that, since decided epochs are run again.

    Raises:
        ConfigurationError: As of ``Outputs``; or windows cannot be held back.
    """
    place = place_of(request)
    limits_of = (limits or RowLimits(place, again=True)).of
    layout = place.journal.history()[0].layout
    cut = None if layout is None else layout.cut
    if cut is None:
        return Outputs(result, sinks, request.connectors, request.output_mode, keyed=keyed, limits_of=limits_of)
    given = result.values() if isinstance(result, Mapping) else [result]
    # Outputs of one frame stay outputs of one: they share its positions.
    held = {id(frame): hold_back(frame, cut) for frame in given if isinstance(frame, DataFrame)}
    _require_whole(request, held.values())

    def whole(frame: Any) -> Any:
        return held[id(frame)].frame if id(frame) in held else frame

    now = {sink: whole(frame) for sink, frame in result.items()} if isinstance(result, Mapping) else whole(result)
    return Outputs(now, sinks, request.connectors, request.output_mode, keyed=keyed, limits_of=limits_of)


def _require_whole(request: StartRequest, held: Collection[HeldBack]) -> None:
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
    said = JobLog(log, request.name)
    if any(each.holds for each in held):
        said.warning(
            "windows that began by %s are held back: this job began behind events of up to then, without their state",
            datetime.fromtimestamp(max(each.until_ms for each in held) / 1000, UTC).isoformat(timespec="milliseconds"),
        )
    others = sorted({name for each in held for name in each.others})
    if others:
        said.warning("what %s gives lacks what the state had gathered before this job began", ", ".join(others))


def outputs_of(
    session: SparkSession,
    result: object,
    sinks: Sequence[Sink],
    request: StartRequest,
    *,
    keyed: bool,
    limits: RowLimits,
) -> Outputs:
    """The outputs as one query that Spark can run, in a session that is set up for it.

    Args:
        session: The SparkSession of the DataFrames.
        result: One streaming DataFrame, or ``{sink: DataFrame}``.
        sinks: The sinks that get the rows of one DataFrame.
        request: The rest.
        keyed: As ``Outputs`` takes it.
        limits: What sinks take of a row.

    Raises:
        OnceflowError: It cannot run, and why.
    """
    outputs = outputs_for(result, sinks, request, keyed=keyed, limits=limits)
    settle_guarantees(outputs.sinks, request.checkpointing)
    again = any(map(must_come_again, outputs.sinks))
    require_runnable(outputs.query, request.output_mode, read_again=again, fixed_tables=request.fixed_tables)
    settings = dict(session.sparkContext.getConf().getAll())
    if not authenticates(settings):  # else nobody need walk the plan for what tasks carry
        JobLog(log, request.name).warning("%s", require_authenticated(settings, carriers_of_secrets(outputs)))
    checkpoint = place_of(request).checkpoint
    require_reached(session, checkpoint)
    if has_state_class(outputs.query):
        require_known_form(session, checkpoint)
    set_up(session, checkpoint, request)
    return outputs


def set_up(session: SparkSession, checkpoint: SparkCheckpoint, request: StartRequest) -> None:
    """Set what the query runs with, and say where the checkpoint goes before the job's settings.

    State is kept in as many partitions as at its first start.
    """
    of = request.checkpointing
    settings = {
        "spark.sql.streaming.minBatchesToRetain": str(of.retain),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": str(of.incremental).lower(),
        "spark.sql.streaming.stateStore.rocksdb.compression": "lz4" if of.compression else "none",
    }
    if request.parallelism is not None:
        settings["spark.sql.shuffle.partitions"] = str(request.parallelism)
    pin(session, {**settings, **checkpoint.store.fs.spark})
    kept, wanted = checkpoint.shuffle_partitions(), session.conf.get("spark.sql.shuffle.partitions")
    if checkpoint.is_stateful() and kept is not None and str(kept) != wanted:
        JobLog(log, request.name).warning(
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


def require_runnable(query: DataFrame, mode: str, *, read_again: bool, fixed_tables: bool = False) -> None:
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


def never_caught_up(outputs: Outputs, request: StartRequest) -> bool:
    """Whether Spark would run epochs without records for ever, where the run is to end when it has caught up."""
    if not (request.bounded and goes_by_the_clock(outputs.query)):
        return False
    if not request.watched:  # whoever waits for the query would be told of an end in the middle of an epoch
        raise ConfigurationError(
            'start(..., until="caught-up") is refused: the plan keeps state by processing time, for which Spark runs '
            "epochs without end",
            harmless="always: nothing was started or changed",
            cause="a timer, a timeout or a TTL by processing time: an epoch may be due without a record",
            action='make a Job of it: job.run(until="caught-up") ends when all is read; or leave until away, and stop '
            "the query when you like",
        )
    JobLog(log, request.name).info(
        "the plan keeps state by processing time, for which Spark runs epochs without end: this run ends behind the "
        "first that reads nothing and moves no watermark; a timer that is not due by then fires in a later run"
    )
    return True
