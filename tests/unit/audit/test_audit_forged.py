"""What somebody who can write to everything but has no key can make an audit believe: nothing of it passes for good."""

import json
import shutil
import sqlite3

import pytest

from onceflow.audit import topics
from onceflow.audit.cluster import Topic
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.trail import Trail, digest
from onceflow.storage.store import Store
from onceflow.twophase.participants import Part, Participant
from onceflow.twophase.records import Decide
from tests.support.audited_table import FIELDS, JOB, Filled, hashed, whats
from tests.support.keyed_rows import KEY, kept, of_rows

EPOCHS = (["a", "bb", "ccc"], ["dddd"], ["é", "", "g"])
OTHER = b"another key of the same thirty-two"


@pytest.fixture
def filled(tmp_path):
    return Filled(tmp_path / "checkpoint", f"sqlite:///{tmp_path / 'bank.db'}", *EPOCHS, audit_key=KEY)


def at(filled, *statements):
    with sqlite3.connect(filled.url.removeprefix("sqlite:///")) as connection:
        for statement in statements:
            assert connection.execute(statement).rowcount == 1


def receipts(filled):
    (file,) = (filled.folder / "onceflow" / "audit").iterdir()
    return file.read_text().splitlines()


def lines(filled, change):
    """Rewrite the trail's only file, line by line."""
    (file,) = (filled.folder / "onceflow" / "audit").iterdir()
    file.write_text("".join(line + "\n" for line in change(file.read_text().splitlines())))


def entry(epoch, row, hash_):
    return f"insert into onceflow_ledger values ('{JOB}', 'payments', {epoch}, 1, 'handle', {row}, {hash_})"


def test_a_table_with_keyed_digests_is_proven_against_people(filled):
    """All its rows are seen by the key; without the key by their hashes alone."""
    report = filled.audit(key=KEY)
    assert (report["findings"], report["keyed"]) == ([], 7)
    assert report["against"].endswith("people without the key who cut nothing off the end (no anchor, no --after)")
    noted = 2, json.loads(receipts(filled)[1])["hash"]
    assert filled.audit(key=KEY, after=noted)["against"].endswith("without the key who cut nothing behind receipt 2")
    report = filled.audit()
    assert (report["good"], report["keyed"], report["against"]) == (True, 0, "accidents")


def test_an_epoch_that_the_journal_alone_has_is_not_believed(filled):
    """A row, its entry in the ledger, and a decision in the journal, which nobody signs: with the key it is told.

    The newest epoch of a job that runs has no receipt either, so it is unknown, and no difference.
    """
    row = hashed("thief", 5)
    part = Part("payments", 0, 1, row & (1 << 64) - 1)
    made = Participant("payments", "handle", (part,), {"attempts": [[0, 0, row & (1 << 64) - 1]]})
    filled.journal.append(Decide(1, 3, 'v1\n{}\n{"in":{"0":3}}', ("payments",), (made,)))
    at(filled, "insert into payments values ('thief', 5)", entry(3, 1, row & (1 << 64) - 1))
    report = filled.audit(key=KEY)
    assert (report["keyed"], report["unknown"], report["against"]) == (0, 7, "accidents")
    assert "its rows are not compared by the key" in whats(report, "unknown")[0]


@pytest.mark.parametrize("cut", ["gone", "torn", "of another form"])
def test_an_end_that_was_cut_off_with_its_rows_is_found_by_the_receipt_that_was_noted(filled, cut):
    """Its rows, the ledger's entry and the journal are gone as well: the rest is as its receipts have it.

    So it is good, and the claim names the cut; who has noted the last receipt finds it.
    """
    at(filled, *(f"delete from payments where key = '{key}'" for key in EPOCHS[2]))
    at(filled, "delete from onceflow_ledger where epoch = 2")
    for path in (filled.folder / "onceflow" / "journal").glob("*.json"):
        path.unlink()
    last = json.loads(receipts(filled)[-1])
    end = {"gone": lambda _: [], "torn": lambda line: [line[:40]], "of another form": lambda _: ["[]"]}[cut]
    lines(filled, lambda held: [*held[:-1], *end(held[-1])])
    assert "cut nothing behind" not in filled.audit(key=KEY)["against"]
    report = filled.audit(key=KEY, after=(last["number"], last["hash"]))
    assert (report["good"], report["against"]) == (False, "accidents")
    assert [t for t in whats(report, "receipt") if "receipt 3" in t]


def test_a_total_of_the_receipts_that_was_rewritten_is_found(filled):
    """A copy of an older one, by somebody who cannot make one: the receipt is not signed as it stands."""

    def copied(held):
        bodies = [json.loads(line) for line in held]
        bodies[-1]["sinks"]["payments"]["total"] = bodies[-2]["sinks"]["payments"]["total"]
        bodies[-1]["hash"] = digest(bodies[-1])
        return [*held[:-1], json.dumps(bodies[-1])]

    lines(filled, copied)
    report = filled.audit(key=KEY)
    assert not report["good"]
    assert [t for t in whats(report, "receipt") if "signed with another key, or changed: receipt 3" in t]


@pytest.mark.parametrize("total", [7, "seven", [], [1, 2, 3], ["1", "f" * 64, "id"], {"rows": 1}, [None, None, None]])
def test_a_start_goes_on_behind_a_total_that_is_none(filled, total, tmp_path):
    """The newest receipt may be anybody's: the count begins anew behind it, and the audit says that the two differ."""

    def changed(held):
        body = json.loads(held[-1])
        body["sinks"]["payments"]["total"] = total
        body["hash"] = digest(body)
        return [*held[:-1], json.dumps(body)]

    lines(filled, changed)
    again = tmp_path / "again"
    shutil.copytree(filled.folder / "onceflow", again / "onceflow")
    filled.folder = again
    filled.journal = Journal(Store(again / "onceflow" / "journal"))
    history = filled.journal.start(JOB)
    assert history is not None
    about = json.dumps({"sinks": {"payments": {"destination": "payments", "columns": [], "fields": []}}})
    trail = Trail(Store(again / "onceflow" / "audit"), key=KEY)
    filled.journal.audited(trail, about)
    filled.epoch(3, ["hh"])
    newest = max((again / "onceflow" / "audit").iterdir()).read_text().splitlines()[-1]
    assert json.loads(newest)["sinks"]["payments"]["total"][0] == 1
    assert not filled.audit(key=KEY)["good"]


def test_behind_a_change_of_the_key_rows_of_before_are_not_proven_by_it(tmp_path):
    """The total begins anew under the new key: it is of other rows than the table's. It is said, and no difference."""
    made = Filled(tmp_path / "checkpoint", f"sqlite:///{tmp_path / 'bank.db'}", *EPOCHS[:2], audit_key=OTHER)
    made.audit_key = KEY
    about = json.dumps({"sinks": {"payments": {"destination": "payments", "columns": [], "fields": fields_of(made)}}})
    made.journal.audited(Trail(Store(made.folder / "onceflow" / "audit"), key=KEY), about)
    made.epoch(2, EPOCHS[2])
    report = made.audit(key=KEY)
    assert report["against"] == "accidents"
    assert [t for t in whats(report, "unknown") if "the key is younger than some" in t]
    assert not whats(report, "changed")


def fields_of(made):
    return json.loads(receipts(made)[0])["sinks"]["payments"]["fields"]


def body(sink, rows, key=KEY):
    """A receipt with one transaction: the same producer in whichever cluster."""
    witness = {"topic": "t", "partition": 0, "offset": 1, "topic_id": "id"}
    told = {"witness": witness, "producer_id": 4000, "producer_epoch": 0, "partitions": [["t", 0]]}
    made = kept(key, JOB, of_rows(key, JOB, [[b"x"]] * rows))
    p = {"sink": sink, "handle": "h", "rows": rows, "digest": f"{rows:016x}", "keyed": made, "transaction": told}
    return {"job": JOB, "epoch": 0, "number": 1, "participants": [p], "sinks": {}, "choices": []}


def test_one_producer_id_in_two_clusters_is_two_producers():
    """Each cluster gives ids by itself: the rows of one never pass for those of the other."""
    both = body("a", 1) | {"participants": [*body("a", 1)["participants"], *body("b", 2)["participants"]]}
    for sink, rows in (("a", 1), ("b", 2)):
        (found,) = topics.transactions([both], {sink}, KEY).values()
        assert (found.sink, found.rows) == (sink, rows)


def test_the_trail_of_another_job_with_the_same_key_is_told(tmp_path):
    """Put in the place of this one's, with its rows: it is whole and signed, and proves nothing of this job."""
    made = Filled(tmp_path / "checkpoint", f"sqlite:///{tmp_path / 'bank.db'}", audit_key=KEY)
    about = {"name": "trial", "sinks": {"payments": {"destination": "payments", "columns": [], "fields": FIELDS}}}
    made.journal.audited(Trail(Store(made.folder / "onceflow" / "audit"), key=KEY), json.dumps(about))
    made.epoch(0, EPOCHS[0])
    assert made.audit(key=KEY, job="trial")["findings"] == []
    report = made.audit(key=KEY, job="bank")
    assert report["against"] == "accidents"
    assert "the newest receipt is of job trial, and bank is audited" in whats(report, "unknown")[0]


def test_a_sink_of_kafka_that_was_renamed_has_its_older_transactions_still():
    """By the topic's id: one of another cluster may have its name."""
    (old,) = topics.transactions([body("old", 1)], {"old"}, KEY).values()
    ends = object.__new__(topics.Ends)
    for of, same in (("id", True), ("another", False)):
        ends.topics = {"t": Topic("t", of, {0: 1})}
        assert ends.has(old) == same
    ends.topics = {"t": None}
    assert not ends.has(old)
