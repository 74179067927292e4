"""Runs the job as a process of its own, as a user's would, and starts it again at once when it ends.

It knows the job only from outside: its exit and the lines of its log. Must not know: who kills it, and why.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from onceflow.demo.board import Board
from onceflow.errors import EpochFailedError
from onceflow.local.devcluster import watch
from onceflow.processes import descendants, kill_tree

_EPOCH = re.compile(r"epoch (\d+): ([\d,]+) in, ([\d,]+) out, (\d+) participants, ([\d,]+) ms")
_PHASE = re.compile(r": start: (.*)")
_SAID = re.compile(
    r" (?:INFO|WARNING)(?> +)(?>(?:[^\s:]+: )?)((?!start: |the job runs, |idle, |onceflow \S+ runs |.*malformed).*)"
)
_START = "--- start "
_LOOK_S = 0.05
_FRUITLESS_STARTS = 3
_STOP_WITHIN_S = 30.0
_START_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class EpochLine:
    """An epoch that the job's log tells of. ``at``: monotonic seconds when it was read; ``start``: which start's."""

    at: float
    start: int


class Supervisor(threading.Thread):
    """Keeps one job running.

    Args:
        arguments: What ``onceflow`` is called with.
        folder: Where it runs; its log is ``job.log`` there.
        environment: Environment variables for the job, beside ours.
        board: Is told of it.
    """

    def __init__(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], board: Board) -> None:
        super().__init__(name="supervisor", daemon=True)
        self.log = folder / "job.log"
        self.starts = 0
        self.unplanned_ends = 0
        self.failure: EpochFailedError | None = None
        """It will not be started again, and why."""
        self._command = [sys.executable, "-P", "-m", "onceflow.cli.main", *arguments]
        self._folder, self._environment, self._board = folder, dict(environment), board
        self._changed = threading.Condition()
        self._lines: list[EpochLine] = []
        self._seen_start = 0
        self._incarnated = 0
        self._killed_at: Callable[[], str] | None = None
        self._stopping = False
        self._process: subprocess.Popen[bytes] | None = None
        self._tail = threading.Thread(target=self._follow, name="job-log", daemon=True)

    # -- what others see and do -------------------------------------------------------------------

    def lines(self) -> list[EpochLine]:
        """All epochs so far."""
        with self._changed:
            return list(self._lines)

    def wait_ready(self) -> None:
        """Wait until the job has taken over its checkpoint.

        Raises:
            EpochFailedError: It did not get there.
        """
        with self._changed:
            ready = self._changed.wait_for(lambda: self._incarnated or self.failure, _START_WITHIN_S)
        if self.failure is not None:
            raise self.failure
        if not ready:
            raise self._given_up(f"the job did not start in {_START_WITHIN_S:g} s")

    def wait_epoch(self, start: int, after: float, timeout_s: float) -> float | None:
        """Wait for an epoch of this start or a later one, told after a moment (monotonic); its moment, or None."""

        def found() -> float | None:
            return next((line.at for line in self._lines if line.start >= start and line.at > after), None)

        with self._changed:
            self._changed.wait_for(lambda: found() or self.failure, timeout_s)
            return found()

    def wait_gone(self, start: int, timeout_s: float) -> bool:
        """Wait until the process of this start has ended."""
        with self._changed:
            return self._changed.wait_for(lambda: self.starts > start or self.failure is not None, timeout_s)

    def expect_kill(self, moment: Callable[[], str]) -> None:
        """Somebody kills the job: its next end is no failure of it. ``moment`` tells, after it, what was hit."""
        self._killed_at = moment

    def kill(self, moment: str) -> None:
        """SIGKILL the whole process tree: the driver, Java, and Python's workers."""
        self.expect_kill(lambda: moment)
        if self._process is not None:
            kill_tree(self._process.pid)

    def stop(self) -> int | None:
        """SIGTERM, as a user's supervisor would; SIGKILL after half a minute. The exit code, None if it was killed."""
        self._stopping = True
        process = self._process
        if process is None:
            return None
        # Our child is the watcher between the job and us; the job is its only child.
        for job in descendants(process.pid)[:1]:
            os.kill(job, signal.SIGTERM)
        try:
            return process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            kill_tree(process.pid)
            process.wait()
            return None

    def close(self) -> None:
        """End everything now, whatever it does."""
        self._stopping = True
        if self._process is not None and self._process.poll() is None:
            kill_tree(self._process.pid)
            self._process.wait()
        for thread in (self, self._tail):
            if thread.ident is not None:
                thread.join(10)

    def log_tail(self, lines: int = 25) -> str:
        """The end of the job's log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    # -- the threads ------------------------------------------------------------------------------

    def run(self) -> None:
        """Start the job, again and again, until told to stop."""
        fruitless = 0
        self._launch()
        self._tail.start()
        while True:
            process = self._process
            if process is None:
                return
            code = process.wait()
            if self._stopping:
                return
            epochs_of_it = any(line.start == self.starts for line in self.lines())
            if self._killed_at is not None:
                self._board.add(kills=1)
                self._board.say(f"KILL -9 of the job: {self._killed_at()}")
                self._killed_at = None
            else:
                self.unplanned_ends += 1
                fruitless = 0 if epochs_of_it else fruitless + 1
                self._board.say(f"the job ended by itself with {code}")
            if fruitless >= _FRUITLESS_STARTS:
                with self._changed:
                    self.failure = self._given_up(f"the job ended {fruitless} times without finishing an epoch")
                    self._changed.notify_all()
                return
            self._launch()

    def _launch(self) -> None:
        with self.log.open("ab") as log:
            log.write(f"{_START}{self.starts + 1}\n".encode())
            log.flush()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(watch.__file__)), str(os.getpid()), *self._command],
                cwd=self._folder,
                env=os.environ | self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us; the job ends when we say so
            )
        with self._changed:
            self.starts += 1
            self._changed.notify_all()
        self._board.set(job=f"starting (start {self.starts}), waits for its first line")
        self._board.say(f"the job is started, start {self.starts}")

    def _follow(self) -> None:
        """Read the log as it grows."""
        rest = ""
        with self.log.open(encoding="utf-8", errors="replace") as log:
            while True:
                over = self._process is None or (self._stopping and self._process.poll() is not None)
                rest += log.read()
                *whole, rest = rest.split("\n")
                for line in whole:
                    self._take(line)
                if over or self.failure is not None:
                    return
                time.sleep(_LOOK_S)

    def _take(self, line: str) -> None:
        at = time.monotonic()
        if line.startswith(_START):
            self._seen_start = int(line.removeprefix(_START))
            return
        with self._changed:
            epoch = _EPOCH.search(line)
            if epoch is not None:
                number, _, rows_out, participants, milliseconds = (
                    int(part.replace(",", "")) for part in epoch.groups()
                )
                self._lines.append(EpochLine(at, self._seen_start))
                self._board.add(epochs=1, job_committed=participants)
                self._board.set(epoch=number, epoch_ms=milliseconds, job=f"running (start {self._seen_start})")
                if rows_out:
                    self._board.say(f"epoch {number} committed {rows_out:,} alerts")
            elif "incarnation " in line:
                self._incarnated = self._seen_start
            elif (phase := _PHASE.search(line)) is not None:
                self._board.set(job=f"starting (start {self._seen_start}), waits for {phase[1]}")
            elif (said := _SAID.search(line)) is not None:
                self._board.say(f"job: {said[1]}")
            self._changed.notify_all()

    def _given_up(self, what: str) -> EpochFailedError:
        return EpochFailedError(
            f"{what}. Its log ends with\n{self.log_tail()}",
            action=f"see {self.log}",
            log=str(self.log),
        )
