"""Savepoints in S3, of checkpoints there: whole or none, whoever dies when; compared file by file, gone on from.

The checkpoints are made of the same parts as those of the unit tests; at the end there are jobs that use them.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from onceflow.checkpoint.identity import create_identity, read_identity
from onceflow.checkpoint.place import OURS, PARTS, Place
from onceflow.checkpoint.restored import FILE as RESTORED_FILE
from onceflow.checkpoint.restored import read_restored, who_makes
from onceflow.errors import (
    CheckpointConflictError,
    CheckpointCorruptError,
    CheckpointStoreError,
    ConfigurationError,
)
from onceflow.launch.ownership import identify, require_complete
from onceflow.operations.savepoints import reading, restoring, resuming, writing
from onceflow.spark.locations import folder_at, place_at
from onceflow.storage import objects, s3
from onceflow.storage.making import Making, making_of
from onceflow.storage.tree import Folder, folder_of
from tests.support import checkpoints, elsewhere
from tests.support.elsewhere import RECORDS, newest, resumed
from tests.support.harness import rows_of, wait_until
from tests.support.s3 import InS3, a_server

pytestmark = [pytest.mark.faults]

RESTORED = f"{OURS}/{RESTORED_FILE}"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with a_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def reached(server, monkeypatch):
    """This process finds the server as a command does, by its environment."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    for cached in (s3._session, s3._bucket):
        cached.cache_clear()
    yield server
    for cached in (s3._session, s3._bucket):
        cached.cache_clear()


@pytest.fixture
def top(reached):
    """A folder of the test's own."""
    return folder_at(f"s3://{reached.bucket}/t{uuid.uuid4().hex[:8]}")


def in_s3(top, local, epochs):
    """A checkpoint with so many epochs done."""
    return checkpoints.copied(place_at(f"{top.where}/c", 100), local, epochs)


@pytest.fixture
def place(top, tmp_path):
    """A checkpoint with four epochs."""
    return in_s3(top, tmp_path / "c", 4)


def refused(kind, function, *arguments, **keywords):
    with pytest.raises(kind) as raised:
        function(*arguments, **keywords)
    return raised.value


def keys(server, top):
    """All that is below a folder, as the service has it."""
    client = server.client()
    prefix = top.fs.key(top.where) + "/"
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=server.bucket, Prefix=prefix)
    return client, [each["Key"].removeprefix(prefix) for page in pages for each in page.get("Contents", ())]


def make(folder, last, of=None, paths=()):
    """Make a folder of another's files."""
    with folder.making(last, [path.partition("/")[0] for path in paths]) as draft:
        draft.folder.below(last.rpartition("/")[0]).store.make()
        if of is not None:
            draft.folder.copy(of, paths)
        draft.finish(b"another")


def test_a_folder_there_does_what_one_on_a_disk_does(top, tmp_path):
    """Each method, in one walk, in S3 and on a disk: the same answers."""
    for folder in (top.below("x/y"), Folder(tmp_path / "x/y")):
        assert (folder.is_taken(), folder.names(), folder.files(), folder.size("")) == (False, [], [], (0, 0))
        folder.write("a/b", b"0123456789")
        folder.write("c", b"")
        assert (sorted(folder.files()), sorted(folder.names()), folder.names("a")) == (["a/b", "c"], ["a", "c"], ["b"])
        assert [folder.read(*given) for given in (("a/b",), ("a/b", 4), ("a/b", 40), ("c", 4))] == [
            b"0123456789",
            b"0123",
            b"0123456789",
            b"",
        ]
        with pytest.raises(FileNotFoundError):
            folder.read("nowhere", 4)
        assert [folder.has(path) for path in ("a/b", "b", "a/b/c")] == [True, False, False]
        assert (folder.size("a"), folder.size("c"), folder.size("d")) == ((1, 10), (1, 0), (0, 0))
        to = folder.beside("to-", "-1")
        with to.making("in/last", ["a", "c"]) as draft:
            draft.folder.take(folder, ["a/b"])
            draft.folder.copy(folder, ["c"])
            assert dict(draft.folder.held(["a/b", "c"])) == {
                "a/b": (10, "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"),
                "c": (0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            }
            with pytest.raises(FileNotFoundError):
                draft.folder.take(folder, ["nowhere"])
            draft.folder.store.below("in").make()
            draft.finish(b"it")
        assert (to.is_taken(), to.unfinished("in/last"), sorted(to.files())) == (True, "", ["a/b", "c", "in/last"])
        with pytest.raises(FileExistsError):
            make(to, "in/last")
        with pytest.raises(FileNotFoundError):
            make(folder.beside("no-", ""), "last", folder, ["a/b", "nowhere"])
        assert not folder.beside("no-", "").is_taken()
        assert to.read("in/last") == b"it"
        to.remove(["c", "nowhere"])
        to.remove_all("in")
        to.remove_empty(["a", ""])
        assert to.files() == ["a/b"]
        to.remove_all("a")
        to.remove_empty(["nowhere", ""])
        assert not to.is_taken()
        folder.remove_all()
        folder.remove_all()
        assert not folder.is_taken()


def test_what_hadoop_keeps_for_folders_is_no_file_and_goes_with_them(reached, top):
    """Empty objects whose keys end with a slash: not listed, not counted, in nobody's way, removed with the folder."""
    client, _ = keys(reached, top)
    for name in ("", "state/", "state/0/", "offsets/"):
        client.put_object(Bucket=reached.bucket, Key=f"{top.fs.key(top.where)}/{name}", Body=b"")
    assert (top.is_taken(), top.files(), top.size("state")) == (False, [], (0, 0))
    top.write("state/0/x", b"x")
    assert (top.is_taken(), top.files(), top.names("state")) == (True, ["state/0/x"], ["0"])
    top.remove_all("state")
    assert sorted(keys(reached, top)[1]) == ["", "offsets/"]
    top.remove_empty(["offsets", ""])
    assert keys(reached, top)[1] == []


def test_a_folder_of_more_files_than_one_answer_holds(top):
    """Of 1,100 files none is left out of a list, a copy, a comparison or a removal."""
    paths = [f"{number % 7}/{number:04d}" for number in range(1_100)]
    one, two = top.below("one"), top.below("two")
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda path: one.write(path, path.encode()), paths))
    two.copy(one, paths)
    assert sorted(two.files()) == sorted(paths)
    assert two.held(paths) == one.held(paths)
    two.remove_all()
    assert not two.is_taken()
    assert one.size("") == (1_100, 1_100 * 6)


def test_a_savepoint_is_whole_and_what_was_changed_is_named(reached, place, top):
    """Made, read, verified, exported, disposed of: as on a disk, and nothing is left beside it."""
    to = f"{top.where}/s/one"
    manifest = writing.create(place, to, "fraud").manifest
    assert (manifest.epoch, manifest.checkpoint, manifest.partitions) == (3, place.uri, 2)
    assert reading.verify(to) == manifest == reading.read(to)
    assert sorted(folder_of(place.ours).names()) == ["job.json", "journal"]
    copy = f"{top.where}/s/two"
    assert writing.export(to, copy) == manifest
    top.write("s/notes", b"mine")
    assert [path for path, _ in reading.found(f"{top.where}/s")] == [to, copy]
    assert reading.unfinished(f"{top.where}/s") == []
    assert "is there already" in str(refused(ConfigurationError, writing.create, place, to))

    files = top.below("s/two/files")
    files.remove(["commits/3"])
    files.write("commits/4", b"v2\n{}")
    files.write("state/0/0/SSTs/000008-a.sst", b"tss")
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
    assert sorted(keys(reached, top.below("s"))[1]) == ["notes", "two/files/commits/4", "two/notes.txt"]


def test_a_savepoint_in_another_bucket(reached, place, top):
    """Its files come through this process: whole, and gone on from."""
    other = f"other-{uuid.uuid4().hex[:8]}"
    keys(reached, top)[0].create_bucket(Bucket=other)
    large = os.urandom(3 << 20)
    folder_of(place.checkpoint.store).write("state/0/0/SSTs/000008-a.sst", large)
    folder_of(place.checkpoint.store).write("state/0/0/_metadata/schema", b"")
    to = f"s3a://{other}/backup/one"
    manifest = writing.create(place, to).manifest
    assert reading.verify(to) == manifest
    assert folder_at(to).read("files/state/0/0/SSTs/000008-a.sst") == large
    restoring.restore(to, manifest, place_at(f"{top.where}/new", 100))
    require_complete(place_at(f"{top.where}/new", 100))


def test_a_resumed_run_and_a_claim_and_an_older_epoch(place, top):
    """A new job with nothing decided; the old job with its journal, its driver fenced; an epoch that is retained."""
    savepoint = f"{top.where}/s"
    manifest = writing.create(place, savepoint, "fraud").manifest
    new = place_at(f"{top.where}/new", 100)
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
    assert "@EPOCH" in refused(ConfigurationError, resuming.id_of, place.uri).action

    driver = place_at(place.uri, 100).journal
    driver.start(checkpoints.JOB)
    claimed = place_at(f"{top.where}/claimed", 100)
    restoring.restore(savepoint, manifest, claimed, claim=True)
    assert driver.is_replaced()
    assert identify(claimed, "cluster", "onceflow", None).job_id == checkpoints.JOB
    assert claimed.journal.history()[0].decided.epoch == 3
    assert sorted(top.names()) == ["c", "claimed", "new", "older", "s"]
    refused(CheckpointConflictError, restoring.restore, savepoint, manifest, claimed)
    assert claimed.journal.history()[0].decided.epoch == 3


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


DIES = """
import os, signal, sys, threading
import obstore

left, lock = int(sys.argv[1]), threading.Lock()

def deadly(call):
    def counted(*given, **named):
        global left
        with lock:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return call(*given, **named)
    return counted

from onceflow.operations.savepoints import reading, restoring, writing
from onceflow.spark.locations import place_at
place = place_at(sys.argv[2], 100)
place.checkpoint.store.make()  # the bucket is tried, which is not counted
obstore.put, obstore.copy = deadly(obstore.put), deadly(obstore.copy)
if sys.argv[4] == "savepoint":
    writing.create(place, sys.argv[3])
else:
    manifest = reading.verify(sys.argv[3])
    restoring.restore(sys.argv[3], manifest, place, with_state=sys.argv[4] != "positions", claim=sys.argv[4] == "claim")
print("done")
"""


def dies(at, place, path, what):
    """A process that makes something, and is killed at its so-many-eth change; whether it was."""
    ran = subprocess.run(
        [sys.executable, "-c", DIES, str(at), place, path, what], capture_output=True, text=True, check=False
    )
    assert ran.returncode == -9 or ran.stdout == "done\n", ran.stderr
    return ran.returncode == -9


def moments(made):
    """Numbers of changes to die at: the first ones, some in the midst, and the last ones."""
    return sorted({1, 2, 3, made // 3, 2 * made // 3, made - 2, made - 1, made})


def test_who_dies_in_a_savepoint_leaves_none(reached, place, top):
    """Killed at its first changes, in the midst and before its last: none is found there; what is left is, and goes."""
    to = f"{top.where}/s"
    files = len(writing.create(place, f"{top.where}/whole").manifest.files)
    made = files + 2  # who makes it, and the manifest
    for at in moments(made):
        assert dies(at, place.uri, to, "savepoint"), at
        assert not reading.is_savepoint(to), at
        assert [path for path, _ in reading.found(str(top.where))] == [f"{top.where}/whole"]
        refused(ConfigurationError, reading.verify, to)
        refused(ConfigurationError, resuming.id_of, to)
        left = keys(reached, top.below("s"))[1]
        assert making_of(writing.NAME) in left or not left, "something was left without a word of who has made it"
        if not left:
            continue
        [(where, who)] = reading.unfinished(str(top.where))
        assert where == to
        assert who.startswith("process ")
        error = refused(ConfigurationError, writing.create, place, to)
        assert "was not finished, by process" in error.cause
        assert f"onceflow savepoint dispose {to}" in error.action
        assert writing.dispose(to) == []
        assert keys(reached, top.below("s"))[1] == []
    assert not dies(made + 1, place.uri, to, "savepoint")
    reading.verify(to)


@pytest.mark.parametrize("what", ["state", "positions", "claim"])
def test_who_dies_in_a_restore_leaves_no_checkpoint(reached, place, top, what):
    """Killed anywhere: what is left is no job's checkpoint to any start, is said, goes, and can be made again."""
    savepoint, uri = f"{top.where}/s", f"{top.where}/new"
    manifest = writing.create(place, savepoint).manifest
    how = {"claim": what == "claim", "with_state": what != "positions"}
    restoring.restore(savepoint, manifest, place_at(f"{top.where}/counted", 100), **how)
    made = len(keys(reached, top.below("counted"))[1]) + (0 if what != "claim" else 1)  # the fence in the old place
    told = 0
    for at in moments(made):
        assert dies(at, uri, savepoint, what), at
        left = keys(reached, top.below("new"))[1]
        assert making_of(RESTORED) in left or not left
        if not left:
            continue
        told += 1
        for attempt in (
            lambda: identify(place_at(uri, 100), "cluster", "onceflow", None),
            lambda: identify(place_at(uri, 100), "cluster", "onceflow", "as-new"),
            lambda: identify(place_at(uri, 100), "cluster", "onceflow", "claim"),
            lambda: restoring.already(place_at(uri, 100), manifest.id, **how),
            lambda: restoring.restore(savepoint, manifest, place_at(uri, 100), **how),
        ):
            error = refused(CheckpointConflictError, attempt)
            assert "is not whole" in str(error)
            assert f"onceflow savepoint dispose {uri}" in error.action
        now = keys(reached, top.below("new"))[1]  # what was on its way when it was killed may have come
        assert set(left) <= set(now), "a refusal has taken something away"
        assert not {RESTORED, f"{OURS}/job.json"} & set(now)
        assert [str(where) for where, _ in reading.unfinished(str(top.where))] == [uri]
        assert writing.dispose(uri) == []
        assert keys(reached, top.below("new"))[1] == []
    assert told >= 3
    assert not dies(made + 2, uri, savepoint, what)
    new = place_at(uri, 100)
    assert restoring.already(new, manifest.id, **how)
    assert identify(new, "cluster", "onceflow", None).job_id == read_restored(new.ours).job_id
    assert "is no savepoint" in str(refused(ConfigurationError, writing.dispose, uri)), (
        "a job's checkpoint was taken away"
    )


def both(first, second):
    """Two calls at one moment: what each gave, or raised."""
    gate, told = threading.Barrier(2), {}

    def run(name, call):
        gate.wait()
        try:
            told[name] = call()
        except Exception as error:
            told[name] = error

    threads = [threading.Thread(target=run, args=each) for each in (("first", first), ("second", second))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told["first"], told["second"]


def test_of_two_savepoints_for_one_place_one_is_made(place, top):
    """At one moment, and while the other is at it: one is whole, and the other is told so and leaves nothing."""
    for number in range(4):
        to = f"{top.where}/s{number}"
        answers = both(lambda to=to: writing.create(place, to), lambda to=to: writing.create(place, to, epoch=1))
        made = [each for each in answers if isinstance(each, writing.Taken)]
        lost = [each for each in answers if isinstance(each, ConfigurationError)]
        assert (len(made), len(lost)) == (1, 1), answers
        assert reading.verify(to) == made[0].manifest
        assert "is there already" in str(lost[0])

    @contextlib.contextmanager
    def held():
        error = refused(ConfigurationError, writing.create, place, f"{top.where}/t")
        assert "a savepoint is being made there" in error.cause
        yield

    manifest = writing.create(place, f"{top.where}/t", held=held).manifest
    assert reading.verify(f"{top.where}/t") == manifest


def test_of_two_restores_to_one_place_one_is_made(place, top):
    """Of different epochs, at one moment: the checkpoint is of one of them, whole, and none of the other's files."""
    savepoints = []
    for epoch in (3, 1):
        manifest = writing.create(place, f"{top.where}/s{epoch}", epoch=epoch).manifest
        savepoints.append((f"{top.where}/s{epoch}", manifest))
    for number in range(4):
        uri = f"{top.where}/new{number}"
        answers = both(*(lambda s=s, uri=uri: restoring.restore(*s, place_at(uri, 100)) for s in savepoints))
        made = [each for each in answers if not isinstance(each, Exception)]
        lost = [each for each in answers if isinstance(each, CheckpointConflictError)]
        assert (len(made), len(lost)) == (1, 1), answers
        new = place_at(uri, 100)
        manifest = next(m for _, m in savepoints if m.id == made[0].savepoint)
        theirs = {path: held for path, held in manifest.files.items() if not path.startswith((OURS, "metadata"))}
        assert reading.held_of(folder_at(uri), list(theirs)) == theirs
        assert {path for path in folder_at(uri).files() if not path.startswith((OURS, "metadata"))} == set(theirs)
        assert identify(new, "cluster", "onceflow", None).job_id == made[0].job_id


def test_what_is_disposed_of_while_it_is_made_is_not_whole(place, top, monkeypatch):
    """Its maker is told so, at whatever it is; what it writes later even so makes no savepoint and no checkpoint."""
    to, uri = f"{top.where}/s", f"{top.where}/new"

    @contextlib.contextmanager
    def held():
        yield
        assert writing.dispose(to) == []

    with pytest.raises((ConfigurationError, CheckpointConflictError, CheckpointStoreError)):
        writing.create(place, to, held=held)
    assert not folder_at(to).is_taken()

    manifest = writing.create(place, to).manifest
    begin_journal = restoring._begin_journal

    def and_then(*given):
        begin_journal(*given)
        assert writing.dispose(uri) == []

    with monkeypatch.context() as patched:
        patched.setattr(restoring, "_begin_journal", and_then)
        refused(CheckpointConflictError, restoring.restore, to, manifest, place_at(uri, 100))
    assert not folder_at(uri).is_taken()

    # It has looked whether it is still the maker, and stalls there; somebody else has made it, or nobody.
    folder_at(uri).store.below(OURS).create(RESTORED_FILE, b"late", maker="the one who stalled")
    assert "is not whole" in str(refused(CheckpointConflictError, identify, place_at(uri, 1), "cluster", "o", None))
    assert writing.dispose(uri) == []
    restoring.restore(to, manifest, place_at(uri, 100))
    assert who_makes(place_at(uri, 1)) == ""
    folder_at(uri).store.below(OURS).replace(making_of(RESTORED_FILE), Making.begin().dumps())
    assert who_makes(place_at(uri, 1)) != ""


def test_a_job_that_begins_where_a_checkpoint_is_being_made(place, top, monkeypatch):
    """Whichever comes first, not both go on, and the one that stays is as it was."""
    savepoint, uri = f"{top.where}/s", f"{top.where}/new"
    manifest = writing.create(place, savepoint).manifest
    begun = identify(place_at(uri, 1), "cluster", "onceflow", None)
    refused(CheckpointConflictError, restoring.restore, savepoint, manifest, place_at(uri, 1))
    assert read_identity(place_at(uri, 1).ours) == begun
    assert folder_at(uri).files() == [f"{OURS}/job.json"]

    other = place_at(f"{top.where}/other", 1)
    with folder_of(other.checkpoint.store).making(RESTORED, PARTS):
        refused(CheckpointConflictError, identify, other, "cluster", "onceflow", None)
    assert not folder_of(other.checkpoint.store).is_taken()

    # The start has looked for a maker before there was one, and names its job then.
    from onceflow.launch import ownership

    stack = contextlib.ExitStack()

    def at_that_moment(*given):
        stack.enter_context(folder_of(other.checkpoint.store).making(RESTORED, PARTS))
        return create_identity(*given)

    monkeypatch.setattr(ownership, "create_identity", at_that_moment)
    refused(CheckpointConflictError, identify, other, "cluster", "onceflow", None)
    assert folder_of(other.checkpoint.store).files() == []
    stack.close()


@pytest.mark.parametrize("at", [1, 9])
def test_a_copy_that_fails_or_was_not_done_leaves_nothing(reached, place, top, monkeypatch, at):
    """The service refuses a copy, or says that it has made one and has not: no savepoint, no checkpoint, nothing."""
    savepoint = f"{top.where}/whole"
    manifest = writing.create(place, savepoint).manifest
    copy = objects.obstore.copy

    def failing(how):
        left = at
        lock = threading.Lock()

        def counted(*given, **named):
            nonlocal left
            with lock:
                left -= 1
                mine = left == 0
            return how() if mine else copy(*given, **named)

        return counted

    def broken():
        raise objects.BaseError("the service is gone")

    for how in (broken, lambda: None):
        for attempt in (
            lambda: writing.create(place, f"{top.where}/s"),
            lambda: writing.export(savepoint, f"{top.where}/s"),
            lambda: restoring.restore(savepoint, manifest, place_at(f"{top.where}/new", 1)),
        ):
            with monkeypatch.context() as patched:
                patched.setattr(objects.obstore, "copy", failing(how))
                refused(CheckpointStoreError, attempt)
            assert sorted(top.names()) == ["c", "whole"]


def test_a_savepoint_that_is_disposed_of_while_it_is_read(place, top, monkeypatch):
    """A restore from it fails and leaves nothing."""
    savepoint, uri = f"{top.where}/s", f"{top.where}/new"
    manifest = writing.create(place, savepoint).manifest
    layout_of = restoring._layout

    def and_then(entries):
        found = layout_of(entries)
        writing.dispose(savepoint)
        return found

    monkeypatch.setattr(restoring, "_layout", and_then)
    error = refused(CheckpointStoreError, restoring.restore, savepoint, manifest, place_at(uri, 1))
    assert "it is not there" in str(error)
    assert top.names() == ["c"]


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


def test_a_copy_through_a_disk_is_whole(place, top, tmp_path):
    """Copied by hand to a disk and back, it is verified and gone on from on both; as is a checkpoint made of it."""
    savepoint = f"{top.where}/s"
    manifest = writing.create(place, savepoint).manifest

    def by_hand(of, to):
        for path in sorted({*of.files(), making_of(writing.NAME)}):
            to.write(path, of.read(path))

    by_hand(folder_at(savepoint), Folder(tmp_path / "s"))
    assert reading.verify(tmp_path / "s") == manifest
    by_hand(Folder(tmp_path / "s"), top.below("back"))
    assert reading.verify(f"{top.where}/back") == manifest
    restoring.restore(tmp_path / "s", manifest, Place.at(tmp_path / "new", 100))
    require_complete(Place.at(tmp_path / "new", 100))
    assert writing.dispose(tmp_path / "s") == []


def test_a_savepoint_travels(place, top, tmp_path):
    """Taken of a checkpoint in S3 to a disk and back, and of one on a disk: the same files, gone on from on both."""
    local = checkpoints.make(tmp_path / "local", 2)
    for of, to, back in ((place, tmp_path, top.where), (local, top.where, tmp_path)):
        checkpoints.it_travels(of, str(to), str(back))


# -- jobs -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pipeline(cluster, server, new_topic, tmp_path):
    """Three epochs' worth of input and a job over it."""

    def make(job: str, records: int = RECORDS) -> InS3:
        at, told = tmp_path / uuid.uuid4().hex / "checkpoint", {"ONCEFLOW_RUNTIME_DIR": str(tmp_path / "run")}
        made = InS3(cluster, new_topic(4), new_topic(4), at, job, environment=told, s3=server)
        made.send(records)
        return made

    return make


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.parametrize("job", ["count", "tally"])
def test_a_running_job_is_saved_and_a_new_one_goes_on_from_it(pipeline, processes, tmp_path, job):
    """State goes on exactly from a savepoint in S3, from one with four partitions, and on a disk.

    The job is not harmed. What is written again is what was said.

    The old job is deleted then: nothing of its checkpoint is left in the bucket, Hadoop's folders neither.
    """
    p = pipeline(job, 5_000)
    q = elsewhere.a_new_job_goes_on_from_a_savepoint(p, processes)
    deleted = p.command("job", "delete", p.file, "--yes")
    assert deleted.returncode == 0, deleted.stderr
    assert keys(p.s3, folder_of(p.store))[1] == []
    assert q.open_transactions() == []
    elsewhere.it_goes_on_in_four_partitions(p)
    elsewhere.it_goes_on_on_a_disk(p, tmp_path)


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.timeout(600)
@pytest.mark.parametrize("job", ["count", "tally"])
def test_snapshots_of_the_state_come_along(pipeline, processes, tmp_path, job):
    """Those that Spark's maintenance uploads to S3: behind a death, in a savepoint, in other partitions, on a disk."""
    elsewhere.snapshots_come_along(pipeline(job, 3_000), processes, tmp_path)


@pytest.mark.spark
@pytest.mark.kafka
def test_a_claim_goes_on_there_and_an_older_epoch_as_well(pipeline):
    """A savepoint of the newest epoch is claimed: no row twice; the old checkpoint is refused from then on.

    A retained epoch is gone on from as a new job, which writes what came behind again.
    """
    p = pipeline("copy")
    p.run_well()
    older, said = resumed(p, "older", "-s", f"{p.uri}@1")
    assert "WRITTEN AGAIN" in said
    assert sum(rows_of(d) for d in older.decisions()) == sum(rows_of(d) for d in p.decisions() if d["epoch"] > 1)
    again = Counter(older.read())
    made = p.command("savepoint", "create", p.uri, f"{p.uri}-s")
    assert made.returncode == 0, made.stderr
    p.send(RECORDS)
    q, said = resumed(p, "claimed", "-s", f"{p.uri}-s", "--claim")
    assert f"job {p.job_id()} goes on here" in said
    assert q.job_id() == p.job_id()
    assert (Counter(q.read()) - again).total() == RECORDS
    ended = p.run()
    assert ended.code == 1, ended.log
    assert Counter(q.read()).total() == again.total() + RECORDS


@pytest.mark.spark
@pytest.mark.kafka
def test_the_audit_of_a_job_there(pipeline, produce):
    """A job that died is proven; a receipt that is changed in S3, and a record of a stranger, are found and named.

    What the plan gives when it is run again is compared as well.
    """
    elsewhere.an_audit_finds_tampering(pipeline("copy"), produce)


@pytest.mark.spark
@pytest.mark.kafka
def test_a_job_is_deleted_there(pipeline, processes):
    """Told first and then done, with what a death left open; nothing is left in the bucket, Hadoop's folders neither.

    What is visible stays, and a new job of its name begins. One that is not to be kept is deleted when it is cancelled.
    """
    p = pipeline("count")
    p.die_at("D4@1")
    assert p.open_transactions() != []
    job_id = p.job_id()
    told = p.command("job", "delete", p.file)
    assert (told.returncode, "would be deleted" in told.stdout) == (0, True), told.stderr
    assert p.job_id() == job_id
    visible = Counter(p.read())
    done = p.command("job", "delete", p.file, "--yes", "--output", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["job_id"], found["deleted"], found["files"] > 10, found["bytes"] > 1_000) == (
        job_id,
        True,
        True,
        True,
    )
    assert keys(p.s3, folder_of(p.store))[1] == []
    assert Counter(p.read()) == visible
    p.environment |= {
        "ONCEFLOW__EXECUTION__CHECKPOINTING__EXTERNALIZED_CHECKPOINT_RETENTION": "DELETE_ON_CANCELLATION",
    }
    running = p.start(UNTIL="stopped")
    processes.append(running)
    wait_until(lambda: newest(Counter(p.read()) - visible) == Counter(key for key, _ in p.sent), 120, "all of it")
    assert p.job_id() != job_id
    cancelled = p.command("cancel", "count")
    assert cancelled.returncode == 0, cancelled.stderr
    ended = p.end(running)
    assert "is deleted, as it was to be" in ended.log
    assert keys(p.s3, folder_of(p.store))[1] == []
