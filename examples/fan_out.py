"""One stream to Kafka, PostgreSQL and Iceberg: sums by hour to a topic, each sale to both tables, in one commit."""

import os

from pyspark.sql import functions as F

import onceflow as of

kafka = of.KafkaCluster(os.environ.get("KAFKA", "localhost:9092"))
lake = os.environ.get("LAKE", "/data/lake")
job = of.Job("fan-out", checkpointing=of.Checkpointing("checkpoints/fan-out", interval="1s"))
sales = of.KafkaSource(
    kafka,
    "sales",
    value=of.Json("id long, category string, amount decimal(18,2), sold_at timestamp"),
    max_records_per_epoch=int(os.environ.get("PER_EPOCH", "100000")),
)
totals = of.KafkaSink(kafka, "sales-fan-out", key="category", create_topic=of.NewTopic(partitions=2))
table = of.DatabaseSink(
    os.environ.get("DATABASE", "postgresql://job:secret@localhost/shop"), "sales", create_table=True
)
iceberg = of.IcebergSink(
    "lake",
    "shop.sales",
    properties={"type": "sql", "uri": f"sqlite:///{lake}/catalog.db", "warehouse": f"file://{lake}"},
    create_table=True,
)


@job.stream(sinks=[totals, table, iceberg], sources=[sales])
def everywhere(spark):
    sold = sales.load(spark)
    by_hour = (
        sold.withWatermark("sold_at", "10 minutes")
        .groupBy(F.window("sold_at", "1 hour"), "category")
        .agg(F.count("*").alias("sales"), F.sum("amount").alias("total"))
        .select("category", F.unix_millis("window.start").alias("hour"), "sales", "total")
    )
    return {totals: by_hour, table: sold, iceberg: sold}


if __name__ == "__main__":
    job.main()
