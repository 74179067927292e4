"""Jobs that were born of one another: who goes back behind another one is told what would be written twice."""

import dataclasses
import logging
import shutil

import pytest

from onceflow.checkpoint import family
from onceflow.checkpoint.family import WriteTarget
from onceflow.checkpoint.identity import JobIdentity, create_identity
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.restored import read_restored
from onceflow.checkpoint.statistics import EpochStatistics
from onceflow.errors import CheckpointConflictError, CheckpointCorruptError, CheckpointStoreError
from onceflow.launch import relatives
from onceflow.operations.savepoints import restoring, resuming
from onceflow.twophase.layout import Layout
from onceflow.twophase.records import LayoutRecord
from tests.support import checkpoints
from tests.support.advice import parts_of

HERE = (WriteTarget("alerts", "cluster", "alerts"),)


@pytest.fixture
def old(tmp_path):
    """A job's checkpoint with four epochs: 40 records of each partition are read."""
    return checkpoints.make(tmp_path / "old", 4)


def born(of, folder, *, epoch=3, targets=HERE, how=None):
    """A job that was begun from an epoch of another one, and has had its first start."""
    place = Place.at(folder, retain=100)
    with resuming.opened(f"{of.checkpoint.folder}@{epoch}", folder) as (path, manifest):
        made = restoring.restore(path, manifest, place, **how or {})
    create_identity(place.ours, JobIdentity(made.job_id, place.uri, "cluster", "onceflow"))
    relatives.begin(place, targets, "fraud")
    return place


def write(place, *epochs):
    """Epochs of five rows each."""
    history = place.journal.start(read_restored(place.ours).job_id)
    for epoch in epochs:
        checkpoints.run(place, epoch, incarnation=history.incarnation)
    return place


def refused(place, targets=HERE):
    """Why a start would be."""
    with pytest.raises(CheckpointConflictError) as raised:
        relatives.require_unwritten(place, targets)
    return parts_of(raised.value, CheckpointConflictError)


def test_a_start_that_goes_back_behind_a_newer_job_is_refused_until_it_is_said(old, tmp_path):
    """How many epochs and rows, and to which sinks; --claim says it, up to what there was, and it is asked no more."""
    new = born(old, tmp_path / "new")
    relatives.require_unwritten(old, HERE)  # it has written nothing yet
    write(new, 4, 5, 6)
    error = refused(old)
    assert "has written it in 3 epochs (4 to 6): 15 rows to sink alerts" in error.what
    assert new.uri in error.cause
    assert 'takeover="claim"' in error.action
    assert (error.facts["epochs"], error.facts["rows"]) == ([4, 5, 6], {"alerts": 15})
    relatives.accept(old)
    relatives.require_unwritten(old, HERE)
    write(new, 7)
    assert "15 rows" not in refused(old).what


def test_what_the_older_job_has_read_by_itself_is_not_written_again(old, tmp_path):
    """Both have run beside each other: only what the older one has not read yet counts."""
    new = write(born(old, tmp_path / "new"), 4, 5, 6)
    checkpoints.run(old, 4)
    checkpoints.run(old, 5)
    assert "in 1 epochs (6 to 6): 5 rows" in refused(old).what
    checkpoints.run(old, 6)
    relatives.require_unwritten(old, HERE)
    assert new.checkpoint.newest_commit() == 6


@pytest.mark.parametrize(
    ("targets", "is_refused"),
    [
        (HERE, True),
        ((WriteTarget("renamed", "cluster", "alerts"),), True),
        ((WriteTarget("alerts", "cluster", "trial"),), False),
        ((WriteTarget("alerts", "another", "alerts"),), False),
    ],
)
def test_only_who_writes_to_the_same_place_is_met(old, tmp_path, targets, is_refused):
    """A trial that writes to a topic of its own is nobody's concern; a sink that was renamed is."""
    write(born(old, tmp_path / "new", targets=targets), 4)
    if is_refused:
        refused(old)
    else:
        relatives.require_unwritten(old, HERE)


def test_a_sink_that_takes_no_part_is_told_without_a_number(old, tmp_path):
    """Nothing is decided of it: how far the newer job has come tells."""
    loose = (dataclasses.replace(HERE[0], decides=False),)
    new = born(old, tmp_path / "new", targets=loose)
    new.journal.start(read_restored(new.ours).job_id)
    checkpoints.run(new, 4, decide=False)
    assert "rows to sink alerts, whose number is not kept" in refused(old, loose).what


def test_the_newer_job_is_asked_when_the_older_one_has_gone_on(old, tmp_path):
    """The way back again: what the older job has written since they parted, and not what came before."""
    new = write(born(old, tmp_path / "new"), 4)
    relatives.require_unwritten(new, HERE)
    checkpoints.run(old, 4)
    relatives.require_unwritten(new, HERE)
    checkpoints.run(old, 5)
    assert "is of one family with this one" in refused(new).what
    assert "in 1 epochs (5 to 5): 5 rows to sink alerts" in refused(new).what
    shutil.rmtree(old.checkpoint.folder)  # a parent may be deleted
    relatives.require_unwritten(new, HERE)


def test_a_first_start_is_not_asked_what_its_owner_was_told(old, tmp_path):
    """Who begins from an older epoch was told at once; the next start is not refused for it."""
    new = born(old, tmp_path / "new", epoch=1)
    relatives.require_unwritten(new, HERE)
    write(new, 2)
    relatives.require_unwritten(new, HERE)


@pytest.mark.parametrize("with_state", [True, False])
def test_a_first_start_is_asked_what_its_owner_could_not_be_told(old, tmp_path, with_state):
    """The newer file did not start, and the older one went on: nobody was told that its rows would come twice."""
    new = Place.at(tmp_path / "new", retain=100)
    with resuming.opened(f"{tmp_path / 'old'}@3", tmp_path / "new") as (path, manifest):
        assert "no decided row is written again" in "\n".join(
            resuming.lines(manifest, resuming.written_again(path, manifest), claim=False)
        )
        restoring.restore(path, manifest, new, with_state=with_state)
    relatives.look(new, HERE, "fraud", None)
    checkpoints.run(old, 4)
    checkpoints.run(old, 5)
    error = refused(new)
    assert "is of one family with this one" in error.what
    assert "in 2 epochs (4 to 5): 10 rows to sink alerts" in error.what
    assert "from the savepoint again" in error.action


def test_grandchildren_are_found(old, tmp_path):
    """Upgraded twice and back to the first: what the second and the third have written is told."""
    second = write(born(old, tmp_path / "second"), 4)
    third = write(born(second, tmp_path / "third", epoch=4), 5, 6)
    assert read_restored(third.ours).job_id
    found = {each.checkpoint: each.beyond(old.checkpoint.offsets(3), HERE).rows() for each in _of(old)}
    assert found == {second.uri: {"alerts": 5}, third.uri: {"alerts": 10}}
    refused(old)


def _of(place):
    return family.relatives(place, lambda uri: Place.at(uri, retain=100))


def test_what_descendants_wrote_is_told_before_a_resume_of_an_older_epoch(old, tmp_path):
    """From the parent's epoch again: the rows of the newer job are written again, too."""
    new = write(born(old, tmp_path / "new"), 4, 5)
    with resuming.opened(f"{tmp_path / 'old'}@2", tmp_path / "third") as (path, manifest):
        told = "\n".join(resuming.lines(manifest, resuming.written_again(path, manifest), claim=False))
    assert "WRITTEN AGAIN: what that job has written in epochs 3 to 3" in told
    assert f"(checkpoint {new.uri}), which is of the same family, has written in epochs 4 to 5" in told
    assert "  sink alerts: 10 rows" in told
    shutil.rmtree(new.checkpoint.folder)
    with resuming.opened(f"{tmp_path / 'old'}@2", tmp_path / "third") as (path, manifest):
        told = "\n".join(resuming.lines(manifest, resuming.written_again(path, manifest), claim=False))
    assert "what it has written is not known here" in told


def test_a_newer_job_that_cannot_be_read_is_not_passed_over(old, tmp_path):
    """Its checkpoint is gone: nobody can say what it has written, and that is said, once."""
    new = write(born(old, tmp_path / "new"), 4)
    shutil.rmtree(new.checkpoint.folder)
    assert "what it has written cannot be told" in refused(old).what
    relatives.accept(old)
    relatives.require_unwritten(old, HERE)


def test_where_the_parent_cannot_know_of_it_the_start_says_so(old, tmp_path, caplog, monkeypatch):
    """The savepoint has travelled, or the parent is deleted: a line in the log, and the start goes on."""
    shutil.copytree(old.checkpoint.folder, tmp_path / "kept")
    with resuming.opened(str(tmp_path / "old") + "@3", tmp_path / "new") as (path, manifest):
        place = Place.at(tmp_path / "new", retain=100)
        restoring.restore(path, manifest, place)
    shutil.rmtree(old.checkpoint.folder)
    relatives.begin(place, HERE, "fraud")
    assert "does not know of it (its checkpoint is not in" in caplog.text
    assert not old.checkpoint.folder.exists()

    def away(*_, **__):
        raise CheckpointStoreError("its store does not answer")

    monkeypatch.setattr(relatives, "_opened", away)
    relatives.begin(place, HERE, "fraud")
    assert "cannot be written from here: its store does not answer" in caplog.text


def test_a_child_is_entered_once_and_comes_back(old, tmp_path):
    """Each try of its first start says the same; a file that was changed is named."""
    new = born(old, tmp_path / "new")
    relatives.begin(new, HERE, "fraud")
    (entry,) = (old.ours.folder / "children").iterdir()
    assert entry.name == f"{read_restored(new.ours).job_id}.json"
    entry.write_bytes(entry.read_bytes().replace(b"alerts", b"blerts"))
    with pytest.raises(CheckpointCorruptError) as raised:
        relatives.require_unwritten(old, HERE)
    assert str(entry) in parts_of(raised.value, CheckpointCorruptError).what


def test_what_of_the_state_is_left_behind_is_said(old, tmp_path, caplog):
    """Positions alone: which operators, how many rows, and the watermark, before it is done and in the start's log."""
    epoch = EpochStatistics(3, 1, "COMPLETED", "2026-01-01", state_rows=17, watermark="2026-01-01T10:00:00.000Z")
    old.statistics.add(epoch)
    with resuming.opened(f"{tmp_path / 'old'}@3", tmp_path / "new") as (path, manifest):
        left = restoring.left_behind(path, manifest)
        told = "\n".join(resuming.lines(manifest, resuming.written_again(path, manifest), claim=False, left=left))
    assert "left behind: state 0 of output alerts (stateStoreSave:key): 17 rows" in told
    assert "the watermark, which stood at 2026-01-01T10:00:00.000Z" in told
    caplog.set_level(logging.WARNING)
    born(old, tmp_path / "new", how={"with_state": False})
    assert "17 rows; and the watermark, which stood at" in caplog.text


def test_of_a_plan_without_state_nothing_is_left_behind(tmp_path):
    """And where the old checkpoint is not to be seen the number of rows is not made up."""
    old = checkpoints.make(tmp_path / "old", 2)
    with resuming.opened(f"{tmp_path / 'old'}@1", tmp_path / "new") as (path, manifest):
        shutil.rmtree(old.checkpoint.folder)
        assert "how many rows is not known here; and the watermark." in restoring.left_behind(path, manifest)
    plain = checkpoints.make(tmp_path / "plain", 1)
    plain.journal.append(LayoutRecord(1, Layout(checkpoints.LAYOUT.sources)))
    checkpoints.run(plain, 1)
    with resuming.opened(f"{tmp_path / 'plain'}@1", tmp_path / "new") as (path, manifest):
        assert restoring.left_behind(path, manifest) == ""


def test_the_second_job_in_a_folder_is_looked_at_though_the_first_one_is_gone(old, tmp_path):
    """The first try was removed, and begun again in the same folder: the rows of the second one count."""
    first = born(old, tmp_path / "new")
    gone = read_restored(first.ours).job_id
    shutil.rmtree(first.checkpoint.folder)
    second = write(born(old, tmp_path / "new"), 4, 5)
    found = {each.job_id: each.is_known for each in _of(old)}
    assert found == {gone: False, read_restored(second.ours).job_id: True}
    error = refused(old)
    assert "in 2 epochs (4 to 5): 10 rows to sink alerts" in error.what
    assert f"in {second.uri} is another job's checkpoint now" in error.what


def tear(place):
    """A journal that nobody can read."""
    for path in place.records.folder.iterdir():
        path.write_bytes(b"torn")


def test_a_relative_that_cannot_be_read_is_one_that_is_not_known(old, tmp_path, caplog):
    """A torn journal of another job stops this one once, as one that is gone does, and never a claim of it."""
    new = write(born(old, tmp_path / "new"), 4)
    tear(new)
    assert "what it has written cannot be told" in refused(old).what
    relatives.accept(old)
    relatives.require_unwritten(old, HERE)
    second = write(born(old, tmp_path / "second"), 4)
    tear(old)
    relatives.require_unwritten(second, HERE)
    assert f"job {checkpoints.JOB}, from which this one was begun, cannot be read" in caplog.text


def test_a_claim_is_not_stopped_by_what_is_kept_of_others(old, tmp_path, caplog):
    """An entry that nobody can read is said in the log."""
    born(old, tmp_path / "new")
    (entry,) = (old.ours.folder / "children").iterdir()
    entry.write_bytes(b"torn")
    relatives.accept(old)
    assert f"{entry} cannot be used" in caplog.text


def test_all_that_would_come_twice_is_told_and_each_that_a_claim_accepts(old, tmp_path, caplog):
    """Two newer jobs: the refusal has both, with epochs and rows; a claim covers both, and says so of each."""
    first = write(born(old, tmp_path / "first"), 4, 5)
    second = write(born(old, tmp_path / "second"), 4, 5, 6)
    gone = write(born(old, tmp_path / "gone"), 4)
    shutil.rmtree(gone.checkpoint.folder)
    error = refused(old)
    for place, told in ((first, "2 epochs (4 to 5): 10 rows"), (second, "3 epochs (4 to 6): 15 rows")):
        job = read_restored(place.ours).job_id
        assert f"job {job}, which was begun from this one" in error.what
        assert told in error.what
        assert place.uri in error.cause
    assert "cannot be told" in error.what
    assert error.facts["rows"] == {"alerts": 25}
    relatives.look(old, HERE, "fraud", "claim")()
    said = [record.getMessage() for record in caplog.records if "is accepted" in record.getMessage()]
    assert len(said) == 3
    assert any("10 rows to sink alerts" in each for each in said)
    assert any("15 rows to sink alerts" in each for each in said)
    relatives.require_unwritten(old, HERE)


def test_who_claims_a_savepoint_behind_a_newer_job_is_told_and_asked_as_that_job(old, tmp_path):
    """The older job goes on in a new folder: what was begun from it before is still what was begun from it."""
    new = write(born(old, tmp_path / "new"), 4, 5)
    with resuming.opened(f"{tmp_path / 'old'}@3", tmp_path / "on") as (path, manifest):
        told = "\n".join(resuming.lines(manifest, resuming.written_again(path, manifest), claim=True))
        place = Place.at(tmp_path / "on", retain=100)
        made = restoring.restore(path, manifest, place, claim=True)
    assert made.job_id == checkpoints.JOB
    assert f"(checkpoint {new.uri}), which is of the same family, has written in epochs 4 to 5" in told
    create_identity(place.ours, JobIdentity(made.job_id, place.uri, "cluster", "onceflow"))
    (child,) = _of(place)
    assert (child.checkpoint, child.is_born) == (new.uri, True)
    relatives.begin(place, HERE, "fraud")
    write(place, 4)
    relatives.require_unwritten(place, HERE)  # it was told when that began
    write(new, 6)
    assert "was begun from this one" in refused(place).what


TRIAL = (WriteTarget("alerts", "cluster", "trial"),)


def test_a_trial_that_goes_on_into_the_real_place_is_met(old, tmp_path):
    """Where a job writes is kept at each start of it, with its parent and in its own checkpoint."""
    new = write(born(old, tmp_path / "new", targets=TRIAL), 4)
    relatives.require_unwritten(old, HERE)
    relatives.begin(new, HERE, "fraud")
    write(new, 5)
    assert "to sink alerts" in refused(old).what
    shutil.rmtree(new.checkpoint.folder)
    assert "writes to the same places" in refused(old).what  # its parent was told, too
    refused(old, TRIAL)  # and has not forgotten the first


def test_a_child_of_an_older_version_keeps_where_it_began_to_write(old, tmp_path):
    """Its own checkpoint says nothing of that; its parent's does."""
    new = write(born(old, tmp_path / "new"), 4)
    (new.ours.folder / "targets.json").unlink()
    relatives.begin(new, TRIAL, "fraud")
    refused(old, HERE)
    refused(old, TRIAL)


def test_a_trial_is_not_asked_for_its_parent_that_goes_on(old, tmp_path):
    """The parent's topics are known, and not its sinks' names alone; where an older version wrote it, they are all."""
    new = write(born(old, tmp_path / "new", targets=TRIAL), 4)
    for epoch in (4, 5):
        checkpoints.run(old, epoch)
    refused(new, TRIAL)
    relatives.begin(old, HERE, "fraud")
    relatives.require_unwritten(new, TRIAL)
    refused(new, HERE)


def test_a_file_of_targets_that_was_changed_is_named(old):
    """It says what a start of another job is compared with."""
    relatives.begin(old, HERE, "fraud")
    path = old.ours.folder / "targets.json"
    path.write_bytes(path.read_bytes().replace(b"alerts", b"blerts"))
    with pytest.raises(CheckpointCorruptError) as raised:
        relatives.begin(old, HERE, "fraud")
    assert str(path) in parts_of(raised.value, CheckpointCorruptError).what


@pytest.mark.parametrize(
    ("mine", "theirs", "is_beyond"),
    [
        ('{"payments":{"0":5}}', '{"payments":{"0":5,"1":0}}', False),
        ('{"payments":{"0":5}}', '{"payments":{"0":5,"1":1}}', True),
        ('{"payments":{"0":5,"1":0}}', '{"payments":{"0":5}}', False),
        ('{"payments":{"0":9}}', '{"payments":{"0":5}}', False),
        ('{"logOffset":3}', '{"logOffset":2}', False),
        ('{"logOffset":3}', '{"logOffset":4}', True),
        ("7", "7", False),
        ("7", "6", False),
        ("7", "8", True),
        ("-", "0", True),
        ("7", "-", False),
        ('{"reservoirVersion":3}', '{"reservoirVersion":2}', True),  # what cannot be told
        ('{"reservoirVersion":3}', '{"reservoirVersion":3}', False),
    ],
)
def test_only_what_was_read_behind_a_position_counts(mine, theirs, is_beyond):
    """A new partition in which nothing is says nothing; a position that is a number is compared as one."""
    head = 'v1\n{"batchWatermarkMs":0}\n'
    epochs = (family.Epoch(4, head + theirs, {"alerts": 5}),)
    other = family.Relative("another", "file:///x", True, True, HERE, epochs)
    assert bool(other.beyond(head + mine).epochs) is is_beyond


def test_a_spoiled_entry_of_another_one_does_not_keep_a_new_child_out(old, tmp_path):
    """Each has a file of its own."""
    born(old, tmp_path / "first")
    (entry,) = (old.ours.folder / "children").iterdir()
    entry.write_bytes(b"torn")
    second = born(old, tmp_path / "second")
    assert (old.ours.folder / "children" / f"{read_restored(second.ours).job_id}.json").exists()
