"""What an operator sees of a job's transactions: ours, and foreign ones that keep our readers waiting. It only looks.

Must not know: Spark, how a command line looks. Source topics come from Spark's newest ``offsets/N``, since the stream
function is not called.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from onceflow.checkpoint.journal_codec import Entry
from onceflow.connectors.contract import evidence_of
from onceflow.connectors.kafka import transactions
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.committer import ONGOING
from onceflow.connectors.kafka.holders import Holder, find_holders
from onceflow.connectors.kafka.offsets import from_json
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.prepared import Handle, NotUnderstood, PreparedTransaction, read, read_handle
from onceflow.connectors.kafka.transactional_id import TransactionalId, job_prefix
from onceflow.connectors.kafka.transactions import Description
from onceflow.errors import ConfigurationError, KafkaRightsError
from onceflow.operations.transactions.access import Cluster, Operator
from onceflow.twophase.messages import Evidence
from onceflow.twophase.participants import Participant
from onceflow.twophase.records import Decide, History, Replay

OPEN_STATES = (ONGOING, "PrepareCommit", "PrepareAbort")
UNKNOWN = "unknown"


class Standing(StrEnum):
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
class Held:
    """A partition whose last stable offset a transaction holds: read_committed consumers wait there."""

    topic: str
    partition: int
    last_stable_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class OwnTransaction:
    """A transaction of the job.

    Attributes:
        handle: Exactly which one.
        state: The coordinator's word for it; "unknown" when it does not know the id.
        standing: What the journal makes of it.
        name: The parts of its id.
        epoch: Its epoch if a decision names it, else None (``name.parity`` tells whether it is even or odd).
        age_s: Seconds since it began, by the broker's clock; None when it is not open.
        partitions: Those that take part.
        holds: Those of them whose last stable offset it holds.
        cluster_id: Where it is.
    """

    handle: Handle
    state: str
    standing: Standing
    name: TransactionalId
    epoch: int | None
    age_s: float | None
    partitions: tuple[Partition, ...]
    holds: tuple[Held, ...]
    cluster_id: str


@dataclass(frozen=True, slots=True)
class ForeignTransaction:
    """Somebody else's transaction that holds a last stable offset of ours. It is never touched.

    Attributes:
        transactional_id: Its name, or None when no coordinator tells it: a hanging transaction, or no right.
        producer_id: Its producer.
        producer_epoch: Its producer's epoch.
        state: The coordinator's word, or "unknown".
        age_s: Seconds since it began, or None.
        holds: The partitions that wait for it.
    """

    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    state: str
    age_s: float | None
    holds: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Inventory:
    """All that ``take_inventory`` found, and a sentence for each thing that it could not look at."""

    job_id: str
    incarnation: int
    undone_epoch: int | None
    ours: tuple[OwnTransaction, ...]
    foreign: tuple[ForeignTransaction, ...]
    unseen: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mention:
    """A journal record that names a transaction; perhaps one that is purged, of which the receipt tells."""

    place: int
    kind: str
    incarnation: int
    epoch: int
    rows: int


@dataclass(frozen=True, slots=True)
class Account:
    """Everything known of one transactional id.

    Attributes:
        transactional_id: The id.
        ours: Its parts, or None when it is not this job's.
        standing: What the journal makes of its open transaction, or None when none is open or it is not ours.
        now: What its coordinator says, or None when it does not know the id.
        age_s: Seconds since its open transaction began, or None.
        mentions: Journal records that name it, oldest first.
        witness: Where the newest decided one's last record is, or None.
        evidence: Whether the newest decided one was committed, and what that rests on, or None.
        holds: Partitions whose last stable offset it holds.
    """

    transactional_id: str
    ours: TransactionalId | None
    standing: Standing | None
    now: Description | None
    age_s: float | None
    mentions: tuple[Mention, ...]
    witness: str | None
    evidence: Evidence | None
    holds: tuple[Held, ...]


def take_inventory(operator: Operator) -> Inventory:
    """Our open transactions and those of an undone decision, and foreign ones that hold an LSO that we need.

    Raises:
        CheckpointError: The journal cannot be read.
        KafkaError: A broker did not answer, or a right is missing.
    """
    history, _ = operator.journal.history()
    undone = operator.undone(history)
    ours: list[OwnTransaction] = []
    foreign: list[ForeignTransaction] = []
    in_kafka = {name for cluster in operator.clusters.values() for name in cluster.sinks}
    unseen = [f"sink {name}: it is not Kafka's" for name in sorted(set(operator.committers) - in_kafka)]
    sources, not_found = _topics_of_sources(operator)
    unseen += not_found
    for cluster_id, cluster in operator.clusters.items():
        mine, silent = own_transactions(operator, cluster, history)
        topics = cluster.topics | sources[cluster_id] | {p.topic for t in mine for p in t.partitions}
        holders = find_holders(cluster.client, topics)
        held = _by_producer(holders.found)
        ours += [replace(t, holds=held.pop((t.handle.producer_id, t.handle.producer_epoch), ())) for t in mine]
        foreign += _foreign(operator, cluster.client, held, holders.found)
        unseen += [*holders.unseen, *silent]
    return Inventory(
        operator.identity.job_id,
        history.incarnation,
        None if undone is None else undone.epoch,
        tuple(sorted(ours, key=lambda t: (t.name.incarnation, t.name.sink, t.name.shard, t.name.attempt))),
        tuple(foreign),
        tuple(unseen),
    )


def describe_transaction(operator: Operator, transactional_id: str) -> Account:
    """Everything known of one id, ours or not.

    Raises:
        ConfigurationError: Neither a coordinator nor the journal knows it.
        CheckpointError, KafkaError: As ``take_inventory``.
    """
    history, entries = operator.journal.history()
    named = _naming(entries, transactional_id)
    mentions = [*_receipted(operator, transactional_id), *(mention for mention, _ in named)]
    now, client = _ask_coordinators(operator, transactional_id)
    if now is None and not mentions:
        raise ConfigurationError(
            f"there is no transaction {transactional_id}",
            cause="no coordinator of the sinks' clusters knows the id, and no record of the journal names it; "
            "brokers forget idle ids after transactional.id.expiration.ms (7 days by default)",
            action="see `onceflow txn list`",
        )
    ours = operator.parse(transactional_id)
    standing: Standing | None = None
    if ours is not None and now is not None and now.state in OPEN_STATES:
        standing = standing_of(ours, now.handle, history)
    holds: tuple[Held, ...] = ()
    if now is not None and client is not None:
        found = _by_producer(find_holders(client, {p.topic for p in now.partitions}).found)
        holds = found.get((now.handle.producer_id, now.handle.producer_epoch), ())
    decided = named[-1][1] if named else None
    committer = operator.committers.get(decided.sink) if decided is not None else None
    return Account(
        transactional_id=transactional_id,
        ours=ours,
        standing=standing,
        now=now,
        age_s=None if now is None else _age(now),
        mentions=tuple(sorted(set(mentions), key=lambda mention: mention.place)),
        witness=None if decided is None else witness_of(decided),
        evidence=None if committer is None or decided is None else evidence_of(committer, [decided])[decided.id],
        holds=holds,
    )


def own_transactions(operator: Operator, cluster: Cluster, history: History) -> tuple[list[OwnTransaction], list[str]]:
    """Ours on one cluster: open ones, and those of an undone decision in whatever state.

    Returns:
        The transactions, without ``holds``; and a sentence for each id whose coordinator did not answer, and for each
        decided one that is not understood.
    """
    undone = operator.undone(history)
    effective = undone.effective if undone is not None else ()
    decided = {h.transactional_id: (h, p) for p in effective if p.sink in cluster.sinks and (h := handle_of(p))}
    prefix = job_prefix(operator.identity.prefix, operator.identity.job_id)
    wanted = sorted({*transactions.list_ids(cluster.client, prefix, OPEN_STATES), *decided})
    described = transactions.describe(cluster.client, wanted)
    silent = [f"{key}: its coordinator did not answer" for key in wanted if key not in described]
    silent += not_understood(p for p in effective if p.sink in cluster.sinks)
    cluster_id = cluster.client.cluster_id
    newest = history.decided.epoch if history.decided is not None else None
    found: list[OwnTransaction] = []
    for key, now in described.items():
        name = operator.parse(key)
        if name is None:
            continue
        is_open = now is not None and now.state in OPEN_STATES
        if now is not None and is_open:
            standing = standing_of(name, now.handle, history)
            epoch = newest if standing is Standing.DECIDED else None
            where = tuple(sorted(now.partitions))
            found.append(OwnTransaction(now.handle, now.state, standing, name, epoch, _age(now), where, (), cluster_id))
        if key in decided and not (now is not None and is_open and now.handle == decided[key][0]):
            handle, participant = decided[key]
            state = now.state if now is not None and not is_open else UNKNOWN
            where = partitions_of(participant)
            found.append(OwnTransaction(handle, state, Standing.DECIDED, name, newest, None, where, (), cluster_id))
    return found, silent


def _foreign(
    operator: Operator,
    client: KafkaClient,
    held: Mapping[tuple[int, int], tuple[Held, ...]],
    holders: Iterable[Holder],
) -> list[ForeignTransaction]:
    names = {(h.producer_id, h.producer_epoch): h.transactional_id for h in holders}
    others = {key: names[key] for key in held if operator.parse(names[key] or "") is None}
    described: Mapping[str, Description | None] = {}
    with contextlib.suppress(KafkaRightsError):  # their names are worth saying without their age
        described = transactions.describe(client, [name for name in others.values() if name is not None])
    found = []
    for (producer_id, producer_epoch), name in others.items():
        now = described.get(name or "")
        state, age = (UNKNOWN, None) if now is None else (now.state, _age(now))
        holds = held[producer_id, producer_epoch]
        found.append(ForeignTransaction(name, producer_id, producer_epoch, state, age, holds))
    return found


def _topics_of_sources(operator: Operator) -> tuple[dict[str, set[str]], list[str]]:
    """The source's topics on each of the sinks' clusters, and what was not looked at."""
    found: dict[str, set[str]] = {cluster_id: set() for cluster_id in operator.clusters}
    newest = operator.checkpoint.newest_offsets()
    if newest is None:
        return found, ["the source's topics: Spark has not planned an epoch yet"]
    wanted = {partition.topic for partition in source_ends(operator.checkpoint.offsets(newest))}
    for cluster_id, cluster in operator.clusters.items():
        with contextlib.suppress(KafkaRightsError):
            found[cluster_id] = set(cluster.client.topics(wanted))
    missing = sorted(wanted - set().union(*found.values()))
    return found, [f"source topic {topic}: it is on no cluster of a sink, or may not be described" for topic in missing]


def _ask_coordinators(operator: Operator, transactional_id: str) -> tuple[Description | None, KafkaClient | None]:
    for cluster in operator.clusters.values():
        now = transactions.describe(cluster.client, [transactional_id]).get(transactional_id)
        if now is not None:
            return now, cluster.client
    return None, None


def standing_of(name: TransactionalId, handle: Handle, history: History) -> Standing:
    """What the journal makes of one of our transactions."""
    effective = history.decided.effective if history.decided is not None else ()
    # Where a decided one is not understood, any of its sink's may be the one: so none of them may be aborted.
    if any(handle_of(p) == handle or (handle_of(p) is None and p.sink == name.sink) for p in effective):
        return Standing.DECIDED
    if name.incarnation == history.incarnation:
        return Standing.RUNNING
    return Standing.NEWER if name.incarnation > history.incarnation else Standing.LINGERING


def source_ends(offsets: str) -> dict[Partition, int]:
    """Where each partition of a Kafka source ends in Spark's ``offsets/N``, which has a line of JSON for each source.

    Lines that are not of Kafka's form, ``{"topic":{"0":5}}``, are passed over.
    """
    found: dict[Partition, int] = {}
    for line in offsets.splitlines():
        with contextlib.suppress(ConfigurationError):
            found |= from_json(line)
    return found


def not_understood(decided: Iterable[Participant]) -> list[str]:
    """A sentence for each decided Kafka transaction of which the journal holds what this version cannot read."""
    return [
        f"sink {p.sink}: its decided transaction {p.handle} is not understood: {found.why}"
        for p in decided
        if isinstance(found := read(p.transaction), NotUnderstood)
    ]


def handle_of(participant: Participant) -> Handle | None:
    """The exact Kafka transaction of a participant, or None when it is not understood."""
    found = read_handle(participant.transaction)
    return found if isinstance(found, Handle) else None


def _age(now: Description) -> float | None:
    if now.state not in OPEN_STATES or now.start_ms < 0:
        return None
    return max(0.0, time.time() - now.start_ms / 1000)


def _by_producer(holders: Iterable[Holder]) -> dict[tuple[int, int], tuple[Held, ...]]:
    found: dict[tuple[int, int], tuple[Held, ...]] = {}
    for h in holders:
        held = Held(h.partition.topic, h.partition.number, h.last_stable_offset, h.high_watermark)
        key = h.producer_id, h.producer_epoch
        found[key] = (*found.get(key, ()), held)
    return found


def partitions_of(participant: Participant) -> tuple[Partition, ...]:
    """Where a Kafka participant was written to."""
    found = read(participant.transaction)
    return tuple(sorted(found.partitions)) if isinstance(found, PreparedTransaction) else ()


def witness_of(participant: Participant) -> str | None:
    """Where a Kafka participant's last record is, as ``topic-partition@offset``."""
    found = read(participant.transaction)
    return str(found.witness) if isinstance(found, PreparedTransaction) else None


def _receipted(operator: Operator, transactional_id: str) -> list[Mention]:
    """Records that were purged and named an id, by their receipts. A Kafka handle begins with its transaction's id."""
    return [
        Mention(receipt.place, receipt.kind, receipt.incarnation, receipt.epoch, held.rows)
        for receipt in operator.journal.receipts()
        for held in receipt.participants
        if held.id[1].rpartition("@")[0] == transactional_id
    ]


def _naming(entries: Iterable[Entry], transactional_id: str) -> list[tuple[Mention, Participant]]:
    """The records that name an id, with the participant that they name it by, oldest first."""
    found = []
    for entry in entries:
        record = entry.record
        if isinstance(record, Decide | Replay):
            kind = "decide" if isinstance(record, Decide) else "replay"
            for p in record.participants:
                handle = handle_of(p)
                if handle is not None and handle.transactional_id == transactional_id:
                    found.append((Mention(entry.place, kind, record.incarnation, record.epoch, p.rows), p))
    return found
