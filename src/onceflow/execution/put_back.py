"""A sink's system that came back older than it was: which epochs of the job it does not know any more.

Must not know: any particular sink, what an epoch's check and commit ask of it, how a query is started.

The newest epoch with rows of each sink is asked for, however long ago it was: a decision says it of each sink that it
has no rows for, so purges do not take it. Where it is not known, receipts and journal say what else is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from onceflow.checkpoint.deleting import require_not_deleting
from onceflow.checkpoint.identity import JobIdentity, read_identity, write_identity
from onceflow.checkpoint.journal import Journal, Left
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.restored import RestoredFrom, read_restored
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.connectors.contract import Committer, SinkConnection
from onceflow.errors import CheckpointConflictError, CheckpointError, ConfigurationError, OnceflowError, advised
from onceflow.spark.locations import place_at
from onceflow.twophase.participants import ParticipantId
from onceflow.twophase.records import Newest

log = logging.getLogger(__name__)

Known = Callable[[Collection[str]], Collection[str] | None]
"""Those of some handles that a system knows as committed; None for one that does not keep that."""
_AT_ONCE = 200
_opened = partial(place_at, retain=1 << 31)  # it is read, and nothing of it is declared as purged


@dataclass
class _Held:
    """What an epoch has in a sink, as far as journal and receipts know."""

    incarnation: int
    rows: dict[str, int] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)

    @property
    def asked(self) -> set[str]:
        """Handles that the system must know."""
        return set(self.rows) - self.settled


@dataclass(frozen=True, slots=True)
class LostEpoch:
    """An epoch that a sink's system does not know any more.

    Attributes:
        epoch: Which.
        rows: How many it had there.
        handle: Of one of its participants there.
    """

    epoch: int
    rows: int
    handle: str


@dataclass(frozen=True)
class Lost:
    """What a sink's system does not know any more.

    Attributes:
        epochs: The newest first.
        is_all: Nothing older may be lost as well, of which no receipt is left.
        known: The newest before them, which it knows; None where nothing is left.
    """

    epochs: tuple[LostEpoch, ...]
    is_all: bool = True
    known: Newest | None = None

    @property
    def newest(self) -> LostEpoch:
        """The one that the checkpoint asks for."""
        return self.epochs[0]

    @property
    def words(self) -> str:
        """In a few words."""
        least = "" if self.is_all else "at least "
        return f"{least}{len(self.epochs)} epochs with {sum(each.rows for each in self.epochs)} rows"


def lost_commits(
    committers: Mapping[str, Committer],
    systems: Mapping[str, str],
    journal: Journal,
    identity: JobIdentity,
    checkpoint: SparkCheckpoint,
) -> dict[str, Lost]:
    """What a sink's system does not know any more of what this job has committed to it.

    Only a system that keeps its commits can be asked. Spark has recorded these epochs, so nothing reads them again.

    Args:
        committers: By sink.
        systems: By sink, the id of its system.
        journal: The checkpoint's.
        identity: The job's.
        checkpoint: Spark's files.

    Returns:
        By sink, what is lost; no sink that knows its newest.

    Raises:
        OnceflowError: A system was not reached, or refused.
    """
    while True:
        newest = checkpoint.newest_commit()
        lost = _lost_commits(committers, systems, journal, identity, newest)
        # Whoever slept on the way has looked at a checkpoint that went on: it would tell less than what is lost.
        if not lost or checkpoint.newest_commit() == newest:
            return lost


def _lost_commits(
    committers: Mapping[str, Committer],
    systems: Mapping[str, str],
    journal: Journal,
    identity: JobIdentity,
    newest: int | None,
) -> dict[str, Lost]:
    history = journal.history()[0]
    if newest is None or history.job_id != identity.job_id:  # a job's first start finds what another one has decided
        return {}
    last = history.newest(below=newest + 1)
    undone = history.decided if history.decided is not None and history.decided.epoch > newest else None
    lost: dict[str, Lost] = {}
    for sink, of in last.items():
        known = _witness(sink, committers, systems, history.systems.get(sink))
        # What is undone may be committed, and then a sink's history may have forgotten the newest before it.
        behind = [p.handle for p in undone.effective if p.sink == sink] if undone is not None else []
        found = known([of.handle, *behind])
        if found is not None and not found:
            decided = _decided(journal, identity.job_id, sink)
            _settle(decided, journal.given_up())
            lost[sink] = _lost(known, of, decided, whole=journal.receipts_are_whole())
    return lost


def _witness(sink: str, committers: Mapping[str, Committer], systems: Mapping[str, str], system: str | None) -> Known:
    """Who knows what a sink has committed: of one that was renamed or taken out, another one of its system.

    Also where another sink has got its name. Of a system that no sink writes to any more it is asked itself.
    """
    of_it = [name for name in committers if system is not None and systems[name] == system]
    if sink in of_it or (sink in committers and not of_it):
        return committers[sink].known
    other = next(filter(_keeps, (committers[name] for name in of_it)), None)
    return (lambda _: None) if other is None else partial(other.known_of, sink)


def _asking(sink: str, systems: Mapping[str, str], system: str | None) -> str | None:
    """Which of some sinks is asked for what one of an older job has committed: of its system, by whichever name."""
    if system is None:  # nobody has written down which it was
        return sink if sink in systems else None
    of_it = [name for name in systems if systems[name] == system]
    return sink if sink in of_it else next(iter(of_it), None)


def exchanged(
    committers: Mapping[str, Committer], systems: Mapping[str, str], journal: Journal, identity: JobIdentity
) -> dict[str, Newest]:
    """The newest of each sink that goes elsewhere now, while another one has got its system: names were exchanged.

    It would be asked of a system that has never known it, and be written into that by ``write-again``.

    Args:
        committers: By sink.
        systems: By sink, the id of its system.
        journal: The checkpoint's.
        identity: The job's.
    """
    history = journal.history()[0]
    found = dict[str, Newest]()
    for sink, of in history.newest().items() if history.job_id == identity.job_id else ():
        was = history.systems.get(sink)
        if sink in committers and was != systems.get(sink) and was in systems.values():
            there = [sink, *(name for name in committers if systems.get(name) == was)]
            if any(_keeps(committers[name]) for name in there):
                found[sink] = of
    return found


def require_not_exchanged(
    committers: Mapping[str, Committer], systems: Mapping[str, str], journal: Journal, identity: JobIdentity
) -> None:
    """Refuse sinks that have exchanged their names.

    Args:
        committers: By sink.
        systems: By sink, the id of its system.
        journal: The checkpoint's.
        identity: The job's.

    Raises:
        CheckpointConflictError: Naming the first one.
    """
    for sink, of in exchanged(committers, systems, journal, identity).items():
        was = journal.history()[0].systems[sink]
        now = next(name for name in sorted(committers) if systems[name] == was)
        raise CheckpointConflictError(
            f"sink {sink} writes to another system than before, and sink {now} to the one that it wrote to: what "
            f"{sink} has committed up to epoch {of.epoch} could not be asked for",
            harmless="always: nothing was written",
            cause="sinks have exchanged their names, or one has got the name of another",
            action="give them their names back; or give each that writes elsewhere now a name that no sink of this job "
            "has had. Or have what they had committed not asked for any more: start with "
            f"{advised('claim')}, once",
            checkpoint=identity.checkpoint,
        )


def _keeps(committer: Committer) -> bool:
    """Whether its system keeps its commits; it is not asked, since its table may have to be made yet."""
    return type(committer).known is not Committer.known


def require_not_put_back(
    committers: Mapping[str, Committer],
    systems: Mapping[str, str],
    journal: Journal,
    identity: JobIdentity,
    checkpoint: SparkCheckpoint,
) -> None:
    """Refuse a sink's system that does not know any more what this job has committed to it.

    Args:
        committers: By sink.
        systems: By sink, the id of its system.
        journal: The checkpoint's.
        identity: The job's.
        checkpoint: Spark's files.

    Raises:
        CheckpointConflictError: Naming the epochs and how many rows they had.
    """
    require_not_exchanged(committers, systems, journal, identity)
    for sink, lost in lost_commits(committers, systems, journal, identity, checkpoint).items():
        raise _refusal(sink, lost, "this job any more", _again("into this sink alone"), identity.checkpoint)


def _again(how: str) -> str:
    return f"Or let `onceflow txn write-again <job file>` write those epochs again, {how}. "


def _refusal(sink: str, lost: Lost, of: str, again: str, checkpoint: str) -> CheckpointConflictError:
    epochs = [each.epoch for each in reversed(lost.epochs)]
    return CheckpointConflictError(
        f"sink {sink} does not know epoch {epochs[0]} to {epochs[-1]} of {of}: {lost.words} that it had committed",
        harmless="for the data that is there: nothing more is written",
        cause="its system was put back to an older state: a backup, or a standby that had not everything; or "
        "the ledger was changed by hand",
        action=f"bring the newer state back. {again}Or give their rows up: start with {advised('claim')}, once",
        checkpoint=checkpoint,
        epochs=epochs,
    )


def lost_of_parents(
    place: Place,
    committers: Mapping[str, Committer],
    connections: Mapping[str, SinkConnection],
    lost: Collection[str] = (),
) -> Iterator[tuple[JobIdentity, dict[str, Lost]]]:
    """What a sink's system does not know any more of what this job goes on from: of jobs that it was made of.

    A sink that knows the newest epoch of this job was not put back to before it; what such a job has written behind the
    savepoint is read again. Where its checkpoint cannot be read nothing is known of it.

    Args:
        place: This job's checkpoint.
        committers: Of this job, by sink.
        connections: Likewise.
        lost: Those that do not know the newest epoch of this job.

    Raises:
        OnceflowError: A system was not reached, or refused.
    """
    newest = place.checkpoint.newest_commit()
    mine = {} if newest is None else place.journal.history()[0].newest(below=newest + 1)
    unsaid = [sink for sink, each in committers.items() if _keeps(each) and (sink not in mine or sink in lost)]
    asked = {sink: connections[sink] for sink in unsaid}
    claims = place.journal.given_up()
    yield from _lost_of_left(place, asked, claims)
    restored = read_restored(place.ours)
    while asked and restored is not None and restored.parent:
        try:
            parent = _opened(restored.parent)
            require_not_deleting(parent)  # its sinks may have forgotten it by now
            identity, above = read_identity(parent.ours), read_restored(parent.ours)
        except OnceflowError:
            return
        if identity is None or identity.job_id != restored.origin:
            yield from _lost_of_origin(parent, restored, asked, claims)
            return
        if not restored.claimed:  # its decisions came along
            try:
                found = _lost_of(parent, identity, asked)
                has = parent.journal.history()[0].newest().keys()
            except CheckpointError:
                return
            gone = {
                sink: replace(of, epochs=epochs)
                for sink, of in found.items()
                if (epochs := _still_asked(of, restored.parent_epoch, claims))
            }
            if gone:
                yield identity, gone
            asked = {sink: to for sink, to in asked.items() if sink in found or sink not in has}
            there = identity.cluster_id.split(",")
            yield from _lost_of_left(parent, {s: to for s, to in asked.items() if to.system_id in there}, claims)
        restored = above


def _lost_of_origin(
    parent: Place, restored: RestoredFrom, asked: Mapping[str, SinkConnection], claims: Sequence[Collection[str]]
) -> Iterator[tuple[JobIdentity, dict[str, Lost]]]:
    """Of the job that a savepoint is of, where another one has left it (``--as-new``) in its checkpoint since."""
    with suppress(CheckpointError):
        if parent.journal.left().job_id != restored.origin:
            return
    for identity, found in _lost_of_left(parent, asked, ()):
        gone = {
            sink: replace(of, epochs=epochs)
            for sink, of in found.items()
            if (epochs := _still_asked(of, restored.parent_epoch, claims))
        }
        if gone:
            yield identity, gone


def leave(
    place: Place,
    identity: JobIdentity,
    committers: Mapping[str, Committer],
    connections: Mapping[str, SinkConnection],
    *,
    now: bool,
) -> tuple[Newest, ...]:
    """What a new job (``--as-new``) has to ask for of the one that it leaves: each sink's newest of that.

    Args:
        place: The checkpoint.
        identity: The job that is left.
        committers: Of the new job, by sink.
        connections: Likewise.
        now: It leaves it with this start: else one with ``--as-new`` has died, or was refused, on its way.

    Raises:
        CheckpointConflictError: A sink's system does not know it any more.
        OnceflowError: A system was not reached, or refused.
    """
    newest = place.checkpoint.newest_commit()
    connections = {sink: to for sink, to in connections.items() if _keeps(committers[sink])}
    history = place.journal.history()[0]
    if newest is None or history.job_id != identity.job_id:
        return ()
    gone = _lost_of(place, identity, connections)
    for sink, lost in gone.items():
        if identity.checkpoint == place.uri:
            of = f"job {identity.job_id} any more, which this one is to leave"
            if now:
                write_identity(place.ours, identity)  # it is not left
            raise _refusal(sink, lost, of, _again("into this sink alone") if now else "", place.uri)
        log.warning("sink %s has lost %s of job %s: this one begins without them", sink, lost.words, identity.job_id)
    systems = identity.cluster_id.split(",")
    there = {sink: to.system_id for sink, to in connections.items() if to.system_id in systems}
    had = sorted(history.newest(below=newest + 1).items())
    return tuple(of for sink, of in had if sink not in gone and _asking(sink, there, history.systems.get(sink)))


def _lost_of_left(
    place: Place, connections: Mapping[str, SinkConnection], claims: Iterable[Collection[str]]
) -> Iterator[tuple[JobIdentity, dict[str, Lost]]]:
    """Of the job that this one has left: from its newest on, as this one's first start has it, as far as is known."""
    left = place.journal.left()
    systems, gone = {sink: to.system_id for sink, to in connections.items()}, dict[str, Lost]()
    for of in left.had:
        sink = _asking(of.sink, systems, left.systems.get(of.sink))
        if sink is None:
            continue
        with closing(connections[sink].committer("", left.job_id)) as committer:
            known = partial(committer.known_of, of.sink)
            found = known([of.handle])
            lost = None if found is None or found else _lost_of_newest(place.journal, left, of, known, claims)
        if lost is not None:
            gone[of.sink] = lost
    if gone:
        yield JobIdentity(left.job_id, "", "", ""), gone


def _lost_of_newest(
    journal: Journal, left: Left, newest: Newest, known: Known, claims: Iterable[Collection[str]]
) -> Lost | None:
    """Of a job that was left: what is gone of its newest and before it, and was not given up since."""
    decided = _decided(journal, left.job_id, newest.sink)
    decided = {n: of for n, of in decided.items() if n <= newest.epoch and of.incarnation in left.starts}
    decided.setdefault(newest.epoch, _Held(newest.incarnation, {newest.handle: newest.rows}))
    _settle(decided, claims)
    asked = {n: of for n, of in decided.items() if of.asked}
    if not asked:
        return None
    last = max(asked)
    of = asked[last]
    if known(sorted(of.asked)):
        return None
    rows = sum(of.rows[handle] for handle in of.asked)
    found = _lost(known, Newest(newest.sink, min(of.asked), of.incarnation, last, rows), decided, whole=False)
    return replace(found, is_all=False)


def _still_asked(lost: Lost, up_to: int, claims: Iterable[Collection[str]]) -> tuple[LostEpoch, ...]:
    """Of what is lost of an older job: what this one goes on from, and has not given up by a claim of its own."""
    decided = {each.epoch: _Held(0, {each.handle: each.rows}) for each in lost.epochs if each.epoch <= up_to}
    _settle(decided, claims)
    return tuple(each for each in lost.epochs if each.epoch in decided and decided[each.epoch].asked)


def _lost_of(parent: Place, identity: JobIdentity, connections: Mapping[str, SinkConnection]) -> dict[str, Lost]:
    theirs, systems = dict[str, Committer](), {sink: to.system_id for sink, to in connections.items()}
    with ExitStack() as stack:
        for sink, to in connections.items():
            with suppress(ConfigurationError):  # it goes to another table than that job's did
                if systems[sink] in identity.cluster_id.split(","):
                    theirs[sink] = stack.enter_context(closing(to.committer(identity.prefix, identity.job_id)))
        lost = lost_commits(theirs, systems, parent.journal, identity, parent.checkpoint)
    was = parent.journal.history()[0].systems
    return {sink: of for sink, of in lost.items() if was.get(sink) in (None, *systems.values())}  # else nobody knows it


def require_parents_not_put_back(
    place: Place,
    committers: Mapping[str, Committer],
    connections: Mapping[str, SinkConnection],
    lost: Collection[str] = (),
) -> None:
    """Refuse a sink's system that does not know any more what this job goes on from.

    Args:
        place: This job's checkpoint.
        committers: Of this job, by sink.
        connections: Likewise.
        lost: Those that do not know the newest epoch of this job.

    Raises:
        CheckpointConflictError: Naming that job, the epochs, and how many rows they had.
    """
    for identity, gone in lost_of_parents(place, committers, connections, lost):
        sink, of = next(iter(gone.items()))
        whose = f"job {identity.job_id} any more, from which this one was begun"
        again = _again(f"with the file of that job and its checkpoint, {identity.checkpoint}")
        # One that was left has no checkpoint any more to write it again by.
        raise _refusal(sink, of, whose, again if identity.checkpoint else "", place.uri)


def _decided(journal: Journal, job_id: str, sink: str) -> dict[int, _Held]:
    """What each epoch has in a sink, of the journal where it has it, and else of its receipts."""
    found: dict[int, _Held] = {}
    for receipt in journal.receipts(waiting=True):
        of = found.setdefault(receipt.epoch, _Held(receipt.incarnation))
        if receipt.kind == "resolve":
            if receipt.choice in ("count-as-written", "give-up-rows"):
                of.settled |= _handles(receipt.about, sink)
            continue
        kept = None if receipt.kept is None else _handles(receipt.kept, sink)
        of.rows = {h: rows for h, rows in of.rows.items() if kept is not None and h in kept}
        of.rows |= {p.id[1]: p.rows for p in receipt.participants if p.id[0] == sink}
    for each in journal.decided_epochs(job_id):
        settled = each.counted | each.given_up | each.forgotten
        rows = {p.handle: p.rows for p in each.effective if p.sink == sink}
        found[each.epoch] = _Held(each.incarnation, rows, _handles(settled, sink))
    return found


def _handles(ids: Collection[ParticipantId], sink: str) -> set[str]:
    return {handle for of, handle in ids if of == sink}


def _settle(decided: Mapping[int, _Held], claims: Iterable[Collection[str]]) -> None:
    """Settle what claims have given up: of a sink, all from the oldest to the newest that it did not know then."""
    for handles in claims:
        ends = [epoch for epoch, of in decided.items() if not of.rows.keys().isdisjoint(handles)]
        for epoch, of in decided.items():
            if ends and min(ends) <= epoch <= max(ends):
                of.settled |= of.rows.keys()


def _lost(known_of: Known, last: Newest, decided: Mapping[int, _Held], *, whole: bool) -> Lost:
    """From the newest back to the first that is known: it was put back to a moment, so what is older is there."""
    lost = [LostEpoch(last.epoch, last.rows, last.handle)]
    older = [epoch for epoch in sorted(decided, reverse=True) if epoch < last.epoch and decided[epoch].asked]
    for at in range(0, len(older), _AT_ONCE):
        some = older[at : at + _AT_ONCE]
        known = set(known_of(sorted(set().union(*(decided[epoch].asked for epoch in some)))) or ())
        for epoch in some:
            of = decided[epoch]
            gone = of.asked - known
            if not gone:
                rows = sum(of.rows[handle] for handle in of.asked)
                return Lost(tuple(lost), known=Newest(last.sink, min(of.asked), of.incarnation, epoch, rows))
            lost.append(LostEpoch(epoch, sum(of.rows[handle] for handle in gone), min(gone)))
    return Lost(tuple(lost), is_all=whole)
