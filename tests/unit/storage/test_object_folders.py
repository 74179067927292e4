"""A folder in a bucket that is made as a whole, on an object store in memory: one maker, the last file last.

The same on a server, with processes that are killed, is in tests/integration/operations/test_s3_savepoints.py.
"""

import pytest
from obstore.store import MemoryStore

from onceflow.checkpoint.place import OURS, PARTS, Place
from onceflow.checkpoint.restored import FILE as RESTORED_FILE
from onceflow.checkpoint.restored import read_restored
from onceflow.errors import (
    CheckpointConflictError,
    CheckpointCorruptError,
    CheckpointStoreError,
    ConfigurationError,
)
from onceflow.launch.ownership import identify, require_complete
from onceflow.operations.savepoints import reading, restoring, writing
from onceflow.spark.locations import folder_at, place_at
from onceflow.storage.making import Making, making_of, read_making
from onceflow.storage.objects import Bucket
from onceflow.storage.store import Store
from onceflow.storage.tree import Folder, folder_of
from tests.support import checkpoints
from tests.support.advice import parts_of

RESTORED = f"{OURS}/{RESTORED_FILE}"


@pytest.fixture
def bucket(monkeypatch):
    """A bucket that every location in S3 is in."""
    made = Bucket(MemoryStore(), "s3a://bucket")
    made.tried = True
    monkeypatch.setattr("onceflow.storage.s3.store_at", lambda uri: Store(uri, made))
    return made


@pytest.fixture
def folder(bucket):
    return folder_at("s3://bucket/f")


def make(folder, data=b"it", meanwhile=lambda _: None):
    with folder.making("last", ["a"]) as draft:
        draft.folder.write("a/b", b"0123")
        meanwhile(draft)
        draft.finish(data)


def test_it_is_whole_with_its_last_file(folder):
    """Until then somebody makes it, and is named; then nobody does, and who has made it is none of its files."""
    with folder.making("last", ["a"]) as draft:
        draft.folder.write("a/b", b"0123")
        assert folder.unfinished("last").startswith("process ")
        assert folder.is_taken()
        draft.finish(b"it")
    assert (folder.unfinished("last"), sorted(folder.files()), folder.read("last")) == ("", ["a/b", "last"], b"it")


def test_a_second_maker_is_refused_and_leaves_the_first_one_alone(folder):
    """While one is at it, and behind it."""
    with folder.making("last", ["a"]) as draft:
        with pytest.raises(FileExistsError, match="process"):
            make(folder)
        draft.folder.write("a/b", b"0123")
        draft.finish(b"it")
    with pytest.raises(FileExistsError):
        make(folder, data=b"another")
    assert folder.read("last") == b"it"


def test_a_maker_that_fails_leaves_nothing(folder):
    """What it has put there goes with it; what a stranger has put there stays."""

    def notes(draft):
        folder.write("notes", b"mine")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        make(folder, meanwhile=notes)
    assert folder.files() == ["notes"]
    assert read_making(folder.store, "last") is None


def test_where_something_is_nothing_is_made_and_nothing_taken_away(folder):
    """Also where it came in the moment between the look and the maker's word."""
    folder.write("a/b", b"theirs")
    with pytest.raises(FileExistsError, match="something is there"):
        make(folder)
    folder.is_taken = lambda: False
    with pytest.raises(FileExistsError, match="something is there"):
        make(folder)
    assert folder.files() == ["a/b"]
    assert read_making(folder.store, "last") is None


def test_a_maker_whose_work_was_removed_is_told_so(folder):
    """It finishes nothing, and takes away what it has written since."""

    def removed(draft):
        folder.discard("last", ["a"])
        draft.folder.write("a/c", b"0123")

    with pytest.raises(FileExistsError, match="somebody has removed"):
        make(folder, meanwhile=removed)
    assert not folder.is_taken()


def test_what_is_finished_at_the_moment_of_its_removal_stays(folder, monkeypatch):
    """Between the look and the removal its maker has finished, and a job may go on from it: it is as it was."""
    with folder.making("last", ["a"]) as draft:
        draft.folder.write("a/b", b"0123")

        def and_then(*given):
            found = read_making(*given)
            monkeypatch.undo()
            draft.finish(b"it")
            return found

        monkeypatch.setattr("onceflow.storage.tree.read_making", and_then)
        with pytest.raises(FileExistsError, match="finished at this moment"):
            folder.discard("last", ["a"])
    assert (folder.unfinished("last"), sorted(folder.files())) == ("", ["a/b", "last"])


def test_a_maker_whose_place_another_has_taken_leaves_that_alone(folder):
    """It stalled; its work was removed, and another has made the folder meanwhile."""

    def taken(_):
        folder.discard("last", ["a"])
        make(folder, data=b"the other's")

    with pytest.raises(FileExistsError):
        make(folder, meanwhile=taken)
    assert (folder.unfinished("last"), folder.read("last"), folder.read("a/b")) == ("", b"the other's", b"0123")


def test_a_last_file_that_comes_late_makes_nothing_whole(folder):
    """Its maker had looked, and stalled; what it had made was removed since, or is being made by another."""
    folder.store.create("last", b"late", maker="of the one who stalled")
    assert folder.unfinished("last") == "somebody who has ended"
    folder.store.create(making_of("last"), Making.begin().dumps())
    assert folder.unfinished("last").startswith("process ")
    folder.discard("last", ["a"])
    assert not folder.is_taken()


def test_a_copy_by_hand_is_whole(folder, tmp_path):
    """Through a disk the last file loses whom it names: there, and where it comes back, the folder is whole."""
    make(folder)
    local, back = Folder(tmp_path / "f"), folder.beside("", "-back")
    for path in [*folder.files(), making_of("last")]:
        local.write(path, folder.read(path))
    for path in local.files():
        back.write(path, local.read(path))
    assert (local.unfinished("last"), back.unfinished("last"), back.has("last")) == ("", "", True)


def test_a_makers_word_that_was_changed_is_named(folder):
    """It says whether the folder is whole."""
    folder.store.create(making_of("last"), b"{}")
    with pytest.raises(CheckpointCorruptError, match=r"last\.making") as caught:
        folder.unfinished("last")
    parts_of(caught.value, CheckpointCorruptError)


def in_bucket(local, epochs):
    """A savepoint in the bucket of a checkpoint with so many epochs: its files and its manifest, from a disk."""
    writing.create(checkpoints.make(local / "c", epochs), local / "s")
    source, to = Folder(local / "s"), folder_at("s3://bucket/s")
    for path in source.files():
        to.write(path, source.read(path))
    return reading.verify("s3://bucket/s")


def test_a_part_of_a_checkpoint_is_none_to_any_start(bucket, tmp_path):
    """Being made, or left by a dead maker: refused by every start and by another restore, until it is disposed of."""
    manifest = in_bucket(tmp_path, 2)
    place = place_at("s3://bucket/new", 100)
    folder = folder_of(place.checkpoint.store)
    with folder.making(RESTORED, PARTS) as draft:
        draft.folder.write("sources/0/0", b"where it began")
        for attempt in (
            lambda: identify(place, "cluster", "onceflow", None),
            lambda: identify(place, None, "onceflow", None),
            lambda: identify(place, "cluster", "onceflow", "as-new"),
            lambda: identify(place, "cluster", "onceflow", "claim"),
            lambda: restoring.already(place, manifest.id, claim=False),
            lambda: restoring.restore("s3://bucket/s", manifest, place),
        ):
            with pytest.raises(CheckpointConflictError, match="is not whole") as caught:
                attempt()
            parts_of(caught.value, CheckpointConflictError)
        assert sorted(folder.files()) == ["sources/0/0"]
        assert [str(where) for where, _ in reading.unfinished("s3://bucket/new")] == [place.uri]
        assert writing.dispose(place.uri) == []
        assert not folder.is_taken()
    made = restoring.restore("s3://bucket/s", manifest, place)
    assert restoring.already(place, manifest.id, claim=False)
    assert identify(place, "cluster", "onceflow", None).job_id == made.job_id == read_restored(place.ours).job_id
    with pytest.raises(ConfigurationError, match="is no savepoint"):
        writing.dispose(place.uri)


def test_a_jobs_checkpoint_is_never_taken_for_what_a_dead_maker_has_left(bucket, tmp_path):
    """Also where the word of its maker was lost or changed since: a job has begun there."""
    manifest = in_bucket(tmp_path, 2)
    place = place_at("s3://bucket/new", 100)
    restoring.restore("s3://bucket/s", manifest, place)
    begun = identify(place, "cluster", "onceflow", None)
    word = making_of(RESTORED_FILE)
    for spoil in (lambda: place.ours.replace(word, Making.begin().dumps()), lambda: place.ours.remove(word)):
        spoil()
        before = sorted(folder_of(place.checkpoint.store).files())
        assert identify(place, "cluster", "onceflow", None) == begun
        with pytest.raises(ConfigurationError, match="is no savepoint"):
            writing.dispose(place.uri)
        assert sorted(folder_of(place.checkpoint.store).files()) == before


def test_a_savepoint_that_is_not_finished_is_none(bucket, tmp_path):
    """It is listed as such, refused by what reads one, and its place by what makes one, with what to do."""
    in_bucket(tmp_path, 2)
    with folder_at("s3://bucket/t/half").making(writing.NAME, [reading.FILES]) as draft:
        draft.folder.write("files/offsets/1", b"")
        assert (reading.found("s3://bucket/t"), reading.is_savepoint("s3://bucket/t/half")) == ([], False)
        assert [str(where) for where, _ in reading.unfinished("s3://bucket/t")] == ["s3a://bucket/t/half"]
        for attempt in (
            lambda: reading.read("s3://bucket/t/half"),
            lambda: reading.verify("s3://bucket/t/half"),
            lambda: writing.require_free("s3://bucket/t/half"),
            lambda: writing.export("s3://bucket/s", "s3://bucket/t/half"),
        ):
            with pytest.raises(ConfigurationError) as caught:
                attempt()
            assert "onceflow savepoint dispose s3" in (caught.value.action or "")
            parts_of(caught.value, ConfigurationError)
    assert not folder_at("s3://bucket/t/half").is_taken()


def test_a_job_that_begins_while_a_checkpoint_is_made_is_refused(bucket, tmp_path, monkeypatch):
    """It has looked for a maker before there was one; it names itself, looks again, and takes its name away."""
    from onceflow.launch import ownership

    place = place_at("s3://bucket/new", 100)
    folder = folder_of(place.checkpoint.store)
    create, making = ownership.create_identity, []

    def at_that_moment(*given):
        making.append(folder.making(RESTORED, PARTS))
        making[0].__enter__()
        return create(*given)

    monkeypatch.setattr(ownership, "create_identity", at_that_moment)
    with pytest.raises(CheckpointConflictError, match="is not whole"):
        identify(place, "cluster", "onceflow", None)
    assert folder.files() == []
    making[0].__exit__(None, None, None)


def test_where_a_job_has_begun_no_checkpoint_is_made(bucket, tmp_path):
    """Its job.json stays as it is; also where it came while the files were copied, by a start that died then."""
    manifest = in_bucket(tmp_path, 2)
    place = place_at("s3://bucket/new", 100)
    begun = identify(place, "cluster", "onceflow", None)
    with pytest.raises(CheckpointConflictError, match="is not new"):
        restoring.restore("s3://bucket/s", manifest, place)
    assert identify(place, "cluster", "onceflow", None) == begun

    other = place_at("s3://bucket/other", 100)
    taken = []

    class Late(type(folder_of(other.checkpoint.store))):
        def take(self, of, paths):
            super().take(of, paths)
            if not taken:
                taken.append(other.ours.create("job.json", b"of a start that died"))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(restoring, "folder_of", lambda store: Late(store.folder, store.fs))
        with pytest.raises(CheckpointConflictError, match="a job has begun there meanwhile"):
            restoring.restore("s3://bucket/s", manifest, other)
    assert not folder_of(other.checkpoint.store).is_taken()


def locations(tmp_path):
    return {"a disk": str(tmp_path / "at"), "a bucket": "s3://bucket/at"}


@pytest.mark.parametrize("of", ["a disk", "a bucket"])
@pytest.mark.parametrize("to", ["a disk", "a bucket"])
def test_a_savepoint_travels(bucket, tmp_path, of, to):
    """Taken of a checkpoint here and there, exported, and gone on from on either: the same files, and all of them."""
    at = locations(tmp_path)
    place = checkpoints.make(tmp_path / "local", 3)
    if of == "a bucket":
        place = checkpoints.copied(place_at("s3://bucket/c", 100), tmp_path / "again", 3)
    checkpoints.it_travels(place, at[to], at[of])


@pytest.mark.parametrize("to", ["a disk", "a bucket"])
def test_of_a_copy_that_fails_on_the_way_nothing_is_there(bucket, tmp_path, monkeypatch, to):
    """A file that is gone, or that comes as another one: no savepoint, and nothing of one."""
    at = locations(tmp_path)
    of = "a disk" if to == "a bucket" else "a bucket"
    place = checkpoints.make(tmp_path / "local", 3)
    manifest = writing.create(place, f"{at[of]}/s").manifest
    kind, read = type(folder_at(at[of])), type(folder_at(at[of])).read
    torn = next(path for path in manifest.files if path.startswith("offsets/"))

    def badly(self, path, most=-1):
        data = read(self, path, most)
        return data[:-1] + b"#" if path == torn and at_it else data

    at_it = False
    monkeypatch.setattr(kind, "read", badly)
    at_it = True
    with pytest.raises(CheckpointCorruptError, match=torn):
        writing.export(f"{at[of]}/s", f"{at[to]}/s")
    with pytest.raises(CheckpointCorruptError, match=f"{torn} came as another file"):
        restoring.restore(f"{at[of]}/s", manifest, place_at(f"{at[to]}/new", 100))
    assert not folder_at(f"{at[to]}/new").is_taken()
    at_it = False
    folder_at(f"{at[of]}/s/files").remove([torn])
    with pytest.raises(CheckpointCorruptError, match="is missing"):
        writing.export(f"{at[of]}/s", f"{at[to]}/s")
    with pytest.raises(FileNotFoundError):
        folder_at(f"{at[to]}/x").take(folder_at(f"{at[of]}/s/files"), sorted(manifest.files))
    assert not folder_at(f"{at[to]}/s").is_taken()


@pytest.mark.parametrize("to", ["a disk", "a bucket"])
def test_a_file_that_is_read_in_part_is_no_copy(bucket, tmp_path, monkeypatch, to):
    """Its size is looked at: a savepoint's digests are those of what was written, and would not tell."""
    at = locations(tmp_path)
    place = checkpoints.make(tmp_path / "local", 3)
    if to == "a disk":
        place = checkpoints.copied(place_at("s3://bucket/c", 100), tmp_path / "again", 3)
    kind = type(folder_of(place.checkpoint.store))
    read = kind.read

    def half(self, path, most=-1):
        data = read(self, path, most)
        return data[: len(data) // 2] if path.startswith("offsets/") else data

    monkeypatch.setattr(kind, "read", half)
    with pytest.raises(CheckpointStoreError, match=r"of its \d+ bytes were read"):
        writing.create(place, f"{at[to]}/s")
    monkeypatch.undo()
    assert not (tmp_path / "at" / "s").exists()


def test_checksums_of_a_disk_stay_there(bucket, tmp_path):
    """Hadoop's, which elsewhere Spark would list and not understand: in no checkpoint there, and in one on a disk."""
    place = checkpoints.make(tmp_path / "local", 3)
    hidden = "offsets/.2.crc"
    checkpoints.write(place.checkpoint.folder / hidden, b"crc")
    manifest = writing.create(place, "s3://bucket/s").manifest
    assert hidden in manifest.files
    for at, kept in (("s3://bucket/n", False), (str(tmp_path / "n"), True)):
        new = place_at(at, 100)
        restoring.restore("s3://bucket/s", manifest, new)
        require_complete(new)
        assert (hidden in folder_of(new.checkpoint.store).files()) is kept


def test_places_in_s3_take_no_java(bucket):
    """A location in S3 is opened without Spark."""
    assert place_at("s3://bucket/x", 3).uri == "s3a://bucket/x"
    assert isinstance(place_at("s3://bucket/x", 3), Place)
