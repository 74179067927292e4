"""One job, looked at from all sides: the machine, its checkpoint, its systems, its transactions.

The order is that of a start, and so are the checks: what a start refuses is told by the functions that refuse it.

Must not know: Spark sessions, any particular sink, any particular source, how findings are shown. A job may run
meanwhile: it is not disturbed.
"""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onceflow.checkpoint.identity import read_identity
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.statistics import EpochStatistics
from onceflow.connectors.contract import Sink
from onceflow.connectors.examination import ExaminableSink, ExaminableSource, Expected
from onceflow.connectors.source_contract import Source
from onceflow.control.client import running
from onceflow.errors import OnceflowError
from onceflow.execution.progress import lag_group
from onceflow.findings import Finding, Level, of_error
from onceflow.launch.request import StartRequest
from onceflow.launch.starting import Starting
from onceflow.launch.steps import look
from onceflow.launch.systems import described, require_rights
from onceflow.local.jars import missing_spark_jars
from onceflow.operations.doctor import rules
from onceflow.operations.doctor.machine import examine_machine, existing
from onceflow.operations.transactions.access import Operator
from onceflow.operations.transactions.inventory import JournalVerdict, take_inventory
from onceflow.options.checkpointing import Checkpointing
from onceflow.spark import hadoop, java_client
from onceflow.storage.tree import folder_of

_OPEN = "open"


@dataclass(frozen=True, slots=True)
class Examined:
    """The job that is looked at.

    Attributes:
        name: Its name.
        prefix: First part of its transactional ids.
        checkpointing: Where its checkpoint is, and how often one is made.
        sinks: Its sinks, as far as they are known without its stream function.
        sources: Its sources, likewise.
        spark: Its settings of Spark.
    """

    name: str
    prefix: str
    checkpointing: Checkpointing
    sinks: Sequence[Sink]
    sources: Sequence[Source]
    spark: Mapping[str, str]

    def parts(self) -> str:
        """What of it is looked at, in the words of its owner."""
        known = described(self.sinks, self.sources)
        return ", ".join(filter(None, (known, f"checkpoint {self.checkpointing.location}")))


def examine(job: Examined, timeout_s: float, downtime_s: float) -> list[Finding]:
    """All findings about a job, each once, those that matter most first.

    Args:
        job: The job.
        timeout_s: After how long an epoch is given up; 0 where nothing but its transactions' time-out says so.
        downtime_s: How long it may be down between a decision and its commit.
    """
    found: list[Finding] = []
    with _told_in(found):
        hadoop.begin(job.checkpointing.location, job.name, job.spark)
        starting = Starting(
            StartRequest(job.name, job.checkpointing, job.prefix), job.sinks, job.sources, session=_never, stream=_never
        )
        place = starting.place
        history: list[EpochStatistics] = []
        with _told_in(found):
            history = place.statistics.read()
        group = lag_group(job.prefix, job.name) if job.checkpointing.publish_offsets else None
        expected = Expected(timeout_s, rules.longest_s(history), downtime_s, job.prefix, group)
        found += examine_machine(job.spark, rules.state_bytes(history))
        with starting, place.ours.untouched():
            _checkpoint(job, place, history, found)
            if _systems(job, starting, expected, found):
                _transactions(job, place, found)
    order = list(Level)
    return sorted(dict.fromkeys(found), key=lambda each: order.index(each.level))


def _checkpoint(job: Examined, place: Place, history: Sequence[EpochStatistics], found: list[Finding]) -> None:
    if isinstance(place.checkpoint.where, Path):
        folder = existing(place.checkpoint.where)
        found += rules.disk("the checkpoint", str(folder), shutil.disk_usage(folder).free, rules.state_bytes(history))
    with _told_in(found):
        refused = _second_create_is_refused(place)
        found += rules.exclusive_create(place.uri, second_was_refused=refused)
    with _told_in(found):
        read_identity(place.ours)
    with _told_in(found):
        undone = place.journal.history()[0].undone(place.checkpoint.newest_commit())
        if undone is not None:
            found += rules.undone(undone.epoch, runs=_runs(place))
    found += rules.epochs(history, job.checkpointing.interval_ms)


def _second_create_is_refused(place: Place) -> bool:
    """Create a file twice, in a folder of our own in the checkpoint, which is gone afterwards."""
    store = place.checkpoint.store.below(f".onceflow-doctor-{uuid.uuid4().hex}")
    try:
        store.make()
        store.create("once", b"1")
        try:
            store.create("once", b"2")
        except FileExistsError:
            return True
        return False
    finally:
        with contextlib.suppress(OSError):
            folder_of(store).remove_all()


def _systems(job: Examined, starting: Starting, expected: Expected, found: list[Finding]) -> bool:
    """What a start would refuse, and what the systems say; whether all of them answered."""
    if not job.sinks or not job.sources:
        which = " and ".join(name for name, known in (("sinks", job.sinks), ("sources", job.sources)) if not known)
        found.append(
            Finding(
                Level.NOTE,
                f"the job's {which} are not known here, and were not looked at",
                "only its stream function knows them, which is not called",
                "@job.stream(sinks=[...], sources=[...])",
                "name them there: a start then looks at them before Java is started, too",
            )
        )
    refused = _refused(job, starting)
    for each in refused:
        found += of_error(each)
    if any(each.retriable for each in refused):
        return False  # each further question would wait for it again
    clients: list[Mapping[str, str]] = []
    for source in job.sources:
        with _told_in(found):
            at = source.connect()
            try:
                if isinstance(at, ExaminableSource):
                    clients.append(at.java_client())
                    found += at.findings(source, expected)
            finally:
                at.close()
    for sink in job.sinks:
        with _told_in(found):
            to = sink.attach()
            try:
                if isinstance(to, ExaminableSink):
                    found += to.findings(expected)
            finally:
                to.close()
    once = [each for i, each in enumerate(clients) if each not in clients[:i]]
    if once and not missing_spark_jars():
        with _told_in(found):
            for client, said in zip(once, java_client.tried(once), strict=True):
                found += rules.java_client(client.get("bootstrap.servers", ""), said)
    return True


def _refused(job: Examined, starting: Starting) -> list[OnceflowError]:
    """What a start would refuse before Spark is there."""
    refused = look(starting, without=("session",))
    if starting.place.has_undone():  # a start commits it before it looks at anything, and needs the rights for that
        try:
            require_rights([sink for sink in job.sinks if sink.participates], starting.place, job.prefix)
        except OnceflowError as error:
            refused += [error, *error.others]
    return refused


def _transactions(job: Examined, place: Place, found: list[Finding]) -> None:
    """What is open in the sinks' systems. A job that has not run has nothing there."""
    if not any(sink.participates for sink in job.sinks) or not place.records.names():
        return
    with _told_in(found):
        about = (job.checkpointing, job.prefix, job.sinks, job.name)
        with Operator(*about, partial=True) as operator:
            inventory = take_inventory(operator)
        runs = _runs(place)
        is_open = [each for each in inventory.ours if each.seen.phase.value == _OPEN]
        lingering = [each.seen.id for each in is_open if each.standing is JournalVerdict.LINGERING]
        left = [each.seen.id for each in is_open if each.standing is JournalVerdict.RUNNING and not runs]
        found += rules.waiting(lingering, [seen.id or seen.handle for seen in inventory.foreign], lingering=True)
        found += rules.waiting(left, [], lingering=False)


def _runs(place: Place) -> bool:
    return any(each.checkpoint == place.uri for each in running())


def _never(*_: object) -> Any:
    raise AssertionError("this looks at nothing that needs Spark")


@contextmanager
def _told_in(found: list[Finding]) -> Iterator[None]:
    """What is refused inside becomes findings."""
    try:
        yield
    except OnceflowError as error:
        found += of_error(error)
