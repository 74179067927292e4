"""Sales by category and hour: each hour's row is written once, when no sale of it can come any more."""

import os

from pyspark.sql import functions as F

import onceflow as of

kafka = of.KafkaCluster(os.environ.get("KAFKA", "localhost:9092"))
job = of.Job("hourly-sales", checkpointing=of.Checkpointing("checkpoints/hourly-sales", interval="1s"))
sales = of.KafkaSource(
    kafka,
    "sales",
    value=of.Json("category string, amount decimal(18,2), sold_at timestamp"),
    max_records_per_epoch=int(os.environ.get("PER_EPOCH", "100000")),
)
totals = of.KafkaSink(kafka, "sales-by-hour", key="category", create_topic=of.NewTopic(partitions=2))


@job.stream(sinks=[totals], sources=[sales])
def by_hour(spark):
    return (
        sales.load(spark)
        .withWatermark("sold_at", "10 minutes")
        .groupBy(F.window("sold_at", "1 hour"), "category")
        .agg(F.count("*").alias("sales"), F.sum("amount").alias("total"))
        .select("category", F.unix_millis("window.start").alias("hour"), "sales", "total")
    )


if __name__ == "__main__":
    job.main()
