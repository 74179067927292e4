"""The durable form of a participant of a whole epoch: to the letter what older checkpoints have."""

import json

import pytest

from onceflow.connectors.database.staged import Attempt, Staged, StagedSeal
from onceflow.connectors.database.target import Target
from onceflow.connectors.lake.staged import AttemptName, LakeAttempt, LakeSealed, LakeStaged, Moment

RUN = {"incarnation": 3, "epoch": 7, "after": "before", "claimed": 2}
TARGET = Target(None, "t", "staged", ("a",))
NAME = AttemptName("0123456789ab", "out", Moment(3, 7), 0, 1, "0123456789abcde")
SHAPE = {"b": 1, "a": [2]}
ROWS = Staged("tables", (Attempt("a1", 2, 5),), StagedSeal(target=TARGET, **RUN))
FILES = LakeStaged("id", (LakeAttempt(NAME, 2, "d"),), LakeSealed(handle="h", seat="s", shape=SHAPE, **RUN))
KEPT_ROWS = (
    '{"kind": "onceflow database", "system": "tables", "attempts": [["a1", 2, 5]], "sealed": {"incarnation": 3, '
    '"epoch": 7, "target": {"schema": null, "table": "t", "staged": "staged", "columns": ["a"], "key": [], '
    '"deletes": false}, "after": "before", "claimed": 2}}'
)
KEPT_FILES = (
    '{"kind": "onceflow lake", "table": "id", "attempts": [["0123456789ab", "out", "3-7-0-1-0123456789abcde", 2, "d"]]'
    ', "sealed": {"handle": "h", "incarnation": 3, "epoch": 7, "seat": "s", "shape": {"b": 1, "a": [2]}, '
    '"after": "before", "claimed": 2}}'
)
BOTH = pytest.mark.parametrize(("staged", "kept"), [(ROWS, KEPT_ROWS), (FILES, KEPT_FILES)], ids=["rows", "files"])


@BOTH
def test_what_is_staged_is_kept_to_the_letter(staged, kept):
    """A journal holds it in this order, and what is read again says the same."""
    assert json.dumps(staged.to_json()) == kept
    assert type(staged).read(json.loads(kept)) == staged


@BOTH
def test_what_an_older_version_did_not_say_is_nothing(staged, kept):
    """Before claims, and before a system was asked for the epoch before, a seal had neither."""
    told = json.loads(kept)
    del told["sealed"]["after"], told["sealed"]["claimed"]
    read = type(staged).read(told)
    assert read is not None
    assert (read.sealed.after, read.sealed.claimed) == ("", 0)


def test_rows_that_tasks_had_merged_by_themselves_are_not_understood():
    """No program commits them any more; what an older one had staged for a commit is read as ever."""
    told = json.loads(KEPT_ROWS)
    told["sealed"]["target"] |= {"direct": False, "ordered": "staged"}
    assert Staged.read(told) == ROWS
    told["sealed"]["target"]["direct"] = True
    assert Staged.read(told) is None


@BOTH
@pytest.mark.parametrize("gone", ["kind", "attempts", "sealed epoch", "sealed incarnation"])
def test_what_lacks_a_part_is_not_understood(staged, kept, gone):
    """It is another sink's, or another version's: it can be shown, and never be committed."""
    told = json.loads(kept)
    *outer, last = gone.split()
    del (told[outer[0]] if outer else told)[last]
    assert type(staged).read(told) is None
