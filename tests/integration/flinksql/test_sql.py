"""Flink's SQL from files, on a real broker and real Spark: what people bring runs word for word, and goes on."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from tests.support.sql_jobs import jobs_of, read

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
ROOT = Path(__file__).parents[3]

CLICKS = """
CREATE TABLE clicks (
    user_id STRING,
    url STRING
) WITH (
    'connector' = 'kafka',
    'topic' = 'clicks',
    'properties.bootstrap.servers' = 'kafka:9092',
    'scan.startup.mode' = 'earliest-offset',
    'format' = 'json'
);
"""
BROUGHT = """
SET 'execution.checkpointing.interval' = '60s';
CREATE TABLE kafka_sink (
    user_id STRING,
    count BIGINT
) WITH (
    'connector' = 'kafka',
    'topic' = 'output_topic',
    'properties.bootstrap.servers' = 'kafka:9092',
    'format' = 'json',
    'sink.transactional-id-prefix' = 'tx-'
);
INSERT INTO kafka_sink
SELECT user_id, COUNT(*) FROM clicks GROUP BY user_id;
"""


def test_the_file_that_people_bring_runs_and_goes_on(cluster, spark, new_topic, produce, tmp_path):
    """Counts by user: each epoch gives the changed counts once, and a second run goes on from the first."""
    new_topic(name="clicks")
    new_topic(name="output_topic")
    produce("clicks", [json.dumps({"user_id": user, "url": "/"}) for user in ("ann", "bob", "ann")])
    (pipeline,) = jobs_of(CLICKS + BROUGHT, cluster, tmp_path)
    assert pipeline.job.name == "insert-into_kafka_sink"
    assert pipeline.job.checkpointing.interval_ms == 60_000
    pipeline.job.run(until="caught-up")
    counts = [(value["user_id"], value["count"]) for _, value in read(cluster, "output_topic")]
    assert sorted(counts) == [("ann", 2), ("bob", 1)]

    produce("clicks", [json.dumps({"user_id": "ann", "url": "/"})])
    (again,) = jobs_of(CLICKS + BROUGHT, cluster, tmp_path)
    again.job.run(until="caught-up")
    counts = [(value["user_id"], value["count"]) for _, value in read(cluster, "output_topic")]
    assert sorted(counts) == [("ann", 2), ("ann", 3), ("bob", 1)]


def test_the_fraud_job_in_sql_raises_the_alerts_of_the_one_in_python(cluster, spark, new_topic, produce, tmp_path):
    """examples/fraud.sql: more than ten payments of a user in a minute are one alert, once the watermark has passed."""
    new_topic(name="transactions")
    new_topic(name="alerts", partitions=2)
    at = [f"2026-01-01T10:00:{second:02}.000Z" for second in range(12)]
    payments = [{"user_id": "ann", "amount": 1.25, "event_time": each} for each in at]
    payments += [{"user_id": "bob", "amount": 1.25, "event_time": each} for each in at[:10]]
    payments += [{"user_id": "eve", "amount": 1, "event_time": "2026-01-01T10:01:30.000Z"}]
    produce("transactions", [json.dumps(each) for each in payments] + ["no payment"])
    (pipeline,) = jobs_of((ROOT / "examples" / "fraud.sql").read_text(), cluster, tmp_path)
    pipeline.job.run(until="caught-up")
    (alert,) = read(cluster, "alerts", partitions=2)
    assert alert == (
        b"ann",
        {
            "window": {"start": "2026-01-01T10:00:00Z", "end": "2026-01-01T10:01:00Z"},
            "user_id": "ann",
            "transactions": 12,
            "total": Decimal("15.00"),
        },
    )
