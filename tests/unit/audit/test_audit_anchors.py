"""Anchors: what somebody who has the key and can write to the checkpoint cannot undo, and who may anchor what."""

import json
import os
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from onceflow.audit.anchors import Anchors, InFile, check, read
from onceflow.audit.chain import Chain
from onceflow.audit.chain import read as chain_of
from onceflow.audit.files import OnDisk
from onceflow.audit.findings import Findings
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.trail import Trail, seal
from onceflow.errors import ConfigurationError
from onceflow.execution.anchoring import Anchoring, begun, place_for
from onceflow.options.auditing import Auditing, advise
from onceflow.storage.store import Store
from tests.support.audited_table import JOB, Filled, whats
from tests.support.keyed_rows import KEY

EPOCHS = (["a", "bb", "ccc"], ["dddd"], ["é", "", "g"])


class Anchored(Filled):
    """A job that anchors its receipts in a file, behind each epoch."""

    def __init__(self, folder):
        self.file = folder / "append-only"
        self.told = Auditing.from_environment({"ONCEFLOW_AUDIT_ANCHOR": str(self.file)})
        self.anchoring = None
        super().__init__(folder / "checkpoint", f"sqlite:///{folder / 'bank.db'}", *EPOCHS, audit_key=KEY)

    def epoch(self, number, keys, **more):
        super().epoch(number, keys, **more)
        self.anchoring = self.anchoring or begun(self.journal, self.told, [], "bank")
        self.anchoring.go_on()

    def audit(self, **asked):
        return super().audit(**{"key": KEY, "anchors": InFile(self.file)} | asked)

    @property
    def trail(self):
        (file,) = (self.folder / "onceflow" / "audit").iterdir()
        return file

    def bodies(self):
        return [json.loads(line) for line in self.trail.read_text().splitlines()]

    def write_anew(self, bodies):
        """A chain of these receipts as the job's own key makes it."""
        before, lines = None, []
        for body in bodies:
            told = {name: value for name, value in body.items() if name not in ("hash", "signature")}
            told |= {} if before is None else {"before": before["hash"]}
            lines.append(seal(told, KEY))
            before = json.loads(lines[-1])
        self.trail.write_text("".join(line + "\n" for line in lines))

    def forget(self):
        for path in (self.folder / "onceflow" / "journal").glob("*.json"):
            path.unlink()

    def lines(self):
        return [line for line in self.file.read_text().splitlines() if line]

    def add(self, line):
        self.file.write_text(self.file.read_text() + line + "\n")


@pytest.fixture
def anchored(tmp_path):
    return Anchored(tmp_path)


def test_what_is_anchored_is_proven_up_to_its_newest_anchor(anchored):
    """A line for each receipt that was the newest, signed; the verdict names the last one that is sure."""
    lines = [json.loads(line) for line in anchored.lines()]
    assert [line["number"] for line in lines] == [1, 2, 3]
    assert [line["hash"] for line in lines] == [body["hash"] for body in anchored.bodies()]
    assert anchored.file.stat().st_mode & 0o777 == 0o600
    report = anchored.audit()
    assert (report["findings"], report["anchored"]) == ([], 3)
    assert report["against"] == "accidents, and people without the key who cut nothing behind receipt 3"


def test_a_receipt_is_anchored_once(anchored):
    """Nothing was decided since: the place grows by receipts, and not by time."""
    before = anchored.file.read_text()
    anchored.anchoring.go_on()
    assert anchored.file.read_text() == before


def test_an_end_that_was_cut_off_with_its_rows_is_found(anchored):
    """By somebody who has the key: all that is left is as its receipts have it."""
    with sqlite3.connect(anchored.url.removeprefix("sqlite:///")) as connection:
        for key in EPOCHS[2]:
            assert connection.execute("delete from payments where key = ?", [key]).rowcount == 1
        connection.execute("delete from onceflow_ledger where epoch = 2")
    anchored.forget()
    anchored.write_anew(anchored.bodies()[:2])
    assert anchored.audit(anchors=None)["good"]
    report = anchored.audit()
    assert not report["good"]
    (told,) = whats(report, "receipt")
    assert "receipt 3 with hash" in told
    assert "append-only line 6" in told
    assert told.endswith("is gone: the chain ends at receipt 2")


def test_a_chain_that_was_written_anew_by_the_key_is_found(anchored):
    """Each receipt has its hash, names the one before it and is signed; the anchors name others."""
    bodies = anchored.bodies()
    anchored.write_anew([bodies[0], bodies[1] | {"code": "another"}, bodies[2]])
    assert anchored.audit(anchors=None)["good"]
    told = whats(anchored.audit(), "receipt")
    assert [text.partition(" with")[0] for text in told] == ["receipt changed: receipt 2", "receipt changed: receipt 3"]


def test_an_anchor_of_the_chain_that_was_written_anew_contradicts_the_one_before(anchored):
    """Who has the job's login appends one: the older one stands."""
    bodies = anchored.bodies()
    anchored.write_anew([bodies[0], bodies[1], bodies[2] | {"code": "another"}])
    anchored.add(Trail(Store(anchored.folder / "onceflow" / "audit"), key=KEY).anchor())
    told = whats(anchored.audit(), "receipt")
    assert len(told) == 2
    assert "before that" in told[1]


def test_all_receipts_gone_are_found(anchored):
    """Whoever removes them all leaves no job to look for: each signed anchor is told."""
    anchored.trail.unlink()
    report = anchored.audit()
    assert not report["good"]
    assert any("no receipt is there" in text for text in whats(report, "receipt"))


def test_lines_of_others_and_torn_ones_are_passed_over(anchored):
    """Jobs may share a place; what is signed by nobody says nothing, and is told."""
    first, *_ = anchored.lines()
    anchored.add(json.dumps(json.loads(first) | {"job": "b" * 12, "name": "another"}))
    anchored.add(first[:40])
    anchored.add("[" * 100_000)
    assert anchored.audit()["findings"] == []
    anchored.add(json.dumps(json.loads(first) | {"number": 9}))
    report = anchored.audit()
    assert whats(report, "unknown") == [
        f"1 anchors at {anchored.file} are not signed with this key, and were passed over"
    ]
    assert (report["good"], report["against"]) == (True, "accidents")


def test_another_job_of_the_same_name_is_told(anchored):
    """A checkpoint in the place of another one would else be good."""
    (file,) = (anchored.folder / "onceflow" / "audit").iterdir()
    body = anchored.bodies()[0] | {"job": "b" * 12}
    trail = anchored.folder.parent / "other" / "onceflow" / "audit"
    trail.mkdir(parents=True)
    told = {name: value for name, value in body.items() if name not in ("hash", "signature")}
    (trail / file.name).write_text(seal(told, KEY) + "\n")
    anchored.add(Trail(Store(trail), key=KEY).anchor())
    (told,) = whats(anchored.audit(), "unknown")
    assert told.startswith(f"job {'b' * 12} of the same name has anchored receipts up to 1")


def test_a_place_that_cannot_be_read_or_has_nothing_is_told(anchored, tmp_path):
    """The verdict claims nothing that hangs on it."""
    report = anchored.audit(anchors=InFile(tmp_path / "nothing"))
    assert "were not all read: FileNotFoundError" in whats(report, "unknown")[0]
    anchored.file.write_text("")
    report = anchored.audit()
    assert whats(report, "unknown") == [f"no anchor at {anchored.file} names a receipt that is here"]
    assert report["against"] == "accidents"


def cut(anchored, *epochs):
    """Take rows out, with their entries in the ledger and the journal."""
    with sqlite3.connect(anchored.url.removeprefix("sqlite:///")) as connection:
        for epoch in epochs:
            for key in EPOCHS[epoch]:
                assert connection.execute("delete from payments where key = ?", [key]).rowcount == 1
            connection.execute("delete from onceflow_ledger where epoch = ?", [epoch])
    anchored.forget()


def anchor_again(anchored):
    """The job's next anchor."""
    anchored.add(Trail(Store(anchored.folder / "onceflow" / "audit"), key=KEY).anchor())


def test_a_receipt_out_of_the_middle_is_found_though_numbers_jump_over_it(anchored):
    """The one behind it names the one before, with another number: by anchors, by what was noted, and by itself."""
    bodies = anchored.bodies()
    noted = 2, bodies[1]["hash"]
    cut(anchored, 1)
    anchored.write_anew([bodies[0], bodies[2] | {"number": 4}])
    for asked in ({}, {"anchors": None, "after": noted}, {"anchors": None}):
        report = anchored.audit(**asked)
        assert not report["good"], asked
        assert any("removed" in told for told in whats(report, "receipt")), asked
    anchor_again(anchored)
    assert not anchored.audit()["good"]


def test_a_number_that_does_not_grow_by_one_is_told(anchored):
    bodies = anchored.bodies()
    anchored.write_anew([bodies[0], bodies[1] | {"number": 7}, bodies[2] | {"number": 5}])
    assert len([t for t in whats(anchored.audit(anchors=None), "receipt") if "numbered anew" in t]) == 2
    anchored.write_anew([body | {"number": n} for n, body in zip((-4, -3, -2), bodies, strict=True)])
    assert "is no receipt any more" in whats(anchored.audit(anchors=None), "receipt")[0]


def test_a_head_that_is_said_to_be_let_go_is_measured_by_the_anchors(anchored):
    """How old receipts were that are not there is the checkpoint's own word; when they were anchored is not."""
    bodies = anchored.bodies()
    noted = 3, bodies[2]["hash"]
    cut(anchored, 0, 1)
    old = (datetime.now(UTC) - timedelta(days=9)).isoformat(timespec="milliseconds")
    anchored.write_anew([bodies[2] | {"number": 4, "before": "0" * 64, "before_at": old}])
    anchor_again(anchored)
    report = anchored.audit(retention=timedelta(days=7))
    assert len([told for told in whats(report, "receipt") if told.startswith("receipt removed")]) == 3
    report = anchored.audit(retention=timedelta(days=7), anchors=None, after=noted)
    assert any("the checkpoint's own word" in told for told in whats(report, "unknown"))
    assert report["against"] == "accidents"


def test_a_torn_anchor_takes_no_other_one_with_it(anchored):
    """Whoever anchors next begins a line of his own."""
    lines = anchored.lines()
    anchored.file.write_text(lines[0] + "\n" + lines[1][:50])
    begun(anchored.journal, anchored.told, [], "bank")
    report = anchored.audit()
    assert (report["findings"], report["anchored"]) == ([], 3)


def test_a_line_that_another_one_tore_takes_no_anchor_with_it(anchored):
    """Whose disk was full, or who did it on purpose: jobs may share a place, and this one's last line was whole."""
    anchored.epoch(3, ["h"])
    with anchored.file.open("a") as file:
        file.write('{"anchor":1,"job')
    anchored.epoch(4, ["i"])
    report = anchored.audit()
    assert (report["findings"], report["anchored"]) == ([], 5)


def test_another_jobs_anchors_in_a_shared_place_are_nobodys_before_there_is_a_receipt(anchored, tmp_path):
    report = anchored.audit(anchors=None)
    findings = Findings()
    told = Anchors(InFile(anchored.file), read(InFile(anchored.file), findings), "another", KEY)
    check(told, Chain(), findings)
    assert (report["good"], findings.found) == (True, [])


def test_receipts_that_somebody_made_count_no_more_leave_rows_that_are_foreign(anchored):
    """A copy of an older line in a file of a later start: what stood behind it is of no epoch that counts."""
    line = anchored.trail.read_text().splitlines(keepends=True)[1]
    anchored.trail.with_name("0000000099-abcdef01-000001.jsonl").write_text(line)
    found = chain_of(OnDisk(anchored.folder), Findings(), key=KEY)
    assert [body["number"] for body in found.receipts] == [1, 2]
    assert {p["handle"] for p in found.others}.isdisjoint({p["handle"] for p in found.superseded[-1]["participants"]})


def test_a_chain_of_another_job_in_the_place_of_this_one_is_told(anchored):
    """Its end cut off, and its id another one: the anchors are of the name that is audited."""
    bodies = anchored.bodies()
    cut(anchored, 2)
    anchored.write_anew([body | {"job": "c" * 12, "name": "another"} for body in bodies[:2]])
    assert any("of another job" in told for told in whats(anchored.audit(), "receipt"))


def test_what_was_written_in_part_is_told(anchored, monkeypatch):
    """A disk that is nearly full."""
    whole = os.write
    monkeypatch.setattr(os, "write", lambda file, data: whole(file, data[:20]))
    with pytest.raises(ConfigurationError, match="a part of a line only"):
        place_for(anchored.told, [])("a line that is longer than twenty bytes")


def test_a_start_that_was_replaced_anchors_nothing(anchored):
    """Its receipts may not count: what is anchored is in the chain for ever."""
    newer = Journal(Store(anchored.folder / "onceflow" / "journal"))
    newer.start(JOB)
    assert anchored.journal.anchor() == ""
    newer.audited(Trail(Store(anchored.folder / "onceflow" / "audit"), key=KEY), "")
    assert json.loads(newer.anchor())["number"] == 3


@pytest.mark.parametrize("how", ["a link", "no folder", "a folder", "a pipe"])
def test_a_place_that_takes_no_anchor_ends_the_start(anchored, tmp_path, how):
    """No link of somebody else's is followed; whoever set the place wants to know before an epoch runs."""
    path = tmp_path / {"a link": "link", "no folder": "none/file", "a folder": "", "a pipe": "pipe"}[how]
    if how == "a pipe":  # that nobody reads: to open it would wait for ever
        os.mkfifo(path)
    if how == "a link":
        path.symlink_to(tmp_path / "victim")
    with pytest.raises(ConfigurationError, match="takes no anchor") as told:
        begun(anchored.journal, Auditing.from_environment({"ONCEFLOW_AUDIT_ANCHOR": str(path)}), [], "bank")
    assert str(path) in told.value.cause
    assert not (tmp_path / "victim").exists()


def test_a_job_goes_on_while_its_anchors_wait(anchored, caplog):
    """Told once; the next anchor stands for those that are missing."""
    told, broken = [], [True]

    def append(line):
        if broken[0]:
            raise ConfigurationError("no room", cause="c", action="a")
        told.append(json.loads(line)["number"])

    anchoring = Anchoring(anchored.journal, append, "bank")
    for _ in range(3):
        anchoring.go_on()
    assert sum("wait for their anchor" in record.message for record in caplog.records) == 1
    broken[0] = False
    anchoring.go_on()
    assert told == [3]


@pytest.mark.parametrize("given", ["relative/file", "topic:"])
def test_a_place_that_is_none_is_refused(given):
    with pytest.raises(ConfigurationError, match="cannot be anchored at"):
        Auditing.from_environment({"ONCEFLOW_AUDIT_ANCHOR": given})


def test_a_topic_needs_a_sink_of_kafka():
    told = Auditing.from_environment({"ONCEFLOW_AUDIT_ANCHOR": "topic:anchors"})
    assert (told.anchor_topic, told.anchor_file) == ("anchors", None)
    with pytest.raises(ConfigurationError, match="no sink of the job writes to Kafka"):
        place_for(told, [])
    assert place_for(Auditing.from_environment({}), []) is None


@pytest.mark.parametrize(
    ("preset", "given", "told"),
    [
        ("finance", [], "ONCEFLOW_AUDIT_KEY_FILE and ONCEFLOW_AUDIT_ANCHOR are not set"),
        ("finance", ["ONCEFLOW_AUDIT_KEY_FILE"], "ONCEFLOW_AUDIT_ANCHOR is not set"),
        ("finance", ["ONCEFLOW_AUDIT_KEY_FILE", "ONCEFLOW_AUDIT_ANCHOR"], ""),
        ("logs", [], ""),
    ],
)
def test_money_without_key_or_anchor_is_warned_of(preset, given, told, caplog):
    """A preset can choose neither a key nor a place: it says what it goes with."""
    advise(preset, dict.fromkeys(given, "/x"))
    assert told in caplog.text
    assert bool(caplog.records) == bool(told)
