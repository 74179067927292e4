"""A REST catalog of Iceberg: the sink keeps the contract with it, whatever its answers to a commit say."""

from __future__ import annotations

import pytest

from onceflow.connectors.lake import iceberg
from onceflow.testing import conformance
from onceflow.testing.trial import Trial
from onceflow.twophase.messages import Reply
from tests.support.rest_catalog import RestCatalog, RestWorld

SOME = (
    "a_commit_shows_each_row_once",
    "a_commit_from_another_process_counts",
    "a_commit_again_changes_nothing",
    "outcomes_are_told_by_evidence",
    "several_threads_may_call",
    "a_committer_keeps_its_connection",
)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    """A server, and a table of its."""
    with RestCatalog(folder := tmp_path_factory.mktemp("rest")) as server:
        yield server, RestWorld(folder, server.address)


@pytest.mark.parametrize("check", [c for c in conformance.CHECKS if c.name in SOME], ids=str)
def test_the_contract(check, catalog):
    """What of the contract goes through the catalog holds with this one, too."""
    check(catalog[1])


@pytest.mark.parametrize("code", [409, 500, 502, 503, 504])
@pytest.mark.parametrize("made", [True, False], ids=["made", "not made"])
def test_an_answer_that_says_nothing(catalog, code, made):
    """The commit was made or was not, and the answer is the same: it takes effect once, and its manifests stay."""
    server, world = catalog
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        prepared = start.prepare(keys)
        (server.lose if made else server.refuse).append(code)
        replies = [next(iter(start.committer.commit(prepared).values())) for _ in range(2)]
        assert replies[-1] is Reply.COMMITTED
        assert not server.lose
        assert not server.refuse
        t.all_visible_once(keys, "after a commit whose answer was lost")


def test_a_right_that_is_taken_away(catalog):
    """A commit that is refused for lack of a right is told so, and made when the right is back."""
    server, world = catalog
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        prepared = start.prepare(keys)
        server.refuse.append(403)
        assert next(iter(start.committer.commit(prepared).values())) is Reply.REFUSED
        refusal = start.committer.refusal(prepared)
        assert "rest-geheim" not in str(refusal)
        t.commit(start, prepared)
        t.all_visible_once(keys, "after the right is back")


def test_a_catalog_that_says_nothing_any_more(catalog, monkeypatch):
    """It is not waited for as long as it lives: the commit has no answer, and is found when it is asked for again."""
    monkeypatch.setattr(iceberg, "ANSWERED_S", 1.0)
    server, world = catalog
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        prepared = start.prepare(keys)
        server.silent = True
        assert next(iter(start.committer.commit(prepared).values())) in (Reply.RETRY, Reply.COMMITTED)
        assert not server.silent
        t.commit(start, prepared)
        t.all_visible_once(keys, "after an answer that never came")
