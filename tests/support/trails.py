"""A job's trail, without the job."""

import json

from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.trail import Trail
from onceflow.storage.store import Store
from onceflow.twophase.layout import Layout, LayoutSource, Topic
from onceflow.twophase.messages import Appended
from onceflow.twophase.participants import Part, Participant
from onceflow.twophase.records import Decide, LayoutRecord

JOB = "a" * 12


LAYOUT = Layout((LayoutSource(("s",), "cluster-1", "topic t", "path", (Topic("t", "id-1", 2),), 0),))


ABOUT = json.dumps(
    {"name": "copy", "version": "1", "code": "c0de", "settings": "5e77", "sinks": {"s": {"columns": []}}}
)


def offsets(upto):
    head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1_000 + upto, "conf": {}})
    return f"v1\n{head}\n" + json.dumps({"t": {"0": upto, "1": upto * 2}})


def participant(epoch, mark="x"):
    return Participant("s", f"{mark}@{epoch}/0", (Part("s", 0, 3, (1 << 64) - 1 - epoch, "o"),), {"producer_id": epoch})


def decide(epoch, incarnation=1):
    return Decide(incarnation, epoch, offsets(10 * (epoch + 1)), ("s", "t"), (participant(epoch),))


def begins(_):
    return json.dumps({"t": {"0": 4}})


class Started:
    """A start of a job on a folder, with a trail."""

    def __init__(self, folder, *, retain=100, store=Store, about=ABOUT, **trail):
        records = Store(folder / "journal")
        records.make()
        self.folder = folder / "audit"
        self.journal = Journal(records, retain=retain)
        self.history = self.journal.start(JOB)
        self.journal.audited(Trail(store(self.folder), **{"begins": begins} | trail), about)
        self.append(LayoutRecord(self.history.incarnation, LAYOUT))

    def append(self, record):
        assert self.journal.append(record) == Appended()

    def finish(self, *epochs):
        for epoch in epochs:
            self.append(decide(epoch, self.history.incarnation))
            self.journal.purge()
