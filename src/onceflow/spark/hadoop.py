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

from onceflow.spark.internals import gateway, hadoop_settings, java_runs_already
from onceflow.spark.session import begin_java
from onceflow.storage.files import Held, Where, failed
from onceflow.storage.hdfs import Hdfs
from onceflow.storage.locations import hdfs_uri
from onceflow.storage.store import Store

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


def store_at(uri: str) -> Store:
    """The store of a folder on HDFS; this process's Java is started for it, if it is not there.

    Raises:
        SetupError: Java or a jar is missing.
        CheckpointStoreError: The NameNode, or the name service, is not known here.
    """
    if not java_runs_already():
        begin_java("onceflow", {})
    root = "/".join(uri.split("/")[:3])
    try:
        return Store(uri, _hadoop(root))
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
        return _threads().submit(_raised, functools.partial(call, *given, **named)).result()

    return in_a_thread


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_AT_ONCE, "onceflow-hdfs")


def _raised(call: Callable[[], R]) -> R:
    try:
        return call()
    except Py4JJavaError as error:
        java = error.java_exception
        name, said = java.getClass().getName(), str(java.getMessage()).partition("\n")[0]
        raised = _ERRORS.get(name)
        raise (raised(said) if raised else OSError(f"{name.rpartition('.')[2]}: {said}")) from error
    except (Py4JError, ConnectionError) as error:  # Java itself is gone
        raise OSError(f"Spark's Java does not answer: {str(error).partition(chr(10))[0]}") from error


class Hadoop(Hdfs):
    """HDFS by Hadoop's client: one NameNode's, or one name service's, files.

    Args:
        root: Its URI.
    """

    @_apart
    def __init__(self, root: str) -> None:
        self.not_appendable = set()
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
    def _make_folder(self, folder: Where) -> None:
        self._context.mkdir(self._path(str(folder)), None, True)

    @_apart
    def exists(self, folder: Where) -> bool:
        """Whether it is there, or a file is."""
        return bool(self._context.util().exists(self._path(str(folder))))

    @_apart
    def _make_file(self, path: Where, data: bytes, *, sync: bool) -> int:
        self._written(path, self._synced if sync else self._plain, data, sync=sync)
        return int(self._status(path).getFileId())

    @_apart
    def _add(self, path: Where, data: bytes) -> None:
        self._written(path, self._append, data, sync=True)

    def _written(self, path: Where, how: Any, data: bytes, *, sync: bool) -> None:
        out = self._context.create(self._path(str(path)), how, self._options)
        try:
            for begins in range(0, len(data), _PART):  # as in reading
                out.write(bytes(data[begins : begins + _PART]))
            if sync:
                out.hsync()
        finally:
            out.close()

    @_apart
    def _name(self, path: Where, to: Where, *, over: bool) -> None:
        self._context.rename(self._path(str(path)), self._path(str(to)), self._rename[over])

    @_apart
    def _number(self, path: Where) -> int:
        return int(self._status(path).getFileId())

    @_apart
    def _changed_at(self, path: Where) -> float:
        return float(self._status(path).getModificationTime()) / 1000

    def _status(self, path: Where) -> Any:
        return self._context.getFileStatus(self._path(str(path)))

    @_apart
    def read(self, path: Where, most: int = -1) -> bytes:
        file = self._context.open(self._path(str(path)))
        try:
            if most >= 0:
                return bytes(file.readNBytes(most))
            # In parts: on its way here Java has what it hands over several times in memory.
            return b"".join(iter(lambda: bytes(file.readNBytes(_PART)), b""))
        finally:
            file.close()

    @_apart
    def names(self, folder: Where) -> list[str]:
        # As one text: over py4j each name would be three calls, and a journal has hundreds.
        paths = self._paths_of(self._context.util().listStatus(self._path(str(folder))))
        return [path.rpartition("/")[2] for path in json.loads(self._json.writeValueAsString(paths))]

    @_apart
    def count(self, folder: Where, pattern: str) -> int:
        found = self._context.util().globStatus(self._path(f"{folder}/{pattern}"))
        return 0 if found is None else len(found)

    @_apart
    def _uris(self, folder: Where) -> list[str]:
        found, each = [], self._context.util().listFiles(self._path(str(folder)), True)
        while each.hasNext():
            found.append(str(each.next().getPath()))
        return found

    @_apart
    def _summary(self, path: Where) -> tuple[int, int]:
        found = self._context.util().getContentSummary(self._path(str(path)))
        return int(found.getFileCount()), int(found.getLength())

    def _copy_files(self, pairs: Sequence[tuple[Where, Where]]) -> None:
        for _ in _threads().map(lambda pair: _raised(lambda: self._copy(*pair)), pairs):
            pass

    def _copy(self, path: Where, to: Where) -> None:
        file = self._context.open(self._path(str(path)))
        try:
            out = self._context.create(self._path(str(to)), self._synced, self._options)
            try:
                file.transferTo(out)
                out.hsync()
            finally:
                out.close()
        finally:
            file.close()

    def digests(self, paths: Sequence[Where]) -> list[Held]:
        """Several at a time, made in Java."""
        return list(_threads().map(lambda path: _raised(lambda: self._digest(path)), paths))

    def _digest(self, path: Where) -> Held:
        found = self._sha256()
        file = self._digesting(self._context.open(self._path(str(path))), found)
        try:
            size = int(file.transferTo(self._nowhere()))
            return size, bytes(found.digest()).hex()
        finally:
            file.close()

    @_apart
    def _delete(self, path: Where, *, whole: bool) -> None:
        self._context.delete(self._path(str(path)), whole)

    @_apart
    def _note(self, folder: Where) -> None:
        self._context.setTimes(self._path(str(folder)), int(time.time() * 1000), -1)


def _class(jvm: Any, name: str) -> Any:
    return jvm.java.lang.Class.forName(name, False, jvm.java.lang.Thread.currentThread().getContextClassLoader())


_hadoop = functools.cache(Hadoop)
