"""Enrichment from a table that changes: payments in dollars, each at the rate of its own hour.

The table's versions are a topic, each with the time from which it holds. Joined by that time, a payment finds the same
version whenever its epoch runs; a static table that somebody overwrites would give another one.
"""

import os

from pyspark.sql import functions as F

import onceflow as of

kafka = of.KafkaCluster(os.environ.get("KAFKA", "localhost:9092"))
job = of.Job("enriched", checkpointing=of.Checkpointing("checkpoints/enriched", interval="1s"))
per_epoch = int(os.environ.get("PER_EPOCH", "100000"))
payments = of.KafkaSource(
    kafka,
    "payments-abroad",
    value=of.Json("payment_id string, currency string, amount decimal(18,2), paid_at timestamp"),
    max_records_per_epoch=per_epoch,
)
rates = of.KafkaSource(
    kafka,
    "rates",
    value=of.Json("of_currency string, rate decimal(10,4), since timestamp"),
    max_records_per_epoch=per_epoch,
)
dollars = of.KafkaSink(kafka, "payments-in-dollars", key="payment_id", create_topic=of.NewTopic(partitions=2))


@job.stream(sinks=[dollars], sources=[payments, rates])
def in_dollars(spark):
    paid = payments.load(spark).withWatermark("paid_at", "5 minutes")
    versions = rates.load(spark).withWatermark("since", "5 minutes")
    # Half open: at a full hour the new version holds, and only it.
    holds = "currency = of_currency and paid_at >= since and paid_at < since + interval 1 hour"
    return paid.join(versions, F.expr(holds)).select(
        "payment_id", (F.col("amount") * F.col("rate")).cast("decimal(18,4)").alias("dollars")
    )


if __name__ == "__main__":
    job.main()
