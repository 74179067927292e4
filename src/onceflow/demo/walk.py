"""The walk: one small job on a real Kafka, stopped at each step of its epochs, and what is there to see.

Two partitions hold A, B, C, D, E each; an epoch reads two of each. The job's process is stopped by its crash points, so
what is shown is the real thing standing still, not a drawing.

Must not know: the rules, how a sink commits. It sees what anybody sees who may read the topics and the folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import onceflow as of
from onceflow.demo.reader import read_all
from onceflow.errors import EpochFailedError
from onceflow.local.devcluster import DevCluster
from onceflow.processes import kill_tree, stopped
from onceflow.testing import ARM, MARK, OpenTransactions

LETTERS = "ABCDE"
_JOB = Path(__file__).with_name("walk_job.py")
_PATIENCE_S = 240.0
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Step:
    """A step that the job has come to.

    Attributes:
        title: What it is.
        text: What happens there, and why.
        seen: What is there now: names, and what each holds.
    """

    title: str
    text: str
    seen: tuple[tuple[str, str], ...]


_FIRST = (
    (
        "D1@0",
        "Read: an epoch is planned",
        (
            "Spark has written which offsets epoch 0 ends at, before anything is read: two records of each partition. "
            "That is the barrier: no marker travels through the data, the range alone says what belongs to the epoch. "
            "Nothing is written."
        ),
    ),
    (
        "D2@0",
        "Process: rows are on their way",
        "Tasks read, count, and write their rows into transactions of their own. Some may have reached the broker.",
    ),
    (
        "D4@0",
        "Prepare: everything is durable but the verdict",
        (
            "All rows of the epoch are in open transactions, proven by what the broker acknowledged; the tasks' state "
            "is in the checkpoint. Who reads uncommitted sees the rows, who reads committed waits. A death now would "
            "undo all of it."
        ),
    ),
    (
        "D5@0",
        "Decision: one record in the journal",
        (
            "The journal names the transactions and the offsets, synced to disk. From here the epoch is only ever "
            "finished, by this process or by the next start. Still nobody who reads committed sees it."
        ),
    ),
    (
        "D7@0",
        "Commit: the rows are visible",
        "Each transaction got its commit. Spark has not recorded the epoch yet: there is no commits/0.",
    ),
    (
        "D8@0",
        "Checkpoint: the snapshot is complete",
        "Spark has recorded epoch 0: offsets, state and journal agree. Epoch 1 is planned already, and has not begun.",
    ),
)
_DEATH = (
    "D5@1",
    "Epoch 1 is decided, and about to be killed",
    "C and D were read, counted and prepared, and the decision is durable. Nothing of it is committed.",
)
_KILLED = (
    "Kill: SIGKILL to the driver, Java and all workers",
    (
        "The transactions stay open at the broker, which knows of no death. The journal has the decision, Spark has "
        "no commits/1."
    ),
)
_RECOVERY = (
    (
        "S1",
        "Recovery: the next start is in the journal",
        "Its record ends every older driver's power to decide. Nothing was looked at yet.",
    ),
    (
        "D1@1",
        "Recovery: what was decided is committed",
        (
            "The start has committed the dead driver's transactions by their exact names, before Spark ran: who waits "
            "for them waits no longer. That was one start in the journal, and what goes on from there is another. "
            "Spark comes back to epoch 1, since it has no record of it."
        ),
    ),
    (
        "D7@1",
        "Recovery: the state is built again",
        (
            "The plan of epoch 1 ran once more over the same offsets, wrote nothing, and gave the same rows as were "
            "decided: its state counts now."
        ),
    ),
)
_END = (
    "The end: every letter counted once",
    "The job went on with E and ended. Each count was written once.",
)


def walk(show: Callable[[Step], None], folder: Path) -> bool:
    """Take the walk.

    Args:
        show: Given each step; the job stands still until it returns. A transaction lives for 15 minutes.
        folder: An empty folder for the job.

    Returns:
        Whether a reader of committed records has found every count once in the end.

    Raises:
        EpochFailedError: The job did not come to a step.
    """
    with DevCluster() as cluster:
        look = _Look(cluster.bootstrap_servers, folder)
        _fill(cluster.bootstrap_servers)
        show(
            look.step(
                "Before the start",
                (
                    "Topic letters has two partitions with A, B, C, D, E each. The job counts vowels and consonants, "
                    "in state, and writes each change to the topic counts. An epoch reads two records of each "
                    "partition."
                ),
            )
        )
        first = [point for point, _, _ in (*_FIRST, _DEATH)]
        with _started(look, first) as job:
            for point, title, text in (*_FIRST, _DEATH):
                job.come_to(point)
                show(look.step(title, text))
                if point != _DEATH[0]:
                    job.go_on()
            job.kill()
        show(look.step(*_KILLED))
        with _started(look, [point for point, _, _ in _RECOVERY]) as job:
            for point, title, text in _RECOVERY:
                job.come_to(point)
                show(look.step(title, text))
                job.go_on()
            job.end()
        show(look.step(*_END))
        return look.committed() == _expected()


def _expected() -> list[str]:
    """Every change of every count, in the order of epochs."""
    changes, counts = [], {"consonants": 0, "vowels": 0}
    for epoch in ("AABB", "CCDD", "EE"):
        for letter in epoch:
            counts["vowels" if letter in "AE" else "consonants"] += 1
        changed = {"vowels" if letter in "AE" else "consonants" for letter in epoch}
        changes += [f"{kind}={counts[kind]}" for kind in changed]
    return sorted(changes)


def _fill(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for made in admin.create_topics([NewTopic("letters", 2, 1), NewTopic("counts", 1, 1)]).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for partition in (0, 1):
        for letter in LETTERS:
            producer.produce("letters", letter, partition=partition)
    producer.flush(60)


class _Look:
    """What anybody can see from outside."""

    def __init__(self, servers: str, folder: Path) -> None:
        self.servers, self.folder = servers, folder
        self._checkpoint = folder / "checkpoints" / "walk"

    def step(self, title: str, text: str) -> Step:
        """What is there now."""
        committed, uncommitted = self.committed(), self._read("read_uncommitted")
        with OpenTransactions(of.KafkaCluster(self.servers)) as transactions:
            is_open = transactions.count()
        return Step(
            title,
            text,
            (
                ("offsets", self._numbers("offsets")),
                ("Spark's record", self._numbers("commits")),
                ("state", self._state()),
                ("journal", self._journal()),
                ("open transactions", str(is_open)),
                ("read_committed sees", ", ".join(committed) or "nothing"),
                ("read_uncommitted sees", ", ".join(uncommitted) or "nothing"),
            ),
        )

    def committed(self) -> list[str]:
        """The counts that a reader of committed records sees, sorted."""
        return sorted(self._read("read_committed"))

    def _read(self, isolation: str) -> list[str]:
        records = read_all(
            self.servers, "counts", "read_committed" if isolation == "read_committed" else "read_uncommitted"
        )
        values = [json.loads(record.value) for record in records if record.value is not None]
        return sorted(f"{value['kind']}={value['n']}" for value in values)

    def _numbers(self, name: str) -> str:
        numbers = sorted(int(file.name) for file in self._checkpoint.glob(f"{name}/*") if file.name.isdigit())
        if not numbers:
            return "none"
        newest = f"{name}/{numbers[-1]}"
        if name == "commits":
            return newest
        # The last line of the file is the source's: where the epoch ends, by partition.
        ends = json.loads((self._checkpoint / newest).read_text().splitlines()[-1])["letters"]
        read = "; ".join(f"partition {number}: up to {LETTERS[end - 1]}" for number, end in sorted(ends.items()))
        return f"{newest}: {read}"

    def _state(self) -> str:
        files = [file.name for file in self._checkpoint.glob("state/0/*/*") if file.name[0].isdigit()]
        versions = sorted({int(name.partition("_")[0].partition(".")[0]) for name in files})
        return f"versions {', '.join(map(str, versions))} of 2 partitions" if versions else "none"

    def _journal(self) -> str:
        told = []
        for file in sorted((self._checkpoint / "onceflow" / "journal").glob("*.json")):
            entry = json.loads(file.read_text())
            epoch = entry["record"].get("epoch") if entry["kind"] == "decide" else None
            told.append(entry["kind"] if epoch is None else f"{entry['kind']} epoch {epoch}")
        return ", ".join(told) or "none"


class _Job:
    """The job's process, which stops by itself at the points that it was told."""

    def __init__(self, look: _Look, points: list[str]) -> None:
        self._mark, self._log = look.folder / "stands-at", look.folder / "job.log"
        environment = {
            "KAFKA": look.servers,
            ARM: ",".join(f"{point}:stop" for point in points),
            MARK: str(self._mark),
            "ONCEFLOW__RESTART_STRATEGY__TYPE": "none",
        }
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(_JOB)], cwd=look.folder, env=os.environ | environment, stdout=log, stderr=log
            )

    def come_to(self, point: str) -> None:
        """Wait until it stands there."""
        name = point.partition("@")[0]
        self._wait(lambda: self._stands_at() is not None, point)
        while self._stands_at() != name:  # another task has come to the point before as well
            self.go_on()
            self._wait(lambda: self._stands_at() is not None, point)

    def _stands_at(self) -> str | None:
        """The point that it has come to, once it stands still."""
        reached = self._mark.read_text().split() if self._mark.exists() else []
        return reached[0] if reached and stopped(self._process.pid) else None

    def _wait(self, condition: Callable[[], bool], point: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not condition():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise self._failed(f"the job did not come to {point}")
            time.sleep(_LOOK_S)

    def go_on(self) -> None:
        """Let it go on to the next one."""
        self._mark.unlink()
        for pid in stopped(self._process.pid):
            os.kill(pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to all of it."""
        kill_tree(self._process.pid)
        self._process.wait()
        self._mark.unlink(missing_ok=True)

    def end(self) -> None:
        """Wait until it has ended well."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._process.wait(_PATIENCE_S) == 0:
                return
        raise self._failed("the job did not end well")

    def _failed(self, what: str) -> EpochFailedError:
        tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])
        return EpochFailedError(what, cause=f"the end of its log:\n{tail}", action="start the walk again")


@contextlib.contextmanager
def _started(look: _Look, points: list[str]) -> Iterator[_Job]:
    job = _Job(look, points)
    try:
        yield job
    finally:
        job.kill()
