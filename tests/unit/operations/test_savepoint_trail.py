"""A savepoint takes the audit's trail along: what was claimed is audited at the new place as at the old one."""

import json

import pytest

from onceflow.audit import chain
from onceflow.audit.files import OnDisk
from onceflow.audit.findings import Findings
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.trail import Trail
from onceflow.operations.savepoints import reading, restoring, writing
from onceflow.storage.store import Store
from tests.support import checkpoints
from tests.support.keyed_rows import KEY

ABOUT = json.dumps({"name": "fraud", "sinks": {}})


def audited(place, incarnation=1):
    """A start that makes receipts."""
    place.journal.audited(Trail(place.trail, key=KEY, begins=lambda _: "{}"), ABOUT)
    place.journal.keep_receipts()


@pytest.fixture
def old(tmp_path):
    place = checkpoints.make(tmp_path / "old", 4)
    audited(place)
    return place


def chain_of(place):
    findings = Findings()
    found = chain.read(OnDisk(place.checkpoint.folder), findings, key=KEY)
    assert findings.found == []
    return [(body["number"], body["epoch"]) for body in found.receipts]


def test_a_claimed_savepoint_goes_on_with_its_trail(old, tmp_path):
    """Numbers, hashes and signatures go on: nothing is a note, and an anchor of before still names its receipt."""
    writing.create(old, tmp_path / "s", "fraud")
    checkpoints.run(old, 4)
    old.journal.keep_receipts()  # the file that was copied grows
    manifest = reading.verify(tmp_path / "s")
    with pytest.raises(Exception, match="has decided epoch 4 since"):
        restoring.restore(tmp_path / "s", manifest, Place.at(tmp_path / "no", retain=100), claim=True)
    writing.create(old, tmp_path / "s2", "fraud")
    new = Place.at(tmp_path / "new", retain=100)
    restoring.restore(tmp_path / "s2", reading.verify(tmp_path / "s2"), new, claim=True)
    new = Place.at(tmp_path / "new", retain=100)
    started = new.journal.start(checkpoints.JOB)
    audited(new)
    checkpoints.run(new, 5, incarnation=started.incarnation)
    new.journal.keep_receipts()
    assert chain_of(new) == [(n + 1, n) for n in range(6)]
    assert chain_of(old) == [(n + 1, n) for n in range(5)]


def test_a_new_job_begins_its_own_trail(old, tmp_path):
    """Its id is another one: receipts of the old job's rows would be nobody's there."""
    writing.create(old, tmp_path / "s", "fraud")
    new = Place.at(tmp_path / "new", retain=100)
    restoring.restore(tmp_path / "s", reading.verify(tmp_path / "s"), new)
    assert new.trail.names() == []


def test_an_older_epoch_takes_none(old, tmp_path):
    """It goes on as a new job only."""
    manifest = writing.create(old, tmp_path / "s", "fraud", epoch=3).manifest
    assert manifest.job_epoch == 3
    older = writing.create(old, tmp_path / "s1", "fraud", epoch=2).manifest
    assert not [name for name in older.files if "/audit/" in name]


def test_what_two_dead_starts_wrote_is_synced_by_the_third(tmp_path):
    """Each died before it synced; an anchor, and the journal's purge, rest on all of it: then the power is cut."""
    synced = {}

    class Remembering(Store):
        def sync(self, name=None):
            super().sync(name)
            if name is not None:
                synced[name] = (self.folder / name).read_bytes()

    checkpoints.make(tmp_path / "c", 3)

    def start(epoch=None):
        place = Place.at(tmp_path / "c", retain=100)
        history = place.journal.start(checkpoints.JOB)
        place.journal.audited(Trail(Remembering(place.trail.folder), key=KEY, begins=lambda _: "{}"), ABOUT)
        place.journal.keep_receipts()
        if epoch is not None:
            checkpoints.run(place, epoch, incarnation=history.incarnation)
            place.journal.keep_receipts()
        return place

    start()
    start(3)
    assert start(4).journal.anchor()
    for path in (tmp_path / "c" / "onceflow" / "audit").iterdir():
        if path.name in synced:
            path.write_bytes(synced[path.name])
        else:
            path.unlink()
    assert chain_of(start(5)) == [(n + 1, n) for n in range(6)]
