"""Receipts: what was decided stays known when the journal has forgotten it."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.checkpoint import receipts as receipts_module
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.receipts import Receipt, Receipted, Receipts, receipt_of
from onceflow.errors import CheckpointCorruptError, CheckpointStoreError
from onceflow.storage.store import Store
from onceflow.twophase.layout import Layout
from onceflow.twophase.messages import Appended
from onceflow.twophase.records import Decide, LayoutRecord, Replay, ReplayBegin, Resolve, Void
from tests.simulation.fake_files import FakeStore, Files
from tests.support.histories import participant

JOB = "a" * 12
A, B = participant(0, rows=3, digest=5), participant(1, rows=4, digest=6)


def decide(epoch, incarnation=1):
    return Decide(incarnation, epoch, f"v1\n{epoch}", ("s",), (participant(epoch, rows=epoch + 1, digest=epoch),))


def in_memory():
    return FakeStore("receipts", Files(), lambda _, effect: effect())


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            Decide(2, 7, "o", ("s",), (A, B)),
            Receipt(9, "decide", 2, 7, (Receipted(A.id, 3, 5), Receipted(B.id, 4, 6))),
        ),
        (Replay(2, 7, 1, "whole", (B,)), Receipt(9, "replay", 2, 7, (Receipted(B.id, 4, 6),))),
        (Replay(2, 7, 1, "parts", (B,), (A.id,)), Receipt(9, "replay", 2, 7, (Receipted(B.id, 4, 6),), (A.id,))),
        (
            Resolve(2, 7, "count-as-written", (A.id,), "ann", "seen"),
            Receipt(9, "resolve", 2, 7, choice="count-as-written", about=(A.id,)),
        ),
        (Void(2, 7), None),
        (ReplayBegin(2, 7, 1), None),
        (LayoutRecord(2, Layout()), None),
    ],
)
def test_a_receipt_says_which_rows_were_decided(record, expected):
    """Handles, rows and digests of what was to be committed, and what an operator chose; no other record has one."""
    assert receipt_of(9, record) == expected


def test_receipts_come_back_from_their_files(tmp_path):
    """On a real folder, batch after batch: each place once, in order, in one file as long as that is not full."""
    kept = Receipts(Store(tmp_path / "receipts"))
    records = {place: decide(place) for place in range(1, 8)} | {8: Replay(1, 7, 1, "parts", (B,), (A.id,))}
    kept.keep({place: records[place] for place in (1, 2, 3)})
    kept.keep({place: records[place] for place in (4, 5)})
    kept.keep({place: records[place] for place in (6, 7, 8)})
    assert kept.read() == [receipt_of(place, record) for place, record in records.items()]
    assert len(list((tmp_path / "receipts").iterdir())) == 1


def test_a_full_file_is_not_written_again(monkeypatch):
    """Else each batch would cost as much as all that was ever decided."""
    monkeypatch.setattr(receipts_module, "_FULL", 4)
    store = in_memory()
    kept = Receipts(store)
    for first in range(1, 20, 2):
        kept.keep({first: decide(first), first + 1: decide(first + 1)})
    assert len(store.names()) == 5
    assert [receipt.slot for receipt in kept.read()] == list(range(1, 21))


def test_the_oldest_files_go(monkeypatch):
    """A job that runs for years does not fill its disk: the receipts of the newest epochs stay, and they are enough."""
    monkeypatch.setattr(receipts_module, "_FULL", 4)
    monkeypatch.setattr(receipts_module, "_FILES", 3)
    store = in_memory()
    kept = Receipts(store)
    kept.keep({1: decide(1)})
    assert kept.are_whole()
    for place in range(2, 400):
        kept.keep({place: decide(place)})
    assert len(store.names()) == 3
    found = [receipt.slot for receipt in kept.read()]
    assert found == list(range(found[0], 400))
    assert len(found) > 2 * 4
    assert not kept.are_whole()


def test_what_lands_in_a_forgotten_place_gets_no_receipt():
    """A record that was held back until its place was purged counts for nothing; voids close it, too."""
    kept = Receipts(in_memory())
    kept.keep({1: decide(1), 2: Void(1, 2)})
    kept.keep({2: decide(2), 3: decide(3)})
    kept.keep({1: decide(7)})
    assert [(receipt.slot, receipt.epoch) for receipt in kept.read()] == [(1, 1), (3, 3)]


@given(st.lists(st.sampled_from(["before", "after", ""]), min_size=4, max_size=40), st.integers(2, 6))
def test_the_journal_and_its_receipts_hold_every_decision(answers, retain):
    """Whatever call of a purge fails, before or after it took effect: no decision is in neither of the two."""
    faults = iter(answers)

    def carry(what, effect):
        fault = next(faults, "") if "receipts" in what or what.startswith("remove") else ""
        if fault == "before":
            return None
        answer = effect()
        return None if fault else answer

    files = Files()
    store = FakeStore("journal", files, carry)
    journal = Journal(store, retain=retain)
    journal.start(JOB)
    for epoch in range(20):
        assert journal.append(decide(epoch)) == Appended()
        journal.purge()
        in_journal = {entry.record.epoch for entry in journal.read() if isinstance(entry.record, Decide)}
        assert in_journal | receipted(store) == set(range(epoch + 1))
        looking = Journal(FakeStore("journal", files, lambda _, effect: effect()))
        counted = {each.epoch for each in looking.decided_epochs(JOB)} | told(looking)
        assert counted == set(range(epoch + 1)), "nor in neither of what the two are asked for"
    assert len(in_journal) < 20 or "before" in answers or "after" in answers


def told(journal):
    return {receipt.epoch for receipt in journal.receipts(waiting=True)}


def test_a_purge_that_dies_anywhere_loses_no_decision():
    """The driver dies before or after each call of a purge, and another goes on: each decision is in one place or both.

    Nothing stays twice for good: the next purge joins what was left, and removes the records whose receipts it finds.
    """
    for dies_at in range(12):
        files, calls = Files(), iter(range(10**6))
        store = FakeStore("journal", files, lambda _, effect: effect())
        journal = Journal(store, retain=2)
        journal.start(JOB)
        for epoch in range(6):
            journal.append(decide(epoch))
            journal.purge()

        def carry(what, effect, calls=calls, dies_at=dies_at):
            if "receipts" in what or what.startswith("remove"):
                at = next(calls)
                if at == dies_at:
                    raise Died
                if at > dies_at:
                    raise AssertionError("the dead do nothing")
            return effect()

        dying = Journal(FakeStore("journal", files, carry), retain=2)
        dying.start(JOB)
        for epoch in range(6, 9):
            dying.append(decide(epoch, 2))
        with contextlib.suppress(Died):
            dying.purge()
        assert in_journal(store) | receipted(store) == set(range(9))
        last = Journal(store, retain=2)
        last.start(JOB)
        for epoch in range(9, 12):
            last.append(decide(epoch, 3))
            last.purge()
        assert in_journal(store) | receipted(store) == set(range(12))
        assert in_journal(store) & receipted(store) == set()
        assert len(files.below("receipts").content) == 1
    assert next(calls) < dies_at, "every call of a purge was died at"


@pytest.mark.parametrize("how", ["the same driver again", "another driver"])
def test_receipts_whose_creation_was_not_answered_are_synced_before_a_record_goes(how):
    """They can be read, and are not on the disk: a power cut would take them, and what they tell of is removed."""
    files, records = Files(), {1: decide(1), 2: decide(2)}

    def without_answer(what, effect):
        answer = effect()
        return None if what.startswith("create") else answer

    listed = iter([[]] if how == "another driver" else [])  # which had listed the folder before

    def carry(what, effect):
        return next(listed, effect()) if what.startswith("list") else effect()

    with pytest.raises(CheckpointStoreError):
        Receipts(FakeStore("receipts", files, without_answer)).keep(records)
    assert files.unsynced
    kept = Receipts(FakeStore("receipts", files, carry))
    kept.keep(records)
    assert not files.unsynced
    assert [receipt.slot for receipt in kept.read()] == [1, 2]


def test_a_driver_that_slept_leaves_no_gap_in_what_is_kept():
    """What it wrote beside the newer file counts as little as it: the next purge goes on behind the newest place."""
    files = Files()
    kept, newer = (Receipts(FakeStore("receipts", files, lambda _, effect: effect())) for _ in range(2))
    kept.keep({1: decide(1), 2: decide(2)})
    old = files.copy()

    def carry(what, effect):
        if what.startswith("list") and files.content == old:
            listed = effect()
            newer.keep({3: decide(3), 4: decide(4), 5: decide(5)})
            return listed
        return effect()

    Receipts(FakeStore("receipts", files, carry)).keep({3: decide(3), 4: decide(4)})
    kept.keep({5: decide(9), 6: decide(6)})
    assert [(receipt.slot, receipt.epoch) for receipt in kept.read()] == [(n, n) for n in range(1, 7)]
    assert len(files.content) == 1


def test_a_reader_misses_nothing_while_files_are_joined():
    """The folder is listed, a purge joins the file into another one, and only then it is read: it looks again."""
    files, joined = Files(), []

    def carry(what, effect):
        if what.startswith("read") and not joined:
            joined.append(what)
            Receipts(FakeStore("receipts", files, lambda _, do: do())).keep({2: decide(2)})
        return effect()

    Receipts(FakeStore("receipts", files, lambda _, effect: effect())).keep({1: decide(1)})
    assert [receipt.slot for receipt in Receipts(FakeStore("receipts", files, carry)).read()] == [1, 2]


class Died(BaseException):
    """The process was killed here."""


def in_journal(store):
    return {entry.record.epoch for entry in Journal(store).read() if isinstance(entry.record, Decide)}


def receipted(store):
    while True:
        try:
            return {receipt.epoch for receipt in Receipts(store.below("receipts")).read()}
        except CheckpointStoreError:
            continue


def test_a_receipt_that_was_cut_is_said_and_stops_no_job(tmp_path):
    """A reader is told which file; the journal goes on purging into another one."""
    store = Store(tmp_path / "journal")
    store.make()
    journal = Journal(store, retain=2)
    journal.start(JOB)
    for epoch in range(5):
        journal.append(decide(epoch))
        journal.purge()
    (file,) = (tmp_path / "journal" / "receipts").iterdir()
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(CheckpointCorruptError, match=file.name):
        journal.receipts()
    for epoch in range(5, 8):
        assert journal.append(decide(epoch)) == Appended()
        journal.purge()
    file.unlink()
    assert [receipt.epoch for receipt in journal.receipts()] == [2, 3, 4]
