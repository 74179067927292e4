"""Payments in Avro, by a schema registry: what each user has paid in an hour, in Avro again.

Whoever writes the payments may change their schema while the job runs: what is new is looked up, and an old one stays
known.
"""

import os

from pyspark.sql import functions as F

import onceflow as of

kafka = of.KafkaCluster(os.environ.get("KAFKA", "localhost:9092"))
registry = of.SchemaRegistry(os.environ.get("REGISTRY", "http://localhost:8081/apis/ccompat/v7"))
job = of.Job("avro-payments", checkpointing=of.Checkpointing("checkpoints/avro-payments", interval="1s"))
payments = of.KafkaSource(
    kafka,
    "avro-payments",
    value=of.Avro(registry=registry),
    max_records_per_epoch=int(os.environ.get("PER_EPOCH", "100000")),
)
totals = of.KafkaSink(
    kafka,
    "avro-totals",
    key="user_id",
    value=of.Avro(registry=registry, register=True),
    create_topic=of.NewTopic(partitions=2),
)


@job.stream(sinks=[totals], sources=[payments])
def by_hour(spark):
    return (
        payments.load(spark)
        .withWatermark("paid_at", "10 minutes")
        .groupBy("user_id", F.window("paid_at", "1 hour").alias("hour"))
        .agg(F.count("*").alias("payments"), F.sum("amount").cast("decimal(18,2)").alias("total"))
        .select("user_id", F.unix_millis("hour.start").alias("hour"), "payments", "total")
    )


if __name__ == "__main__":
    job.main()
