"""Kills: the job's whole process tree twice and the broker once, each by SIGKILL and while it hurts.

A good moment is while the job holds open transactions: an epoch is being written and is not committed. The first
kill hits the job a random moment after that; the second the broker; the third the job at the worst moment there is,
the crash point D5: the decision is durable and nothing is committed.

Must not know: what is right and what is wrong afterwards.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onceflow as of
from onceflow import testing
from onceflow.demo.board import Board
from onceflow.demo.producer import PaymentProducer
from onceflow.demo.supervisor import Supervisor
from onceflow.errors import OnceflowError
from onceflow.local.devcluster import DevCluster

log = logging.getLogger(__name__)

JOB_PREFIX = "onceflow-"
DUE = (0.15, 0.4, 0.65)
"""At which parts of the payments the kills are due."""

SLOW = 0.4
"""The payments' pace while a kill is due or not recovered from, so that the kills fall among them."""

_LOOK_S = 0.02
_MOMENT_S = 25.0  # how long to wait for a good moment
_CRASH_S = 20.0
_HELD_S = 2.0
_RANDOM_DELAY_S = 0.15
_RECOVER_S = 240.0


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill.

    Attributes:
        target: ``job`` or ``broker``.
        moment: What was going on, in words.
        seconds_to_recover: Until the job had finished an epoch again; None if it did not.
    """

    target: str
    moment: str
    seconds_to_recover: float | None


class OpenTransactions(threading.Thread):
    """Looks again and again which transactions of the job are open.

    Args:
        servers: Kafka's address.
        tell: Called with their number.
    """

    def __init__(self, servers: str, tell: Callable[[int], None]) -> None:
        super().__init__(name="open-transactions", daemon=True)
        self._cluster, self._tell = of.KafkaCluster(servers), tell
        self._ended = threading.Event()
        self._changed = threading.Condition()
        self._open = 0

    def run(self) -> None:
        """Until ``close``."""
        with testing.OpenTransactions(self._cluster, JOB_PREFIX) as transactions:
            while not self._ended.wait(_LOOK_S):
                try:
                    count = transactions.count()
                except OnceflowError:
                    count = 0  # the broker is dead just now
                if count != self._open:
                    self._tell(count)
                with self._changed:
                    self._open = count
                    self._changed.notify_all()

    def wait_for_some(self, timeout_s: float) -> bool:
        """Wait until the job has open transactions."""
        with self._changed:
            return self._changed.wait_for(lambda: self._open > 0, timeout_s)

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self.join(10)


class CrashSwitch:
    """Arms the crash point D5 of a job that runs already.

    A crash point with a mark file fires only while the file is not there. So the job is started with the point armed
    and the file in place, and taking the file away is the switch.
    """

    def __init__(self, folder: Path) -> None:
        self._mark = folder / "crash-point"
        self._mark.touch()
        self.environment = {testing.ARM: "D5", testing.MARK: str(self._mark)}

    def arm(self) -> None:
        """The next decision will be the last thing that the job does."""
        self._mark.unlink()

    def disarm(self) -> bool:
        """Let it live; False: it is dead, at the crash point."""
        fired = self._mark.exists()
        self._mark.touch()
        return not fired

    def fired(self) -> str:
        """Where it died, for example ``D5 17`` for epoch 17; empty if it did not."""
        return self._mark.read_text().strip() if self._mark.exists() else ""


class Chaos(threading.Thread):
    """Kills as planned, then ends.

    Args:
        supervisor: Runs the job.
        cluster: Runs the broker.
        transactions: The job's open transactions.
        switch: Of the job's crash point.
        producer: Writes the payments; more slowly while a kill is due, so that it falls among them.
        board: Is told of it.
        seed: Of the random moments.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        cluster: DevCluster,
        transactions: OpenTransactions,
        switch: CrashSwitch,
        producer: PaymentProducer,
        board: Board,
        seed: int,
    ) -> None:
        super().__init__(name="chaos", daemon=True)
        self.kills: list[Kill] = []
        self.failure: BaseException | None = None
        self.done = threading.Event()
        """All kills are done and recovered from, or it failed."""
        self._supervisor, self._cluster, self._transactions = supervisor, cluster, transactions
        self._switch, self._producer, self._board = switch, producer, board
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._ended = threading.Event()

    def run(self) -> None:
        """Do it."""
        try:
            self._supervisor.wait_epoch(1, 0.0, _RECOVER_S)
            self._producer.pace = 1.0
            for due, kill in zip(DUE, (self._kill_job, self._kill_broker, self._kill_job_at_decision), strict=True):
                while self._producer.progress < due:
                    if self._ended.wait(_LOOK_S):
                        return
                self._producer.pace = SLOW
                some = self._transactions.wait_for_some(_MOMENT_S)
                if self._ended.is_set():
                    return
                self.kills.append(kill("" if some else " (none of its transactions was open)"))
                self._producer.pace = 1.0
        except (OnceflowError, OSError) as error:
            self.failure = error
        finally:
            self._producer.pace = 1.0
            self.done.set()

    def close(self) -> None:
        """End the thread soon."""
        self._ended.set()
        self.join(5)

    def _kill_job(self, remark: str) -> Kill:
        """A random moment while it writes or commits."""
        self._ended.wait(self._random.uniform(0, _RANDOM_DELAY_S))
        moment = f"a random moment while it had transactions open{remark}"
        start = self._supervisor.starts
        began = time.monotonic()
        self._supervisor.kill(moment)
        return self._recovered("job", moment, began, start + 1, began)

    def _kill_broker(self, remark: str) -> Kill:
        moment = f"a moment when the job had transactions open{remark}"
        began = time.monotonic()
        self._cluster.kill()
        self._board.set(broker="killed")
        self._board.add(kills=1)
        self._board.say(f"KILL -9 of the broker: {moment}")
        self._cluster.restart()
        back = time.monotonic()
        self._board.set(broker="running")
        self._board.say("the broker answers again")
        return self._recovered("broker", moment, began, self._supervisor.starts, back)

    def _kill_job_at_decision(self, remark: str) -> Kill:
        def moment() -> str:
            point, _, epoch = self._switch.fired().partition(" ")
            return f"crash point {point}, epoch {epoch} was decided and none of it committed{remark}"

        start = self._supervisor.starts
        self._supervisor.expect_kill(moment)
        self._switch.arm()
        gone = self._supervisor.wait_gone(start, _CRASH_S)
        began = time.monotonic()
        if not gone and self._switch.disarm():
            late = "no epoch came to its decision in time"
            self._supervisor.kill(late)
            return self._recovered("job", late, began, start + 1, began)
        # What was prepared stays open until the next start has rolled it forward, seconds from now.
        held = "" if self._transactions.wait_for_some(_HELD_S) else " (but it had no transaction)"
        return self._recovered("job", moment() + held, began, start + 1, began)

    def _recovered(self, target: str, moment: str, began: float, start: int, after: float) -> Kill:
        at = self._supervisor.wait_epoch(start, after, _RECOVER_S)
        seconds = None if at is None else at - began
        self._board.say(
            f"the job did not recover in {_RECOVER_S:g} s" if seconds is None else f"recovered after {seconds:.1f} s"
        )
        return Kill(target, moment, seconds)
