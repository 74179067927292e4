"""Quix Streams, exactly-once, pure Python: the same two works.

Must not know: who measures it, onceflow. It runs in an environment of its own. The input holds each user in one
partition, so its windows need no repartitioning.
"""

import itertools
import json
import sys
from datetime import UTC, datetime, timedelta

from quixstreams import Application
from quixstreams.dataframe.windows import Count, Sum

told = json.loads(sys.argv[1])


seen = itertools.count(1)


def processed(_topic, _partition, _offset):
    """End when all is read: the library's own count is of outputs, and its time-out would be part of the figure."""
    if next(seen) == told["records"]:
        app.stop()


app = Application(
    broker_address=told["servers"],
    consumer_group=told["sink"],
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    commit_interval=told["interval_ms"] / 1000,
    state_dir=told["scratch"],
    loglevel="WARNING",
    on_message_processed=processed,
)


def event_ms(value, _headers, _timestamp, _timestamp_type):
    return int(datetime.fromisoformat(value["event_time"]).timestamp() * 1000)


if told["work"] == "copy":
    source = app.topic(told["source"], key_deserializer="bytes", value_deserializer="bytes")
    sink = app.topic(told["sink"], key_serializer="bytes", value_serializer="bytes")
    app.dataframe(source).to_topic(sink)
else:
    source = app.topic(told["source"], value_deserializer="json", key_deserializer="str", timestamp_extractor=event_ms)
    sink = app.topic(told["sink"], value_serializer="json", key_serializer="str")
    windows = (
        app.dataframe(source)
        .tumbling_window(timedelta(minutes=1), grace_ms=10_000)
        .agg(transactions=Count(), total=Sum(column="amount"))
        .final(closing_strategy="partition")
    )
    alerts = windows.filter(lambda window: window["transactions"] > 10)
    alerts = alerts.apply(
        lambda window, key, _timestamp, _headers: {
            "window_start": datetime.fromtimestamp(window["start"] / 1000, UTC).isoformat(),
            "user_id": key,
            "transactions": window["transactions"],
            "total": round(window["total"], 2),
        },
        metadata=True,
    )
    alerts.to_topic(sink)
app.run()
