"""Savepoints: what they consist of, what they say of themselves, and that an unfinished or changed one is noticed."""

import contextlib
import json
import os
import resource
import shutil
import signal

import pytest
from typer.testing import CliRunner

from onceflow.checkpoint.place import Place
from onceflow.cli.app import app
from onceflow.errors import (
    CheckpointConflictError,
    CheckpointCorruptError,
    CheckpointStoreError,
    ConfigurationError,
)
from onceflow.operations.savepoints import reading, rescaling, restoring, resuming, writing
from onceflow.operations.savepoints.contents import contents
from onceflow.operations.savepoints.manifest import Manifest
from onceflow.twophase.records import Skip
from tests.support import checkpoints
from tests.support.advice import parts_of


@pytest.fixture(autouse=True)
def runtime(monkeypatch, tmp_path):
    """No job of somebody else is found."""
    monkeypatch.setenv("ONCEFLOW_RUNTIME_DIR", str(tmp_path / "run"))


def onceflow(*arguments, code=0):
    """A command: its JSON object."""
    done = CliRunner().invoke(app, [*map(str, arguments), "--output", "json"])
    assert done.exit_code == code, done.output
    if done.exception is not None and code:
        raise done.exception
    return json.loads(done.stdout.splitlines()[-1])


def refused(kind, function, *arguments, **keywords):
    """What a call raises, which is of this class."""
    with pytest.raises(kind) as raised:
        function(*arguments, **keywords)
    return parts_of(raised.value, kind)


def test_state_is_found_by_its_records_and_not_by_listing(tmp_path):
    """Of the newest epoch: the snapshot with what it shares, and the changelogs behind it; nothing of another run."""
    place = checkpoints.make(tmp_path / "c", 5)
    stray = tmp_path / "c" / "state" / "0" / "0" / "5_another-run.changelog"
    stray.write_bytes(b"of a run that was not recorded")
    names = [path for path in contents(place).files if path.startswith("state/0/0/")]
    assert names == [
        "state/0/0/_metadata/schema",
        "state/0/0/3_00000003-0.zip",
        "state/0/0/SSTs/000008-a.sst",
        "state/0/0/4_00000004-0.changelog",
        "state/0/0/4_00000004-0.changelog.crc",
        "state/0/0/5_00000005-0.changelog",
        "state/0/0/5_00000005-0.changelog.crc",
    ]


@pytest.mark.parametrize(("epoch", "versions"), [(0, [1]), (1, [1, 2]), (2, [3]), (3, [3, 4])])
def test_each_epoch_has_the_versions_of_its_lineage(tmp_path, epoch, versions):
    """Before the first snapshot all changelogs; at it the snapshot alone; behind it what rests on it."""
    found = contents(checkpoints.make(tmp_path / "c", 5), epoch)
    names = [path.split("/")[-1] for path in found.files if path.startswith("state/0/1/") and path[10].isdigit()]
    assert sorted({int(name.split("_")[0]) for name in names}) == versions
    assert found.offsets == checkpoints.offsets(epoch)
    assert {path for path in found.files if path.startswith(("offsets", "commits"))} == {
        f"{folder}/{n}" for folder in ("offsets", "commits") for n in (epoch - 1, epoch) if n >= 0
    }


def test_of_the_journal_it_has_what_was_decided_up_to_its_epoch(tmp_path):
    """An older epoch's has no record of a later decision, nor of what came behind it."""
    place = checkpoints.make(tmp_path / "c", 5)
    older, newest = contents(place, 2), contents(place)
    assert [p for p in older.files if "journal" in p] == [f"onceflow/journal/{n:020d}.json" for n in range(1, 6)]
    assert [p for p in newest.files if "journal" in p] == [f"onceflow/journal/{n:020d}.json" for n in range(1, 8)]
    assert (older.is_newest, newest.is_newest) == (False, True)


def test_an_epoch_that_is_retained_is_gone_on_from_when_the_journal_has_purged_others(tmp_path):
    """Its newest record says that more is kept than later ones have left: the layout is there all the same."""
    checkpoints.make(tmp_path / "c", 8)
    purging = Place.at(tmp_path / "c", retain=3)
    purging.journal.start(checkpoints.JOB)
    for epoch in range(8, 12):
        checkpoints.run(purging, epoch, incarnation=2)
        purging.journal.purge()
    assert next(e.epoch for e in purging.journal.decided_epochs(checkpoints.JOB)) > 3
    with resuming.opened(f"{tmp_path / 'c'}@9", tmp_path / "new") as (path, manifest):
        assert manifest.epoch == 9
        assert restoring.layout_of(path) == checkpoints.LAYOUT


def test_a_savepoint_is_whole_verifies_and_says_what_it_is(tmp_path):
    """By the commands: made, listed, shown, verified; its state is shared with the checkpoint, not copied."""
    place = checkpoints.make(tmp_path / "c", 4)
    made = onceflow("savepoint", "create", tmp_path / "c", tmp_path / "s" / "one")
    assert (made["epoch"], made["job_id"], made["sinks"], made["partitions"]) == (3, checkpoints.JOB, ["alerts"], 2)
    onceflow("savepoint", "create", tmp_path / "c", tmp_path / "s" / "two")
    assert [each["path"][-3:] for each in onceflow("savepoint", "list", tmp_path / "s")["savepoints"]] == ["one", "two"]
    shown = onceflow("savepoint", "show", tmp_path / "s" / "one")
    assert shown["offsets"] == checkpoints.offsets(3)
    assert len(shown["files"]) == onceflow("savepoint", "verify", tmp_path / "s" / "one")["files"]
    snapshot = "state/0/0/3_00000003-0.zip"
    assert (tmp_path / "c" / snapshot).samefile(tmp_path / "s" / "one" / "files" / snapshot)
    assert [name for name in place.ours.names() if name.startswith("savepoint")] == []


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda of: (of / "offsets" / "3").write_text("v1\n{}\n{}"), "offsets/3 was changed: it has"),
        (lambda of: (of / "state/0/0/SSTs/000008-a.sst").write_text("tss"), "000008-a.sst was changed: its SHA-256"),
        (lambda of: (of / "commits" / "3").unlink(), "commits/3 is missing"),
        (lambda of: (of / "commits" / "4").write_text("v2\n{}"), "commits/4 was added"),
        (lambda of: (of.parent / "notes.txt").write_text("mine"), "notes.txt was added"),
    ],
)
def test_what_was_changed_is_named(tmp_path, spoil, told):
    """A file with another length, with other bytes, one less, one more; an export is refused, too."""
    checkpoints.make(tmp_path / "c", 4)
    onceflow("savepoint", "create", tmp_path / "c", tmp_path / "s")
    shutil.copytree(tmp_path / "s", tmp_path / "copy")
    spoil(tmp_path / "copy" / "files")
    error = refused(CheckpointCorruptError, onceflow, "savepoint", "verify", tmp_path / "copy", code=1)
    parts_of(error, CheckpointCorruptError, told)
    refused(CheckpointCorruptError, onceflow, "savepoint", "export", tmp_path / "copy", tmp_path / "to", code=1)
    assert not (tmp_path / "to").exists()
    assert onceflow("savepoint", "verify", tmp_path / "s")["epoch"] == 3  # another savepoint, as it says


def test_a_disk_that_is_full_is_named_by_what_is_written_there(tmp_path):
    """Of a copy the system names the file that was read: whoever is told that looks at the wrong disk."""
    (tmp_path / "source").write_text("x" * 100_000)
    source, to = tmp_path / "source", tmp_path / "to"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:  # a limit for this process's files, in the place of a disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
        with pytest.raises(CheckpointStoreError) as raised, reading.translating("/target"):
            shutil.copyfile(source, to)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    error = parts_of(raised.value, CheckpointStoreError)
    assert error.what == f"could not read or write {to}: File too large"
    with pytest.raises(CheckpointStoreError, match="gone: No such file"), reading.translating("/target"):
        shutil.copyfile(tmp_path / "gone", tmp_path / "to")


def test_a_manifest_that_was_edited_is_noticed(tmp_path):
    """It carries its own checksum: a savepoint cannot be made to fit changed files."""
    checkpoints.make(tmp_path / "c", 2)
    onceflow("savepoint", "create", tmp_path / "c", tmp_path / "s")
    manifest = tmp_path / "s" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"epoch": 1', '"epoch": 0'))
    parts_of(refused(CheckpointCorruptError, reading.verify, tmp_path / "s"), CheckpointCorruptError)


def test_an_unfinished_savepoint_is_none(tmp_path, monkeypatch):
    """Whatever fails on the way: nothing stands in its place, nothing is left, and it can be made again."""
    place = checkpoints.make(tmp_path / "c", 3)
    real, files = os.link, len(contents(place).files)
    for fails_at in (0, files - 1, files + 3):  # the first, the last, and one of the second round
        calls = iter(range(1_000))

        def link(source, to, *, calls=calls, fails_at=fails_at):
            if next(calls) == fails_at:
                raise PermissionError(13, "it was taken away", str(source))
            real(source, to)

        def copy(source, to):
            raise PermissionError(13, "nor can it be copied", str(source))

        with monkeypatch.context() as patched:
            patched.setattr(os, "link", link)
            patched.setattr(shutil, "copyfile", copy)
            error = refused(CheckpointStoreError, writing.create, place, tmp_path / "s")
        parts_of(error, CheckpointStoreError)
        assert {path.name for path in tmp_path.iterdir()} <= {"c", "run"}
        assert [name for name in place.ours.names() if name.startswith("savepoint")] == []
    assert writing.create(place, tmp_path / "s").manifest.epoch == 2
    (tmp_path / "s" / "manifest.json").unlink()
    parts_of(refused(ConfigurationError, reading.read, tmp_path / "s"), ConfigurationError, "no savepoint")


def test_without_links_files_are_copied(tmp_path, monkeypatch):
    """A savepoint on another file system is the same, and shares nothing."""
    place = checkpoints.make(tmp_path / "c", 3)
    real = os.link

    def link(source, to):
        if ".unfinished-" in str(to):
            raise OSError(18, "another device")
        real(source, to)

    monkeypatch.setattr(os, "link", link)
    manifest = writing.create(place, tmp_path / "s").manifest
    assert reading.verify(tmp_path / "s") == manifest
    assert not (tmp_path / "c" / "offsets" / "2").samefile(tmp_path / "s" / "files" / "offsets" / "2")


def test_an_export_is_self_contained_and_a_disposal_takes_only_its_own(tmp_path):
    """The copy shares no file; a savepoint that is disposed of leaves the checkpoint, the copy, and what is not its."""
    checkpoints.make(tmp_path / "c", 4)
    onceflow("savepoint", "create", tmp_path / "c", tmp_path / "s")
    onceflow("savepoint", "export", tmp_path / "s", tmp_path / "copy")
    assert not (tmp_path / "s" / "files" / "offsets" / "3").samefile(tmp_path / "copy" / "files" / "offsets" / "3")
    (tmp_path / "s" / "files" / "notes.txt").write_text("mine")
    assert onceflow("savepoint", "dispose", tmp_path / "s")["left"] == ["files/notes.txt"]
    assert onceflow("savepoint", "verify", tmp_path / "copy")["epoch"] == 3
    assert onceflow("savepoint", "dispose", tmp_path / "copy")["left"] == []
    assert not (tmp_path / "copy").exists()
    assert contents(checkpoints.Place.at(tmp_path / "c", 1)).epoch == 3
    refused(ConfigurationError, onceflow, "savepoint", "dispose", tmp_path / "c", code=1)


def test_an_undone_decision_is_finished_first(tmp_path):
    """A savepoint without it would lose its epoch or write it twice: refused; finished, it can be taken."""
    place = checkpoints.make(tmp_path / "c", 2)
    checkpoints.run(place, 2, recorded=False)
    error = refused(CheckpointConflictError, writing.create, place, tmp_path / "s")
    parts_of(error, CheckpointConflictError, "start the job once")
    ids = {"0": [[checkpoints.state_id(3, partition)] for partition in (0, 1)]}
    checkpoints.write(tmp_path / "c" / "commits" / "2", "v2\n" + json.dumps({"stateUniqueIds": ids}))
    assert writing.create(place, tmp_path / "s").manifest.epoch == 2


def test_offsets_that_are_not_the_decision_are_refused(tmp_path):
    """A savepoint must not carry on what a driver that slept wrote over ``offsets/N``."""
    place = checkpoints.make(tmp_path / "c", 3)
    (tmp_path / "c" / "offsets" / "2").write_text(checkpoints.offsets(7))
    error = refused(CheckpointCorruptError, writing.create, place, tmp_path / "s")
    parts_of(error, CheckpointCorruptError, "not what was decided")


def test_offsets_that_are_not_what_was_noted_are_refused(tmp_path):
    """Likewise of an epoch without a decision: what it had read is noted at its end."""
    place = checkpoints.make(tmp_path / "c", 3, decide=False)
    place.journal.passed.adopt(None)
    place.journal.passed.note(2, checkpoints.offsets(2))
    (tmp_path / "c" / "offsets" / "2").write_text(checkpoints.offsets(7))
    error = refused(CheckpointCorruptError, writing.create, place, tmp_path / "s")
    parts_of(error, CheckpointCorruptError, "noted at its end")


def test_offsets_that_an_operator_has_moved_are_taken(tmp_path):
    """Rows were given up behind the decision: the file says more than that, and the journal says why."""
    place = checkpoints.make(tmp_path / "c", 3)
    place.journal.append(Skip(1, 3, checkpoints.offsets(7), ""))
    (tmp_path / "c" / "offsets" / "2").write_text(checkpoints.offsets(7))
    made = writing.create(place, tmp_path / "s", "fraud").manifest
    assert made.offsets == checkpoints.offsets(7)


@pytest.mark.parametrize("gone", ["4_00000004-0.changelog", "3_00000003-0.zip", "SSTs/000008-a.sst"])
def test_state_that_is_not_whole_is_named(tmp_path, gone):
    """No savepoint is made of what Spark could not go on from; put back, it is."""
    place = checkpoints.make(tmp_path / "c", 4)
    path = tmp_path / "c" / "state" / "0" / "0" / gone
    held = path.read_bytes()
    path.unlink()
    parts_of(refused(CheckpointCorruptError, writing.create, place, tmp_path / "s"), CheckpointCorruptError)
    path.write_bytes(held)
    assert writing.create(place, tmp_path / "s").manifest.epoch == 3


@pytest.mark.parametrize("epoch", [4, 9])
def test_an_epoch_that_is_not_retained_is_refused(tmp_path, epoch):
    """One that is not done, or that was never; and one whose files Spark has purged."""
    place = checkpoints.make(tmp_path / "c", 4)
    parts_of(refused(ConfigurationError, contents, place, epoch), ConfigurationError, f"epoch {epoch}")
    (tmp_path / "c" / "commits" / "1").unlink()
    parts_of(refused(ConfigurationError, contents, place, 1), ConfigurationError, "epoch 1")
    assert contents(place, 3).epoch == 3


def test_a_job_is_held_while_its_files_are_linked_and_no_longer(tmp_path):
    """What is hashed, synced and copied afterwards no epoch waits for."""
    place = checkpoints.make(tmp_path / "c", 3)
    seen = []

    @contextlib.contextmanager
    def held():
        seen.append(sorted(tmp_path.glob(".unfinished*")))
        yield
        seen.append(sorted(tmp_path.glob(".unfinished*")))
        checkpoints.run(place, 3)  # it goes on

    taken = writing.create(place, tmp_path / "s", held=held)
    assert seen == [[], []]
    assert taken.manifest.epoch == 2
    assert reading.verify(tmp_path / "s") == taken.manifest


def test_nothing_is_written_over(tmp_path):
    """A place that is taken is refused, before a job is held for it."""
    place = checkpoints.make(tmp_path / "c", 1)
    (tmp_path / "s").mkdir()
    error = refused(ConfigurationError, writing.create, place, tmp_path / "s", held=lambda: 1 / 0)
    parts_of(error, ConfigurationError, "is there already")
    assert writing.create(place, tmp_path / "t").manifest.epoch == 0


def test_a_checkpoint_without_an_epoch_has_nothing_to_save(tmp_path):
    """Neither an empty folder nor a job's first start."""
    (tmp_path / "empty").mkdir()
    error = refused(ConfigurationError, writing.create, checkpoints.Place.at(tmp_path / "empty", 1), tmp_path / "s")
    parts_of(error, ConfigurationError)
    assert not (tmp_path / "empty" / "onceflow").exists()
    refused(ConfigurationError, writing.create, checkpoints.make(tmp_path / "c", 0), tmp_path / "s")


@pytest.mark.parametrize(("keeps_state", "partitions"), [(True, 2), (False, 4)])
def test_what_needs_no_rescale_is_not_rescaled(tmp_path, keeps_state, partitions):
    """As many partitions as it has, or no state: refused before Spark is asked, and it is resumed as it is."""
    checkpoint = checkpoints.make(tmp_path / "c", 2, state=keeps_state)
    manifest = writing.create(checkpoint, tmp_path / "s").manifest
    assert manifest.partitions == (2 if keeps_state else None)
    refused(ConfigurationError, rescaling.rescale, None, tmp_path / "s", tmp_path / "t", partitions)
    assert not (tmp_path / "t").exists()


def test_a_rescaled_savepoint_is_not_claimed(tmp_path):
    """Its newest epoch is Spark's own, and the old job may decide that number itself; as a new job it is resumed."""
    place = checkpoints.make(tmp_path / "c", 3)
    manifest = writing.create(place, tmp_path / "s", job_epoch=1).manifest
    new = checkpoints.Place.at(tmp_path / "new", 100)
    refused(CheckpointConflictError, restoring.restore, tmp_path / "s", manifest, new, claim=True)
    again = resuming.written_again(tmp_path / "s", manifest)
    assert again.epochs == (2, 2)  # of the job's epochs, not of Spark's
    restoring.restore(tmp_path / "s", manifest, new)


def test_a_manifest_is_read_as_it_was_written(tmp_path):
    """All of it, so that a copy elsewhere says the same."""
    manifest = writing.create(checkpoints.make(tmp_path / "c", 2), tmp_path / "s", "fraud").manifest
    assert Manifest.loads(manifest.dumps()) == manifest
    assert manifest.job == "fraud"
    assert manifest.formats == {"journal": "3", "offsets": "v1", "commits": "v2"}
