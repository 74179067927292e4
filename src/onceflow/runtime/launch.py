"""Launching a job: from a streaming DataFrame and sinks to a query that commits exactly once.

Must not know: the rules of the commit. The order here is part of them, though: whose checkpoint is it, may we write,
has Kafka seen a newer one, take over, finish and clean up, and only then start Spark's query.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from onceflow.checkpoint.identity import (
    JobIdentity,
    Mark,
    create_identity,
    not_rewound,
    read_identity,
    reclaimed,
    same_place,
    write_identity,
)
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.spark_checkpoint import SparkCheckpoint
from onceflow.checkpoint.store import LocalStore, file_uri, local_path
from onceflow.errors import CheckpointConflictError, ConfigurationError, OnceflowError
from onceflow.runtime.driver import Driver
from onceflow.runtime.plan import Outputs, kafka_sources, require_read_committed, warn_of_unrepeatable
from onceflow.runtime.progress import Progress
from onceflow.runtime.session import pin, require_isolated_state, spark_path
from onceflow.runtime.source_check import check_sources
from onceflow.settings import Checkpointing
from onceflow.sink.contract import Committer, Sink
from onceflow.source.kafka import SOURCE_OPTION, KafkaSource, find
from onceflow.twophase.records import Start
from onceflow.twophase.transactional_id import PREFIX

log = logging.getLogger(__name__)

OURS = "onceflow"
"""The folder inside the checkpoint that is ours; the rest is Spark's."""

_SWEEP_EVERY_S = 30.0
_STOP_WITHIN_S = 8.0
_HARD_STOP_WITHIN_S = 1.5
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
    """

    name: str
    checkpointing: Checkpointing
    prefix: str = "onceflow"
    output_mode: str = "append"
    bounded: bool = False
    takeover: Literal["claim", "as-new"] | None = None

    def __post_init__(self) -> None:
        if PREFIX.fullmatch(self.prefix) is None:
            raise ConfigurationError(
                f"transactional_id_prefix {self.prefix!r} is refused",
                cause="it begins transactional ids: letters, digits, '.', '_' and '-', at most 64",
                action="choose another one",
            )
        if self.output_mode not in _MODES:
            raise ConfigurationError(f"there is no output mode {self.output_mode!r}", action=f"one of {_MODES}")


class RunningJob:
    """A job that runs: Spark's query and what surrounds it."""

    def __init__(self, query: StreamingQuery, driver: Driver, sinks: Sequence[Sink], progress: Progress) -> None:
        self.query = query
        self.driver = driver
        self._sinks = sinks
        self._progress = progress
        self._ended = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep, name="onceflow-sweep", daemon=True)
        self._sweeper.start()

    def stop(self) -> bool:
        """End at a clean point: an undecided epoch aborts, a decided one finishes. False: it could not finish in time.

        What is not finished is rolled forward by the next start.
        """
        spark_context = self.query._jsq.sparkSession().sparkContext() if self.query.isActive else None  # noqa: SLF001
        group = str(self.query.runId)

        def cancel() -> None:
            if spark_context is not None:
                spark_context.cancelJobGroup(group)

        self.driver.request_stop(cancel)
        clean = self.driver.wait_outside(_STOP_WITHIN_S)
        if not clean:
            self.driver.give_up()
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
        self._ended.set()
        self._sweeper.join(5.0)
        ended = False
        with contextlib.suppress(Exception):  # Java may be gone
            ended = not self.query.isActive
        self._progress.close(ended=ended)
        self.driver.close()
        for sink in self._sinks:
            sink.close()

    def _sweep(self) -> None:
        while not self._ended.wait(_SWEEP_EVERY_S):
            try:
                self.driver.sweep()
            except OnceflowError as error:
                log.warning("could not look for lingering transactions: %s", error.what)
            except Exception:  # the sweep must go on for as long as the job runs
                log.exception("could not look for lingering transactions")


def launch(session: SparkSession, result: object, sinks: Sequence[Sink], plan: Plan) -> RunningJob:
    """Take over the checkpoint and start the query.

    Args:
        session: The SparkSession of the DataFrames.
        result: One streaming DataFrame, or ``{sink: DataFrame}``.
        sinks: The sinks that get the rows of one DataFrame.
        plan: The rest.

    Raises:
        OnceflowError: It cannot run, and why. Nothing is left running.
    """
    outputs = Outputs(result, sinks)
    taking_part = [sink for sink in outputs.sinks if sink.participates]
    if taking_part:
        require_read_committed(outputs.query)
        warn_of_unrepeatable(outputs.query)
    pin(session, plan.checkpointing.retain)
    folder = local_path(plan.checkpointing.location)
    uri, where = file_uri(folder), spark_path(session, folder)
    try:
        systems = {sink.connect() for sink in outputs.sinks if sink.participates}
        for sink in outputs.sinks:
            if not sink.participates:
                sink.connect()
        sources = _sources(kafka_sources(outputs.query))
        driver = _take_over(outputs.sinks, taking_part, sources, folder, uri, ",".join(sorted(systems)), plan)
        progress = Progress(plan.name, driver.reports, sources)
        try:
            progress.listen(session)
            query = _start(outputs, driver, where, plan)
        except BaseException:
            progress.close(ended=False)
            driver.close()
            raise
        progress.watch(str(query.runId))
    except BaseException:
        for sink in outputs.sinks:
            sink.close()
        raise
    return RunningJob(query, driver, outputs.sinks, progress)


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


def _take_over(
    sinks: Sequence[Sink],
    taking_part: Sequence[Sink],
    sources: Sequence[KafkaSource],
    folder: Path,
    uri: str,
    systems: str,
    plan: Plan,
) -> Driver:
    checkpoint = SparkCheckpoint(folder)
    ours = LocalStore(folder / OURS)
    identity = _identify(ours, checkpoint, uri, systems, plan)
    committers = {sink.name: sink.committer(identity.prefix, identity.job_id) for sink in taking_part}
    for committer in committers.values():
        committer.preflight()
    records = LocalStore(ours.folder / "journal")
    records.make()
    if plan.takeover is None:
        refuse_rewound(committers.values(), Journal(records), checkpoint, uri)
    topics = check_sources(sources, checkpoint, Journal(records).history()[0])
    journal = Journal(records, retain=plan.checkpointing.retain)
    above = _claimed_incarnation(committers.values()) if plan.takeover == "claim" else 0
    driver = Driver(identity, journal, checkpoint, sinks, committers, uri, topics, above)
    driver.start()
    return driver


def _identify(ours: LocalStore, checkpoint: SparkCheckpoint, uri: str, systems: str, plan: Plan) -> JobIdentity:
    """The job's identity: the one in the checkpoint, or a new one for a new checkpoint."""
    ours.make()
    journal = ours.folder / "journal"
    # Looked at before job.json: another first start at this moment writes that before it makes either of the two.
    was_used = checkpoint.has_run() or journal.exists()
    found = read_identity(ours) if plan.takeover != "as-new" else None
    if found is not None:
        if plan.takeover == "claim":
            found = reclaimed(found, uri, systems, plan.prefix)
            write_identity(ours, found)
        same_place(found, uri, systems, plan.prefix)
        return found
    if plan.takeover is None and was_used:
        raise CheckpointConflictError(
            f"{uri} holds offsets of a query or a journal, but no {OURS}/job.json",
            harmless="never, if this job has run here: its open transactions could not be told from others'",
            cause=f"the folder {OURS}/ or its job.json was deleted, or the checkpoint is of a query that ran without "
            "onceflow",
            action="put the folder back; or, to go on from these offsets as a new job: --as-new",
            checkpoint=uri,
        )
    if plan.takeover == "claim":
        raise CheckpointConflictError(
            f"{uri} holds no {OURS}/job.json to claim",
            cause="the folder was deleted, or this is no checkpoint of onceflow",
            action="put the folder back, or start as a new job: --as-new",
            checkpoint=uri,
        )
    require_isolated_state(checkpoint)
    identity = JobIdentity.new(uri, systems, plan.prefix)
    if plan.takeover is None:
        identity = create_identity(ours, identity)
        same_place(identity, uri, systems, plan.prefix)
        return identity
    if journal.exists():
        _refuse_forgetting(ours, Journal(LocalStore(journal)), checkpoint, uri, systems, plan)
        journal.rename(ours.folder / f"journal-before-{identity.job_id}")
    write_identity(ours, identity)
    return identity


def _refuse_forgetting(
    ours: LocalStore, journal: Journal, checkpoint: SparkCheckpoint, uri: str, systems: str, plan: Plan
) -> None:
    """Refuse ``--as-new`` on the job's own checkpoint while an epoch is decided and not finished.

    A new job would not know of the decision and write the epoch again. That is how a start command that keeps the flag
    would double rows.
    """
    found = read_identity(ours)
    if found is None or (found.checkpoint, found.cluster_id, found.prefix) != (uri, systems, plan.prefix):
        return
    undone = journal.history()[0].undone(checkpoint.newest_commit())
    if undone is not None:
        raise CheckpointConflictError(
            f"--as-new is refused: epoch {undone.epoch} of this very job is decided and not finished",
            cause="the flag was left in the start command, or this is not the copy that was meant",
            action="start once without --as-new; the epoch is finished then",
            checkpoint=uri,
            epoch=undone.epoch,
        )


def _claimed_incarnation(committers: Iterable[Committer]) -> int:
    """The newest incarnation that Kafka knows of: a claimed older copy must go on above it, or names come twice."""
    marks = [Mark.loads(text) for text in (c.read_mark() for c in committers) if text is not None]
    log.warning(
        "the checkpoint is claimed; leave --claim away at the next start, it turns off the check for old copies"
    )
    return max((mark.incarnation for mark in marks if mark is not None), default=0)


def refuse_rewound(committers: Iterable[Committer], journal: Journal, checkpoint: SparkCheckpoint, uri: str) -> None:
    """Refuse a checkpoint that is older than a mark that this job left outside of it.

    Raises:
        CheckpointConflictError: With what both know.
    """
    marks = [committer.read_mark() for committer in committers]
    # After the marks: another start at this moment writes the journal first.
    history, entries = journal.history()
    nonce = next((entry.nonce for entry in reversed(entries) if isinstance(entry.record, Start)), "")
    newest = checkpoint.newest_commit()
    known = max(history.decided.epoch if history.decided else -1, -1 if newest is None else newest)
    for text in marks:
        mark = Mark.loads(text) if text is not None else None
        not_rewound(mark, history.incarnation, nonce, known, uri)


def _sources(options: Iterable[Mapping[str, str]]) -> list[KafkaSource]:
    found = (find(option.get(SOURCE_OPTION, "")) for option in options)
    return [source for source in found if source is not None]
