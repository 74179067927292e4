"""A system that was put back, and a checkpoint that is older than its system, on SQLite, Iceberg and Delta."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
from types import SimpleNamespace

import pytest

from onceflow.checkpoint.deleting import begin_deleting
from onceflow.checkpoint.identity import read_identity
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.place import Place
from onceflow.connectors.contract import Run
from onceflow.errors import CheckpointConflictError, DatabaseUnavailableError, OutcomeUnknownError
from onceflow.execution.finishers import Finishers
from onceflow.execution.put_back import Lost, LostEpoch
from onceflow.launch import taking_over
from onceflow.operations.savepoints import reading, restoring, writing
from onceflow.operations.transactions.access import Operator
from onceflow.operations.transactions.resolution import resolve
from onceflow.operations.transactions.writing_again import _begun, lost_rows
from onceflow.options.checkpointing import Checkpointing
from onceflow.rerun.lost_epochs import Again
from onceflow.storage.store import Store
from onceflow.testing.trial import PREFIX, Trial
from onceflow.twophase.participants import Participant
from tests.support import older
from tests.support.advice import parts_of
from tests.support.lakes import DeltaWorld, IcebergWorld
from tests.support.lives import InFolder, Lives
from tests.support.sqlite_worlds import SqliteWorld, Upserting

WORLDS = {"sqlite": SqliteWorld, "iceberg": IcebergWorld, "delta": DeltaWorld}


@pytest.fixture(params=WORLDS)
def world(request, tmp_path):
    """A new table of each kind, alone in its folder."""
    (tmp_path / "system").mkdir()
    return WORLDS[request.param](tmp_path / "system")


@pytest.fixture
def snapshot(tmp_path):
    """A backup of the whole system, and what restores it in place."""

    def take():
        shutil.copytree(tmp_path / "system", tmp_path / "backup")

        def put_back():
            for each in (tmp_path / "system").rglob("*"):
                if each.is_file() and not (tmp_path / "backup" / each.relative_to(tmp_path / "system")).exists():
                    each.unlink()
            # Into the files that are there: a connection that is open reads on in them.
            shutil.copytree(tmp_path / "backup", tmp_path / "system", copy_function=shutil.copyfile, dirs_exist_ok=True)

        return put_back

    return take


def test_put_back_before_a_starts_first_commit(world, snapshot):
    """The first check of a start asks for the newest epoch of before, which only the journal knows."""
    older.put_back_under_a_start_that_has_committed_nothing(world, snapshot)


def test_put_back_while_the_sink_is_quiet(world, snapshot):
    """Epochs without a row for the sink ask, too."""
    older.put_back_while_the_sink_is_quiet(world, snapshot)


def test_put_back_between_check_and_commit(world, snapshot):
    """A decided epoch is not committed on top of a system that lacks the one before it."""
    older.put_back_between_check_and_commit(world, snapshot)


def test_an_older_checkpoint_decides_nothing(world):
    """Also an epoch below the newest that the system holds."""
    older.older_checkpoint(world)


@pytest.mark.parametrize("behind", [1, 2, 3])
def test_a_claimed_checkpoint_goes_on(world, behind):
    """A copy that is one epoch older is no other case than one that is three older."""
    older.claimed_checkpoint(world, behind=behind)


def test_a_claimed_checkpoint_of_an_upsert_goes_on(tmp_path):
    """Likewise where rows replace those of their keys."""
    older.claimed_checkpoint(Upserting(tmp_path, "text primary key not null"), behind=2)


def test_an_upsert_is_written_again_though_the_running_job_had_begun_its_next_epoch(tmp_path, snapshot):
    """Its tasks had begun on the database that was put back: none of their rows replaces a newer one."""
    (tmp_path / "system").mkdir()
    world = Upserting(tmp_path / "system", "text primary key not null")
    with Trial(world) as t:
        first = t.start()
        kept = older.write(t, first, 0)
        put_back = snapshot()
        lost = {epoch: older.write(t, first, epoch) for epoch in (1, 2)}
        put_back()
        begun = first.prepare(t.keys(), epoch=3)
        with pytest.raises(CheckpointConflictError, match="does not know the newest epoch"):
            first.committer.check(begun, first.run(3), 0.0)
        first.close()
        sink = world.sink().name
        epochs = tuple(LostEpoch(epoch, 3, f"of epoch {epoch}") for epoch in (2, 1))
        again = Again(Run(t.job_id, PREFIX, 7, -1), {sink: Lost(epochs)}, lambda: None)
        second = t.start(7)
        second.run = lambda epoch: again.run_of(epoch, 1)
        for epoch, keys in lost.items():
            t.commit(second, second.prepare(keys, epoch=epoch))
        for of in (kept, *lost.values()):
            t.all_visible_once(of, "written again")
        assert second.committer.known([each.handle for each in epochs])


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_death_behind_a_table_whose_history_was_expired(kind, tmp_path):
    """The newest epoch before the undone one is forgotten by the history: what is undone and there says enough."""

    class OnTable(Lives):
        system = lambda: InFolder(WORLDS[kind])  # noqa: E731

    life = OnTable()
    try:
        life.first()
        life.arrive(1, loud=True)
        life.run()
        life.arrive(1, loud=True)
        life.die("record")
        life.tidy()
        life.run()
    finally:
        life.teardown()


class Replayed(Lives):
    """A job that has written an epoch again, and whose checkpoint is a copy of before that; no mark tells."""

    def committers(self):
        """Of each sink, for a short while."""
        identity = read_identity(Store(self.job.folder / "onceflow"))
        connections = [sink.connect() for sink in self.job.sinks]
        self.job.look_at_outputs({sink.name: to for sink, to in zip(self.job.sinks, connections, strict=True)})
        for sink, to in zip(self.job.sinks, connections, strict=True):
            yield sink.name, to.committer(identity.prefix, identity.job_id)

    def lose_a_decided_epoch(self):
        """It is decided, its driver is dead, and what it had prepared is ended."""
        self.first()
        self.arrive(2, loud=True)
        self.job.dies_at("commit")
        self.marks = {name: committer.marks().read() for name, committer in self.committers()}
        shutil.copytree(self.job.folder, self.job.folder.with_name("copy"))
        undone = Journal(Store(self.job.folder / "onceflow" / "journal")).history()[0].decided
        for name, committer in self.committers():
            committer.abort([p for p in undone.effective if p.sink == name])

    def put_the_copy_back(self):
        """Of the checkpoint, and the marks of then."""
        shutil.rmtree(self.job.folder)
        self.job.folder.with_name("copy").rename(self.job.folder)
        for name, committer in self.committers():
            committer.marks().write(self.marks[name])

    def choose(self, epoch, choice):
        """What ``onceflow txn resolve`` does."""
        with contextlib.closing(Operator(Checkpointing(self.job.folder), "onceflow", self.job.sinks)) as looking:
            resolve(looking, epoch, choice, who="a test", why="the message says so")


@pytest.mark.parametrize("kind", WORLDS)
def test_a_replay_of_what_another_start_has_written_stops_for_a_person(kind):
    """Started again it would be refused again, for ever: that is no error that passes."""

    class OnTable(Replayed):
        system = lambda: InFolder(WORLDS[kind])  # noqa: E731

    life = OnTable()
    try:
        life.lose_a_decided_epoch()
        assert life.job.run() is None
        life.put_the_copy_back()
        parts_of(life.job.run(), OutcomeUnknownError, "epoch 1")
        life.choose(1, "write-again")
        for _ in range(2):
            error = parts_of(life.job.run(), CheckpointConflictError, "epoch 1 of start", "older than its sinks")
            assert not error.retriable
        assert life.job.table().total() == 4, "nothing is there twice"
    finally:
        life.teardown()


FIRST, SECOND = range(2)


class Resumed(Lives):
    """A job that was made of a savepoint of another one, whose rows are in the table; it was backed up before them."""

    def begin(self):
        """The older job has written three epochs of two rows; there are backups of behind the first and the second."""
        self.first()
        for _ in (FIRST, SECOND):
            self.back_up()
            self.arrive(2, loud=True)
            assert self.job.run() is None
        path = self._folder / "savepoint"
        writing.create(Place.at(self.job.folder, self.job.retain), path, "shop")
        self.older, place = self.job.folder, Place.at(self._folder / "resumed", self.job.retain)
        restoring.restore(path, reading.verify(path), place)
        self.job.folder = place.checkpoint.folder
        self.parent = read_identity(Store(self.older / "onceflow")).job_id

    def lost(self):
        """What ``onceflow txn write-again`` finds."""
        with contextlib.closing(Operator(Checkpointing(self.job.folder), "onceflow", self.job.sinks)) as looking:
            return lost_rows(looking)


@pytest.fixture(params=WORLDS)
def resumed(request):
    """On each kind of system."""

    class OnTable(Resumed):
        system = lambda: InFolder(WORLDS[request.param])  # noqa: E731

    life = OnTable()
    try:
        life.begin()
        yield life
    finally:
        life.teardown()


@pytest.mark.parametrize("how", ["at its first start", "while its sink is quiet", "before its first rows"])
def test_put_back_to_before_what_a_resumed_job_goes_on_from(resumed, how):
    """Nobody else asks for it: the older job does not run any more, and this one has decided no row for the sink."""
    if how == "while its sink is quiet":
        resumed.arrive(2, loud=False)
        assert resumed.job.run() is None
    resumed.arrive(1, loud=True)
    put_back = functools.cache(functools.partial(resumed._system.put_back, SECOND))
    if how == "before its first rows":
        resumed.job.row = lambda n: put_back() or f"order {n}"
    else:
        put_back()
    words = ("epoch 2 to 2", resumed.parent, "1 epochs with 2 rows", str(resumed.older))
    for _ in range(2):
        error = parts_of(resumed.job.run(), CheckpointConflictError, *words)
        assert not error.retriable
    assert resumed.job.table().total() == 4, "nothing more was written"
    assert resumed.job.run(takeover="claim") is None
    resumed.arrive(1, loud=True)
    assert resumed.job.run() is None, "what the claim has given up is not asked for again"


def test_put_back_to_before_both_jobs_the_older_ones_rows_are_written_again_first(resumed):
    """Else the younger one's would be written again, and the older one's be lost with nobody to ask for them."""
    resumed.arrive(2, loud=True)
    assert resumed.job.run() is None
    resumed._system.put_back(SECOND)
    parts_of(resumed.job.run(), CheckpointConflictError, "epoch 3 to 3 of this job")
    with pytest.raises(CheckpointConflictError, match=f"of job {resumed.parent} any more, from which this one"):
        resumed.lost()


def test_a_resumed_job_asks_for_nothing_that_it_writes_again_itself(resumed):
    """The older job has gone on behind the savepoint, and only that is lost."""
    younger = resumed.job.folder
    resumed.job.folder = resumed.older
    resumed.back_up()
    resumed.arrive(1, loud=True)
    assert resumed.job.run() is None
    resumed._system.put_back(2)
    resumed.job.folder = younger
    assert resumed.job.run() is None
    assert resumed.job.table().total() == 7


def test_a_resumed_job_goes_on_beside_an_older_one_whose_deletion_has_died(resumed):
    """Its sinks may have forgotten it, as if they had been put back, and its checkpoint is there still."""
    ours = Store(resumed.older / "onceflow")
    begin_deleting(ours, read_identity(ours))
    resumed._system.put_back(SECOND)
    resumed.arrive(1, loud=True)
    assert resumed.job.run() is None


def test_a_resumed_job_goes_on_behind_a_history_that_was_expired(resumed):
    """Of a lake table the older job's ledger tells it."""
    resumed.tidy()
    resumed.arrive(1, loud=True)
    assert resumed.job.run() is None


def test_where_a_resumed_job_began_is_said_by_the_savepoints_epoch(resumed):
    """Its first receipt does not say; without it none of its epochs could be written again."""
    place = Place.at(resumed.job.folder, resumed.job.retain)
    body = {"number": 1, "epoch": 3, "sources": [{"start": None, "end": '{"orders":{"0":8}}'}]}
    assert json.loads(_begun(place, body)["sources"][0]["start"]) == {"orders": {"0": 6}}
    assert _begun(place, {**body, "number": 2})["sources"] == body["sources"]
    (resumed.job.folder / "offsets" / "2").unlink()
    assert _begun(place, body) == body


def test_a_second_loss_of_what_a_resumed_job_goes_on_from(resumed):
    """A claim has given up what it found of the older job, and no more than that."""
    resumed._system.put_back(SECOND)
    assert resumed.job.run(takeover="claim") is None
    resumed._system.put_back(FIRST)
    parts_of(resumed.job.run(), CheckpointConflictError, "epoch 1 to 1", resumed.parent, "1 epochs with 2 rows")
    assert resumed.job.run(takeover="claim") is None
    assert resumed.job.run() is None


def test_put_back_to_before_what_a_resumed_job_goes_on_from_though_that_was_left_since(resumed):
    """Another job has the older one's checkpoint now (``--as-new``): what it had left says what the savepoint's had."""
    younger, resumed.job.folder = resumed.job.folder, resumed.older
    resumed.arrive(1, loud=False)
    assert resumed.job.run(takeover="as-new") is None
    resumed.job.folder = younger
    assert resumed.job.run() is None
    resumed._system.put_back(SECOND)
    resumed.arrive(1, loud=True)
    parts_of(resumed.job.run(), CheckpointConflictError, "epoch 2 to 2", resumed.parent, "1 epochs with 2 rows")
    assert resumed.job.run(takeover="claim") is None
    assert resumed.job.run() is None
    resumed._system.put_back(FIRST)
    assert isinstance(resumed.job.run(), CheckpointConflictError), "a second loss"


def test_a_resumed_job_asks_for_nothing_of_one_that_was_left_that_it_writes_again_itself(resumed):
    """The older job has gone on behind the savepoint before it was left, and only that is lost."""
    younger, resumed.job.folder = resumed.job.folder, resumed.older
    resumed.back_up()
    resumed.arrive(1, loud=True)
    assert resumed.job.run() is None
    resumed.arrive(1, loud=False)
    assert resumed.job.run(takeover="as-new") is None
    resumed._system.put_back(2)
    resumed.job.folder = younger
    assert resumed.job.run() is None


@pytest.fixture(params=WORLDS)
def life(request):
    """A job that has written two rows, on each kind of system."""

    class OnTable(Lives):
        system = lambda: InFolder(WORLDS[request.param])  # noqa: E731

    made = OnTable()
    try:
        made.first()
        yield made
    finally:
        made.teardown()


@pytest.mark.parametrize("quiet", [0, 5])
def test_put_back_while_its_sink_was_renamed(life, quiet):
    """By its default name a sink is its table's: what another name had committed is asked of the same system.

    Also where the journal has purged what was committed: a start says which system each sink was of.
    """
    life.back_up()
    life.arrive(2, loud=True)
    assert life.job.run() is None
    for _ in range(quiet):
        life.arrive(1, loud=False)
        assert life.job.run() is None
    name = life.job._table.name
    life._system.put_back(0)
    life.job._table.name = "renamed"
    life.arrive(1, loud=True)
    parts_of(life.job.run(), CheckpointConflictError, f"sink {name}", "epoch 1 to 1", "1 epochs with 2 rows")
    assert life.job.run(takeover="claim") is None
    life.tidy()
    assert life.job.run() is None


@pytest.mark.parametrize("loud", [False, True])
def test_put_back_to_before_its_sink_was_renamed_though_the_journal_has_purged_that(life, loud):
    """The newest of the older name stays known with its system, also behind the new name's rows."""
    life.back_up()
    life.arrive(2, loud=True)
    assert life.job.run() is None
    name, life.job._table.name = life.job._table.name, "renamed"
    for _ in range(6):
        life.arrive(1, loud=loud)
        assert life.job.run() is None
    life._system.put_back(0)
    life.arrive(1, loud=True)
    parts_of(life.job.run(), CheckpointConflictError, f"sink {name} ", "epoch 1 to 1", "1 epochs with 2 rows")
    with contextlib.closing(Operator(Checkpointing(life.job.folder), "onceflow", life.job.sinks)) as looking:
        assert set(lost_rows(looking)) == ({name, "renamed"} if loud else {name})
    assert life.job.run(takeover="claim") is None
    assert life.job.run() is None


def test_a_sink_that_was_renamed_goes_on(life):
    """Also where a lake table's history was expired: the older name's ledger has its newest."""
    life.tidy()
    life.job._table.name = "renamed"
    assert life.job.run() is None
    life.arrive(1, loud=True)
    assert life.job.run() is None
    assert life.job.table().total() == 3


def test_a_job_is_not_left_while_its_system_has_lost_its_rows(life):
    """Of a new job nobody would ask for them."""
    life.back_up()
    life.arrive(2, loud=True)
    assert life.job.run() is None
    life._system.put_back(0)
    life.arrive(1, loud=True)
    error = life.job.run(takeover="as-new")
    parts_of(error, CheckpointConflictError, "is to leave", "epoch 1 to 1", "1 epochs with 2 rows")
    parts_of(life.job.run(), CheckpointConflictError, "of this job any more", "epoch 1 to 1", "1 epochs with 2 rows")
    assert life.job.run(takeover="claim") is None
    assert life.job.run(takeover="as-new") is None
    assert life.job.table().total() == 3


def test_put_back_to_before_what_the_job_before_a_resumed_one_has_left(life):
    """The resumed job asks the older one's checkpoint for that, too."""
    life.back_up()
    life.arrive(2, loud=True)
    assert life.job.run() is None
    life.arrive(1, loud=False)
    assert life.job.run(takeover="as-new") is None
    path, place = life._folder / "savepoint", Place.at(life._folder / "resumed", life.job.retain)
    writing.create(Place.at(life.job.folder, life.job.retain), path, "shop")
    restoring.restore(path, reading.verify(path), place)
    life.job.folder = place.checkpoint.folder
    life.arrive(1, loud=False)
    assert life.job.run() is None
    life._system.put_back(0)
    life.arrive(1, loud=True)
    error = parts_of(life.job.run(), CheckpointConflictError, "epoch 1 to 1", "2 rows that it had committed")
    assert "write-again" not in (error.action or ""), "by which checkpoint?"
    assert life.job.run(takeover="claim") is None
    assert life.job.run() is None
    assert life.job.table().total() == 3


@pytest.mark.parametrize("how", ["at the next start", "while its sink is quiet", "behind rows of the new job"])
def test_put_back_to_before_what_a_job_has_left(life, how):
    """The new job's first start has what its sinks knew of the older one."""
    life.back_up()
    life.arrive(2, loud=True)
    assert life.job.run() is None
    life.tidy()
    life.arrive(1, loud=False)
    assert life.job.run(takeover="as-new") is None
    for _ in range(6 if how == "while its sink is quiet" else 0):
        life.arrive(1, loud=False)
        assert life.job.run() is None
    new = how == "behind rows of the new job"
    if new:
        life.arrive(1, loud=True)
        assert life.job.run() is None
    assert life.job.run() is None
    life._system.put_back(0)
    life.arrive(1, loud=True)
    error = parts_of(
        life.job.run(), CheckpointConflictError, *(("to 3 of this job",) if new else ("epoch 1 to 1", "2 rows"))
    )
    assert new or "write-again" not in (error.action or ""), "by which checkpoint?"
    looking = Operator(Checkpointing(life.job.folder), "onceflow", life.job.sinks)
    with contextlib.closing(looking), pytest.raises(CheckpointConflictError, match="at least 1 epochs with 2 rows"):
        lost_rows(looking)
    assert life.job.run(takeover="claim") is None
    assert life.job.run() is None
    life.arrive(1, loud=True)
    assert life.job.run() is None
    assert life.job.table().total() == 4


@pytest.mark.parametrize("how", ["at the next start", "while its sink is quiet", "again at a claim"])
def test_a_second_loss_behind_a_claim_that_gave_up_the_newest(life, how):
    """The claim says what the system still knows; else nothing would be asked of it until it has new rows."""
    life._system.back_up(0)
    for backup in (1, 2):
        life.arrive(2, loud=True)
        assert life.job.run() is None
        life._system.back_up(backup)
    life.arrive(2, loud=True)
    assert life.job.run() is None
    life._system.put_back(2)
    parts_of(life.job.run(), CheckpointConflictError, "epoch 3 to 3", "1 epochs with 2 rows")
    assert life.job.run(takeover="claim") is None
    for _ in range(6 if how == "while its sink is quiet" else 0):
        life.arrive(1, loud=False)
        assert life.job.run() is None
    life._system.put_back(1)
    parts_of(life.job.run(), CheckpointConflictError, "epoch 2 to 2", "1 epochs with 2 rows")
    if how == "again at a claim":
        assert life.job.run(takeover="claim") is None
        life._system.put_back(0)
        parts_of(life.job.run(), CheckpointConflictError, "epoch 1 to 1", "1 epochs with 2 rows")
        assert life.job.run(takeover="claim") is None
        life.arrive(1, loud=True)
        assert life.job.run() is None
        assert life.job.table().total() == 3


def test_a_second_loss_of_what_a_job_has_left(life):
    """A claim has given up its newest; what it had before that is asked for behind it."""
    for _ in range(2):
        life.back_up()
        life.arrive(2, loud=True)
        assert life.job.run() is None
    life.arrive(1, loud=False)
    assert life.job.run(takeover="as-new") is None
    life._system.put_back(1)
    parts_of(life.job.run(), CheckpointConflictError, "epoch 2 to 2", "1 epochs with 2 rows")
    assert life.job.run(takeover="claim") is None
    assert life.job.run() is None
    life._system.put_back(0)
    life.arrive(1, loud=True)
    parts_of(life.job.run(), CheckpointConflictError, "epoch 1 to 1", "1 epochs with 2 rows")
    assert life.job.run(takeover="claim") is None
    assert life.job.run() is None
    assert life.job.table().total() == 3


@pytest.mark.parametrize("when", ["with the job", "later"])
def test_put_back_to_before_what_a_job_has_left_whose_sink_was_renamed(life, when):
    """What the older name had is asked of its system."""
    life.back_up()
    life.arrive(2, loud=True)
    assert life.job.run() is None
    name = life.job._table.name
    if when == "with the job":
        life.job.name_table("renamed")
    life.arrive(1, loud=False)
    assert life.job.run(takeover="as-new") is None
    life.job.name_table("renamed")
    life.tidy()
    assert life.job.run() is None
    life._system.put_back(0)
    life.arrive(1, loud=True)
    parts_of(life.job.run(), CheckpointConflictError, f"sink {name} ", "epoch 1 to 1", "1 epochs with 2 rows")
    assert life.job.run(takeover="claim") is None
    assert life.job.run() is None


@pytest.mark.parametrize("lost", ["before", "later"])
def test_a_job_that_is_left_is_asked_for_though_the_start_that_leaves_it_came_no_further(life, lost, monkeypatch):
    """It has named the new job, and then its system did not answer; the next start goes on without ``--as-new``."""
    life.back_up()
    life.arrive(2, loud=True)
    assert life.job.run() is None
    with monkeypatch.context() as broken:
        broken.setattr(taking_over, "leave", _silent)
        assert isinstance(life.job.run(takeover="as-new"), DatabaseUnavailableError)
    if lost == "later":
        life.arrive(1, loud=False)
        assert life.job.run() is None
    life._system.put_back(0)
    life.arrive(1, loud=True)
    for _ in range(2):
        error = parts_of(life.job.run(), CheckpointConflictError, "epoch 1 to 1", "1 epochs with 2 rows")
        assert "write-again" not in (error.action or ""), "by which job?"
    assert life.job.run(takeover="claim") is None
    assert life.job.run() is None
    assert life.job.table().total() == 3


def _silent(*_, **__):
    raise DatabaseUnavailableError("it did not answer", harmless="always", cause="it is away", action="wait")


def _exchange_names(life):
    ledger, table = life.job.sink, life.job._table
    ledger.name, table.name = table.name, ledger.name


def test_sinks_that_have_exchanged_their_names_are_refused(life):
    """Each would be asked for what the other one has committed, and ``write-again`` would write that into it, too."""
    life.arrive(2, loud=True)
    assert life.job.run() is None
    _exchange_names(life)
    life.arrive(1, loud=True)
    error = parts_of(life.job.run(), CheckpointConflictError, "writes to another system than before", "up to epoch 1")
    assert "write-again" not in (error.action or "")
    looking = Operator(Checkpointing(life.job.folder), "onceflow", life.job.sinks)
    with contextlib.closing(looking), pytest.raises(CheckpointConflictError, match="to another system than before"):
        lost_rows(looking)
    assert life.job.run(takeover="claim") is None
    life.arrive(1, loud=True)
    for _ in range(2):
        assert life.job.run() is None
    assert life.job.table().total() == 6


@pytest.mark.parametrize("undone", [False, True])
def test_sinks_that_have_their_names_back_go_on(life, undone):
    """Also where the claim, by which they were to be exchanged, met an epoch that nobody could finish so."""
    life.arrive(2, loud=True)
    if undone:
        life.job.dies_at("commit")
    assert undone or life.job.run() is None
    _exchange_names(life)
    assert isinstance(life.job.run(), CheckpointConflictError)
    if undone:
        assert isinstance(life.job.run(takeover="claim"), OutcomeUnknownError)
    _exchange_names(life)
    life.arrive(1, loud=True)
    for _ in range(2):
        assert life.job.run() is None
    assert life.job.table().total() == 5


def test_put_back_while_another_sink_has_got_its_name(life):
    """The other one's system keeps no commits: nobody would be asked."""
    life.back_up()
    life.arrive(2, loud=True)
    assert life.job.run() is None
    _exchange_names(life)
    life.job.name_table("another")
    life._system.put_back(0)
    life.arrive(1, loud=True)
    parts_of(life.job.run(), CheckpointConflictError, "writes to another system than before, and sink another to")
    assert life.job.run(takeover="claim") is None
    assert life.job.run() is None


def test_a_resumed_job_whose_sinks_have_exchanged_their_names_goes_on(resumed):
    """What the older job has committed is asked of the systems that it wrote to."""
    _exchange_names(resumed)
    assert resumed.job.run() is None
    resumed._system.put_back(SECOND)
    resumed.arrive(1, loud=True)
    parts_of(resumed.job.run(), CheckpointConflictError, "epoch 2 to 2", "1 epochs with 2 rows", resumed.parent)


def test_who_finishes_what_is_decided_where_another_sink_has_got_its_name():
    """One of its system; its own name only where nobody says so."""
    decided = Participant("a", "handle", (), {"of": "b"})
    committers = {n: SimpleNamespace(can_finish=lambda p, n=n: p.transaction["of"] == n) for n in ("a", "b")}
    assert Finishers(committers, lambda: 0).of(decided) == "b"
    assert Finishers({"a": committers["a"]}, lambda: 0).of(decided) == "a"
