"""Topics against receipts: what a reader of committed records sees of each transaction, and what no receipt knows.

Must not know: how receipts are kept. A transaction is told from all others by its producer's id and epoch, which
stand in the head of each of its record batches; so no record needs a mark of its own.
"""

from __future__ import annotations

import base64
import json
import struct
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, product
from typing import Any

import numpy as np

from onceflow.audit import hashes, keyed
from onceflow.audit.batches import Batch, BatchError, batches
from onceflow.audit.chain import chosen, is_of_kafka
from onceflow.audit.cluster import EARLIEST, LATEST, Cluster, KafkaAnswerError, Page, Topic
from onceflow.audit.findings import Findings, Kind
from onceflow.audit.hashes import U64, Texts
from onceflow.audit.records import keys_and_values

PAGE = 8 << 20
_TOGETHER = 16_384
_AMBIGUOUS = ("partition", "topic", "headers", "timestamp")
Producer = tuple[int, int]


@dataclass(slots=True)
class Expected:
    """A transaction that a receipt has, and what was seen of it.

    Attributes:
        sink: Whose rows.
        epoch: Of which epoch.
        handle: Its name.
        rows: How many were decided.
        digest: Their digest.
        partitions: Where it wrote.
        witness: Where its last record is: topic, partition, offset.
        topic_id: Of that topic.
        formula: How the digest is made: destination, and columns with their types; None where nobody says.
        chosen: What an operator has chosen for it, in words, or "".
        seen: Rows that were seen.
        sums: Their digests, one for each way to read what cannot be seen.
        keyed: Their keyed digest; None where the receipt has none, or nobody has given the key.
        key: Of the job's rows; None likewise.
        keyed_sums: As ``sums``.
        strange: Rows that stand in another partition than those it wrote to, or have a key though none was written.
    """

    sink: str
    epoch: int
    handle: str
    rows: int
    digest: int
    partitions: tuple[tuple[str, int], ...]
    witness: tuple[str, int, int]
    topic_id: str
    formula: str | None
    chosen: str = ""
    seen: int = 0
    sums: list[int] = field(default_factory=list)
    keyed: int | None = None
    key: bytes | None = field(default=None, repr=False)
    keyed_sums: list[int] = field(default_factory=list)
    strange: int = 0


@dataclass(slots=True)
class _Log:
    """What is known of a partition after it was read."""

    start: int = 0
    blocked: int | None = None
    gaps: int = 0
    why: str = ""


UNREADABLE = (BatchError, KafkaAnswerError, OSError, ValueError, IndexError, struct.error)
"""What reading a log raises that is not what Kafka writes, or is not there."""


def transactions(
    receipts: Iterable[Mapping[str, Any]], names: Collection[str], key: bytes | None = None
) -> dict[Producer, Expected]:
    """The transactions of these receipts, by producer id and epoch; participants of other systems are left out.

    Args:
        receipts: They.
        names: The sinks of one cluster: another one may have given a producer the same id and epoch.
        key: The audit's, of which the key of each job's rows is made; None looks at no keyed digest.
    """
    found = {}
    for body in receipts:
        for p in body["participants"]:
            told = p["transaction"]
            if not is_of_kafka(told) or p["sink"] not in names:
                continue
            rule = body["sinks"].get(p["sink"], {})
            formula = json.dumps([rule["destination"], rule["columns"]]) if rule.get("columns") else None
            last = told["witness"]
            of_rows, decided = keyed.decided(key, body, p) or (None, None)
            found[told["producer_id"], told["producer_epoch"]] = Expected(
                p["sink"],
                body["epoch"],
                p["handle"],
                p["rows"],
                int(p["digest"], 16),
                tuple((name, number) for name, number in told["partitions"]),
                (last["topic"], last["partition"], last["offset"]),
                last["topic_id"],
                formula,
                chosen(body, p),
                keyed=decided,
                key=of_rows,
            )
    return found


@dataclass(frozen=True, slots=True)
class Scope:
    """What of a cluster's topics is looked at.

    Attributes:
        expected: The transactions of the epochs that are checked.
        earlier: Those of epochs before them.
        later: Of later ones: where one of them begins, all that is looked for has been read.
        known: All others that receipts and journal know.
        unsigned: Of these, where there is a key: those that the journal alone knows, which is not signed.
        whole: No receipt is gone: what is there before the first one's rows is nobody's.
    """

    expected: Mapping[Producer, Expected]
    earlier: Mapping[Producer, Expected]
    later: frozenset[Producer]
    known: frozenset[Producer]
    unsigned: frozenset[Producer]
    whole: bool


class Ends:
    """Where each partition of some topics ended at one moment: what came later is another audit's.

    Args:
        cluster: Where.
        names: The topics.
    """

    def __init__(self, cluster: Cluster, names: Iterable[str]) -> None:
        self.topics: dict[str, Topic | None] = {name: cluster.topic(name) for name in sorted(set(names))}
        self.at = {
            (name, number): cluster.offset(topic, number, LATEST)
            for name, topic in self.topics.items()
            if topic is not None
            for number in sorted(topic.leaders)
        }

    def has(self, transaction: Expected) -> bool:
        """Whether a transaction's last record is, or was, in one of these topics."""
        topic = self.topics.get(transaction.witness[0])
        return topic is not None and topic.id == transaction.topic_id


def check(
    cluster: Cluster,
    ends: Ends,
    scope: Scope,
    findings: Findings,
    since: Callable[[], Mapping[Producer, bool]],
    *,
    patience_s: float = 30.0,
) -> None:
    """Read the topics up to their ends, and compare.

    Args:
        cluster: Where.
        ends: Taken before the receipts were read for the second time: what is committed by then is known by now.
        scope: What is looked at.
        findings: Where what is wrong goes.
        since: The transactions that are known by now, and whether that is not signed, as ``Scope.unsigned`` has it.
            What was open at the end that was looked up may have been decided and committed before it was read.
        patience_s: How long an open transaction may keep readers of committed records waiting.
    """
    logs: dict[tuple[str, int], _Log] = {}
    adding = _Adding()
    readings: list[_Reading] = []
    for (name, number), end in ends.at.items():
        topic = ends.topics[name]
        if topic is not None:
            log = logs[name, number] = _Log()
            try:
                log.start = cluster.offset(topic, number, EARLIEST)
                position = max(log.start, _first_offset(topic, number, scope.earlier.values()))
                readings.append(_Reading(f"{name}-{number}", name, number, scope, adding, position > log.start))
                _read(cluster, topic, position, end, readings[-1], log, patience_s)
            except UNREADABLE as error:
                log.why = f"{type(error).__name__}: {error}"
                findings.add("unknown", f"{name}-{number} was not read to its end: {log.why}")
    try:
        adding.flush()
    except UNREADABLE as error:
        for log in logs.values():  # what waited was of any of them
            log.why = log.why or f"{type(error).__name__}: {error}"
        findings.add("unknown", f"records cannot be understood: {type(error).__name__}: {error}")
    findings.read += adding.read
    by_now = since() if any(reading.strangers for reading in readings) else {}
    for reading in readings:
        reading.tell(findings, by_now)
    compacted = {name for name, topic in ends.topics.items() if topic is not None and _may_be_compacted(cluster, name)}
    for each in scope.expected.values():
        _compare(each, _why_unknown(each, scope, ends, logs, compacted), findings)


def _may_be_compacted(cluster: Cluster, name: str) -> bool:
    """Also where nobody tells it: a gap in the log proves nothing then."""
    try:
        return cluster.compacts(name) is not False
    except UNREADABLE:
        return True


# -- reading --------------------------------------------------------------------------------------


def _read(
    cluster: Cluster, topic: Topic, position: int, end: int, reading: _Reading, log: _Log, patience_s: float
) -> None:
    """Read a partition as a reader of committed records does, from there up to its end of before."""
    number = reading.number
    deadline = time.monotonic() + patience_s
    while position < end:
        page = cluster.fetch(topic, number, position, PAGE)
        if page.refused:
            if page.log_start <= position:
                break
            log.start = position = page.log_start
            continue
        before = position
        for batch, is_visible in visible(page):
            if batch.last >= position:
                log.gaps += is_torn(batch, position)
                seen, position = batch.behind(position), batch.last + 1
                if is_visible and not reading.take(seen):
                    return  # epochs come one after the other
        if position > before:
            deadline = time.monotonic() + patience_s
        elif page.stable >= end:
            break  # what was there was compacted away
        elif time.monotonic() > deadline:
            log.blocked = position
            break


def visible(page: Page) -> Iterator[tuple[Batch, bool]]:
    """Each batch of a page, and whether readers of committed records see it: by the page's aborted transactions."""
    aborted = sorted(page.aborted, key=lambda each: each[1])
    out: set[int] = set()
    for batch in batches(page.records):
        while aborted and aborted[0][1] <= batch.last:
            out.add(aborted.pop(0)[0])
        if batch.is_control and not batch.commits:
            out.discard(batch.producer[0])
        yield batch, not batch.is_control and not (batch.is_transactional and batch.producer[0] in out)


def is_torn(batch: Batch, position: int) -> bool:
    """Whether records are missing before a batch that is read from there, or in it: as compaction leaves a log."""
    return batch.first > position or batch.count != batch.last - batch.first + 1


@dataclass(slots=True)
class _Reading:
    """What is made of a partition's visible batches. Those that no receipt has are counted by who wrote them."""

    place: str
    topic: str
    number: int
    scope: Scope
    adding: _Adding
    known: bool
    """What comes now is not of before the first receipt that is kept."""
    strangers: dict[tuple[Producer, bool, bool], list[int]] = field(default_factory=dict)
    unsigned: int = 0

    def take(self, batch: Batch) -> bool:
        """Take it; False where all that is looked for has been read."""
        scope, who = self.scope, batch.producer if batch.is_transactional else (-1, -1)
        if who in scope.later:
            return False
        if who in scope.expected:
            self.known = True
            self.adding.add(scope.expected[who], self.topic, self.number, batch)
        elif who in scope.known or who in scope.earlier:
            self.known = True
            self.unsigned += batch.count if who in scope.unsigned else 0
        else:
            known = self.known or scope.whole
            found = self.strangers.setdefault((batch.producer, batch.is_transactional, known), [0, batch.first, 0])
            found[0] += batch.count
            found[2] = batch.last
        return True

    def tell(self, findings: Findings, by_now: Mapping[Producer, bool]) -> None:
        """Tell of those that nobody knows, also by now."""
        mine = {key: found for key, found in self.strangers.items() if key[1] and key[0] in by_now}
        self.unsigned += sum(found[0] for key, found in mine.items() if by_now[key[0]])
        # What comes behind the job's own is not of before the first receipt that is kept.
        first = min((found[1] for found in mine.values()), default=None)
        strangers = {
            (who, in_transaction, known or (first is not None and found[2] > first)): found
            for (who, in_transaction, known), found in self.strangers.items()
            if (who, in_transaction, known) not in mine
        }
        if self.unsigned:
            told = (
                f"{self.unsigned} records at {self.place} are of transactions that no receipt has, and the journal does"
            )
            findings.add(
                "unknown", f"{told}: it is not signed, and the newest epoch may have no receipt yet", self.unsigned
            )
        for ((pid, epoch), in_transaction, known), (rows, first, last) in strangers.items():
            who = "a producer without transactions"
            if in_transaction:
                who = f"a committed transaction of producer {pid}, epoch {epoch}"
            told = f"{rows} records at {self.place}, offsets {first} to {last}, of {who}"
            if known:
                findings.add("foreign", f"{told}: no receipt has them", rows)
            else:  # nobody can say whose
                findings.add("note", f"{told}: they are of before the first receipt that is kept", rows)


def _first_offset(topic: Topic, number: int, earlier: Iterable[Expected]) -> int:
    """The offset behind the last record that is known of an epoch before those that are checked."""
    mine = (e.witness[2] + 1 for e in earlier if e.witness[:2] == (topic.name, number) and e.topic_id == topic.id)
    return max(mine, default=0)


# -- digests --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Rows:
    """Batches that wait for their records' hashes, of transactions with one formula and one key."""

    formula: str
    key: bytes | None
    names: frozenset[str]
    whose: list[Expected] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)
    columns: dict[str, list[Any]] = field(default_factory=dict)
    waiting: int = 0


class _Adding:
    """Adds up what was seen of each transaction, many records at once."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, bytes | None], _Rows] = {}
        self.read = 0

    def add(self, expected: Expected, topic: str, number: int, batch: Batch) -> None:
        """Count a batch's records, and keep them for their hashes."""
        expected.seen += batch.count
        self.read += batch.count
        expected.strange += 0 if (topic, number) in expected.partitions else batch.count
        if expected.formula is None:
            return
        which = expected.formula, expected.key
        rows = self._waiting.get(which)
        if rows is None:
            names = frozenset(name for name, _ in json.loads(expected.formula)[1])
            rows = self._waiting[which] = _Rows(*which, names)
        rows.whose.append(expected)
        rows.counts.append(batch.count)
        rows.waiting += batch.count
        rows.data.append(batch.plain())
        if rows.names - {"value", "key"}:
            for _, _, _, at, headers in batch.records():
                told = {"timestamp": at, "headers": headers, "partition": number, "topic": topic.encode()}
                for name in rows.names & told.keys():
                    rows.columns.setdefault(name, []).append(told[name])
        if rows.waiting >= _TOGETHER:
            self._flush(which)

    def flush(self) -> None:
        """Add up what still waits."""
        for which in list(self._waiting):
            self._flush(which)

    def _flush(self, which: tuple[str, bytes | None]) -> None:
        rows = self._waiting.pop(which)
        starts = np.cumsum([0, *rows.counts[:-1]])
        ends = list(accumulate(map(len, rows.data)))
        keys, values = keys_and_values(b"".join(rows.data), rows.counts, ends)
        if "key" not in rows.names:
            for expected, start, count in zip(rows.whose, starts.tolist(), rows.counts, strict=True):
                expected.strange += int((keys.lengths[start : start + count] >= 0).sum())
        columns = {"key": keys, "value": values, **rows.columns}
        for way, found in enumerate(digests(rows.formula, columns, rows.waiting)):
            sums = np.add.reduceat(found, starts).tolist()
            for expected, each in zip(rows.whose, sums, strict=True):
                _add(expected.sums, way, each, hashes.MASK)
        if rows.key is None:
            return
        for way, made in enumerate(keyed_digests(rows.key, rows.formula, columns)):
            for expected, start, count in zip(rows.whose, starts.tolist(), rows.counts, strict=True):
                _add(expected.keyed_sums, way, sum(made[start : start + count]), keyed.MASK)


def _add(sums: list[int], way: int, more: int, mask: int) -> None:
    sums += [0] * (way + 1 - len(sums))
    sums[way] = (sums[way] + more) & mask


def digests(formula: str, columns: Mapping[str, Any], count: int) -> Iterator[U64]:
    """The hash of each record, once for each way to read what a record does not show.

    Whether a row named its partition, its topic or its time, or left it to the client, stands nowhere in the record.

    Args:
        formula: The destination, and the columns by name and type.
        columns: Keys and values as ``Texts``; of each other one a list.
        count: How many records.
    """
    destination, named = json.loads(formula)
    unsure = [name for name, _ in named if name in _AMBIGUOUS]
    first = int(hashes.add_texts(hashes.seeds(1), Texts.of([destination.encode()]))[0])
    for given in product((True, False), repeat=len(unsure)):
        found = np.full(count, first, np.uint64)
        for name, _ in named:
            if name in ("value", "key"):
                found = hashes.add_texts(found, columns[name])
                nulls = columns[name].lengths < 0
            else:
                found, nulls = _column(found, name, columns[name], destination, given=given[unsure.index(name)])
            found = hashes.add_ints(found, nulls)
        yield found


def keyed_digests(key: bytes, formula: str, columns: Mapping[str, Any]) -> Iterator[list[int]]:
    """The keyed digest of each record, once for each way, in the order of ``digests``; arguments as there."""
    destination, named = json.loads(formula)
    unsure = [name for name, _ in named if name in _AMBIGUOUS]
    for given in product((True, False), repeat=len(unsure)):
        told = []
        for name, _ in named:
            values = columns[name]
            if isinstance(values, Texts):
                told.append(keyed.texts(values.single()))
            else:
                told.append(_netstrings(name, values, destination, given=given[unsure.index(name)]))
        yield keyed.digests(key, destination, told)


def _netstrings(name: str, values: Sequence[Any], destination: str, *, given: bool) -> list[bytes]:
    """One of the columns that may have been null, as ``_column``."""
    if name == "topic":
        return keyed.texts([None if not given and value == destination.encode() else value for value in values])
    if name == "headers":
        return keyed.texts([None if not given and not value else headers_text(value) for value in values])
    add = hashes.add_ints if name == "partition" else hashes.add_longs
    found = add(hashes.seeds(len(values)), np.array(values, np.int64))
    return keyed.numbers(found, [not given] * len(values))


def _column(found: U64, name: str, values: Sequence[Any], destination: str, *, given: bool) -> tuple[U64, Any]:
    """One of the columns that may have been null. Not given, a topic is null where it is the sink's own."""
    match name:
        case "topic":
            nulls = [not given and value == destination.encode() for value in values]
            told = Texts.of([None if null else value for value, null in zip(values, nulls, strict=True)])
            return hashes.add_texts(found, told), np.array(nulls)
        case "headers":
            nulls = [not given and not value for value in values]
            told = Texts.of([None if null else headers_text(value) for value, null in zip(values, nulls, strict=True)])
            return hashes.add_texts(found, told), np.array(nulls)
        case "partition":
            empty = np.full(len(values), not given)
            return hashes.add_ints(found, np.array(values, np.int64), empty), empty
        case _:
            empty = np.full(len(values), not given)
            return hashes.add_longs(found, np.array(values, np.int64), empty), empty


def headers_text(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """A record's headers as Spark writes them as JSON: bytes in base64, null left out."""
    told = [
        {"key": key} if value is None else {"key": key, "value": base64.b64encode(value).decode()}
        for key, value in headers
    ]
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()


# -- comparing ------------------------------------------------------------------------------------


def _why_unknown(
    each: Expected,
    scope: Scope,
    ends: Ends,
    logs: Mapping[tuple[str, int], _Log],
    compacted: set[str],
) -> str:
    """Why rows that are not there prove nothing; "" where they do."""
    for name, number in each.partitions:
        topic = ends.topics.get(name)
        if topic is None:
            return f"topic {name} is not there, or may not be described"
        if name == each.witness[0] and topic.id != each.topic_id:
            return f"topic {name} was made again: its id was {each.topic_id} and is {topic.id}"
        log = logs.get((name, number))
        if log is None or log.why:
            return f"{name}-{number} was not read: {'it is not there' if log is None else log.why}"
        if log.blocked is not None:
            return f"{name}-{number} ends for readers at offset {log.blocked}: a transaction is open there"
        before = (e for e in (*scope.earlier.values(), *scope.expected.values()) if e.epoch < each.epoch)
        # All that is of this transaction lies behind what is of earlier ones.
        if log.start > _first_offset(topic, number, before):
            return f"{name}-{number} begins at offset {log.start} now: retention, or somebody, took what was before"
        if name in compacted and log.gaps:
            return f"{name} is compacted, or nobody says that it is not"
    return ""


def _compare(each: Expected, unknown: str, findings: Findings) -> None:
    named = f"sink {each.sink}, epoch {each.epoch}, transaction {each.handle}"
    less = each.rows - each.seen
    if less > 0:
        why = each.chosen or unknown
        told = f"{named}: {less} of {each.rows} rows are not there" + (f" ({why})" if why else "")
        kind: Kind = "note" if each.chosen else "unknown" if unknown else "missing"
        findings.add(kind, told, less, each.sink, each.epoch)
        return
    if less < 0:
        told = f"{named}: {each.seen} rows are there, and {each.rows} were decided"
        findings.add("changed", told, -less, each.sink, each.epoch)
        return
    if each.strange:
        told = f"{named}: {each.strange} of its {each.rows} rows have a key, or stand in a partition, that nobody wrote"
        findings.add("changed", told, each.strange, each.sink, each.epoch)
        return
    same = [way for way, found in enumerate(each.sums or [0]) if found == each.digest]
    if same and each.keyed is not None:
        if not any(each.keyed == (each.keyed_sums or [0])[way] for way in same):
            told = f"{named}: its {each.rows} rows were made to fit the digest of those that were decided: they have "
            findings.add("changed", f"{told}another keyed one", each.rows, each.sink, each.epoch)
            return
        findings.keyed += each.rows
    if same:
        findings.rows += each.rows
        return
    if each.formula is None:
        why = "its receipt does not say how the digest is made"
    elif any(f'"{name}"' in each.formula for name in _AMBIGUOUS):
        why = f"which rows gave no {' or '.join(n for n in _AMBIGUOUS if json.dumps(n) in each.formula)} is not seen"
    else:
        findings.add(
            "changed",
            f"{named}: its {each.rows} rows are not those that were decided",
            each.rows,
            each.sink,
            each.epoch,
        )
        return
    told = f"{named}: its {each.rows} rows are there; whether they are those that were decided is unknown: {why}"
    findings.add("unknown", told, each.rows, each.sink, each.epoch)
