"""Offsets kept in the database that takes the rows: one transaction holds both, so neither is there without the other.

It is exact for as long as one process runs: two of them would read the same offsets and write the same rows, and
nothing here ends the older one.
"""

import os
import sqlite3
import sys
import time

from confluent_kafka import Consumer, TopicPartition

database = sqlite3.connect(os.environ["STORE"])
database.execute("CREATE TABLE IF NOT EXISTS rows (value TEXT)")
database.execute(
    "CREATE TABLE IF NOT EXISTS offsets (topic TEXT, number INTEGER, next INTEGER, UNIQUE (topic, number))"
)
consumer = Consumer(
    {
        "bootstrap.servers": os.environ["KAFKA"],
        "group.id": os.environ["GROUP"],  # the client asks for one; nothing is kept in it
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
)
source = os.environ["IN"]
kept = dict(database.execute("SELECT number, next FROM offsets WHERE topic = ?", (source,)))
consumer.assign([TopicPartition(source, 0, kept.get(0, 0))])
while True:
    batch = consumer.consume(100, timeout=1)
    records = [message for message in batch if message.error() is None]
    with database:  # one transaction
        for message in records:
            time.sleep(0.001)  # the work
            database.execute("INSERT INTO rows VALUES (?)", (message.value().decode(),))
        if records:
            database.execute("INSERT OR REPLACE INTO offsets VALUES (?, 0, ?)", (source, records[-1].offset() + 1))
    for message in batch:
        if message.error() is not None:  # the partition's end: no other is there here
            consumer.close()
            sys.exit()
