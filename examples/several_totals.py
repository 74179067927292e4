"""Several aggregations of one source into several sinks: of one epoch all, or none."""

import os

from pyspark.sql import functions as F

import onceflow as of

kafka = of.KafkaCluster(os.environ.get("KAFKA", "localhost:9092"))
job = of.Job("several-totals", checkpointing=of.Checkpointing("checkpoints/several-totals", interval="1s"))
sales = of.KafkaSource(
    kafka,
    "sales",
    value=of.Json("category string, store string, amount decimal(18,2), sold_at timestamp"),
    max_records_per_epoch=int(os.environ.get("PER_EPOCH", "100000")),
)
two = of.NewTopic(partitions=2)
by_category = of.KafkaSink(kafka, "totals-by-category", key="category", create_topic=two)
by_store = of.KafkaSink(kafka, "totals-by-store", key="store", create_topic=two)


def totals(sold, column, window):
    grouped = sold.groupBy(F.window("sold_at", window), column)
    found = grouped.agg(F.count("*").alias("sales"), F.sum("amount").alias("total"))
    return found.select(column, F.unix_millis("window.start").alias("since"), "sales", "total")


@job.stream(sinks=[by_category, by_store], sources=[sales])
def all_totals(spark):
    sold = sales.load(spark).withWatermark("sold_at", "10 minutes")
    return {by_category: totals(sold, "category", "1 hour"), by_store: totals(sold, "store", "20 minutes")}


if __name__ == "__main__":
    job.main()
