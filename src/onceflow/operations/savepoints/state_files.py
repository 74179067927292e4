"""Which files of Spark's ``state/`` make up the state behind an epoch, from Spark's own records and never by listing.

Must not know: the journal, sinks, savepoints. It reads.

Under onceflow state is RocksDB's, with an id for each version (``spark/session.py`` pins both). ``commits/N`` names the
ids of version N + 1: by operator, partition and store. A version is a snapshot, ``<version>_<id>.zip``, whose entry
``metadata`` names the files that it shares with others (``SSTs/``, ``logs/``), or a changelog,
``<version>_<id>.changelog``, which begins with its lineage: the versions before it, back to a snapshot. So what belongs
to the epoch is told by names alone, and what another run has left beside it is not touched.
"""

from __future__ import annotations

import io
import json
import lzma
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from onceflow.checkpoint.state_schemas import inside, paths_in
from onceflow.storage.files import numbers
from onceflow.storage.tree import Folder
from onceflow.twophase.forms import OTHER_FORM

_LZ4, _ZSTD = b"LZ4Block", b"\x28\xb5\x2f\xfd"
_LZ4_HEAD = 21  # magic, kind, two lengths, checksum
_RAW, _PACKED = 0x10, 0x20
_LARGEST_BLOCK = 1 << 25  # of lz4's own Java, unpacked
_LONGEST_METADATA = 1 << 26  # of a snapshot, unpacked: a hundred bytes for each of its files
_NO_ZIP = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, NotImplementedError, RuntimeError)
_LONGEST_LINEAGE = 1 << 20  # of a changelog as it is packed: an entry for each epoch since the last snapshot


class UnreadableStateError(ValueError):
    """A file of the state is missing, or says what cannot be understood."""


class Tree(Protocol):
    """The checkpoint's files, by their path in it."""

    def read(self, path: str, most: int = -1) -> bytes:
        """A file's content, or its first bytes; FileNotFoundError where it is not there."""

    def exists(self, path: str) -> bool:
        """Whether the file is there."""

    def numbers(self, path: str) -> list[int]:
        """The files of a folder that are named by a number; none where there is no folder."""


def ids_of(commit: str) -> Mapping[int, Sequence[Sequence[str]]]:
    """The ids that a commits file names: by operator, of each partition's stores. Empty for a query without state.

    Raises:
        UnreadableStateError: It names no ids in the way that this version knows.
    """
    lines = commit.splitlines()
    if not lines:
        raise UnreadableStateError("it is empty")
    try:
        body = json.loads(lines[1]) if len(lines) > 1 else {}
        found = body.get("stateUniqueIds") or {}
        return {int(number): [[_inside(i) for i in stores] for stores in of] for number, of in found.items()}
    except OTHER_FORM as error:
        raise UnreadableStateError(f"it names no state in a known way: {error}") from None


def files_of(tree: Tree, epoch: int, commit: str) -> Iterator[str]:
    """The paths of all files that the state behind an epoch consists of.

    Args:
        tree: The checkpoint's files.
        epoch: Which.
        commit: What ``commits/<epoch>`` holds.

    Raises:
        UnreadableStateError: A file is missing, or cannot be understood; the message names it.
    """
    for operator, partitions in ids_of(commit).items():
        names = []
        for path, described in _described(tree, operator, epoch):
            yield path
            if described is not None:
                names = described
        if not names:
            raise UnreadableStateError(f"state/{operator}/_metadata names no stores")
        for partition, ids in enumerate(partitions):
            folders = [f"state/{operator}/{partition}" + ("" if name == "default" else f"/{name}") for name in names]
            for folder in folders:
                yield from _beside(tree, f"{folder}/_metadata/schema")
            for i in ids:
                yield from _version(tree, folders, epoch + 1, i)


def _described(tree: Tree, operator: int, epoch: int) -> Iterator[tuple[str, list[str] | None]]:
    """The files that describe an operator; with the one that counts, the names of its stores."""
    folder = f"state/{operator}/_metadata"
    versions = [n for n in tree.numbers(f"{folder}/v2") if n <= epoch]
    path = f"{folder}/v2/{max(versions)}" if versions else f"{folder}/metadata"
    lines = _text(tree, path).splitlines()
    try:
        stores = json.loads(lines[1])["stateStoreInfo"]
        names = [_inside(store["storeName"]) for store in stores]
        schemas = [_inside(*inside(named).split("/")) for named in paths_in("\n".join(lines))]
    except OTHER_FORM as error:
        raise UnreadableStateError(f"{path} is no operator's metadata: {error}") from None
    yield path, names
    for beside in _beside(tree, path):
        if beside != path:
            yield beside, None
    for schema in schemas:
        _require(tree, schema)
        for beside in _beside(tree, schema):
            yield beside, None


def _version(tree: Tree, folders: Iterable[str], version: int, i: str) -> Iterator[str]:
    """The files of one version of one store: the newest snapshot of its lineage, and the changelogs behind that."""
    for folder in folders:
        at = f"{folder}/{version}_{i}"
        if tree.exists(f"{at}.zip"):
            yield from _snapshot(tree, folder, f"{at}.zip")
            return
        if tree.exists(f"{at}.changelog"):
            lineage = [*_lineage(tree, f"{at}.changelog"), (version, i)]
            snapshots = [n for n, (v, u) in enumerate(lineage) if tree.exists(f"{folder}/{v}_{u}.zip")]
            first = snapshots[-1] if snapshots else -1
            if first >= 0:
                v, u = lineage[first]
                yield from _snapshot(tree, folder, f"{folder}/{v}_{u}.zip")
            elif lineage[0][0] != 1:
                raise UnreadableStateError(f"{at}.changelog rests on version {lineage[0][0]}, whose snapshot is gone")
            for v, u in lineage[first + 1 :]:
                _require(tree, f"{folder}/{v}_{u}.changelog")
                yield from _beside(tree, f"{folder}/{v}_{u}.changelog")
            return
    raise UnreadableStateError(f"{' or '.join(folders)} has no version {version} with the id {i}")


def _snapshot(tree: Tree, folder: str, path: str) -> Iterator[str]:
    data = tree.read(path)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open("metadata") as file:
            told = json.loads(file.read(_LONGEST_METADATA).decode().partition("\n")[2])
        shared = [f"{folder}/SSTs/{_inside(each['dfsSstFileName'])}" for each in told.get("sstFiles", ())]
        shared += [f"{folder}/logs/{_inside(each['dfsLogFileName'])}" for each in told.get("logFiles", ())]
    except (*OTHER_FORM, *_NO_ZIP) as error:
        raise UnreadableStateError(f"{path} is no snapshot: {error}") from None
    yield from _beside(tree, path)
    for name in shared:
        _require(tree, name)
        yield from _beside(tree, name)


def _lineage(tree: Tree, path: str) -> list[tuple[int, str]]:
    """What a changelog says of the versions before its own, oldest first."""
    try:
        head = _Head(tree.read(path, _LONGEST_LINEAGE))
        if head.text() not in ("v3", "v4"):
            raise ValueError("it has no lineage")
        told: list[dict[str, Any]] = json.loads(head.text())
        return sorted((int(each["version"]), _inside(each["checkpointUniqueId"])) for each in told)
    except (*OTHER_FORM, OSError) as error:
        raise UnreadableStateError(f"{path} cannot be read: {error}") from None


class _Head:
    """The beginning of a packed file, as Java's ``DataOutputStream`` wrote it."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self._open, self._from = b"", 0
        self._zstd = pa.CompressedInputStream(pa.BufferReader(data), "zstd") if data[:4] == _ZSTD else None
        if self._zstd is None and data[:8] != _LZ4:
            raise UnreadableStateError(
                "a changelog is packed by another codec than lz4 or zstd (spark.sql.streaming.stateStore.compression"
                ".codec)"
            )

    def text(self) -> str:
        """The next text, which begins with its length."""
        return self._take(int.from_bytes(self._take(2), "big")).decode()

    def _take(self, size: int) -> bytes:
        while len(self._open) - self._from < size:
            self._open += self._block()
        taken = self._open[self._from : self._from + size]
        self._from += size
        return taken

    def _block(self) -> bytes:
        if self._zstd is not None:
            opened = bytes(self._zstd.read(4_096))
            if not opened:
                raise ValueError("it ends in the middle")
            return opened
        head = self._data[self._at : self._at + _LZ4_HEAD]
        if len(head) < _LZ4_HEAD or head[:8] != _LZ4:
            raise ValueError("it ends in the middle")
        packed, size = int.from_bytes(head[9:13], "little"), int.from_bytes(head[13:17], "little")
        if not 0 < size <= _LARGEST_BLOCK:
            raise ValueError("it ends in the middle, or is no block of Java's")
        at = self._at + _LZ4_HEAD
        block = self._data[at : at + packed]
        self._at = at + packed
        kind = head[8] & 0xF0
        if kind == _RAW:
            return block
        if kind != _PACKED:
            raise ValueError(f"a block of an unknown kind, {kind}")
        return bytes(pa.Codec("lz4_raw").decompress(block, size).to_pybytes())


def _beside(tree: Tree, path: str) -> Iterator[str]:
    """A file, if it is there, with the checksums that Spark and Hadoop keep beside it."""
    if tree.exists(path):
        yield path
        folder, _, name = path.rpartition("/")
        for each in (f"{path}.crc", f"{folder}/.{name}.crc", f"{folder}/.{name}.crc.crc"):
            if tree.exists(each):
                yield each


def _require(tree: Tree, path: str) -> None:
    if not tree.exists(path):
        raise UnreadableStateError(f"{path} is missing")


def _text(tree: Tree, path: str) -> str:
    try:
        return tree.read(path).decode()
    except FileNotFoundError:
        raise UnreadableStateError(f"{path} is missing") from None
    except UnicodeDecodeError:
        raise UnreadableStateError(f"{path} is no text") from None


def _inside(*names: str) -> str:
    """A name that another file says, or several on the way down, which lead out of no folder: they are copied.

    Raises:
        ValueError: They do.
    """
    if any(not name or name in (".", "..") or "/" in name or "\0" in name for name in names):
        raise ValueError(f"it names a file outside of its folder, {'/'.join(names)!r}")
    return "/".join(names)


class Listed:
    """A checkpoint's files. Each folder is listed once: what comes later is none of the epoch's.

    Args:
        folder: The checkpoint's.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._names: dict[str, frozenset[str]] = {}

    def read(self, path: str, most: int = -1) -> bytes:
        """A file's content, or its first bytes."""
        return self._folder.read(path, most)

    def exists(self, path: str) -> bool:
        """Whether the file is there."""
        folder, _, name = path.rpartition("/")
        return name in self.names(folder)

    def names(self, path: str) -> frozenset[str]:
        """What is in a folder."""
        if path not in self._names:
            self._names[path] = frozenset(self._folder.names(path))
        return self._names[path]

    def numbers(self, path: str) -> list[int]:
        """The files of a folder that are named by a number."""
        return numbers(self.names(path))
