"""Savepoints of a job that runs, and new runs from them: state goes on exactly, and what was said is written again."""

import dataclasses
import json
import shutil
import sqlite3
from collections import Counter

import pytest

from onceflow.checkpoint.place import Place
from onceflow.operations.savepoints import reading, restoring
from onceflow.storage.store import Store
from tests.support import elsewhere
from tests.support.commands import onceflow, resume
from tests.support.elsewhere import Elsewhere, newest
from tests.support.harness import JOBS, Pipeline, rows_of, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


class OnADisk(Elsewhere):
    """A pipeline whose checkpoint is on this machine, as those are that are not."""

    @property
    def uri(self):
        """The checkpoint's."""
        return str(self.checkpoint)

    @property
    def store(self):
        """The checkpoint's folder."""
        return Store(self.checkpoint)


def test_a_running_job_is_saved_and_a_new_job_goes_on_from_it(cluster, new_topic, tmp_path):
    """It goes on while it is saved; the new one counts every record once, and writes again what was said, no more."""
    runtime = {"ONCEFLOW_RUNTIME_DIR": str(tmp_path / "run")}
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "old", "count", per_epoch=100, environment=runtime)
    p.send(300)
    process = p.start(UNTIL="stopped")
    try:
        wait_until(lambda: any(job["epoch"] for job in onceflow("list", **runtime)[1]["jobs"]), 120, "an epoch")
        code, made, said = onceflow("savepoint", "create", "count", tmp_path / "s", **runtime)
        assert code == 0, said
        p.send(200)
        wait_until(lambda: newest(p.read()) == Counter(key for key, _ in p.sent), 60, "all of it")
        assert onceflow("stop", "count", **runtime)[0] == 0
    finally:
        ended = p.end(process)
    assert ended.code == 0, ended.log
    p.check()
    assert onceflow("savepoint", "verify", tmp_path / "s")[0] == 0
    behind = sum(rows_of(d) for d in p.decisions() if d["epoch"] > made["epoch"])
    assert behind > 0
    before = Counter(p.read())

    q = dataclasses.replace(p, checkpoint=tmp_path / "new")
    said = resume(q, "-s", tmp_path / "s")
    assert f"sink {p.sink}: {behind} rows" in said
    written = Counter(p.read()) - before
    assert before <= Counter(p.read())
    assert sum(written.values()) == sum(rows_of(d) for d in q.decisions())
    assert newest(written) == Counter(key for key, _ in p.sent)  # 200 of 50 keys: each key came again
    assert {d["epoch"] for d in q.decisions()} == set(range(made["epoch"] + 1, made["epoch"] + 1 + len(q.decisions())))
    assert (p.open_transactions(), q.open_transactions()) == ([], [])


@pytest.mark.faults
@pytest.mark.parametrize("how", ["claim", "as-new"])
def test_a_checkpoint_that_was_moved_goes_on_without_its_old_place(cluster, new_topic, tmp_path, how):
    """A state class's schemas have absolute paths in Spark's files: a claimed, or copied, checkpoint reads its own."""
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "old", "tally", per_epoch=200)
    p.send(200)
    p.run_well()
    q = dataclasses.replace(p, checkpoint=tmp_path / "new")
    p.checkpoint.rename(q.checkpoint)  # a copy of which the original is deleted is the same
    q.send(200)
    ended = q.run_well(TAKEOVER=how)
    assert "names schemas of the state in another checkpoint" in ended.log
    assert newest(q.read()) == Counter(key for key, _ in q.sent)
    named = "".join(path.read_text() for path in q.checkpoint.glob("state/*/_metadata/v2/[0-9]*"))
    assert str(q.checkpoint) in named
    assert str(p.checkpoint) not in named


@pytest.mark.faults
def test_a_new_job_reads_nothing_of_the_old_ones_checkpoint(cluster, new_topic, tmp_path):
    """The old checkpoint is deleted when the new one is made: a state class goes on all the same, through a death."""
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "old", "tally", per_epoch=200)
    p.send(300)
    p.run_well()
    code, _, said = onceflow("savepoint", "create", p.checkpoint, tmp_path / "s")
    assert code == 0, said
    q = dataclasses.replace(p, checkpoint=tmp_path / "new", sent=list(p.sent))
    restoring.restore(tmp_path / "s", reading.verify(tmp_path / "s"), Place.at(q.checkpoint, retain=100))
    shutil.rmtree(p.checkpoint)
    q.send(200)
    q.die_at("D7")
    q.run_well()
    assert newest(q.read()) == Counter(key for key, _ in q.sent)
    code, _, said = onceflow("savepoint", "create", q.checkpoint, tmp_path / "s2")
    assert code == 0, said
    shutil.rmtree(q.checkpoint)
    third = dataclasses.replace(q, checkpoint=tmp_path / "third", sent=list(q.sent))
    third.send(100)
    resume(third, "-s", tmp_path / "s2")
    assert newest(q.read()) == Counter(key for key, _ in third.sent)


def started(p):
    """The job, running until it is stopped, with an epoch done."""
    process = p.start(UNTIL="stopped")
    wait_until(lambda: any(job["epoch"] for job in onceflow("list", **p.environment)[1]["jobs"]), 120, "an epoch")
    return process


@pytest.mark.faults
def test_a_job_is_stopped_with_a_savepoint_and_rescaled(cluster, new_topic, tmp_path):
    """Its newest epoch: nothing is written again. With the same state in four partitions a new job counts on."""
    runtime = {"ONCEFLOW_RUNTIME_DIR": str(tmp_path / "run")}
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "old", "count", per_epoch=100, environment=runtime)
    p.send(300)
    process = started(p)
    try:
        code, made, said = onceflow("stop", "count", "--savepoint", tmp_path / "s", **runtime)
        assert code == 0, said
    finally:
        ended = p.end(process)
    assert ended.code == 0, ended.log
    code, rescaled, said = onceflow("savepoint", "rescale", tmp_path / "s", tmp_path / "s4", 4)
    assert code == 0, said
    assert (rescaled["partitions"], rescaled["job_epoch"], made["partitions"]) == (4, made["epoch"], 2)
    q = dataclasses.replace(p, checkpoint=tmp_path / "new", sent=list(p.sent))
    before = Counter(p.read())
    q.send(100)
    said = resume(q, "-s", tmp_path / "s4")
    assert "no decided row is written again" in said
    written = Counter(p.read()) - before
    assert newest(p.read()) == Counter(key for key, _ in q.sent)
    assert sum(written.values()) == sum(rows_of(d) for d in q.decisions())
    assert {path.name for path in (q.checkpoint / "state" / "0").iterdir() if path.name.isdigit()} == set("0123")


@pytest.mark.faults
def test_who_goes_back_behind_an_upgrade_is_told_what_would_be_written_twice(cluster, new_topic, tmp_path):
    """The old program on its old checkpoint, behind a newer one that wrote: refused with the number, by a check, too.

    Said on purpose it doubles exactly so many rows; and the newer one, started again behind that, is asked in its turn.
    """
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "old", "copy", per_epoch=100)
    file = JOBS / "copy_job.py"
    p.send(200)
    p.run_well()
    code, _, said = onceflow("savepoint", "create", p.checkpoint, tmp_path / "s")
    assert code == 0, said
    q = dataclasses.replace(p, checkpoint=tmp_path / "new", sent=list(p.sent))
    q.send(300)
    resume(q, "-s", tmp_path / "s")
    assert Counter(p.read()) == Counter(q.sent)

    for command in (("run", file, "--until", "caught-up"), ("check", file)):
        code, refused, said = onceflow(*command, **p.settings())
        assert (code, refused["error"]) == (1, "CheckpointConflictError"), said
        assert f"300 rows to sink {p.sink}" in refused["what"]
        assert "docs/upgrade.md" in refused["action"]
    assert Counter(p.read()) == Counter(q.sent)
    code, _, said = onceflow("run", file, "--until", "caught-up", "--claim", **p.settings())
    assert code == 0, said
    twice = Counter(p.read()) - Counter(q.sent)
    assert sum(twice.values()) == 300
    assert set(twice.values()) == {1}
    q.run_well()  # it has read all of it by itself
    q.send(50)
    p.run_well()
    code, refused, said = onceflow("run", file, "--until", "caught-up", **q.settings())
    assert (code, refused["error"]) == (1, "CheckpointConflictError"), said
    assert f"50 rows to sink {p.sink}" in refused["what"]


@pytest.mark.faults
def test_a_retained_epoch_is_gone_back_to_and_a_claim_is_not(cluster, new_topic, tmp_path):
    """An older epoch as a new job, which doubles exactly what was said; as the old job only its newest epoch."""
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "old", "copy", per_epoch=100)
    p.send(500)
    p.run_well()
    p.check()
    decided = p.decisions()
    epoch = decided[1]["epoch"]
    again = sum(rows_of(d) for d in decided if d["epoch"] > epoch)
    code, made, said = onceflow("savepoint", "create", p.checkpoint, tmp_path / "s")
    assert code == 0, said

    q = dataclasses.replace(p, checkpoint=tmp_path / "new")
    said = resume(q, "-s", f"{p.checkpoint}@{epoch}")
    assert f"{again} rows" in said
    twice = Counter(p.read()) - Counter(p.sent)
    assert sum(twice.values()) == again
    assert set(twice.values()) == {1}

    p.send(100)
    p.run_well()  # the old job goes on, untouched by the new one, which has read nothing that it has not
    late = dataclasses.replace(p, checkpoint=tmp_path / "late")
    code, refused, said = onceflow(
        "run", JOBS / "copy_job.py", "--until", "caught-up", "-s", tmp_path / "s", "--claim", "--yes", **late.settings()
    )
    assert (code, refused["error"]) == (1, "CheckpointConflictError"), said
    assert not late.checkpoint.exists()
    assert made["epoch"] < p.decisions()[-1]["epoch"]

    code, _, said = onceflow("savepoint", "create", p.checkpoint, tmp_path / "s2")
    assert code == 0, said
    before = Counter(p.read())
    claimed = dataclasses.replace(p, checkpoint=tmp_path / "claimed", sent=list(p.sent))
    claimed.send(50)
    resume(claimed, "-s", tmp_path / "s2", "--claim")
    assert Counter(p.read()) - before == Counter(claimed.sent[-50:])
    ended = p.run()
    assert ended.code == 1, ended.log  # the old checkpoint is older than its job's mark now
    assert "CheckpointConflictError" in ended.log or "misses a start" in ended.log or "older than" in ended.log


@pytest.mark.faults
def test_a_table_gets_each_row_of_the_new_job(cluster, new_topic, tmp_path):
    """Its ledger and marks know the old job's epochs by other names: none is passed over, and none blocks the new."""
    database = {"DATABASE": f"sqlite:///{tmp_path / 'table.sqlite'}"}
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "old", "both", per_epoch=100, environment=database)
    p.send(400)
    p.run_well()
    epoch = p.decisions()[0]["epoch"]
    again = sum(rows_of(d, "payments") for d in p.decisions() if d["epoch"] > epoch)
    q = dataclasses.replace(p, checkpoint=tmp_path / "new", sent=list(p.sent))
    q.send(100)
    resume(q, "-s", f"{p.checkpoint}@{epoch}")
    with sqlite3.connect(tmp_path / "table.sqlite") as table:
        ids = Counter(i for (i,) in table.execute("select id from payments"))
    assert set(ids) == set(range(500))
    assert sum(ids.values()) == 500 + again
    assert sum(Counter(p.read()).values()) == 500 + again
    assert (p.open_transactions(), q.open_transactions()) == ([], [])


@pytest.mark.faults
def test_a_death_while_the_checkpoint_is_made_is_gone_on_with(cluster, new_topic, tmp_path):
    """Before its first start the checkpoint is a new job's already; the same command, or none, goes on there."""
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "old", "count", per_epoch=100)
    p.send(300)
    p.run_well()
    code, _, said = onceflow("savepoint", "create", p.checkpoint, tmp_path / "s")
    assert code == 0, said
    q = dataclasses.replace(p, checkpoint=tmp_path / "new", sent=list(p.sent))
    q.send(100)
    restoring.restore(tmp_path / "s", reading.verify(tmp_path / "s"), Place.at(q.checkpoint, retain=100))
    resume(q, "-s", tmp_path / "s", ONCEFLOW_DEBUG="")
    assert newest(p.read()) == Counter(key for key, _ in q.sent)
    q.send(100)
    resume(q, "-s", tmp_path / "s")  # a supervisor's command, left as it was
    assert newest(p.read()) == Counter(key for key, _ in q.sent)
    assert (
        json.loads((q.ours / "job.json").read_text())["job_id"]
        != json.loads((p.ours / "job.json").read_text())["job_id"]
    )


@pytest.mark.faults
def test_another_delay_of_the_watermark_holds_from_the_savepoint_on(cluster, new_topic, tmp_path):
    """A longer one opens no window again that is closed; by each a window comes out once, when it says."""
    p = Pipeline(cluster, new_topic(1), new_topic(2), tmp_path / "old", "window", per_epoch=100)

    def send(*times):
        first = len(p.sent)
        p.send(len(times), value=lambda i: json.dumps({"user": "ann", "at": times[i - first]}).encode())

    def windows():
        """The ends of the windows that have come out, with their counts."""
        return sorted((json.loads(value)["end"], json.loads(value)["n"]) for _, value in p.read())

    send(5, 100)
    p.run_well()
    assert windows() == [(60, 1)], "the watermark stands at 90"
    code, _, said = onceflow("savepoint", "create", p.checkpoint, tmp_path / "s")
    assert code == 0, said

    send(30, 175)
    longer = dataclasses.replace(p, checkpoint=tmp_path / "longer")
    resume(longer, "-s", tmp_path / "s", DELAY="5 minutes")
    assert windows() == [(60, 1)], "30 is late, as it was; by the old delay 120 would be closed now"
    shorter = dataclasses.replace(p, checkpoint=tmp_path / "shorter")
    resume(shorter, "-s", tmp_path / "s", DELAY="1 second")
    assert windows() == [(60, 1), (120, 1)]
    send(500)
    longer.run_well(DELAY="5 minutes")
    assert windows() == [(60, 1), (120, 1), (120, 1), (180, 1)], "200: of the longer one two windows are closed"


@pytest.mark.faults
@pytest.mark.timeout(600)
@pytest.mark.parametrize("job", ["count", "tally"])
def test_snapshots_of_the_state_come_along(cluster, new_topic, processes, tmp_path, job):
    """Those that Spark's maintenance writes: behind a death, in a savepoint, in other partitions."""
    runtime = {"ONCEFLOW_RUNTIME_DIR": str(tmp_path / "run")}
    p = OnADisk(cluster, new_topic(2), new_topic(2), tmp_path / "checkpoint", job, environment=runtime)
    p.send(3_000)
    elsewhere.snapshots_come_along(p, processes, tmp_path)
