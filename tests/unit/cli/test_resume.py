"""Resume: a checkpoint made of a savepoint is a new job's, whole or not there; what is written again is said before."""

import errno
import json
import os
import shutil
import sqlite3
import time
from contextlib import closing
from types import SimpleNamespace

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import onceflow as of
from examples import own_store
from onceflow.checkpoint import receipts
from onceflow.checkpoint.identity import JobIdentity, Mark, NameMark, read_identity
from onceflow.checkpoint.journal import above_all
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.restored import read_restored
from onceflow.cli.resume import resume
from onceflow.connectors.contract import Committer, Run, Shard
from onceflow.errors import (
    CheckpointConflictError,
    CheckpointCorruptError,
    CheckpointStoreError,
    ConfigurationError,
    SetupError,
)
from onceflow.launch import taking_over
from onceflow.launch.marked import require_not_lost, require_not_rewound
from onceflow.launch.ownership import claimed, identify, require_complete
from onceflow.operations.savepoints import reading, restoring, resuming, writing
from onceflow.operations.savepoints.contents import contents
from onceflow.options.checkpointing import Checkpointing
from onceflow.options.job_options import JobOptions
from onceflow.options.restarting import NoRestart
from onceflow.storage.tree import Folder
from onceflow.twophase.coordinator import objection
from onceflow.twophase.layout import Layout, StateOperator
from onceflow.twophase.messages import FailureKind, Surveyed
from onceflow.twophase.records import Decide, Start
from tests.support import checkpoints
from tests.support.advice import parts_of


@pytest.fixture
def old(tmp_path):
    """A job's checkpoint with four epochs."""
    return checkpoints.make(tmp_path / "old", 4)


@pytest.fixture
def savepoint(tmp_path, old):
    """A savepoint of its newest epoch."""
    writing.create(old, tmp_path / "s", "fraud")
    return tmp_path / "s"


@pytest.fixture
def new(tmp_path):
    """Where the new run's checkpoint is to be."""
    return Place.at(tmp_path / "new", retain=100)


def refused(kind, function, *arguments, **keywords):
    """What a call raises, which is of this class."""
    with pytest.raises(kind) as raised:
        function(*arguments, **keywords)
    return parts_of(raised.value, kind)


def restored(savepoint, place, **how):
    """A checkpoint made of a savepoint."""
    return restoring.restore(savepoint, reading.verify(savepoint), place, **how)


def test_a_resumed_run_is_a_new_job(old, savepoint, new):
    """Its own id, names and journal; of the old job nothing is met, and nothing of it is touched."""
    before = {path: path.read_bytes() for path in old.ours.folder.rglob("*") if path.is_file()}
    made = restored(savepoint, new)
    identity = identify(new, "cluster", "onceflow", None)
    assert identity.job_id == made.job_id != checkpoints.JOB
    assert (identity.checkpoint, identity.left) == (new.uri, "")
    assert identify(new, "cluster", "onceflow", None) == identity  # every later start is its own
    history, entries = new.journal.history()
    assert (history.job_id, history.decided, history.layout) == (identity.job_id, None, checkpoints.LAYOUT)
    assert not [entry for entry in entries if isinstance(entry.record, Decide)]
    assert {path: path.read_bytes() for path in before} == before
    assert new.checkpoint.newest_commit() == 3
    assert new.checkpoint.query_id() not in ("", old.checkpoint.query_id())  # else Spark ends the old one's query
    require_complete(new)
    require_not_lost(new, [], "onceflow", "fraud")
    history = Place.at(new.checkpoint.folder, retain=100).journal.start(identity.job_id)
    assert history.incarnation > old.journal.history()[0].incarnation + 1_000_000


def test_nothing_of_a_later_epoch_comes_along(old, tmp_path, new):
    """Of an older epoch: no offsets, commits, state or decision of those behind it."""
    with resuming.opened(f"{tmp_path / 'old'}@1", new.checkpoint.folder) as (path, manifest):
        restoring.restore(path, manifest, new)
    folder = new.checkpoint.folder
    assert (new.checkpoint.newest_offsets(), new.checkpoint.newest_commit()) == (1, 1)
    versions = {path.name.lstrip(".")[:1] for path in folder.glob("state/0/[01]/*.changelog")}
    assert versions == {"1", "2"}
    assert not list(folder.glob("state/0/*/SSTs/*"))
    assert manifest.id == f"{checkpoints.JOB}@1" == resuming.id_of(f"{tmp_path / 'old'}@1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]  # the temporary one is disposed of


def test_a_death_on_the_way_leaves_nothing_in_the_place(savepoint, new, tmp_path, monkeypatch):
    """Wherever it comes: the next try makes it whole, and a start in between finds no checkpoint that lacks files."""
    real, files = os.link, len(reading.read(savepoint).files)

    class Death(BaseException):
        pass

    for dies_at in (0, files // 2, files - 8):
        calls = iter(range(10_000))

        def link(source, to, *, calls=calls, dies_at=dies_at):
            if next(calls) == dies_at:
                raise Death
            real(source, to)

        with monkeypatch.context() as patched:
            patched.setattr(os, "link", link)
            patched.setattr(shutil, "rmtree", lambda *_, **__: None)  # nobody cleans up behind a death
            with pytest.raises(Death):
                restored(savepoint, new)
        assert new.is_empty()
        assert not new.checkpoint.folder.exists()
    restored(savepoint, new)
    assert restoring.already(new, reading.read(savepoint).id, claim=False)


def test_a_death_before_the_first_start_is_gone_on_with(savepoint, new):
    """The folder has its name and no job.json yet: the next start is the new job's, whatever flag it has."""
    made = restored(savepoint, new)
    manifest = reading.read(savepoint)
    assert restoring.already(new, manifest.id, claim=False)
    assert claimed(new).job_id == made.job_id  # not the old job's
    assert (
        identify(new, None, "onceflow", None).job_id == made.job_id
    )  # before the systems are known nothing is written
    assert read_identity(new.ours) is None
    assert identify(new, "cluster", "onceflow", None).job_id == made.job_id


def test_a_job_whose_sinks_take_no_part_is_known_by_its_name_too(old, savepoint, new, tmp_path):
    """At-least-once sinks alone have no system in job.json; it is there all the same, and so a savepoint can be taken.

    From that one another run begins, and so on.
    """
    made = restored(savepoint, new)
    assert identify(new, None, "onceflow", None).job_id == made.job_id
    assert identify(new, "", "onceflow", None) == read_identity(new.ours)
    assert (read_identity(new.ours).job_id, read_identity(new.ours).cluster_id) == (made.job_id, "")
    new.journal.start(made.job_id)
    checkpoints.run(new, 4, decide=False)
    again = writing.create(new, tmp_path / "again").manifest
    assert (again.job_id, again.epoch) == (made.job_id, 4)
    third = Place.at(tmp_path / "third", retain=100)
    assert restored(tmp_path / "again", third).origin == made.job_id
    assert identify(third, "", "onceflow", None).job_id not in (made.job_id, checkpoints.JOB)


def test_a_checkpoint_that_is_there_is_not_written_over(savepoint, old, new, tmp_path):
    """Neither another savepoint's, nor that of a job that began there, the old job's own among them."""
    restored(savepoint, new)
    writing.create(old, tmp_path / "second")
    another = reading.read(tmp_path / "second").id
    refused(CheckpointConflictError, restoring.already, new, another, claim=False)
    refused(CheckpointConflictError, restoring.already, new, reading.read(savepoint).id, claim=True)
    refused(CheckpointConflictError, restoring.already, old, another, claim=False)
    refused(CheckpointConflictError, restored, tmp_path / "second", new)
    assert read_restored(new.ours).savepoint == reading.read(savepoint).id
    assert not restoring.already(Place.at(tmp_path / "third", retain=100), another, claim=False)


def test_a_claim_goes_on_as_the_old_job(savepoint, old, new):
    """With its id and its journal; a driver that still runs on the old checkpoint is fenced."""
    driver = Place.at(old.checkpoint.folder, retain=100).journal
    driver.start(checkpoints.JOB)
    restored(savepoint, new, claim=True)
    assert driver.is_replaced()
    identity = identify(new, "cluster", "onceflow", None)
    assert (identity.job_id, identity.checkpoint) == (checkpoints.JOB, new.uri)
    assert new.journal.history()[0].decided.epoch == 3
    assert new.checkpoint.query_id() == old.checkpoint.query_id()
    assert not new.has_undone()


def test_a_claim_that_cannot_be_made_leaves_the_old_job_running(savepoint, old, new, monkeypatch):
    """The disk is full: no start is in the old journal, and its driver goes on. The same command does it later."""
    driver = Place.at(old.checkpoint.folder, retain=100).journal
    driver.start(checkpoints.JOB)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "take", full)
        refused(CheckpointStoreError, restored, savepoint, new, claim=True)
    assert not driver.is_replaced()
    assert new.is_empty()
    restored(savepoint, new, claim=True)
    assert driver.is_replaced()


def test_a_claim_behind_the_newest_decision_is_refused(savepoint, old, new):
    """The old job has gone on: it would decide the same epochs again, with other rows, under the same names."""
    checkpoints.run(old, 4)
    error = refused(CheckpointConflictError, restored, savepoint, new, claim=True)
    assert "has decided epoch 4" in str(error)
    assert new.is_empty()
    restored(savepoint, new)  # as it says: without --claim


class MarkOnly(Committer):
    """A system that knows of a job its mark."""

    def __init__(self, mark):
        self.mark = mark

    def marks(self):
        return self

    def read(self):
        return self.mark.dumps()

    def __getattr__(self, name):
        raise AssertionError(name)


MarkOnly.__abstractmethods__ = frozenset()


@pytest.mark.parametrize(("epoch", "allowed"), [(3, True), (4, False)])
def test_where_the_old_checkpoint_is_gone_the_mark_tells(savepoint, old, new, epoch, allowed):
    """A claim of the newest decided epoch goes on; of an older one it is refused, and another way is named."""
    nonce = [entry.nonce for entry in old.journal.read() if isinstance(entry.record, Start)][-1]
    shutil.rmtree(old.checkpoint.folder)
    restored(savepoint, new, claim=True)
    identity = identify(new, "cluster", "onceflow", None)
    of = {"alerts": MarkOnly(Mark(1, nonce, epoch))}
    if allowed:
        require_not_rewound(of, new.journal, identity, new.checkpoint)
        return
    error = refused(CheckpointConflictError, require_not_rewound, of, new.journal, identity, new.checkpoint)
    assert "resume as a new job" in error.action
    shutil.rmtree(new.checkpoint.folder)
    restored(savepoint, new)
    identity = identify(new, "cluster", "onceflow", None)
    require_not_rewound({}, new.journal, identity, new.checkpoint)


def test_what_is_written_again_is_told_by_sink_and_source(savepoint, old):
    """From the old job's journal: rows of each sink behind the savepoint, and which records are read for them."""
    manifest = reading.read(savepoint)
    assert resuming.written_again(savepoint, manifest).epochs is None
    checkpoints.run(old, 4)
    checkpoints.run(old, 5)
    told = resuming.lines(manifest, resuming.written_again(savepoint, manifest), claim=False)
    text = "\n".join(told)
    assert "WRITTEN AGAIN: what that job has written in epochs 4 to 5" in text
    assert "sink alerts: 10 rows" in text
    assert 'kafka:payments: from {"payments": {"0": 40, "1": 40}} to {"payments": {"0": 60, "1": 60}}' in text
    assert "at most 40 records" in text


def test_what_the_old_job_has_forgotten_is_said(savepoint, old, monkeypatch):
    """Its oldest receipts were let go: the rows that are told are not passed off as all of them."""
    monkeypatch.setattr(receipts, "_FULL", 1)
    monkeypatch.setattr(receipts, "_FILES", 2)
    monkeypatch.setattr(old.journal, "_retain", 1)
    for epoch in range(4, 12):
        checkpoints.run(old, epoch)
        old.journal.purge()
    manifest = reading.read(savepoint)
    text = "\n".join(resuming.lines(manifest, resuming.written_again(savepoint, manifest), claim=False))
    first = min(receipt.epoch for receipt in old.journal.receipts())
    assert first > 4
    assert f"in epochs {first} to 11" in text
    assert f"before epoch {first}, which its checkpoint has forgotten" in text


def test_what_is_not_known_of_the_old_job_is_said(savepoint, old):
    """Its checkpoint is gone, or another job's stands there: nothing is passed off as nothing."""
    manifest = reading.read(savepoint)
    shutil.rmtree(old.checkpoint.folder)
    told = resuming.lines(manifest, resuming.written_again(savepoint, manifest), claim=False)
    assert "is not known here" in "\n".join(told)
    checkpoints.make(old.checkpoint.folder, 0)
    (old.ours.folder / "job.json").unlink()
    assert not resuming.written_again(savepoint, manifest).known


@pytest.mark.parametrize("error", [SetupError("no library"), ConfigurationError("no credentials")])
def test_an_old_job_that_cannot_be_reached_from_here_is_not_known(savepoint, monkeypatch, error):
    """A savepoint that has travelled to a machine without its store's libraries or credentials can be gone on from."""

    def refused(*_, **__):
        raise error

    manifest = reading.read(savepoint)
    monkeypatch.setattr(resuming, "place_at", refused)
    told = resuming.lines(manifest, resuming.written_again(savepoint, manifest), claim=False)
    assert "is not known here" in "\n".join(told)


def test_it_asks_before_it_writes(savepoint, new, monkeypatch):
    """Without a terminal and without --yes nothing is done; with --yes it is, once."""
    options = JobOptions(Checkpointing(str(new.checkpoint.folder)), NoRestart())
    job = SimpleNamespace(options=options)
    how = {"claim": False, "with_state": True}
    with pytest.raises(Exception, match="no terminal"):
        resume(job, str(savepoint), {}, partial=False, yes=False, **how)
    assert new.is_empty()
    resume(job, str(savepoint), {}, partial=False, yes=True, **how)
    first = read_restored(new.ours)
    resume(job, str(savepoint), {}, partial=False, yes=False, **how)  # started again by a supervisor: it goes on
    assert read_restored(new.ours) == first
    assert CliRunner() is not None


def test_a_savepoint_that_was_changed_is_not_resumed_from(savepoint, new):
    """One byte of state is enough: nothing is made, and the copy that is whole does."""
    shutil.copytree(savepoint, savepoint.with_name("copy"))
    (savepoint.with_name("copy") / "files" / "state/0/0/3_00000003-0.zip").write_bytes(b"")
    with (
        pytest.raises(CheckpointCorruptError),
        resuming.opened(str(savepoint.with_name("copy")), new.checkpoint.folder),
    ):
        pass
    with resuming.opened(str(savepoint), new.checkpoint.folder) as (path, manifest):
        restoring.restore(path, manifest, new)


def test_a_checkpoint_needs_an_epoch(old, savepoint):
    """A whole checkpoint is no savepoint: which epoch is meant must be said."""
    error = refused(ConfigurationError, resuming.id_of, str(old.checkpoint.folder))
    assert "@EPOCH" in error.action
    assert resuming.id_of(f"{old.checkpoint.folder}@2").endswith("@2")
    refused(ConfigurationError, resuming.id_of, str(savepoint.parent / "nowhere"))


def test_a_newer_spark_is_refused(savepoint, new, monkeypatch):
    """An older one may find out late that it cannot read the files."""
    manifest = reading.read(savepoint)
    monkeypatch.setattr(restoring, "version", lambda _: "3.5.9")
    refused(ConfigurationError, restoring.restore, savepoint, manifest, new)
    monkeypatch.undo()
    restoring.restore(savepoint, manifest, new)


def test_rows_of_a_resumed_job_replace_those_of_the_old_one(savepoint, old, new, tmp_path):
    """A store that keeps start and epoch beside a row takes them, whatever starts the old job, or another resume, had.

    With numbers of its own from 1 on they would be taken for late ones, and be dropped in silence.
    """
    store = str(tmp_path / "pairs.db")
    with closing(sqlite3.connect(store)) as file:
        file.execute(own_store.PAIRS)

    def put(place, epoch, word, above=0):
        journal = place.journal.start(place.journal.history()[0].job_id, above)
        writer = own_store.StoreWriter(store, Shard(Run("job", "onceflow", journal.incarnation, epoch), 0, 0))
        writer.write(pa.RecordBatch.from_pydict({"key": ["k"], "value": [word]}))
        writer.prepare()

    def said():
        with closing(sqlite3.connect(store)) as file:
            return file.execute("select value from pairs").fetchone()[0]

    for _ in range(50):
        put(old, 9, "of the old job")
    restored(savepoint, new)
    put(new, 4, "of the new job")
    assert said() == "of the new job"
    while above_all() <= new.journal.history()[0].incarnation:
        time.sleep(0.02)
    third = Place.at(tmp_path / "third", retain=100)
    restored(savepoint, third)
    put(third, 4, "of another one")
    assert said() == "of another one"
    assert third.journal.starts() == 2  # what `onceflow checkpoints` counts


def test_starts_of_a_resumed_job_are_newer_though_the_clock_was_set_back(old, new, tmp_path):
    """Else a store that keeps start and epoch beside a row would drop its rows as late ones, in silence."""
    ahead = 2 * above_all()
    old.journal.start(checkpoints.JOB, ahead)
    writing.create(old, tmp_path / "ahead", "fraud")
    restored(tmp_path / "ahead", new)
    assert new.journal.history()[0].incarnation > ahead


def test_a_job_with_a_store_that_keeps_no_mark_has_starts_by_the_clock(old):
    """An older copy of its checkpoint is not noticed: started all the same, its rows are no late ones."""
    above = taking_over._above([own_store.StoreSink("pairs.db", "id")])
    assert old.journal.start(checkpoints.JOB, above).incarnation > 200_000_000
    assert taking_over._above([of.DatabaseSink("sqlite:///x", "t", key="k")]) == 0


def test_what_the_start_before_has_noted_is_found_over_a_leap(old):
    """What an epoch without a decision has read is compared with Spark's file, though numbers of starts leap."""
    checkpoints.run(old, 4, decide=False)
    noting = Place.at(old.checkpoint.folder, retain=100).journal
    noting.start(checkpoints.JOB)
    noting.passed.adopt(None)
    noting.passed.note(4, checkpoints.offsets(4))
    found = Place.at(old.checkpoint.folder, retain=100)
    found.journal.start(checkpoints.JOB, above_all())
    assert found.journal.passed.newest() == (4, checkpoints.offsets(4))
    checkpoints.write(old.checkpoint.folder / "offsets" / "4", checkpoints.offsets(5))
    with pytest.raises(CheckpointCorruptError, match="is not what was decided, or noted"):
        contents(found)


def test_positions_alone_begin_a_query_anew(savepoint, new):
    """No state, no epoch: epoch 0 begins where the savepoint's stood, and the plan may keep any state."""
    restored(savepoint, new, with_state=False)
    assert not new.checkpoint.has_run()
    assert not new.checkpoint.is_stateful()
    assert json.loads(new.checkpoint.initial_offsets(0)) == {"payments": {"0": 40, "1": 40}}
    identify(new, "cluster", "onceflow", None)
    require_complete(new)
    history = new.journal.history()[0]
    other = Layout(checkpoints.LAYOUT.sources, (StateOperator(("alerts",), "another aggregate", "9"),))
    assert objection(history, None, 0, Surveyed(other)) is None
    exchanged = Layout((checkpoints.LAYOUT.sources[0].__class__(("others",), "cluster", "kafka:payments", "0"),), ())
    assert objection(history, None, 0, Surveyed(exchanged)).kind is FailureKind.LAYOUT_MOVED


def test_state_that_the_plan_keeps_otherwise_is_refused_by_name(savepoint, new):
    """With the state restored, a plan that keeps another, one more or none is refused before anything is written."""
    restored(savepoint, new)
    history = new.journal.history()[0]
    for states in ((), (StateOperator(("alerts",), "another aggregate", "9"),), checkpoints.LAYOUT.states * 2):
        failure = objection(history, None, 4, Surveyed(Layout(checkpoints.LAYOUT.sources, states)))
        assert failure.kind is FailureKind.LAYOUT_MOVED, states
    assert objection(history, None, 4, Surveyed(checkpoints.LAYOUT)) is None


def test_schemas_of_state_are_read_from_the_new_checkpoint(tmp_path):
    """Spark names them by absolute paths: a copy that kept them would read the old job's, until that is gone."""
    old, schema = checkpoints.make(tmp_path / "old", 2), "state/0/_stateSchema/default/0_x"
    checkpoints.write(tmp_path / "old" / schema, "a schema")
    store = {"storeName": "default", "stateSchemaFilePaths": [f"file:{tmp_path}/old/{schema}"]}
    checkpoints.write(tmp_path / "old/state/0/_metadata/v2/0", "v2\n" + json.dumps({"stateStoreInfo": [store]}))
    writing.create(old, tmp_path / "s")
    shutil.rmtree(tmp_path / "old")
    restored(tmp_path / "s", Place.at(tmp_path / "new", retain=100))
    told = json.loads((tmp_path / "new/state/0/_metadata/v2/0").read_text().partition("\n")[2])
    assert told["stateStoreInfo"][0]["stateSchemaFilePaths"] == [f"file:{tmp_path}/new/{schema}"]
    assert (tmp_path / "new" / schema).read_text() == "a schema"


@pytest.mark.parametrize(("where", "again"), [("new", True), ("elsewhere", False)])
def test_a_command_with_a_savepoint_in_it_does_not_begin_its_job_twice(tmp_path, savepoint, old, new, where, again):
    """The job's checkpoint is lost: the same command would write again all that the job wrote behind the savepoint.

    In another folder it is another job, on purpose; and the job that the savepoint is of may have been in this one.
    """
    job = SimpleNamespace(options=JobOptions(Checkpointing(str(tmp_path / "new")), NoRestart()))
    of_old = JobIdentity(checkpoints.JOB, new.uri, "cluster", "onceflow")
    resume(job, str(savepoint), {}, claim=False, with_state=True, partial=False, yes=True)
    first = identify(new, "cluster", "onceflow", None)
    mark = NameMark().and_of(of_old).and_of(first)
    sink = SimpleNamespace(read_name_mark=lambda *_: mark.dumps())
    shutil.rmtree(tmp_path / "new")
    job.options = JobOptions(Checkpointing(str(tmp_path / where)), NoRestart())
    resume(job, str(savepoint), {}, claim=False, with_state=True, partial=False, yes=True)
    place = Place.at(tmp_path / where, retain=100)
    if again:
        error = refused(CheckpointConflictError, require_not_lost, place, [sink], "onceflow", "fraud")
        assert first.job_id in error.what
        assert "another folder" in error.action
    else:
        require_not_lost(place, [sink], "onceflow", "fraud")


def test_epochs_that_no_decision_names_are_told(savepoint, old):
    """Of a job whose sinks take no part in decisions nothing is known but how far it went."""
    checkpoints.run(old, 4, decide=False)
    manifest = reading.verify(savepoint)
    told = resuming.lines(manifest, resuming.written_again(savepoint, manifest), claim=False)
    assert any("has done epochs up to 4" in line for line in told)
