"""The form of durable files: its bytes, and what is refused."""

from pathlib import Path

import pytest

from onceflow.checkpoint.journal_codec import JournalEntry, encode
from onceflow.errors import CheckpointConflictError, CheckpointCorruptError
from onceflow.storage import envelope
from onceflow.twophase.records import Start

START = (
    b'{\n "format": 3,\n "place": 1,\n "nonce": "n",\n "kept_from": 1,\n "kind": "start",\n "record": {\n'
    b'  "incarnation": 1,\n  "job_id": "\\u00e4"\n },\n'
    b' "sha256": "01043f5eabd0d6f414f1e500073cd9c84326ab2a03b82698de5fd9c7fbf870aa"\n}\n'
)


def spoiled(path: Path, why: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(f"{path}: {why}", file=str(path))


def test_the_bytes_of_a_record_are_these():
    """Checkpoints outlive versions: a record's bytes may change only together with the number of its format."""
    assert encode(JournalEntry(1, "n", 1, Start(1, "ä"))) == START


@pytest.mark.parametrize(
    ("data", "kind", "why"),
    [
        (b"", CheckpointCorruptError, "the file is empty"),
        (b"[]", CheckpointCorruptError, "the file holds no JSON object"),
        (START[:-20], CheckpointCorruptError, "delimiter|Unterminated"),
        (START.replace(b'"n"', b'"m"'), CheckpointCorruptError, "its checksum does not match its content"),
        (START.replace(b'"format": 3', b'"format": 4'), CheckpointConflictError, "has format 4"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(data, kind, why):
    """Whatever is wrong with a file, the error is ours, says what is wrong, and names the file."""
    path = Path("/checkpoint/file.json")
    with pytest.raises(kind, match=why) as caught, envelope.named(path, spoiled):
        envelope.unseal(data, 3)
    assert caught.value.facts["file"] == str(path)
