"""The suite for sinks: the example sink passes, and each way of breaking the contract fails the check of that fact."""

from unittest import SkipTest

import pytest

from onceflow.sinks import Committer
from onceflow.testing import World, conformance
from tests.support import broken_sinks, broken_stores
from tests.support.grouped_sink import GroupedSink
from tests.support.ledger_sink import LedgerCommitter, LedgerSink
from tests.support.ledger_worlds import LedgerWorld

CHECKS = {check.name: check for check in conformance.CHECKS}


@pytest.mark.parametrize("check", conformance.CHECKS, ids=str)
def test_the_example_sink_keeps_the_contract(check, tmp_path):
    """A sink of a hundred lines, with a ledger and fencing, holds every check."""
    if check.name == "a_plain_prepare_has_written_all":
        check(LedgerWorld(tmp_path, broken_sinks.Plain))
    else:
        check(LedgerWorld(tmp_path))


@pytest.mark.parametrize(
    "check", [c for c in conformance.CHECKS if c.name != "a_plain_prepare_has_written_all"], ids=str
)
def test_a_sink_that_commits_an_epoch_as_one_keeps_the_contract(check, tmp_path):
    """One participant for all tasks of an epoch, as a database's one transaction: it holds every check as well."""
    check(LedgerWorld(tmp_path, GroupedSink))


@pytest.mark.parametrize(("kind", "name"), broken_sinks.BREAKS, ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_a_broken_sink_is_noticed(kind, name, tmp_path):
    """A sink in which one thing is wrong fails the check of that fact, by name and with what was seen."""
    with pytest.raises(conformance.Broken, match=name) as told:
        CHECKS[name](LedgerWorld(tmp_path, kind))
    assert told.value.name == name
    assert told.value.why


def test_every_check_can_fail():
    """No check is there that no broken sink fails."""
    assert {name for _, name in broken_sinks.BREAKS} | set(broken_stores.BREAKS) == set(CHECKS)


def test_every_check_says_what_it_proves():
    """Each has a name that is its own, and one sentence."""
    assert len(CHECKS) == len(conformance.CHECKS)
    assert all(check.proves.endswith(".") and "\n" not in check.proves for check in conformance.CHECKS)


def test_the_whole_suite_reports(tmp_path):
    """run() makes all checks, tells every broken one, and why others were not made."""
    report = conformance.run(LedgerWorld(tmp_path, broken_sinks.CommitsOnPrepare))
    assert "nothing_is_visible_before_the_commit" in {broken.name for broken in report.broken}
    assert {s.name for s in report.skipped} == {"a_plain_prepare_has_written_all", *broken_stores.BREAKS}
    assert all("idempotent-upsert; this is exactly-once" in s.why for s in report.skipped)


def test_a_sink_that_does_not_take_part_is_not_asked(tmp_path):
    """Of an at-least-once sink the two-phase commit is not asked; the reason names its guarantee."""
    report = conformance.run(LedgerWorld(tmp_path, broken_sinks.Plain))
    assert report.broken == ()
    made = {"a_writer_factory_pickles", "a_plain_prepare_has_written_all"}
    assert {s.name for s in report.skipped} == set(CHECKS) - made
    assert all("this is at-least-once" in s.why for s in report.skipped)


class SmallWorld(LedgerWorld):
    """A world with nothing that is optional."""

    refused, open_transactions, expire = World.refused, World.open_transactions, World.expire


@pytest.mark.parametrize(
    "name", ["a_refused_row_fails_the_precommit", "what_expired_is_not_committed", "what_died_unprepared_is_ended"]
)
def test_what_a_world_cannot_do_is_skipped(name, tmp_path):
    """Where a world leaves out what is optional, the check is skipped with what is missing."""
    with pytest.raises(SkipTest, match="its world cannot"):
        CHECKS[name](SmallWorld(tmp_path))


OWN = {name: value for name, value in vars(LedgerCommitter).items() if callable(value) or isinstance(value, property)}
Unseen = type("Unseen", (Committer,), {name: value for name, value in OWN.items() if name != "inspection"})


class UnseenSink(LedgerSink):
    """It keeps the contract without its optional part."""

    committer = Unseen


@pytest.mark.parametrize(
    "name",
    [
        "an_inspection_lists_the_jobs_own",
        "an_inspection_shows_exactly_what_is_meant",
        "an_operators_abort_hits_exactly_its_transaction",
    ],
)
def test_what_operators_see_is_asked_where_a_sink_lets_them_look(name, tmp_path):
    """Inspectable is optional: of a committer that is not, its three checks are skipped, and the others hold."""
    with pytest.raises(SkipTest, match="not Inspectable"):
        CHECKS[name](LedgerWorld(tmp_path, UnseenSink))
    CHECKS["a_commit_shows_each_row_once"](LedgerWorld(tmp_path, UnseenSink))
