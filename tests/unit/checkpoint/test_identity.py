"""Whose checkpoint is it: job.json, the mark outside, and what is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.checkpoint.identity import (
    JobIdentity,
    Mark,
    not_rewound,
    read_identity,
    reclaimed,
    same_place,
    write_identity,
)
from onceflow.errors import CheckpointConflictError, CheckpointCorruptError
from onceflow.storage.store import Store
from onceflow.twophase.names import JOB_ID

WHERE = ("/data/checkpoint", "cluster-1", "onceflow")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def test_a_new_identity_comes_back(store):
    """job.json gives back what was written, and every new job has an id of its own that fits into a name."""
    identity = JobIdentity.new(*WHERE)
    write_identity(store, identity)
    assert read_identity(store) == identity
    assert JOB_ID.fullmatch(identity.job_id)
    assert JobIdentity.new(*WHERE).job_id != identity.job_id


def test_no_identity(store):
    """A folder without job.json has no identity; that is not an error here."""
    assert read_identity(store) is None


def mangled(data):
    """Every way in which a file goes bad: emptied, halved, a flipped bit, another value, another shape."""
    body = json.loads(data)
    yield b""
    yield data[: len(data) // 2]
    yield data.replace(b"cluster-1", b"cluster-2")
    yield bytes([data[0] ^ 0x80]) + data[1:]
    yield json.dumps(body | {"job_id": "../../x"}).encode()
    yield json.dumps({k: v for k, v in body.items() if k != "sha256"}).encode()
    yield b"[]"
    yield b"null"


@pytest.mark.parametrize("which", range(8))
def test_a_changed_identity_is_refused_by_name(store, which):
    """A torn or edited job.json stops the start with the file's name: nobody may guess which transactions are ours."""
    write_identity(store, JobIdentity.new(*WHERE))
    store.replace("job.json", list(mangled(store.read("job.json")))[which])
    with pytest.raises(CheckpointCorruptError, match=r"job\.json"):
        read_identity(store)


def test_a_newer_format_is_refused(store):
    """A checkpoint of a newer version is refused as such, not as corrupt."""
    store.create("job.json", json.dumps({"format": 3, "anything": 1}).encode())
    with pytest.raises(CheckpointConflictError, match=r"(?s)has format 3.*newer version"):
        read_identity(store)


def test_an_older_format_is_refused_with_the_way_out(store):
    """A checkpoint of an older version lacks what a start compares: that version ends the job, or goes on with it."""
    store.create("job.json", json.dumps({"format": 1, "anything": 1}).encode())
    with pytest.raises(CheckpointConflictError, match=r"(?s)has format 1.*older version") as caught:
        read_identity(store)
    assert "let that version finish" in caught.value.action


def test_the_job_that_was_left_is_remembered(store):
    """--as-new: job.json names the job that was found here, so that the flag is refused when it stays."""
    identity = JobIdentity.new(*WHERE, "0123456789ab")
    write_identity(store, identity)
    found = read_identity(store)
    assert (found.left, found.job_id) == ("0123456789ab", identity.job_id)
    assert JobIdentity.new(*WHERE).left == ""


@pytest.mark.parametrize("changed", [0, 1, 2])
def test_another_place_is_refused(changed):
    """A copied checkpoint, another cluster, another prefix: refused, naming then and now, and taken with --claim."""
    found = JobIdentity.new(*WHERE)
    same_place(found, *WHERE)
    now = [*WHERE]
    now[changed] = "elsewhere"
    with pytest.raises(CheckpointConflictError, match=f"{WHERE[changed]}; now it is elsewhere"):
        same_place(found, *now)
    claimed = reclaimed(found, *now)
    same_place(claimed, *now)
    assert claimed.job_id == found.job_id


@given(st.integers(0, 2**40), st.text(max_size=40), st.integers(-1, 2**40))
def test_a_mark_comes_back(incarnation, nonce, epoch):
    """Loads takes back whatever dumps writes, on one line."""
    mark = Mark(incarnation, nonce, epoch)
    assert Mark.loads(mark.dumps()) == mark
    assert "\n" not in mark.dumps()


@given(st.text(max_size=30) | st.sampled_from(["{}", "[]", "null", '{"incarnation":"x","nonce":"","epoch":0}']))
def test_another_text_is_no_mark(text):
    """Whatever else stands there is no mark, and no error."""
    assert Mark.loads(text) is None


@pytest.mark.parametrize(
    ("mark", "refused"),
    [
        (None, False),
        (Mark(3, "n3", 7), False),
        (Mark(2, "n2", 7), False),
        (Mark(3, "n3", 6), False),
        (Mark(4, "n4", 7), True),  # a start that this copy does not know
        (Mark(3, "n3", 8), True),  # an epoch that this copy does not know
        (Mark(3, "other", 7), True),  # the same number, another history
        (Mark(2, "n2", 9), True),
    ],
)
def test_a_rewound_checkpoint_is_refused(mark, refused):
    """A checkpoint older than its mark, or with another history, was put back from a copy: refused with both ends."""
    if not refused:
        not_rewound(mark, 3, "n3", 7, "/data/checkpoint")
        return
    with pytest.raises(CheckpointConflictError, match="ends at start 3 and epoch 7"):
        not_rewound(mark, 3, "n3", 7, "/data/checkpoint")


@pytest.mark.parametrize(
    ("mark", "twice"),
    [(Mark(4, "n4", 8), True), (Mark(3, "other", 7), True), (Mark(4, "n4", 7), False), (Mark(9, "n9", -1), False)],
)
def test_only_where_epochs_may_be_missing_it_says_that_they_would_be_written_twice(mark, twice):
    """Where nothing but a start is newer, no epoch is known to be missing: the message says so, and when to go on."""
    with pytest.raises(CheckpointConflictError) as caught:
        not_rewound(mark, 3, "n3", 7, "/data/checkpoint")
    assert ("would be written twice" in caught.value.harmless) is twice
    assert caught.value.harmless.startswith("never:") is twice
    assert 'takeover="claim"' in caught.value.action
    assert ('takeover="as-new"' in caught.value.action) is twice
