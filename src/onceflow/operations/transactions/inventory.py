"""What an operator sees of a job's transactions: ours, and foreign ones that keep our readers waiting. It only looks.

Must not know: Spark, any particular sink, any particular source, how a command line looks. What the sources read comes
from Spark's newest ``offsets/N``, since the stream function is not called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from onceflow.checkpoint.journal_codec import JournalEntry
from onceflow.checkpoint.spark_files import positions
from onceflow.connectors.contract import evidence_of
from onceflow.connectors.inspection import Held, Origin, Phase, Seen, Shown
from onceflow.errors import ConfigurationError
from onceflow.operations.transactions.access import Operator, System
from onceflow.twophase.messages import Evidence, Outcome
from onceflow.twophase.participants import Participant
from onceflow.twophase.records import Decide, History, Replay


class JournalVerdict(StrEnum):
    """What the journal makes of one of our transactions."""

    DECIDED = "decided"
    """A decision names exactly this one: the job commits it."""
    LINGERING = "lingering"
    """Of an older incarnation and in no decision: nobody will ever commit it."""
    RUNNING = "running"
    """Of the newest incarnation and not decided: if its job still runs, it may be decided at any moment."""
    NEWER = "newer"
    """Of an incarnation that this checkpoint does not know."""


@dataclass(frozen=True, slots=True)
class OwnTransaction:
    """A transaction of the job.

    Attributes:
        seen: What its system shows.
        origin: Who began it.
        standing: What the journal makes of it.
        epoch: Its epoch if a decision names it, else None (``origin.epoch`` may tell something of it).
        system: Where it is.
        evidence: Of a decided one that is not open: what became of it, else None.
    """

    seen: Seen
    origin: Origin
    standing: JournalVerdict
    epoch: int | None
    system: System = field(compare=False, repr=False)
    evidence: Evidence | None = field(default=None, compare=False)

    @property
    def is_lost(self) -> bool:
        """It is decided and was aborted, by its time-out or by somebody: the job writes its rows again."""
        return self.evidence is not None and self.evidence.outcome is Outcome.ABORTED


@dataclass(frozen=True, slots=True)
class Inventory:
    """All that ``take_inventory`` found of the job of this name, and a sentence for each thing not looked at."""

    name: str
    job_id: str
    incarnation: int
    undone_epoch: int | None
    ours: tuple[OwnTransaction, ...]
    foreign: tuple[Seen, ...]
    unseen: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mention:
    """A journal record that names a transaction; perhaps one that is purged, of which the receipt tells."""

    slot: int
    kind: str
    incarnation: int
    epoch: int
    rows: int


@dataclass(frozen=True, slots=True)
class Account:
    """Everything known of one transactional id.

    Attributes:
        transactional_id: The id.
        ours: Who began its transactions, or None when it is not this job's.
        standing: What the journal makes of its open transaction, or None when none is open or it is not ours.
        now: What its system says, with what it holds; None when none knows the id.
        mentions: Journal records that name it, oldest first.
        witness: Where the newest decided one's last row is, or None.
        evidence: Whether the newest decided one was committed, and what that rests on, or None.
    """

    transactional_id: str
    ours: Origin | None
    standing: JournalVerdict | None
    now: Seen | None
    mentions: tuple[Mention, ...]
    witness: str | None
    evidence: Evidence | None

    @property
    def age_s(self) -> float | None:
        """Seconds since its open transaction began, or None."""
        return None if self.now is None else self.now.age_s

    @property
    def holds(self) -> tuple[Held, ...]:
        """Where readers wait for it."""
        return () if self.now is None else self.now.holds


def take_inventory(operator: Operator) -> Inventory:
    """Our open transactions and those of an undone decision, and foreign ones that keep readers from what we need.

    Raises:
        CheckpointError: The journal cannot be read.
        OnceflowError: A system did not answer, or a right is missing.
    """
    history, _ = operator.journal.history()
    undone = operator.undone(history)
    ours: list[OwnTransaction] = []
    foreign: list[Seen] = []
    looked_at = {name for system in operator.systems for name in system.sinks}
    unseen = [
        f"sink {name}: its connector does not list transactions"
        for name in sorted(set(operator.committers) - looked_at)
    ]
    unseen += [
        f"sink {sink.name}: it is {sink.guarantee}, so it has no transactions: rows are visible as they are written"
        for sink in operator.apart
    ]
    read, not_found = _names_of_sources(operator, history)
    unseen += not_found
    for system, names in zip(operator.systems, read, strict=True):
        mine, silent = own_transactions(operator, system, history)
        waited = system.inspection.waited_for(system.destinations | names, [t.seen for t in mine])
        ours += [replace(t, seen=seen) for t, seen in zip(mine, waited.ours, strict=True)]
        foreign += waited.foreign
        unseen += [*waited.unseen, *silent]
    return Inventory(
        operator.name,
        operator.identity.job_id,
        history.incarnation,
        None if undone is None else undone.epoch,
        tuple(sorted(ours, key=lambda t: (t.origin.incarnation, t.origin.sink, t.origin.shard or 0))),
        tuple(foreign),
        tuple(unseen),
    )


def describe_transaction(operator: Operator, transactional_id: str) -> Account:
    """Everything known of one id, ours or not.

    Raises:
        ConfigurationError: Neither a system nor the journal knows it.
        CheckpointError, OnceflowError: As ``take_inventory``.
    """
    history, entries = operator.journal.history()
    named = _naming(operator, entries, transactional_id)
    mentions = [*_receipted(operator, transactional_id), *(mention for mention, _ in named)]
    now = next(filter(None, (system.inspection.describe(transactional_id) for system in operator.systems)), None)
    if now is None and not mentions:
        raise ConfigurationError(
            f"there is no transaction {transactional_id}",
            cause="no coordinator of the sinks' clusters knows the id, and no record of the journal names it; "
            "brokers forget idle ids after transactional.id.expiration.ms (7 days by default)",
            action="see `onceflow txn list`",
        )
    ours = operator.origin(transactional_id)
    standing: JournalVerdict | None = None
    if ours is not None and now is not None and now.phase is not Phase.OVER:
        standing = standing_of(ours, now.handle, history, operator.show)
    decided = named[-1][1] if named else None
    committer = operator.committers.get(decided.sink) if decided is not None else None
    return Account(
        transactional_id=transactional_id,
        ours=ours,
        standing=standing,
        now=now,
        mentions=tuple(sorted(set(mentions), key=lambda mention: mention.slot)),
        witness=None if decided is None else operator.show(decided).witness,
        evidence=None if committer is None or decided is None else evidence_of(committer, [decided])[decided.id],
    )


def own_transactions(operator: Operator, system: System, history: History) -> tuple[list[OwnTransaction], list[str]]:
    """Ours on one system: open ones, and those of an undone decision in whatever state.

    Returns:
        The transactions, not asked for what they hold; and a sentence for each that was not seen or not understood.
    """
    undone = operator.undone(history)
    effective = undone.effective if undone is not None else ()
    looked = system.inspection.transactions([p for p in effective if p.sink in system.sinks])
    newest = history.decided.epoch if history.decided is not None else None
    found: list[OwnTransaction] = []
    for seen in looked.found:
        if seen.origin is not None:
            standing = standing_of(seen.origin, seen.handle, history, operator.show)
            epoch = newest if standing is JournalVerdict.DECIDED else None
            over = epoch is not None and seen.phase is not Phase.OPEN
            evidence = _evidence(operator, effective, seen) if over else None
            found.append(OwnTransaction(seen, seen.origin, standing, epoch, system, evidence))
    return found, list(looked.unseen)


def _evidence(operator: Operator, effective: Iterable[Participant], seen: Seen) -> Evidence | None:
    """What became of a decided transaction; None where none of the decision's is known to be this one."""
    decided = next((p for p in effective if operator.show(p).handle == seen.handle), None)
    committer = operator.committers.get(decided.sink) if decided is not None else None
    return None if decided is None or committer is None else evidence_of(committer, [decided])[decided.id]


def _names_of_sources(operator: Operator, history: History) -> tuple[list[frozenset[str]], list[str]]:
    """What the sources read on each of the sinks' systems, and what was not looked at."""
    newest = operator.checkpoint.newest_offsets()
    if newest is None:
        return [frozenset()] * len(operator.systems), ["the source's topics: Spark has not planned an epoch yet"]
    looks = [system.inspection.sources() for system in operator.systems]
    layout = history.layout.sources if history.layout is not None else ()
    wanted: set[str] = set()
    for number, position in enumerate(positions(operator.checkpoint.offsets(newest))):
        told = {name for look in looks if look is not None for name in look.names(position)}
        # What no system of a sink understands is told by the layout, as far as it is known.
        wanted |= told or ({topic.name for topic in layout[number].topics} if number < len(layout) else set())
    found = [frozenset() if look is None else look.present(wanted) for look in looks]
    missing = sorted(wanted.difference(*found))
    return found, [f"source topic {topic}: it is on no cluster of a sink, or may not be described" for topic in missing]


def standing_of(origin: Origin, handle: str, history: History, show: Callable[[Participant], Shown]) -> JournalVerdict:
    """What the journal makes of one of our transactions.

    Args:
        origin: Who began it.
        handle: Exactly which one.
        history: The journal.
        show: Tells which transaction a participant is.
    """
    effective = history.decided.effective if history.decided is not None else ()
    # Where a decided one is not understood, any of its sink's may be the one: so none of them may be aborted.
    if any((which := show(p).handle) == handle or (which is None and p.sink == origin.sink) for p in effective):
        return JournalVerdict.DECIDED
    if origin.incarnation == history.incarnation:
        return JournalVerdict.RUNNING
    return JournalVerdict.NEWER if origin.incarnation > history.incarnation else JournalVerdict.LINGERING


def _receipted(operator: Operator, transactional_id: str) -> list[Mention]:
    """Records that were purged and named an id, by their receipts, which keep the handle."""
    looks = [system.inspection for system in operator.systems]
    return [
        Mention(receipt.slot, receipt.kind, receipt.incarnation, receipt.epoch, held.rows)
        for receipt in operator.journal.receipts()
        for held in receipt.participants
        if any(look.id_of(held.id[1]) == transactional_id for look in looks)
    ]


def _naming(
    operator: Operator, entries: Iterable[JournalEntry], transactional_id: str
) -> list[tuple[Mention, Participant]]:
    """The records that name an id, with the participant that they name it by, oldest first."""
    found = []
    for entry in entries:
        record = entry.record
        if isinstance(record, Decide | Replay):
            kind = "decide" if isinstance(record, Decide) else "replay"
            for p in record.participants:
                shown = operator.show(p)
                if shown.handle is not None and shown.id == transactional_id:
                    found.append((Mention(entry.slot, kind, record.incarnation, record.epoch, p.rows), p))
    return found
