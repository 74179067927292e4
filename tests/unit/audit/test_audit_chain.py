"""The audit of the chain: each receipt that was changed, removed or moved is found and named."""

import gzip
import json
import tracemalloc
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onceflow.audit import chain
from onceflow.audit.files import OnDisk
from onceflow.audit.findings import Findings
from onceflow.audit.verify import Asked, audit
from onceflow.checkpoint import trail
from onceflow.cli.audit import Elsewhere
from onceflow.storage.store import Store
from onceflow.twophase.records import Resolve
from tests.support.chains import changes, seal
from tests.support.trails import Started, decide

KEY = b"0123456789abcdef"


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint with six receipts of two starts."""
    made = tmp_path / "onceflow"
    Started(made, key=KEY).finish(0, 1, 2)
    Started(made, key=KEY).finish(3, 4, 5)
    return tmp_path


def audited(checkpoint, **asked):
    findings = Findings()
    found = chain.read(OnDisk(checkpoint), findings, **asked)
    return [body["epoch"] for body in found.receipts], findings


def told(checkpoint, **asked):
    """What is said of the chain itself."""
    return [each.what for each in audited(checkpoint, **asked)[1].found if each.kind == "receipt"]


def newest(checkpoint):
    return max((checkpoint / "onceflow" / "audit").iterdir())


def rewrite(path, change):
    lines = path.read_text().splitlines()
    path.write_text("".join(line + "\n" for line in change(lines)))


def forget_the_journal(checkpoint):
    """As it is when enough epochs have passed: only the chain itself can tell."""
    for path in (checkpoint / "onceflow" / "journal").glob("*.json"):
        path.unlink()


def test_a_whole_chain_is_good(checkpoint):
    """Over two starts, with and without the key."""
    for key in (KEY, None):
        epochs, findings = audited(checkpoint, key=key)
        assert epochs == [0, 1, 2, 3, 4, 5]
        assert findings.found == []


@pytest.mark.parametrize("with_journal", [True, False])
def test_a_changed_receipt_is_found(checkpoint, with_journal):
    """One digit of it: it does not have its hash any more."""
    rewrite(newest(checkpoint), lambda lines: [lines[0], lines[1].replace('"rows":3', '"rows":4'), lines[2]])
    if not with_journal:
        forget_the_journal(checkpoint)
    assert told(checkpoint)[0].startswith("receipt changed: receipt 5 (epoch 4, ")


def test_a_receipt_that_was_changed_with_its_hash_is_found(checkpoint):
    """The next one does not name it any more; and it is not signed with the key."""
    changed = json.dumps(seal(json.loads(newest(checkpoint).read_text().splitlines()[1]) | {"code": "other"}))
    rewrite(newest(checkpoint), lambda lines: [lines[0], changed, lines[2]])
    assert [t for t in told(checkpoint) if "does not name receipt 5 as it is" in t]
    assert [t for t in told(checkpoint, key=KEY) if "signed with another key, or changed: receipt 5" in t]


def test_the_last_receipt_that_was_changed_with_its_hash_is_found(checkpoint):
    """Nothing names it yet: the journal still knows better, and so does the signature."""
    body = json.loads(newest(checkpoint).read_text().splitlines()[2])
    body["participants"][0]["parts"][0][1] = 2
    rewrite(newest(checkpoint), lambda lines: [*lines[:2], json.dumps(seal(body))])
    assert told(checkpoint) == ["receipt changed: receipt 6 and the journal differ about epoch 5"]
    forget_the_journal(checkpoint)
    assert told(checkpoint) == []
    assert "receipt 6" in told(checkpoint, key=KEY)[0]


@pytest.mark.parametrize(("line", "gone"), [(0, "4 to 4"), (1, "5 to 5")])
def test_a_removed_receipt_is_found(checkpoint, line, gone):
    """From the middle of the chain: the next one names one that is not there."""
    forget_the_journal(checkpoint)
    rewrite(newest(checkpoint), lambda lines: [each for n, each in enumerate(lines) if n != line])
    assert told(checkpoint)[0].startswith(f"receipt removed: {gone}, before ")


def test_the_last_receipts_that_were_removed_are_found(checkpoint):
    """Nothing names them: what the journal has decided must have its receipt, but for the newest epoch."""
    rewrite(newest(checkpoint), lambda lines: lines[:1])
    assert "epoch 4 is decided in the journal and has no receipt" in told(checkpoint)[0]
    assert len(told(checkpoint)) == 1


def test_removed_first_receipts_are_found_while_they_are_young(checkpoint):
    """What retention lets go is old; the receipt behind it says how old."""
    min((checkpoint / "onceflow" / "audit").iterdir()).unlink()
    forget_the_journal(checkpoint)
    assert "the first 3, up to" in told(checkpoint, retention=timedelta(days=1))[0]
    _, findings = audited(checkpoint)
    assert [each.kind for each in findings.found] == ["note"]


def test_reordered_receipts_are_found(checkpoint):
    """Two lines have changed their places."""
    forget_the_journal(checkpoint)
    rewrite(newest(checkpoint), lambda lines: [lines[0], lines[2], lines[1]])
    assert all(t.startswith("receipts reordered: ") for t in told(checkpoint))
    assert "receipt 6, epoch 5) stands behind receipt 4" in told(checkpoint)[0]


def test_an_epoch_that_no_receipt_covers_is_found(checkpoint):
    """Ranges follow on each other: with a receipt left out by its writer, records of the source are nowhere."""
    lines = [json.loads(line) for line in newest(checkpoint).read_text().splitlines()]
    lines[1]["sources"][0]["start"] = "{}"
    lines[1] = seal(lines[1])
    lines[2] = seal(lines[2] | {"before": lines[1]["hash"]})
    rewrite(newest(checkpoint), lambda _: map(json.dumps, lines))
    assert told(checkpoint) == ["a range is in no receipt: epoch 4 does not begin where epoch 3 ended"]


def test_a_torn_end_and_a_replaced_driver_are_no_difference(tmp_path):
    """What a power cut and two drivers leave behind is told from what somebody has changed."""
    made = tmp_path / "onceflow"
    old = Started(made)
    old.finish(0)
    old.append(decide(1))
    new = Started(made)
    new.finish(2)
    old.journal.keep_receipts()
    with newest(tmp_path).open("a") as file:
        file.write('{"format":1,"number":4')
    epochs, findings = audited(tmp_path)
    assert epochs == [0, 1, 2]
    assert [each.kind for each in findings.found] == ["note"]
    new.finish(3)


def test_a_replaced_driver_that_wrote_the_chains_first_receipt_late_is_no_difference(tmp_path):
    """It slept between the first commit and its receipt: no older one is there that the newer start could name."""
    made = tmp_path / "onceflow"
    old = Started(made)
    old.journal.keep_receipts()  # it has looked: there is none
    old.append(decide(0))
    new = Started(made)
    new.journal.keep_receipts()
    new.finish(1)
    old.journal.keep_receipts()
    assert [body["epoch"] for path in (made / "audit").iterdir() for body in map(json.loads, path.open())].count(0) == 2
    epochs, findings = audited(tmp_path)
    assert (epochs, findings.found) == ([0, 1], [])


def test_what_an_auditor_has_noted_is_found_to_be_cut_or_written_anew_by_who_has_the_key(checkpoint):
    """A tail that was cut, and a receipt signed again, look right to who looks for the first time."""
    for record in sorted((checkpoint / "onceflow" / "journal").glob("0*.json"))[1:]:
        record.unlink()
    fifth, sixth = chain.read(OnDisk(checkpoint), Findings()).receipts[-2:]
    noted = (6, sixth["hash"])
    assert told(checkpoint, key=KEY, after=noted) == []
    whole = newest(checkpoint).read_text()
    rewrite(newest(checkpoint), lambda lines: lines[:-1])
    assert told(checkpoint, key=KEY) == []
    (said,) = told(checkpoint, key=KEY, after=noted)
    assert said.startswith("receipt removed: receipt 6 with hash")
    assert "the chain ends at receipt 5" in said
    assert told(checkpoint, key=KEY, after=(5, fifth["hash"])) == []

    newest(checkpoint).write_text(whole)
    rewrite(newest(checkpoint), lambda lines: [*lines[:-1], trail.seal(json.loads(lines[-1]) | {"code": ""}, KEY)])
    assert told(checkpoint, key=KEY) == []
    (said,) = told(checkpoint, key=KEY, after=noted)
    assert said.startswith("receipt changed: receipt 6 with hash")

    (checkpoint / "onceflow" / "audit").rename(checkpoint / "gone")
    assert "no receipt is there" in told(checkpoint, key=KEY, after=noted)[-1]


def test_another_format_is_unknown_and_not_good_by_silence(checkpoint):
    """What a later version wrote is said to be unknown."""
    rewrite(newest(checkpoint), lambda lines: [*lines[:2], json.dumps(seal(json.loads(lines[2]) | {"format": 2}))])
    _, findings = audited(checkpoint)
    assert "format 2" in next(each.what for each in findings.found if each.kind == "unknown")


def test_what_retention_has_let_go_is_old(checkpoint):
    """A first receipt whose predecessor is older than the retention says so, and that is no difference."""
    files = sorted((checkpoint / "onceflow" / "audit").iterdir())
    files[0].unlink()
    forget_the_journal(checkpoint)
    old = (datetime.now(UTC) - timedelta(days=9)).isoformat(timespec="milliseconds")
    lines = [json.loads(line) for line in files[1].read_text().splitlines()]
    before = lines[0]["before"]
    for number, body in enumerate(lines):
        lines[number] = seal(body | {"before": before} | ({"before_at": old} if number == 0 else {}))
        before = lines[number]["hash"]
    rewrite(files[1], lambda _: map(json.dumps, lines))
    _, findings = audited(checkpoint, retention=timedelta(days=7))
    assert [each.kind for each in findings.found] == ["note"]


def test_without_any_receipt_nothing_is_good(checkpoint):
    """A checkpoint of before there were receipts, or one whose folder is gone: its journal tells what is not there."""
    for path in (checkpoint / "onceflow" / "audit").iterdir():
        path.unlink()
    report = audit(Asked(checkpoint, [])).report(shared=False)
    assert (report["epochs"], [each["kind"] for each in report["findings"]]) == (0, ["receipt"])
    assert not report["good"]


def test_a_checkpoint_on_no_disk_is_read_by_who_is_handed_in(checkpoint):
    """Through a store it finds the same, of plain files and packed ones: what is whole, and what was changed."""
    elsewhere = Elsewhere(Store(checkpoint))
    assert str(elsewhere) == str(checkpoint)
    packed = min((checkpoint / "onceflow" / "audit").iterdir())
    packed.with_name(f"{packed.name}.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()

    def both():
        here, there = (audit(Asked(where, [], key=KEY)).report(shared=False) for where in (checkpoint, elsewhere))
        assert here == there
        return there

    assert both()["epochs"] == 6
    rewrite(newest(checkpoint), lambda lines: [lines[0].replace('"epoch":3', '"epoch":2'), *lines[1:]])
    assert both()["receipts"] > 0


def forged(checkpoint, change):
    """The newest receipt, which no other one names yet, changed and hashed anew."""

    def of(lines):
        body = json.loads(lines[-1])
        change(body)
        return [*lines[:-1], json.dumps(seal(body), sort_keys=True, separators=(",", ":"))]

    rewrite(newest(checkpoint), of)


def test_a_choice_that_the_journal_does_not_know_is_found(checkpoint):
    """Whoever can write to the checkpoint could let rows be gone by it, without any key."""
    choice = {"choice": "give-up-rows", "participants": [], "who": "ops", "why": "agreed", "epoch": 5}
    forged(checkpoint, lambda body: body.update(choices=[choice]))
    (what,) = told(checkpoint)
    assert what.startswith("receipt changed: receipt 6 says that an operator has chosen give-up-rows, and the journal")


@pytest.mark.parametrize("choice", ["skip", "accept-state"])
def test_a_choice_does_not_keep_a_receipt_from_being_compared_with_the_journal(checkpoint, choice):
    """No choice changes what was decided, so whoever puts one into a forged receipt does not hide other rows by it."""
    made = {"choice": choice, "participants": [], "who": "", "why": "", "epoch": 5}

    def changed(body):
        body["choices"] = [made]
        body["participants"][0]["parts"][0][1] = 2

    forged(checkpoint, changed)
    assert "receipt changed: receipt 6 and the journal differ about epoch 5" in told(checkpoint)


def test_a_choice_about_another_epoch_excuses_no_row(checkpoint):
    """Whoever cannot have the journal know of a choice about this epoch could name another one."""
    choice = {"choice": "give-up-rows", "participants": [["s", "x@5/0"]], "who": "ops", "why": "agreed", "epoch": 4}
    forged(checkpoint, lambda body: body.update(choices=[choice]))
    newest_one = chain.read(OnDisk(checkpoint), Findings()).receipts[-1]
    assert chain.chosen(newest_one, newest_one["participants"][0]) == ""
    forged(checkpoint, lambda body: body.update(choices=[choice | {"epoch": 5}]))
    newest_one = chain.read(OnDisk(checkpoint), Findings()).receipts[-1]
    assert chain.chosen(newest_one, newest_one["participants"][0]).startswith("ops has chosen give-up-rows")


def test_an_early_choice_that_the_journal_has_purged_is_no_difference(tmp_path):
    """It was made before its epoch was decided, so that it goes from the journal before the decision does."""
    started = Started(tmp_path / "onceflow", retain=4)
    for epoch in range(12):
        started.append(Resolve(1, epoch, "give-up-rows", (), "ops", "the topic has lost them"))
        started.finish(epoch)
        assert told(tmp_path) == [], epoch


def test_a_replay_that_the_journal_does_not_know_is_found(checkpoint):
    forged(checkpoint, lambda body: body.update(replays=1, participants=[]))
    assert told(checkpoint)[0] == (
        "receipt changed: receipt 6 says that the epoch was written again, and the journal knows of no replay"
    )


def test_a_file_that_unpacks_to_a_hundred_times_its_size_takes_no_memory(checkpoint, monkeypatch):
    """It is cut where it becomes larger than receipts ever are."""
    monkeypatch.setattr(chain, "_LARGEST", 1 << 20)
    (checkpoint / "onceflow" / "audit" / "9-aa-1.jsonl.gz").write_bytes(gzip.compress(bytes(1 << 26)))
    tracemalloc.start()
    audited(checkpoint)
    assert tracemalloc.get_traced_memory()[1] < 1 << 25
    tracemalloc.stop()


@given(data=st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_stands_in_a_receipt_the_audit_has_a_verdict(checkpoint, data):
    """Hashed anew or not; never a traceback, and never a change without a word where it is not hashed anew."""
    path = newest(checkpoint)
    before = path.read_bytes()
    lines = before.decode().splitlines()
    body = json.loads(lines[-1])
    changed = data.draw(changes(body))
    hashed = data.draw(st.booleans())
    try:
        path.write_text(
            "".join(f"{each}\n" for each in [*lines[:-1], json.dumps(seal(changed) if hashed else changed)])
        )
        _, findings = audited(checkpoint, key=data.draw(st.sampled_from([None, KEY])), retention=timedelta(days=7))
    finally:
        path.write_bytes(before)
    for each in (body, changed):
        each.pop("signature", None)  # nobody looks at it without a key
    if not hashed and changed != body:
        assert findings.found


@pytest.mark.parametrize(
    "line", ["[" * 100_000, '{"a":' * 100_000, "9" * 100_000, '{"format": 1, "hash": 1}', "null", "\x00", '""']
)
def test_a_line_that_is_no_receipt_is_told(checkpoint, line):
    rewrite(newest(checkpoint), lambda lines: [line, *lines])
    assert any("is no receipt any more" in each for each in told(checkpoint))
