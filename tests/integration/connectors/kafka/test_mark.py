"""The job's mark in a real consumer group: forgotten or deleted while the job runs, the refresh brings it back."""

import pytest

from onceflow.checkpoint.identity import JobIdentity, Mark
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.committer import KafkaCommitter
from onceflow.errors import CheckpointConflictError
from onceflow.execution.driver import Driver
from onceflow.execution.means import Surroundings
from onceflow.launch.marked import require_not_rewound
from onceflow.storage.store import Store
from onceflow.twophase.coordinator import Coordinator
from onceflow.twophase.participants import Part, Participant
from onceflow.twophase.records import Decide
from tests.support.harness import wait_until

pytestmark = pytest.mark.kafka


def test_a_deleted_mark_comes_back(cluster, new_topic, tmp_path):
    """Without it a start is refused, since nothing tells whether it has the newest copy; refreshed, it goes on."""
    identity, topic = JobIdentity.new("file:///checkpoint", "cluster", "onceflow"), new_topic(1)
    store, checkpoint = Store(tmp_path / "journal"), SparkCheckpoint.at(tmp_path)
    store.make()
    first = Journal(store)
    of = (Participant("out", "h", (Part("out", 0, 1, 7),), {}),)
    first.append(Decide(first.start(identity.job_id).incarnation, 4, "v1\n", ("out",), of))
    for name in ("offsets/3", "offsets/4", "commits/4"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("v1\n{}\n")

    def committer() -> KafkaCommitter:
        return KafkaCommitter(KafkaClient(cluster), "out", topic, "onceflow", identity.job_id, 60_000)

    looking = committer()
    kept = looking.marks()
    rules, around = Coordinator(["out"]), Surroundings.of_process(1)
    driver = Driver(identity, Journal(store), checkpoint, {"out": committer()}, identity.checkpoint, rules, around)
    try:
        assert kept.read() is None  # as at every start; it waits for the group's coordinator
        driver.take_over()
        wait_until(kept.read, what="the start's mark")
        mark = kept.read()
        assert Mark.loads(mark or "") == Mark(2, driver._journal.start_nonce, 4)
        require_not_rewound({"s": looking}, Journal(store), identity, checkpoint)

        with KafkaClient(cluster) as client:
            client.admin.delete_groups([f"onceflow-{identity.job_id}-fence"])
        wait_until(lambda: kept.read() is None, what="the group's deletion")
        with pytest.raises(CheckpointConflictError, match="have no mark of this job"):
            require_not_rewound({"s": looking}, Journal(store), identity, checkpoint)

        driver.refresh_mark()
        wait_until(kept.read, what="the mark")
        assert kept.read() == mark
        require_not_rewound({"s": looking}, Journal(store), identity, checkpoint)
    finally:
        driver.close()
        looking.close()
