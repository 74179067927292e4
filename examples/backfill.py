"""A bounded backfill: one day's totals are made again from the topic, and the job ends.

It has a name, a checkpoint and an output of its own, so the job that runs every day goes on beside it.
"""

import os
from datetime import UTC, datetime, timedelta

from pyspark.sql import functions as F

import onceflow as of

kafka = of.KafkaCluster(os.environ.get("KAFKA", "localhost:9092"))
day = datetime.fromisoformat(os.environ.get("DAY", "2026-01-01")).replace(tzinfo=UTC)
job = of.Job(f"backfill-{day:%Y-%m-%d}", checkpointing=of.Checkpointing(f"checkpoints/backfill-{day:%Y-%m-%d}"))
sales = of.KafkaSource(
    kafka,
    "sales",
    value=of.Json("category string, amount decimal(18,2), sold_at timestamp"),
    # A record's own time is when it was written: an hour before the day, for clocks that were apart.
    start=day - timedelta(hours=1),
    max_records_per_epoch=int(os.environ.get("PER_EPOCH", "100000")),
)
again = of.KafkaSink(kafka, "sales-by-hour-again", key="category", create_topic=of.NewTopic(partitions=2))


@job.stream(sinks=[again], sources=[sales])
def one_day(spark):
    sold = sales.load(spark).withWatermark("sold_at", "10 minutes")
    hours = (
        sold.groupBy(F.window("sold_at", "1 hour"), "category")
        .agg(F.count("*").alias("sales"), F.sum("amount").alias("total"))
        .select("category", F.unix_millis("window.start").alias("hour"), "sales", "total")
    )
    # Behind the grouping: what is later than the day still moves the watermark, by which the last hour comes out.
    first = int(day.timestamp() * 1000)
    return hours.where(F.col("hour").between(first, first + 86_400_000 - 1))


if __name__ == "__main__":
    job.main(until="caught-up")
