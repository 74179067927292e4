"""A job in the background: its supervising parent has a session of its own, and is waited for until the job runs.

Must not know: what a job is made of, how it is told.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onceflow.control.client import AnsweringJob, running
from onceflow.control.registry import folder
from onceflow.supervision.log_file import opened
from onceflow.waiting import turns

_LOOK_EVERY_S = 0.2
_LAST_LINES = 20


@dataclass(frozen=True)
class Detached:
    """What became of it.

    Attributes:
        supervisor: The parent's process.
        job: The job's name, "" where it did not come up.
        state: As ``onceflow list`` shows it, or ``"ENDED"``.
        pid: The job's process, or None.
        exit_code: The parent's, where it has ended; else None.
        said: The end of the log then.
    """

    supervisor: int
    job: str = ""
    state: str = "ENDED"
    pid: int | None = None
    exit_code: int | None = None
    said: str = ""


def start(command: Sequence[str], log_file: Path, within_s: float) -> Detached:
    """Start a supervised job in the background, and wait until it runs or has ended; or until the time is over.

    Args:
        command: The parent's.
        log_file: Where its output goes.
        within_s: So long it is waited for; it goes on all the same.

    Raises:
        SetupError: The log cannot be written, or running jobs cannot be found; nothing was started.
    """
    folder()  # else the job would run, and nobody here would know of it
    with opened(log_file) as to:
        before = log_file.stat().st_size
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=to, stderr=to, start_new_session=True, close_fds=True
        )
    found: AnsweringJob | None = None
    for _ in turns(within_s, _LOOK_EVERY_S):
        if (code := process.poll()) is not None:
            # A death by a signal is told as a shell tells it.
            code = code if code >= 0 else 128 - code
            return Detached(process.pid, exit_code=code, said=_last_words(log_file, before))
        found = next((job for job in running() if process.pid in (job.pid, job.supervisor)), None)
        if found is not None and found.state == "RUNNING":
            break
    name, state, pid = ("", "STARTING", None) if found is None else (found.name, found.state, found.pid)
    return Detached(process.pid, name, state, pid)


def _last_words(log_file: Path, begins: int) -> str:
    """The error that ended it, or else its last lines."""
    with log_file.open("rb") as file:
        file.seek(begins)
        lines = file.read().decode("utf-8", "replace").splitlines()
    errors = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    return "\n".join(lines[errors[-1] :] if errors else lines[-_LAST_LINES:])
