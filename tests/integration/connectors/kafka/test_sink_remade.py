"""A sink's topic that is deleted and made again while a job runs: what is open in it goes, and nobody tells."""

import uuid

import pytest
from kafka.admin import NewTopic

import onceflow as of
from onceflow.connectors.contract import Run
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.committer import KafkaCommitter
from onceflow.errors import PreCommitError
from onceflow.twophase.messages import Reply
from onceflow.twophase.participants import Part, TaskReport
from tests.support.audited import World, rows
from tests.support.harness import read_topic, wait_until

pytestmark = pytest.mark.kafka


def test_rows_of_a_topic_that_was_made_again_meanwhile_are_not_decided(cluster, new_topic, admin, tmp_path):
    """Its coordinator has the transaction still, and commits it with success: the rows would be in no topic.

    Whoever has not seen the topic before, as the next start, takes the new one for what it is. What a start knows it
    by is older than its first epoch, also where it need not try its rights again.
    """
    topic = new_topic()
    world = World(cluster, topic, tmp_path)
    with KafkaClient(cluster) as client, KafkaClient(cluster) as other:
        connection = of.KafkaSink(cluster, topic, name="out").connect()
        runs = connection.committer("onceflow", uuid.uuid4().hex[:12])
        marks = runs.marks()
        wait_until(lambda: marks.write("a mark") or marks.read(), what="the mark")  # its group has to be found
        report = TaskReport("out", 0, 0, (Part("out", 0, 3, 0),), world.prepare(rows(0, 3)).to_json())
        before = client.topics([topic])[topic].topic_id
        admin.delete_topics([topic])
        wait_until(lambda: topic not in client.topics([topic]), what="the end of the topic")
        admin.create_topics([NewTopic(topic, 1, 1)])
        wait_until(lambda: client.topics([topic]).get(topic), what="the new topic")
        assert client.topics([topic])[topic].topic_id != before
        with pytest.raises(PreCommitError, match="deleted and made again while the job ran") as refused:
            runs.seal([report], Run("job", "onceflow", 1, 0))
        assert "claim" in refused.value.action
        wait_until(lambda: marks.read() is None, what="the end of the mark")
        (sealed,) = KafkaCommitter(other, "out", topic, "onceflow", "job", 60_000).seal(
            [report], Run("job", "onceflow", 1, 0)
        )
        assert runs.commit([sealed]) == {sealed.id: Reply.COMMITTED}
        runs.close()
    world.close()
    assert read_topic(cluster, topic) == []
