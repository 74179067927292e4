"""The order of a start: whose checkpoint it is, what two starts make of a new one, and what is refused."""

import itertools
import shutil
import threading
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from onceflow.checkpoint.identity import Mark, NameMark, read_identity, write_identity
from onceflow.checkpoint.journal import Journal
from onceflow.connectors.contract import Guarantee
from onceflow.connectors.source_contract import EpochLimit
from onceflow.errors import (
    CheckpointConflictError,
    CheckpointCorruptError,
    ConfigurationError,
    FencedError,
    KafkaRightsError,
    OnceflowError,
)
from onceflow.execution import means
from onceflow.execution.driver import Driver
from onceflow.execution.means import Surroundings
from onceflow.execution.put_back import require_not_put_back
from onceflow.job import Job, start
from onceflow.launch import ownership, taking_over
from onceflow.launch.limit import epoch_limit
from onceflow.launch.marked import require_not_rewound, tell_of_moved
from onceflow.launch.ownership import require_complete
from onceflow.launch.request import StartRequest
from onceflow.launch.systems import connected
from onceflow.options.checkpointing import Checkpointing
from onceflow.storage.store import Store
from onceflow.twophase.coordinator import Coordinator
from onceflow.twophase.layout import Layout, LayoutSource
from onceflow.twophase.messages import Appended, Reply, Superseded
from onceflow.twophase.records import Decide, LayoutRecord, Recut
from tests.support.histories import participant
from tests.support.starts import (
    ONE,
    Attached,
    Committing,
    Listed,
    done,
    finish,
    identify,
    leave,
    place_of,
    started,
    undone_of,
)


@dataclass
class Kafka:
    """Only what is looked at of a committer: the mark that Kafka keeps, as its text or as what gives it."""

    mark: object = None
    keeps_mark: bool = True

    def marks(self):
        return self if self.keeps_mark else None

    def read(self):
        return self.mark() if callable(self.mark) else self.mark


# -- first starts -----------------------------------------------------------------------------------------------------


def test_first_starts_at_the_same_moment_agree_on_one_job(tmp_path):
    """Two first starts, 100 times over: one job id, which is in job.json, and one journal that knows both starts."""
    for number in range(100):
        folder, gate, ended = tmp_path / str(number), threading.Barrier(2), []

        def start(folder=folder, gate=gate, ended=ended):
            gate.wait()
            try:
                identity = identify(folder)
                records = Store(folder / "onceflow" / "journal")
                records.make()
                ended.append((identity, Journal(records).start(identity.job_id).incarnation))
            except Exception as error:
                ended.append((error, 0))

        threads = [threading.Thread(target=start) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        written = read_identity(Store(folder / "onceflow"))
        assert [identity for identity, _ in ended] == [written, written]
        assert sorted(incarnation for _, incarnation in ended) == [1, 2]
        assert place_of(folder).journal.history()[0].job_id == written.job_id


def test_a_journal_without_a_job_is_refused(tmp_path):
    """Who deleted job.json deleted what tells this job's transactions from others'; the journal stays where it is."""
    identity, place = started(tmp_path)
    place.ours.remove("job.json")
    with pytest.raises(CheckpointConflictError, match=r"no onceflow/job\.json") as caught:
        identify(tmp_path)
    assert 'takeover="claim"' in caught.value.action
    assert place.records.names()
    made = identify(tmp_path, "as-new")
    assert made == read_identity(place.ours)
    assert made.job_id != identity.job_id
    assert place.records.names(), "a new start in the same journal fences whoever still runs"


def test_a_query_without_onceflow_is_told_how_it_is_gone_on_with(tmp_path):
    """Nothing of ours is there: the one way is said first, and none that needs a journal."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1")
    with pytest.raises(CheckpointConflictError) as caught:
        identify(tmp_path)
    assert caught.value.action.startswith('of a query without onceflow: takeover="as-new", at the first start only')
    assert "claim" not in caught.value.action


# -- the mark outside -------------------------------------------------------------------------------------------------


def test_a_start_at_this_moment_makes_no_copy_of_the_checkpoint(tmp_path):
    """Another start that writes its record, and then its mark, while we look is no sign that ours is an older copy."""
    identity, place = started(tmp_path)

    def another_start():
        other = Journal(place.records)
        incarnation = other.start(identity.job_id).incarnation
        return Mark(incarnation, other.start_nonce, -1).dumps()

    kafka = Kafka(another_start)
    for _ in range(3):
        require_not_rewound({"a": kafka, "b": kafka}, Journal(place.records), identity, place.checkpoint)


@pytest.mark.parametrize(
    ("epochs", "keeps", "refused"),
    [((), True, False), ((0,), True, True), ((0,), False, False), ((0, 1), True, True)],
)
def test_a_mark_that_is_gone_is_refused_where_epochs_are_decided(tmp_path, epochs, keeps, refused):
    """Before the first decision there is none to miss, and a system that keeps no marks has none to lose."""
    identity, place = started(tmp_path, *epochs)
    kafka = Kafka(None, keeps)
    if not refused:
        require_not_rewound({"s": kafka}, place.journal, identity, place.checkpoint)
        return
    with pytest.raises(CheckpointConflictError, match="have no mark of this job") as caught:
        require_not_rewound({"s": kafka}, place.journal, identity, place.checkpoint)
    assert 'takeover="claim"' in caught.value.action
    assert caught.value.facts["epoch"] == epochs[-1]


def test_a_sink_that_goes_elsewhere_is_told(tmp_path, caplog):
    """Its name was kept, and nothing shows that the job has written there; a sink that is new is another matter."""
    identity, place = started(tmp_path)
    incarnation = place.journal.history()[0].incarnation
    layout = Layout((LayoutSource(("moved", "stays"), "", "topic clicks", "path"),))
    assert place.journal.append(LayoutRecord(incarnation, layout)) == Appended()
    assert place.journal.append(Decide(incarnation, 0, "v1\n0", ("moved", "stays"), ONE)) == Appended()
    kept = Mark(1, place.journal.start_nonce, 0).dumps()
    history = place.journal.history()[0]
    tell_of_moved({"moved": kept, "stays": kept, "new": None}, history, identity.job_id, "j")
    tell_of_moved({"moved": None, "stays": kept}, history, "another", "j")
    tell_of_moved({"moved": None, "stays": None}, history, identity.job_id, "j")  # keeps none, or has lost all
    assert not caplog.messages
    tell_of_moved({"moved": None, "stays": kept}, history, identity.job_id, "j")
    (told,) = caplog.messages
    assert "sink moved: nothing shows that this job has written to where it goes now" in told
    assert "from epoch 1 on" in told


@dataclass
class Remembering:
    """Only what is looked at of a committer: which handles its system knows; None where it keeps none."""

    committed: set[str] | None

    def known(self, handles):
        return None if self.committed is None else self.committed.intersection(handles)

    def can_finish(self, _):
        return False


def decided_in(place, history, *epochs):
    """Epochs with a participant of the sink ``s`` each, whose handle is the epoch's."""
    for epoch in epochs:
        one = replace(ONE[0], sink="s", handle=f"h{epoch}")
        assert place.journal.append(Decide(history.incarnation, epoch, f"v1\n{epoch}", ("s",), (one,))) == Appended()


def test_a_system_that_was_put_back_is_refused(tmp_path):
    """It does not know the newest epochs that Spark has recorded, so nobody would write their rows again."""
    identity, place = started(tmp_path)
    decided_in(place, place.journal.history()[0], 0, 1, 2, 3)
    done(tmp_path, 2)
    for known in ({"h0", "h1", "h2"}, {"h2"}):  # epoch 3 is undone: recovery looks after it
        require_not_put_back({"s": Remembering(known)}, {}, place.journal, identity, place.checkpoint)
    with pytest.raises(CheckpointConflictError, match=r"does not know epoch 1 to 2 .* 2 epochs") as caught:
        require_not_put_back({"s": Remembering({"h0"})}, {}, place.journal, identity, place.checkpoint)
    assert caught.value.facts["epochs"] == [1, 2]
    assert 'takeover="claim"' in caught.value.action
    require_not_put_back({"s": Remembering(None)}, {}, place.journal, identity, place.checkpoint)
    require_not_put_back({"another": Remembering(set())}, {}, place.journal, identity, place.checkpoint)


def test_a_sink_that_lost_more_than_the_journal_keeps_is_told_of_all(tmp_path):
    """Records that wait for their purge have no receipt yet: they count all the same, with their rows."""
    identity, place = started(tmp_path)
    journal = Journal(place.records, retain=20)
    journal.start(identity.job_id)
    for epochs in (range(20), range(20, 28)):
        decided_in(replace(place, journal=journal), journal.history()[0], *epochs)
        journal.purge()
    done(tmp_path, 27)
    with pytest.raises(CheckpointConflictError, match=r"does not know epoch 1 to 27 .*: 27 epochs"):
        require_not_put_back({"s": Remembering({"h0"})}, {}, journal, identity, place.checkpoint)


def test_a_new_job_asks_for_nothing_that_another_has_committed(tmp_path):
    """With --as-new the journal still ends with the old job's epochs, which may be of another system."""
    identity, place = started(tmp_path)
    decided_in(place, place.journal.history()[0], 0)
    done(tmp_path, 0)
    another = replace(identity, job_id="another")
    require_not_put_back({"s": Remembering(set())}, {}, place.journal, another, place.checkpoint)
    place.journal.start("another", left=identity.job_id)
    require_not_put_back({"s": Remembering(set())}, {}, place.journal, another, place.checkpoint)


@pytest.mark.parametrize("text", ["", "?", "{}"])
def test_a_text_that_is_no_mark_is_no_mark(tmp_path, text):
    """What somebody else wrote in its place proves nothing about this copy."""
    identity, place = started(tmp_path, 0)
    with pytest.raises(CheckpointConflictError, match="no mark"):
        require_not_rewound({"s": Kafka(text)}, place.journal, identity, place.checkpoint)


def test_one_mark_is_enough_where_a_sink_was_added(tmp_path):
    """Each sink's topic keeps it, and that of a sink that was just added has none; without any it is refused."""
    identity, place = started(tmp_path, 0)
    kept = Mark(1, place.journal.start_nonce, 0).dumps()
    require_not_rewound({"a": Kafka(kept), "b": Kafka(kept)}, place.journal, identity, place.checkpoint)
    require_not_rewound({"a": Kafka(kept), "b": Kafka(None)}, place.journal, identity, place.checkpoint)
    with pytest.raises(CheckpointConflictError, match="no mark"):
        require_not_rewound({"a": Kafka(None), "b": Kafka(None)}, place.journal, identity, place.checkpoint)


@pytest.mark.parametrize(
    ("beyond", "what"),
    [
        (Mark(9, "n", 0), "misses a start of this job"),
        (Mark(1, "other", 0), "has gone on beside another copy"),
        (Mark(1, "", 9), "is older than what this job has done"),
    ],
)
def test_a_copy_that_is_older_than_its_mark_is_refused(tmp_path, beyond, what):
    """A later start, the same number in another history, or a later epoch: this copy was put back."""
    identity, place = started(tmp_path, 0)
    beyond = beyond if beyond.nonce else replace(beyond, nonce=place.journal.start_nonce)
    with pytest.raises(CheckpointConflictError, match=what):
        require_not_rewound({"s": Kafka(beyond.dumps())}, place.journal, identity, place.checkpoint)


def test_a_journal_that_was_emptied_is_older_than_its_mark(tmp_path):
    """job.json is there and the records are gone: what was decided is not known here, and would be written twice."""
    identity, place = started(tmp_path, 0)
    mark = Mark(1, place.journal.start_nonce, 0).dumps()
    for name in place.records.names():
        place.records.remove(name)
    with pytest.raises(CheckpointConflictError, match="older than what this job has done"):
        require_not_rewound({"s": Kafka(mark)}, place_of(tmp_path).journal, identity, place.checkpoint)


def test_as_new_is_refused_over_an_undone_epoch_without_job_json(tmp_path):
    """The journal is this folder's own and knows the decision, whatever became of job.json."""
    _, place = started(tmp_path, 0)
    place.ours.remove("job.json")
    with pytest.raises(CheckpointConflictError, match="decided and not finished"):
        identify(tmp_path, "as-new")


def test_a_job_that_has_not_started_yet_has_no_mark(tmp_path):
    """--as-new: the journal is the old job's, whose marks are none of the new one's."""
    _, place = started(tmp_path, 0)
    done(tmp_path, 0)
    require_not_rewound({"s": Kafka(None)}, place.journal, identify(tmp_path, "as-new"), place.checkpoint)


# -- --as-new ---------------------------------------------------------------------------------------------------------


def test_a_job_that_goes_on_as_new_names_the_one_it_leaves(tmp_path, caplog):
    """Its transactions are nobody's from here on: job.json and the log say whose they are."""
    left, place = started(tmp_path, 0)
    done(tmp_path, 0)
    made = identify(tmp_path, "as-new")
    assert (made.left, read_identity(place.ours)) == (left.job_id, made)
    assert f"leaves job {left.job_id} behind" in caplog.text
    assert identify(tmp_path) == made, "from here on without the flag"


def test_as_new_is_refused_the_second_time(tmp_path):
    """A flag that was left in a unit file would make every start a job whose predecessor nobody sweeps."""
    started(tmp_path, 0)
    done(tmp_path, 0)
    made = identify(tmp_path, "as-new")
    for _ in range(2):
        with pytest.raises(CheckpointConflictError, match="it has made this job"):
            identify(tmp_path, "as-new")
    assert read_identity(place_of(tmp_path).ours) == made


def test_as_new_is_refused_over_an_undone_epoch(tmp_path):
    """The new job would know of no decision, and write the epoch again."""
    identity, place = started(tmp_path, 0)
    with pytest.raises(CheckpointConflictError, match=r"an epoch of this very job, \w+, is decided"):
        identify(tmp_path, "as-new")
    assert read_identity(place.ours) == identity


def test_a_copy_of_a_copy_may_be_made_new_again(tmp_path):
    """job.json was made for another place: here the flag is meant, whoever that job had left."""
    first, place = started(tmp_path, 0)
    elsewhere = replace(first, checkpoint="file:///elsewhere", left="0123456789ab")
    write_identity(place.ours, elsewhere)
    assert identify(tmp_path, "as-new").left == elsewhere.job_id


def test_a_plain_query_becomes_a_job(tmp_path, caplog):
    """Offsets without any of ours: the new job leaves none."""
    done(tmp_path, 4)
    with pytest.raises(CheckpointConflictError, match="holds offsets of a query"):
        identify(tmp_path)
    made = identify(tmp_path, "as-new")
    assert made.left == "none"
    assert "goes on where a query without onceflow has stood" in caplog.text


# -- --claim ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["missing", "emptied", "changed"])
def test_claim_makes_job_json_again_from_the_journal(tmp_path, how):
    """The journal names the job: its transactions can be told again, and the next plain start finds a whole file."""
    identity, place = started(tmp_path, 0)
    path = place.ours.path("job.json")
    match how:
        case "missing":
            path.unlink()
        case "emptied":
            path.write_bytes(b"")
        case "changed":
            path.write_bytes(path.read_bytes().replace(b"cluster-1", b"cluster-2"))
    with pytest.raises((CheckpointConflictError, CheckpointCorruptError)) as caught:
        identify(tmp_path)
    assert 'takeover="claim"' in caught.value.action
    claimed = identify(tmp_path, "claim")
    assert (claimed.job_id, claimed.checkpoint, claimed.cluster_id) == (identity.job_id, place.uri, "cluster-1")
    write_identity(place.ours, claimed)  # as the takeover does
    assert identify(tmp_path) == claimed


def test_claim_takes_a_moved_checkpoint(tmp_path):
    """The same job at a new place, and on another cluster, when that is said."""
    identity, place = started(tmp_path, 0)
    write_identity(place.ours, replace(identity, checkpoint="file:///old"))
    with pytest.raises(CheckpointConflictError, match="another place"):
        identify(tmp_path)
    claimed = identify(tmp_path, "claim", "cluster-9")
    assert claimed == replace(identity, cluster_id="cluster-9")


def test_a_claim_that_fails_leaves_the_checkpoint_as_it_was(tmp_path, monkeypatch):
    """The sinks refuse: the moved checkpoint is still of its old place, and refused without the flag; then it works."""
    identity, place = started(tmp_path)
    elsewhere = replace(identity, checkpoint="file:///old", cluster_id="one")
    write_identity(place.ours, elsewhere)
    plan = StartRequest("test", Checkpointing(tmp_path), takeover="claim")
    connections = {"a": Attached(Listed("a", "one", []))}

    def refuse(_):
        raise KafkaRightsError("no")

    with monkeypatch.context() as patched:
        patched.setattr(Committing, "preflight", refuse)
        with pytest.raises(KafkaRightsError):
            taking_over.take_over(place, connections, plan)
    assert read_identity(place.ours) == elsewhere
    assert place.journal.history()[0].incarnation == 1
    with pytest.raises(CheckpointConflictError, match="another place"):
        taking_over.take_over(place, connections, replace(plan, takeover=None))
    taking_over.take_over(place, connections, plan, proven=connections).close()
    assert read_identity(place.ours) == replace(elsewhere, checkpoint=place.uri)
    assert place.journal.history()[0].incarnation > 1


@pytest.mark.parametrize("dies", ["before its start", "behind it"])
def test_a_claim_that_dies_is_finished_by_the_same_command(tmp_path, monkeypatch, dies):
    """job.json has the new place, and the journal its start or not: --claim once more goes on, and so does none."""
    identity, place = started(tmp_path)
    write_identity(place.ours, replace(identity, checkpoint="file:///old", cluster_id="one"))
    plan = StartRequest("test", Checkpointing(tmp_path), takeover="claim")
    connections = {"a": Attached(Listed("a", "one", []))}

    class DeathError(BaseException):
        pass

    real = taking_over.Driver.take_over

    def die(driver):
        if dies == "behind it":
            real(driver)
        raise DeathError

    with monkeypatch.context() as patched:
        patched.setattr(taking_over.Driver, "take_over", die)
        with pytest.raises(DeathError):
            taking_over.take_over(place, connections, plan, proven=connections)
    for takeover in ("claim", None):
        taking_over.take_over(
            place_of(tmp_path), connections, replace(plan, takeover=takeover), proven=connections
        ).close()
    assert read_identity(place.ours) == replace(identity, checkpoint=place.uri, cluster_id="one")


@pytest.mark.parametrize("how", ["empty folder", "a query's"])
def test_there_must_be_something_to_claim(tmp_path, how):
    """Neither job.json nor a start in a journal: nothing says whose it was."""
    if how == "a query's":
        done(tmp_path, 3)
    with pytest.raises(CheckpointConflictError, match=r"neither onceflow/job\.json nor a journal to claim") as caught:
        identify(tmp_path, "claim")
    assert 'takeover="as-new"' in caught.value.action


def test_an_undone_epoch_is_seen_before_anything_is_asked(tmp_path):
    """What is decided is finished before any check: whether there is such an epoch needs no more than files."""
    _, place = started(tmp_path)
    assert not place.has_undone()
    place.journal.append(Decide(1, 0, "v1\n0", ("s",), ONE))
    assert place_of(tmp_path).has_undone()
    done(tmp_path, 0)
    assert not place_of(tmp_path).has_undone()
    place.journal.append(Decide(1, 1, "v1\n1", ("s",), ONE))
    place.journal.append(Decide(1, 2, "v1\n2", ("s",), ONE))
    assert place_of(tmp_path).has_undone(), "two of them are for the start to judge"


# -- --as-new beside a driver that still runs -------------------------------------------------------------------------


class Meanwhile(Journal):
    """A journal in which something happens in the moment before a start is appended to it."""

    def __init__(self, store, happens):
        super().__init__(store)
        self.happens = happens

    def start(self, job_id, above=0):
        self.happens()
        return super().start(job_id, above)


class Interrupted(Store):
    """A folder in which something happens in the moment before a file is replaced."""

    def __init__(self, folder, happens):
        super().__init__(folder)
        self.happens = happens

    def replace(self, name, data):
        self.happens()
        super().replace(name, data)


def decide(driver, epoch):
    return driver.append(Decide(1, epoch, f"v1\n{epoch}", ("s",), ONE))


def test_as_new_fences_the_driver_that_still_runs_before_it_leaves_its_job(tmp_path):
    """What the old driver would decide between job.json and the new job's start, nobody would know: it cannot."""
    identity, old = started(tmp_path, 0)
    done(tmp_path, 0)
    place = place_of(tmp_path)
    made = leave(place)
    assert made.left == identity.job_id
    assert decide(old.journal, 1) == Superseded()
    assert place.journal.start(made.job_id, left=made.left).undone(0) is None


def test_as_new_leaves_no_job_that_decided_until_it_was_fenced(tmp_path):
    """Nothing was undone when it looked first: the epoch that was decided then is found, and the job stays the old."""
    identity, old = started(tmp_path, 0)
    done(tmp_path, 0)
    place = place_of(tmp_path)
    place = replace(place, journal=Meanwhile(place.records, lambda: decide(old.journal, 1)))
    with pytest.raises(CheckpointConflictError, match="decided and not finished"):
        leave(place)
    assert identify(tmp_path) == identity
    assert place_of(tmp_path).has_undone()


def test_an_as_new_that_dies_behind_its_fence_has_changed_nothing(tmp_path):
    """The old job's identity stands; its next start reads all that it has decided."""
    identity, _ = started(tmp_path, 0)
    done(tmp_path, 0)
    place = place_of(tmp_path)

    def die():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leave(replace(place, ours=Interrupted(place.ours.folder, die)))
    assert identify(tmp_path) == identity
    history = place_of(tmp_path).journal.start(identity.job_id)
    assert history.incarnation == 3
    assert history.decided.epoch == 0


@pytest.mark.parametrize("spoiled", [False, True])
def test_as_new_leaves_no_job_that_was_started_again_at_the_same_moment(tmp_path, spoiled):
    """A supervisor started the old job between the fence and job.json: that start would decide what nobody knows."""
    identity, place = started(tmp_path, 0)
    done(tmp_path, 0)
    if spoiled:
        place.ours.remove("job.json")
    place = place_of(tmp_path)
    again = place_of(tmp_path).journal
    ours = Interrupted(place.ours.folder, lambda: again.start(identity.job_id) if not again.start_nonce else None)
    with pytest.raises(CheckpointConflictError, match="started at the same moment"):
        leave(replace(place, ours=ours))
    assert read_identity(place.ours) == (None if spoiled else identity)
    assert again.append(Decide(3, 1, "v1\n1", ("s",), ONE)) == Appended()


def test_a_start_whose_job_was_left_at_the_same_moment_ends(tmp_path):
    """It read job.json, --as-new took that over, and only then it appended its start: it looks again, and ends."""
    identity, _ = started(tmp_path, 0)
    done(tmp_path, 0)
    leave(place_of(tmp_path))
    place = place_of(tmp_path)
    rules, around = Coordinator(()), Surroundings.of_process(0)
    driver = Driver(identity, place.journal, place.checkpoint, {}, place.uri, rules, around)
    try:
        driver.take_over()
        with pytest.raises(FencedError):
            ownership.require_not_left(place, driver)
    finally:
        driver.close()


# -- what is decided, before anything else ----------------------------------------------------------------------------


class Forbidden(Committing):
    """One whose right to commit was taken away while the job was down."""

    def commit(self, participants):
        return {p.id: Reply.REFUSED for p in participants}


@pytest.mark.parametrize("takeover", [None, "claim"])
@pytest.mark.parametrize("listed", [["a", "b"], ["a"], ["b"], ["renamed"]])
def test_an_undone_epoch_is_finished_by_whatever_sinks_of_its_system_are_listed(tmp_path, listed, takeover):
    """One listed sink is enough for all of them: handles are all that is needed, and consumers wait."""
    undone_of(tmp_path, ("a", "one"), ("b", "one"))
    done = []
    assert finish(tmp_path, [Listed(name, "one", done) for name in listed], takeover)
    assert sorted(done) == ["a", "b"]


@pytest.mark.parametrize("takeover", [None, "claim"])
def test_an_undone_epoch_waits_for_the_sinks_of_its_other_systems(tmp_path, takeover):
    """Nothing is committed and nobody is fenced by a part of them; with all it is finished, at the same place."""
    undone_of(tmp_path, ("a", "one"), ("b", "two"))
    done = []
    assert not finish(tmp_path, [Listed("a", "one", done)], takeover)
    assert done == []
    assert place_of(tmp_path).journal.history()[0].incarnation == 1
    assert read_identity(place_of(tmp_path).ours).cluster_id == "one,two"
    assert finish(tmp_path, [Listed("a", "one", done), Listed("b", "two", done)], takeover)
    assert sorted(done) == ["a", "b"]


def test_a_right_that_is_missing_ends_the_start_after_a_while(tmp_path, monkeypatch):
    """Refusals and nothing else for a minute: the error says that the decision stands, and no supervisor goes on."""
    undone_of(tmp_path, ("a", "one"))
    seconds = itertools.count(0, 10)
    monkeypatch.setattr(means, "time", SimpleNamespace(monotonic=lambda: float(next(seconds))))
    sink = Listed("a", "one", done := [])
    with monkeypatch.context() as taken:
        taken.setattr(Attached, "committer", lambda *_: Forbidden("one", done))
        with pytest.raises(OnceflowError, match="decision stands") as caught:
            finish(tmp_path, [sink])
    assert not caught.value.retriable
    assert caught.value.cause
    assert caught.value.action
    assert done == []
    assert finish(tmp_path, [sink]), "the right is back: the next start finishes it"
    assert done == ["a"]


def test_a_refusal_beside_a_broker_that_does_not_answer_is_waited_for(tmp_path, monkeypatch):
    """What is passing may be all of it: the minute begins anew with each other answer."""
    undone_of(tmp_path, ("a", "one"), ("b", "one"))
    seconds = itertools.count(0, 10)
    monkeypatch.setattr(means, "time", SimpleNamespace(monotonic=lambda: float(next(seconds))))
    sink, rounds = Listed("a", "one", done := []), itertools.count(1)

    class Mixed(Committing):
        def commit(self, participants):
            if next(rounds) > 9:
                return super().commit(participants)
            first, *rest = (p.id for p in participants)
            return {first: Reply.RETRY} | dict.fromkeys(rest, Reply.REFUSED)

    monkeypatch.setattr(Attached, "committer", lambda *_: Mixed("one", done))
    assert finish(tmp_path, [sink])
    assert sorted(done) == ["a", "b"]


def test_where_nothing_can_or_need_be_finished_nobody_is_fenced(tmp_path):
    """No sink, none that takes part, or a new job begins here, or the epoch is done: only files are read."""
    undone_of(tmp_path, ("a", "one"))
    done = []
    weak = Listed("w", "one", done, Guarantee.AT_LEAST_ONCE)
    assert not finish(tmp_path, [])
    assert not finish(tmp_path, [weak, "no sink"])
    assert not finish(tmp_path, [Listed("a", "one", done)], "as-new")
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").write_text("v1\n{}\n")
    assert not finish(tmp_path, [Listed("a", "one", done)])
    assert done == []
    assert place_of(tmp_path).journal.history()[0].incarnation == 1


# -- files that were deleted ------------------------------------------------------------------------------------------


def decided(folder, *epochs, recorded):
    """A job with decided epochs, of which Spark has recorded some; and all that Spark needs."""
    _, place = started(folder, *epochs)
    (folder / "metadata").write_text('{"id":"6e0f9a3c"}')
    for name, of in (("offsets", epochs), ("commits", recorded)):
        (folder / name).mkdir()
        for epoch in of:
            (folder / name / str(epoch)).write_text(f"v1\n{epoch}" if name == "offsets" else "v1\n{}\n")
    return place


def journal_of(place):
    return {name: place.records.read(name) for name in place.records.names()}


def test_commits_of_two_decided_epochs_are_missed_before_a_start_is_appended(tmp_path):
    """Also by what finishes an undone epoch first; of one decided epoch it is undone, and is finished."""
    place = decided(tmp_path, 0, 1, 2, recorded=(0,))
    before = journal_of(place)
    for look in (lambda: require_complete(place), lambda: finish(tmp_path, [Listed("s", "cluster-1", [])])):
        with pytest.raises(CheckpointConflictError, match="older than the journal") as caught:
            look()
        assert "put the checkpoint's newest copy back" in caught.value.action
    assert journal_of(place) == before
    (tmp_path / "commits" / "1").write_text("v1\n{}\n")
    require_complete(place)


def test_an_undone_epoch_comes_before_what_is_missing(tmp_path):
    """Consumers wait for what is decided: it is committed first, and then the start is refused by name."""
    place = decided(tmp_path, 0, 1, recorded=(0,))
    (tmp_path / "metadata").unlink()
    require_complete(place)
    with pytest.raises(CheckpointCorruptError, match="metadata is gone"):
        require_complete(place, whatever_is_undone=True)
    (tmp_path / "commits" / "1").write_text("v1\n{}\n")
    with pytest.raises(CheckpointCorruptError, match="metadata is gone"):
        require_complete(place)


def test_an_undone_epoch_is_committed_though_the_plan_before_it_is_gone(tmp_path):
    """Its range stands in its decision, and consumers wait; behind the commit the start is refused by the file's name.

    The epoch of that file wrote nothing, so its range stands nowhere else. Nobody is told to plan it anew: what comes
    behind it is decided.
    """
    identity = identify(tmp_path, systems="one")
    place = place_of(tmp_path)
    place.records.make()
    history = place.journal.start(identity.job_id)
    held = replace(participant(0), transaction={"system": "one"})
    assert place.journal.append(Decide(history.incarnation, 1, "v1\n{}\n", ("s",), (held,))) == Appended()
    (tmp_path / "metadata").write_text('{"id":"6e0f9a3c"}')
    for name in ("offsets/1", "commits/0"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("v1\n{}\n")
    done = []
    assert finish(tmp_path, [Listed("s", "one", done)])
    assert done == ["s"]
    with pytest.raises(CheckpointCorruptError, match="offsets/0 cannot be used: it is missing") as caught:
        require_complete(place_of(tmp_path), whatever_is_undone=True)
    assert "remove" not in caught.value.action


def test_a_journal_that_was_emptied_is_missed_without_a_mark(tmp_path):
    """Kafka forgets the mark of a job that was down for a week; an epoch may be decided that only the journal knew."""
    _, place = started(tmp_path, 0)
    done(tmp_path, 0)
    require_not_rewound({"s": Kafka(None, keeps_mark=False)}, place.journal, identify(tmp_path), place.checkpoint)
    for name in place.records.names():
        place.records.remove(name)
    with pytest.raises(CheckpointConflictError, match="journal is gone or empty") as caught:
        require_complete(place)
    assert 'takeover="as-new"' in caught.value.action
    identify(tmp_path, "as-new")


def test_a_plain_query_that_became_a_job_may_have_no_journal_yet(tmp_path):
    """Its first start may have died between job.json and the record: it is not asked for what it never had."""
    done(tmp_path, 0)
    (tmp_path / "metadata").write_text('{"id":"6e0f9a3c"}')
    identify(tmp_path, "as-new")
    require_complete(place_of(tmp_path))


@pytest.mark.parametrize("as_new", [False, True])
def test_a_new_job_does_not_begin_where_another_query_began(tmp_path, as_new):
    """Spark's sources/ come before what a source says; a start of this job that died before its first plan left them.

    Then they are its own, and nobody has to be asked.
    """
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "0").write_bytes(b'\0v1\n{"t":{"0":5000}}')
    place = place_of(tmp_path)
    with pytest.raises(CheckpointCorruptError, match=r"sources/0/0 is left of a query") as caught:
        require_complete(place, whatever_is_undone=as_new)
    assert f"remove {tmp_path / 'sources'}" in caught.value.action
    started(tmp_path)
    require_complete(place, whatever_is_undone=as_new)


# -- a lost checkpoint ------------------------------------------------------------------------------------------------


def test_a_start_on_a_lost_checkpoint_makes_nothing(tmp_path, monkeypatch):
    """Its connections are asked before job.json is made: whoever mounts the volume then finds it as it was."""
    kept = NameMark({"0123456789ab": "file:///elsewhere"}).dumps()
    monkeypatch.setattr(Attached, "read_name_mark", lambda *told: kept if told[1:] == ("onceflow", "test") else None)
    folder = tmp_path / "checkpoint"
    connections = {"a": Attached(Listed("a", "one", []))}
    with pytest.raises(CheckpointConflictError, match="job 0123456789ab, whose checkpoint was file:///elsewhere"):
        taking_over._driver(
            place_of(folder),
            connections,
            StartRequest("test", Checkpointing(folder)),
            means.REAL,
            proven=connections,
        )
    assert not folder.exists()
    for plan in (
        StartRequest("other", Checkpointing(folder)),
        StartRequest("test", Checkpointing(folder), takeover="as-new"),
    ):
        driver = taking_over._driver(place_of(folder), connections, plan, means.REAL, proven=connections)
        driver.close()
        assert (folder / "onceflow" / "job.json").exists()
        shutil.rmtree(folder)


@pytest.mark.parametrize("wrong", [{}, {"until": "later"}, {"output_mode": "apend"}])
def test_a_call_that_is_wrong_commits_what_is_decided_first(tmp_path, wrong):
    """``start(None)`` or a misspelt word is a mistake of the program's; consumers wait for the epoch all the same."""
    undone_of(tmp_path, ("a", "one"))
    needed = {"sinks": [Listed("a", "one", done := [])], "checkpointing": Checkpointing(tmp_path)}
    df = {needed["sinks"][0]: None} if wrong else None
    with pytest.raises(ConfigurationError, match="start has a wrong"):
        start(df, name="test", **needed, **wrong)
    assert done == ["a"]


def test_a_run_until_a_misspelt_moment_commits_what_is_decided_first(tmp_path):
    """As for ``start``."""
    undone_of(tmp_path, ("a", "one"))
    job = Job("test", checkpointing=Checkpointing(tmp_path))
    job.stream(sinks=[Listed("a", "one", done := [])])(print)
    with pytest.raises(ConfigurationError, match="wrong until"):
        job.run(until="later")
    assert done == ["a"]


# -- how large an epoch may be ----------------------------------------------------------------------------------------


@dataclass
class Expiring:
    """Only what is looked at of a sink."""

    timeout_s: float | None
    participates: bool = True

    def expires_after_s(self):
        return self.timeout_s


def limit_of(folder, *sinks, timeout="10 min"):
    return epoch_limit(StartRequest("test", Checkpointing(folder, timeout=timeout)), sinks)


def test_an_epoch_is_meant_to_be_done_within_the_checkpoints_time_out(tmp_path):
    """In three eighths of it, where that is less than a quarter of the transactions' time-out."""
    assert limit_of(tmp_path, Expiring(900), timeout="40 s") == EpochLimit(60_000)
    assert limit_of(tmp_path, timeout="40 s") == EpochLimit(60_000)


def test_a_new_job_reads_what_a_slow_one_could_do(tmp_path):
    """Nothing is measured: a quarter of the shortest time-out at a cautious rate, and looking makes no folder."""
    assert limit_of(tmp_path, Expiring(900), Expiring(300), Expiring(1, participates=False)) == EpochLimit(300_000)
    assert not (tmp_path / "onceflow").exists()


@pytest.mark.parametrize("sinks", [[], [Expiring(None)], [Expiring(900, participates=False)]])
def test_where_nothing_expires_the_default_holds(tmp_path, sinks):
    """No sink is known yet, or none takes part, or its transactions never end."""
    assert limit_of(tmp_path, *sinks) == EpochLimit()


def test_the_limit_follows_the_journals_epochs(tmp_path):
    """Offsets between two decisions that follow each other, over the time that the run took; jumps count nothing."""
    _, place = started(tmp_path)
    for epoch, at, took in ((0, 0, 5), (1, 20_000, 20_000), (3, 900_000, 10_000)):
        place.journal.append(Decide(1, epoch, f'v1\n{{}}\n{{"t":{{"0":{at}}}}}', ("s",), ONE, took))
    assert limit_of(tmp_path, Expiring(1_000), timeout="1 h") == EpochLimit(250_000), (
        "1,000 a second, a quarter of 1,000 s"
    )


def test_several_sources_share_an_epoch(tmp_path):
    """Spark gives each source a limit of its own."""
    _, place = started(tmp_path)
    sources = tuple(LayoutSource((name,), "", "topic t", name) for name in "abc")
    place.journal.append(LayoutRecord(1, Layout(sources)))
    assert limit_of(tmp_path, Expiring(900)) == EpochLimit(300_000)


def test_after_an_epoch_that_was_too_long_every_source_reads_less(tmp_path, caplog):
    """Also one with a limit of its own, until an epoch is decided; and the log says so."""
    _, place = started(tmp_path)
    place.journal.append(Recut(1, 0, 70))
    assert limit_of(tmp_path, Expiring(900)) == EpochLimit(900_000, most=70)
    assert "at most 70 records" in caplog.text
    place.journal.append(Decide(1, 0, "v1", ("s",), ONE, 5))
    assert limit_of(tmp_path, Expiring(900)).most is None


@pytest.mark.parametrize("system", ["", "one,other"])
def test_a_sink_that_takes_part_says_which_system_it_is(system):
    """A checkpoint knows its systems by their ids, and keeps them with commas between; all that is open is closed."""
    sinks, closed = [Listed("a", "one", []), Listed("b", system, [])], []

    def attach(sink):
        connection = sink.attach()
        connection.close = lambda: closed.append(sink.name)
        return connection

    with pytest.raises(ConfigurationError, match="sink b does not say which system it writes to"):
        connected(sinks, attach)
    assert closed == ["a", "b"]
    sinks[1].guarantee = Guarantee.IDEMPOTENT_UPSERT
    assert set(connected(sinks, attach)) == {"a", "b"}
