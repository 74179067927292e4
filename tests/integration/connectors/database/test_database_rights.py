"""The rights that docs/databases.md lists are enough for a database sink, and each of them is needed."""

from __future__ import annotations

import pytest

from onceflow.errors import DatabaseRightsError
from onceflow.testing.trial import Trial
from tests.support.advice import parts_of
from tests.support.granted import APPEND, DELETES, DELETING, KEYED, MADE, UPSERT, Granted
from tests.support.postgres import running


@pytest.fixture(scope="module")
def server():
    with running() as one:
        yield one


@pytest.fixture
def granted(server):
    """Grants lines of the page, in a database without anything else; the world of the user who has only those."""
    server.execute(
        "drop schema if exists onceflow cascade",
        "drop schema if exists bank cascade",
        "revoke all on schema public from public",
        "drop role if exists job",
        *MADE,
    )

    def grant(lines, **more):
        server.execute(*lines)
        return Granted(server.url("job"), server.url(), table="bank.payments", schema="onceflow", **more)

    yield grant
    server.execute("drop owned by job cascade")


@pytest.mark.parametrize(
    ("lines", "more"),
    [
        (APPEND, {}),
        (APPEND + UPSERT, KEYED),
        (APPEND + UPSERT + DELETES, DELETING),
    ],
    ids=["append", "upsert", "deletes"],
)
def test_the_rights_of_the_page_are_enough(granted, lines, more):
    """Start, stage, check, commit, abort, sweep and look, as a user who has nothing else."""
    with Trial(granted(lines, **more)) as t:
        start, keys = t.start(), t.keys()
        start.committer.preflight()
        prepared = start.prepare(keys)
        assert start.committer.check(prepared, start.run(), 0.0) is None
        t.commit(start, prepared)
        t.all_visible_once(keys, "after the commit")
        lost = start.prepare(t.keys(), epoch=1)
        later = t.start(2)
        later.committer.abort(later.committer.lingering(2, ()))
        t.ends_aborted(later, lost, "after the sweep")
        later.committer.marks().write("mark")
        assert later.committer.marks().read() == "mark"
        later.committer.marks().write_name("a job", "mark")
        assert later.committer.marks().read_name("a job") == "mark"
        assert later.committer.inspection().transactions(prepared).found


NEEDED = [(line, {}, APPEND) for line in APPEND[1:]]
NEEDED += [(line, KEYED, APPEND + UPSERT) for line in APPEND[1:] + UPSERT]
NEEDED += [(line, DELETING, APPEND + UPSERT + DELETES) for line in DELETES]


@pytest.mark.parametrize(("line", "more", "lines"), NEEDED, ids=str)
def test_each_right_is_needed_and_told_at_the_start(server, granted, line, more, lines):
    """Without any one of the lines a start is refused before an epoch begins; it is named where to read, and helps."""
    lines = [each for each in lines if each != line]
    with Trial(granted(lines, **more)) as t:
        with pytest.raises(DatabaseRightsError) as told:
            t.start().committer.preflight()
        assert "docs/databases.md" in parts_of(told.value, DatabaseRightsError).action
        assert not told.value.retriable
        server.execute(line)
        t.start().committer.preflight()
