"""A folder in a bucket, as one thing: what `folders` says, without a rename and without links.

Must not know: what the files hold, who runs the job, which service it is.

Files are copied by the service itself. A folder is made in its place, under the name of one maker at a time
(`making.py`), and its last file is created where none is. What is not whole is told from what is, whoever died when.

Hadoop's S3A keeps an empty object for each folder that it was told to make, whose key ends with a slash. They are no
files; they are removed with what was in them.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence

import obstore
from obstore.exceptions import BaseError

from onceflow.checkpoint.folders import Draft, Folder, Held, at_once, carry
from onceflow.checkpoint.making import Making, is_making, making_of, read_making
from onceflow.checkpoint.objects import BucketStore, told_by
from onceflow.errors import OnceflowError

_AT_ONCE = 16
_CHUNK = 1 << 20
_NO_SUCH_RANGE = "InvalidRange"


class ObjectFolder:
    """One.

    Args:
        store: It, as a store.
    """

    def __init__(self, store: BucketStore) -> None:
        self.store = store
        self._bucket = store.bucket
        self._client = store.bucket.client

    @property
    def where(self) -> str:
        """Where it is."""
        return self.store.path()

    def _key(self, path: str) -> str:
        return f"{self.store.key}/{path}" if path else self.store.key

    def below(self, path: str) -> ObjectFolder:
        """One in this one."""
        return ObjectFolder(BucketStore(self._bucket, self._key(path)))

    def beside(self, before: str, behind: str) -> ObjectFolder:
        """One beside this one, of its name between two texts."""
        above, slash, name = self.store.key.rpartition("/")
        return ObjectFolder(BucketStore(self._bucket, f"{above}{slash}{before}{name}{behind}"))

    def is_taken(self) -> bool:
        """Whether any file has its name, or has it before a slash."""
        with self._told(""):
            return self._is_file(self.store.key) or any(True for _ in self._found(""))

    def names(self, path: str = "") -> list[str]:
        """What is in a folder."""
        with self._told(path):
            return [name for name in self.below(path).store.names() if not is_making(name)]

    def files(self) -> list[str]:
        """The paths of all files."""
        with self._told(""):
            return [path for path, _ in self._found("") if not is_making(path)]

    def _found(self, path: str) -> Iterator[tuple[str, int]]:
        """All files below a folder of this one: paths in this one, and sizes."""
        for key, size in self._objects(path):
            # An empty object may be Hadoop's for a folder: the list does not show the slash at its end.
            if size or self._is_file(key):
                yield key.removeprefix(f"{self.store.key}/"), size

    def _objects(self, path: str) -> Iterator[tuple[str, int]]:
        for page in obstore.list(self._client, f"{self._key(path)}/"):
            for each in page:
                yield each["path"], each["size"]

    def _is_file(self, key: str) -> bool:
        try:
            obstore.head(self._client, key)
        except FileNotFoundError:
            return False
        return True

    def size(self, path: str) -> tuple[int, int]:
        """How many files a file or folder is, and of how many bytes."""
        with self._told(path):
            sizes = [size for _, size in self._found(path)]
            with contextlib.suppress(FileNotFoundError):
                sizes.append(obstore.head(self._client, self._key(path))["size"])
        return len(sizes), sum(sizes)

    def has(self, path: str) -> bool:
        """Whether the file is there."""
        with self._told(path):
            return self._is_file(self._key(path))

    def read(self, path: str, most: int = -1) -> bytes:
        """A file's content, or its first bytes."""
        with self._told(path):
            if most < 0:
                return bytes(obstore.get(self._client, self._key(path)).bytes())
            try:
                return bytes(obstore.get(self._client, self._key(path), options={"range": (0, most)}).bytes())
            except FileNotFoundError:
                raise
            except BaseError as error:
                if _NO_SUCH_RANGE in str(error):  # it is empty
                    return b""
                raise

    def write(self, path: str, data: bytes) -> None:
        """Make a file, or write it anew."""
        with self._told(path):
            obstore.put(self._client, self._key(path), data, use_multipart=False)

    def take(self, of: Folder, paths: Sequence[str]) -> None:
        """Copy them: there are no second names."""
        self.copy(of, paths)

    def copy(self, of: Folder, paths: Sequence[str]) -> None:
        """Copy files of another folder, several at a time: by the service itself, or from another bucket through here.

        Each is looked for afterwards: a service may begin its answer before the copy is done.
        """
        if not isinstance(of, ObjectFolder):
            carry(of, self, paths)
            return
        at_once(_AT_ONCE, functools.partial(self._copy, of), paths)

    def _copy(self, source: ObjectFolder, path: str) -> None:
        with source._told(path):
            if source._bucket.root == self._bucket.root:
                obstore.copy(self._client, source._key(path), self._key(path))
            else:
                self._fetch(source, path)
        with self._told(path):
            if not self._is_file(self._key(path)):
                raise OSError(errno.EIO, "it was answered as copied, and is not there", self.store.path(path))

    def _fetch(self, source: ObjectFolder, path: str) -> None:
        with tempfile.TemporaryFile() as file:  # the client reads no stream of its own
            for chunk in obstore.get(source._client, source._key(path)).stream(min_chunk_size=_CHUNK):
                file.write(chunk)
            file.seek(0)
            obstore.put(self._client, self._key(path), file)

    def held(self, paths: Sequence[str]) -> Mapping[str, Held]:
        """The files' sizes and digests."""
        return dict(zip(paths, at_once(_AT_ONCE, self._held, paths), strict=True))

    def _held(self, path: str) -> Held:
        size, digest = 0, hashlib.sha256()
        with self._told(path):
            for chunk in obstore.get(self._client, self._key(path)).stream(min_chunk_size=_CHUNK):
                size += len(chunk)
                digest.update(chunk)
        return size, digest.hexdigest()

    def sync(self) -> None:
        """Nothing is left to be done: what is there is durable."""

    @contextlib.contextmanager
    def making(self, last: str, parts: Sequence[str]) -> Iterator[Draft]:
        """The folder itself, of which nobody else may make one meanwhile."""
        store, name = self._of(last)
        with self._told(""):
            store.make()
            if self.is_taken():
                raise self._taken(last)
            mine = Making.begin()
            try:
                store.create(making_of(name), mine.dumps())
            except FileExistsError:
                raise self._taken(last) from None

        # Whoever begins a job here writes its name and then looks for a maker: one of the two sees the other.
        if self.files():
            store.remove(making_of(name))
            raise self._taken(last)
        is_whole = False

        def finish(data: bytes) -> None:
            nonlocal is_whole
            found = read_making(store, name)
            if found is None or found.id != mine.id:
                raise FileExistsError(errno.EEXIST, "somebody has removed what was made here so far", self.where)
            try:
                store.create(name, data, maker=mine.id)
            except FileExistsError:
                raise self._taken(last) from None
            is_whole = True

        try:
            yield Draft(self, finish)
        finally:
            if not is_whole:
                with contextlib.suppress(OSError, OnceflowError):  # it would hide the first error
                    with contextlib.suppress(FileExistsError):  # where it was taken away, and nobody else has come
                        store.create(making_of(name), mine.dumps())
                    found = read_making(store, name)
                    if found is not None and found.id == mine.id:
                        self.discard(last, parts)

    def _of(self, last: str) -> tuple[BucketStore, str]:
        """The folder that a file is in, and its name there."""
        folder, _, name = last.rpartition("/")
        return self.below(folder).store, name

    def _taken(self, last: str) -> FileExistsError:
        who = self.unfinished(last)
        return FileExistsError(errno.EEXIST, f"{who} makes it" if who else "something is there", self.where)

    def unfinished(self, last: str) -> str:
        """Who makes it, or has died or given up in that, in words; "" where nobody, or where it is whole."""
        store, name = self._of(last)
        with self._told(last):
            making, maker = read_making(store, name), store.maker(name)
        if making is None:
            # Its maker was ended by one who has removed what it had made, and has written the last file even so.
            return "somebody who has ended" if maker else ""
        # Through a disk a copy loses whom a file names; who has the last one has them all.
        return "" if maker in ("", making.id) else str(making)

    def discard(self, last: str, parts: Iterable[str]) -> None:
        """Remove what one has left who has not finished. If he lives, what he writes from here on is not whole."""
        store, name = self._of(last)
        with self._told(""):
            before = read_making(store, name)
            store.replace(making_of(name), Making.begin().dumps())  # from here on it has another maker
            if before is not None and store.maker(name) == before.id:
                store.replace(making_of(name), before.dumps())
                raise FileExistsError(errno.EEXIST, "it was finished at this moment", self.where)
            store.remove(name)
            mine = f"{store.key}/{making_of(name)}"
            self._remove([each for part in parts for each in self._of_part(part) if each[0] != mine])
            store.remove(making_of(name))

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files."""
        with self._told(""):
            self._remove([(self._key(path), 1) for path in paths])

    def remove_empty(self, paths: Iterable[str]) -> None:
        """Remove what Hadoop has made for folders in which nothing is."""
        for objects in at_once(_AT_ONCE, self._empty, list(paths)):
            self._remove(objects)

    def _empty(self, path: str) -> list[tuple[str, int]]:
        with self._told(path):
            return [] if self.below(path).files() else [each for each in self._objects(path) if not each[1]]

    def remove_all(self, path: str = "") -> None:
        """Remove a file, or a folder with all that is in it."""
        with self._told(path):
            self._remove(self._of_part(path))

    def _of_part(self, path: str) -> list[tuple[str, int]]:
        return [*self._objects(path), (self._key(path), 1)]

    def _remove(self, objects: Sequence[tuple[str, int]]) -> None:
        at_once(_AT_ONCE, self._delete, [key for key, _ in objects])
        for key, size in objects:  # one after the other: this client is for one thread, and they are few
            if not size:
                self._bucket.remove_folder(key)

    def _delete(self, key: str) -> None:
        with self._told(""), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._client, key)

    @contextlib.contextmanager
    def _told(self, path: str) -> Iterator[None]:
        """What the service says becomes an ``OSError`` that names the file."""
        try:
            yield
        except FileNotFoundError as error:
            name = error.filename or self.store.path(path)
            raise FileNotFoundError(errno.ENOENT, "it is not there", name) from None
        except BaseError as error:
            raise OSError(errno.EIO, told_by(error), str(self.store.path(path))) from None
