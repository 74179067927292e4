"""What must hold of one execution, whatever the bytes are: looked at from outside, while a reader reads them.

* Only errors of the kinds that the reader promises.
* Nothing runs, nothing is asked over a network, and no file is opened or changed outside of the reader's folder.
* It ends within ``SECONDS`` of the processor, and takes at most ``MEMORY`` more than there was.
* An error that is shown has no character that moves a terminal.

Must not know: any target, how inputs are made.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import resource
import shutil
import signal
import sys
import traceback
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onceflow.errors import OnceflowError

SECONDS = 2.0
"""Of the processor's time, for at most ``LONGEST`` bytes. An honest execution takes milliseconds."""
MEMORY = 64 << 20
"""So many bytes more may be resident behind an execution than ever before it."""
ADDRESSES = 1 << 30
"""So many bytes of addresses there are beside those of the beginning: what asks for more gets a MemoryError."""
LONGEST = 20_000

_MOVING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_OURS = f"{os.sep}onceflow{os.sep}"
_ROOT = Path(__file__).resolve().parents[2]
_PYTHONS = tuple({os.path.realpath(p) for p in (sys.prefix, sys.base_prefix, _ROOT, *filter(None, sys.path))})
_READABLE = ("/usr/share/zoneinfo", "/dev/null")
_RUN = {
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
}
_RUN |= {"pty.spawn", "ctypes.dlopen", "pickle.find_class", "os.kill", "os.killpg"}
_ASKED = {
    "socket.connect",
    "socket.bind",
    "socket.sendto",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "urllib.Request",
}
_CODE = {"exec", "compile", "marshal.loads", "code.__new__"}
_CHANGED = {
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.chmod",
    "os.chown",
    "os.truncate",
}
_CHANGED |= {"os.utime", "shutil.rmtree", "shutil.move", "shutil.copyfile", "shutil.copytree", "tempfile.mkdtemp"}
_LISTED = {"os.listdir", "os.scandir"}


class StoppedByWatch(BaseException):
    """What a reader must not do, or has done for too long. No ``except Exception`` of its own takes it."""


@dataclass(frozen=True)
class Find:
    """What did not hold.

    Attributes:
        target: Of which target.
        kind: ``error``, ``reach``, ``slow``, ``memory`` or ``text``.
        what: In words.
        where: The innermost line of ours.
        data: The input.
    """

    target: str
    kind: str
    what: str
    where: str
    data: bytes

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Two finds with one key are one."""
        return self.target, self.kind, self.what.partition(":")[0], self.where

    def told(self) -> dict[str, str]:
        """As JSON values."""
        data = base64.b64encode(self.data).decode()
        return {"target": self.target, "kind": self.kind, "what": self.what, "where": self.where, "data": data}


class Watch:
    """Looks at executions of one target.

    Args:
        target: Its name.
        read: Given the bytes and an empty folder.
        promised: The kinds of errors that the reader may raise.
        folder: Where the reader's folder is made.
    """

    def __init__(
        self,
        target: str,
        read: Callable[[bytes, Path], object],
        promised: tuple[type[BaseException], ...],
        folder: Path,
    ) -> None:
        self._target = target
        self._read = read
        self._promised = promised
        self._folder = folder / "reader"
        self._real = os.path.realpath(self._folder)
        self._reached = ""

    def warm_up(self, seeds: list[bytes]) -> None:
        """Read what is good, unwatched: modules are loaded, caches filled."""
        for seed in seeds:
            with contextlib.suppress(Exception), self._fresh():  # a find of the watched execution, if it is one
                self._read(seed, self._folder)

    def find(self, data: bytes) -> Find | None:
        """What does not hold of this input, or None."""
        self._reached = ""
        caught: BaseException | None = None
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with self._fresh():
            try:
                with _watched(self):
                    self._read(data, self._folder)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                caught = error
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
        where = "" if caught is None else _where(caught)
        if self._reached:
            return self._made("reach", self._reached, where, data)
        if isinstance(caught, StoppedByWatch):
            return self._made("slow", f"it took more than {SECONDS:g} s of the processor", where, data)
        if caught is not None and not isinstance(caught, self._promised):
            return self._made("error", f"{type(caught).__name__}: {caught!s:.200}", where, data)
        if grown > MEMORY:
            return self._made("memory", f"it took more than {MEMORY >> 20} MB: {grown >> 20} MB", where, data)
        if isinstance(caught, OnceflowError) and _MOVING.search(str(caught)) is not None:
            return self._made("text", f"its error moves a terminal: {str(caught)[:200]!r}", where, data)
        return None

    def judge(self, event: str, args: tuple[Any, ...]) -> None:
        """Whether the reader may do it.

        Raises:
            StoppedByWatch: It may not, and does not.
        """
        if event in _RUN or event in _ASKED:
            self._refuse(f"{event}: {args!s:.200}")
        if event in _CODE and not _is_pythons():
            self._refuse(f"{event}: {args!s:.80}")
        if event == "open":
            path, mode, flags = args
            writes = any(c in (mode or "") for c in "wax+") or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            self._stays(event, path, reads=not writes)
        elif event in _LISTED:
            self._stays(event, args[0], reads=True)
        elif event in _CHANGED:
            for path in args[: 2 if event in ("os.rename", "os.link", "shutil.move", "shutil.copyfile") else 1]:
                self._stays(event, path, reads=False)

    def _stays(self, event: str, path: Any, *, reads: bool) -> None:
        if isinstance(path, int) or path is None:
            return
        real = os.path.realpath(os.fsdecode(path))
        if real == self._real or real.startswith(self._real + os.sep):
            return
        if reads and (real.startswith(_READABLE) or any(real.startswith(p) for p in _PYTHONS)):
            return
        self._refuse(f"{event}: {real}")

    def _refuse(self, what: str) -> None:
        self._reached = self._reached or what
        raise StoppedByWatch(what)

    @contextlib.contextmanager
    def _fresh(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            yield
        finally:
            if os.listdir(self._folder):  # noqa: PTH208 - quicker, and asked for each execution
                shutil.rmtree(self._folder)

    def _made(self, kind: str, what: str, where: str, data: bytes) -> Find:
        return Find(self._target, kind, what, where, data)


def _where(error: BaseException) -> str:
    """The innermost line of ours that an error came through."""
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if _OURS in f.filename and "/tests/" not in f.filename
    ]
    return f"{frames[-1].filename.rpartition(_OURS)[2]}:{frames[-1].name}:{frames[-1].lineno}" if frames else ""


def _is_pythons() -> bool:
    """Whether what runs is Python's own business: a module that is loaded for the first time, types of a signature."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib") or frame.f_code.co_filename == typing.__file__:
            return True
        frame = frame.f_back
    return False


# -- one hook and one clock for the process: neither can be taken away again -------------------------------------------

_now: list[Watch] = []
_hooked: list[bool] = []


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _now:
        watch = _now.pop()  # what is asked meanwhile is the watch's own
        try:
            watch.judge(event, args)
        finally:
            _now.append(watch)


def _too_slow(*_: object) -> None:
    raise StoppedByWatch


@contextlib.contextmanager
def _watched(watch: Watch) -> Iterator[None]:
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked.append(True)
    before = signal.signal(signal.SIGVTALRM, _too_slow)
    _now.append(watch)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        _now.clear()
        signal.signal(signal.SIGVTALRM, before)


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    """Inside the process has no more than ``ADDRESSES`` bytes beside those that it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    if pages:
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ADDRESSES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
