"""Process trees: a job is a Python driver, its Java, and Java's Python workers.

Must not know: jobs. PySpark's worker daemon makes a process group of its own, so killing the driver's group leaves
workers alive; only the tree has them all.
"""

from __future__ import annotations

import contextlib
import os

import psutil


def descendants(pid: int) -> list[int]:
    """All processes below ``pid``, deepest last."""
    return [process.pid for process in _below(pid)]


def kill_tree(pid: int) -> None:
    """SIGKILL a process and everything below it. A process that kills its own tree ends last."""
    try:
        top = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return
    below = _below(pid)
    for process in (*below, top) if pid == os.getpid() else (top, *below):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def command_line(pid: int) -> str:
    """How a process was started; empty if there is none, or if it is a zombie."""
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""


def _below(pid: int) -> list[psutil.Process]:
    try:
        found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return found
