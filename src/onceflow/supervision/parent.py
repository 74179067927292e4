"""The parent of a job's process: it starts the process again when that has died, or has ended by what passes.

Must not know: Spark, which it does not load; what a job is made of. There is one count of failures: a supervised job
asks its parent what follows a failure in its process, and its death is one more failure of the same count. A checkpoint
on HDFS or in S3 takes Java, or what the job's file says of credentials: there the job's process keeps the failures, the
next one those that have ended the one before; a death that no start follows is told in the log alone.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, Any

from onceflow.checkpoint.failures import FailureLine
from onceflow.checkpoint.place import Place
from onceflow.control.server import Server
from onceflow.control.standing import JobStatus
from onceflow.options import restarting
from onceflow.options.restarting import Restarts
from onceflow.program import TRY_AGAIN
from onceflow.storage.locations import is_elsewhere
from onceflow.supervision.child import LINE
from onceflow.supervision.counting import Counting, Reported, keep_in
from onceflow.supervision.log_file import bound

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.5
_ENDS_A_JOB = (signal.SIGTERM, signal.SIGINT)


class Supervision:
    """Of one job.

    Args:
        first: The command of its first process.
        again: That of those that follow.
        to: Where their output goes; None is where this process's goes.
        log_file: Its path: it is kept from growing without end.
    """

    def __init__(
        self,
        first: Sequence[str],
        again: Sequence[str],
        to: IO[bytes] | None = None,
        log_file: Path | None = None,
    ) -> None:
        self._first, self._again = first, again
        self._to, self._log_file = to, log_file
        self._process: subprocess.Popen[bytes] | None = None
        self._signal: signal.Signals | None = None
        self._counting: Counting | None = None
        self._standing = JobStatus("", "")
        self._server: Server | None = None
        self._judged: list[float | None] = []
        self._to_keep: list[FailureLine] = []
        self._told_to_end = False

    def run(self) -> int:
        """Keep the job going until it has ended; the exit code for this process.

        SIGTERM and SIGINT are handed on to the job's process.
        """
        before = {number: signal.signal(number, self._hand_on) for number in _ENDS_A_JOB}
        command = self._first
        try:
            while (code := self._after(self._live(command))) is None:
                command = self._again
            return code
        finally:
            self._answer_for_it(None)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _live(self, command: Sequence[str]) -> int:
        """One process of the job, from its start to its end: what it ended with."""
        self._judged = []
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._to,
                stderr=self._to,
                env=os.environ | {LINE: str(theirs.fileno())},
                pass_fds=(theirs.fileno(),),
                process_group=0,  # Ctrl-C reaches this process alone, and is handed on once
            )
            theirs.close()
            if self._signal is not None:
                self._send(self._signal)
            self._talk(ours, self._process)
            if _failed(self._process):
                # What it has forked holds the line, and the input of its Java, which ends with that. As long as the
                # process is not waited for, its group is nobody else's.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            return self._process.wait()

    def _talk(self, line: socket.socket, process: subprocess.Popen[bytes]) -> None:
        """Answer a process until it has ended and all that it said is heard; or until it has closed its end."""
        heard, ended = b"", False
        while not ended:
            over = _has_ended(process)  # before the look: what it has said is in the line then
            readable, _, _ = select.select([line], [], [], 0 if over else _LOOK_EVERY_S)
            ended = over and not readable
            if readable:
                try:
                    found = line.recv(65_536)
                except ConnectionResetError:  # it died with an answer unread
                    found = b""
                ended = not found
                *lines, heard = (heard + found).split(b"\n")
                for each in lines:
                    answer = self._answer(json.loads(each))
                    if answer is not None:
                        with contextlib.suppress(OSError):
                            line.sendall(json.dumps(answer).encode() + b"\n")
            if self._log_file is not None:
                bound(self._log_file)
            if self._standing.ordered and not self._told_to_end:  # before it had said that it is there
                self._told_to_end = True
                self._send(signal.SIGTERM)

    def _answer(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """What is answered; None for what asks nothing."""
        if "reached" in message:
            if self._counting is not None:
                self._counting.reached(message["reached"])
            return None
        answer = self._answer_to(message)
        if message.get("failed", {}).get("here", True):  # else it can keep nothing any more: its Java is gone
            answer["keep"] = [asdict(failure) for failure in self._to_keep]
            self._to_keep.clear()
        return answer

    def _answer_to(self, message: dict[str, Any]) -> dict[str, Any]:
        match message:
            case {"begin": job}:
                recorded = None if self._counting is None else self._counting.recorded  # by processes before this one
                self._begin(job)
                told = {"restarts": self._standing.restarts, "failure": self._standing.failure}
                return told | {"recorded": recorded}
            case {"failed": failure} if self._counting is not None:
                reported = Reported(**failure)
                wait_s = self._counting.judged(reported)
                if reported.here and wait_s is not None:
                    self._standing.failed(reported.what)
                    return {"wait_s": wait_s}
                self._judged = [wait_s]
                self._standing.failure = reported.what
        return {}

    def _begin(self, job: dict[str, Any]) -> None:
        if self._counting is None:
            restarts = Restarts(restarting.loads(job["strategy"]), job["tolerable"], time.monotonic)
            uri = job["checkpoint"]
            keep = self._to_keep.append if is_elsewhere(uri) else partial(keep_in, Place.at(uri, job["retain"]))
            self._counting = Counting(restarts, keep, job["recorded"])
            self._standing = JobStatus(job["name"], uri)
        self._counting.reached(job["recorded"])
        if self._standing.ordered is None:
            self._answer_for_it(None)  # it does so by itself

    def _after(self, code: int) -> int | None:
        """What this process ends with; None: the job is started again, and the time for it has come."""
        if self._signal is not None:
            return 128 + self._signal
        if self._standing.ordered:
            return 0
        if -code in _ENDS_A_JOB:
            return 128 - code
        if code != TRY_AGAIN and code >= 0:
            return code
        pid = 0 if self._process is None else self._process.pid
        how = f"exit code {code}" if code >= 0 else _name_of(-code)
        if self._counting is None:
            log.error("the job's process (pid %d) ended with %s before its job began", pid, how)
            return TRY_AGAIN
        if not self._judged:
            died = Reported("Died", f"the job's process ended with {how}", pid=pid)
            self._judged = [self._counting.judged(died)]
            self._standing.failure = died.what
        (wait_s,) = self._judged
        name = self._standing.name
        if wait_s is None:
            log.error("%s: its process (pid %d) ended with %s, and is not started again", name, pid, how)
            return TRY_AGAIN
        log.error("%s: its process (pid %d) ended with %s, and is started again in %.1f s", name, pid, how, wait_s)
        return self._wait(wait_s)

    def _wait(self, seconds: float) -> int | None:
        """Wait before a restart, and answer for the job meanwhile; what a signal or an order makes of it."""
        self._standing.failed(self._standing.failure)
        self._answer_for_it(self._standing)
        until = time.monotonic() + seconds
        while self._signal is None and not self._standing.ordered and (left := until - time.monotonic()) > 0:
            self._standing.was_ordered.wait(min(left, _LOOK_EVERY_S))
        if self._signal is not None:
            return 128 + self._signal
        return 0 if self._standing.ordered else None

    def _answer_for_it(self, standing: JobStatus | None) -> None:
        if self._server is not None:
            self._server.close()
        self._server = None if standing is None else Server(standing)

    def _hand_on(self, number: int, _: FrameType | None) -> None:
        self._signal = signal.Signals(number)
        self._send(number)

    def _send(self, number: int) -> None:
        """Send it a signal. Not by its own method, which would take its end away from who waits for that."""
        if self._process is not None and self._process.returncode is None:
            os.kill(self._process.pid, number)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process has ended; it is not waited for by that."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _failed(process: subprocess.Popen[bytes]) -> bool:
    """Whether it ends otherwise than by itself and well; waited for, and not taken away."""
    told = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    return told is not None and (told.si_code != os.CLD_EXITED or told.si_status != 0)


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one without a name
        return f"signal {number}"
