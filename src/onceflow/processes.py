"""Process trees: a job is a Python driver, its Java, and Java's Python workers.

Must not know: jobs. PySpark's worker daemon makes a process group of its own, so killing the driver's group leaves
workers alive; only the tree has them all.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess


def descendants(pid: int) -> list[int]:
    """All processes below ``pid``, deepest last."""
    table = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], check=True, capture_output=True, text=True).stdout
    children: dict[int, list[int]] = {}
    for line in table.splitlines():
        child, parent = map(int, line.split())
        children.setdefault(parent, []).append(child)
    found: list[int] = []
    todo = [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def kill_tree(pid: int) -> None:
    """SIGKILL a process and everything below it. A process that kills its own tree ends last."""
    below = descendants(pid)
    for one in (*below, pid) if pid == os.getpid() else (pid, *below):
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
