"""Crash points: named places in the real driver and its tasks where a test can let it die.

Must not know: what happens at those places. Off unless the environment arms one:

``ONCEFLOW_CRASH=D5`` kills the whole process tree where epoch's decision is durable and nothing is committed, the first
time it is reached; ``D5@3`` in epoch 3; ``D5@3:stop`` stops the process (SIGSTOP) instead, until somebody continues it;
``D5@3:fail`` raises an error there, by which the epoch fails and the process goes on. Several have commas
between.
``ONCEFLOW_CRASH_MARK`` names a file that is written first, so that a test can see that the point was reached.

A driver on a cluster hands what is armed to its executors, which have nothing of its environment. There a point in a
task kills the driver's process tree, if it is on the same machine, and the worker that has reached it; executors are no
part of that tree, and end as they do when their driver is gone.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

_Thing = TypeVar("_Thing")

ARM = "ONCEFLOW_CRASH"
"""The environment variable that arms a crash point: ``D5`` kills the job's whole process tree the first time that it is
reached, ``D5@3`` in epoch 3, ``D5@3:stop`` stops it instead (SIGSTOP), ``D5@3:fail`` raises an error there; several
have commas between. Nothing is said in the log but by that."""

MARK = "ONCEFLOW_CRASH_MARK"
"""The environment variable with a file's name: it is written when the point is reached, and while it is there the point
does not fire again. So a supervisor may start the job again with the same environment."""

DRIVER = "ONCEFLOW_CRASH_DRIVER"
"""Set by the driver when a point is armed, so that a task can kill the whole tree: its process, and when that began: on
another machine the number is another process's."""

POINTS: Mapping[str, str] = {
    "S1": "the start is durable; nothing was looked at",
    "S2": "lingering transactions are listed; none is aborted",
    "D1": "offsets/N is durable; no task has run",
    "D2": "some records of the epoch are written",
    "D3": "some shards are prepared",
    "D4": "all shards are prepared; there is no decision",
    "D5": "the decision is durable; nothing is committed",
    "D6": "the first participant is committed, the others are not",
    "D6a": "the commits are sent; their answers are lost",
    "D7": "all are committed; commits/N is missing",
    "D8": "commits/N is durable; the next epoch has not begun",
    "O1": "the start of an operator's tool is durable; it has done nothing yet",
    "O2": "an operator's choice is durable; nobody was told",
    "O3": "an operator's aborts are sent; whether they are over was not looked at",
    "O4": "a lost epoch is written again and checked; it is not committed again",
    "O5": "a lost epoch is committed again into the first of the sinks that have lost it",
}


def reach(point: str, epoch: int) -> None:
    """Die here if this point is armed."""
    armed = os.environ.get(ARM)
    if armed:
        _reach(armed, point, epoch)


def announce_driver() -> Mapping[str, str]:
    """Called by the driver before it starts Java: tells tasks which process tree is the job's.

    Returns:
        The variables that tasks need, where they are not the driver's heirs.
    """
    if not os.environ.get(ARM):
        return {}
    from onceflow.processes import began  # noqa: PLC0415 - as in ``_reach``

    os.environ[DRIVER] = f"{os.getpid()} {began(os.getpid())}"
    return {name: os.environ[name] for name in (ARM, MARK, DRIVER) if os.environ.get(name)}


def parted(point: str, epoch: int, things: Sequence[_Thing]) -> Iterator[Sequence[_Thing]]:
    """What is to be sent together, in one part; where this point is armed it is reached between the first and the rest.

    So whoever sends has no branch for it: what a test sees die between two is what is always sent.
    """
    armed = os.environ.get(ARM)
    if armed and _means(armed, point, epoch):
        yield things[:1]
        _reach(armed, point, epoch)
        things = things[1:]
    yield things


def _means(armed: str, point: str, epoch: int) -> re.Match[str] | None:
    """What is armed, if it is this point in this epoch."""
    for each in armed.split(","):
        match = re.fullmatch(r"(\w+)(?:@(\d+))?(?::(kill|stop|fail))?", each)
        if match is None or match[1] not in POINTS:
            raise ValueError(f"{ARM}={armed} names no crash point; there are {', '.join(POINTS)}")
        if match[1] == point and (match[2] is None or int(match[2]) == epoch):
            return match
    return None


def _reach(armed: str, point: str, epoch: int) -> None:
    match = _means(armed, point, epoch)
    if match is None:
        return
    mark = os.environ.get(MARK)
    if mark:
        try:
            with Path(mark).open("x") as file:
                file.write(f"{point} {epoch}\n")
        except FileExistsError:
            return  # once, also where two tasks come to it at the same moment
    if match[3] == "stop":
        # To this thread: sent to the process, the main thread would take it, and this one go on for milliseconds.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        return
    if match[3] == "fail":
        raise RuntimeError(f"crash point {point} of epoch {epoch}")
    from onceflow.processes import began, kill_tree  # noqa: PLC0415 - a worker in which none is armed needs no psutil

    pid, _, since = os.environ.get(DRIVER, "").partition(" ")
    if pid and began(int(pid)) == since:
        kill_tree(int(pid))
    kill_tree(os.getpid())  # which the driver's tree has, but on a cluster
