"""A table of a lake that a job has filled, with its receipts, without Spark."""

import json

from onceflow.audit.verify import Asked, audit
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.trail import Trail
from onceflow.cli.audit import plain
from onceflow.storage.store import Store
from onceflow.testing.trial import Start
from onceflow.twophase.layout import Layout
from onceflow.twophase.messages import Appended, Reply
from onceflow.twophase.participants import Part, TaskReport
from onceflow.twophase.records import Decide, LayoutRecord
from tests.support.audited_table import JOB, signed
from tests.support.keyed_rows import KEY, kept, of_rows
from tests.support.xx64 import MASK, of_record, xx64

COLUMNS = [["key", "string"], ["amount", "bigint"]]


class FilledLake:
    """A checkpoint and a table, with an epoch for each list of keys, in two tasks."""

    def __init__(self, world, folder, *epochs):
        self.world, self.folder, self.sink = world, folder, world.sink()
        records = Store(folder / "onceflow" / "journal")
        records.make()
        self.journal = Journal(records)
        self.journal.start(JOB)
        self.to = self.sink.destination
        about = json.dumps({"sinks": {self.sink.name: {"destination": self.to, "columns": COLUMNS, "fields": COLUMNS}}})
        self.journal.audited(Trail(Store(folder / "onceflow" / "audit"), key=KEY), about)
        assert self.journal.append(LayoutRecord(1, Layout())) == Appended()
        self.start = Start(world, JOB)
        self.start.committer.preflight()
        for number, keys in enumerate(epochs):
            self.epoch(number, keys)

    def epoch(self, number, keys):
        reports = [self.task(number, i, of) for i, of in enumerate((keys[:1], keys[1:])) if of]
        held = self.start.seal(reports, number)
        decide = Decide(1, number, f"v1\n{{}}\n{number}", (self.sink.name,), tuple(held))
        assert self.journal.append(decide) == Appended()
        assert set(self.start.committer.commit(held).values()) == {Reply.COMMITTED}
        self.journal.keep_receipts()

    def task(self, epoch, number, keys):
        transaction = self.start.write(keys, number, epoch=epoch).transaction
        one = (1).to_bytes(8, "little")
        digest = sum(of_record(self.to, key.encode(), one) for key in keys) & MASK
        told = [[self.to.encode(), key.encode(), b"%d" % signed(xx64(one, 42))] for key in keys]
        part = Part(self.sink.name, number, len(keys), digest, keyed=kept(KEY, JOB, of_rows(KEY, JOB, told)))
        return TaskReport(self.sink.name, number, 0, (part,), transaction)

    def audit(self, **asked):
        return audit(Asked(self.folder, [plain(self.sink)], **asked)).report(shared=False)
