"""What Spark keeps in the checkpoint: ``offsets/<epoch>`` and ``commits/<epoch>``.

Must not know: the journal, Kafka. It reads Spark's files as bytes and numbers; only while no query runs on them does it
write: ``mend``, ``set_start`` and ``take_back``. ``put_right`` writes beside one as well: what an epoch reads.

Spark (4.2) writes ``offsets/N`` before epoch N runs and ``commits/N`` after its ``foreachBatch`` returned; numbers
may jump and old files are purged, so "epoch N is done" means "the newest commit is at least N".
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from onceflow.errors import CheckpointConflictError, CheckpointCorruptError, CheckpointStoreError, EpochFailedError
from onceflow.storage.files import Where, numbers
from onceflow.storage.store import Store, local_folder
from onceflow.twophase.forms import OTHER_FORM

log = logging.getLogger(__name__)

_HEAD = 2  # lines of offsets/N before those of the sources: version, metadata


class SparkCheckpoint:
    """Spark's side of one checkpoint folder.

    Args:
        store: It.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._offsets = store.below("offsets")
        self._commits = store.below("commits")
        self._state = store.below("state")
        self._sources = store.below("sources")

    @classmethod
    def at(cls, folder: Path) -> Self:
        """The one in this folder of a POSIX file system."""
        return cls(Store(folder))

    @property
    def where(self) -> Where:
        """Where it is, for messages."""
        return self.store.path()

    @property
    def folder(self) -> Path:
        """Its folder, for what works on files by itself.

        Raises:
            ConfigurationError: It is on no POSIX file system.
        """
        return local_folder(self.store)

    @property
    def metadata(self) -> Path | None:
        """The file with the query's id, where that is one of this machine's."""
        path = self.store.path("metadata")
        return path if isinstance(path, Path) else None

    def has_run(self) -> bool:
        """Whether Spark has ever planned an epoch here, or recorded one."""
        return bool(_numbers(self._offsets) or _numbers(self._commits))

    def is_stateful(self) -> bool:
        """Whether the query keeps state. Spark makes ``state/`` when it plans the first epoch of one that does."""
        return self._state.exists()

    def has_state_without_ids(self) -> bool:
        """Whether Spark's newest record of an epoch is of its first format, which names no state by an id."""
        return self._newest_record()[:1] == ["v1"]

    def query_id(self) -> str:
        """The query's id, as Spark keeps it in ``metadata``; "" where there is none that can be read."""
        try:
            return str(json.loads(self.store.read("metadata"))["id"])
        except (FileNotFoundError, CheckpointStoreError, *OTHER_FORM):
            return ""

    def newest_commit(self) -> int | None:
        """The newest epoch that Spark has recorded as done; a file that a power cut left empty records nothing."""
        return next((n for n in sorted(_numbers(self._commits), reverse=True) if not _is_empty(self._commits, n)), None)

    def watermark(self) -> int:
        """Where the watermark stands behind the newest epoch that is done, in milliseconds; 0 for nowhere."""
        return watermark_behind("\n".join(self._newest_record()))

    def is_done(self, epoch: int) -> bool:
        """Whether Spark has recorded the epoch as done; of a negative one there is nothing to record."""
        newest = self.newest_commit()
        return epoch < 0 or (newest is not None and newest >= epoch)

    def newest_offsets(self) -> int | None:
        """The newest epoch that Spark has planned."""
        return max(_numbers(self._offsets), default=None)

    def offsets(self, epoch: int) -> str:
        """``offsets/<epoch>``, byte for byte.

        Raises:
            CheckpointCorruptError: It is missing, empty or no text; Spark writes it before the epoch runs.
        """
        try:
            text = self._offsets.read(str(epoch)).decode("utf-8")
        except (FileNotFoundError, UnicodeDecodeError) as error:
            raise self._corrupt(
                epoch, "it is missing" if isinstance(error, FileNotFoundError) else "no text"
            ) from error
        if not text.strip():
            raise self._corrupt(epoch, "it is empty")
        return text

    def read_nothing(self, epoch: int) -> bool:
        """Whether an epoch ends where the one before it did, and has the same watermark; False where that is not known.

        Args:
            epoch: Which, as it is planned.
        """
        try:
            before, now = self.offsets(epoch - 1), self.offsets(epoch)
            return (positions(before), _watermark(before)) == (positions(now), _watermark(now))
        except (CheckpointCorruptError, *OTHER_FORM):
            return False

    def shuffle_partitions(self) -> int | None:
        """In how many partitions Spark shuffles here, as ``offsets/`` keeps it; None where nothing is planned."""
        try:
            return int(self.settings()["spark.sql.shuffle.partitions"])
        except OTHER_FORM:
            return None

    def settings(self) -> Mapping[str, str]:
        """What Spark goes on with here, whatever a session says, as the newest of ``offsets/`` keeps it."""
        newest = self.newest_offsets()
        try:
            told = json.loads(self.offsets(newest).splitlines()[1]) if newest is not None else {"conf": {}}
            return {str(name): str(value) for name, value in told["conf"].items()}
        except (CheckpointCorruptError, *OTHER_FORM):
            return {}  # whoever needs the file says what is wrong with it

    def changelogs(self) -> int:
        """How many files of state hold changes alone: what an incremental epoch writes."""
        # Of an operator and a partition; a join names its four stores below.
        return self._state.count("*/*/*.changelog") + self._state.count("*/*/*/*.changelog")

    def initial_offsets(self, source: int) -> str:
        """Where a source began before the first epoch, as JSON; "" when Spark has not written it.

        Spark keeps it in ``sources/<number>/0``: a zero byte, the version in a line, the JSON.
        """
        try:
            data = self._sources.below(str(source)).read("0")
        except FileNotFoundError:
            return ""
        return data.decode("utf-8", "replace").rpartition("\n")[2]

    def put_right(self, epoch: int, text: str) -> None:
        """Make ``offsets/<epoch>`` hold what the epoch reads or has read, as a decision or its driver knows.

        A power cut may take the file, which Spark does not sync, while the decision, which is synced, stays; and a
        driver that slept in Spark's rename may write its own plan over it. Spark would then run another range under
        the same number, and the rows between the two would be lost or doubled.

        Args:
            epoch: Which.
            text: What it must hold.
        """
        try:
            present = self._offsets.read(str(epoch))
        except FileNotFoundError:
            present = b""
        if present == text.encode("utf-8"):
            return
        if present.strip():
            log.warning("Spark's offsets/%d is not what epoch %d reads: it is put right", epoch, epoch)
        self._offsets.make()
        self._replace(self._offsets, str(epoch), text.encode("utf-8"))

    def mend(self, decided: Callable[[], Mapping[int, str]], *, refusing: bool = True) -> None:
        """Put right what a power cut left of Spark's newest files, which Spark does not sync, before a query starts.

        An empty ``commits/N`` is removed: N was not recorded. An ``offsets/N`` that is missing or empty is restored
        where N is decided; empty and not decided it is removed, and Spark plans N anew.

        Args:
            decided: What ``offsets/`` must hold for each decided epoch.
            refusing: False while an epoch is undone: what is refused here is refused behind its commit.

        Raises:
            CheckpointCorruptError: Spark has recorded N as done, ``offsets/N`` or the one before it is gone, and N is
                not decided: what it read stands nowhere else.
        """
        missing = self._missing()
        known = decided() if missing else {}
        if refusing:
            self._require_none_missing(missing, known)
        self._remove(self._commits, [n for n in _numbers(self._commits) if _is_empty(self._commits, n)])
        for epoch in missing:
            if epoch in known:
                log.warning("Spark's offsets/%d is missing or empty: it is restored from the journal", epoch)
                self.put_right(epoch, known[epoch])
            elif not self.is_done(epoch):
                log.warning("Spark's offsets/%d is empty and not decided: the epoch is planned anew", epoch)
                self._remove(self._offsets, [epoch])

    def require_complete(self, decided: Callable[[], Mapping[int, str]]) -> None:
        """Refuse a checkpoint of which files are gone that Spark cannot go on without, and ``mend`` cannot make again.

        Args:
            decided: As for ``mend``.

        Raises:
            CheckpointCorruptError: Naming what is gone.
        """
        if not self.has_run():
            return
        missing = self._missing()
        self._require_none_missing(missing, decided() if missing else {})
        if not self.query_id():
            raise self._gone(self.store.path("metadata"), "it holds the query's id, without which Spark does not start")
        for state in self._states():
            if not state.exists() or not state.names():
                raise self._gone(state.path(), "it holds the query's state, which stands nowhere else")

    def beginning(self) -> Where | None:
        """A file that says where a source began before the first epoch, None where there is none."""
        sources = map(self._sources.below, self._sources.names())
        return next((source.path(str(n)) for source in sources for n in _numbers(source)), None)

    def other_than(self, ran: Mapping[int, str]) -> list[int]:
        """Those epochs that are done whose ``offsets/`` do not hold what they had read.

        A driver that sleeps inside Spark's exists-check and rename of ``offsets/N`` writes over a newer one's plan, at
        any time. Where the next epoch begins would be another place then.

        Args:
            ran: What epochs have read that are done.
        """
        there = set(_numbers(self._offsets))
        done = [n for n in ran if n in there and self.is_done(n)]
        return [n for n in done if self._offsets.read(str(n)) != ran[n].encode("utf-8")]

    def _missing(self) -> list[int]:
        """Of the epochs that Spark reads at its start, those whose ``offsets/`` are missing or empty, in order."""
        newest = self.newest_commit()
        done = -1 if newest is None else newest
        planned = max([done, *_numbers(self._offsets)])
        looked_at = {n for n in (planned - 1, planned, done - 1, done) if n >= 0}
        # Spark purges old ones, and begins a copied query without the one before the newest that is done.
        unneeded = {done - 1} - {planned - 1} - set(_numbers(self._offsets))
        return sorted(n for n in looked_at - unneeded if _is_empty(self._offsets, n))

    def _require_none_missing(self, missing: Sequence[int], known: Mapping[int, str]) -> None:
        for epoch in (n for n in missing if n not in known and self.is_done(n)):
            if epoch == self.newest_commit() and epoch > max(known, default=-1):  # else a decided one stands behind it
                raise self._unplanned(epoch)
            raise self._corrupt(epoch, "it is missing or empty")

    def _states(self) -> list[Store]:
        """The folders of the state operators that the newest epoch that is done has left something in."""
        try:
            kept = json.loads(self._newest_record()[1]).get("stateUniqueIds") or {}
            return [self._state.below(str(int(number))) for number in kept]
        except OTHER_FORM:
            return []

    def _newest_record(self) -> list[str]:
        """The lines of the newest epoch that is done; none before the first."""
        newest = self.newest_commit()
        return [] if newest is None else self._commits.read(str(newest)).decode("utf-8", "replace").splitlines()

    def _gone(self, path: Where, why: str) -> CheckpointCorruptError:
        return CheckpointCorruptError(
            f"{path} is gone, or cannot be read: {why}",
            harmless="never: this query cannot go on without it",
            cause="it was deleted or cut, or a copy of the checkpoint was taken without it",
            action="put it back from a copy of the checkpoint; nothing was changed by this start",
            file=str(path),
        )

    def _remove(self, store: Store, epochs: Sequence[int]) -> None:
        for epoch in epochs:
            store.remove(f".{epoch}.crc")
            store.remove(str(epoch))
        if epochs:
            store.sync()

    def _unplanned(self, epoch: int) -> CheckpointCorruptError:
        offsets, commits = self._offsets.path(str(epoch)), self._commits.path(str(epoch))
        return CheckpointCorruptError(
            f"Spark's {offsets} is missing or empty, and {commits} says that epoch {epoch} is done: where the next one "
            "begins stands nowhere else",
            harmless=f"never: Spark cannot go on without it. Epoch {epoch} is not decided: no exactly-once sink shows "
            "any row of it",
            cause="a power cut (Spark does not sync its files), or the file was deleted",
            action=f"put the file back from a copy of the checkpoint; without one remove {commits} and "
            f"{self._commits.path(f'.{epoch}.crc')} as well, and start the job: epoch {epoch} is planned anew then, "
            "and a sink that is not exactly-once may get its rows twice",
            file=str(offsets),
            epoch=epoch,
        )

    def set_start(self, epoch: int, before: str) -> None:
        """Let an epoch begin at these offsets: they take the place of ``offsets/<epoch - 1>``.

        Args:
            epoch: Which; for 0 the sources' initial offsets are written.
            before: In the form of an offsets file.
        """
        if epoch > 0:
            # Else a power cut may take commits/<epoch - 1> and not this: that epoch would be undone again, against
            # offsets that are no longer those of its decision.
            self._commits.sync(str(epoch - 1))
            self._commits.sync()
            self._replace(self._offsets, str(epoch - 1), before.encode("utf-8"))
            return
        for number, line in enumerate(positions(before)):
            if line == "{}":
                continue  # not a source of Kafka's
            store = self._sources.below(str(number))
            store.make()
            self._replace(store, "0", b"\0v1\n" + line.encode("utf-8"))

    def plans_from(self, epoch: int) -> list[int]:
        """The epochs from this one on that Spark has planned."""
        return [n for n in _numbers(self._offsets) if n >= epoch]

    def take_back(self, epoch: int, planned: Sequence[int]) -> None:
        """Remove Spark's plans of these epochs, the newest first: Spark then plans anew.

        Args:
            epoch: The first of them.
            planned: What ``plans_from`` gave before the journal was asked whether they are nobody else's.

        Raises:
            EpochFailedError: One of them is recorded as done by now.
        """
        for each in sorted(planned, reverse=True):
            self._require_not_done(epoch)
            self._offsets.remove(str(each))
            self._offsets.remove(f".{each}.crc")
        self._offsets.sync()

    def _require_not_done(self, epoch: int) -> None:
        if self.is_done(epoch):
            raise EpochFailedError(
                f"epoch {epoch} was to be planned again, but {self._commits.path()} has it as done",
                harmless="another driver of this job was just ending: start the job again",
                cause="two drivers of one job ran at the same time",
                action="see to it that only one runs, then start the job again",
                epoch=epoch,
            )

    def _replace(self, store: Store, name: str, data: bytes) -> None:
        # Spark's checksum of what was there before would make it refuse the new file. It goes first: without one Spark
        # reads the file as it is.
        store.remove(f".{name}.crc")
        store.replace(name, data)

    def sync(self, epoch: int) -> None:
        """Make ``offsets/<epoch>``, and what Spark needs to begin the epoch again, durable before it is decided.

        That is ``offsets/<epoch - 1>``, which an epoch without a decision left as Spark wrote it, and
        ``commits/<epoch - 1>``; for epoch 0 it is where each source begins.
        """
        if epoch == 0:
            self._sync_beginnings()
        self._commits.sync(str(epoch - 1))
        self._commits.sync()
        self._offsets.sync(str(epoch - 1))
        self._offsets.sync(str(epoch))
        self._offsets.sync()

    def _sync_beginnings(self) -> None:
        for number in _numbers(self._sources):
            store = self._sources.below(str(number))
            store.sync("0")
            store.sync()
        self._sources.sync()
        self.store.sync("metadata")  # the query's id: without it Spark does not start
        self.store.sync()

    def _corrupt(self, epoch: int, why: str) -> CheckpointCorruptError:
        path = self._offsets.path(str(epoch))
        return CheckpointCorruptError(
            f"Spark's {path} cannot be used: {why}",
            harmless=f"never: it says which records epoch {epoch} consists of",
            cause="the file was edited or cut, or the disk lost it",
            action="put the file back from a copy of the checkpoint",
            file=str(path),
            epoch=epoch,
        )


@dataclass(frozen=True, slots=True)
class StateBefore:
    """What a plan that keeps state needs to be run again.

    Attributes:
        folder: Spark's files as of an epoch, in a folder that is nobody's: it is written to.
        epoch: That epoch, -1 for none.
        planned: ``offsets/N`` of each epoch behind it, up to the last one that is run again.
    """

    folder: Path
    epoch: int
    planned: Mapping[int, str]


def positions(text: str) -> list[str]:
    """The sources' lines of an offsets file, in the order of the plan, without its version and metadata."""
    lines = text.splitlines()
    if lines and lines[0].strip() != "v1":
        raise CheckpointConflictError(
            f"a file of offsets/ begins with {lines[0]!r}: it is of a form that onceflow cannot read",
            harmless="never: whose position is whose could not be told, and lost records would be passed over",
            cause="the query ran with spark.sql.streaming.offsetLog.formatVersion=2 before, and Spark keeps it",
            action="start with a new checkpoint",
        )
    return lines[_HEAD:]


def canonical(position: str) -> str:
    """A position in one spelling: blanks and the order of its parts mean nothing."""
    try:
        return json.dumps(json.loads(position), sort_keys=True)
    except OTHER_FORM:
        return position


def with_positions(text: str, lines: Sequence[str]) -> str:
    """The same offsets file with other positions."""
    head = text.splitlines()[:_HEAD] or ["v1", "{}"]
    return "\n".join([*head, *lines])


def records_between(before: str, after: str) -> int:
    """At most how many records lie between two positions of one source; 0 where positions are no counters."""
    start, end = _counters(before), _counters(after)
    return sum(max(0, at - start.get(which, 0)) for which, at in end.items())


def reads_beyond(mine: str, theirs: str) -> bool:
    """Whether a position of a source has what another one of it has not; also where that cannot be told."""
    if canonical(mine) == canonical(theirs):
        return False
    here, there = _growing(mine), _growing(theirs)
    if here is None or there is None:
        return True
    return any(at > here.get(which, 0 if len(which) > 1 else -1) for which, at in there.items())


def lag(told: Mapping[str, Any]) -> int:
    """How many records the source held after the epoch's end when it was planned; 0 where it cannot be told.

    Args:
        told: The source's entry in Spark's ``StreamingQueryProgress``.
    """
    return records_between(json.dumps(told.get("endOffset")), json.dumps(told.get("latestOffset")))


def partition_lags(told: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """The same for each topic and partition that the source read or could have read.

    Args:
        told: As of ``lag``.
    """
    start, end = (_counters(json.dumps(told.get(name))) for name in ("endOffset", "latestOffset"))
    return {which: max(0, end.get(which, 0) - start.get(which, 0)) for which in sorted({*start, *end})}


def watermark_behind(commit: str) -> int:
    """The watermark behind an epoch, in milliseconds, as Spark's ``commits/N`` says; 0 for none."""
    try:
        return int(json.loads(commit.splitlines()[1]).get("nextBatchWatermarkMs") or 0)
    except OTHER_FORM:
        return 0


def _watermark(offsets: str) -> int:
    return int(json.loads(offsets.splitlines()[1])["batchWatermarkMs"])


def _growing(position: str) -> dict[tuple[str, ...], int] | None:
    """A position as numbers that only grow; none for "-", where nothing was read; None where it is not of that form.

    Those of Kafka's partitions begin at 0; a single number (of a log, or of a test's source) names what was read last.
    """
    if position.strip() == "-":
        return {}
    with contextlib.suppress(*OTHER_FORM):
        told = json.loads(position)
        if isinstance(told, dict) and [*told] == ["logOffset"]:
            told = told["logOffset"]
        if isinstance(told, int):
            return {("",): told}
    return {tuple(which): at for which, at in _counters(position).items()} or None


def _counters(position: str) -> dict[tuple[str, str], int]:
    """``{"topic":{"0":123}}`` by topic and partition, as Spark's Kafka source writes it; nothing for other texts.

    Only to say how many: any source's position comes here, and one that does not count gives no number. A Kafka source
    reads its own elsewhere (``offsets.from_json``), as partitions that can be asked for, and refuses other texts; what
    is lost is found by that alone.
    """
    try:
        nested = json.loads(position)
        return {(name, number): int(at) for name, of in nested.items() for number, at in of.items()}
    except OTHER_FORM:
        return {}


def _is_empty(store: Store, epoch: int) -> bool:
    """Whether the epoch's file holds nothing, or is not there."""
    try:
        return not store.read(str(epoch)).strip(b"\0 \t\r\n")  # a length without its content, too
    except FileNotFoundError:
        return True


def _numbers(store: Store) -> list[int]:
    return numbers(store.names())
