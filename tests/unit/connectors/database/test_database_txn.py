"""`onceflow txn` on a job that writes to a database: what it lists, describes, aborts and resolves."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pyarrow as pa
import pytest

from onceflow.checkpoint.identity import Mark, read_identity, write_identity
from onceflow.cli.txn import _epoch_lines, _inventory_json, _inventory_lines
from onceflow.connectors.contract import Shard
from onceflow.connectors.database.sink import DatabaseSink
from onceflow.errors import CheckpointConflictError, ConfigurationError
from onceflow.operations.transactions.aborting import abort
from onceflow.operations.transactions.inventory import JournalVerdict, describe_transaction, take_inventory
from onceflow.operations.transactions.resolution import meant, undone_epoch
from onceflow.twophase.messages import Outcome
from onceflow.twophase.participants import TaskReport
from onceflow.twophase.records import Decide
from tests.support.histories import part
from tests.unit.connectors.database.test_database import FIELDS
from tests.unit.connectors.test_inspection import HEAD, KafkaOut, LedgerJob
from tests.unit.launch.test_launch import identify, place_of


class DatabaseJob(LedgerJob):
    """A job on SQLite that died after its first epoch's decision, which covers two tasks; a third lost a race."""

    def __init__(self, folder):
        self.file, self.folder, self.beside = folder / "bank.db", folder / "checkpoint", []
        self.sink = DatabaseSink(f"sqlite:///{self.file}", "payments", name="ledger", create_table=True)
        self.connection = self.sink.connect()
        self.connection.check_output(FIELDS)
        self.job_id = identify(self.folder, systems=self.connection.system_id).job_id
        self.committer = self.connection.committer("onceflow", self.job_id)
        self.place = place_of(self.folder)
        self.place.records.make()
        self.place.journal.start(self.job_id)
        self.committer.marks().write(Mark(1, self.place.journal.start_nonce, -1).dumps())
        told = [self.write(shard, key) for shard, key in enumerate("ab")]
        (self.decided,) = self.committer.seal(told, self.run(1))
        assert self.committer.check([self.decided], self.run(1), 0.0) is None
        self.append(Decide(1, 0, HEAD + '{"t":{"0":5}}', ("ledger",), (self.decided,)))
        self.late = self.write(7, "late", epoch=1)

    def write(self, shard, key, incarnation=1, epoch=0):
        writer = self.connection.writer_factory()(Shard(self.run(incarnation, epoch), shard, 0))
        writer.write(pa.RecordBatch.from_pydict({"key": [key], "amount": [1], "onceflow_hash": [shard]}))
        return TaskReport("ledger", shard, 0, (part(shard, sink="ledger"),), writer.prepare())

    def visible(self):
        with sqlite3.connect(self.file) as file:
            return sorted(key for (key,) in file.execute("select key from payments"))


@pytest.fixture
def job(tmp_path):
    return DatabaseJob(tmp_path)


def test_what_is_listed(job):
    """The decided epoch is one, with both of its tasks; what another task has staged since is another."""
    listed = take_inventory(job.operator())
    assert {t.seen.id: t.standing for t in listed.ours} == {
        job.decided.handle: JournalVerdict.DECIDED,
        job.late.transaction["attempt"]: JournalVerdict.RUNNING,
    }
    (decided,) = [t for t in listed.ours if t.standing is JournalVerdict.DECIDED]
    assert (decided.seen.writer, decided.origin.shard, decided.origin.epoch) == ("2 attempts, 2 rows", None, "epoch 0")
    assert any(job.decided.handle in line and "decided" in line for line in _inventory_lines(listed))
    assert _inventory_json(listed)["ours"][0]["name"]["sink"] == "ledger"


def test_what_is_decided_is_never_aborted(job):
    """Neither by its handle, nor by the id of any of its tasks' attempts; what lingers is; the epoch is committed."""
    _, *others = sorted(attempt for attempt, _, _ in job.decided.transaction["attempts"])
    for each in (job.decided.handle, *others):
        with pytest.raises(ConfigurationError, match="is not aborted"):
            abort(job.operator(), [each], claim=True)
    report = abort(job.operator(), None, claim=True)
    assert [t.seen.id for t in report.aborted] == [job.late.transaction["attempt"]]
    assert report.still_open == ()
    job.committer.commit([job.decided])
    assert job.visible() == ["a", "b"]


def test_what_is_described(job):
    """Open before its commit, also by another task's attempt; by the ledger alone after it."""
    found = describe_transaction(job.operator(), job.decided.handle)
    assert (found.standing, found.now.state, found.evidence.outcome) == (
        JournalVerdict.DECIDED,
        "prepared",
        Outcome.OPEN,
    )
    *_, other = sorted(attempt for attempt, _, _ in job.decided.transaction["attempts"])
    assert describe_transaction(job.operator(), other).standing is JournalVerdict.DECIDED
    job.committer.commit([job.decided])
    after = describe_transaction(job.operator(), job.decided.handle)
    assert (after.now.state, after.evidence.outcome) == ("committed", Outcome.COMMITTED)


def test_what_is_shown_of_an_undone_epoch(job):
    """What nobody can tell any more is for a person: with where it went, how many rows, and why."""
    job.committer.commit([job.decided])
    with sqlite3.connect(job.file) as file:
        file.execute("delete from onceflow_ledger")
    (one,) = undone_epoch(job.operator()).participants
    assert one.evidence.outcome is Outcome.UNKNOWN
    assert "somebody removed them" in one.evidence.why
    assert (one.transactional_id, one.witness) == (job.decided.handle, "2 rows")


def dropped(job, *tables):
    with sqlite3.connect(job.file) as file:
        for table in tables:
            file.execute(f"drop table {table}")


def test_a_target_that_was_dropped_is_for_a_person(job):
    """Nothing of the epoch is visible there, and nobody knows whether there will be such a table again."""
    dropped(job, "payments")
    (one,) = undone_epoch(job.operator()).participants
    assert (one.evidence.outcome, one.evidence.passing) == (Outcome.UNKNOWN, False)
    assert one.evidence.why == "table payments was dropped, with what it had; what is staged is there"
    lines = list(_epoch_lines(undone_epoch(job.operator())))
    assert "  sink ledger: of 2 rows 2 untold" in lines


def test_what_was_staged_and_was_dropped_is_lost(job):
    """It is not in the ledger and can never be merged, so a start writes it again; its attempts can be ended."""
    dropped(job, "payments_onceflow_staged")
    (one,) = undone_epoch(job.operator()).participants
    assert one.evidence.outcome is Outcome.ABORTED
    assert "table payments_onceflow_staged was dropped, with what was staged" in one.evidence.why
    job.committer.abort(job.committer.lingering(9, ()))
    assert job.committer.lingering(9, ()) == []


def test_a_start_whose_table_was_dropped(job, caplog):
    """Refused with the epoch, its rows and the command; where it may make the table it does, and warns."""
    dropped(job, "payments", "payments_onceflow_staged")
    connection = DatabaseSink(f"sqlite:///{job.file}", "payments", name="ledger").connect()
    with pytest.raises(ConfigurationError, match="waits: 2 rows of epoch 0") as told:
        connection.check_output(FIELDS)
    assert "`onceflow txn resolve <job file> 0`" in told.value.action
    connection.close()
    connection = job.sink.connect()
    connection.check_output(FIELDS)
    assert "payments is not there and is made" in caplog.text
    connection.close()


def test_a_sink_whose_system_is_not_asked(job):
    """Without it only `resolve` goes on: of its rows nothing is told, and a choice takes the place of that."""
    job.sink = KafkaOut()
    identity = read_identity(job.place.ours)
    systems = ",".join(sorted([KafkaOut.system_id, identity.cluster_id]))
    write_identity(job.place.ours, replace(identity, cluster_id=systems))
    with pytest.raises(CheckpointConflictError, match="the list of sinks is too short"):
        job.operator()
    found = undone_epoch(job.operator(partial=True))
    (one,) = found.participants
    assert (one.evidence.outcome, one.rows) == (Outcome.UNKNOWN, 2)
    assert "the job does not have this sink now" in one.evidence.why
    assert meant(found, "count-as-written", None) == (one.id,)
