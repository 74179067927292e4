"""Spark's side of the checkpoint: what is read of it, and what of it is written while no query runs."""

import json
import shutil

import pytest

from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.errors import CheckpointCorruptError, EpochFailedError
from onceflow.storage import posix as store_module


@pytest.fixture
def checkpoint(tmp_path):
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    return SparkCheckpoint.at(tmp_path)


def put(checkpoint, name, text="v1\n{}\n"):
    path = checkpoint.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_an_empty_folder(tmp_path):
    """A checkpoint that does not exist yet has run nothing, and asking makes nothing."""
    checkpoint = SparkCheckpoint.at(tmp_path / "new")
    assert (checkpoint.has_run(), checkpoint.newest_commit(), checkpoint.newest_offsets()) == (False, None, None)
    assert not checkpoint.is_stateful()
    assert not (tmp_path / "new").exists()


def test_the_newest_numbers(checkpoint):
    """The newest is the greatest number, not the last by name; Spark's hidden and temporary files do not count."""
    for name in ("offsets/9", "offsets/10", "offsets/.10.crc", "offsets/.11.tmp", "commits/9", "commits/11.bak"):
        put(checkpoint, name)
    assert (checkpoint.newest_offsets(), checkpoint.newest_commit()) == (10, 9)
    assert checkpoint.has_run()


def test_state_makes_it_stateful(checkpoint):
    """Spark's state folder tells a stateful query."""
    (checkpoint.folder / "state").mkdir()
    assert checkpoint.is_stateful()


def test_offsets_are_read_byte_for_byte(checkpoint):
    """Nothing of offsets/N is changed on the way into the decision."""
    text = 'v1\n{"batchWatermarkMs":0,"ü":1}\r\n\n{"t":{"0":5}}'
    (checkpoint.folder / "offsets" / "3").write_bytes(text.encode())
    assert checkpoint.offsets(3) == text


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe"])
def test_offsets_that_cannot_be_used_are_named(checkpoint, content):
    """Missing, empty or binary offsets stop the epoch with the file's name."""
    if content is not None:
        (checkpoint.folder / "offsets" / "3").write_bytes(content)
    with pytest.raises(CheckpointCorruptError, match="offsets/3") as caught:
        checkpoint.offsets(3)
    assert caught.value.facts["epoch"] == 3
    assert "which records epoch 3 consists of" in str(caught.value)


@pytest.mark.parametrize("content", [None, "", "\n"])
def test_lost_offsets_are_restored(checkpoint, content):
    """A power cut took offsets/N: the decided text is put back, and the stale checksum beside it is removed."""
    if content is not None:
        put(checkpoint, "offsets/3", content)
    crc = put(checkpoint, "offsets/.3.crc", "stale")
    checkpoint.put_right(3, "v1\ndecided")
    assert checkpoint.offsets(3) == "v1\ndecided"
    assert not crc.exists()


def test_offsets_are_restored_into_a_lost_folder(tmp_path):
    """The folder may be gone with the file."""
    checkpoint = SparkCheckpoint.at(tmp_path / "gone")
    checkpoint.put_right(0, "v1\ndecided")
    assert checkpoint.offsets(0) == "v1\ndecided"


def test_the_same_offsets_are_left_alone(checkpoint):
    """What is as decided is not written again."""
    path = put(checkpoint, "offsets/3", "v1\ndecided")
    before = path.stat().st_ino
    checkpoint.put_right(3, "v1\ndecided")
    assert path.stat().st_ino == before


def test_other_offsets_are_put_right(checkpoint, caplog):
    """A driver that slept has written its plan over it: the epoch reads what was decided, and the log says so."""
    path = put(checkpoint, "offsets/3", "v1\nother")
    crc = put(checkpoint, "offsets/.3.crc", "of the other")
    checkpoint.put_right(3, "v1\ndecided")
    assert path.read_text() == "v1\ndecided"
    assert not crc.exists()
    assert "offsets/3 is not what epoch 3 reads" in caplog.text


# -- what a power cut leaves ------------------------------------------------------------------------------------------


def planned(checkpoint, *epochs, done):
    for epoch in epochs:
        put(checkpoint, f"offsets/{epoch}", f"v1\n{{}}\n{epoch}")
        if epoch <= done:
            put(checkpoint, f"commits/{epoch}")


def content(checkpoint, name):
    path = checkpoint.folder / name
    return path.read_text() if path.exists() else None


def unasked():
    raise AssertionError("nothing is torn: the journal is not read for it")


def test_files_that_are_whole_are_left_alone(checkpoint):
    """Also where Spark has purged older ones, and in a checkpoint that has run nothing."""
    checkpoint.mend(unasked)
    planned(checkpoint, 7, 8, 9, done=8)
    put(checkpoint, "offsets/.10.tmp", "")
    before = {path: path.read_bytes() for path in checkpoint.folder.rglob("*") if path.is_file()}
    checkpoint.mend(unasked)
    assert before == {path: path.read_bytes() for path in checkpoint.folder.rglob("*") if path.is_file()}


def test_an_empty_commit_records_nothing(checkpoint):
    """The epoch counts as not done before anything is written, and its file, with Spark's checksum, makes way."""
    planned(checkpoint, 0, 1, done=0)
    put(checkpoint, "commits/1", "")
    put(checkpoint, "commits/.1.crc", "x")
    assert checkpoint.newest_commit() == 0
    assert not checkpoint.is_done(1)
    checkpoint.mend(unasked)
    assert not (checkpoint.folder / "commits" / "1").exists()
    assert not (checkpoint.folder / "commits" / ".1.crc").exists()
    assert content(checkpoint, "offsets/1") == "v1\n{}\n1"


@pytest.mark.parametrize("left", [None, "", "\n"])
@pytest.mark.parametrize("torn", [1, 2])
def test_offsets_that_are_decided_are_restored(checkpoint, torn, left):
    """Of the newest epoch that is done and of the one before it: Spark reads both at its start."""
    planned(checkpoint, 0, 1, 2, done=2)
    path = checkpoint.folder / "offsets" / str(torn)
    path.unlink() if left is None else path.write_text(left)
    checkpoint.mend(lambda: {1: "v1\n{}\n1", 2: "v1\n{}\n2"})
    assert content(checkpoint, f"offsets/{torn}") == f"v1\n{{}}\n{torn}"


def test_an_empty_plan_that_is_not_decided_is_made_again(checkpoint):
    """Nothing of it is visible, and Spark has not recorded it: it goes, with its checksum."""
    planned(checkpoint, 0, 1, done=1)
    put(checkpoint, "offsets/2", "")
    put(checkpoint, "offsets/.2.crc", "x")
    checkpoint.mend(dict)
    assert checkpoint.newest_offsets() == 1
    assert not (checkpoint.folder / "offsets" / ".2.crc").exists()


@pytest.mark.parametrize("left", [None, ""])
def test_an_epoch_without_output_whose_range_is_gone_is_refused_by_its_file(checkpoint, left):
    """Recorded as done and not decided: what it read stands nowhere else, and the message says what may be removed."""
    planned(checkpoint, 0, 1, done=1)
    path = checkpoint.folder / "offsets" / "1"
    path.unlink() if left is None else path.write_text(left)
    with pytest.raises(CheckpointCorruptError) as caught:
        checkpoint.mend(dict)
    assert str(path) in caught.value.what
    assert not caught.value.retriable
    for name in ("commits/1", "commits/.1.crc"):
        assert str(checkpoint.folder / name) in caught.value.action
        (checkpoint.folder / name).unlink(missing_ok=True)
    checkpoint.mend(dict)
    assert (checkpoint.newest_commit(), checkpoint.newest_offsets()) == (0, 0)


# -- what somebody has deleted ----------------------------------------------------------------------------------------


STATEFUL = 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["a"]],"1":[["b"]]}}'


@pytest.fixture
def whole(checkpoint):
    """Two epochs that are done, of which the second left something in two states."""
    put(checkpoint, "metadata", '{"id":"6e0f9a3c"}')
    planned(checkpoint, 0, 1, done=1)
    put(checkpoint, "commits/1", STATEFUL)
    for number in (0, 1):
        put(checkpoint, f"state/{number}/0/1_a.zip")
    return checkpoint


def test_a_whole_checkpoint_is_not_refused(whole, tmp_path):
    """Nor one that has run nothing, nor one whose commits tell of no state; and nothing is changed."""
    before = {path: path.read_bytes() for path in whole.folder.rglob("*") if path.is_file()}
    whole.require_complete(unasked)
    assert before == {path: path.read_bytes() for path in whole.folder.rglob("*") if path.is_file()}
    SparkCheckpoint.at(tmp_path / "new").require_complete(unasked)
    for name in ("commits/0", "commits/1"):
        put(whole, name, "v1\n{}\n")
    shutil.rmtree(whole.folder / "state")
    whole.require_complete(unasked)


@pytest.mark.parametrize("what", ["metadata", "state", "state/1", "state/1/0/1_a.zip"])
@pytest.mark.parametrize("emptied", [False, True])
def test_what_nothing_can_make_again_is_refused_by_its_name(whole, what, emptied):
    """The query's id, and the folder of each state that the newest epoch has left something in."""
    path = whole.folder / what
    if path.is_dir():
        shutil.rmtree(path)
    elif emptied and what == "metadata":
        path.write_text("")
    else:
        path.unlink()
        if what != "metadata":
            path.parent.rmdir()
    with pytest.raises(CheckpointCorruptError) as caught:
        whole.require_complete(unasked)
    assert str(path if what == "metadata" else whole.folder / "state") in caught.value.what
    assert caught.value.harmless.startswith("never")
    assert "copy" in caught.value.action


@pytest.mark.parametrize(("gone", "decided", "named"), [
    ((0, 1), (0, 1), None), ((0, 1), (1,), "offsets/0"), ((0,), (), "offsets/0"), ((0, 1), (0,), "offsets/1"),
])  # fmt: skip
def test_plans_that_are_gone_are_refused_where_they_are_not_decided(whole, gone, decided, named):
    """Spark reads the newest two; what is decided is made again at the start, and a look changes nothing."""
    for epoch in gone:
        (whole.folder / "offsets" / str(epoch)).unlink()
    known = {epoch: f"v1\n{{}}\n{epoch}" for epoch in decided}
    if named is None:
        whole.require_complete(lambda: known)
        assert whole.newest_offsets() is None
        whole.mend(lambda: known)
        assert content(whole, "offsets/1") == "v1\n{}\n1"
        return
    for look in (whole.require_complete, whole.mend):
        with pytest.raises(CheckpointCorruptError, match=named):
            look(lambda: known)


def test_where_the_first_epoch_begins_is_synced_before_it_is_decided(checkpoint, monkeypatch):
    """Spark keeps it in sources/<n>/0, unsynced: a power cut would take that, and not the decision that rests on it."""
    put(checkpoint, "offsets/0")
    beginnings = [put(checkpoint, f"sources/{number}/0") for number in (0, 1)]
    put(checkpoint, "sources/notes.txt")
    synced, sync = [], store_module._sync

    def noted(path):
        sync(path)
        synced.append(path)

    monkeypatch.setattr(store_module, "_sync", noted)
    checkpoint.sync(0)
    for beginning in beginnings:
        assert {beginning, beginning.parent, beginning.parent.parent, checkpoint.folder} <= set(synced)
    synced.clear()
    checkpoint.sync(1)
    assert not set(beginnings) & set(synced), "what is decided about a later epoch does not rest on it"


def test_sync_passes_over_what_is_not_there(tmp_path):
    """Epoch 0 has no commit before it, and a fresh checkpoint no folders: neither is an error."""
    SparkCheckpoint.at(tmp_path / "new").sync(0)


# -- other positions, where lost records are passed over --------------------------------------------------------------


def test_an_epoch_begins_at_the_offsets_of_the_one_before(checkpoint):
    """Spark reads from offsets/N-1 on; its stale checksum would make it refuse the new file."""
    put(checkpoint, "offsets/2", "v1\nold")
    crc = put(checkpoint, "offsets/.2.crc", "stale")
    checkpoint.set_start(3, "v1\nmoved")
    assert checkpoint.offsets(2) == "v1\nmoved"
    assert not crc.exists()


def test_the_first_epoch_begins_at_the_sources_initial_offsets(checkpoint):
    """There is no offsets/-1: each source's own file says where it begins, in Spark's form."""
    crc = put(checkpoint, "sources/0/.0.crc", "stale")
    checkpoint.set_start(0, 'v1\n{}\n{"t":{"0":5}}\n{"u":{"0":7}}')
    assert (checkpoint.folder / "sources" / "0" / "0").read_bytes() == b'\0v1\n{"t":{"0":5}}'
    assert (checkpoint.folder / "sources" / "1" / "0").read_bytes() == b'\0v1\n{"u":{"0":7}}'
    assert [checkpoint.initial_offsets(i) for i in (0, 1)] == ['{"t":{"0":5}}', '{"u":{"0":7}}']
    assert not crc.exists()


def test_initial_offsets_that_spark_has_not_written(checkpoint):
    """A source that never began has none."""
    assert checkpoint.initial_offsets(0) == ""


def test_initial_offsets_as_spark_writes_them(checkpoint):
    """A zero byte, the version, a line break, the JSON."""
    path = checkpoint.folder / "sources" / "0" / "0"
    path.parent.mkdir(parents=True)
    path.write_bytes(b'\0v1\n{"t":{"0":5}}')
    assert checkpoint.initial_offsets(0) == '{"t":{"0":5}}'


# -- plans that are taken back ----------------------------------------------------------------------------------------


def test_plans_are_taken_back_newest_first(checkpoint, monkeypatch):
    """When the power goes half way no plan is left behind one that is gone: numbers stay without gaps."""
    for epoch in (8, 9, 10, 11):
        put(checkpoint, f"offsets/{epoch}")
        put(checkpoint, f"offsets/.{epoch}.crc")
    put(checkpoint, "commits/8")
    removed, remove = [], checkpoint._offsets.remove

    def watched(name):
        removed.append(name)
        remove(name)

    monkeypatch.setattr(checkpoint._offsets, "remove", watched)
    checkpoint.take_back(9, checkpoint.plans_from(9))
    assert [name for name in removed if name.isdigit()] == ["11", "10", "9"]
    assert sorted(path.name for path in (checkpoint.folder / "offsets").iterdir()) == [".8.crc", "8"]
    checkpoint.take_back(9, checkpoint.plans_from(9))
    assert checkpoint.newest_offsets() == 8, "again, after a crash"


@pytest.mark.parametrize("newest", [9, 10])
def test_no_plan_is_taken_back_of_what_is_done(checkpoint, newest):
    """Another driver's Spark recorded it in between: its rows are counted, so nothing is removed."""
    for epoch in (9, 10):
        put(checkpoint, f"offsets/{epoch}")
    put(checkpoint, f"commits/{newest}")
    with pytest.raises(EpochFailedError, match="has it as done") as caught:
        checkpoint.take_back(9, checkpoint.plans_from(9))
    assert caught.value.retriable
    assert checkpoint.newest_offsets() == 10


def test_the_first_plan_is_taken_back(checkpoint):
    """Nothing is done yet."""
    put(checkpoint, "offsets/0")
    checkpoint.take_back(0, checkpoint.plans_from(0))
    assert not checkpoint.has_run()


@pytest.mark.parametrize(("newest", "epoch", "done"), [(None, -1, True), (None, 0, False), (3, 3, True), (3, 4, False)])
def test_what_is_done(checkpoint, newest, epoch, done):
    """Up to the newest number in commits/; before the first epoch there is nothing to record."""
    if newest is not None:
        put(checkpoint, f"commits/{newest}")
    assert checkpoint.is_done(epoch) is done


def test_offsets_of_an_epoch_that_is_done_are_put_right(checkpoint):
    """What it had read is proven; one that is not done, or is not there, is left as it is."""
    for epoch in range(4):
        put(checkpoint, f"offsets/{epoch}", f"v1\n{{}}\n{epoch}")
        put(checkpoint, f"offsets/.{epoch}.crc", "of what was there")
    put(checkpoint, "commits/2", "v2\n{}")
    ran = {1: "v1\n{}\n1", 2: "v1\n{}\nother", 3: "v1\n{}\nother", 7: "v1\n{}\nother"}
    assert checkpoint.other_than(ran) == [2]
    checkpoint.put_right(2, ran[2])
    assert checkpoint.other_than(ran) == []
    assert checkpoint.offsets(2) == "v1\n{}\nother"
    assert not (checkpoint.folder / "offsets" / ".2.crc").exists()  # else Spark refuses the file
    assert (checkpoint.offsets(1), checkpoint.offsets(3)) == ("v1\n{}\n1", "v1\n{}\n3")
    assert checkpoint.newest_offsets() == 3


def test_an_epoch_that_read_nothing_and_moved_no_watermark_is_told(tmp_path):
    """Only then is another one the same: where the watermark has moved, the next may write what that closes."""

    def plan(epoch, at, watermark):
        (tmp_path / "offsets").mkdir(exist_ok=True)
        head = json.dumps({"batchWatermarkMs": watermark, "batchTimestampMs": epoch})
        (tmp_path / "offsets" / str(epoch)).write_text(f'v1\n{head}\n{{"t":{{"0":{at}}}}}')

    for epoch, of in enumerate([(10, 0), (20, 5), (20, 7), (20, 7)]):
        plan(epoch, *of)
    checkpoint = SparkCheckpoint.at(tmp_path)
    assert [checkpoint.read_nothing(n) for n in range(5)] == [False, False, False, True, False]
