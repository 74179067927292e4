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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from onceflow.checkpoint.audit_receipt import FORMAT, finished, receipt
from onceflow.checkpoint.forward_key import ForwardKey
from onceflow.errors import CheckpointStoreError
from onceflow.storage.store import Store
from onceflow.twophase.forms import OTHER_FORM
from onceflow.twophase.records import (
    Record,
)

log = logging.getLogger(__name__)

_FULL, _LARGE = 1_000, 1_000_000
"""So many receipts, or bytes, end a file: an object store writes it anew for each. Retention lets go of whole files."""

_LATER = timedelta(hours=1)
"""By so much receipts stay longer: an auditor's clock may be behind, and to him what is gone must be old."""


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
