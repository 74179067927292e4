"""A topic that is deleted and made again."""

from onceflow.connectors.kafka.client import KafkaClient
from tests.support.harness import wait_until


def make_again(cluster, topic: str, partitions: int = 4) -> None:
    """Delete a topic and make another one of its name."""
    with KafkaClient(cluster) as client:
        client.admin.delete_topics([topic])
        wait_until(lambda: not client.topics([topic]), what="deletion")
        client.admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})
        wait_until(lambda: len(client.topics([topic])) == 1, what="the new topic")
