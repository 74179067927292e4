"""Jobs whose checkpoint is not on this machine's own files, and what is proven of them on HDFS and in S3 alike.

Each function is one fact, which a test of either has by its name. Must not know: where the checkpoint is.
"""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Self

from onceflow.checkpoint.contract import Store
from tests.integration.harness import JOBS, Pipeline, wait_until

EPOCH = 1
RECORDS = 6_000
"""Three epochs' worth."""


class Elsewhere(Pipeline):
    """A pipeline whose checkpoint is in a store; what a job leaves beside it is where it ever was."""

    @property
    def uri(self) -> str:
        """The checkpoint's."""
        raise NotImplementedError

    @property
    def store(self) -> Store:
        """The checkpoint's folder, as this process sees it."""
        raise NotImplementedError

    @property
    def folder(self) -> str:
        """The checkpoint's path in the store, of its own for each pipeline."""
        return f"checkpoints/{self.checkpoint.parent.name}-{self.checkpoint.name}"

    @property
    def file(self) -> str:
        """The job's."""
        return str(JOBS / f"{self.job}_job.py")

    def settings(self) -> dict[str, str]:
        """What the job's file asks of the environment."""
        return super().settings() | {"CHECKPOINT": self.uri}

    def records(self) -> list[dict[str, Any]]:
        """The journal's records, oldest first."""
        journal = self.store.below("onceflow").below("journal")
        return [json.loads(journal.read(name)) for name in sorted(journal.names()) if name.endswith(".json")]

    def receipts(self) -> list[dict[str, Any]]:
        """The audit's, oldest first."""
        trail = self.store.below("onceflow").below("audit")
        return [json.loads(line) for name in sorted(trail.names()) for line in trail.read(name).splitlines()]

    def job_id(self) -> str:
        """The job's, as its checkpoint says."""
        return str(json.loads(self.store.below("onceflow").read("job.json"))["job_id"])

    def moved(self, name: str, **environment: str) -> Self:
        """The same job and the same input, with another place for its checkpoint: what one sends, the other has too."""
        at = self.checkpoint.with_name(name)
        return dataclasses.replace(self, checkpoint=at, environment=self.environment | environment)

    def command(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """An ``onceflow`` command on the job."""
        return subprocess.run(
            [sys.executable, "-m", "onceflow", *words],
            env=os.environ | self.settings() | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )


def a_death_is_survived(p: Elsewhere, point: str) -> None:
    """Wherever the driver dies, the next start finishes or undoes it; what is decided is written once."""
    p.die_at(f"{point}@{EPOCH}")
    decided = [0, EPOCH] if point >= "D5" else [0]
    assert [d["epoch"] for d in p.decisions()] == decided
    p.run_well()
    p.check()
    assert point < "D5" or p.aborted() == 0, "a decided epoch was written again"
    assert not p.checkpoint.exists(), "something of the checkpoint is on this machine's own files"


def lost_offsets_are_restored(p: Elsewhere) -> None:
    """D7o: offsets/N is gone; the decision restores it byte for byte."""
    p.die_at(f"D7@{EPOCH}")
    offsets = p.store.below("offsets")
    before = offsets.read(str(EPOCH))
    offsets.remove(str(EPOCH))
    p.run_well()
    assert offsets.read(str(EPOCH)) == before
    p.check()


def a_second_start_takes_over(p: Elsewhere, processes: list[subprocess.Popen[str]]) -> None:
    """A second start on the checkpoint ends the first one's power, and every record is there once."""
    first = p.start(UNTIL="stopped")
    processes.append(first)
    wait_until(lambda: len(p.read()) > 0, 120, "the first rows")
    p.run_well()
    p.send(RECORDS)
    ended = p.end(first, 90)
    assert ended.code == 1, ended.log
    assert f"a newer start of this job has taken over the checkpoint {p.uri}" in ended.log, ended.log
    p.run_well()
    p.check()


def operators_see_it(p: Elsewhere) -> None:
    """Check leaves nothing; txn names what a death left, and checkpoints its epochs when a run has ended well."""
    looked = p.command("check", p.file)
    assert looked.returncode == 0, looked.stderr
    assert not p.store.exists(), "a check has left something"
    p.die_at(f"D5@{EPOCH}")
    listed = p.command("txn", "list", p.file)
    assert listed.returncode == 0, listed.stderr
    assert f"onceflow-{p.job_id()}" in listed.stdout
    p.run_well()
    shown = p.command("checkpoints", p.uri)
    assert shown.returncode == 0, shown.stderr
    assert p.uri in shown.stdout
    assert "COMPLETED" in shown.stdout


def are_refused(p: Elsewhere, commands: Iterable[tuple[Sequence[str], str]]) -> None:
    """Each command ends with 1 and says this; all that is in the topics is as it was to be."""
    for words, told in commands:
        refused = p.command(*words)
        assert refused.returncode == 1, (words, refused.stdout, refused.stderr)
        assert told in refused.stdout + refused.stderr, (words, refused.stdout, refused.stderr)
    p.check()


def all_is_there_when_it_ended(p: Elsewhere) -> None:
    """A job that ends well leaves Spark's commits, and a receipt for each epoch."""
    p.run_well()
    assert [receipt["epoch"] for receipt in p.receipts()] == [0, 1, 2]
    assert sorted(n for n in p.store.below("commits").names() if n.isdigit()) == ["0", "1", "2"]
