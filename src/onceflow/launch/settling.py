"""Steps of a start that are about its query: nothing else runs it, the driver is told what it runs, Spark begins.

Must not know: the rules of the commit, whose the checkpoint is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from onceflow.checkpoint.forward_key import ForwardKey
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.restored import beginning
from onceflow.checkpoint.statistics import EpochStatistics
from onceflow.checkpoint.trail import Trail
from onceflow.connectors.contract import Sink
from onceflow.execution.anchoring import begun
from onceflow.execution.collect import Collector
from onceflow.execution.driver import Driver
from onceflow.execution.job_log import JobLog
from onceflow.execution.outputs import Outputs
from onceflow.execution.progress import Progress, lag_group
from onceflow.execution.running import RunningJob
from onceflow.execution.task import Output
from onceflow.launch import relatives
from onceflow.launch.active import require_free
from onceflow.launch.query import put_together
from onceflow.launch.receipt_header import about
from onceflow.launch.relatives import require_unwritten, targets_of
from onceflow.launch.request import StartRequest
from onceflow.launch.starting import Starting
from onceflow.options.auditing import Auditing
from onceflow.spark.internals import running_session
from onceflow.spark.plan import Leaf, keys_repeat, unrepeatable
from onceflow.spark.replayed import with_known_ends
from onceflow.twophase.layout import Layout

log = logging.getLogger(__name__)


def require_alone(starting: Starting) -> None:
    """Refuse a start beside a query of this name, or on this checkpoint, in the session that runs."""
    session = running_session()
    if session is not None:
        require_free(session, starting.place, starting.request.name)


def find_session(starting: Starting) -> None:
    """Make Spark's session, or find it."""
    starting.session = starting.make_session()


def put_together_alone(starting: Starting) -> None:
    """Put the query together, in a session that has none of its name: a program may have several sessions."""
    require_free(starting.session, starting.place, starting.request.name)
    put_together(starting)


def look_at_family(starting: Starting) -> None:
    """Refuse to write again what another job of the family has written, unless that was said."""
    targets, request = targets_of(starting.outputs.sinks, starting.connections), starting.request
    starting.enter = relatives.look(starting.place, targets, request.name, request.takeover)


def require_family(starting: Starting) -> None:
    """As ``look_at_family``; while an epoch is undone that comes first, and a start says the rest."""
    if starting.request.takeover is None and not starting.place.has_undone():
        require_unwritten(starting.place, targets_of(starting.outputs.sinks, starting.connections))


def settle(starting: Starting) -> None:
    """Tell the driver what it runs, and compare what the plan reads and keeps with what the checkpoint knows."""
    place, request, outputs, driver, reads = (
        starting.place,
        starting.request,
        starting.outputs,
        starting.driver,
        starting.reads,
    )
    starting.schemas.keep()
    starting.row_limits.keep()
    starting.progress = Progress(
        request.name,
        driver.reports,
        reads.distinct,
        starting.phases.end,
        planned=starting.planned,
        newest=driver.newest_done(),
        readings=reads.readings,
        keep=_keeping(place, request),
        group=lag_group(request.prefix, request.name) if request.checkpointing.publish_offsets else None,
        observer=request.observer,
    )
    starting.opened.callback(starting.progress.close, ended=False)
    starting.enter()
    if starting.is_new:
        _tell_of_new_job(starting.leaves, place, request)
    layout = place.journal.history()[0].layout
    runner = Collector(
        [Output(sink.name, starting.connections[sink.name].writer_factory()) for sink in outputs.sinks],
        outputs.query.sparkSession,
        keys_repeat=keys_repeat(unrepeatable(outputs.query)),
        stateful=lambda: starting.is_stateful or place.checkpoint.is_stateful(),
        together=outputs.together,
        metadata=place.checkpoint.metadata,
        key=starting.auditing.key,
        of_epoch=outputs.of_epoch,
    )
    _audit(place, request, outputs, starting.auditing)
    driver.settle(runner, reads, cuts=request.limits)
    starting.tell_newest = begun(place.journal, starting.auditing, driver.committers(), request.name).go_on
    _tell_of_before(layout, outputs.sinks, place, starting.planned, request.name)


def begin_query(starting: Starting) -> None:
    """Start Spark's query: from here on epochs come."""
    driver, progress, request = starting.driver, starting.progress, starting.request
    progress.listen(starting.session)
    starting.phases.begin("the first epoch")
    query = _start(starting.outputs, driver, starting.where, request)
    progress.watch(str(query.runId))
    connections = tuple(starting.connections.values())
    starting.runs(
        RunningJob(
            query,
            driver,
            connections,
            starting.reads,
            progress,
            starting.tell_newest,
            ends_when_idle=starting.ends_when_idle,
        )
    )


def _audit(place: Place, request: StartRequest, outputs: Outputs, kept: Auditing) -> None:
    """From here on finished epochs get their receipts, which say what code and settings they are of."""
    spark = outputs.query.sparkSession.conf.getAll
    settings = {
        "checkpointing": request.checkpointing.model_dump(mode="json", exclude={"location"}),
        "prefix": request.prefix,
        "output_mode": request.output_mode,
        "spark": {name: value for name, value in spark.items() if name.startswith("spark.sql.")},
    }
    told = about(request.name, request.code, settings, outputs)
    forward = None if kept.forward_key_file is None else ForwardKey.read(kept.forward_key_file)
    trail = Trail(place.trail, key=kept.key, forward=forward, retention=kept.retention, begins=beginning(place))
    place.journal.audited(trail, told)


def _keeping(place: Place, request: StartRequest) -> Callable[[EpochStatistics], None]:
    """What keeps an epoch's statistics; and says once, by what lies there, that state is written incrementally."""
    expected = request.checkpointing.incremental

    def keep(epoch: EpochStatistics) -> None:
        nonlocal expected
        place.statistics.add(epoch)
        if expected and epoch.state_rows is not None and (seen := place.checkpoint.changelogs()):
            expected = False
            JobLog(log, request.name).info("state is incremental: %d changelog files are in the checkpoint", seen)

    return keep


def _start(outputs: Outputs, driver: Driver, where: str, request: StartRequest) -> StreamingQuery:
    writer: Any = (
        outputs.query.writeStream.queryName(request.name)
        .outputMode(request.output_mode)
        .option("checkpointLocation", where)
        .foreachBatch(with_known_ends(outputs.query.sparkSession, driver))
    )
    if request.bounded:
        return writer.trigger(availableNow=True).start()  # type: ignore[no-any-return]
    interval = f"{request.checkpointing.interval_ms} milliseconds"
    return writer.trigger(processingTime=interval).start()  # type: ignore[no-any-return]


def _tell_of_new_job(leaves: Iterable[Leaf], place: Place, request: StartRequest) -> None:
    """Say that nothing was found, where, and what follows: whoever expected a checkpoint there sees it at once."""
    reads = ", ".join(dict.fromkeys(leaf.begins for leaf in leaves))
    log.info("there is no checkpoint at %s: %s is a new job, and reads %s", place.checkpoint.where, request.name, reads)


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
