"""RED: what an attack found. Each test says what should hold, and FAILS today. Scratch: to be moved or mended, not kept.

# ruff: noqa: E501, E741, PLW0108, N818, PT012 - scratch

Must not know: Spark, Kafka. Real rules, real journal, temporary folders.
"""

import shutil
from dataclasses import replace

import pytest

from onceflow.checkpoint import store as store_module
from onceflow.checkpoint.identity import read_identity, write_identity
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.cli.txn import _cost_lines
from onceflow.errors import CheckpointConflictError, ConfigurationError, OnceflowError
from onceflow.operations.transactions.access import Operator
from onceflow.operations.transactions.resolution import LostInput, UndoneEpoch
from onceflow.execution import pace
from onceflow.execution.launch import Plan, finish_decided
from onceflow.options.checkpointing import Checkpointing
from onceflow.connectors.contract import Committer, Guarantee, Sink
from onceflow.connectors.kafka.offsets import Partition
from onceflow.twophase.committable import Committable
from onceflow.twophase.coordinator import Coordinator
from onceflow.twophase.layout import Layout, Source, what_moved
from onceflow.twophase.messages import (
    Appended,
    AskOutcomes,
    Checked,
    ConfirmNewest,
    Discard,
    Evidence,
    Fail,
    Outcome,
    Outcomes,
    Prepared,
    Reply,
    Restored,
    RestoreOffsets,
    RunPlan,
    Started,
    Surveyed,
)
from onceflow.twophase.records import Decide, Planned, Resolve, Start, read_history
from tests.unit.test_coordinator import (
    DARK,
    EMPTY,
    GONE,
    LAYOUT,
    SEEN,
    A,
    B,
    given_up,
    losing,
    of,
    outcomes,
    ready,
    survey,
    undone,
)
from tests.unit.test_launch import ONE, Expiring, done, identify, limit_of, place_of, started

# -- 1. A part that is written again, fewer or more rows than were decided ---------------------------------------------


@pytest.mark.parametrize("rows", [0, 5, 20])
def test_red_a_lost_part_comes_again_in_full(rows):
    """A plan that gives the same rows: A (1 row) is visible, B (10 rows) was lost and comes again with other than 10.

    For instance compaction took five of B's records from the source. Replayed whole this stops; replayed by shards the
    epoch is decided with what is left, and the rest is lost (or, with more, doubled) without a word.
    """
    lost = replace(B, rows=10, digest=70)
    c = Coordinator(["s"])
    c.start()
    history = read_history([Start(1), Planned(1, LAYOUT), Decide(1, 5, "o5", (A, lost)), Start(2)])
    c.receive(Started(history, 4, 5))
    c.receive(Restored(same=True))
    c.receive(outcomes(SEEN, GONE))
    ready(c, rows_repeat=True)
    c.begin(5, "o5", stateful=False)
    c.receive(outcomes(SEEN, GONE))
    c.receive(Appended())
    assert c.receive(outcomes(SEEN, GONE)) == RunPlan(5, write=False)
    action = c.receive(Prepared((of(0, mark=""), of(1, rows, 99, mark=""))))
    assert isinstance(action, Fail), (
        f"10 rows were decided for the lost part, {rows} come again, and it goes on: {action}"
    )


# -- 2. What is given up lets tasks be told by their numbers -----------------------------------------------------------


def test_red_what_is_given_up_does_not_let_tasks_be_told_by_their_numbers():
    """give-up-rows says what it costs; that visible rows are lost and doubled by number is not among it.

    X is visible, A was given up, B expired while the person thought about it. The source has lost a part of what X read,
    so X's rows are not found again; no origin is known (a shuffle whose keys may move). Task 2 of this process is taken
    for X because its number was 2: its rows are lost, and X's own are written again by whichever task has them now.
    """
    visible = of(2, 10, 77)
    there = (A, B, visible)
    history = read_history(
        [Start(1), Planned(1, LAYOUT), Decide(1, 5, "o5", there), Start(2), given_up(5, A), Start(3)]
    )
    told = Outcomes({A.participant: GONE, B.participant: GONE, visible.participant: SEEN})
    c = Coordinator(["s"])
    c.start()
    c.receive(Started(history, 4, 5))
    c.receive(Restored(same=True))
    c.receive(told)
    survey(c)
    c.receive(Surveyed(LAYOUT, "half of it is gone", "moved 4", "moved 5"))
    c.receive(Appended())
    c.receive(Restored(same=True))
    c.receive(Appended())
    assert c.begin(5, "moved 5", stateful=False) == AskOutcomes(there)
    c.receive(told)
    c.receive(Appended())
    assert c.receive(told) == RunPlan(5, write=False)
    rerun = Prepared((of(0, 6, 60, mark=""), of(1, 5, 50, mark=""), of(2, 8, 80, mark="")))
    action = c.receive(rerun)
    assert isinstance(action, Fail), f"told by number, and nobody was asked: {action}"


# -- 3. --as-new beside a driver that still runs ------------------------------------------------------------------------


def test_red_as_new_forgets_no_epoch_that_is_decided_until_its_start(tmp_path):
    """Nothing was undone when --as-new looked; the driver that still ran decided before the new job's start fenced it.

    The old driver commits what it decided. The new job reads no decision, and writes the epoch once more.
    """
    _as_new_and_then(tmp_path, dies=False)


def test_red_a_new_job_that_never_started_forgets_no_epoch(tmp_path):
    """--as-new wrote job.json and failed before its start (no broker, a missing right); the old driver went on.

    It ran for hours, decided an epoch, committed it and was killed. The next start has no flag, as the log had said.
    """
    _as_new_and_then(tmp_path, dies=True)


def _as_new_and_then(folder, *, dies):
    _, old = started(folder, 0)
    done(folder, 0)
    made = identify(folder, "as-new")
    assert old.journal.append(Decide(1, 1, "v1\n1", ONE)) == Appended(), "nobody has fenced it"
    if dies:
        made = identify(folder)  # a start without the flag: nothing refuses it
    place = place_of(folder)
    assert place.has_undone(), "it can be seen until the start is written"
    history = place.journal.start(made.job_id)
    assert history.undone(place.checkpoint.newest_commit()) is not None, (
        "the new job knows of no decision: epoch 1 again"
    )


# -- 4. --claim with some of the sinks listed ---------------------------------------------------------------------------


class FakeCommitter(Committer):
    def __init__(self, system):
        self.system = system

    def preflight(self):
        pass

    def can_finish(self, committable):
        return committable.transaction["system"] == self.system

    def seal(self, committables):
        return list(committables)

    def check(self, committables, run, age_s):
        return None

    def commit(self, committables):
        return {c.participant: Reply.COMMITTED for c in committables}

    def abort(self, committables):
        pass

    def abort_run(self, run):
        pass

    def outcomes(self, committables):
        return {c.participant: Evidence(Outcome.OPEN, "open") for c in committables}

    def lingering(self, incarnation, spared):
        return []


class FakeSink(Sink):
    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(self, name, system):
        self.name, self.system = name, system

    def connect(self):
        return self.system

    def committer(self, prefix, job_id):
        return FakeCommitter(self.system)

    def close(self):
        pass

    def columns(self, names):
        return []

    def writer_factory(self):
        raise NotImplementedError

    def describe(self):
        return self.name


def test_red_a_claim_by_a_job_that_lists_some_of_its_sinks_leaves_a_way_out(tmp_path):
    """Two clusters, one sink of each, @job.stream lists the first; moved with an undone epoch, and --claim, as told."""
    a, b = FakeSink("a", "A"), FakeSink("b", "B")
    identity = identify(tmp_path, systems="A,B")
    place = place_of(tmp_path)
    place.records.make()
    place.journal.start(identity.job_id)
    two = tuple(Committable(s.name, 0, 0, 1, 7, {"id": s.name, "system": s.system}) for s in (a, b))
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1\n0")
    assert place.journal.append(Decide(1, 0, "v1\n0", two)) == Appended()
    assert not finish_decided([a], Plan("test", Checkpointing(tmp_path))), "left to the start that knows all sinks"
    write_identity(place.ours, replace(identity, checkpoint="file:///where/it/was"))

    def start(takeover):
        try:
            return finish_decided([a], Plan("test", Checkpointing(tmp_path), takeover=takeover))
        except (ConfigurationError, CheckpointConflictError) as error:
            return error

    first = start(None)  # "if the job moved and the old place will never run again: --claim"
    claimed = start("claim")
    after = start(None)
    cluster = read_identity(place.ours).cluster_id
    assert (claimed, after, cluster) == (False, False, "A,B"), f"\n1. {first}\n2. {claimed}\n3. {after}"


# -- 5. One slow epoch ---------------------------------------------------------------------------------------------------


def test_red_one_slow_epoch_of_a_few_records_does_not_make_a_fast_job_crawl(tmp_path):
    """98 epochs of 5,000 records in half a second, and one of 20 records that took 12 s (a cold start, a broker away).

    After the next start each epoch reads a few hundred records, for as long as the process lives: at one epoch a second
    a twentieth of what arrives.
    """
    _, place = started(tmp_path)
    at = 0
    for epoch in range(99):
        at += 20 if epoch == 50 else 5_000
        took = 12_000 if epoch == 50 else 500
        place.journal.append(Decide(1, epoch, f'v1\n{{}}\n{{"t":{{"0":{at}}}}}', ONE, took))
    assert limit_of(tmp_path, Expiring(900)).records >= 5_000


# -- 6. A broker that is away for long ------------------------------------------------------------------------------------


def test_red_a_long_outage_is_not_told_as_a_time_out_that_is_too_short():
    """The leader of one partition is away; each start's epoch ends with its transactions' time-out, and is cut.

    transaction_timeout of 60 s: after eleven minutes the job reads one record an epoch; then it ends with
    TimeoutTooShortError, which no supervisor tries again, and which says that transaction_timeout is too short.
    """
    most, starts = 900_000, 0
    while most is not None and starts < 60:  # an hour
        most, starts = pace.cut([most], 60.0, 60.0), starts + 1
    assert most is not None, f"given up for good after {starts} starts of a minute each"


# -- 7. Where epoch 0 begins -----------------------------------------------------------------------------------------------


def test_red_what_epoch_0_was_decided_about_is_synced(tmp_path, monkeypatch):
    """Spark keeps where the first epoch begins in sources/<n>/0, unsynced; a power cut takes it, and not the decision."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"t":{"0":9}}')
    (tmp_path / "commits").mkdir()
    beginning = tmp_path / "sources" / "0" / "0"
    beginning.parent.mkdir(parents=True)
    beginning.write_bytes(b'\0v1\n{"t":{"0":4}}')
    synced = []
    monkeypatch.setattr(store_module, "_sync", lambda path: synced.append(path))
    SparkCheckpoint(tmp_path).sync(0)
    assert beginning in synced


# -- 8. A whole replay of which nothing comes again ---------------------------------------------------------------------------


def test_red_a_lost_epoch_of_which_no_row_comes_again_stops():
    """A Python function in the plan: its rows are never counted, not even when there are none.

    Two rows were decided and lost, the run again gives none (compaction; or the file that says where epoch 0 begins is
    gone): the epoch ends without a record, an error, or a line in the log.
    """
    c = losing(GONE, GONE, rows_repeat=False)
    c.receive(Appended())
    c.receive(outcomes(GONE, GONE))
    c.receive(Prepared((of(0, 0, 0, mark=""), of(1, 0, 0, mark=""))))
    action = c.receive(Checked(None))
    assert action != ConfirmNewest(), "two decided rows are gone, and the epoch is done"


# -- 10. Positions behind a loss, and a power cut ----------------------------------------------------------------------------


def test_red_a_power_cut_after_a_skip_leaves_a_way_out(tmp_path):
    """Epoch 6 begins behind lost records: offsets/5 is moved, durably. commits/5 was never synced, and is taken.

    The decision of 5 then stands against an offsets/5 that we ourselves have written: "put the newest copy back".
    """
    checkpoint = SparkCheckpoint(tmp_path)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "5").write_text("o5")
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "5").write_text("v1\n{}")
    c = Coordinator(["s"])
    c.start()
    history = read_history(
        [Start(1), Planned(1, LAYOUT), Decide(1, 5, "o5", (A, B, EMPTY)), given_up(6, incarnation=1), Start(2)]
    )
    c.receive(Started(history, 5, 5))
    survey(c)
    skip = c.receive(Surveyed(LAYOUT, "gone", "moved 5")).record
    taking_back = c.receive(Appended())
    checkpoint.take_back(taking_back.epoch, checkpoint.plans_from(taking_back.epoch))
    checkpoint.set_start(taking_back.epoch, taking_back.before)
    (tmp_path / "commits" / "5").unlink()  # the power cut: nobody has synced it
    next_one = Coordinator(["s"])
    next_one.start()
    action = next_one.receive(Started(history.then(skip).then(Start(3)), checkpoint.newest_commit(), 5))
    assert isinstance(action, RestoreOffsets)
    same = checkpoint.restore_offsets(action.epoch, action.offsets, action.was)
    assert not isinstance(next_one.receive(Restored(same)), Fail), "offsets differ: and it was we who changed them"


# -- 11. What nobody can prove, is open, and is written again -------------------------------------------------------------


def test_red_an_open_transaction_that_is_written_again_is_aborted_first():
    """A is Ongoing, but a partition has lost its part: nobody can prove what it is, and the operator said write-again.

    It is not aborted before what takes its place is decided: an older driver that sleeps in its commit can still make
    it visible, beside the rows that were written again.
    """
    chosen = Resolve(2, 5, "write-again", (A.participant,), "op", "torn")
    c, _ = undone(records=(Start(2), chosen, Start(3)))
    c.receive(outcomes(DARK, GONE))
    ready(c)
    c.begin(5, "o5", stateful=False)
    c.receive(outcomes(DARK, GONE))
    c.receive(Appended())
    action = c.receive(outcomes(DARK, GONE))
    assert isinstance(action, Discard), f"A may be open, and is left so: {action}"


# -- 12. A start that may not commit ------------------------------------------------------------------------------------------


class Refused(Exception):
    pass


class Forbidden(FakeCommitter):
    """The right to WRITE was taken away while the job was down: every commit is answered with code 53, which is RETRY."""

    rounds = 0

    def commit(self, committables):
        self.rounds += 1
        if self.rounds > 6:
            raise Refused
        return {c.participant: Reply.RETRY for c in committables}


def test_red_a_right_that_is_missing_is_told_before_the_job_starts(tmp_path):
    """README: missing rights are found before the job starts. With an undone epoch the start waits without an end."""
    a = FakeSink("a", "A")
    a.committer = lambda prefix, job_id: Forbidden("A")
    identity = identify(tmp_path, systems="A")
    place = place_of(tmp_path)
    place.records.make()
    place.journal.start(identity.job_id)
    one = (Committable("a", 0, 0, 1, 7, {"id": "a", "system": "A"}),)
    assert place.journal.append(Decide(1, 0, "v1\n0", one)) == Appended()
    with pytest.raises(OnceflowError):
        finish_decided([a], Plan("test", Checkpointing(tmp_path)))


# -- 13. A sink that is added, by its name ---------------------------------------------------------------------------------------


def test_red_a_sink_that_is_added_to_an_output_moves_nothing():
    """The page: goes on. But branches are in the order of their sinks' names, and an added name may come first."""

    def plan(*outputs):
        return Layout(tuple(Source(names, "cluster", f"topic {t}", t, (), i) for i, (names, t) in enumerate(outputs)))

    before = plan((("alerts",), "t"), (("views",), "u"))
    after = plan(*sorted([(("alerts",), "t"), (("aaa", "views"), "u")]))  # as Outputs sorts its branches
    assert what_moved(before, after) is None


# -- 14. The operator's tool and a list of some sinks -----------------------------------------------------------------------------


def test_red_the_tool_names_the_list_that_is_too_short(tmp_path):
    """Sinks on two clusters, of which @job.stream lists one: the tool says --claim, with which the job locks itself out."""
    identify(tmp_path, systems="A,B")
    with pytest.raises(CheckpointConflictError) as caught:
        Operator(Checkpointing(tmp_path), "onceflow", [FakeSink("a", "A")])
    assert "--claim" not in caught.value.action, caught.value


# -- 15. What a topic that was made again has cost -----------------------------------------------------------------------


def test_red_the_cost_of_a_topic_that_was_made_again_is_not_none():
    """Nothing of the next epoch is planned yet, and the old topic held thousands that were not read: nobody can know."""
    lost = (LostInput(Partition("t", 0), 5_000, 5_000, remade=True),)
    found = UndoneEpoch(7, False, 2, False, False, False, (), (), lost)
    assert not any("At most 0 records" in line for line in _cost_lines(found, "give-up-rows", ()))


# -- 16. A checkpoint that is not there ---------------------------------------------------------------------------------------


def test_red_a_place_that_this_job_has_used_is_known_although_nothing_is_left_there(tmp_path):
    """A volume that is not mounted, or a folder that somebody emptied: a new job begins, and writes everything again.

    README: a checkpoint that was put back from an older copy, or has lost its onceflow/ folder, is noticed. One that has
    lost everything is the oldest copy there is.
    """
    folder = tmp_path / "checkpoint"
    before, _ = started(folder, 0)
    shutil.rmtree(folder)
    with pytest.raises(CheckpointConflictError):
        assert identify(folder) != before
