"""Process trees: a job is a Python driver, its Java, and Java's Python workers.

Must not know: jobs. PySpark's worker daemon makes a process group of its own, so killing the driver's group leaves
workers alive; only the tree has them all.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat

import psutil


def descendants(pid: int) -> list[int]:
    """All processes below ``pid``, deepest last."""
    return [process.pid for process in _below(pid)]


def stopped(pid: int) -> list[int]:
    """Which of a process and all below it stand still by a signal."""
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in (psutil.Process(pid), *_below(pid)):
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.status() == psutil.STATUS_STOPPED:
                    found.append(process.pid)
    return found


def kill_tree(pid: int) -> None:
    """SIGKILL a process and everything below it, the process first: it sees no other of them end, and tells of none.

    Whoever is among them does not return.
    """
    try:
        top = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return
    doomed = (top, *_below(pid))
    forked = os.getpid() in {process.pid for process in doomed}
    if forked and os.fork():
        while True:  # the fork is none of them, and goes on when this process is gone
            signal.pause()
    for process in doomed:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    if forked:
        os._exit(0)


def children_with(name: str, value: str) -> list[int]:
    """Children of this process that were started with an environment variable of this value."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if child.environ().get(name) == value:
                found.append(child.pid)
    return found


def began(pid: int) -> str:
    """When a process began, which tells it from another one of its number; empty if there is none."""
    try:
        return str(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return ""


def command_line(pid: int) -> str:
    """How a process was started; empty if there is none, or if it is a zombie."""
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""


def others_may_write(about: os.stat_result) -> bool:
    """Whether others than this process's user and root may write to a file, or make others in a folder."""
    return about.st_uid not in (0, os.geteuid()) or bool(stat.S_IMODE(about.st_mode) & 0o022)


def umask() -> int:
    """What others do not get of the files that this process makes."""
    before = os.umask(0o077)
    os.umask(before)
    return before


def _below(pid: int) -> list[psutil.Process]:
    try:
        found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return found
