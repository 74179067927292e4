"""Lake sinks keep the contract; and what others do to a table between prepare and commit loses and doubles nothing."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from pyarrow import fs

from onceflow.connectors.lake.delta_files import DeltaForm, _Store
from onceflow.connectors.lake.sinks import DeltaSink, IcebergSink
from onceflow.connectors.lake.staging import OWN, Staging, SyncedFiles
from onceflow.connectors.lake.table import BeatenError, LedgerEntry
from onceflow.connectors.lake.writer import LakeWriterFactory
from onceflow.errors import (
    CheckpointConflictError,
    ConfigurationError,
    LakeRightsError,
    LakeUnavailableError,
    RefusedSettingError,
)
from onceflow.testing import conformance
from onceflow.testing.trial import Trial
from onceflow.twophase.messages import Outcome, Reply
from tests.support.advice import parts_of
from tests.support.lakes import DeltaWorld, IcebergWorld

AWAY = {
    "AWS_ACCESS_KEY_ID": "geheim",
    "AWS_SECRET_ACCESS_KEY": "geheim",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "AWS_REGION": "here",
    "AWS_ALLOW_HTTP": "true",
    "max_retries": "0",
}
WORLDS = {"iceberg": IcebergWorld, "delta": DeltaWorld}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """One table of each kind, for all checks of the suite."""
    return {name: kind(tmp_path_factory.mktemp(name)) for name, kind in WORLDS.items()}


@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.parametrize("check", conformance.CHECKS, ids=str)
def test_the_contract(check, kind, worlds):
    """Each fact of the contract holds for a table of Iceberg and of Delta."""
    check(worlds[kind])


@pytest.fixture(params=WORLDS)
def world(request, tmp_path):
    """A new table of each kind."""
    return WORLDS[request.param](tmp_path)


@pytest.fixture
def trial(world):
    """A job on it."""
    with Trial(world) as trial:
        yield trial


def outcome(start, participants):
    (evidence,) = start.committer.outcomes(participants).values()
    return evidence


def reply(start, participants):
    (answer,) = start.committer.commit(participants).values()
    return answer


class Interfering:
    """A table that does what it is told, and lets something happen around a change of it."""

    def __init__(self, table, before=lambda: None, after=lambda: None):
        self._of, self.before, self.after = table, before, after

    def __getattr__(self, name):
        return getattr(self._of, name)

    def look(self):
        return InterferingView(self._of.look(), self)


class InterferingView:
    def __init__(self, view, table):
        self._of, self._table = view, table

    def __getattr__(self, name):
        return getattr(self._of, name)

    def change(self, entry, files):
        self._table.before()
        self._of.change(entry, files)
        self._table.after()


def interfere(start, **what):
    """From here on, this happens around each change of the start's."""
    start.committer._table = made = Interfering(start.committer._table, **what)
    return made


def lose_the_answer():
    raise ConnectionError("the answer was lost")


# -- commits ----------------------------------------------------------------------------------------------------------


def test_a_lost_answer(trial, world):
    """The commit took effect and nobody heard of it: it is tried again, found, and not made twice."""
    start, keys = trial.start(), trial.keys()
    prepared = start.prepare(keys)
    table = interfere(start, after=lose_the_answer)
    assert reply(start, prepared) is Reply.RETRY
    assert sorted(world.visible()) == sorted(keys)
    table.after = lambda: None
    versions = len(world.versions())
    assert reply(start, prepared) is Reply.COMMITTED
    assert sorted(world.visible()) == sorted(keys)
    assert len(world.versions()) == versions
    assert world.lists() == []


def test_another_writer_is_faster(trial, world):
    """Somebody else's commit comes between the look and ours, up to three times: ours comes on top of them, once."""
    start, keys = trial.start(), trial.keys()
    prepared = start.prepare(keys)
    others = []

    def other_commit():
        if len(others) < 3:
            others.append(f"other {len(others)}")
            world.append(pa.table({"key": others[-1:], "amount": [1]}))

    interfere(start, before=other_commit)
    assert reply(start, prepared) is Reply.COMMITTED
    assert others
    assert sorted(world.visible()) == sorted([*keys, *others])


def test_a_table_that_others_write_without_end(tmp_path):
    """A commit that never comes first gives up for the moment, with nothing done: the driver asks again."""
    world = IcebergWorld(tmp_path)  # Delta's appends come on top of each other
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        prepared = start.prepare(keys)
        table = interfere(start, before=lambda: world.append(pa.table({"key": ["other"], "amount": [1]})))
        assert reply(start, prepared) is Reply.RETRY
        assert set(world.visible()) == {"other"}
        table.before = lambda: None
        assert reply(start, prepared) is Reply.COMMITTED


def test_another_driver_commits_the_same_epoch(trial, world):
    """A new start finishes what an old one is just committing: between its look and its change. It is there once."""
    old, new, keys = trial.start(1), trial.start(2, attach=True), trial.keys()
    prepared = old.prepare(keys)
    interfere(old, before=lambda: trial.commit(new, prepared))
    assert reply(old, prepared) is Reply.COMMITTED
    assert sorted(world.visible()) == sorted(keys)


def test_two_drivers_at_once(trial, world):
    """Five epochs, each committed by two drivers in two threads at once, beside a writer of rows of its own."""
    old, new = trial.start(1), trial.start(2, attach=True)
    wanted, done = [], threading.Event()

    def write():
        count = 0
        while not done.is_set():
            world.append(pa.table({"key": ["other"], "amount": [1]}))
            count += 1
        return count

    with ThreadPoolExecutor(3) as threads:
        writing = None
        for epoch in range(5):
            keys = trial.keys()
            prepared = old.prepare(keys, epoch=epoch)
            writing = writing or threads.submit(write)
            both = [threads.submit(trial.commit, start, prepared) for start in (old, new)]
            try:
                for each in both:
                    each.result()
            except BaseException:
                done.set()
                raise
            wanted += keys
        done.set()
        others = writing.result()
    assert sorted(world.visible()) == sorted([*wanted, *["other"] * others])


def test_what_is_committed_is_told_in_the_tables_history(trial, world):
    """Job, sink, epoch, rows and digest stand there for people."""
    start = trial.start()
    (prepared,) = start.prepare(trial.keys(3), trial.keys(2), epoch=7)
    trial.commit(start, [prepared])
    (told,) = [v for v in world.versions() if v.get("onceflow.epoch") == "7"]
    assert told["onceflow.job"] == trial.job_id
    assert told["onceflow.sink"] == world.sink().name
    assert told["onceflow.rows"] == "5"
    assert told["onceflow.digest"] == f"{prepared.digest:016x}"


def test_commits_that_come_too_often_are_told_once(trial, caplog):
    """More than one version in half a minute, time after time: a warning says what to do."""
    start = trial.start()
    with caplog.at_level(logging.WARNING, "onceflow"):
        for epoch in range(14):
            trial.commit(start, start.prepare(trial.keys(1), epoch=epoch))
    (told,) = [r.getMessage() for r in caplog.records if "more often than every 30 s" in r.getMessage()]
    assert "interval=" in told


# -- what others remove -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["data", "lists"])
def test_a_file_that_somebody_removed(trial, world, what):
    """Before the decision check says so; after it it is a proven loss, which a replay may write again, once."""
    start, keys = trial.start(), trial.keys()
    prepared = start.prepare(keys, trial.keys())
    getattr(world, what)()[0].unlink()
    assert "gone" in start.committer.check(prepared, start.run(), 0.0)
    newer = trial.start(2)
    evidence = outcome(newer, prepared)
    assert evidence.outcome is Outcome.ABORTED
    assert "gone" in evidence.why
    assert reply(newer, prepared) is Reply.SUSPECT
    again = newer.prepare(keys)
    trial.commit(newer, again)
    assert sorted(world.visible()) == sorted(keys)


def test_a_replay_while_the_first_commit_was_still_on_its_way(trial, world):
    """A driver that slept in its commit comes before the replay of its epoch: the replay is not committed beside it."""
    old, new = trial.start(1), trial.start(2)
    first, second = old.prepare(trial.keys()), new.prepare(trial.keys())
    trial.commit(old, first)
    assert reply(new, second) is Reply.SUSPECT
    assert outcome(new, second).outcome is Outcome.UNKNOWN
    with pytest.raises(CheckpointConflictError, match="holds epoch 0 of start 1"):
        new.committer.check(second, new.run(), 0.0)
    assert len(world.visible()) == 4


def test_what_was_decided_is_ended_by_a_version_of_the_table(trial, world):
    """A driver that slept between its look and its commit cannot show what was ended meanwhile."""
    old, new, keys = trial.start(1), trial.start(2, attach=True), trial.keys()
    prepared = old.prepare(keys)
    interfere(old, before=lambda: new.committer.abort(prepared))
    assert reply(old, prepared) is Reply.SUSPECT
    assert world.visible() == []
    assert "ended" in outcome(new, prepared).why


def test_compaction_and_expiry(trial, world):
    """Others put the rows into other files and remove older versions: what is committed stays known, and goes on."""
    start, keys = trial.start(), trial.keys()
    prepared = start.prepare(keys)
    trial.commit(start, prepared)
    world.append(pa.table({"key": ["other"], "amount": [1]}))
    world.tidy_up()
    for asking in (start, trial.start(2)):
        assert outcome(asking, prepared).outcome is Outcome.COMMITTED
        assert reply(asking, prepared) is Reply.COMMITTED
    more = trial.keys()
    later = start.prepare(more, epoch=1)
    assert start.committer.check(later, start.run(1), 0.0) is None
    trial.commit(start, later)
    world.tidy_up()
    assert outcome(start, later).outcome is Outcome.COMMITTED
    assert sorted(world.visible()) == sorted([*keys, *more, "other"])


def test_an_older_epoch_whose_version_is_gone_is_not_guessed(trial, world):
    """The ledger has the newest epoch; of one before it the history tells, for as long as others leave it."""
    start = trial.start()
    first, second = start.prepare(trial.keys()), start.prepare(trial.keys(), epoch=1)
    trial.commit(start, first)
    trial.commit(start, second)
    assert outcome(start, first).outcome is Outcome.COMMITTED
    if isinstance(world, IcebergWorld):
        world.tidy_up()
        assert outcome(start, first).outcome is Outcome.UNKNOWN
        assert reply(start, first) is Reply.SUSPECT


def test_vacuum_takes_what_is_not_decided_and_leaves_the_lists(tmp_path):
    """Delta's VACUUM removes files that no version names: a proven loss, which the lists beside it survive."""
    world = DeltaWorld(tmp_path)
    with Trial(world) as t:
        start = t.start()
        prepared = start.prepare(t.keys())
        world.tidy_up()
        assert world.data() == []
        assert len(world.lists()) == 1
        assert outcome(start, prepared).outcome is Outcome.ABORTED


def test_a_log_of_delta_that_was_cleaned_up(tmp_path):
    """Older entries of the log are gone, and the newest epoch is known; one before it is not guessed."""
    world = DeltaWorld(tmp_path)
    kept = {"delta.logRetentionDuration": "interval 0 days"}
    DeltaTable.create(world.path, Schema.from_json(world.fields.json()), configuration=kept)
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        first = start.prepare(keys)
        t.commit(start, first)
        newest = start.prepare(t.keys(), epoch=1)
        t.commit(start, newest)
        for path in (world.path / "_delta_log").glob("*.json"):
            os.utime(path, (0, 0))
        world.tidy_up()
        world.table().cleanup_metadata()
        assert not any("onceflow.handle" in version for version in world.versions())
        newer = t.start(2)
        assert outcome(newer, newest).outcome is Outcome.COMMITTED
        assert reply(newer, newest) is Reply.COMMITTED
        assert outcome(newer, first).outcome is Outcome.UNKNOWN
        assert reply(newer, first) is Reply.SUSPECT
        t.commit(newer, newer.prepare(t.keys(), epoch=2))
        assert len(world.visible()) == 12


def test_a_ledger_that_was_removed_proves_nothing(tmp_path):
    """Neither the property nor the version is there: unknown, also when a new start has begun another ledger."""
    world = IcebergWorld(tmp_path)
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        prepared = start.prepare(keys)
        t.commit(start, prepared)
        undecided = start.prepare(t.keys(), epoch=1)
        for name in [n for n in world.table().properties if n.startswith("onceflow.")]:
            with world.table().transaction() as change:
                change.remove_properties(name)
        assert outcome(start, prepared).outcome is Outcome.COMMITTED  # its version says so
        world.tidy_up()
        newer = t.start(2)
        for _ in range(2):
            assert outcome(newer, prepared).outcome is Outcome.UNKNOWN
            assert outcome(newer, undecided).outcome is Outcome.UNKNOWN
            assert reply(newer, undecided) is Reply.SUSPECT
            newer.committer.preflight()
        with pytest.raises(CheckpointConflictError, match="does not know the newest epoch any more"):
            start.committer.check(undecided, start.run(1), 0.0)
        assert sorted(world.visible()) == sorted(keys)


def test_a_table_that_was_made_again(trial, world):
    """Its rows are another's: nothing of before is committed to it, and its id says that it is another one."""
    start = trial.start()
    prepared = start.prepare(trial.keys())
    before = start.connection.system_id
    world.drop()
    newer = trial.start(2)
    assert newer.connection.system_id != before
    assert outcome(newer, prepared).outcome is Outcome.UNKNOWN
    assert reply(newer, prepared) is Reply.SUSPECT
    assert world.visible() == []


def test_a_table_that_is_gone(trial, world):
    """A commit to it is refused and the decision stands; a start that only finishes is told by name."""
    start = trial.start()
    prepared = start.prepare(trial.keys())
    world.drop()
    start.committer._table._sink.create_table = False
    assert reply(start, prepared) is Reply.REFUSED
    assert "payments" in str(start.committer.refusal(prepared))
    with pytest.raises(LakeRightsError, match="payments"):
        world.sink().attach()


def test_a_table_that_was_taken_away_for_a_while(tmp_path):
    """Without Delta's log nobody knows what is committed: nothing is removed meanwhile."""
    world = DeltaWorld(tmp_path)
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        prepared = start.prepare(keys)
        newer = t.start(2)
        (world.path / "_delta_log").rename(tmp_path / "away")
        assert newer.committer.lingering(2, ()) == []
        start.committer.abort(prepared)
        start.committer.abort_run(start.run())
        with pytest.raises(LakeRightsError):
            newer.committer.outcomes(prepared)
        assert len(world.data()) == 1
        (tmp_path / "away").rename(world.path / "_delta_log")
        t.commit(newer, prepared)
        assert sorted(world.visible()) == sorted(keys)


def test_a_table_that_was_put_back(trial, world):
    """It has lost its newest epoch: the running job decides nothing more, and a start asks for it and is told."""
    start = trial.start()
    trial.commit(start, start.prepare(trial.keys()))
    lost = start.prepare(trial.keys(), epoch=1)
    trial.commit(start, lost)
    world.put_back()
    assert len(world.visible()) == 4
    with pytest.raises(CheckpointConflictError, match=r"does not know the newest epoch any more .* epochs up to 0"):
        start.committer.check(start.prepare(trial.keys(), epoch=2), start.run(2), 0.0)
    newer = trial.start(2)
    assert not newer.committer.known([lost[0].handle])
    assert outcome(newer, lost).outcome is not Outcome.COMMITTED


def test_a_checkpoint_that_is_older_than_its_table(trial, world):
    """An epoch that the table has of a newer start is refused before it is decided."""
    newer = trial.start(3)
    trial.commit(newer, newer.prepare(trial.keys(), epoch=9))
    older = trial.start(2)
    with pytest.raises(CheckpointConflictError, match=r"holds epoch 9 of start 3 .* older than its sinks"):
        older.committer.check(older.prepare(trial.keys(), epoch=8), older.run(8), 0.0)


# -- what the dead left -----------------------------------------------------------------------------------------------


def test_a_death_between_commit_and_tidying_up(trial, world):
    """What lists name is in the table, and in older versions of it: no sweep removes it."""
    start, keys = trial.start(), trial.keys()
    prepared = start.prepare(keys, trial.keys())
    kept = {path: path.read_bytes() for path in world.lists()}
    trial.commit(start, prepared)
    data = world.data()
    newer = trial.start(2)
    for then in (lambda: None, lambda: trial.commit(newer, newer.prepare(trial.keys(), epoch=1))):
        for path, text in kept.items():
            path.write_bytes(text)
        then()
        assert newer.committer.lingering(2, ()) == []
        again = trial.start(3)
        again.committer.abort(again.committer.lingering(3, ()))
        assert set(data) <= set(world.data())
        assert set(keys) <= set(world.visible())


def test_a_driver_that_does_not_know_of_its_own_commit(trial, world):
    """Its decision was taken over and committed by another start: whatever it ends then, the files stay."""
    old, new, keys = trial.start(1), trial.start(2, attach=True), trial.keys()
    prepared = old.prepare(keys)
    lists = {path: path.read_bytes() for path in world.lists()}
    trial.commit(new, prepared)
    for path, text in lists.items():
        path.write_bytes(text)  # nor had the other one tidied up
    old.committer.abort(prepared)
    old.committer.abort_run(old.run())
    assert sorted(world.visible()) == sorted(keys)


@pytest.mark.parametrize("looks", range(1, 9))
def test_lists_that_vanish_at_any_look(trial, world, looks):
    """Somebody removes a list between two looks at it: the epoch is committed whole, or not at all."""
    start, keys = trial.start(), trial.keys()
    prepared = start.prepare(keys, trial.keys())
    staging, count = start.committer._table.staging, [0]
    read = staging.files.read

    def reading(path):
        count[0] += 1
        if count[0] == looks:
            world.lists()[-1].unlink()
        return read(path)

    staging.files.read = reading
    answer = reply(start, prepared)
    assert len(world.visible()) == (8 if answer is Reply.COMMITTED else 0)


def test_what_a_zombie_wrote_behind_a_later_epoch_is_swept(trial, world):
    """A task of a dead driver goes on when the next start has long committed other epochs."""
    old, new, keys = trial.start(1), trial.start(2), trial.keys()
    zombie = old.open(epoch=1)
    zombie.write(world.rows(trial.keys()))
    trial.commit(new, new.prepare(keys, epoch=1))
    zombie.prepare()
    found = new.committer.lingering(2, ())
    assert len(found) == 1
    new.committer.abort(found)
    assert world.lists() == []
    assert sorted(world.visible()) == sorted(keys)
    assert len(world.data()) == 1


def test_an_operators_abort_never_removes_what_is_committed(trial, world):
    """What was seen as a task's attempt was sealed and committed since: its files stay."""
    start, keys = trial.start(), trial.keys()
    prepared = start.prepare(keys)
    look = start.committer.inspection()
    seen = look.transactions([]).found
    trial.commit(start, prepared)
    look.abort(seen)
    assert sorted(world.visible()) == sorted(keys)
    lost = start.prepare(trial.keys(), epoch=1)
    look.abort(look.transactions([]).found)
    assert outcome(start, lost).outcome is Outcome.ABORTED
    assert reply(start, lost) is Reply.SUSPECT


# -- reports, errors, secrets -----------------------------------------------------------------------------------------


def test_a_participant_does_not_grow_with_files(trial):
    """What is listed beside the table is not in the journal: only its digest is."""
    start = trial.start()
    (small,) = start.prepare(trial.keys(2), epoch=0)
    (large,) = start.prepare(trial.keys(5_000), epoch=1)
    assert len(json.dumps(large.to_json())) < len(json.dumps(small.to_json())) + 40


def test_a_list_that_was_changed_is_not_committed(trial, world):
    """Files are committed as their tasks told of them, or not at all."""
    start = trial.start()
    prepared = start.prepare(trial.keys())
    (path,) = world.lists()
    path.write_text(path.read_text().replace('"rows":4', '"rows":5'))
    assert reply(start, prepared) is Reply.SUSPECT
    assert world.visible() == []


@pytest.mark.parametrize(
    "sink",
    [
        lambda folder: IcebergSink(
            "lake",
            "a.b",
            properties={"type": "sql", "uri": f"sqlite:///{folder}/no/c.db", "s3.session-token": "geheim"},
        ),
        lambda _: IcebergSink(
            "lake", "a.b", properties={"type": "rest", "uri": "http://user:geheim@127.0.0.1:9/", "token": "geheim"}
        ),
        lambda _: DeltaSink("s3://lake/a", storage_options=AWAY),
    ],
    ids=["sql", "rest", "delta"],
)
def test_a_catalog_that_does_not_answer(sink, tmp_path):
    """It is told in four parts, without a secret, and starting again is right."""
    with pytest.raises(LakeUnavailableError) as told:
        sink(tmp_path).connect()
    assert told.value.retriable
    assert "geheim" not in str(told.value)
    assert all((told.value.harmless, told.value.cause, told.value.action))


def test_what_a_catalog_that_is_away_advises_works(tmp_path):
    """Its folder is not mounted: nothing is made in its place; with the folder the same start works."""
    world = IcebergWorld(tmp_path / "lake")
    with pytest.raises(LakeUnavailableError) as told:
        world.sink().connect()
    parts_of(told.value, LakeUnavailableError, "bank.payments", "unable to open database file")
    assert list(tmp_path.iterdir()) == []
    world.folder.mkdir()
    world.sink().connect().close()


@pytest.mark.parametrize("kind", WORLDS)
def test_what_a_table_that_is_not_there_advises_works(kind, tmp_path):
    """It says how it was asked for; with create_table=True, or once somebody has made it, the same start works."""
    world = WORLDS[kind](tmp_path)
    sink = world.sink()
    sink.create_table = False
    with pytest.raises(LakeRightsError) as told:
        sink.connect()
    parts_of(told.value, LakeRightsError, "payments", "create_table=False")
    assert not told.value.retriable
    with Trial(world) as t:
        t.start()
    sink.connect().close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("kind", WORLDS)
def test_a_folder_that_may_not_be_written(kind, tmp_path):
    """It is told before an epoch begins, and starting again does not help."""
    world = WORLDS[kind](tmp_path)
    with Trial(world) as t:
        t.start()
        beside = next(tmp_path.glob("**/_onceflow"))
        beside.chmod(0o500)
        try:
            with pytest.raises(LakeRightsError):
                t.start(2).committer.preflight()
        finally:
            beside.chmod(0o700)


def test_a_catalog_of_no_type(tmp_path):
    """What to write stands in the message."""
    sink = IcebergSink("lake", "a.b", properties={"type": "nothing", "s3.session-token": "geheim"})
    with pytest.raises(ConfigurationError, match='"type": "sql"') as told:
        sink.connect()
    assert "geheim" not in str(told.value)


def test_a_login_in_an_address():
    """It would stand in messages and in the checkpoint: it is refused where it is given."""
    with pytest.raises(ConfigurationError, match="storage_options="):
        DeltaSink("s3://geheim:geheim@lake/a")


class InAStore(DeltaForm):
    """Files by way of deltalake's store, as in an object store."""

    def staging(self):
        return Staging(SyncedFiles(fs.PyFileSystem(_Store(self.path, {}))), OWN, "")


def test_what_is_beside_a_table_in_an_object_store(tmp_path):
    """Files, lists and marks go by way of deltalake's store: written, listed, found missing, removed."""
    world = DeltaWorld(tmp_path)
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        form = start.connection.writer_factory().form
        form = InAStore(**{each.name: getattr(form, each.name) for each in dataclasses.fields(form)})
        staging = form.staging()
        start.committer._table.staging = staging
        writer = start.open(factory=LakeWriterFactory(form, "payments"))
        writer.write(world.rows(keys))
        prepared = start.seal([start.report(writer.prepare(), keys)])
        assert start.committer.check(prepared, start.run(), 0.0) is None
        t.commit(start, prepared)
        assert sorted(world.visible()) == sorted(keys)
        lost = start.prepare(t.keys(), epoch=1)
        start.committer.abort_run(start.run(1))
        assert "gone" in start.committer.check(lost, start.run(1), 0.0)
        assert len(world.data()) == 1
        assert world.lists() == []
        assert staging.mark("any") is None
        staging.write_mark("any", "1")
        staging.write_mark("any", "2")
        assert staging.mark("any") == "2"


@pytest.mark.parametrize("name", ["AWS_S3_ALLOW_UNSAFE_RENAME", "allow_unsafe_rename"])
def test_a_setting_that_lets_two_writers_win(name, monkeypatch):
    """It is refused by its name, from an argument and from the environment."""
    with pytest.raises(RefusedSettingError, match=f"{name}=true"):
        DeltaSink("s3://lake/a", storage_options={name: "true"})
    DeltaSink("s3://lake/a", storage_options={name: "false"})
    monkeypatch.setenv("AWS_S3_ALLOW_UNSAFE_RENAME", "true")
    with pytest.raises(RefusedSettingError, match="environment"):
        DeltaSink("s3://lake/a")


def test_a_stale_view_changes_nothing(trial):
    """A table is changed exactly as it was seen, or not at all."""
    table = trial.start().committer._table
    trial.start().committer.preflight()
    first, second = table.look(), table.look()
    entry = LedgerEntry(
        trial.job_id, "any", first.ledger(trial.job_id, "bank.payments") or first.ledger(trial.job_id, "payments")
    )
    first.change(entry, ())
    with pytest.raises(BeatenError):
        second.change(entry, ())


@pytest.mark.parametrize("name", ["c%20d", "c%2Fd", "c%2fd"])
def test_a_path_that_deltalake_reads_as_another_one(tmp_path, name):
    """It would write its log into one folder and look for it in the other: refused before anything is made."""
    with pytest.raises(ConfigurationError, match="cannot write to"):
        DeltaSink(tmp_path / name, create_table=True, name="one")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["c d", "100%", "50%zz", "c+d", "ä"])
def test_a_path_of_other_signs(tmp_path, name):
    """What is written there is read there."""
    world = DeltaWorld(tmp_path)
    world.path = tmp_path / name
    world.sink = lambda: DeltaSink(world.path, create_table=True, name="one")
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        prepared = start.prepare(keys)
        assert start.committer.check(prepared, start.run(), 0.0) is None
        t.commit(start, prepared)
        t.all_visible_once(keys, "after the commit")
