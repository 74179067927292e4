"""Worlds of a ledger for the conformance suite."""

import pyarrow as pa

from onceflow.testing import World
from tests.support.grouped_sink import staged_ids
from tests.support.ledger_sink import LedgerSink, opened, visible

SECRET = "only for the ledger"


class LedgerWorld(World):
    """The example sink in a file of its own; what a user writes for a sink of theirs."""

    patience_s = 0.2
    secrets = (SECRET,)

    def __init__(self, path, kind=LedgerSink):
        self.path, self.kind = str(path / "ledger.sqlite"), kind

    def sink(self):
        return self.kind(self.path, SECRET)

    def second_sink(self):
        sink = self.sink()
        sink.name = "second"
        return sink

    def rows(self, keys):
        return pa.RecordBatch.from_pydict({"key": list(keys)})

    def refused(self, keys):
        return pa.RecordBatch.from_pydict({"key": [*keys, None]})

    def visible(self):
        return visible(self.path)

    def open_transactions(self, job_id):
        with opened(self.path) as file:
            return file.execute("select count(*) from ledger where job=? and state='open'", [job_id]).fetchone()[0]

    def expire(self, participants):
        with opened(self.path) as file:
            for key in (key for p in participants for key in staged_ids(p.transaction)):
                file.execute("update ledger set state='aborted' where id=?", [key])
