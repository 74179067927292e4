"""What is written beside a table: data files that nothing names yet, lists of them, and marks.

Must not know: what a table is, epochs, decisions, who asks. It runs in tasks and in the driver.

An attempt has a list, ``_onceflow/attempts/<job>/<sink>/<attempt>.json``, which is there before its first data file,
and its data files, ``onceflow/<job>/<sink>/<start>/<epoch>/<id>-<n>.parquet`` in the table's folder of data. So whoever
finds a list knows where the files are, and nobody has to list the table's data. The folder ``_onceflow`` begins with an
underscore: those who clean up behind Iceberg and Delta pass over it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pyarrow import fs

from onceflow.connectors.lake.staged import AttemptName, Moment

OWN = "_onceflow"


class Out(Protocol):
    """What a file is written to."""

    def write(self, data: bytes) -> object:
        """Write bytes."""
        ...


class SyncedFiles:
    """A file system of pyarrow's, with what it lacks: files that are on disk when they are closed.

    Args:
        system: Pyarrow's.
    """

    def __init__(self, system: fs.FileSystem) -> None:
        self._system = system
        self._local = isinstance(system, fs.LocalFileSystem)

    @contextlib.contextmanager
    def writing(self, path: str) -> Iterator[Any]:
        """A new file, which is durable when this ends; an object store's is not there before."""
        made = list[Path]()
        if self._local:
            # Pyarrow syncs nothing; and a new file is there after a power cut only if its folder was synced, too.
            made = [folder.parent for folder in Path(path).parents if not folder.exists()]
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        with self._system.open_output_stream(path) as out:
            yield out
        if self._local:
            _sync(Path(path), Path(path).parent, *made)

    def write(self, path: str, data: bytes) -> None:
        """Write a small file, or another one in its place: whoever reads sees the one or the other."""
        if not self._local:
            with self._system.open_output_stream(path) as out:
                out.write(data)
            return
        beside = f"{path}.{uuid.uuid4().hex}"
        with self.writing(beside) as out:
            out.write(data)
        Path(beside).replace(path)
        _sync(Path(path).parent)

    def read(self, path: str) -> bytes | None:
        """What stands in a file, or None where there is none."""
        try:
            with self._system.open_input_stream(path) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def size(self, path: str) -> int | None:
        """How large a file is, or None where there is none."""
        return self.sizes([path])[0]

    def sizes(self, paths: Sequence[str]) -> list[int | None]:
        """Likewise, of several."""
        return [info.size if info.type == fs.FileType.File else None for info in self._system.get_file_info([*paths])]

    def under(self, folder: str) -> list[str]:
        """All files in a folder and below it."""
        selector = fs.FileSelector(folder, allow_not_found=True, recursive=True)
        return [info.path for info in self._system.get_file_info(selector) if info.type == fs.FileType.File]

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self._system.delete_file(path)


class Staging:
    """The folders of one table.

    Args:
        files: The file system.
        own: The folder of lists and marks, as the file system knows it.
        data: The folder of data.
    """

    def __init__(self, files: SyncedFiles, own: str, data: str) -> None:
        self.files = files
        self._own = own.rstrip("/")
        self._data = data.rstrip("/")

    # -- attempts ---------------------------------------------------------------------------------

    def begin(self, name: AttemptName) -> None:
        """Make an attempt's list, empty."""
        self.files.write(self._list(name), b"")

    def data_file(self, name: AttemptName, number: int) -> tuple[str, str]:
        """An attempt's file: its path in the file system, and behind the folder of data."""
        behind = f"{self._folder(name)}/{name.id}-{number}.parquet"
        return self._in_data(behind), behind

    def finish(self, name: AttemptName, listed: Sequence[Mapping[str, Any]]) -> str | None:
        """Write the list; its digest, or None where the attempt was ended by somebody."""
        if self.files.size(self._list(name)) is None:
            return None
        told = json.dumps(listed, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()
        self.files.write(self._list(name), told)
        return hashlib.sha256(told).hexdigest()

    def listed(self, name: AttemptName, digest: str) -> list[dict[str, Any]] | None:
        """The list of an attempt that has finished; None where it is gone or is not what was told."""
        told = self.files.read(self._list(name))
        if told is None or hashlib.sha256(told).hexdigest() != digest:
            return None
        return [dict(each) for each in json.loads(told)]

    def missing(self, paths: Sequence[str], sizes: Sequence[int]) -> str | None:
        """The first of these data files (behind the folder of data) that is not there with its size, or None."""
        there = self.files.sizes([self._in_data(path) for path in paths])
        return next((p for p, size, found in zip(paths, sizes, there, strict=True) if size != found), None)

    def attempts(self, job: str, sink: str | None = None) -> list[AttemptName]:
        """Those of a job, of one sink or of all, that have a list."""
        folder = f"{self._own}/attempts/{job}"
        found = []
        for path in self.files.under(folder if sink is None else f"{folder}/{sink}"):
            *_, of, told = path.split("/")
            name = AttemptName.read(job, of, told.removesuffix(".json"))
            if name is not None and told.endswith(".json"):
                found.append(name)
        return sorted(found, key=lambda name: (name.moment, name.sink, name.shard, name.attempt, name.id))

    def has(self, name: AttemptName) -> bool:
        """Whether an attempt has a list."""
        return self.files.size(self._list(name)) is not None

    def data_of(self, name: AttemptName) -> list[str]:
        """An attempt's data files, behind the folder of data."""
        folder = self._folder(name)
        found = (path.rpartition("/")[2] for path in self.files.under(self._in_data(folder)))
        return [f"{folder}/{each}" for each in found if each.startswith(name.id)]

    def end(self, name: AttemptName) -> None:
        """Remove an attempt's data files, and then its list: nobody may ever have committed it."""
        for behind in self.data_of(name):
            self.files.remove(self._in_data(behind))
        self.tidy(name)

    def tidy(self, name: AttemptName) -> None:
        """Remove the list of an attempt that is committed: the table names its files now."""
        self.files.remove(self._list(name))

    # -- marks ------------------------------------------------------------------------------------

    def mark(self, key: str) -> str | None:
        """What is kept under a key, or None."""
        told = self.files.read(f"{self._own}/marks/{_hashed(key)}")
        return told.decode() if told else None

    def write_mark(self, key: str, mark: str) -> None:
        """Keep it."""
        self.files.write(f"{self._own}/marks/{_hashed(key)}", mark.encode())

    # -- parts ------------------------------------------------------------------------------------

    def _in_data(self, behind: str) -> str:
        return f"{self._data}/{behind}" if self._data else behind

    def _list(self, name: AttemptName) -> str:
        return f"{self._own}/attempts/{name.job}/{name.sink}/{name.text}.json"

    def _folder(self, name: AttemptName) -> str:
        moment: Moment = name.moment
        return f"onceflow/{name.job}/{name.sink}/{moment.incarnation}/{moment.epoch}"


def name_key(prefix: str, name: str) -> str:
    """What the mark of a job's name is kept under."""
    return f"name\0{prefix}\0{name}"


def job_key(job: str) -> str:
    """What a job's mark is kept under."""
    return f"job\0{job}"


def _hashed(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _sync(*paths: Path) -> None:
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
