"""The order of a start: what two starts at the same moment make of a new checkpoint."""

import threading
from types import SimpleNamespace

import pytest

from onceflow.checkpoint.identity import Mark, read_identity
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.spark_checkpoint import SparkCheckpoint
from onceflow.checkpoint.store import LocalStore
from onceflow.errors import CheckpointConflictError
from onceflow.runtime.launch import Plan, _identify, refuse_rewound
from onceflow.settings import Checkpointing


def identify(folder, takeover=None):
    plan = Plan("test", Checkpointing(folder), takeover=takeover)
    return _identify(LocalStore(folder / "onceflow"), SparkCheckpoint(folder), f"file://{folder}", "cluster-1", plan)


def test_first_starts_at_the_same_moment_agree_on_one_job(tmp_path):
    """Two first starts, 100 times over: one job id, which is in job.json, and one journal that knows both starts."""
    for number in range(100):
        folder, gate, ended = tmp_path / str(number), threading.Barrier(2), []

        def start(folder=folder, gate=gate, ended=ended):
            gate.wait()
            try:
                identity = identify(folder)
                records = LocalStore(folder / "onceflow" / "journal")
                records.make()
                ended.append((identity, Journal(records).start(()).incarnation))
            except Exception as error:
                ended.append((error, 0))

        threads = [threading.Thread(target=start) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        written = read_identity(LocalStore(folder / "onceflow"))
        assert [identity for identity, _ in ended] == [written, written]
        assert sorted(incarnation for _, incarnation in ended) == [1, 2]
        assert [path.name for path in folder.glob("onceflow/journal-before-*")] == []


def test_a_journal_without_a_job_is_refused(tmp_path):
    """Who deleted job.json deleted what tells this job's transactions from others'; the journal stays where it is."""
    identify(tmp_path)
    records = LocalStore(tmp_path / "onceflow" / "journal")
    records.make()
    Journal(records).start(())
    (tmp_path / "onceflow" / "job.json").unlink()
    with pytest.raises(CheckpointConflictError, match=r"no onceflow/job\.json"):
        identify(tmp_path)
    assert records.names()
    assert identify(tmp_path, "as-new") == read_identity(LocalStore(tmp_path / "onceflow"))
    assert not records.folder.exists()


def test_a_start_at_this_moment_makes_no_copy_of_the_checkpoint(tmp_path):
    """Another start that writes its record, and then its mark, while we look is no sign that ours is an older copy."""
    records = LocalStore(tmp_path / "journal")
    records.make()

    def another_start():
        other = Journal(records)
        incarnation = other.start(()).incarnation
        return Mark(incarnation, other.start_nonce, -1).dumps()

    # Only what is looked at: a real committer keeps the mark in Kafka.
    kafka = SimpleNamespace(read_mark=another_start)
    for _ in range(3):
        refuse_rewound([kafka, kafka], Journal(records), SparkCheckpoint(tmp_path), "file:///checkpoint")
