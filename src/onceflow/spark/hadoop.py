"""HDFS through the Hadoop client in PySpark's Java, which is there before any session: a checkpoint is read first.

Must not know: what the files hold, the journal, sinks.

A call to Java is made in a thread of its own. A signal's exception would cut the conversation of the thread that it
reaches, and that thread's next call would take the answer of the one before.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError

from onceflow.checkpoint.contract import failed
from onceflow.checkpoint.hdfs import HdfsStore, hdfs_uri
from onceflow.spark.internals import gateway, hadoop_settings, java_runs_already
from onceflow.spark.session import begin_java

_ERRORS: dict[str, Callable[[str], OSError]] = {
    "org.apache.hadoop.fs.FileAlreadyExistsException": FileExistsError,
    "java.io.FileNotFoundException": FileNotFoundError,
    "org.apache.hadoop.fs.ParentNotDirectoryException": NotADirectoryError,
    "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException": functools.partial(OSError, errno.ENOTEMPTY),
}
_AT_ONCE = 8
_PART = 4 << 20

P = ParamSpec("P")
R = TypeVar("R")


def begin(location: str, name: str, spark: Mapping[str, str]) -> None:
    """Start the Java of a job whose checkpoint is on HDFS, which is read before there is a session.

    Args:
        location: The checkpoint's.
        name: The job's name.
        spark: Its Spark settings.

    Raises:
        ConfigurationError: The location is refused.
        SetupError: Java is missing.
    """
    if hdfs_uri(location) is not None:
        begin_java(name, spark)


def store_at(uri: str) -> HdfsStore:
    """The store of a folder on HDFS; this process's Java is started for it, if it is not there.

    Raises:
        SetupError: Java or a jar is missing.
        CheckpointStoreError: The NameNode, or the name service, is not known here.
    """
    if not java_runs_already():
        begin_java("onceflow", {})
    root = "/".join(uri.split("/")[:3])
    try:
        return HdfsStore(_files(root), uri)
    except OSError as error:
        raise failed(
            uri,
            "reach",
            error,
            cause=f"no host or name service of the name in {root} is known here: DNS, or hdfs-site.xml in the folder "
            f"that HADOOP_CONF_DIR names (now {os.environ.get('HADOOP_CONF_DIR', 'not set')!r})",
            mend="that",
        ) from error


def _apart(call: Callable[P, R]) -> Callable[P, R]:
    """Call it in a thread of its own, and raise what Java raised as what it means."""

    @functools.wraps(call)
    def in_a_thread(*given: P.args, **named: P.kwargs) -> R:
        return _threads().submit(_explained, functools.partial(call, *given, **named)).result()

    return in_a_thread


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_AT_ONCE, "onceflow-hdfs")


def _explained(call: Callable[[], R]) -> R:
    try:
        return call()
    except Py4JJavaError as error:
        java = error.java_exception
        name, said = java.getClass().getName(), str(java.getMessage()).partition("\n")[0]
        raised = _ERRORS.get(name)
        raise (raised(said) if raised else OSError(f"{name.rpartition('.')[2]}: {said}")) from error
    except (Py4JError, ConnectionError) as error:  # Java itself is gone
        raise OSError(f"Spark's Java does not answer: {str(error).partition(chr(10))[0]}") from error


class HadoopFiles:
    """One NameNode's, or one name service's, files.

    Args:
        root: Its URI.
    """

    @_apart
    def __init__(self, root: str) -> None:
        self._gateway = gateway()
        jvm = self._gateway.jvm
        fs = jvm.org.apache.hadoop.fs
        settings = jvm.org.apache.hadoop.conf.Configuration()
        for name, value in hadoop_settings().items():
            settings.set(name, value)
        self._context = fs.FileContext.getFileContext(jvm.java.net.URI(root), settings)
        self._path = fs.Path
        self._paths_of = fs.FileUtil.stat2Paths
        self._digesting = jvm.java.security.DigestInputStream
        self._sha256 = functools.partial(jvm.java.security.MessageDigest.getInstance, "SHA-256")
        self._nowhere = jvm.java.io.OutputStream.nullOutputStream
        flag, one_of = fs.CreateFlag, jvm.java.util.EnumSet.of
        self._plain, self._synced = one_of(flag.CREATE), one_of(flag.CREATE, flag.SYNC_BLOCK)
        self._append = one_of(flag.CREATE, flag.APPEND, flag.SYNC_BLOCK)
        rename = getattr(fs, "Options$Rename")
        self._options = self._gateway.new_array(getattr(fs, "Options$CreateOpts"), 0)
        self._rename = {False: self._array(rename, rename.NONE), True: self._array(rename, rename.OVERWRITE)}
        json_of = jvm.com.fasterxml.jackson.databind
        as_text = json_of.ser.std.ToStringSerializer(_class(jvm, "org.apache.hadoop.fs.Path"))
        self._json = json_of.ObjectMapper().registerModule(json_of.module.SimpleModule().addSerializer(as_text))

    def _array(self, kind: Any, value: Any) -> Any:
        made = self._gateway.new_array(kind, 1)
        made[0] = value
        return made

    @_apart
    def make(self, folder: str) -> None:
        """Make a folder and those above it."""
        self._context.mkdir(self._path(folder), None, True)

    @_apart
    def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        return bool(self._context.util().exists(self._path(path)))

    @_apart
    def write(self, path: str, data: bytes, *, sync: bool) -> int:
        """Make a file, with ``sync`` on the DataNodes' disks; its number."""
        self._written(path, self._synced if sync else self._plain, data, sync=sync)
        return int(self._context.getFileStatus(self._path(path)).getFileId())

    @_apart
    def append(self, path: str, data: bytes) -> None:
        """Add to the end of a file, or make it; on the DataNodes' disks."""
        self._written(path, self._append, data, sync=True)

    def _written(self, path: str, how: Any, data: bytes, *, sync: bool) -> None:
        out = self._context.create(self._path(path), how, self._options)
        try:
            for begins in range(0, len(data), _PART):  # as in reading
                out.write(bytes(data[begins : begins + _PART]))
            if sync:
                out.hsync()
        finally:
            out.close()

    @_apart
    def rename(self, path: str, to: str, *, over: bool) -> None:
        """Give a file another name; with ``over`` in the place of what has it, else only where nothing has."""
        self._context.rename(self._path(path), self._path(to), self._rename[over])

    @_apart
    def number(self, path: str) -> int:
        """A file's number."""
        return int(self._context.getFileStatus(self._path(path)).getFileId())

    @_apart
    def changed_at(self, path: str) -> float:
        """When a file was changed, in seconds."""
        return float(self._context.getFileStatus(self._path(path)).getModificationTime()) / 1000

    @_apart
    def read(self, path: str, most: int = -1) -> bytes:
        """A file's content, or its first bytes."""
        return self._read(path, most)

    def _read(self, path: str, most: int = -1) -> bytes:
        file = self._context.open(self._path(path))
        try:
            if most >= 0:
                return bytes(file.readNBytes(most))
            # In parts: on its way here Java has what it hands over several times in memory.
            return b"".join(iter(lambda: bytes(file.readNBytes(_PART)), b""))
        finally:
            file.close()

    def contents(self, paths: Sequence[str]) -> list[bytes | None]:
        """The contents of files, several at a time; None for one that is not there."""

        def content(path: str) -> bytes | None:
            try:
                return _explained(lambda: self._read(path))
            except FileNotFoundError:
                return None

        return list(_threads().map(content, paths))

    @_apart
    def names(self, folder: str) -> list[str]:
        """What is in a folder."""
        # As one text: over py4j each name would be three calls, and a journal has hundreds.
        paths = self._paths_of(self._context.util().listStatus(self._path(folder)))
        return [path.rpartition("/")[2] for path in json.loads(self._json.writeValueAsString(paths))]

    @_apart
    def count(self, pattern: str) -> int:
        """How many paths fit a pattern."""
        found = self._context.util().globStatus(self._path(pattern))
        return 0 if found is None else len(found)

    @_apart
    def all_files(self, folder: str) -> list[str]:
        """The URIs of all files in a folder and below it."""
        found, each = [], self._context.util().listFiles(self._path(folder), True)
        while each.hasNext():
            found.append(str(each.next().getPath()))
        return found

    @_apart
    def size(self, path: str) -> tuple[int, int]:
        """How many files a file or folder is, and of how many bytes."""
        found = self._context.util().getContentSummary(self._path(path))
        return int(found.getFileCount()), int(found.getLength())

    def copy(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Copy files to new ones, several at a time, within Java; on the DataNodes' disks."""

        def one(pair: tuple[str, str]) -> None:
            _explained(lambda: self._copy(*pair))

        for _ in _threads().map(one, pairs):
            pass

    def _copy(self, path: str, to: str) -> None:
        file = self._context.open(self._path(path))
        try:
            out = self._context.create(self._path(to), self._synced, self._options)
            try:
                file.transferTo(out)
                out.hsync()
            finally:
                out.close()
        finally:
            file.close()

    def digests(self, paths: Sequence[str]) -> list[tuple[int, str]]:
        """The sizes of files and their SHA-256, several at a time, made in Java."""
        return list(_threads().map(lambda path: _explained(lambda: self._digest(path)), paths))

    def _digest(self, path: str) -> tuple[int, str]:
        found = self._sha256()
        file = self._digesting(self._context.open(self._path(path)), found)
        try:
            size = int(file.transferTo(self._nowhere()))
            return size, bytes(found.digest()).hex()
        finally:
            file.close()

    @_apart
    def remove(self, path: str) -> None:
        """Remove a file or an empty folder; nothing where none is."""
        self._context.delete(self._path(path), False)

    @_apart
    def remove_all(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it."""
        self._context.delete(self._path(path), True)

    @_apart
    def note(self, folder: str) -> None:
        """Change a folder's time: a change of the NameNode's log that changes nothing else."""
        self._context.setTimes(self._path(folder), int(time.time() * 1000), -1)


def _class(jvm: Any, name: str) -> Any:
    return jvm.java.lang.Class.forName(name, False, jvm.java.lang.Thread.currentThread().getContextClassLoader())


_files = functools.cache(HadoopFiles)
