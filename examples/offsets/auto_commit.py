"""Offsets kept by Kafka's auto-commit: a clock decides when, and it knows nothing of what was done with a record.

An offset is committed when its record was handed out. What was handed out and not written is lost by a death; what was
written since the last tick is written again.
"""

import os
import sys
import time

from confluent_kafka import Consumer, Producer

kafka = {"bootstrap.servers": os.environ["KAFKA"]}
producer = Producer(kafka)
consumer = Consumer(
    kafka
    | {
        "group.id": os.environ["GROUP"],
        "group.instance.id": "one",  # a restart takes the dead one's place at once
        "auto.offset.reset": "earliest",
        "enable.auto.commit": True,
        "auto.commit.interval.ms": 1_500,  # 5 s by default: the same, with more records
        "enable.partition.eof": True,
    }
)
consumer.subscribe([os.environ["IN"]])
while True:
    for message in consumer.consume(1_000, timeout=1):
        if message.error() is not None:  # the partition's end: no other is there here
            producer.flush()
            consumer.close()
            sys.exit()
        time.sleep(0.002)  # the work
        producer.produce(os.environ["OUT"], message.value())
        producer.poll(0)
