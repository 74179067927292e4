"""Savepoints that are signed: who has no key makes none that is taken, and changes none."""

import json
import os
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.journal_codec import encode
from onceflow.checkpoint.place import Place
from onceflow.cli import savepoint as command
from onceflow.errors import CheckpointCorruptError, ConfigurationError
from onceflow.operations.savepoints import reading, restoring, resuming, signing, writing
from onceflow.storage import envelope
from onceflow.storage.store import Store
from onceflow.twophase.layout import Layout
from onceflow.twophase.records import LayoutRecord
from tests.support import checkpoints
from tests.support.keyed_rows import KEY

OTHER = b"another key of the same thirty-two"


@pytest.fixture
def old(tmp_path):
    return checkpoints.make(tmp_path / "old", 4)


@pytest.fixture
def made(tmp_path, old):
    writing.create(old, tmp_path / "s", "fraud", key=KEY)
    return tmp_path / "s"


def rewritten(path, change):
    """A manifest as somebody without the key can make it: whole, and with its checksum."""
    body = json.loads((path / "manifest.json").read_text())
    body.pop("sha256")
    (path / "manifest.json").write_bytes(envelope.seal(change(body)))


def resumed(path, tmp_path, key=KEY):
    with resuming.opened(str(path), tmp_path / "new", key) as (_, manifest):
        return manifest


def test_what_was_signed_is_taken_and_says_so(made, tmp_path, monkeypatch):
    """A copy keeps its signature; without a key nobody asks."""
    assert signing.is_signed(resumed(made, tmp_path), KEY)
    writing.export(made, tmp_path / "copy", KEY)
    assert signing.is_signed(resumed(tmp_path / "copy", tmp_path), KEY)
    assert resumed(made, tmp_path, key=None).signature
    (tmp_path / "key").write_bytes(KEY)
    (tmp_path / "key").chmod(0o600)
    monkeypatch.setenv("ONCEFLOW_AUDIT_KEY_FILE", str(tmp_path / "key"))
    told = CliRunner().invoke(command.app, ["verify", str(made)])
    assert told.output.rstrip().endswith("as they were; signed with this key")
    monkeypatch.delenv("ONCEFLOW_AUDIT_KEY_FILE")
    assert CliRunner().invoke(command.app, ["verify", str(made)]).output.rstrip().endswith("nothing proves (no key)")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda body: {k: v for k, v in body.items() if k != "signature"}, "is not signed"),
        (lambda body: body | {"offsets": body["offsets"].replace("4", "9")}, "was changed"),
        (lambda body: body | {"epoch": body["epoch"] - 1}, "was changed"),
        (lambda body: body | {"checkpoint": "file:///elsewhere"}, "was changed"),
        (lambda body: body | {"signature": "0" * 64}, "was changed"),
        (lambda body: body | {"signature": "\u00e9"}, "was changed"),
    ],
)
def test_what_somebody_without_the_key_made_of_it_is_refused(made, tmp_path, change, what):
    """Its checksum is right, so that without the key it is taken."""
    rewritten(made, change)
    for use in (
        lambda: resumed(made, tmp_path),
        lambda: reading.verify(made, KEY),
        lambda: writing.export(made, tmp_path / "copy", KEY),
    ):
        with pytest.raises(ConfigurationError, match=what) as refused:
            use()
        assert "ONCEFLOW_AUDIT_KEY_FILE" in refused.value.cause
    assert not (tmp_path / "copy").exists()
    reading.verify(made)


@pytest.mark.parametrize("named", ["offsets/", "state/"])
@pytest.mark.parametrize("claim", [False, True])
def test_what_is_changed_behind_its_check_is_not_taken(made, tmp_path, named, claim):
    """A command asks before it goes on: whoever may write to its folder has as long as the person thinks."""
    manifest = reading.verify(made, KEY)
    for name in manifest.files:
        if named in name:
            path = made / "files" / name
            data = path.read_bytes()
            path.unlink()  # by a new file: the old one may be the checkpoint's, too
            path.write_bytes(data.replace(b"4", b"9").replace(b"alerts", b"stolen") + b" ")
    with pytest.raises(CheckpointCorruptError, match="came as another file"):
        restoring.restore(made, manifest, Place.at(tmp_path / "new", retain=100), claim=claim)
    assert not (tmp_path / "new").exists()


def test_a_journal_that_is_changed_behind_its_check_is_not_taken(made, tmp_path):
    """What stands at a new job's positions is read of it; an entry is whole by its checksum, which anybody makes."""
    manifest = reading.verify(made, KEY)
    journal = made / "files" / "onceflow" / "journal"
    entry = next(each for each in Journal(Store(journal)).kept() if isinstance(each.record, LayoutRecord))
    path = journal / f"{entry.slot:020d}.json"
    path.unlink()
    path.write_bytes(encode(replace(entry, record=replace(entry.record, layout=Layout()))))
    with pytest.raises(CheckpointCorruptError, match="came as another file"):
        restoring.restore(made, manifest, Place.at(tmp_path / "new", retain=100))


def test_a_folder_of_files_that_is_a_link_is_not_taken(made, tmp_path):
    """What it leads to is another's to change; and to dispose of the savepoint would delete there."""
    (made / "files").rename(tmp_path / "elsewhere")
    (made / "files").symlink_to(tmp_path / "elsewhere")
    before = sorted((tmp_path / "elsewhere").rglob("*"))
    with pytest.raises(CheckpointCorruptError, match="is not what it was"):
        reading.verify(made)
    writing.dispose(made)
    assert sorted((tmp_path / "elsewhere").rglob("*")) == before


def test_a_folder_in_a_savepoint_that_is_a_link_is_not_deleted_through(made, tmp_path):
    (made / "files" / "offsets").rename(tmp_path / "elsewhere")
    (made / "files" / "offsets").symlink_to(tmp_path / "elsewhere")
    before = sorted((tmp_path / "elsewhere").iterdir())
    writing.dispose(made)
    assert sorted((tmp_path / "elsewhere").iterdir()) == before


def test_what_is_no_file_keeps_nobody_waiting(made):
    """A pipe that nobody writes to; and what was added is not read at all."""
    os.mkfifo(made / "files" / "more")
    with pytest.raises(CheckpointCorruptError, match="more was added"):
        reading.verify(made, KEY)
    (made / "files" / "more").unlink()
    file = made / "files" / "offsets" / "3"
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(CheckpointCorruptError, match="offsets/3 was changed"):
        reading.verify(made, KEY)


def test_one_of_another_key_and_one_of_none_are_refused(old, made, tmp_path):
    with pytest.raises(ConfigurationError, match="signed with another key"):
        resumed(made, tmp_path, OTHER)
    writing.create(old, tmp_path / "plain", "fraud")
    assert "signature" not in json.loads((tmp_path / "plain" / "manifest.json").read_text())
    with pytest.raises(ConfigurationError, match="is not signed"):
        resumed(tmp_path / "plain", tmp_path)


def test_an_epoch_that_a_checkpoint_retains_needs_no_signature(old, tmp_path):
    """Nobody else made it: it is taken of the checkpoint in this moment."""
    assert resumed(f"{tmp_path / 'old'}@3", tmp_path).epoch == 3


def test_a_claim_says_whom_it_ends(old, made, tmp_path):
    """A stranger's savepoint may name any checkpoint."""
    told = resuming.lines(resumed(made, tmp_path), resuming.WrittenAgain(known=True), claim=True)
    assert f"whoever runs on {old.uri} is ended" in told[1]
    told = resuming.lines(resumed(made, tmp_path), resuming.WrittenAgain(known=False), claim=True)
    assert f"{old.uri} is not to be seen from here, so whoever runs on it is not ended" in told[1]
