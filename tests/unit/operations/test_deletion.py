"""``onceflow job delete``: what is told, what goes, what stays, and what is refused."""

import dataclasses
import json
import sqlite3

import pytest
from typer.testing import CliRunner

from onceflow.checkpoint.deleting import read_deleting
from onceflow.checkpoint.identity import NameMark, read_identity
from onceflow.cli.app import app
from onceflow.control.server import Server
from onceflow.control.standing import JobStatus
from onceflow.errors import CheckpointConflictError, CheckpointStoreError, ConfigurationError, FencedError
from onceflow.launch import request as plans
from onceflow.operations.transactions import deletion
from onceflow.operations.transactions.deletion import delete, delete_cancelled, look
from onceflow.options.checkpointing import Checkpointing
from tests.support.database_job import DatabaseJob
from tests.support.starts import place_of


@pytest.fixture
def job(tmp_path):
    """One epoch of it is decided, and rows of the next are staged; Spark's files, and one of somebody's, are there."""
    made = DatabaseJob(tmp_path)
    made.identity = read_identity(made.place.ours)
    made.committer.marks().write_name("payments", NameMark({"another": "file:///x"}).and_of(made.identity).dumps())
    for name in ("offsets/0", "commits/.0.crc", "state/0/0/1.changelog", "metadata", "theirs.txt"):
        (made.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (made.folder / name).write_text(HEAD if name == "offsets/0" else "x")
    return made


HEAD = "v1\n{}\n{}"


def finished(job):
    """The decided epoch is visible and recorded."""
    job.committer.commit([job.decided])
    (job.folder / "commits" / "0").write_text("v1\n{}")
    return job


def kept(job):
    """What the database has of onceflow's, by table, for the job."""
    with sqlite3.connect(job.file) as file:
        marks = dict(file.execute("select id, mark from onceflow_marks"))
        rows = [
            file.execute(f"select count(*) from {table}").fetchone()[0]
            for table in ("onceflow_attempts", "onceflow_ledger", "payments_onceflow_staged")
        ]
    return rows, marks


def test_looking_changes_nothing(job):
    """It says what there is: files, what is open, the sinks."""
    finished(job)
    before = kept(job), sorted(job.folder.rglob("*"))
    with job.operator(deletes=True) as operator:
        seen = look(operator)
    assert (kept(job), sorted(job.folder.rglob("*"))) == before
    assert [each.seen.id for each in seen.open] == [job.late.transaction["attempt"]]
    assert (seen.job_id, seen.undone, seen.sinks) == (job.job_id, None, ("ledger",))
    assert seen.files > 5


def test_nothing_of_it_stays_but_what_is_visible(job):
    """Its rows stay, another job's name stays, somebody's file stays; of its own nothing does."""
    finished(job)
    with job.operator(deletes=True) as operator:
        delete(operator)
    assert job.visible() == ["a", "b"]
    rows, marks = kept(job)
    assert rows == [0, 0, 0]
    assert [NameMark.loads(mark).jobs for mark in marks.values()] == [{"another": "file:///x"}]
    assert [path.name for path in job.folder.rglob("*")] == ["theirs.txt"]
    assert job.place.is_empty()


def test_what_is_decided_is_not_given_up_unasked(job):
    """Refused before anything is changed; told so, its rows are aborted, and nothing of it is visible."""
    before = kept(job)
    with job.operator(deletes=True) as operator:
        with pytest.raises(ConfigurationError, match="epoch 0 is decided and not finished") as told:
            delete(operator)
        assert "--give-up-decided" in told.value.action
        assert kept(job) == before
        delete(operator, undecided_only=False)
    assert job.visible() == []
    assert kept(job)[0] == [0, 0, 0]
    assert job.place.is_empty()


def test_an_older_copy_is_refused(job):
    """Its marks are those of the job that went on."""
    finished(job)
    mark = job.committer.marks().read()
    job.committer.marks().write(json.dumps(json.loads(mark) | {"epoch": 9}))
    with job.operator(deletes=True) as operator, pytest.raises(CheckpointConflictError):
        delete(operator)
    assert (job.folder / "metadata").exists()


class DeathError(BaseException):
    """A kill: nobody cleans up behind it."""


def cut_off(monkeypatch, at, error):
    """Let the deletion end before one of its parts; how many there are."""
    real, count = deletion._parts, []

    def parts(operator):
        for number, part in enumerate(real(operator)):
            count.append(number)
            if number == at:

                def part():
                    raise error

            yield part

    monkeypatch.setattr(deletion, "_parts", parts)
    return count


PARTS = 13


@pytest.mark.parametrize("error", [DeathError(), PermissionError(13, "of another user", "state/0")])
@pytest.mark.parametrize("at", range(PARTS - 1))
def test_a_deletion_that_dies_on_its_way_goes_on_when_it_is_done_again(job, monkeypatch, at, error):
    """Before each part, by a kill and by a file that stays: starts and tools name it, and the next one ends it."""
    finished(job)
    with monkeypatch.context() as patched, job.operator(deletes=True) as operator:
        cut_off(patched, at, error)
        with pytest.raises((DeathError, CheckpointStoreError)) as died:
            delete(operator)
    if isinstance(died.value, CheckpointStoreError):
        assert "delete the job again" in died.value.action
    plan = plans.StartRequest("payments", Checkpointing(job.folder))
    for takeover in (None, "claim", "as-new"):
        with pytest.raises(CheckpointConflictError, match="is being deleted") as told:
            plans.place_of(dataclasses.replace(plan, takeover=takeover))
        assert "onceflow job delete" in told.value.action
    with pytest.raises(CheckpointConflictError, match="is being deleted"):
        job.operator()  # as the other tools have it
    with job.operator(deletes=True) as operator:
        assert look(operator).job_id == job.job_id
        delete(operator)
    assert job.visible() == ["a", "b"]
    rows, marks = kept(job)
    assert rows == [0, 0, 0]
    assert [NameMark.loads(mark).jobs for mark in marks.values()] == [{"another": "file:///x"}]
    assert [path.name for path in job.folder.rglob("*")] == ["theirs.txt"]
    assert plans.place_of(plan).is_empty()


def test_a_deletion_has_as_many_parts_as_are_tried(job, monkeypatch):
    """The test above kills before each but the last, which removes the folder if it is empty."""
    finished(job)
    count = cut_off(monkeypatch, -1, None)
    with job.operator(deletes=True) as operator:
        delete(operator)
    assert len(count) == PARTS


def test_a_start_that_comes_at_the_same_moment_is_not_deleted_under_its_feet(job, monkeypatch):
    """It had looked before the word was there, and has begun behind the fence: the deletion is refused."""
    finished(job)
    real = deletion.begin_deleting

    def begin(store, identity):
        place_of(job.folder).journal.start(identity.job_id)
        return real(store, identity)

    monkeypatch.setattr(deletion, "begin_deleting", begin)
    with job.operator(deletes=True) as operator, pytest.raises(FencedError):
        delete(operator)
    assert plans.place_of(plans.StartRequest("payments", Checkpointing(job.folder))).has_begun()


def test_a_deletion_that_is_fenced_leaves_the_word_of_another_one(job, monkeypatch):
    """Two delete at one moment: who comes second takes back only what it has said itself."""
    finished(job)
    real = deletion.begin_deleting

    def begin(store, identity):
        place_of(job.folder).journal.start(identity.job_id)
        real(store, identity)
        return real(store, identity)

    monkeypatch.setattr(deletion, "begin_deleting", begin)
    with job.operator(deletes=True) as operator, pytest.raises(FencedError):
        delete(operator)
    assert read_deleting(job.place.ours) is not None


def test_the_command(job, tmp_path, monkeypatch):
    """Told first, done with --yes; a job that runs is refused, with how to end it."""
    monkeypatch.setenv("ONCEFLOW_RUNTIME_DIR", str(tmp_path / "run"))
    finished(job)
    file = tmp_path / "payments.py"
    file.write_text(
        "import onceflow as of\n"
        f'job = of.Job("payments", checkpointing=of.Checkpointing({str(job.folder)!r}))\n'
        f'sink = of.DatabaseSink("sqlite:///{job.file}", "payments", name="ledger")\n'
        "@job.stream(sinks=[sink])\n"
        "def rows(spark):\n    raise AssertionError\n"
    )
    runner = CliRunner()
    with Server(JobStatus("payments", job.place.uri)):
        refused = runner.invoke(app, ["job", "delete", str(file), "--yes"])
        assert "it runs (pid" in str(refused.exception)
        assert "onceflow stop payments" in refused.exception.action
    told = runner.invoke(app, ["job", "delete", str(file)])
    assert "would be deleted" in told.stdout, told.exception
    assert "--yes does it" in told.stdout
    assert (job.folder / "metadata").exists()
    done = runner.invoke(app, ["job", "delete", str(file), "--yes", "--output", "json"])
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["deleted"], found["job_id"]) == (True, job.job_id)
    assert job.place.is_empty()


def test_a_cancelled_job_that_is_not_to_be_kept(job, caplog):
    """Deleted once what is decided is committed; before that it is kept, and the log says why."""
    given = Checkpointing(job.folder), "onceflow", [job.sink], "payments"
    delete_cancelled(*given)
    assert "is kept all the same: job" in caplog.text
    assert (job.folder / "metadata").exists()
    finished(job)
    delete_cancelled(*given)
    assert job.place.is_empty()
    assert job.visible() == ["a", "b"]
