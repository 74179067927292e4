"""The other end: which jobs of this user run on this machine, and orders for one of them.

Must not know: what an order does.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from onceflow.control.registry import folder, sockets
from onceflow.control.server import HELD_FOR_S, HELD_WITHIN_S
from onceflow.errors import ConfigurationError, NotEndedError
from onceflow.waiting import turns

_WITHIN_S = 5.0
_LOOK_EVERY_S = 0.1
_GONE_ON = f"it was held for more than {HELD_FOR_S:g} s and has gone on, or it has ended"


@dataclass(frozen=True)
class AnsweringJob:
    """A job that answers.

    Attributes:
        socket: Where.
        name: The job's name.
        state: ``STARTING``, ``RUNNING``, ``RESTARTING`` or ``ENDING``.
        pid: Its driver's process.
        checkpoint: Its checkpoint's URI.
        started_at: When this process began with it (ISO 8601, UTC).
        restarts: How often it was started again, in this process or by its supervisor.
        epoch: The newest epoch that this process has finished, or None.
        failure: What the newest failure said, or "".
        supervisor: The process that starts it again, or None.
        writes_as: How its transactional ids begin, or "".
    """

    socket: Path
    name: str
    state: str
    pid: int
    checkpoint: str
    started_at: str
    restarts: int
    epoch: int | None
    failure: str
    supervisor: int | None = None
    writes_as: str = ""


def running() -> list[AnsweringJob]:
    """The jobs that answer, by name. What is left of jobs that were killed is removed."""
    found = list(filter(None, (_answer(path, "standing") for path in sockets())))
    # A supervisor answers for its job until that answers by itself.
    answered_for = {(job.name, job.supervisor) for job in found}
    by_themselves = (job for job in found if (job.name, job.pid) not in answered_for)
    return sorted(by_themselves, key=lambda job: (job.name, job.pid))


def find(name: str) -> AnsweringJob:
    """The one job of this name.

    Raises:
        ConfigurationError: None runs, or several.
    """
    jobs = running()
    named = [job for job in jobs if job.name == name]
    if len(named) == 1:
        return named[0]
    there = ", ".join(f"{job.name} (pid {job.pid})" for job in jobs) or "none"
    raise ConfigurationError(
        f"{len(named) or 'no'} jobs named {name} run here",
        harmless="always: nothing was asked of any",
        cause=f"of this user on this machine run {there}; they are found in {folder()}",
        action="give each job a name of its own, or end one by its pid: kill PID"
        if named
        else "name one that runs; a job of another user or machine is not seen from here",
    )


def order(job: AnsweringJob, what: Literal["stop", "cancel"], within_s: float) -> None:
    """Order a job to end, and wait until it has.

    Raises:
        NotEndedError: It has not ended in time. It ends all the same, when it can.
    """
    asked: str = what
    for last in turns(within_s, _LOOK_EVERY_S):
        there = _answer(job.socket, asked)
        if there is None or (there.pid, there.started_at) != (job.pid, job.started_at):
            return
        if last:
            raise NotEndedError(
                f"job {job.name} (pid {job.pid}) has not ended within {within_s:g} s",
                harmless="always for the data: it ends when its epoch does",
                cause=f"it is {there.state}; its epoch takes longer, or waits for a broker",
                action=f"wait, or `onceflow cancel {job.name}`, which ends it within ten seconds, or kill {job.pid}",
            )
        asked = "standing"


@contextlib.contextmanager
def held(job: AnsweringJob) -> Iterator[None]:
    """The job's next epoch waits at its entry inside, and the one in work is done and recorded.

    The job goes on in any case: when this ends, when this process dies, and when it takes too long.

    Raises:
        ConfigurationError: It does not hold, or has gone on before this ended.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(HELD_WITHIN_S + _WITHIN_S)
            connection.connect(str(job.socket))
            connection.sendall(b"hold\n")
            lines = connection.makefile("rb")
            if not _says(lines.readline(), "held"):
                raise _not_held(job, f"it is {job.state}, or its epoch takes longer than {HELD_WITHIN_S:g} s")
            yield
            connection.sendall(b"release\n")
            if not _says(lines.readline(), "released"):
                raise _not_held(job, _GONE_ON)
    except OSError as error:
        raise _not_held(job, _GONE_ON) from error


def _says(line: bytes, what: str) -> bool:
    with contextlib.suppress(ValueError, TypeError, LookupError, RecursionError):
        return json.loads(line)[what] is True
    return False


def _not_held(job: AnsweringJob, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"job {job.name} (pid {job.pid}) was not held at an epoch's boundary",
        harmless="always: it goes on",
        cause=why,
        action="ask again, or stop the job first",
    )


def _read(path: Path, told: Mapping[str, Any]) -> AnsweringJob:
    """A job's answer; it may be another version's, or no job's.

    Raises:
        TypeError: It is none of this version's.
    """
    wrong = [name for name, kinds in _KINDS.items() if not isinstance(told.get(name), kinds)]
    if wrong:
        raise TypeError(f"no running job: {', '.join(wrong)}")
    return AnsweringJob(path, **told)


_KINDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("name", "state", "checkpoint", "started_at", "failure", "writes_as"), (str,)),
    **dict.fromkeys(("pid", "restarts"), (int,)),
    **dict.fromkeys(("epoch", "supervisor"), (int, type(None))),
}


def _answer(path: Path, what: str) -> AnsweringJob | None:
    """How a job stands, which was asked or ordered something; None where nobody answers."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_WITHIN_S)
            connection.connect(str(path))
            connection.sendall(what.encode() + b"\n")
            told: dict[str, Any] = json.loads(connection.makefile("rb").readline())
        return _read(path, told)
    except ConnectionRefusedError:
        with contextlib.suppress(OSError):
            path.unlink()  # of a job that was killed
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        pass  # it ends at this moment, or is of another version
    return None
