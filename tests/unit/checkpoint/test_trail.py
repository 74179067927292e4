"""The audit's trail: each decided epoch has one receipt, whoever dies, and each names the one before."""

import contextlib
import gzip
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta

import pytest

from onceflow.audit import chain as audit_chain
from onceflow.audit.anchors import Anchors, InFile, check
from onceflow.audit.files import OnDisk
from onceflow.audit.findings import Findings
from onceflow.checkpoint import trail as trail_module
from onceflow.checkpoint.journal import Journal
from onceflow.errors import CheckpointStoreError, ConfigurationError
from onceflow.options.auditing import Auditing
from onceflow.storage.store import Store
from onceflow.twophase.records import Decide, Replay, ReplayBegin, Resolve
from tests.support.trails import ABOUT, JOB, Started, decide, offsets, participant


def chain(folder):
    """The receipts that count, by their hashes: as somebody reads them who knows the page of the format alone."""
    lines = {}
    for path in (folder / "audit").iterdir():
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt") as file:
            written = file.read()
        for line in written.splitlines():
            with contextlib.suppress(ValueError):
                body = json.loads(line)
                lines[body["hash"]] = body
    newest = max(lines.values(), key=lambda r: (r["number"], r["at"]), default=None)
    found = []
    while newest is not None:
        found.insert(0, newest)
        newest = lines.get(newest["before"])
    return found


def test_a_receipt_says_what_was_read_and_what_was_decided(tmp_path):
    """Source ranges from where the one before ended, with the topic's id; rows, digests as hex; code and settings."""
    Started(tmp_path).finish(0, 2)
    first, second = chain(tmp_path)
    assert (first["number"], first["epoch"], first["job"], first["name"]) == (1, 0, JOB, "copy")
    assert (first["code"], first["settings"]) == ("c0de", "5e77")
    (source,) = first["sources"]
    assert source["cluster"] == "cluster-1"
    assert source["ranges"] == [["t", "id-1", 0, 4, 10], ["t", "id-1", 1, 0, 20]]
    assert second["sources"][0]["ranges"] == [["t", "id-1", 0, 10, 30], ["t", "id-1", 1, 20, 60]]
    assert first["sinks"] == {
        "s": {"rows": 3, "digest": "ffffffffffffffff", "columns": []},
        "t": {"rows": 0, "digest": "0000000000000000"},
    }
    assert second["participants"] == [
        {
            "sink": "s",
            "handle": "x@2/0",
            "rows": 3,
            "digest": "fffffffffffffffd",
            "parts": [[0, 3, "fffffffffffffffd", "o"]],
            "transaction": {"producer_id": 2},
        }
    ]
    assert second["planned"]["time_ms"] == 1_030


def test_each_names_the_one_before_and_its_hash_is_over_all_of_it(tmp_path):
    """Whoever has the page of the format alone can check the chain, and with the key its signatures."""
    Started(tmp_path, key=b"k" * 32).finish(*range(5))
    found = chain(tmp_path)
    assert [r["epoch"] for r in found] == [0, 1, 2, 3, 4]
    before = ""
    for body in found:
        said = {k: v for k, v in body.items() if k not in ("hash", "signature")}
        assert (
            body["hash"] == hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        )
        assert body["signature"] == hmac.new(b"k" * 32, body["hash"].encode(), "sha256").hexdigest()
        assert body["before"] == before
        before = body["hash"]


def test_a_head_whose_clock_was_ahead_is_kept_until_all_of_it_is_old(tmp_path):
    """A clock that is set back leaves receipts of a later time before others: they were anchored at that time."""
    ahead, old = datetime.now(UTC) + timedelta(days=1), datetime.now(UTC) - timedelta(days=9)
    clock = iter([ahead, ahead, old, old])
    started = Started(tmp_path / "onceflow", retention=timedelta(days=7), now=lambda: next(clock))
    started.finish(0)
    anchor = started.journal.anchor().encode()
    started.finish(1, 2)
    for epoch in (3, 4):  # each begins a file: what is old may go
        Started(tmp_path / "onceflow", retention=timedelta(days=7)).finish(epoch)
    assert audited(tmp_path, anchor) == []


def test_what_is_let_go_is_old_to_an_auditor_whose_clock_is_behind(tmp_path):
    """By minutes: he is on another machine."""
    of_job = datetime.now(UTC) + timedelta(minutes=5)
    clock = iter([of_job - timedelta(days=7, minutes=1)] * 3)
    first = Started(tmp_path / "onceflow", retention=timedelta(days=7), now=lambda: next(clock))
    first.finish(0, 1)
    anchor = first.journal.anchor().encode()
    for epoch in (2, 3):
        Started(tmp_path / "onceflow", retention=timedelta(days=7), now=lambda: of_job).finish(epoch)
    assert audited(tmp_path, anchor) == []


def audited(folder, anchor):
    """What the audit says of a trail and an anchor."""
    findings = Findings()
    there = audit_chain.read(OnDisk(folder), findings, retention=timedelta(days=7))
    check(Anchors(InFile(folder), [("line 1", anchor)], "copy", None, timedelta(days=7)), there, findings)
    return [each.what for each in findings.found if each.kind == "receipt"]


@pytest.mark.parametrize("change", [{"job": None}, {"name": None}, {"sinks": []}, {"sinks": {"s": []}}])
def test_a_start_goes_on_behind_what_is_no_receipt(tmp_path, change):
    """Hashed anew, as anybody can: what the next receipt and the anchor are made of may be anything there."""
    Started(tmp_path, key=b"k" * 32).finish(0, 1)
    (path,) = (tmp_path / "audit").iterdir()
    first, last = path.read_text().splitlines()
    body = {name: value for name, value in (json.loads(last) | change).items() if value is not None}
    path.write_text(f"{first}\n{trail_module.seal(body, None)}\n")
    started = Started(tmp_path, key=b"k" * 32)
    assert json.loads(started.journal.anchor())["number"] == 1
    started.finish(2)
    assert json.loads(started.journal.anchor())["number"] == 3


def test_a_receipt_is_of_what_replays_and_choices_have_left(tmp_path):
    """It is written when the epoch is finished: with the participants that count, and who chose what."""
    job = Started(tmp_path)
    lost = participant(0)
    job.append(decide(0))
    job.append(Resolve(1, 0, "write-again", (lost.id,), "ann", "seen"))
    job.append(ReplayBegin(1, 0, 1))
    job.append(Replay(1, 0, 1, "whole", (participant(7),)))
    job.journal.purge()
    job.finish(1)
    first, second = chain(tmp_path)
    assert [p["handle"] for p in first["participants"]] == ["x@7/0"]
    assert first["replays"] == 1
    assert first["choices"] == [
        {"choice": "write-again", "participants": [list(lost.id)], "who": "ann", "why": "seen", "epoch": 0}
    ]
    assert (first["places"], second["choices"]) == ([3, 6], [])


def test_a_receipt_says_which_code_made_the_rows(tmp_path):
    """Of an edited job whose layout is the same, the new hash and columns; of a decision of before, the old ones.

    Of an epoch of which some rows are of each, nothing is said of how digests are made.
    """
    old = Started(tmp_path)
    old.finish(0)
    old.append(decide(1))
    edited = ABOUT.replace("c0de", "ed17ed").replace('"columns": []', '"columns": [["value", "binary"]]')
    new = Started(tmp_path, about=edited)
    new.journal.keep_receipts()
    new.finish(2)
    two = participant(3), participant(4)
    new.append(Decide(2, 3, offsets(99), ("s",), two))
    newest = Started(tmp_path)
    newest.append(ReplayBegin(3, 3, 1))
    newest.append(Replay(3, 3, 1, "parts", (participant(9),), (two[0].id,)))
    newest.journal.purge()
    assert [(r["epoch"], r["code"]) for r in chain(tmp_path)] == [(0, "c0de"), (1, "c0de"), (2, "ed17ed"), (3, "c0de")]
    assert [r["sinks"]["s"].get("columns") for r in chain(tmp_path)] == [[], [], [["value", "binary"]], None]


def test_a_death_between_decision_and_receipt_is_repaired_by_the_next_start(tmp_path):
    """The decision of the last epoch is there and its receipt is not: the next start makes it, from the journal."""
    dead = Started(tmp_path)
    dead.finish(0, 1)
    dead.append(decide(2))
    later = Started(tmp_path)
    later.journal.keep_receipts()
    later.finish(3)
    found = chain(tmp_path)
    assert [(r["number"], r["epoch"], r["incarnation"]) for r in found] == [(1, 0, 1), (2, 1, 1), (3, 2, 1), (4, 3, 2)]


@pytest.mark.parametrize("cut", [1, 20, "all"])
def test_a_line_that_a_power_cut_has_torn_is_written_again(tmp_path, cut):
    """Nobody mends another start's file: the new one joins at the last whole line, and makes the rest anew."""
    Started(tmp_path).finish(0, 1)
    (file,) = (tmp_path / "audit").iterdir()
    file.write_bytes(b"" if cut == "all" else file.read_bytes()[:-cut])
    Started(tmp_path).finish(2)
    assert [(r["number"], r["epoch"]) for r in chain(tmp_path)] == [(1, 0), (2, 1), (3, 2)]


def test_a_replaced_driver_that_goes_on_writes_into_its_own_file(tmp_path):
    """It has finished an epoch when a newer start takes over; both tell of it, and one chain holds each epoch once."""
    old = Started(tmp_path)
    old.finish(0)
    old.append(decide(1))
    new = Started(tmp_path)
    new.finish(2)
    old.journal.keep_receipts()
    new.finish(3)
    assert [r["epoch"] for r in chain(tmp_path)] == [0, 1, 2, 3]
    assert len(list((tmp_path / "audit").iterdir())) == 2


def test_no_record_is_purged_before_its_receipt_is_there(tmp_path):
    """While the trail's disk is full the journal keeps everything, and the job goes on; then all receipts are made."""

    class Full(Store):
        full = False

        def append(self, name, data):
            if Full.full:
                super().append(name, data[:30])  # what fits
                raise CheckpointStoreError("no space")
            super().append(name, data)

    job = Started(tmp_path, retain=2, store=Full)
    job.finish(0)
    Full.full = True
    job.finish(*range(1, 8))
    assert [e.record.epoch for e in job.journal.read() if isinstance(e.record, Decide)] == list(range(8))
    assert job.journal.receipts() == []
    Full.full = False
    job.finish(*range(8, 12))
    assert [r["epoch"] for r in chain(tmp_path)] == list(range(12))
    assert job.journal.receipts() != []


def test_what_is_purged_is_synced_before(tmp_path):
    """A power cut takes what nobody has synced: a record goes only behind the sync of its receipt."""
    calls = []

    class Watched(Store):
        def append(self, name, data):
            calls.append("append")
            super().append(name, data)

        def sync(self, name=None):
            calls.append("sync")
            super().sync(name)

    job = Started(tmp_path, retain=2, store=Watched)
    for epoch in range(8):
        job.append(decide(epoch))
        before = len(job.journal.read())
        job.journal.purge()
        if len(job.journal.read()) < before:
            assert calls[-1] == "sync"
    assert "sync" in calls
    assert calls.count("append") == 8


def test_files_rotate_and_old_ones_go(tmp_path, monkeypatch):
    """A file ends when it is full; with its newest receipt older than the retention it goes, and the chain goes on."""
    monkeypatch.setattr(trail_module, "_FULL", 3)
    clock = [datetime(2026, 1, 1, tzinfo=UTC)]

    job = Started(tmp_path, retention=timedelta(days=2) - trail_module._LATER, now=lambda: clock[0])
    for epoch in range(12):
        job.finish(epoch)
        clock[0] += timedelta(hours=12)
    found = chain(tmp_path)
    assert [r["epoch"] for r in found] == list(range(6, 12))
    assert found[0]["before_at"] < "2026-01-04"
    assert [path.suffix for path in sorted((tmp_path / "audit").iterdir())] == [".gz", ".jsonl"]


def test_a_packed_file_that_is_spoiled_stops_no_epoch(tmp_path, monkeypatch):
    """What was in it is missed by the audit; the job goes on, over starts too."""
    monkeypatch.setattr(trail_module, "_FULL", 3)
    clock = [datetime(2026, 1, 1, tzinfo=UTC)]
    how = {"retention": timedelta(days=2), "now": lambda: clock[0]}
    job = Started(tmp_path, **how)
    for epoch in range(4):
        job.finish(epoch)
    (packed,) = (tmp_path / "audit").glob("*.gz")
    packed.write_bytes(packed.read_bytes()[:-5])
    for epoch in range(4, 12):
        job.finish(epoch)
        clock[0] += timedelta(hours=12)
    assert [r["epoch"] for r in chain(tmp_path)][-1] == 11


@pytest.mark.parametrize("dies", ["create", "remove"])
def test_a_death_while_a_full_file_is_packed_loses_nothing(tmp_path, monkeypatch, dies):
    """It is there plain, or plain and packed: a reader takes it once, and the next start goes on behind it."""
    monkeypatch.setattr(trail_module, "_FULL", 3)

    class Dying(Store):
        def create(self, name, data):
            if dies == "create":
                raise Died
            super().create(name, data)

        def remove(self, name):
            raise Died

    with pytest.raises(Died):
        Started(tmp_path / "onceflow", store=Dying).finish(0, 1, 2, 3)
    later = Started(tmp_path / "onceflow")
    later.journal.keep_receipts()
    later.finish(4)
    assert [r["epoch"] for r in chain(tmp_path / "onceflow")] == [0, 1, 2, 3, 4]
    findings = Findings()
    assert [r["epoch"] for r in audit_chain.read(OnDisk(tmp_path), findings).receipts] == [0, 1, 2, 3, 4]
    assert findings.found == []


class Died(BaseException):
    """The process was killed here."""


def test_a_trail_that_begins_late_does_not_know_where_its_first_range_begins(tmp_path):
    """The journal has forgotten what came before: the range's beginning is null, and no guess."""
    records = Store(tmp_path / "journal")
    records.make()
    before = Journal(records, retain=2)
    before.start(JOB)
    for epoch in range(6):
        before.append(decide(epoch))
        before.purge()
    Started(tmp_path).finish(6)
    found = chain(tmp_path)
    assert found[0]["number"] == 1
    assert {at for _, _, _, at, _ in found[0]["sources"][0]["ranges"]} == {None}
    assert found[1]["sources"][0]["start"] == found[0]["sources"][0]["end"]


def test_the_settings_of_receipts(tmp_path):
    """A retention without a unit we know, and a key that is none, are refused before a start touches anything."""
    key = tmp_path / "key"
    key.write_text("0123456789abcdef0123456789abcdef\n")
    told = Auditing.from_environment({"ONCEFLOW_AUDIT_RETENTION": "12 h", "ONCEFLOW_AUDIT_KEY_FILE": str(key)})
    assert (told.retention, told.key) == (timedelta(hours=12), b"0123456789abcdef0123456789abcdef")
    assert "0123" not in repr(told)
    assert Auditing.from_environment({}) == Auditing(timedelta(days=7))
    with pytest.raises(ConfigurationError, match=r"audit\.retention.*is no duration"):
        Auditing.from_environment({"ONCEFLOW_AUDIT_RETENTION": "soon"})
    key.write_text("short")
    for path, why in [(key, "5 bytes"), (tmp_path / "none", "No such file")]:
        with pytest.raises(ConfigurationError, match=why):
            Auditing.from_environment({"ONCEFLOW_AUDIT_KEY_FILE": str(path)})
