"""Offsets kept by the program's own commits, in Kafka: it decides when, before the rows are written or after.

``COMMIT=before`` loses what a death leaves unwritten of a batch; ``COMMIT=after`` writes it again. No third place is
there: rows and offset are two writes to two places, and a death may come between them.
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
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
)
consumer.subscribe([os.environ["IN"]])
while True:
    batch = consumer.consume(500, timeout=1)
    records = [message for message in batch if message.error() is None]
    if records and os.environ["COMMIT"] == "before":
        consumer.commit(records[-1], asynchronous=False)
    for message in records:
        time.sleep(0.001)  # the work
        producer.produce(os.environ["OUT"], message.value())
        producer.poll(0)
    producer.flush()
    if records and os.environ["COMMIT"] == "after":
        consumer.commit(records[-1], asynchronous=False)
    for message in batch:
        if message.error() is not None:  # the partition's end: no other is there here
            consumer.close()
            sys.exit()
