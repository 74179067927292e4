"""What an operator may do: the pure rules behind ``onceflow txn``, and what it refuses before it asks any broker."""

import io
import json
import sys
from dataclasses import replace

import pytest
import typer

from onceflow.checkpoint.identity import JobIdentity, write_identity
from onceflow.cli.main import main
from onceflow.cli.txn import _ask, _cost_lines, _own_lines
from onceflow.connectors.contract import Guarantee
from onceflow.connectors.inspection import LostInput, Phase, PlaceInSystem, Seen
from onceflow.connectors.kafka.inspection import KafkaInspection
from onceflow.connectors.kafka.prepared import Handle
from onceflow.connectors.kafka.transactional_id import TransactionalId
from onceflow.errors import CheckpointConflictError, ConfigurationError
from onceflow.execution.failures import from_failure
from onceflow.operations.transactions.aborting import choose
from onceflow.operations.transactions.access import Operator, System
from onceflow.operations.transactions.inventory import JournalVerdict, OwnTransaction, standing_of
from onceflow.operations.transactions.resolution import KnownParticipant, UndoneEpoch, meant
from onceflow.options.checkpointing import Checkpointing
from onceflow.storage.store import Store
from onceflow.twophase.messages import Evidence, Failure, FailureKind, Outcome
from onceflow.twophase.participants import Part, Participant, ParticipantId
from onceflow.twophase.records import Decide, History, Start
from tests.simulation.fake_broker import FakeBroker, FakeClient
from tests.support.histories import read_history
from tests.support.starts import identify

KAFKA = KafkaInspection(FakeClient(FakeBroker(lambda: 0.0)), "onceflow", "0123456789ab")


def name(incarnation: int, shard: int = 0) -> TransactionalId:
    return TransactionalId("onceflow", "0123456789ab", incarnation, "out", shard, 1, 0)


def handle(of: TransactionalId, epoch: int = 3) -> Handle:
    return Handle(str(of), 100, epoch)


def decided(*handles: Handle) -> History:
    written = tuple(Participant("out", str(h), (Part("out", n, 5, 7),), h.to_json()) for n, h in enumerate(handles))
    return read_history([Start(1), Decide(1, 9, "v1\n", ("out",), written), Start(2)])


@pytest.mark.parametrize(
    ("incarnation", "epoch", "standing"),
    [
        (1, 3, JournalVerdict.DECIDED),
        (1, 4, JournalVerdict.LINGERING),
        (2, 3, JournalVerdict.RUNNING),
        (3, 3, JournalVerdict.NEWER),
        (0, 0, JournalVerdict.LINGERING),
    ],
)
def test_the_journal_says_how_a_transaction_stands(incarnation, epoch, standing):
    """Only the exact handle that a decision names is decided: the same id at another producer epoch is not."""
    history = decided(handle(name(1)))
    one = name(incarnation)
    assert standing_of(KAFKA.origin(str(one)), str(handle(one, epoch)), history, KAFKA.show) is standing


def own(standing: JournalVerdict, shard: int, state: str = "Ongoing", phase: Phase = Phase.OPEN) -> OwnTransaction:
    one = name(1, shard)
    origin = KAFKA.origin(str(one))
    seen = Seen(str(one), str(handle(one)), state, phase, origin)
    return OwnTransaction(seen, origin, standing, 9, System("cluster", KAFKA))


ENDING = own(JournalVerdict.LINGERING, 4, "PrepareAbort", Phase.ENDING)
ALL = [*(own(standing, n) for n, standing in enumerate(JournalVerdict)), ENDING]


def test_only_what_lingers_is_aborted():
    """Without ids: what lingers and is Ongoing; with claim what the newest incarnation left as well."""
    assert [t.origin.shard for t in choose(ALL, None, claim=False)] == [1]
    assert [t.origin.shard for t in choose(ALL, None, claim=True)] == [1, 2]
    assert choose(ALL, [str(name(1, 1))] * 2, claim=False) == [ALL[1]]


@pytest.mark.parametrize(
    ("shard", "claim", "because"),
    [
        (0, False, "is decided"),
        (0, True, "is decided"),
        (2, False, "newest incarnation"),
        (3, True, "does not know"),
        (4, False, "PrepareAbort already"),
        (9, True, "not an open transaction of this job"),
    ],
)
def test_a_named_transaction_that_may_not_be_aborted_is_refused_with_its_reason(shard, claim, because):
    """Naming one that may not be aborted does nothing at all, also for the others that were named."""
    with pytest.raises(ConfigurationError) as refused:
        choose(ALL, [str(name(1, 1)), str(name(1, shard))], claim=claim)
    assert because in refused.value.cause


def test_a_decided_one_that_expired_is_told_as_such():
    """Kafka says CompleteAbort: what that means for its rows is said where it is listed, and where it is refused."""
    lost = replace(
        own(JournalVerdict.DECIDED, 0, "CompleteAbort", Phase.OVER), evidence=Evidence(Outcome.ABORTED, "seen")
    )
    first, second = _own_lines(lost)
    assert "CompleteAbort  decided  epoch 9" in first
    assert "the job writes its rows again when it is started" in second
    with pytest.raises(ConfigurationError) as refused:
        choose([lost], [lost.seen.id], claim=False)
    assert "it expired" in refused.value.cause
    assert refused.value.action == "start the job: it writes these rows again"


def test_what_would_be_done_is_shown_where_nobody_can_be_asked(capsys, monkeypatch):
    """Without a terminal: the list comes, nothing is done, and the error is about the option that goes on."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(typer.BadParameter) as refused:
        _ask(["one", "2 transactions will be aborted."], yes=False)
    assert capsys.readouterr().err.splitlines() == ["one", "2 transactions will be aborted."]
    assert refused.value.param_hint == "--yes"
    assert "nothing was done" in refused.value.message
    _ask(["one"], yes=True)


def who(n: int) -> ParticipantId:
    return ParticipantId(("out", f"h{n}"))


def undone(*outcomes: Outcome, stateful: bool = False, **more: object) -> UndoneEpoch:
    found = tuple(
        KnownParticipant(who(n), 5, str(name(1, n)), (), None, Evidence(outcome, "seen"), None, 5)
        for n, outcome in enumerate(outcomes)
    )
    known = {"decided": True, "replaying": False, "participants": found} | more
    return UndoneEpoch(9, incarnation=2, stateful=stateful, state_accepted=False, sources=(), **known)


def test_a_choice_is_about_what_nothing_is_known_of():
    """By default all unknown participants; named ones must be unknown."""
    epoch = undone(Outcome.COMMITTED, Outcome.UNKNOWN, Outcome.ABORTED, Outcome.UNKNOWN)
    assert meant(epoch, "write-again", None) == (who(1), who(3))
    assert meant(epoch, "count-as-written", [who(3)]) == (who(3),)


@pytest.mark.parametrize("outcome", [Outcome.COMMITTED, Outcome.ABORTED, Outcome.OPEN])
@pytest.mark.parametrize("choice", ["write-again", "count-as-written"])
def test_a_choice_never_stands_against_evidence(outcome, choice):
    """A participant whose outcome is known is refused, named or not."""
    with pytest.raises(ConfigurationError, match="is known"):
        meant(undone(outcome), choice, None)
    with pytest.raises(ConfigurationError, match="refused for out:h0"):
        meant(undone(outcome, Outcome.UNKNOWN), choice, [who(0)])
    with pytest.raises(ConfigurationError, match="refused for out:h7"):
        meant(undone(Outcome.UNKNOWN), choice, [who(7)])


@pytest.mark.parametrize("choice", ["write-again", "count-as-written", "accept-state"])
def test_of_an_epoch_that_is_not_decided_only_a_loss_can_be_chosen(choice):
    """Such a choice in the journal could not be read by anybody."""
    with pytest.raises(ConfigurationError, match="it is not decided"):
        meant(undone(stateful=True, decided=False), choice, None)


def test_state_is_accepted_for_a_whole_stateful_epoch_only():
    """accept-state means no participant, and nothing for a query without state whose output is whole."""
    assert meant(undone(Outcome.COMMITTED, stateful=True), "accept-state", None) == ()
    assert meant(undone(Outcome.COMMITTED, Outcome.ABORTED), "accept-state", None) == (), "visible in part"
    with pytest.raises(ConfigurationError, match="does not fit"):
        meant(undone(Outcome.COMMITTED), "accept-state", None)
    with pytest.raises(ConfigurationError, match="does not fit"):
        meant(undone(Outcome.COMMITTED, stateful=True), "accept-state", [who(0)])


LOST = (LostInput(PlaceInSystem("t", 0), 3, 9, remade=False),)


@pytest.mark.parametrize("known", [{"lost": LOST}, {"unseen": ("topic t on cluster x",)}])
def test_rows_that_neither_side_has_are_given_up(known):
    """What is proven aborted, or was to be written again; what is visible or may still be committed stays."""
    epoch = undone(Outcome.ABORTED, Outcome.COMMITTED, Outcome.OPEN, Outcome.UNKNOWN, **known)
    assert meant(epoch, "give-up-rows", None) == (who(0),)
    *others, last = epoch.participants
    again = replace(epoch, participants=(*others, replace(last, choice="write-again")))
    assert meant(again, "give-up-rows", None) == (who(0), who(3))


def test_in_a_replay_what_is_open_is_given_up_as_well():
    """A replay that has begun commits nothing of the old set any more: what is open is aborted."""
    epoch = undone(Outcome.ABORTED, Outcome.COMMITTED, Outcome.OPEN, lost=LOST, replaying=True)
    assert meant(epoch, "give-up-rows", None) == (who(0), who(2))


def test_an_undecided_epoch_has_no_rows_to_give_up():
    """Only what the source has lost of it: the choice names no participant."""
    assert meant(undone(decided=False, lost=LOST), "give-up-rows", None) == ()


def test_rows_that_the_source_still_has_are_not_given_up():
    """They are written again at the next start."""
    with pytest.raises(ConfigurationError, match="the source still holds all that epoch 9 needs"):
        meant(undone(Outcome.ABORTED), "give-up-rows", None)


@pytest.mark.parametrize("of", [[], [0], [0, 1, 2], [1]])
def test_what_is_given_up_is_all_that_is_lost_or_nothing(of):
    """Naming a part, or other ones, is refused: what was shown when the choice was made is not what is there."""
    epoch = undone(Outcome.ABORTED, Outcome.COMMITTED, Outcome.ABORTED, lost=LOST)
    assert meant(epoch, "give-up-rows", [who(n) for n in (2, 0)]) == (who(0), who(2))
    with pytest.raises(ConfigurationError, match="about all that is lost of epoch 9: 2 participants"):
        meant(epoch, "give-up-rows", [who(n) for n in of])


@pytest.mark.parametrize("kind", [FailureKind.OUTCOME_UNKNOWN, FailureKind.NOT_DETERMINISTIC])
def test_the_errors_that_need_a_person_name_the_command(kind):
    """What stops the job ends with the command that resolves it."""
    error = from_failure(Failure(kind, 17, (who(0),)), None, "file:///c", "")
    assert "`onceflow txn resolve <job file> 17" in str(error)


class Elsewhere:
    """A sink whose system must not be asked."""

    name = "out"
    guarantee = Guarantee.EXACTLY_ONCE
    participates = True
    closed = False

    system_id = "another-cluster"

    def attach(self):
        return self

    def close(self) -> None:
        self.closed = True


def test_a_checkpoint_that_is_not_this_jobs_is_refused(tmp_path):
    """No sink, no job.json, another cluster: refused before any transaction is looked at; connections are closed."""
    checkpoint = Checkpointing(tmp_path)
    with pytest.raises(ConfigurationError, match="names no sink"):
        Operator(checkpoint, "onceflow", [])
    sink = Elsewhere()
    with pytest.raises(ConfigurationError, match=r"no onceflow/job\.json"):
        Operator(checkpoint, "onceflow", [sink])
    store = Store(tmp_path / "onceflow")
    store.make()
    write_identity(store, JobIdentity.new(f"file://{tmp_path}", "this-cluster", "onceflow"))
    with pytest.raises(Exception, match="another Kafka cluster"):
        Operator(checkpoint, "onceflow", [sink])
    assert sink.closed


JOB = """
import onceflow as of
job = of.Job("j", checkpointing=of.Checkpointing({place!r}))
@job.stream(sinks=[of.KafkaSink(of.KafkaCluster("localhost:1"), "out")])
def stream(spark):
    raise AssertionError("the stream function is not called")
"""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["list"], 1, "no job has run"),
        (["abort"], 2, "--all-lingering"),
        (["abort", "an-id", "--all-lingering"], 2, "--all-lingering"),
        (["resolve", "3", "--choice", "write-again"], 2, "--why"),
        (["resolve", "--choice", "write-again", "--why", "x"], 2, "EPOCH"),
        (["resolve", "3", "--choice", "guess", "--why", "x"], 2, "guess"),
    ],
)
def test_wrong_usage_ends_with_2_and_a_refusal_with_1(tmp_path, monkeypatch, capsys, arguments, code, said):
    """Exit codes, without Spark and without a broker."""
    file = tmp_path / "job.py"
    file.write_text(JOB.format(place=str(tmp_path / "checkpoint")))
    command, *rest = arguments
    monkeypatch.setattr(sys, "argv", ["onceflow", "txn", command, str(file), *rest, "--output", "json"])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr()
    assert ended.value.code == code
    assert said in told.err
    if code == 1:
        assert json.loads(told.out.splitlines()[-1])["error"] == "ConfigurationError"
    assert not (tmp_path / "checkpoint").exists(), "looking makes nothing"


# -- what giving up costs ---------------------------------------------------------------------------------------------


def cost_of(*lost):
    return list(_cost_lines(UndoneEpoch(7, False, 2, False, False, False, (), (), lost), "give-up-rows", ()))


def test_what_a_topic_that_was_made_again_has_cost_cannot_be_known():
    """Nothing behind the job's position was planned, and the old topic may have held thousands there."""
    remade = LostInput(PlaceInSystem("t", 0), 5_000, 5_000, remade=True)
    gone = LostInput(PlaceInSystem("u", 0), 100, 130, remade=False)
    assert "At most 30 records" in "".join(cost_of(gone))
    said = "".join(cost_of(remade))
    assert "At most" not in said
    assert "Topic t was deleted and made again" in said
    both = cost_of(remade, replace(remade, partition=PlaceInSystem("t", 1)), gone)
    assert sum("made again" in line for line in both) == 1
    assert sum("At most 30 records" in line for line in both) == 1


@pytest.mark.parametrize(
    "more", [{"lost": (LostInput(PlaceInSystem("t", 0), 0, 9, remade=False),)}, {"loss_accepted": True}]
)
def test_writing_again_what_the_source_has_lost_says_what_may_not_come(more):
    """Its own rows and those in open transactions, which a replay aborts: both may be lost, and the person is told."""
    epoch = undone(Outcome.COMMITTED, Outcome.UNKNOWN, Outcome.OPEN, Outcome.OPEN, **more)
    again, said = _cost_lines(epoch, "write-again", meant(epoch, "write-again", None))
    assert "are written again: those that are there come twice" in again
    assert "up to 15 rows" in said
    assert "10 of them are in open transactions" in said
    assert len(list(_cost_lines(undone(Outcome.UNKNOWN, Outcome.OPEN), "write-again", (who(0),)))) == 1


def test_rows_that_count_as_written_are_told_as_well():
    """They are looked for as visible ones are, so a wrong guess there may lose or double as many."""
    epoch = undone(Outcome.COMMITTED, Outcome.UNKNOWN, Outcome.ABORTED, Outcome.UNKNOWN)
    one, two, three, four = epoch.participants
    counted = replace(epoch, participants=(one, replace(two, choice="count-as-written"), three, four))
    assert (epoch.rows_untold, counted.rows_untold) == (5, 10)
    assert "Of 10 rows" in "".join(_cost_lines(counted, "accept-state", ()))


# -- sinks on several clusters ----------------------------------------------------------------------------------------


class OnCluster(Elsewhere):
    """A sink of another cluster."""

    def __init__(self, name, cluster):
        self.name, self.system_id = name, cluster


def test_a_list_of_sinks_that_leaves_a_cluster_out_is_named(tmp_path):
    """The job's identity knows all its clusters; --claim, which would make it forget one, is no way out of this."""
    identify(tmp_path, systems="A,B")
    with pytest.raises(CheckpointConflictError, match="too short") as caught:
        Operator(Checkpointing(tmp_path), "onceflow", [OnCluster("a", "A")])
    assert "--claim" not in str(caught.value)
    assert "@job.stream(sinks=[...])" in caught.value.action
    assert "on B" in caught.value.what
    with pytest.raises(CheckpointConflictError, match="another Kafka cluster"):
        Operator(Checkpointing(tmp_path), "onceflow", [OnCluster("a", "A"), OnCluster("c", "C")])
