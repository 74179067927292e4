"""Jobs of a SQL script, and what they wrote."""

import json
from decimal import Decimal

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from onceflow.flinksql.pipelines import Pipeline
from onceflow.flinksql.script import Script


def jobs_of(text, cluster, folder, **settings) -> list[Pipeline]:
    """The jobs of a script, at this cluster, with their checkpoints in a folder."""
    flags = {
        "onceflow.kafka.bootstrap.servers": cluster.bootstrap_servers,
        "execution.checkpointing.dir": str(folder),
        **settings,
    }
    return [answer.pipeline for answer in Script(flags).run(text) if answer.pipeline is not None]


def read(cluster, topic, partitions=1):
    """Everything of a topic that a read_committed consumer gets, as (key, value)."""
    consumer = Consumer(
        cluster.for_librdkafka()
        | {"group.id": "test", "isolation.level": "read_committed", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, i, OFFSET_BEGINNING) for i in range(partitions)])
    found, ended = [], 0
    while ended < partitions:
        message = consumer.poll(10)
        assert message is not None
        if message.error():
            ended += 1
            continue
        value = message.value()
        found.append((message.key(), None if value is None else json.loads(value, parse_float=Decimal)))
    consumer.close()
    return found
