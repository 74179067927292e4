"""Savepoints on a real HDFS, of checkpoints there: whole or not there, compared file by file, gone on from.

The checkpoints are made of the same parts as those of the unit tests; jobs that use them are in test_hdfs_job.py.
"""

import contextlib
import copy
import json

import pytest

from onceflow.checkpoint.restored import read_restored
from onceflow.errors import (
    CheckpointConflictError,
    CheckpointCorruptError,
    CheckpointStoreError,
    ConfigurationError,
)
from onceflow.launch.ownership import identify, require_complete
from onceflow.operations.savepoints import reading, restoring, resuming, writing
from onceflow.spark.locations import place_at
from onceflow.storage.tree import Folder, folder_of
from tests.support import checkpoints

pytestmark = [pytest.mark.spark, pytest.mark.faults]


@pytest.fixture
def top(hdfs):
    """A folder of the test's own."""
    return folder_of(hdfs.store())


def on_hdfs(top, local, epochs):
    """A checkpoint with so many epochs done."""
    return checkpoints.copied(place_at(f"{top.where}/c", 100), local, epochs)


@pytest.fixture
def place(top, tmp_path):
    """A checkpoint with four epochs."""
    return on_hdfs(top, tmp_path / "c", 4)


def refused(kind, function, *arguments, **keywords):
    with pytest.raises(kind) as raised:
        function(*arguments, **keywords)
    return raised.value


def test_a_folder_there_does_what_one_on_a_disk_does(top, tmp_path):
    """Each method, in one walk, on HDFS and on a disk: the same answers."""
    for folder in (top.below("x/y"), Folder(tmp_path / "x/y")):
        assert (folder.is_taken(), folder.names(), folder.files(), folder.size("")) == (False, [], [], (0, 0))
        folder.write("a/b", b"0123456789")
        folder.write("c", b"")
        assert (sorted(folder.files()), sorted(folder.names()), folder.names("a")) == (["a/b", "c"], ["a", "c"], ["b"])
        assert (folder.read("a/b"), folder.read("a/b", 4), folder.read("a/b", 40)) == (
            b"0123456789",
            b"0123",
            b"0123456789",
        )
        assert [folder.has(path) for path in ("a/b", "b", "a/b/c")] == [True, False, False]
        assert (folder.size("a"), folder.size("c"), folder.size("d")) == ((1, 10), (1, 0), (0, 0))
        beside = folder.beside(".made-", "-1")
        beside.take(folder, ["a/b"])
        beside.copy(folder, ["c"])
        assert dict(beside.held(["a/b", "c"])) == {
            "a/b": (10, "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"),
            "c": (0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        }
        with pytest.raises(FileNotFoundError):
            beside.take(folder, ["nowhere"])
        with pytest.raises(OSError):
            beside.become(folder)
        beside.sync()
        to = folder.beside("to-", "")
        to.store.make()  # an empty one is in nobody's way
        beside.become(to)
        assert (beside.is_taken(), sorted(to.files())) == (False, ["a/b", "c"])
        to.remove(["c", "nowhere"])
        to.remove_empty(["a", ""])
        assert to.files() == ["a/b"]
        to.remove_all("a")
        to.remove_empty(["nowhere", ""])
        assert not to.is_taken()
        folder.remove_all()
        folder.remove_all()
        assert not folder.is_taken()


def test_a_savepoint_is_whole_and_what_was_changed_is_named(place, top):
    """Made, read, verified, exported, disposed of: as on a disk, and nothing is left beside it."""
    to = f"{top.where}/s/one"
    manifest = writing.create(place, to, "fraud").manifest
    assert (manifest.epoch, manifest.checkpoint, manifest.partitions) == (3, place.uri, 2)
    assert reading.verify(to) == manifest == reading.read(to)
    assert folder_of(place.ours).names() == ["job.json", "journal"]
    copy = f"{top.where}/s/two"
    assert writing.export(to, copy) == manifest
    top.write("s/notes", b"mine")
    assert [path for path, _ in reading.found(f"{top.where}/s")] == [to, copy]
    assert "is there already" in str(refused(ConfigurationError, writing.create, place, to))

    files = top.below("s/two/files")
    files.remove(["commits/3"])
    files.write("commits/4", b"v2\n{}")
    files.store.below("state").below("0").below("0").below("SSTs").replace("000008-a.sst", b"tss")
    top.write("s/two/notes.txt", b"mine")
    wrong = str(refused(CheckpointCorruptError, reading.verify, copy))
    for told in (
        "commits/3 is missing",
        "commits/4 was added",
        "a.sst was changed: its SHA-256",
        "notes.txt was added",
    ):
        assert told in wrong
    refused(CheckpointCorruptError, writing.export, copy, f"{top.where}/s/three")
    assert sorted(top.names("s")) == ["notes", "one", "two"]
    assert writing.dispose(copy) == ["files/commits/4", "notes.txt"]
    assert writing.dispose(to) == []
    assert sorted(top.names("s")) == ["notes", "two"]


def test_a_resumed_run_and_a_claim_and_an_older_epoch(place, top):
    """A new job with nothing decided; the old job with its journal, its driver fenced; an epoch that is retained."""
    savepoint = f"{top.where}/s"
    manifest = writing.create(place, savepoint, "fraud").manifest
    new = place_at(f"{top.where}/new", 100)
    new.records.make()  # as a check of the job leaves it
    assert not restoring.already(new, resuming.id_of(savepoint), claim=False)
    with resuming.opened(savepoint, new.checkpoint.where) as (path, found):
        told = resuming.lines(found, resuming.written_again(path, found), claim=False)
        assert "that job has decided nothing behind it so far: no decided row is written again" in told
        made = restoring.restore(path, found, new)
    assert restoring.already(new, manifest.id, claim=False)
    identity = identify(new, "cluster", "onceflow", None)
    assert identity.job_id == made.job_id != checkpoints.JOB
    assert (new.journal.history()[0].decided, new.checkpoint.newest_commit()) == (None, 3)
    assert new.checkpoint.query_id() not in ("", place.checkpoint.query_id())
    require_complete(new)

    with resuming.opened(f"{place.uri}@1", f"{top.where}/older") as (path, found):
        restoring.restore(path, found, place_at(f"{top.where}/older", 100))
    older = place_at(f"{top.where}/older", 100)
    assert (older.checkpoint.newest_offsets(), older.checkpoint.newest_commit()) == (1, 1)
    assert read_restored(older.ours).savepoint == f"{checkpoints.JOB}@1" == resuming.id_of(f"{place.uri}@1")
    error = refused(ConfigurationError, resuming.id_of, place.uri)
    assert "@EPOCH" in error.action

    driver = place_at(place.uri, 100).journal
    driver.start(checkpoints.JOB)
    claimed = place_at(f"{top.where}/claimed", 100)
    restoring.restore(savepoint, manifest, claimed, claim=True)
    assert driver.is_replaced()
    assert identify(claimed, "cluster", "onceflow", None).job_id == checkpoints.JOB
    assert claimed.journal.history()[0].decided.epoch == 3
    assert sorted(top.names()) == ["c", "claimed", "new", "older", "s"]
    refused(CheckpointConflictError, restoring.restore, savepoint, manifest, claimed)


def test_positions_alone(place, top):
    """No state, no epoch: where each source begins."""
    savepoint, new = f"{top.where}/s", place_at(f"{top.where}/new", 100)
    restoring.restore(savepoint, writing.create(place, savepoint).manifest, new, with_state=False)
    assert not new.checkpoint.has_run()
    assert json.loads(new.checkpoint.initial_offsets(0)) == {"payments": {"0": 40, "1": 40}}


def test_schemas_of_state_are_named_in_the_new_place(place, top):
    """Spark names them by the checkpoint's URI: the new one names its own, whatever becomes of the old one."""
    schema, to = "state/0/_stateSchema/default/0_x", folder_of(place.checkpoint.store)
    to.write(schema, b"a schema")
    store = {"storeName": "default", "stateSchemaFilePaths": [f"{place.uri}/{schema}"]}
    to.write("state/0/_metadata/v2/0", b"v2\n" + json.dumps({"stateStoreInfo": [store]}).encode())
    savepoint, new = f"{top.where}/s", place_at(f"{top.where}/new", 100)
    restoring.restore(savepoint, writing.create(place, savepoint).manifest, new)
    told = json.loads(folder_of(new.checkpoint.store).read("state/0/_metadata/v2/0").partition(b"\n")[2])
    assert told["stateStoreInfo"][0]["stateSchemaFilePaths"] == [f"{new.uri}/{schema}"]
    require_complete(new)


def failing(fs, name, at):
    """HDFS, of which one call fails."""
    found, call, left = copy.copy(fs), getattr(fs, name), [at]

    def counted(*given, **named):
        left[0] -= 1
        if left[0] == 0:
            raise OSError("HDFS is gone")
        return call(*given, **named)

    setattr(found, name, counted)
    return found


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("_make_folder", 1),
        ("_make_folder", 9),
        ("_copy_files", 1),
        ("_copy_files", 2),
        ("digests", 1),
        ("_make_file", 1),
        ("_name", 1),
        ("_name", 2),
    ],
)
def test_whatever_fails_leaves_nothing_in_its_place(place, top, monkeypatch, name, at):
    """Each kind of call fails once: nothing stands there, nothing is left, and it can be made again."""
    to = f"{top.where}/s"
    fails = Folder(to, failing(top.fs, name, at))
    with monkeypatch.context() as patched:
        patched.setattr(writing, "folder_at", lambda _: fails)
        refused(CheckpointStoreError, writing.create, place, to)
    assert top.names() == ["c"]
    assert writing.create(place, to).manifest == reading.verify(to)


def test_a_rename_whose_answer_is_lost_is_found(top):
    """The folder's number tells that it has its new name; where it has not, nobody is told that it has."""
    for done in (True, False):
        fs = copy.copy(top.fs)

        def name(path, to, *, over, done=done):
            if done:
                top.fs._name(path, to, over=over)
            raise OSError("the answer is lost")

        fs._name = name
        made = top.below(f"made-{done}")
        made.write("x", b"x")
        to = top.below(f"to-{done}")
        lost = Folder(made.where, fs)
        with contextlib.nullcontext() if done else pytest.raises(OSError, match="the answer is lost"):
            lost.become(to)
        assert to.has("x") is done


def test_state_that_is_purged_while_it_is_copied_is_told(place, top):
    """Behind the hold the job goes on, and may forget an old epoch: no savepoint, and what to do about it."""
    to = folder_of(place.checkpoint.store)

    @contextlib.contextmanager
    def held():
        yield
        to.remove_all("state/0/1")

    error = refused(CheckpointConflictError, writing.create, place, f"{top.where}/s", held=held)
    assert "was removed while the savepoint was taken" in str(error)
    assert top.names() == ["c"]


def test_what_the_journal_forgets_is_copied_while_the_job_is_held(place, top):
    """Of journal, offsets and commits all is there before the job goes on."""

    @contextlib.contextmanager
    def held():
        yield
        for name in ("offsets", "commits", "onceflow"):
            folder_of(place.checkpoint.store).remove_all(name)

    writing.create(place, f"{top.where}/s", held=held)
    assert reading.verify(f"{top.where}/s").epoch == 3


def test_a_savepoint_travels(place, top, tmp_path):
    """Taken of a checkpoint on HDFS to a disk and back, and of one on a disk: the same files, gone on from on both."""
    local = checkpoints.make(tmp_path / "local", 2)
    for of, to, back in ((place, tmp_path, top.where), (local, top.where, tmp_path)):
        checkpoints.it_travels(of, str(to), str(back))
