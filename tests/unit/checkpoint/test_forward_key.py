"""The key that seals receipts: who takes it seals none of before, and a job that dies seals each of its own."""

import json
import os

import pytest

from onceflow.audit import chain
from onceflow.audit.files import OnDisk
from onceflow.audit.findings import Findings
from onceflow.checkpoint import forward_key, trail
from onceflow.checkpoint.forward_key import ForwardKey
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.trail import Trail
from onceflow.errors import CheckpointStoreError, ConfigurationError
from onceflow.execution.anchoring import begun
from onceflow.options.auditing import Auditing
from tests.support import checkpoints

ABOUT = json.dumps({"name": "fraud", "sinks": {}})


@pytest.fixture
def file(tmp_path):
    (tmp_path / "keys").mkdir()
    path = tmp_path / "keys" / "forward"
    path.write_text(json.dumps({"format": 1, "number": 1, "key": "ab" * 32}))
    return path


@pytest.fixture
def root(file):
    """What the auditor has: the file as it was at the beginning."""
    found = ForwardKey.read(file)
    return 1, found.key_of(1)


def start(folder, file):
    """A start of the job on its checkpoint."""
    place = Place.at(folder, retain=100)
    history = place.journal.start(checkpoints.JOB)
    place.journal.audited(Trail(place.trail, forward=ForwardKey.read(file), begins=lambda _: "{}"), ABOUT)
    place.journal.keep_receipts()
    told = Auditing.from_environment({"ONCEFLOW_AUDIT_FORWARD_KEY_FILE": str(file)})
    return place, history.incarnation, begun(place.journal, told, [], "fraud")


@pytest.fixture
def job(tmp_path, file, root):
    checkpoints.make(tmp_path / "checkpoint", 3)
    return start(tmp_path / "checkpoint", file)


def more(job, epoch):
    place, incarnation, _ = job
    checkpoints.run(place, epoch, incarnation=incarnation)
    place.journal.keep_receipts()


def said(job, root):
    findings = Findings()
    found = chain.read(OnDisk(job[0].checkpoint.folder), findings, forward=root)
    return len(found.receipts), [each.what for each in findings.found]


def bodies(job):
    (path,) = job[0].checkpoint.folder.glob("onceflow/audit/*")
    return path, [json.loads(line) for line in path.read_text().splitlines()]


def test_each_receipt_is_sealed_and_its_key_forgotten_once_it_is_durable(job, file, root):
    """What is in the file is the key of the next one; nothing else of it is left in its folder."""
    assert json.loads(file.read_text())["number"] == 4
    more(job, 3)
    assert json.loads(file.read_text())["number"] == 4, "not synced yet: a power cut would take it, and it is made anew"
    job[2].go_on()
    assert json.loads(file.read_text())["number"] == 5
    assert (file.stat().st_mode & 0o777, [each.name for each in file.parent.iterdir()]) == (0o600, ["forward"])
    assert said(job, root) == (4, [])
    assert ForwardKey.read(file).key_of(4) is None


def test_who_takes_all_that_the_job_has_seals_none_of_before(job, file, root):
    """He makes the chain anew, with the newest key: each receipt of before is told, his own of later are not."""
    path, held = bodies(job)
    stolen = ForwardKey(file, 1, ForwardKey.read(file).key_of(4))  # he uses it for whatever number
    lines, before = [], None
    for each in held:
        body = {name: value for name, value in each.items() if name not in ("hash", "seal")} | {"code": "another"}
        lines.append(trail.seal(body if before is None else body | {"before": before["hash"]}, None, stolen))
        before = json.loads(lines[-1])
    path.write_text("".join(line + "\n" for line in lines))
    count, told = said(job, root)
    assert count == 3
    assert [text.partition(": ")[2][:9] for text in told] == ["receipt 1", "receipt 2", "receipt 3"]
    assert all(text.startswith("receipt changed, or sealed with another key") for text in told)


def test_a_receipt_whose_seal_was_taken_away_is_told(job, root):
    path, held = bodies(job)
    path.write_text("".join(json.dumps({k: v for k, v in b.items() if k != "seal"}) + "\n" for b in held))
    assert [text.partition(":")[0] for text in said(job, root)[1]] == ["receipt not sealed"] * 3


def test_a_start_that_was_replaced_forgets_no_key_that_the_newer_one_needs(job, file, root, tmp_path):
    """It sleeps between its receipt and its next look: the newer start makes that receipt again, or goes on from it."""
    more(job, 3)
    newer = start(tmp_path / "checkpoint", file)
    job[2].go_on()
    more(newer, 4)
    newer[2].go_on()
    assert said(newer, root) == (5, [])


def test_a_death_before_the_key_is_forgotten_does_no_harm(job, file, root, tmp_path):
    """Receipts may be made again by the next start, with the same keys."""
    more(job, 3)
    path, held = bodies(job)
    path.write_text(
        "".join(json.dumps(b, sort_keys=True, separators=(",", ":")) + "\n" for b in held[:3])
    )  # a power cut
    newer = start(tmp_path / "checkpoint", file)
    assert said(newer, root) == (4, [])
    assert json.loads(file.read_text())["number"] == 5


def test_a_key_that_is_ahead_of_the_trail_is_said(job, file, root, caplog):
    """An older copy of the checkpoint was put back: what is made again cannot be sealed, and the audit tells it."""
    ForwardKey.read(file).forget(9)
    job[0].journal.audited(Trail(job[0].trail, forward=ForwardKey.read(file), begins=lambda _: "{}"), ABOUT)
    more(job, 3)
    assert "receipt 4 cannot be sealed" in caplog.text
    assert said(job, root)[1] == ["receipt not sealed: receipt 4 (epoch 3)"]


def test_a_number_that_is_anybodys_takes_no_hours(job, file, root, monkeypatch):
    """The trail's newest receipt may be forged: no job and no audit makes keys without end."""
    for room in (forward_key, chain):
        monkeypatch.setattr(room, "_FARTHEST", 1_000)
    assert ForwardKey.read(file).seal(10**15, "hash") is None
    path, held = bodies(job)
    held[-1]["number"] = 10**15
    path.write_text("".join(json.dumps(b) + "\n" for b in held))
    assert any("too far behind" in text for text in said(job, root)[1])


def test_a_folder_that_takes_no_file_is_said_and_the_job_goes_on(job, file, caplog):
    more(job, 3)
    file.unlink()
    file.parent.rmdir()
    job[2].go_on()
    assert "keys to be forgotten: the key that seals receipts cannot be replaced" in caplog.text
    with pytest.raises(CheckpointStoreError):
        job[0].journal.anchor()


def test_what_a_dead_one_has_left_beside_the_key_goes(file):
    """There is an older key in it than in the file."""
    left = file.parent / ".forward.e8c5a34a"
    left.write_text(file.read_text())
    ForwardKey.read(file).forget(3)
    assert [each.name for each in file.parent.iterdir()] == ["forward"]


def test_what_else_lies_beside_the_key_stays(file):
    """A copy of somebody's; and an auditor reads the first key only: nothing is his to clear away."""
    others = [file.parent / name for name in (".forward.bak", ".forward.2026", ".forward.other.e8c5a34a")]
    for path in others:
        path.write_text(file.read_text())
    left = file.parent / ".forward.e8c5a34a"
    left.write_text(file.read_text())
    found = ForwardKey.read(file)
    assert left.exists()
    found.forget(3)
    assert [path.exists() for path in (*others, left)] == [True] * 3 + [False]


def test_a_pipe_keeps_no_start_waiting(file):
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ConfigurationError, match="cannot be used"):
        ForwardKey.read(file)


@pytest.mark.parametrize(("mode", "told"), [(0o600, False), (0o644, True)])
def test_a_key_that_others_may_read_is_told(file, caplog, mode, told):
    """Whoever has it once has all that come: the docs' own command makes it readable where the umask lets it."""
    file.chmod(mode)
    Auditing.from_environment({"ONCEFLOW_AUDIT_FORWARD_KEY_FILE": str(file)})
    assert (f"{file} holds a secret" in caplog.text) == told


def test_a_link_is_refused(file):
    """It would be replaced, and what it leads to would keep its key."""
    link = file.parent / "link"
    link.symlink_to(file)
    with pytest.raises(ConfigurationError, match="is a link"):
        ForwardKey.read(link)


def test_a_start_that_slept_winds_nothing_back(file):
    sleeping, newer = ForwardKey.read(file), ForwardKey.read(file)
    newer.forget(100)
    sleeping.forget(50)
    assert json.loads(file.read_text())["number"] == 101


@pytest.mark.parametrize(
    "text",
    [None, "", "[]", "{}", '{"format":1,"number":0,"key":"' + "ab" * 32 + '"}', '{"format":1,"number":1,"key":"ab"}',
     '{"format":2,"number":1,"key":"' + "ab" * 32 + '"}', "[" * 100_000],
)  # fmt: skip
def test_a_file_that_is_none_is_refused(file, text):
    file.unlink()
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigurationError, match="cannot be used") as told:
        ForwardKey.read(file)
    assert "ab" * 8 not in str(told.value)


def test_without_one_nothing_is_synced_for_it(job):
    """A job that has asked for neither anchor nor forward key pays nothing."""
    journal = Journal(job[0].records)
    begun(journal, Auditing.from_environment({}), [], "fraud").go_on()
