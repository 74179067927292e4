"""The journal on real files: who wins a place, what a lost answer means, and what is never read as if it were whole."""

import contextlib
import json
import multiprocessing
import threading
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import find, given
from hypothesis import strategies as st

from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.journal_codec import JournalEntry, decode, encode
from onceflow.errors import CheckpointConflictError, CheckpointCorruptError, CheckpointStoreError
from onceflow.storage import envelope
from onceflow.storage.store import Store
from onceflow.twophase.layout import Layout, LayoutSource, StateOperator, Topic
from onceflow.twophase.messages import Adopted, Appended, Superseded, Unanswered, Voided
from onceflow.twophase.participants import Part, Participant
from onceflow.twophase.records import (
    Choice,
    Claim,
    Decide,
    LayoutRecord,
    Newest,
    Record,
    Recut,
    Replay,
    ReplayBegin,
    Resolve,
    Skip,
    Start,
    Void,
)

ONE = (Participant("s", "x@1/0", (Part("s", 0, 1, 7, "0:t-0[0,5)"),), {"id": "x", "producer_id": 1}),)
JOB, OTHER = "a" * 12, "b" * 12
LAYOUT = Layout(
    (LayoutSource(("s",), "cluster", "topic t", "path", (Topic("t", "id-1", 3),)),),
    (StateOperator(("s",), "count by key", "path"),),
)


class Died(BaseException):
    """The process dies here."""


class FaultyStore(Store):
    """A store whose next call of one kind fails as told, before or after it took effect.

    Attributes:
        faults: What happens at the next calls: "before" raises and does nothing, "after" does and raises, "die"
            dies before, "late" keeps the creation and raises; ``land`` lets it happen.
    """

    def __init__(self, folder: Path, *fs) -> None:
        super().__init__(folder, *fs)
        self.faults: dict[str, list[str]] = {"create": [], "remove": [], "names": [], "sync": []}
        self.late: list[tuple[str, bytes]] = []

    def _fault(self, call):
        return self.faults[call].pop(0) if self.faults[call] else ""

    def create(self, name, data):
        fault = self._fault("create")
        if fault == "late":
            self.late.append((name, data))
        if fault in ("before", "late"):
            raise CheckpointStoreError("no answer")
        super().create(name, data)
        if fault == "after":
            raise CheckpointStoreError("no answer")

    def land(self):
        """What was held back arrives."""
        for name, data in self.late:
            try:
                super().create(name, data)
            except FileExistsError:
                continue

    def remove(self, name):
        fault = self._fault("remove")
        if fault == "die":
            raise Died
        if fault == "before":
            raise CheckpointStoreError("no answer")
        super().remove(name)

    def names(self):
        if self._fault("names") == "before":
            raise CheckpointStoreError("no answer")
        return super().names()

    def sync(self, name=None):
        if self._fault("sync") == "before":
            raise CheckpointStoreError("no answer")
        super().sync(name)


@pytest.fixture
def store(tmp_path):
    made = FaultyStore(tmp_path / "journal")
    made.make()
    return made


def started(store, retain=100, job_id=JOB):
    journal = Journal(store, retain=retain)
    history = journal.start(job_id, left=JOB)
    return journal, history


def decide(history, epoch=0):
    return Decide(history.incarnation, epoch, f"v1\n{epoch}", ("s",), ONE)


def files(store):
    return sorted(int(name[:-5]) for name in store.names() if name.endswith(".json"))


# -- contests -------------------------------------------------------------------------------------------------------


def _contend(folder, rounds, barrier, results):
    """In a process of its own: at each round try to create the same place as the other one."""
    store = Store(Path(folder))
    wins = []
    for place in range(1, rounds + 1):
        entry = JournalEntry(place, f"{multiprocessing.current_process().name}-{place}", 1, Start(place))
        barrier.wait()
        try:
            store.create(f"{place:020d}.json", encode(entry))
        except FileExistsError:
            continue
        wins.append(entry.nonce)
    results.put(wins)


def test_a_thousand_contested_places_have_one_winner_each(tmp_path):
    """Two processes create the same place at the same moment, 1,000 times: one wins each, and it is what is read."""
    rounds, context = 1000, multiprocessing.get_context("fork")
    barrier, results = context.Barrier(2), context.Queue()
    writers = [
        context.Process(target=_contend, args=(str(tmp_path), rounds, barrier, results), name=n) for n in ("a", "b")
    ]
    for writer in writers:
        writer.start()
    wins = [results.get(timeout=120) for _ in writers]
    for writer in writers:
        writer.join(60)
    read = [e.nonce for e in Journal(Store(tmp_path)).read()]
    assert len(read) == rounds
    assert sorted(wins[0] + wins[1]) == sorted(read)
    assert all(wins), "the two were never in each other's way"


def _start_often(folder, times, barrier, results):
    barrier.wait()
    results.put([Journal(Store(Path(folder))).start(JOB).incarnation for _ in range(times)])


def test_starts_at_the_same_moment_get_numbers_of_their_own(tmp_path):
    """Two supervisors start the job 50 times each, at once: every start has a number of its own, and none is lost."""
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(2), context.Queue()
    Store(tmp_path).make()
    starters = [context.Process(target=_start_often, args=(str(tmp_path), 50, barrier, results)) for _ in range(2)]
    for starter in starters:
        starter.start()
    numbers = results.get(timeout=120) + results.get(timeout=120)
    for starter in starters:
        starter.join(60)
    assert sorted(numbers) == list(range(1, 101))


# -- fencing --------------------------------------------------------------------------------------------------------


def test_a_start_fences_every_older_driver(store):
    """From the newer start on, the older driver appends nothing and does not count as the newest."""
    old, history = started(store)
    new, _ = started(store)
    assert old.append(decide(history)) == Superseded()
    assert old.append_void(Void(1, 0)) == Superseded()
    assert (old.is_newest(), new.is_newest()) == (False, True)
    assert files(store) == [1, 2]


def test_a_driver_knows_that_it_was_replaced_although_a_record_is_spoiled(store):
    """Of a spoiled record nobody can tell whose it is; another one behind it may say it, and else it is no answer."""
    older = Journal(store)
    older.start(JOB)
    Journal(store).start(JOB)
    store.replace("00000000000000000002.json", b"{")
    with pytest.raises(CheckpointCorruptError):
        older.is_replaced()
    store.create("00000000000000000003.json", encode(JournalEntry(3, "n" * 32, 1, Start(3, JOB))))
    assert older.is_replaced()


def test_other_threads_may_ask_while_one_appends(store):
    """Real threads on a real folder: records, voids and purges beside two that ask; no answer but the true one.

    Until a newer start is there nobody calls this one replaced or not the newest, and none of the questions fails.
    """
    journal, history = started(store, retain=2)
    wrong, ended, asked = [], threading.Event(), [threading.Event(), threading.Event()]

    def ask(question, right, once):
        while not (ended.is_set() and once.is_set()):
            try:
                answer = question()
                if answer is not right:
                    wrong.append(answer)
            except Exception as error:
                wrong.append(error)
            once.set()

    threads = [
        threading.Thread(target=ask, args=(journal.is_replaced, False, asked[0])),
        threading.Thread(target=ask, args=(journal.is_newest, True, asked[1])),
    ]
    for thread in threads:
        thread.start()
    for epoch in range(150):
        if epoch % 10 == 9:
            store.faults["create"] = ["before"]
            assert isinstance(journal.append(decide(history, epoch)), Unanswered)
            assert journal.append_void(Void(1, epoch)) == Voided()
        finish(journal, decide(history, epoch))
    ended.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    started(store)
    assert journal.is_replaced()
    assert not journal.is_newest()


def test_a_start_between_creation_and_tail_check_fences(store, monkeypatch):
    """The decision took its place, and a start came behind it before the list: it stands, but its driver must exit."""
    journal, history = started(store)
    create = store.create

    def and_then_another_starts(name, data):
        create(name, data)
        monkeypatch.undo()
        started(store)

    monkeypatch.setattr(store, "create", and_then_another_starts)
    assert journal.append(decide(history)) == Superseded()
    assert Journal(store).history()[0].decided.epoch == 0


def test_a_start_whose_answer_was_lost_is_the_start(store):
    """The creation of a start raised although the file is there: the nonce says that it is ours."""
    store.faults["create"] = ["after"]
    _, history = started(store)
    assert history.incarnation == 1
    assert files(store) == [1]


def test_a_start_that_was_not_written_raises(store):
    """A start that is not in the journal is no start."""
    store.faults["create"] = ["before"]
    with pytest.raises(CheckpointStoreError):
        started(store)
    assert files(store) == []


# -- a failure while deciding -----------------------------------------------------------------------------------------


def test_a_decision_whose_answer_was_lost_is_found_in_its_place(store):
    """Raised after writing: reading the place back shows our nonce, so it is appended."""
    journal, history = started(store)
    store.faults["create"] = ["after"]
    assert journal.append(decide(history)) == Appended()


def test_a_decision_that_did_not_arrive_is_voided_in_exactly_its_place(store):
    """Raised and not there: a void takes the disputed place, so that the decision can never appear in it."""
    journal, history = started(store)
    store.faults["create"] = ["late"]
    assert isinstance(journal.append(decide(history)), Unanswered)
    assert journal.append_void(Void(1, 0)) == Voided()
    store.land()
    assert [type(e.record) for e in Journal(store).read()] == [Start, Void]


def test_a_decision_that_arrives_before_the_void_is_adopted(store):
    """The write landed late, but before the void: the place holds the decision, and the epoch is committed."""
    journal, history = started(store)
    store.faults["create"] = ["late"]
    assert isinstance(journal.append(decide(history)), Unanswered)
    store.land()
    assert journal.append_void(Void(1, 0)) == Adopted()
    assert journal.append(decide(history, 1)) == Appended()


def test_a_decision_is_adopted_when_only_the_look_back_failed(store):
    """Create succeeded, the list that follows raised: not known; the void's place shows the decision."""
    journal, history = started(store)
    store.faults["names"] = ["", "before"]
    assert isinstance(journal.append(decide(history)), Unanswered)
    assert journal.append_void(Void(1, 0)) == Adopted()


def test_a_start_in_the_disputed_place_fences(store):
    """While the void was to be written another driver started in that place: nothing of ours is decided."""
    journal, history = started(store)
    store.faults["create"] = ["late"]
    assert isinstance(journal.append(decide(history)), Unanswered)
    started(store)
    store.land()
    assert journal.append_void(Void(1, 0)) == Superseded()


def test_nothing_can_be_said_of_a_place_that_cannot_be_read(store):
    """Neither the decision nor the void gave an answer: still unanswered, and the caller must not abort."""
    journal, history = started(store)
    store.faults["create"] = ["late", "before"]
    assert isinstance(journal.append(decide(history)), Unanswered)
    assert isinstance(journal.append_void(Void(1, 0)), Unanswered)


# -- files that are not whole -----------------------------------------------------------------------------------------


def mangle(how, path):
    data = path.read_bytes()
    match how:
        case "emptied":
            path.write_bytes(b"")
        case "halved":
            path.write_bytes(data[: len(data) // 2])
        case "bit flipped":
            path.write_bytes(data.replace(b'"incarnation": 1', b'"incarnation": 3'))
        case "other record":
            body = json.loads(data)
            path.write_text(json.dumps(body | {"kind": "void", "record": {"incarnation": 1, "epoch": 0}}))
        case "moved":
            other = path.with_name(f"{int(path.stem) % 3 + 1:020d}.json")
            path.write_bytes(other.read_bytes())
        case "no object":
            path.write_bytes(b"[1]")
        case "deleted":
            path.unlink()


CHANGES = ["emptied", "halved", "bit flipped", "other record", "moved", "no object"]


@pytest.mark.parametrize(("how", "place"), [(how, place) for how in CHANGES for place in (1, 2)] + [("deleted", 2)])
def test_a_record_that_is_not_whole_stops_by_name(store, how, place):
    """Emptied, cut, changed, exchanged or deleted: the journal is not read, and the message names the file."""
    journal, history = started(store)
    journal.append(decide(history))
    journal.append(decide(history, 1))
    name = f"{place:020d}.json"
    mangle(how, store.path(name))
    for use in (Journal(store).read, lambda: Journal(store).start(JOB)):
        with pytest.raises(CheckpointCorruptError, match=name) as caught:
            use()
        assert caught.value.facts["file"] == str(store.path(name))


def test_a_deleted_start_below_the_kept_history_is_not_missed(store):
    """Only its place mattered: a driver older than it that creates a record there sees that it is not at the end."""
    journal, history = started(store)
    sleeper_place = 2
    journal.append(decide(history))
    _, history = started(store, retain=1)
    sleeper = Journal(store)
    sleeper._tail = sleeper_place - 1
    store.remove(f"{1:020d}.json")
    assert Journal(store).history()[0].decided.epoch == 0
    assert sleeper.append(decide(history, 7)) == Superseded()


def test_records_that_contradict_each_other_stop_by_name(store):
    """A record of an older incarnation behind a newer start is no history; the file is named."""
    started(store)
    started(store)
    store.create(f"{3:020d}.json", encode(JournalEntry(3, "n", 1, Decide(1, 0, "o", ("s",), ONE))))
    with pytest.raises(CheckpointCorruptError, match=f"{3:020d}.json.*incarnation 1"):
        Journal(store).history()


def test_a_newer_format_is_refused_as_such(store):
    """A record of a newer version stops with its number, and is not called corrupt."""
    started(store)
    body = json.loads(store.read(f"{1:020d}.json"))
    store.replace(f"{1:020d}.json", json.dumps(body | {"format": 4}).encode())
    with pytest.raises(CheckpointConflictError, match=r"(?s)has format 4.*newer version"):
        Journal(store).read()


@pytest.mark.parametrize("older", [1, 2])
def test_an_older_format_is_refused_with_the_way_out(store, older):
    """Older records lack what a start needs: the version that wrote them ends the job, or goes on with it."""
    started(store)
    body = json.loads(store.read(f"{1:020d}.json"))
    store.replace(f"{1:020d}.json", json.dumps(body | {"format": older}).encode())
    for use in (Journal(store).read, lambda: Journal(store).start(JOB)):
        with pytest.raises(CheckpointConflictError, match=rf"(?s)has format {older}.*older version") as caught:
            use()
        assert "let that version finish" in caught.value.action
        assert not caught.value.retriable


def test_other_files_in_the_folder_are_nobodys_business(store):
    """Editors' and file managers' files beside the records are not read."""
    started(store)
    for name in ("README", "1.json~", ".DS_Store", "notes.json"):
        store.create(name, b"?")
    assert len(Journal(store).read()) == 1


NUMBERS, EPOCHS, TEXTS = st.integers(1, 9), st.integers(0, 9), st.text(max_size=3)
NAMES = st.lists(TEXTS, max_size=2).map(tuple)
TOPICS = st.lists(st.builds(Topic, TEXTS, TEXTS, st.integers(1, 99)), max_size=2).map(tuple)
LAYOUTS = st.builds(
    Layout,
    st.lists(st.builds(LayoutSource, NAMES, TEXTS, TEXTS, TEXTS, TOPICS), max_size=2).map(tuple),
    st.lists(st.builds(StateOperator, NAMES, TEXTS, TEXTS), max_size=2).map(tuple),
)
RECORDS = st.one_of(
    st.builds(Start, NUMBERS, TEXTS),
    st.builds(LayoutRecord, NUMBERS, LAYOUTS),
    st.builds(Recut, NUMBERS, EPOCHS, st.integers(1, 10**9)),
    st.builds(Skip, NUMBERS, EPOCHS, TEXTS, TEXTS),
    st.builds(Void, NUMBERS, EPOCHS),
    st.builds(Decide, NUMBERS, EPOCHS, st.text(max_size=9), NAMES, st.just(ONE), st.integers(0, 10**6)),
    st.builds(ReplayBegin, NUMBERS, EPOCHS, st.integers(1, 3)),
    st.builds(
        Replay,
        NUMBERS,
        EPOCHS,
        st.integers(1, 3),
        st.sampled_from(["whole", "parts"]),
        st.just(ONE),
    ),
    st.builds(
        Resolve,
        NUMBERS,
        EPOCHS,
        st.sampled_from(get_args(Choice)),
        st.lists(st.tuples(TEXTS, TEXTS), max_size=2).map(tuple),
        TEXTS,
        TEXTS,
    ),
)


def test_every_kind_of_record_is_tried():
    """The property below leaves out no kind."""
    assert {type(find(RECORDS, lambda r, k=kind: isinstance(r, k))) for kind in get_args(Record)} == set(
        get_args(Record)
    )


@given(RECORDS, st.integers(1, 10**12), st.text(max_size=8), st.integers(0, 10**6), st.integers(0, 255))
def test_a_record_comes_back_or_not_at_all(record, place, nonce, at, byte):
    """Decode takes back whatever encode wrote; with any byte changed it gives the same record or raises."""
    entry = JournalEntry(place, nonce, 1, record)
    data = encode(entry)
    assert decode(data, place) == entry
    changed = bytearray(data)
    changed[at % len(data)] = byte
    try:
        found = decode(bytes(changed), place)
    except (ValueError, KeyError, TypeError):
        return
    assert found == entry


# -- purging ----------------------------------------------------------------------------------------------------------


def finish(journal, record):
    """An epoch as a driver ends it: decided, committed, and then what is old is purged."""
    assert journal.append(record) == Appended()
    journal.purge()


def test_purging_keeps_starts_and_the_newest_epochs(store):
    """Old decisions go, starts stay: the place that a stale driver would take next is always taken by one."""
    for _ in range(3):
        journal, history = started(store, retain=2)
        first = 0 if history.decided is None else history.decided.epoch + 1
        for epoch in range(first, first + 4):
            finish(journal, decide(history, epoch))
    entries = Journal(store, retain=2).read()
    assert [e.record.incarnation for e in entries if isinstance(e.record, Start)] == [1, 2, 3]
    assert [e.record.epoch for e in entries if isinstance(e.record, Decide)] == [9, 10, 11]
    assert Journal(store).history()[0].decided.epoch == 11


def test_the_newest_decision_keeps_its_replay(store):
    """Whatever is retained, what became of the newest decision is never purged."""
    journal, history = started(store, retain=1)
    finish(journal, decide(history))
    journal, history = started(store, retain=1)
    assert journal.append(ReplayBegin(2, 0, 1)) == Appended()
    journal, history = started(store, retain=1)
    assert history.decided.replaying
    assert journal.append(Replay(3, 0, 1, "whole", ONE)) == Appended()
    assert Journal(store).history()[0].decided.replays == 1


@pytest.mark.parametrize("removals", [0, 1, 2])
def test_dying_while_purging_leaves_a_readable_journal(store, removals):
    """The process dies between two steps of a purge: the history is whole, and purging goes on."""
    journal, history = started(store, retain=2)
    for epoch in range(3):
        finish(journal, decide(history, epoch))
    store.faults["remove"] = [""] * removals + ["die"]
    journal._retain = 1
    epoch = 3
    while store.faults["remove"]:
        with contextlib.suppress(Died):
            finish(journal, decide(history, epoch))
        epoch += 1
    _, history = started(store, retain=100)
    journal, history = started(store, retain=1)
    newest = history.decided.epoch
    finish(journal, decide(history, newest + 1))
    assert Journal(store).history()[0].decided.epoch == newest + 1


def test_a_purge_that_fails_is_made_up_for_by_the_next(store):
    """An epoch is finished before anything is purged: nobody is told of what fails then."""
    journal, history = started(store, retain=1)
    for epoch in range(3):
        finish(journal, decide(history, epoch))
    store.faults["remove"] = ["before"]
    finish(journal, decide(history, 3))
    finish(journal, decide(history, 4))
    assert files(store) == [1, 4, 5, 6]


def test_nothing_is_purged_while_an_epoch_is_decided(store):
    """An append only appends: who waits for a commit behind it waits for no receipts, however many are due."""
    journal, history = started(store, retain=1)
    for epoch in range(6):
        assert journal.append(decide(history, epoch)) == Appended()
    assert files(store) == [1, 2, 3, 4, 5, 6, 7]
    assert journal.receipts() == []
    journal.purge()
    assert files(store) == [1, 5, 6, 7]
    assert [receipt.epoch for receipt in journal.receipts()] == [0, 1, 2]


def test_what_a_failed_append_declared_is_not_purged(store):
    """Only what the durable tail declares may go: a reader that finds less than the tail promises calls it corrupt."""
    journal, history = started(store, retain=1)
    for epoch in range(3):
        finish(journal, decide(history, epoch))
    held = files(store)
    store.faults["create"] = ["before"]
    assert isinstance(journal.append(decide(history, 3)), Unanswered)
    journal.purge()
    assert files(store) == held
    assert Journal(store).history()[0].decided.epoch == 2


@pytest.mark.parametrize("how", ["a newer start", "an older copy"])
def test_who_was_replaced_purges_nothing(store, how):
    """What stands under its numbers may be another history's by now, and is not its to remove."""
    journal, history = started(store, retain=1)
    for epoch in range(3):
        finish(journal, decide(history, epoch))
    copy = {name: store.read(name) for name in store.names() if name.endswith(".json")}
    for epoch in (3, 4):
        assert journal.append(decide(history, epoch)) == Appended()
    if how == "a newer start":
        started(store, retain=100)
    else:
        put_back(store, copy)
    held = files(store)
    journal.purge()
    assert files(store) == held
    assert Journal(store).history()[0].decided is not None


def test_a_record_that_lands_in_a_purged_place_changes_nothing(store):
    """A sleeper creates its record where others wrote and purged: it is told, and the history stays what it was."""
    sleeper, history = started(store)
    store.faults["create"] = ["late"]
    sleeper.append(decide(history))
    place = int(store.late[0][0][:-5])
    assert place == 2
    journal, history = started(store, retain=1)  # place 2, so the sleeper's creation fails for ever
    store.land()
    for epoch in range(4):
        finish(journal, decide(history, epoch))
    assert Journal(store).history()[0].decided.epoch == 3


def test_a_start_that_lands_in_a_purged_place_changes_nothing(store):
    """A start that slept since before an epoch that is purged by now neither corrupts the journal nor counts."""
    journal, history = started(store, retain=1)
    store.faults["create"] = ["late"]
    with pytest.raises(CheckpointStoreError):
        Journal(store).start(JOB)
    for epoch in range(4):
        finish(journal, decide(history, epoch))
    store.land()
    assert 2 in files(store), "the late start found its place purged"
    finish(journal, decide(history, 4))
    _, history = started(store)
    assert (history.incarnation, history.decided.epoch) == (2, 4)


def test_a_start_that_wakes_in_a_purged_place_starts_again(store, monkeypatch):
    """The sleeper itself is alive: it sees that its place is not at the end, and takes one there."""
    journal, history = started(store, retain=1)
    create = store.create

    def sleep_before(name, data):
        monkeypatch.undo()
        for epoch in range(4):
            finish(journal, decide(history, epoch))
        create(name, data)

    monkeypatch.setattr(store, "create", sleep_before)
    woken, found = started(store)
    assert (found.incarnation, found.decided.epoch) == (2, 3)
    assert woken.is_newest()
    assert not journal.is_newest()


def test_reading_while_another_purges(store, monkeypatch):
    """A start that lists the files just before the running driver purges some reads the journal as it is then."""
    journal, history = started(store, retain=1)
    for epoch in range(3):
        finish(journal, decide(history, epoch))
    names = store.names

    def then_purge():
        listed = names()
        monkeypatch.undo()
        finish(journal, decide(history, 3))
        return listed

    monkeypatch.setattr(store, "names", then_purge)
    _, found = started(store)
    assert (found.incarnation, found.decided.epoch) == (2, 3)


def test_a_longer_retention_does_not_ask_for_what_is_purged(store):
    """Retention was raised after a purge died half way: the declared end of the history never moves back."""
    journal, history = started(store, retain=1)
    for epoch in range(3):
        finish(journal, decide(history, epoch))
    for epoch in (3, 4):
        store.faults["remove"] = ["die"]
        with pytest.raises(Died):
            finish(journal, decide(history, epoch))
    store.remove(f"{3:020d}.json")
    assert files(store) == [1, 2, 4, 5, 6], "one of the two purged records is left"
    _, history = started(store, retain=100)
    assert history.decided.epoch == 4
    assert Journal(store).history()[0].decided.epoch == 4


def test_a_record_that_may_not_survive_a_power_cut_is_not_appended(store):
    """The folder's sync failed and fails again: the file can be read, but is not durable, so nothing is committed."""
    journal, history = started(store)
    store.faults["create"] = ["after", "after"]
    store.faults["sync"] = ["before", "before"]
    assert isinstance(journal.append(decide(history)), Unanswered)
    store.faults["sync"] = ["before"]
    assert isinstance(journal.append_void(Void(1, 0)), Unanswered)
    store.faults["sync"] = []
    assert journal.append_void(Void(1, 0)) == Adopted()


# -- layouts and jobs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retain", [1, 2, 3, 100])
def test_job_and_layout_survive_every_purge(store, retain):
    """They stand in old records: whatever number of decisions is kept, a reader knows both."""
    journal, history = started(store, retain=retain)
    assert journal.append(LayoutRecord(1, LAYOUT)) == Appended()
    for epoch in range(8):
        finish(journal, decide(history, epoch))
        found, _ = Journal(store).history()
        assert (found.job_id, found.layout, found.decided.epoch) == (JOB, LAYOUT, epoch)
    _, history = started(store, retain=retain)
    assert (history.job_id, history.layout, history.incarnation) == (JOB, LAYOUT, 2)


def test_a_layout_is_kept_as_long_as_its_epochs(store):
    """A source grew: what stood before goes with the last of the epochs that it was for, and none before it."""
    journal, history = started(store, retain=4)
    grown = replace(LAYOUT, states=())
    journal.append(LayoutRecord(1, LAYOUT))
    for epoch in range(6):
        finish(journal, decide(history, epoch))
    journal.append(LayoutRecord(1, grown))
    told = []
    for epoch in range(6, 14):
        finish(journal, decide(history, epoch))
        oldest = Journal(store).decided_epochs(JOB)[0].epoch
        layouts = [e.record.layout for e in Journal(store).up_to(oldest)[0] if isinstance(e.record, LayoutRecord)]
        told.append((oldest, layouts[-1]))
    assert told[0] == (2, LAYOUT)
    assert told[-1] == (9, grown)
    # Behind epoch 5 stands the layout that the job went on with, behind those before it their own.
    assert all(layout == (LAYOUT if oldest < 5 else grown) for oldest, layout in told)


def test_only_the_newest_layout_is_kept(store):
    """A source grew: what stood before goes with the epochs that it was for."""
    journal, history = started(store, retain=1)
    grown = replace(LAYOUT, states=())
    journal.append(LayoutRecord(1, LAYOUT))
    finish(journal, decide(history, 0))
    journal.append(LayoutRecord(1, grown))
    for epoch in range(1, 5):
        finish(journal, decide(history, epoch))
    entries = Journal(store).read()
    assert [e.record.layout for e in entries if isinstance(e.record, LayoutRecord)] == [grown]
    assert Journal(store).history()[0].layout == grown


@pytest.mark.parametrize("retain", [1, 100])
def test_another_jobs_start_begins_a_history_of_its_own(store, retain):
    """--as-new in the same journal: numbers go on, so older drivers are fenced; of the old job only the layout counts.

    The new one goes on from the same offsets and state: what stands at which position is as it was.
    """
    old, history = started(store, retain=retain)
    old.append(LayoutRecord(1, LAYOUT))
    for epoch in range(3):
        old.append(decide(history, epoch))
    new, history = started(store, retain=retain, job_id=OTHER)
    assert (history.incarnation, history.job_id) == (2, OTHER)
    assert (history.decided, history.earlier, history.layout) == (None, None, LAYOUT)
    assert Journal(store).history()[0] == history
    assert old.append(decide(history, 3)) == Superseded()
    assert not old.is_newest()
    for epoch in range(3, 7):
        assert new.append(Decide(2, epoch, f"v1\n{epoch}", ("s",), ONE)) == Appended()
        found, _ = Journal(store).history()
        assert (found.job_id, found.decided.epoch, found.layout) == (OTHER, epoch, LAYOUT)
    assert started(store, retain=retain, job_id=OTHER)[1].layout == LAYOUT


def test_the_new_jobs_layout_takes_the_old_ones_place(store):
    """Two layouts of two jobs: the newest start's is told, also when its record is the only one that is left."""
    old, history = started(store, retain=1)
    old.append(LayoutRecord(1, LAYOUT))
    old.append(decide(history, 0))
    new, _ = started(store, retain=1, job_id=OTHER)
    other = replace(LAYOUT, states=())
    new.append(LayoutRecord(2, other))
    for epoch in range(1, 5):
        finish(new, Decide(2, epoch, "o", ("s",), ONE))
    found, entries = Journal(store).history()
    assert (found.job_id, found.layout) == (OTHER, other)
    assert sum(isinstance(e.record, LayoutRecord) for e in entries) == 1


# -- a journal that another one took the place of ---------------------------------------------------------------------


def put_back(store, copy):
    for name in store.names():
        if name.endswith(".json"):
            store.remove(name)
    for name, data in copy.items():
        store.create(name, data)


def test_another_record_under_the_same_number_fences(store):
    """An older copy was put back and gone on with up to the same place: the numbers agree, the records do not."""
    started(store)
    copy = {name: store.read(name) for name in store.names()}
    sleeper, history = started(store)
    put_back(store, copy)
    other, _ = started(store)
    assert files(store) == [1, 2], "as many records as the sleeper knows"
    assert not sleeper.is_newest()
    assert sleeper.append(decide(history)) == Superseded()
    assert files(store) == [1, 2]
    assert other.is_newest()


def test_a_decision_whose_start_was_taken_from_under_it_does_not_count(store, monkeypatch):
    """The copy was put back between the look and the creation: the record has its place, and its driver must exit."""
    sleeper, history = started(store)
    create = store.create

    def and_then_the_copy_is_put_back(name, data):
        monkeypatch.undo()
        store.remove(f"{1:020d}.json")
        started(store)
        create(name, data)

    monkeypatch.setattr(store, "create", and_then_the_copy_is_put_back)
    assert sleeper.append(decide(history)) == Superseded()


def test_a_journal_that_is_gone_fences(store):
    """The folder was emptied under a driver: it is not the newest any more, and appends nothing."""
    journal, history = started(store)
    put_back(store, {})
    assert not journal.is_newest()
    assert journal.append(decide(history)) == Superseded()
    assert files(store) == []


def test_a_claimed_journal_goes_on_above_what_is_known_outside(store):
    """An older copy that was put back on purpose takes no number that the newer one has used."""
    started(store)
    assert Journal(store).start(JOB, above=7).incarnation == 8
    assert Journal(store).start(JOB, above=7).incarnation == 9


def test_what_a_claim_has_found_is_read_again_as_it_was_written(store):
    """Also of a claim from before it said what its sinks know still."""
    claim = Claim(("newest", "oldest"), (Newest("payments", "older", 3, 5, 7),))
    started(store)
    Journal(store).start(JOB, said=Start(0, claim=claim))
    entry = Journal(store).read()[-1]
    assert entry.record.claim == claim
    body = json.loads(encode(entry))
    del body["record"]["known"], body["sha256"]
    assert decode(envelope.seal(body), entry.slot).record.claim == replace(claim, known=())


def test_what_an_epoch_without_a_decision_read_is_known_to_the_next_start(tmp_path):
    """Also where a start in between has run nothing; what an older one notes late counts for nothing."""

    def started():
        journal = Journal(Store(tmp_path))
        journal.start(JOB)
        return journal

    oldest = started()
    assert oldest.passed.newest() is None
    oldest.passed.adopt(None)
    oldest.passed.note(4, "what it read")
    died = started()
    assert died.passed.newest() == (4, "what it read")
    newer = started()
    assert newer.passed.newest() == newer.passed.newest(own=True) == (4, "what it read"), (
        "the one that died had run nothing, or it would have a note"
    )
    newer.passed.adopt(newer.passed.newest())
    assert started().passed.newest() == (4, "what it read")
    newer.passed.note(5, "what the newer one read")
    oldest.passed.note(5, "what it had planned before it slept")
    died.passed.note(5, "likewise")
    newest = started()
    assert newest.passed.newest() == (5, "what the newer one read")
    newest.passed.adopt(None)
    assert started().passed.newest() is None
    assert [path.name for path in (tmp_path / "passed").iterdir()] == ["5.json"]
    (tmp_path / "passed" / "5.json").write_text("torn")
    assert started().passed.newest() is None


def test_a_note_of_before_holds_for_the_next_start_alone(tmp_path):
    """An older version has one note for all starts, in which any of them may have written last."""
    journal = Journal(Store(tmp_path))
    journal.start(JOB)
    (tmp_path / "passed").mkdir()
    note = envelope.seal({"format": 1, "incarnation": 1, "epoch": 4, "offsets": "what it read"})
    (tmp_path / "passed" / "newest.json").write_bytes(note)
    for expected in ((4, "what it read"), None):
        journal = Journal(Store(tmp_path))
        journal.start(JOB)
        assert journal.passed.newest() == expected
    journal.passed.adopt(None)
    assert not (tmp_path / "passed" / "newest.json").exists()
