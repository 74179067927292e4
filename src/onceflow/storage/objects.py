"""A bucket of an object store: each promise of the port from a create that is refused where a key is.

Must not know: which service it is, who logs in there, what the files hold. Whoever reaches the bucket is handed in.

All of it rests on one call (docs/stores.md): an object is made as a whole or not at all, and with ``mode="create"`` of
those that make one key exactly one succeeds. Not every service keeps that, and some pass over it in silence: so it is
tried before the first file is made. What is answered is durable, and there are no folders, no renames and no links;
files are copied by the service itself.

Hadoop's connectors keep an empty object for each folder that they were told to make, whose key ends with a slash. They
are no files; they are removed with what was in them.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import re
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Self

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore

from onceflow.errors import ConfigurationError
from onceflow.storage.files import (
    FILE_MANAGER,
    FILE_MANAGERS,
    TEMPORARY,
    FileSystem,
    Held,
    How,
    Where,
    at_once,
    translating,
)
from onceflow.storage.making import is_making

_WRITER = "writer"
_MAKER = "maker"
_AT_ONCE = 16
_TRIED_AT_ONCE = 8
_TRIES = 4
_CHUNK = 1 << 20
_NOT_THERE = "it is not there"
_NO_SUCH_RANGE = "InvalidRange"
_UNKNOWN = re.compile(r"NotImplemented|\b501\b|not supported", re.IGNORECASE)
_CODE = re.compile(r"<Code>([^<]*)</Code>(?:.*?<Message>([^<]*)</Message>)?", re.DOTALL)
_KEY_ID = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{8,}")


class Bucket(FileSystem):
    """A bucket, as this process reaches it.

    Args:
        client: The way there.
        root: Its URI.
        remove_marker: Removes the empty object that Hadoop makes for a folder: its key ends with a slash, which the
            client has no word for.
        rights: Those that are needed there, in words.
    """

    has_folders = False
    at_once = _AT_ONCE
    mend = "the access"
    # Of the managers that say so when a file was not written, the one with a single client.
    spark: Mapping[str, str] = MappingProxyType({FILE_MANAGER: FILE_MANAGERS + "FileSystemBasedCheckpointFileManager"})
    spark_is_apart = True

    def __init__(
        self,
        client: ObjectStore,
        root: str,
        remove_marker: Callable[[str], None] = lambda _: None,
        rights: str = "to list, read, write and delete",
    ) -> None:
        self.client = client
        self.root = root
        self.remove_marker = remove_marker
        self.cause = (
            "the object store does not answer, the credentials have expired or are not this bucket's, or they lack a "
            f"right: {rights}"
        )
        self.tried = False

    def key(self, path: Where) -> str:
        """A path's key."""
        return str(path).removeprefix(f"{self.root}/")

    def make(self, folder: Where) -> None:
        """Nothing is made: a folder comes with its first file. Before the first one the bucket is tried.

        Raises:
            ConfigurationError: There is no such bucket, or it lets two make one key.
        """
        if not self.tried:
            with translating(self, folder, "create an object below"), as_os_error(folder):
                self._try(folder)
            self.tried = True

    def _try(self, folder: Where) -> None:
        """Make objects twice, one after the other and at one moment; they are gone afterwards.

        Some services look and then write: the one after the other is refused there, and of those at one moment all win.
        """
        with ThreadPoolExecutor(_TRIED_AT_ONCE) as threads:
            if self._winners(folder, lambda create: [create(), create()]) > 1:
                raise _refused(folder, "an object was made there, and made again: the second was not refused")
            for _ in range(_TRIES):
                gate = threading.Barrier(_TRIED_AT_ONCE)
                if self._winners(folder, functools.partial(_at_one_moment, threads, gate)) > 1:
                    raise _refused(
                        folder, "of several that made one object at the same moment more than one was told yes"
                    )

    def _winners(self, folder: Where, contend: Callable[[Callable[[], bool]], Sequence[bool]]) -> int:
        """How many of those that contend for a key make it."""
        key = f"{self.key(folder)}/{TEMPORARY}{uuid.uuid4().hex}"

        def create() -> bool:
            try:
                self._create(key, b"1")
            except FileExistsError:
                return False
            return True

        try:
            return sum(contend(create))
        except FileNotFoundError:
            raise _refused(folder, "there is no such bucket") from None
        except BaseError as error:
            if _UNKNOWN.search(str(error)) is None:
                raise
            raise _refused(folder, f"it does not know a conditional create: {told_by(error)}") from None
        finally:
            with contextlib.suppress(BaseError, OSError):
                obstore.delete(self.client, key)

    def put(self, path: Where, data: bytes, *, over: bool, durable: bool = True, maker: str = "") -> None:
        """An object is there when all of it has arrived."""
        if over:
            with translating(self, path, "write the file"), as_os_error(path):
                self._put(self.key(path), data)
        else:
            with as_os_error(path):
                self._create(self.key(path), data, maker)

    def _create(self, key: str, data: bytes, maker: str = "") -> None:
        mine = uuid.uuid4().hex
        said = {_WRITER: mine} | ({_MAKER: maker} if maker else {})
        try:
            # In one piece: the parts of a large one would be put together by another call.
            obstore.put(self.client, key, data, attributes=said, mode="create", use_multipart=False)
        except (BaseError, OSError):
            # It may have been made and the answer lost; or a second try of the client's was refused because the first
            # had made it. What the object says of its writer tells.
            found = self._attribute(key, _WRITER)
            if found is None:
                raise
            if found != mine:
                raise FileExistsError(key) from None

    def _put(self, key: str, data: bytes) -> None:
        obstore.put(self.client, key, data, use_multipart=False)

    def maker(self, path: Where) -> str | None:
        with as_os_error(path):
            return self._attribute(self.key(path), _MAKER)

    def _attribute(self, key: str, name: str) -> str | None:
        """What an object says of itself, "" where it does not say; None where there is none."""
        try:
            return obstore.get(self.client, key).attributes.get(name, "")
        except FileNotFoundError:
            return None

    def append(self, path: Where, data: bytes) -> None:
        """It is written anew. Of two that do it at once one may be lost."""
        before = b""
        with as_os_error(path):
            with contextlib.suppress(FileNotFoundError):
                before = self._read(self.key(path))
            self._put(self.key(path), before + data)

    def write(self, path: Where, data: bytes) -> None:
        """As ``put``."""
        with as_os_error(path, _NOT_THERE):
            self._put(self.key(path), data)

    def read(self, path: Where, most: int = -1) -> bytes:
        with as_os_error(path, _NOT_THERE):
            if most < 0:
                return self._read(self.key(path))
            try:
                return bytes(obstore.get(self.client, self.key(path), options={"range": (0, most)}).bytes())
            except FileNotFoundError:
                raise
            except BaseError as error:
                if _NO_SUCH_RANGE in str(error):  # it is empty
                    return b""
                raise

    def _read(self, key: str) -> bytes:
        return bytes(obstore.get(self.client, key).bytes())

    def names(self, folder: Where) -> list[str]:
        """None where there is no folder; without what a trial of the bucket has made."""
        above = self.key(folder)
        with as_os_error(folder):
            found = obstore.list_with_delimiter(self.client, f"{above}/")
        keys = [*found["common_prefixes"], *(each["path"] for each in found["objects"])]
        names = (key.rstrip("/").removeprefix(f"{above}/") for key in keys if key.rstrip("/") != above)
        return [name for name in names if not name.startswith(TEMPORARY)]

    def files(self, folder: Where) -> list[str]:
        with as_os_error(folder, _NOT_THERE):
            return [key.removeprefix(f"{self.key(folder)}/") for key, _ in self._found(folder)]

    def _found(self, folder: Where) -> Iterator[tuple[str, int]]:
        """All files in a folder and below it: keys, and sizes."""
        for key, size in self._objects(folder):
            # An empty object may be Hadoop's for a folder: the list does not show the slash at its end.
            if size or self._is_there(key):
                yield key, size

    def _objects(self, folder: Where) -> Iterator[tuple[str, int]]:
        for page in obstore.list(self.client, f"{self.key(folder)}/"):
            for each in page:
                yield each["path"], each["size"]

    def _is_there(self, key: str) -> bool:
        try:
            obstore.head(self.client, key)
        except FileNotFoundError:
            return False
        return True

    def count(self, folder: Where, pattern: str) -> int:
        whole = f"{self.key(folder)}/{pattern}"
        fits = re.compile(re.escape(whole).replace(r"\*", "[^/]*")).fullmatch
        above = whole.partition("*")[0].rpartition("/")[0]
        with as_os_error(folder):
            return sum(bool(fits(each["path"])) for page in obstore.list(self.client, f"{above}/") for each in page)

    def size(self, path: Where) -> tuple[int, int]:
        with as_os_error(path, _NOT_THERE):
            sizes = [size for _, size in self._found(path)]
            with contextlib.suppress(FileNotFoundError):
                sizes.append(obstore.head(self.client, self.key(path))["size"])
        return len(sizes), sum(sizes)

    def exists(self, folder: Where) -> bool:
        """Whether anything is in the folder, were it Hadoop's for another one."""
        with as_os_error(folder):
            return any(obstore.list(self.client, f"{self.key(folder)}/", chunk_size=1))

    def is_file(self, path: Where) -> bool:
        with as_os_error(path, _NOT_THERE):
            return self._is_there(self.key(path))

    def is_taken(self, path: Where) -> bool:
        """Whether any file has its name, or has it before a slash."""
        with as_os_error(path, _NOT_THERE):
            return self._is_there(self.key(path)) or any(True for _ in self._found(path))

    def copy(self, of: Self, pairs: Sequence[tuple[Where, Where]], how: How) -> None:
        """Several at a time: by the service itself, or from another bucket through here.

        Each is looked for afterwards: a service may begin its answer before the copy is done.
        """
        at_once(_AT_ONCE, functools.partial(self._copy, of), pairs)

    def _copy(self, of: Self, pair: tuple[Where, Where]) -> None:
        path, to = pair
        with as_os_error(path, _NOT_THERE):
            if of.root == self.root:
                obstore.copy(self.client, of.key(path), self.key(to))
            else:
                self._fetch(of, path, to)
        if not self.is_file(to):
            raise OSError(errno.EIO, "it was answered as copied, and is not there", to)

    def _fetch(self, of: Self, path: Where, to: Where) -> None:
        with tempfile.TemporaryFile() as file:  # the client reads no stream of its own
            for chunk in obstore.get(of.client, of.key(path)).stream(min_chunk_size=_CHUNK):
                file.write(chunk)
            file.seek(0)
            obstore.put(self.client, self.key(to), file)

    def digests(self, paths: Sequence[Where]) -> list[Held]:
        return at_once(_AT_ONCE, self._digest, paths)

    def _digest(self, path: Where) -> Held:
        size, digest = 0, hashlib.sha256()
        with as_os_error(path, _NOT_THERE):
            for chunk in obstore.get(self.client, self.key(path)).stream(min_chunk_size=_CHUNK):
                size += len(chunk)
                digest.update(chunk)
        return size, digest.hexdigest()

    def rename(self, path: Where, to: Where) -> None:
        """It is copied, and removed then. Whoever dies between the two leaves both."""
        with as_os_error(path):
            obstore.copy(self.client, self.key(path), self.key(to))
            obstore.delete(self.client, self.key(path))

    def move(self, folder: Where, to: Where) -> Where | None:
        """There is no such step."""
        raise OSError(errno.ENOTSUP, "folders have no other names there", str(folder), None, str(to))

    def remove(self, paths: Iterable[Where], within: Where | None = None) -> None:
        at_once(_AT_ONCE, self._delete, [self.key(path) for path in paths])

    def remove_empty(self, folders: Iterable[Where], within: Where | None = None) -> None:
        """Remove what Hadoop has made for folders in which nothing is."""
        for objects in at_once(_AT_ONCE, self._empty, list(folders)):
            self._remove(objects)

    def _empty(self, folder: Where) -> list[tuple[str, int]]:
        with as_os_error(folder, _NOT_THERE):
            if all(is_making(key) for key, _ in self._found(folder)):
                return [each for each in self._objects(folder) if not each[1]]
            return []

    def remove_all(self, paths: Sequence[Where], but: Where | None = None) -> None:
        stays = None if but is None else self.key(but)
        self._remove([each for path in paths for each in self._all_of(path) if each[0] != stays])

    def _all_of(self, path: Where) -> list[tuple[str, int]]:
        with as_os_error(path, _NOT_THERE):
            return [*self._objects(path), (self.key(path), 1)]

    def _remove(self, objects: Sequence[tuple[str, int]]) -> None:
        at_once(_AT_ONCE, self._delete, [key for key, _ in objects])
        for key, size in objects:  # one after the other: this client is for one thread, and they are few
            if not size:
                self.remove_marker(key)

    def _delete(self, key: str) -> None:
        with as_os_error(f"{self.root}/{key}"), contextlib.suppress(FileNotFoundError):
            obstore.delete(self.client, key)

    def sync(self, folder: Where, name: str = "") -> None:
        """Nothing is left to be done: what is there is durable."""


def _at_one_moment(threads: ThreadPoolExecutor, gate: threading.Barrier, create: Callable[[], bool]) -> Sequence[bool]:
    def contend() -> bool:
        gate.wait()
        return create()

    return [each.result() for each in [threads.submit(contend) for _ in range(gate.parties)]]


def _refused(folder: Where, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the checkpoint {folder} is refused: {why}",
        harmless="always: nothing was started",
        cause="the journal needs a store in which exactly one of two writers can make an object: a PUT with "
        "If-None-Match: * that is one step, as S3 has it; some services pass over it, or look first and write then",
        action="take a bucket of a service that has conditional writes, or a POSIX file system or HDFS: docs/stores.md",
        checkpoint=str(folder),
    )


@contextlib.contextmanager
def as_os_error(path: Where, not_there: str = "") -> Iterator[None]:
    """What the service says becomes an ``OSError`` that names the file, without its cause: that holds what was sent.

    Args:
        path: The file.
        not_there: What is said where it is not there; "" for what the service says: the bucket may be gone.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, not_there or told_by(error), error.filename or str(path)) from None
    except BaseError as error:
        raise OSError(errno.EIO, told_by(error), str(path)) from None


def told_by(error: Exception) -> str:
    """What an error says, without what the client sent, and without the answer's XML around its reason."""
    text = str(error).partition("\n\nDebug source")[0]
    found = _CODE.search(text)
    said = text.partition("<")[0].rstrip(": \n")
    if found is not None:
        said += f": {': '.join(filter(None, found.groups()))}"
    return _KEY_ID.sub("…", " ".join(said.split()))
