"""The audit's trail: a receipt for each decided epoch, each naming the one before it by its hash.

Must not know: Kafka, what a participant's transaction says, when an epoch is finished, who reads the trail.

``audit/<incarnation>-<nonce>-<part>.jsonl`` has the receipts of one start, a line of JSON each, and is packed
(``.jsonl.gz``) when it is full; docs/audit.md has the format. Only that start appends to its files, so no two drivers
can write one line, and nobody cuts what another wrote: the first line of a start names the last one that counts of
those before it. What stands behind that one is a replaced driver's, or torn; the newer start has written it again from
the journal.

A line is appended when its epoch is finished, and not synced: until it is, the journal has the records that it is made
of. They are removed only behind ``sync``, so a death or a power cut loses no receipt: the next start makes it.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import hmac
import json
import logging
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from onceflow.checkpoint.forward_key import ForwardKey
from onceflow.checkpoint.spark_files import positions
from onceflow.errors import CheckpointStoreError
from onceflow.storage.store import Store
from onceflow.twophase.forms import OTHER_FORM
from onceflow.twophase.keyed import MASK, id_of, key_of_rows, masked, unmasked
from onceflow.twophase.layout import Layout, LayoutSource, folders
from onceflow.twophase.participants import Participant
from onceflow.twophase.records import (
    Decide,
    DecidedEpoch,
    Planned,
    Record,
    Replay,
    ReplayBegin,
    Resolve,
    Skip,
    Start,
)

log = logging.getLogger(__name__)

FORMAT = 1
_FULL, _LARGE = 1_000, 1_000_000
"""So many receipts, or bytes, end a file: an object store writes it anew for each. Retention lets go of whole files."""

_LATER = timedelta(hours=1)
"""By so much receipts stay longer: an auditor's clock may be behind, and to him what is gone must be old."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A decided epoch, with all that the journal says of it.

    Attributes:
        job_id: Whose.
        incarnation: The start that decided it.
        epoch: As replays and an operator's choices left it.
        first: The place of its first record.
        last: Of its last.
        choices: An operator's, in order: Resolve and Skip.
        layout: What stood at Spark's positions.
        about: What the start that made its rows said of code, settings and sinks; JSON text.
    """

    job_id: str
    incarnation: int
    epoch: DecidedEpoch
    first: int
    last: int
    choices: tuple[Resolve | Skip, ...] = ()
    layout: Layout = field(default_factory=Layout)
    about: str = ""


def finished(records: Mapping[int, Record], after: int) -> Iterator[Finished]:
    """The decided epochs among the journal's records whose decision stands behind a place, oldest first.

    Args:
        records: By place.
        after: The last place that has its receipt.
    """
    job_id, layout = "", Layout()
    early: list[tuple[int, Resolve | Skip]] = []  # what was said of an epoch before its decision
    now: Finished | None = None
    for place in sorted(records):
        record = records[place]
        match record:
            case Start():
                job_id = record.job_id
            case Planned():
                layout = record.layout
            case Decide():
                if now is not None and now.first > after:
                    yield now
                decided = DecidedEpoch(record.epoch, record.offsets, record.sinks, record.participants)
                said = [(at, each) for at, each in early if each.epoch == record.epoch]
                first = min([place, *(at for at, _ in said)])
                choices = tuple(each for _, each in said)
                now = Finished(job_id, record.incarnation, decided, first, place, choices, layout, record.about)
                early = []
            case Resolve() | Skip() if now is None or record.epoch > now.epoch.epoch:
                early.append((place, record))
            case Resolve() | Skip() | Replay() | ReplayBegin() if now is not None:
                now = _and(now, place, record)
    if now is not None and now.first > after:
        yield now


def _and(of: Finished, place: int, record: Resolve | Skip | Replay | ReplayBegin) -> Finished:
    epoch, choices, about = of.epoch, of.choices, of.about
    match record:
        case ReplayBegin():
            epoch = replace(epoch, replays=record.replay)
        case Replay():
            epoch = epoch.replaced_by(record)
            mixed = bool(record.kept) and _rules(about) != _rules(record.about)
            # Rows of two makings: of neither all digests could be made again.
            about = json.dumps({**json.loads(record.about), "sinks": {}}) if mixed and record.about else record.about
        case Resolve():
            epoch, choices = epoch.resolved_by(record), (*choices, record)
        case Skip():
            epoch, choices = epoch.skipped_by(record), (*choices, record)
    return replace(of, epoch=epoch, last=place, choices=choices, about=about)


def _rules(about: str) -> Any:
    return json.loads(about)["sinks"] if about else {}


# -- one receipt ----------------------------------------------------------------------------------


def receipt(
    of: Finished,
    before: Mapping[str, Any] | None,
    begins: Callable[[int], str] | None,
    at: str,
    key: bytes | None = None,
) -> dict[str, Any]:
    """The receipt of an epoch, without its hash.

    Args:
        of: The epoch.
        before: The receipt before it, or None.
        begins: Where Spark has a source begin before its first epoch, by the source's number; None where the journal
            has forgotten what came before, so that nobody knows where this epoch's range begins.
        at: Now.
        key: The audit's; None: it has no keyed digests.
    """
    keyed = None if key is None else _Keyed(key_of_rows(key, of.job_id), of.epoch)
    told = json.loads(of.about) if of.about else {}
    decided = of.epoch
    return {
        "format": FORMAT,
        "number": 1 if before is None else before["number"] + 1,
        "before": "" if before is None else before["hash"],
        "before_at": "" if before is None else before["at"],
        "at": at,
        "job": of.job_id,
        "name": told.get("name", ""),
        "version": told.get("version", ""),
        "code": told.get("code", ""),
        "settings": told.get("settings", ""),
        "epoch": decided.epoch,
        "incarnation": of.incarnation,
        "places": [of.first, of.last],
        "planned": _planned(decided.offsets),
        "sources": _sources(of, before, begins),
        "sinks": _sinks(decided, told.get("sinks", {}), {} if before is None else before["sinks"], keyed),
        "participants": [_participant(p, keyed) for p in sorted(decided.effective, key=lambda p: p.id)],
        "replays": decided.replays,
        "choices": [_choice(choice) for choice in of.choices],
    }


def _planned(offsets: str) -> dict[str, Any]:
    """Of Spark's plan of the epoch: its hash, and what a run again needs beside the ranges."""
    lines = offsets.splitlines()
    told: Any = {}
    with contextlib.suppress(*OTHER_FORM):  # Spark refuses it
        told = dict(json.loads(lines[1]))
    return {
        "sha256": hashlib.sha256(offsets.encode()).hexdigest(),
        "time_ms": told.get("batchTimestampMs"),
        "watermark_ms": told.get("batchWatermarkMs"),
    }


def _sources(
    of: Finished, before: Mapping[str, Any] | None, begins: Callable[[int], str] | None
) -> list[dict[str, Any]]:
    """What was read, position by position: from where the receipt before it ended."""
    # Epochs between the two gave no rows, and what they read is this one's: so nothing lies between two receipts.
    ends = positions(of.epoch.offsets)
    moved = next((c.before for c in reversed(of.choices) if isinstance(c, Skip)), "")
    if moved:
        starts: Sequence[str | None] = positions(moved)
    elif before is not None:
        starts = [source["end"] for source in before["sources"]]
    elif begins is not None:
        starts = [begins(number) or None for number in folders(of.layout.sources)]
    else:
        starts = [None] * len(ends)
    known = [*of.layout.sources, *(LayoutSource((), "", "", "") for _ in ends)]
    return [_source(known[i], starts[i] if i < len(starts) else None, end) for i, end in enumerate(ends)]


def _source(source: LayoutSource, start: str | None, end: str) -> dict[str, Any]:
    to, ids = _counters(end), {topic.name: topic.id for topic in source.topics}
    since = None if start is None else _counters(start)
    ranges = [
        # A partition that is new to a source is read from its first record.
        [topic, ids.get(topic, ""), number, None if since is None else since.get((topic, number), 0), at]
        for (topic, number), at in sorted(to.items())
    ]
    return {
        "outputs": list(source.outputs),
        "cluster": source.system,
        "reads": source.reads,
        "ranges": ranges,
        "start": start,
        "end": end,
    }


def _counters(position: str) -> dict[tuple[str, int], int]:
    try:
        nested = json.loads(position)
        return {(name, int(number)): int(at) for name, of in nested.items() for number, at in of.items()}
    except OTHER_FORM:
        return {}  # a source that is not Kafka's; its position stands in start and end


def _sinks(
    decided: DecidedEpoch, told: Mapping[str, Any], before: Mapping[str, Any], keyed: _Keyed | None
) -> dict[str, Any]:
    """Each sink's rows and digest, and how the digest is made."""
    totals = {} if keyed is None else {name: keyed.total(name, before.get(name, {})) for name in decided.sinks}
    rows = dict.fromkeys(decided.sinks, 0)
    digests = dict.fromkeys(decided.sinks, 0)
    for p in decided.effective:
        rows[p.sink] = rows.get(p.sink, 0) + p.rows
        digests[p.sink] = (digests.get(p.sink, 0) + p.digest) & ((1 << 64) - 1)
    return {
        name: {"rows": rows[name], "digest": _hex(digests[name]), **totals.get(name, {}), **told.get(name, {})}
        for name in sorted(rows)
    }


class _Keyed:
    """The keyed digests of an epoch, read of its parts once.

    Args:
        key: Of the job's rows.
        decided: The epoch.
    """

    def __init__(self, key: bytes, decided: DecidedEpoch) -> None:
        self._key = key
        self._decided = decided
        self._sums = {p.id: self._sum(p) for p in decided.effective}

    def _sum(self, p: Participant) -> int | None:
        try:
            return sum(unmasked(self._key, part.keyed) for part in p.parts) & MASK
        except ValueError:  # some part has none
            return None

    def of(self, p: Participant) -> dict[str, Any]:
        """Of a participant; nothing where some part has none."""
        found = self._sums[p.id]
        return {} if found is None else {"keyed": masked(self._key, found)}

    def total(self, name: str, before: Mapping[str, Any]) -> dict[str, Any]:
        """Rows and keyed digest of all that a sink got under this key: a table is compared as a whole.

        Behind rows without one the count begins anew, and so it does under another key.
        """
        gone = self._decided.given_up | self._decided.forgotten
        mine = [p for p in self._decided.effective if p.sink == name and p.id not in gone]
        made = [found for p in mine if (found := self._sums[p.id]) is not None]
        if len(made) < len(mine):
            return {}
        rows, total = self._until(before)
        total = (total + sum(made)) & MASK
        return {"total": [rows + sum(p.rows for p in mine), masked(self._key, total), id_of(self._key)]}

    def _until(self, before: Mapping[str, Any]) -> tuple[int, int]:
        """Rows and digest that the receipt before tells; none where it has no such thing: anybody may have made it."""
        try:
            rows, kept, of = before["total"]
            return (int(rows), unmasked(self._key, kept)) if of == id_of(self._key) else (0, 0)
        except OTHER_FORM:
            return (0, 0)


def _participant(p: Participant, keyed: _Keyed | None) -> dict[str, Any]:
    return {
        "sink": p.sink,
        "handle": p.handle,
        "rows": p.rows,
        "digest": _hex(p.digest),
        **({} if keyed is None else keyed.of(p)),
        "parts": [[part.number, part.rows, _hex(part.digest), part.origin] for part in p.parts],
        "transaction": dict(p.transaction),
    }


def _choice(choice: Resolve | Skip) -> dict[str, Any]:
    if isinstance(choice, Skip):
        return {"choice": "skip", "participants": [], "who": "", "why": "", "epoch": choice.epoch}
    named = [list(who) for who in choice.participants]
    return {"choice": choice.choice, "participants": named, "who": choice.who, "why": choice.why, "epoch": choice.epoch}


def _hex(digest: int) -> str:
    return f"{digest:016x}"  # JSON's numbers end at 2**53 elsewhere


def seal(body: Mapping[str, Any], key: bytes | None, forward: ForwardKey | None = None) -> str:
    """A receipt as its line, without the line's end: with its hash and, where there are keys, signature and seal."""
    found = digest(body)
    sealed = {**body, "hash": found}
    if key is not None:
        sealed["signature"] = hmac.new(key, found.encode(), hashlib.sha256).hexdigest()
    if forward is not None:
        made = forward.seal(body["number"], found)
        if made is None:
            log.warning(
                "receipt %d cannot be sealed: the key in %s is that of receipt %d, and there is none of older ones",
                body["number"],
                forward.path,
                forward.number,
            )
        sealed |= {} if made is None else {"seal": made}
    return _canonical(sealed)


def digest(body: Mapping[str, Any]) -> str:
    """The hash of a receipt: over all of it but the hash, the signature and the seal."""
    said = {name: value for name, value in body.items() if name not in ("hash", "signature", "seal")}
    return hashlib.sha256(_canonical(said).encode()).hexdigest()


def _canonical(body: Mapping[str, Any]) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"))


# -- the trail ------------------------------------------------------------------------------------


_NAME = re.compile("([0-9]{10,})-([^-]*)-([0-9]{6,})[.]jsonl(?:[.]gz)?")


@dataclass(frozen=True, order=True, slots=True)
class _File:
    """A file of the trail, by the order in which they were begun."""

    incarnation: int
    part: int
    nonce: str = field(compare=False)

    @property
    def name(self) -> str:
        return f"{self.incarnation:010d}-{self.nonce}-{self.part:06d}.jsonl"

    @property
    def packed(self) -> str:
        return f"{self.name}.gz"

    @classmethod
    def read(cls, name: str) -> _File | None:
        found = _NAME.fullmatch(name)
        file = None if found is None else cls(int(found[1]), int(found[3]), found[2])
        # By its own name alone it is found again.
        return file if file is not None and name in (file.name, file.packed) else None


class Trail:
    """A checkpoint's trail, as one start continues it.

    Args:
        store: Its folder.
        key: Signs each receipt; None for none.
        forward: Seals each receipt with a key of its own; None for none.
        retention: A file goes when its newest receipt is older; None keeps all.
        begins: Where Spark has a source begin before the first epoch, by its number.
        now: The present time.
    """

    def __init__(
        self,
        store: Store,
        *,
        key: bytes | None = None,
        forward: ForwardKey | None = None,
        retention: timedelta | None = None,
        begins: Callable[[int], str] = lambda _: "",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._key = key
        self._forward = forward
        self._retention = retention
        self._first_position = begins
        self._now = now
        self._file: _File | None = None
        self._lines = self._size = 0
        self._newest: dict[str, Any] | None = None
        self._joined = self._waits = False
        self._unsynced: list[str] = []

    def keep(self, records: Mapping[int, Record], incarnation: int, nonce: str) -> None:
        """Append the receipts of all decided epochs among these records that have none. Not synced.

        Args:
            records: The journal's, by place; the newest decided epoch among them is finished.
            incarnation: The start that writes.
            nonce: Its own, by which its files are told from those of another start of this number.

        Raises:
            CheckpointStoreError: The file system failed; what is missing is made by the next call.
        """
        try:
            if not self._joined:
                self._join()
            for body in self._waiting(records):
                self._append(seal(body, self._key, self._forward), incarnation, nonce)
        except CheckpointStoreError as error:
            self._file = None  # a line may be torn: what comes next begins another file
            if not self._waits:
                log.warning("receipts of decided epochs wait, and the journal keeps their records: %s", error.what)
            self._waits = True
            raise
        self._waits = False

    def waiting(self, records: Mapping[int, Record], newest: int) -> list[dict[str, Any]]:
        """The receipts that the next ``keep`` would append, without their hashes; nothing is written.

        Args:
            records: The journal's, by place.
            newest: The newest epoch that is finished.

        Raises:
            CheckpointStoreError: The file system failed.
        """
        self._join()
        found = list[dict[str, Any]]()
        for body in self._waiting(records):
            if body["epoch"] <= newest:
                self._newest = json.loads(seal(body, self._key))
                found.append(body)
        return found

    def _waiting(self, records: Mapping[int, Record]) -> Iterator[dict[str, Any]]:
        """The receipt of each decided epoch that has none, each behind the one that is the newest then."""
        after = 0 if self._newest is None else int(self._newest["places"][1])
        forgotten = len(records) < max(records, default=0)
        for each in finished(records, after):
            begins = None if forgotten else self._first_position
            yield receipt(each, self._newest, begins, self._now().isoformat(timespec="milliseconds"), self._key)

    def _append(self, line: str, incarnation: int, nonce: str) -> None:
        if self._file is None or self._lines >= _FULL or self._size >= _LARGE:
            full = self._file
            self._store.make()
            mine = [f.part for f in self._files() if (f.incarnation, f.nonce) == (incarnation, nonce[:8])]
            self._file = _File(incarnation, 1 + max(mine, default=0), nonce[:8])
            self._lines = self._size = 0
            if full is not None:
                self._pack(full)
            self._let_go()
        self._unsynced = list(dict.fromkeys([*self._unsynced, self._file.name]))
        self._store.append(self._file.name, line.encode() + b"\n")
        self._lines += 1
        self._size += len(line)
        self._newest = json.loads(line)

    def _pack(self, file: _File) -> None:
        """Pack a full file: an eighth of its size. Whoever dies on the way leaves both, which are the same."""
        data = self._store.read(file.name)
        with contextlib.suppress(FileExistsError):
            self._store.create(file.packed, gzip.compress(data, mtime=0))
        self._store.remove(file.name)

    def sync(self) -> None:
        """Make durable what was appended: behind this the journal may forget the records.

        Raises:
            CheckpointStoreError: The file system failed.
        """
        for name in self._unsynced:
            self._store.sync(name)
        if self._unsynced:
            self._store.sync()
        self._unsynced = []

    def anchor(self) -> str:
        """The newest receipt's number and hash as a line for a place that only grows; "" where there is none.

        The receipt is durable when this returns: what an anchor names is never made anew. docs/audit.md has the form.

        Raises:
            CheckpointStoreError: The file system failed.
        """
        if not self._joined:
            self._join()
        self.sync()
        if self._newest is None:
            return ""
        body: dict[str, Any] = {"anchor": FORMAT}
        body |= {name: self._newest[name] for name in ("job", "name", "number", "hash", "at")}
        if self._key is not None:
            body["signature"] = hmac.new(self._key, b"anchor " + _canonical(body).encode(), hashlib.sha256).hexdigest()
        return _canonical(body)

    def forget_keys(self) -> None:
        """Forget the keys that the durable receipts were sealed with. No newer start makes one of them anew.

        Raises:
            CheckpointStoreError: The key's file cannot be replaced.
        """
        if self._forward is None or self._newest is None or self._unsynced:
            return
        try:
            self._forward.forget(int(self._newest["number"]))
        except OSError as error:
            raise CheckpointStoreError(
                f"the key that seals receipts cannot be replaced: {error.strerror or error}",
                harmless="for the data: receipts are sealed with it; whoever takes it can seal older ones, too",
                cause=f"ONCEFLOW_AUDIT_FORWARD_KEY_FILE is {self._forward.path}",
                action="let the job's user write to its folder",
                file=str(self._forward.path),
            ) from None

    def _join(self) -> None:
        """Find the last receipt that counts: the newest start's last whole line."""
        files = sorted(self._files(), reverse=True)
        plain = set(self._store.names())
        self._unsynced = [file.name for file in files if file.name in plain]  # who wrote one may have died before
        for file in files:
            whole = list(_whole_lines(self._content(file)))
            if whole:
                self._newest = whole[-1]
                break
        self._joined = True

    def _let_go(self) -> None:
        """Remove the files, from the oldest on, of which each receipt is older than the retention."""
        if self._retention is None:
            return
        until = self._now() - self._retention - _LATER
        for file in sorted(self._files())[:-1]:  # the newest stays: the next receipt names its last line
            whole = list(_whole_lines(self._content(file)))
            if whole and max(datetime.fromisoformat(body["at"]) for body in whole) > until:  # a clock may go back
                break
            self._store.remove(file.name)
            self._store.remove(file.packed)

    def _content(self, file: _File) -> bytes:
        try:
            return self._store.read(file.name)
        except FileNotFoundError:
            packed = self._store.read(file.packed)
        try:
            return gzip.decompress(packed)
        except (OSError, EOFError, zlib.error):
            return b""  # the audit says what is missing; no epoch hangs on it

    def _files(self) -> set[_File]:
        return {file for name in self._store.names() if (file := _File.read(name)) is not None}


def _whole_lines(data: bytes) -> Iterator[dict[str, Any]]:
    """The receipts of a file up to the first that is torn or was changed."""
    for line in data.splitlines(keepends=True):
        try:
            body = json.loads(line)
            if not line.endswith(b"\n") or digest(body) != body["hash"] or not _goes_on(body):
                return
        except OTHER_FORM:
            return
        yield body


def _goes_on(body: Mapping[str, Any]) -> bool:
    """Whether a receipt has what the next one is made of: else it is no receipt, whatever its hash."""
    numbers = (body["number"], body["places"][0], body["places"][1])
    has_zone = datetime.fromisoformat(body["at"]).tzinfo is not None
    texts = (body["hash"], body["job"], body["name"], *(source["end"] for source in body["sources"]))
    has_sinks = isinstance(body["sinks"], dict) and all(isinstance(told, dict) for told in body["sinks"].values())
    return (
        has_sinks
        and has_zone
        and all(isinstance(n, int) for n in numbers)
        and all(isinstance(text, str) for text in texts)
    )
