"""Jobs whose checkpoint is not on this machine's own files, and what is proven of them on HDFS and in S3 alike.

Each function is one fact, which a test of either has by its name. Must not know: where the checkpoint is.
"""

import dataclasses
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from onceflow.checkpoint.failures import Failures
from onceflow.storage.store import Store
from tests.support.harness import JOBS, Pipeline, rows_of, wait_until

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


def a_parent_starts_it_again(p: Elsewhere) -> None:
    """A driver that dies behind a decision is started again by its parent, with no command in between; it is kept."""
    p.mark.parent.mkdir(parents=True, exist_ok=True)
    done = p.command(
        "run",
        p.file,
        "--until",
        "caught-up",
        "--supervise",
        ONCEFLOW_CRASH=f"D5@{EPOCH}",
        ONCEFLOW__RESTART_STRATEGY__TYPE="fixed-delay",
    )
    assert done.returncode == 0, done.stderr
    assert p.mark.exists(), "it did not die"
    assert "ended with SIGKILL, and is started again" in done.stderr
    p.check()
    (kept,) = Failures(p.store.below("onceflow").below("failures")).read()
    assert (kept.error, kept.recorded) == ("Died", EPOCH - 1)
    assert kept.followed_by.startswith("restart after")


def operators_see_it(p: Elsewhere) -> None:
    """Check and doctor leave nothing; txn and doctor name what a death left, and checkpoints a good run's epochs."""
    for words in (("check", p.file), ("doctor", p.file)):
        looked = p.command(*words)
        assert looked.returncode == 0, looked.stdout + looked.stderr
        assert not p.store.exists(), f"{words} has left something"
    p.die_at(f"D5@{EPOCH}")
    examined = p.command("doctor", p.file)
    assert f"epoch {EPOCH} is decided and not done, and the job does not run" in examined.stdout, examined.stdout
    assert [name for name in p.store.names() if "doctor" in name] == []
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


def resumed(p: Elsewhere, name: str, *words: str, **environment: str) -> tuple[Elsewhere, str]:
    """Another run of the pipeline's job, at another place: it, and what was said."""
    q = p.moved(f"{p.checkpoint.name}-{name}", **environment)
    done = q.command("run", q.file, "--until", "caught-up", "--yes", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return q, done.stderr


def newest(rows: Iterable[tuple[bytes | None, bytes | None]]) -> dict[bytes | None, int]:
    """The newest count of each key."""
    found: dict[bytes | None, int] = {}
    for key, value in rows:
        found[key] = max(json.loads(value)["n"], found.get(key, 0))
    return found


def a_new_job_goes_on_from_a_savepoint(p: Elsewhere, processes: list[subprocess.Popen[str]]) -> Elsewhere:
    """A running job is saved, and once more when it is stopped (``-s2``), and is not harmed; state goes on exactly.

    What is written again is what was said. Each of its epochs, run again, gives what was decided.

    Args:
        p: The running job's.
        processes: Those that a test ends.

    Returns:
        The new job's.
    """
    running = p.start(UNTIL="stopped")
    processes.append(running)
    wait_until(lambda: len(p.read()) > 0, 120, "the first rows")
    savepoint = f"{p.uri}-s"
    made = p.command("savepoint", "create", p.job, savepoint, "--output", "json")
    assert made.returncode == 0, made.stderr
    epoch = json.loads(made.stdout.splitlines()[-1])["epoch"]
    p.send(3_000)
    wait_until(lambda: newest(p.read()) == Counter(key for key, _ in p.sent), 120, "all of it")
    stopped = p.command("stop", p.job, "--savepoint", f"{p.uri}-s2")
    assert stopped.returncode == 0, stopped.stderr
    assert p.end(running).code == 0
    counts = [(key, json.loads(value)["n"]) for key, value in p.read()]
    assert len(counts) == len(set(counts)), "the job that was saved has written a count twice"
    assert p.command("savepoint", "verify", savepoint).returncode == 0
    listed = p.command("savepoint", "list", p.uri.rpartition("/")[0])
    assert listed.stdout.count(p.job_id()) == 2, listed.stdout
    behind = sum(rows_of(d) for d in p.decisions() if d["epoch"] > epoch)

    before = Counter(p.read())
    q, said = resumed(p, "new", "-s", savepoint)
    assert f"sink {p.sink}: {behind} rows" in said if behind else "no decided row is written again" in said
    written = Counter(p.read()) - before
    assert sum(written.values()) == sum(rows_of(d) for d in q.decisions())
    assert newest(p.read()) == Counter(key for key, _ in p.sent)
    code, report = audited(p, "--recompute", "0..")
    assert (code, report["findings"]) == (0, []), report
    assert report["rows"] == sum(rows_of(d) for d in p.decisions())
    return q


def it_goes_on_in_four_partitions(p: Elsewhere) -> None:
    """The state of the savepoint ``-s2`` in four partitions, and a new job that goes on from there."""
    rescaled = p.command("savepoint", "rescale", f"{p.uri}-s2", f"{p.uri}-s4", "4")
    assert rescaled.returncode == 0, rescaled.stderr
    p.send(1_000)
    before = Counter(p.read())
    q, _ = resumed(p, "four", "-s", f"{p.uri}-s4")
    assert newest(Counter(p.read()) - before) == newest(p.read()) == Counter(key for key, _ in p.sent)
    assert sorted(n for n in q.store.below("state").below("0").names() if n.isdigit()) == list("0123")
    assert q.open_transactions() == []


def it_goes_on_on_a_disk(p: Elsewhere, folder: Path) -> None:
    """The savepoint ``-s2``, brought to a disk, and a new job that goes on from there with its checkpoint on it."""
    exported = p.command("savepoint", "export", f"{p.uri}-s2", f"{folder}/s")
    assert exported.returncode == 0, exported.stderr
    p.send(1_000)
    before = Counter(p.read())
    home = {"CHECKPOINT": f"{folder}/home"}
    done = p.command("run", p.file, "--until", "caught-up", "--yes", "-s", f"{folder}/s", **home)
    assert done.returncode == 0, done.stderr
    assert newest(Counter(p.read()) - before) == newest(p.read()) == Counter(key for key, _ in p.sent)
    assert p.command("audit", p.file, "--shared", **home).returncode == 0


def snapshots_come_along(p: Elsewhere, processes: list[subprocess.Popen[str]], folder: Path) -> None:
    """State of which Spark's maintenance uploads snapshots, and deletes what is old, goes on exactly.

    Behind a death, from a savepoint, and from the oldest epoch that is retained. Spark does so each minute, behind ten
    epochs, and other tests end before. Here it does at once, behind two, and keeps four.

    Args:
        p: The job's pipeline.
        processes: Those that a test ends.
        folder: On a disk.
    """
    soon = {"minDeltasForSnapshot": "2", "maintenanceInterval": "100ms"}
    (folder / "conf").mkdir()
    lines = (f"spark.sql.streaming.stateStore.{key} {value}\n" for key, value in soon.items())
    (folder / "conf" / "spark-defaults.conf").write_text("".join(lines))
    retained = 4
    p.environment = p.environment | {
        "SPARK_CONF_DIR": str(folder / "conf"),
        "PER_EPOCH": "200",
        "ONCEFLOW__EXECUTION__CHECKPOINTING__NUM_RETAINED": str(retained),
    }

    def snapshots() -> int:
        return p.store.count("state/0/*/*.zip")

    p.die_at("D7@8")
    died_with = snapshots()
    assert died_with > 0
    running = p.start(UNTIL="stopped")
    processes.append(running)
    wait_until(lambda: snapshots() > died_with, 120, "a snapshot")
    wait_until(lambda: newest(p.read()) == Counter(key for key, _ in p.sent), 120, "all of it")
    wait_until(lambda: p.store.count("state/0/*/1_*") == 0, 120, "the end of the first version")
    stopped = p.command("stop", p.job, "--savepoint", f"{p.uri}-s2")
    assert stopped.returncode == 0, stopped.stderr
    assert p.end(running).code == 0
    before = Counter(p.read())
    oldest = max(int(n) for n in p.store.below("commits").names() if n.isdigit()) - retained + 1
    resumed(p, "back", "-s", f"{p.uri}@{oldest}")
    assert newest(Counter(p.read()) - before) == newest(p.read()) == Counter(key for key, _ in p.sent)
    deleted = p.command("job", "delete", p.file, "--yes")
    assert deleted.returncode == 0, deleted.stderr
    it_goes_on_in_four_partitions(p)
    it_goes_on_on_a_disk(p, folder)
    brought = [path.name for path in folder.glob("s/files/state/0/*/*.zip")]
    assert len(brought) == 2, "the newest one of each partition, whatever is behind it"


def audited(p: Elsewhere, *options: str) -> tuple[int, dict[str, Any]]:
    """What the audit of the pipeline's job says: its exit code, and its report."""
    ran = p.command("audit", p.file, "--output", "json", *options)
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout.splitlines()[-1])


def an_audit_finds_tampering(p: Elsewhere, produce: Callable[[str, list[str]], object]) -> None:
    """A job that died is proven; a receipt that is changed in its store, and a record of a stranger, are found."""
    p.die_at(f"D5@{EPOCH}")
    p.run_well()
    code, report = audited(p)
    assert (code, report["findings"], report["epochs"], report["rows"]) == (0, [], 3, RECORDS)
    code, report = audited(p, "--recompute", "1..")
    assert (code, report["findings"], report["epochs"]) == (0, [], 2)

    trail = p.store.below("onceflow").below("audit")
    name = min(trail.names())
    held = trail.read(name)
    first = json.loads(held.splitlines()[0])
    first["sinks"][p.sink]["rows"] += 1
    trail.replace(name, b"\n".join([json.dumps(first).encode(), *held.splitlines()[1:]]) + b"\n")
    produce(p.sink, ["stranger"])
    code, report = audited(p)
    told = {each["kind"]: each["what"] for each in report["findings"]}
    assert (code, sorted(told), report["foreign"]) == (1, ["foreign", "receipt"], 1)
    assert "does not have its hash" in told["receipt"]
    trail.replace(name, held)
    code, report = audited(p, "--shared")
    assert (code, report["receipts"], report["foreign"]) == (0, 0, 1)
