"""What operators' tools see of a job on a Kafka cluster: its transactions, whom readers wait for, and what is lost.

Must not know: the journal, jobs beyond their prefix and id, what an operator may do. It looks; only ``abort`` ends
something, by exact handle.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from onceflow.connectors.inspection import (
    Held,
    InputRange,
    Inspection,
    Looked,
    LostInput,
    Origin,
    Phase,
    PlaceInSystem,
    Seen,
    Shown,
    SourceInspection,
    Waited,
)
from onceflow.connectors.kafka import offsets, transactions
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.codes import named
from onceflow.connectors.kafka.last_stable_offset import Holder, find_holders
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.prepared import Handle, PreparedTransaction, read, read_handle
from onceflow.connectors.kafka.source_connection import added, ask_topics, find_losses, parsed
from onceflow.connectors.kafka.transactional_id import TransactionalId, job_prefix, parse_transactional_id
from onceflow.connectors.kafka.transactions import ONGOING, OPEN_STATES, Description
from onceflow.errors import KafkaRightsError
from onceflow.twophase.layout import LayoutSource
from onceflow.twophase.participants import Participant

_UNKNOWN = "unknown"


class KafkaInspection(Inspection):
    """The transactions of one job on one cluster.

    Args:
        client: A connection to the cluster, which stays its owner's.
        prefix: First part of the job's transactional ids.
        job_id: The job's id.
    """

    def __init__(self, client: KafkaClient, prefix: str, job_id: str) -> None:
        self._client = client
        self._prefix = prefix
        self._job_id = job_id

    def transactions(self, decided: Sequence[Participant]) -> Looked:
        """As the contract says; all that have the job's prefix, in the order of their names' numbers."""
        handles = {h.transactional_id: (h, p) for p in decided if isinstance(h := read_handle(p.transaction), Handle)}
        prefix = job_prefix(self._prefix, self._job_id)
        wanted = sorted({*transactions.list_ids(self._client, prefix, OPEN_STATES), *handles})
        described = transactions.describe(self._client, wanted)
        silent = [f"{key}: its coordinator did not answer" for key in wanted if key not in described]
        shown = [(p, self.show(p)) for p in decided]
        silent += [
            f"sink {p.sink}: its decided transaction {p.handle} is not understood: {said.problem}"
            for p, said in shown
            if said.problem is not None
        ]
        found: list[tuple[TransactionalId, Seen]] = []
        for key, now in described.items():
            name = self._parse(key)
            if name is None:
                continue
            is_open = now is not None and now.state in OPEN_STATES
            if now is not None and is_open:
                found.append((name, self._seen(now)))
            if key in handles and not (now is not None and is_open and now.handle == handles[key][0]):
                handle, participant = handles[key]
                state = now.state if now is not None and not is_open else _UNKNOWN
                found.append((name, self._over(handle, participant, state)))
        found.sort(key=lambda each: (each[0].incarnation, each[0].sink, each[0].shard, each[0].attempt))
        return Looked(tuple(seen for _, seen in found), tuple(silent))

    def waited_for(self, names: Collection[str], ours: Sequence[Seen]) -> Waited:
        """As the contract says: holders of the last stable offset of any partition of these topics."""
        holders = find_holders(self._client, {*names, *(place.name for seen in ours for place in seen.places)})
        held = _by_producer(holders.found)
        mine = [replace(seen, holds=held.pop(_producer_of(seen), ())) for seen in ours]
        return Waited(tuple(mine), tuple(self._foreign(held, holders.found)), holders.unseen)

    def describe(self, transaction_id: str) -> Seen | None:
        """As the contract says: what its coordinator tells."""
        now = transactions.describe(self._client, [transaction_id]).get(transaction_id)
        if now is None:
            return None
        held = _by_producer(find_holders(self._client, {p.topic for p in now.partitions}).found)
        told = {"handle": _fields(now.handle), "timeout_ms": now.timeout_ms, "start_ms": now.start_ms}
        seen = self._seen(now)
        return replace(seen, holds=held.get(_producer_of(seen), ()), details=told)

    def origin(self, transaction_id: str) -> Origin | None:
        """What a transactional id says; it knows of the epoch whether it is odd."""
        name = self._parse(transaction_id)
        if name is None:
            return None
        epoch = "an odd-numbered epoch" if name.parity else "an even-numbered epoch"
        return Origin(name.sink, name.incarnation, name.shard, epoch, dataclasses.asdict(name))

    def show(self, participant: Participant) -> Shown:
        """As the contract says."""
        handle, found = read_handle(participant.transaction), read(participant.transaction)
        exact = str(handle) if isinstance(handle, Handle) else None
        if isinstance(found, PreparedTransaction):
            return Shown(found.handle.transactional_id, exact, _places(found.partitions), str(found.witness))
        return Shown(handle.transactional_id, exact, problem=found.why)

    def id_of(self, handle: str) -> str:
        """The transactional id: all before the producer."""
        return handle.rpartition("@")[0]

    def abort(self, seen: Sequence[Seen]) -> dict[str, str]:
        """As the contract says."""
        codes = transactions.abort(self._client, _handles(seen))
        return {str(handle): named(code) for handle, code in codes.items()}

    def still_open(self, seen: Sequence[Seen]) -> frozenset[str]:
        """As the contract says, by a look at each id: with another handle it is another transaction."""
        left = {handle.transactional_id: handle for handle in _handles(seen)}
        for key, now in transactions.describe(self._client, list(left)).items():
            another = now is not None and now.state == ONGOING and now.handle != left[key]
            if now is None or now.state not in OPEN_STATES or another:
                del left[key]
        return frozenset(map(str, left.values()))

    def sources(self) -> KafkaSourceInspection:
        """The cluster's sources."""
        return KafkaSourceInspection(self._client)

    # -- parts ------------------------------------------------------------------------------------

    def _parse(self, transactional_id: str) -> TransactionalId | None:
        return parse_transactional_id(transactional_id, self._prefix, self._job_id)

    def _seen(self, now: Description) -> Seen:
        return Seen(
            id=now.handle.transactional_id,
            handle=str(now.handle),
            state=now.state,
            phase=_phase(now.state),
            origin=self.origin(now.handle.transactional_id),
            writer=_writer(now.handle.producer_id, now.handle.producer_epoch),
            age_s=_age(now),
            timeout_s=now.timeout_ms / 1000,
            places=_places(now.partitions),
            transaction=now.handle.to_json(),
            details={"handle": _fields(now.handle)},
        )

    def _over(self, handle: Handle, participant: Participant, state: str) -> Seen:
        """A decided one that is not open; in the place of its handle its id has another one, or none."""
        return Seen(
            id=handle.transactional_id,
            handle=str(handle),
            state=state,
            phase=Phase.OVER,
            origin=self.origin(handle.transactional_id),
            writer=_writer(handle.producer_id, handle.producer_epoch),
            places=self.show(participant).places,
            transaction=handle.to_json(),
            details={"handle": _fields(handle)},
        )

    def _foreign(self, held: Mapping[tuple[int, int], tuple[Held, ...]], holders: Iterable[Holder]) -> list[Seen]:
        names = {(h.producer_id, h.producer_epoch): h.transactional_id for h in holders}
        others = {key: names[key] or "" for key in held if self._parse(names[key] or "") is None}
        described: Mapping[str, Description | None] = {}
        with contextlib.suppress(KafkaRightsError):  # their names are worth saying without their age
            described = transactions.describe(self._client, [name for name in others.values() if name])
        found = []
        for (producer_id, producer_epoch), name in others.items():
            now = described.get(name)
            state, age = (_UNKNOWN, None) if now is None else (now.state, _age(now))
            found.append(
                Seen(
                    id=name,
                    handle=str(Handle(name, producer_id, producer_epoch)),
                    state=state,
                    phase=_phase(state),
                    origin=None,
                    writer=_writer(producer_id, producer_epoch),
                    age_s=age,
                    holds=held[producer_id, producer_epoch],
                    details={"producer_id": producer_id, "producer_epoch": producer_epoch},
                )
            )
        return found


class KafkaSourceInspection(SourceInspection):
    """The sources of one cluster, by their positions.

    Args:
        client: A connection to the cluster, which stays its owner's.
    """

    def __init__(self, client: KafkaClient) -> None:
        self._client = client

    def names(self, position: str) -> frozenset[str]:
        """The topics of a position."""
        return frozenset(partition.topic for partition in parsed(position))

    def ranges(self, start: str, end: str) -> tuple[InputRange, ...]:
        """As the contract says."""
        found = offsets.ranges(parsed(start), parsed(end))
        return tuple(
            InputRange(PlaceInSystem(*each.partition), each.start, each.end) for each in found if each.start < each.end
        )

    def present(self, names: Collection[str]) -> frozenset[str]:
        """Topics that exist and may be described."""
        try:
            return frozenset(self._client.topics(names))
        except KafkaRightsError:
            return frozenset()

    def lost(self, needed: str, end: str, known: LayoutSource) -> tuple[LostInput, ...]:
        """As the contract says, of all topics that the position names."""
        first, last = parsed(needed), parsed(end)
        topics = tuple(ask_topics(self._client, {p.topic for p in first}).values())
        found, _ = find_losses(self._client, first, last, added(first, topics), topics, known)
        return tuple(LostInput(PlaceInSystem(*loss.partition), loss.start, loss.end, loss.remade) for loss in found)


def _phase(state: str) -> Phase:
    if state == ONGOING:
        return Phase.OPEN
    return Phase.ENDING if state in OPEN_STATES else Phase.OVER


def _age(now: Description) -> float | None:
    if now.state not in OPEN_STATES or now.start_ms < 0:
        return None
    return max(0.0, time.time() - now.start_ms / 1000)


def _writer(producer_id: int, producer_epoch: int) -> str:
    return f"producer {producer_id}/{producer_epoch}"


def _fields(handle: Handle) -> dict[str, Any]:
    return dataclasses.asdict(handle)


def _places(partitions: Iterable[Partition]) -> tuple[PlaceInSystem, ...]:
    return tuple(PlaceInSystem(*partition) for partition in sorted(partitions))


def _handles(seen: Iterable[Seen]) -> list[Handle]:
    found = (read_handle(each.transaction) for each in seen)
    return [handle for handle in found if isinstance(handle, Handle)]


def _producer_of(seen: Seen) -> tuple[int, int]:
    (handle,) = _handles([seen])
    return handle.producer_id, handle.producer_epoch


def _by_producer(holders: Iterable[Holder]) -> dict[tuple[int, int], tuple[Held, ...]]:
    found: dict[tuple[int, int], tuple[Held, ...]] = {}
    for h in holders:
        waiting = h.high_watermark - h.last_stable_offset
        held = Held(
            PlaceInSystem(*h.partition),
            f"at {h.last_stable_offset} ({waiting} offsets wait)",
            {
                "topic": h.partition.topic,
                "partition": h.partition.number,
                "last_stable_offset": h.last_stable_offset,
                "high_watermark": h.high_watermark,
            },
        )
        key = h.producer_id, h.producer_epoch
        found[key] = (*found.get(key, ()), held)
    return found
