"""A store in a bucket of an object store: each promise of the contract from a create that is refused where a key is.

Must not know: which service it is, who logs in there, what the files hold. Whoever reaches the bucket is handed in.

All of it rests on one call (docs/stores.md): an object is made as a whole or not at all, and with ``mode="create"`` of
those that make one key exactly one succeeds. Not every service keeps that, and some pass over it in silence: so it is
tried before the first file is made.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore

from onceflow.checkpoint.contract import content_of, failed
from onceflow.errors import ConfigurationError

_TEMPORARY = ".tmp-"
_WRITER = "writer"
_MAKER = "maker"
_AT_ONCE = 16
_TRIED_AT_ONCE = 8
_TRIES = 4
_UNKNOWN = re.compile(r"NotImplemented|\b501\b|not supported", re.IGNORECASE)
_CODE = re.compile(r"<Code>([^<]*)</Code>(?:.*?<Message>([^<]*)</Message>)?", re.DOTALL)
_KEY_ID = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{8,}")


class Bucket:
    """A bucket, as this process reaches it.

    Args:
        client: The way there.
        root: Its URI.
        remove_folder: Removes the empty object that Hadoop makes for a folder: its key ends with a slash, which the
            client has no word for.
    """

    def __init__(self, client: ObjectStore, root: str, remove_folder: Callable[[str], None] = lambda _: None) -> None:
        self.client = client
        self.root = root
        self.remove_folder = remove_folder
        self.tried = False


class BucketStore:
    """One folder in a bucket, as the contract has it. A folder is there as long as anything is in it.

    Args:
        bucket: The bucket.
        folder: The folder's key, without a slash at its ends.
    """

    def __init__(self, bucket: Bucket, folder: str) -> None:
        self.bucket = bucket
        self._client = bucket.client
        self._folder = folder

    def make(self) -> None:
        """Nothing is made: a folder comes with its first file. Before the first one the bucket is tried.

        Raises:
            ConfigurationError: There is no such bucket, or it lets two make one key.
        """
        if not self.bucket.tried:
            self._try()
            self.bucket.tried = True

    def _try(self) -> None:
        """Make objects twice, one after the other and at one moment; they are gone afterwards.

        Some services look and then write: the one after the other is refused there, and of those at one moment all win.
        """
        with _explained(self.path(), "create an object below"), ThreadPoolExecutor(_TRIED_AT_ONCE) as threads:
            if self._winners(lambda create: [create(), create()]) > 1:
                raise self._refused("an object was made there, and made again: the second was not refused")
            for _ in range(_TRIES):
                gate = threading.Barrier(_TRIED_AT_ONCE)
                if self._winners(functools.partial(_at_one_moment, threads, gate)) > 1:
                    raise self._refused("of several that made one object at the same moment more than one was told yes")

    def _winners(self, contend: Callable[[Callable[[], bool]], Sequence[bool]]) -> int:
        """How many of those that contend for a key make it."""
        key = self._key(f"{_TEMPORARY}{uuid.uuid4().hex}")

        def create() -> bool:
            try:
                self._create(key, b"1")
            except FileExistsError:
                return False
            return True

        try:
            return sum(contend(create))
        except FileNotFoundError:
            raise self._refused("there is no such bucket") from None
        except BaseError as error:
            if _UNKNOWN.search(str(error)) is None:
                raise
            raise self._refused(f"it does not know a conditional create: {told_by(error)}") from None
        finally:
            with contextlib.suppress(BaseError, OSError):
                obstore.delete(self._client, key)

    def _refused(self, why: str) -> ConfigurationError:
        return ConfigurationError(
            f"the checkpoint {self.path()} is refused: {why}",
            harmless="always: nothing was started",
            cause="the journal needs a store in which exactly one of two writers can make an object: a PUT with "
            "If-None-Match: * that is one step, as S3 has it; some services pass over it, or look first and write then",
            action="take a bucket of a service that has conditional writes, or a POSIX file system or HDFS: "
            "docs/stores.md",
            checkpoint=self.path(),
        )

    @contextlib.contextmanager
    def untouched(self) -> Iterator[None]:
        """Nothing is to be taken away: there are no empty folders."""
        yield

    def exists(self) -> bool:
        """Whether anything is in the folder."""
        with _explained(self.path(), "look for the folder"):
            return any(obstore.list(self._client, f"{self._folder}/", chunk_size=1))

    def below(self, name: str) -> BucketStore:
        """A folder in this one; nothing is made."""
        return BucketStore(self.bucket, self._key(name))

    def path(self, name: str = "") -> str:
        """The file's URI, or the folder's own."""
        return f"{self.bucket.root}/{self._key(name) if name else self._folder}"

    @property
    def key(self) -> str:
        """The folder's key."""
        return self._folder

    def _key(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def create(self, name: str, data: bytes, maker: str = "") -> None:
        """Create the file, whole and durable: of those that create one name exactly one returns.

        Args:
            name: The file's.
            data: Its content.
            maker: Who makes the folder that the file completes; ``maker`` gives it back.

        Raises:
            FileExistsError: The name is taken.
            CheckpointStoreError: The store failed; the file may exist or not, now or later.
        """
        with _explained(self.path(name), "create the file", passing=FileExistsError):
            self._create(self._key(name), data, maker)

    def _create(self, key: str, data: bytes, maker: str = "") -> None:
        mine = uuid.uuid4().hex
        told = {_WRITER: mine} | ({_MAKER: maker} if maker else {})
        try:
            # In one piece: the parts of a large one would be put together by another call.
            obstore.put(self._client, key, data, attributes=told, mode="create", use_multipart=False)
        except (BaseError, OSError):
            # It may have been made and the answer lost; or a second try of the client's was refused because the first
            # had made it. What the object says of its writer tells.
            found = self._attribute(key, _WRITER)
            if found is None:
                raise
            if found != mine:
                raise FileExistsError(key) from None

    def _put(self, key: str, data: bytes) -> None:
        obstore.put(self._client, key, data, use_multipart=False)

    def maker(self, name: str) -> str | None:
        """Who has made the folder that a file completes, "" where it does not say; None where there is none."""
        with _explained(self.path(name), "read the file"):
            return self._attribute(self._key(name), _MAKER)

    def _attribute(self, key: str, name: str) -> str | None:
        """What an object says of itself, "" where it does not say; None where there is none."""
        try:
            return obstore.get(self._client, key).attributes.get(name, "")
        except FileNotFoundError:
            return None

    def replace(self, name: str, data: bytes) -> None:
        """Write the file, durable, whether it exists or not; a reader sees the old content or the new, never a part."""
        with _explained(self.path(name), "write the file"):
            self._put(self._key(name), data)

    def put(self, name: str, data: bytes) -> None:
        """As ``replace``."""
        self.replace(name, data)

    def append(self, name: str, data: bytes) -> None:
        """Add to the end of a file, or make it: it is written anew. Of two that do it at once one may be lost."""
        with _explained(self.path(name), "write the file"):
            before = b""
            with contextlib.suppress(FileNotFoundError):
                before = self._read(name)
            self._put(self._key(name), before + data)

    def rename(self, name: str, to: str) -> None:
        """Give a file another name: it is copied, and removed then. Whoever dies between the two leaves both."""
        with _explained(self.path(name), "rename the file"):
            obstore.copy(self._client, self._key(name), self._key(to))
            obstore.delete(self._client, self._key(name))

    def read(self, name: str) -> bytes:
        """The file's content.

        Raises:
            FileNotFoundError: There is none.
            CheckpointStoreError: It cannot be read.
        """
        with _explained(self.path(name), "read the file", passing=FileNotFoundError):
            return self._read(name)

    def _read(self, name: str) -> bytes:
        return bytes(obstore.get(self._client, self._key(name)).bytes())

    def contents(self, names: Sequence[str]) -> list[bytes | None]:
        """The files' contents, in the order of the names; None for one that is not there."""
        if len(names) < 2:
            return [content_of(self, name) for name in names]
        with ThreadPoolExecutor(_AT_ONCE, "onceflow-objects") as threads:
            return list(threads.map(functools.partial(content_of, self), names))

    def names(self) -> list[str]:
        """Names of files and folders; empty when there is no folder."""
        with _explained(self.path(), "list the folder"):
            found = obstore.list_with_delimiter(self._client, f"{self._folder}/")
        keys = [*found["common_prefixes"], *(each["path"] for each in found["objects"])]
        names = (key.rstrip("/").removeprefix(f"{self._folder}/") for key in keys if key.rstrip("/") != self._folder)
        return [name for name in names if not name.startswith(_TEMPORARY)]

    def count(self, pattern: str) -> int:
        """How many files have a path below the folder that fits a pattern, in which ``*`` is one part of it."""
        fits = re.compile(re.escape(f"{self._folder}/{pattern}").replace(r"\*", "[^/]*")).fullmatch
        above = f"{self._folder}/{pattern}".partition("*")[0].rpartition("/")[0]
        with _explained(self.path(), "list the folder"):
            return sum(bool(fits(each["path"])) for page in obstore.list(self._client, f"{above}/") for each in page)

    def remove(self, name: str) -> None:
        """Remove the file if it exists."""
        with _explained(self.path(name), "remove the file"), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._client, self._key(name))

    def sync(self, name: str | None = None) -> None:
        """Nothing is left to be done: what is there is durable."""


def _at_one_moment(threads: ThreadPoolExecutor, gate: threading.Barrier, create: Callable[[], bool]) -> Sequence[bool]:
    def contend() -> bool:
        gate.wait()
        return create()

    return [each.result() for each in [threads.submit(contend) for _ in range(gate.parties)]]


@contextlib.contextmanager
def _explained(path: str, doing: str, passing: type[OSError] | tuple[type[OSError], ...] = ()) -> Iterator[None]:
    try:
        yield
    except passing:
        raise
    except (BaseError, OSError) as error:
        cause = (
            "the object store does not answer, the credentials have expired or are not this bucket's, or they lack a "
            "right: s3:ListBucket of the bucket; s3:GetObject, s3:PutObject, s3:DeleteObject below the folder"
        )
        # Its own error holds what was sent.
        raise failed(path, doing, told_by(error), cause=cause, mend="the access") from None


def told_by(error: Exception) -> str:
    """What an error says, without what the client sent, and without the answer's XML around its reason."""
    text = str(error).partition("\n\nDebug source")[0]
    found = _CODE.search(text)
    said = text.partition("<")[0].rstrip(": \n")
    if found is not None:
        said += f": {': '.join(filter(None, found.groups()))}"
    return _KEY_ID.sub("…", " ".join(said.split()))
