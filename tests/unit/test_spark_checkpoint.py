"""Spark's side of the checkpoint: what is read of it, and the one file that is ever put back."""

import pytest

from onceflow.checkpoint.spark_checkpoint import SparkCheckpoint
from onceflow.errors import CheckpointCorruptError


@pytest.fixture
def checkpoint(tmp_path):
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    return SparkCheckpoint(tmp_path)


def put(checkpoint, name, text="v1\n{}\n"):
    path = checkpoint.folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_an_empty_folder(tmp_path):
    """A checkpoint that does not exist yet has run nothing, and asking makes nothing."""
    checkpoint = SparkCheckpoint(tmp_path / "new")
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
    assert checkpoint.restore_offsets(3, "v1\ndecided")
    assert checkpoint.offsets(3) == "v1\ndecided"
    assert not crc.exists()


def test_offsets_are_restored_into_a_lost_folder(tmp_path):
    """The folder may be gone with the file."""
    checkpoint = SparkCheckpoint(tmp_path / "gone")
    assert checkpoint.restore_offsets(0, "v1\ndecided")
    assert checkpoint.offsets(0) == "v1\ndecided"


def test_the_same_offsets_are_left_alone(checkpoint):
    """What is as decided is not written again."""
    path = put(checkpoint, "offsets/3", "v1\ndecided")
    before = path.stat().st_ino
    assert checkpoint.restore_offsets(3, "v1\ndecided")
    assert path.stat().st_ino == before


def test_other_offsets_are_told_and_left_alone(checkpoint):
    """offsets/N of another range is not overwritten: the job must stop."""
    path = put(checkpoint, "offsets/3", "v1\nother")
    assert not checkpoint.restore_offsets(3, "v1\ndecided")
    assert path.read_text() == "v1\nother"


def test_sync_passes_over_what_is_not_there(tmp_path):
    """Epoch 0 has no commit before it, and a fresh checkpoint no folders: neither is an error."""
    SparkCheckpoint(tmp_path / "new").sync(0)
