"""The port to a file system: what the store of a folder, and whole trees, need of one, whatever it is.

With it what all say in one way: that a file system has failed.

Must not know: which file systems there are, what the files hold.

What is promised above it (`store`, `tree`) rests on these words and on nothing else of a file system; docs/stores.md
says for each why it keeps them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, Protocol, Self, TypeVar

from onceflow.errors import CheckpointStoreError

T = TypeVar("T")
R = TypeVar("R")

Where = Path | str
"""Where a file is: a path of this machine's, or elsewhere a URI."""

Held = tuple[int, str]
"""A file's size and its SHA-256."""

How = Literal["copied", "shared", "linked"]
"""How files come to be in another folder as well: so that nothing is shared; by a second name where that can be; by a
second name or not at all."""

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
FILE_MANAGERS = "org.apache.spark.sql.execution.streaming.checkpointing."
"""Which of Spark's classes writes its own files of a checkpoint, and how the names of these begin."""

TEMPORARY = ".tmp-"
"""How names begin of files that are being written."""

LEFT_AFTER_S = 3600.0
"""How old such a file is when its writer is dead: a write takes milliseconds; a clock that is wrong by less does no
harm."""


class FileSystem(Protocol):
    """One. Every method raises ``OSError``: ``FileNotFoundError`` and ``FileExistsError`` for what they say.

    Attributes:
        has_folders: Whether folders are things of their own: made, renamed in one step, and removed. Else one is there
            as long as anything is in it, and nothing is written beside a file.
        at_once: So many calls at one moment are worth it.
        cause: What may be behind it when it fails, in words.
        mend: What is to be mended then.
        spark: Settings of Spark's that a query runs with besides whose checkpoint is there.
        spark_is_apart: Whether Spark gets there by a client that is told apart from ours, and may be told of another
            place.
    """

    has_folders: bool
    at_once: int
    cause: str
    mend: str
    spark: Mapping[str, str]
    spark_is_apart: bool

    def make(self, folder: Where) -> None:
        """Make a folder and those above it, durable; clear away what writers left there that died long ago.

        Raises:
            ConfigurationError: Not exactly one of two writers can create a file there.
        """

    def put(self, path: Where, data: bytes, *, over: bool, durable: bool = True, maker: str = "") -> None:
        """Make a file in a folder that is there; a reader sees all of it or nothing of it.

        Args:
            path: It.
            data: Its content.
            over: In the place of what has the name. Else of those that create it exactly one returns, and the others
                raise ``FileExistsError``; the file may be there or not where another error is raised, now or later.
            durable: It survives a power cut.
            maker: Who makes the folder that the file completes, where there are no folders; ``maker`` gives it back.
        """

    def maker(self, path: Where) -> str | None:
        """What ``put`` was given, "" for nothing; None where there is no file."""
        return "" if self.is_file(path) else None

    def append(self, path: Where, data: bytes) -> None:
        """Add to the end of a file, or make it. For what may be lost until ``sync``, and where a torn end is seen."""

    def write(self, path: Where, data: bytes) -> None:
        """Make a file, and the folders above it, that nobody looks for yet; ``unsynced`` says what is to be synced."""

    def read(self, path: Where, most: int = -1) -> bytes:
        """A file's content, or its first bytes."""

    def names(self, folder: Where) -> list[str]:
        """What is in a folder."""

    def files(self, folder: Where) -> list[str]:
        """The paths in it of all files in a folder and below it; none where it is not there."""

    def count(self, folder: Where, pattern: str) -> int:
        """How many files have a path below a folder that fits a pattern, in which ``*`` is one part of it."""

    def size(self, path: Where) -> tuple[int, int]:
        """How many files a file or folder is, and of how many bytes; none where it is not there."""

    def exists(self, folder: Where) -> bool:
        """Whether a folder is there."""

    def is_file(self, path: Where) -> bool:
        """Whether a file is there."""

    def is_taken(self, path: Where) -> bool:
        """Whether anything has this name that is in the way of a folder."""

    def copy(self, of: Self, pairs: Sequence[tuple[Where, Where]], how: How) -> None:
        """Have files of another file system of this kind here, and make the folders above them; each is from, to."""

    def digests(self, paths: Sequence[Where]) -> list[Held]:
        """The files' sizes and digests, as they are read now."""

    def rename(self, path: Where, to: Where) -> None:
        """Give a file another name, of which there may be one already; perhaps not durable, and not in one step."""

    def move(self, folder: Where, to: Where) -> Where | None:
        """Give a folder another name, over nothing or an empty folder, in one step; what is to be synced then."""

    def remove(self, paths: Iterable[Where], within: Where | None = None) -> None:
        """Remove files; those that are not there are passed over, and those to which a link within a folder leads."""

    def remove_empty(self, folders: Iterable[Where], within: Where | None = None) -> None:
        """Remove folders in which nothing is, in this order. Others stay, and those to which such a link leads."""

    def remove_all(self, paths: Sequence[Where], but: Where | None = None) -> None:
        """Remove files, and folders with all that is in them but one file; nothing where none is."""

    def sync(self, folder: Where, name: str = "") -> None:
        """Make a file that somebody else wrote, or a folder's entries, durable."""

    def unsynced(self, folder: Where) -> Iterable[tuple[Where, Sequence[str]]]:  # noqa: ARG002 - wherever it is
        """The folders below one, with their files, that ``write`` has not made durable; none where it has."""
        return ()


def within(folder: Where, path: str) -> Where:
    """What has this path in a folder; the folder itself for ""."""
    if isinstance(folder, Path):
        return folder / path
    return f"{folder}/{path}" if path else folder


_NUMBER = re.compile("0|[1-9][0-9]*")


def numbers(names: Iterable[str]) -> list[int]:
    """Those names that are a number, as Spark writes it: by it the file is found again."""
    return [int(name) for name in names if _NUMBER.fullmatch(name)]


@contextlib.contextmanager
def translating(
    fs: FileSystem, path: Where, doing: str, passing: type[OSError] | tuple[type[OSError], ...] = ()
) -> Iterator[None]:
    """What a file system refuses inside becomes the error that names the file, and what could not be done to it."""
    try:
        yield
    except passing:
        raise
    except OSError as error:
        told = failed(path, doing, error.strerror or error, cause=fs.cause, mend=fs.mend)
        # An error that hides its own cause does so because that holds what was sent.
        raise told from None if error.__suppress_context__ else error


def failed(path: Where, doing: str, said: object, *, cause: str, mend: str) -> CheckpointStoreError:
    """The error of a file system that fails.

    Args:
        path: The file, or the folder.
        doing: What could not be done to it.
        said: What the file system says.
        cause: What may be behind it.
        mend: What is to be mended.
    """
    return CheckpointStoreError(
        f"could not {doing} {path}: {said}",
        harmless="for the data: what is decided stays decided, and nothing else was",
        cause=cause,
        action=f"mend {mend} and start the job again; the checkpoint is as it was",
        file=str(path),
    )


def at_once(most: int, call: Callable[[T], R], of: Sequence[T], *, wait: bool = True) -> list[R]:
    """Call it of each, so many at a time; the first that fails ends those that have not begun.

    Args:
        most: How many.
        call: What is called.
        of: Of which.
        wait: Where one fails, or a signal comes, for those that have begun: what they make must not come later.
    """
    if min(most, len(of)) < 2:
        return [call(each) for each in of]
    threads = ThreadPoolExecutor(most, "onceflow-files")
    try:
        done = [threads.submit(call, each) for each in of]
        return [each.result() for each in done]
    finally:
        threads.shutdown(wait=wait, cancel_futures=True)
