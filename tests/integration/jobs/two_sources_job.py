"""The fault tests' job with two source topics in one epoch: their union, or the inner join of their records by id."""

import os

from pyspark.sql import functions as F  # noqa: N812

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job(
    "two-sources",
    checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="200 ms"),
    spark={"spark.sql.shuffle.partitions": "2"},
)
sink = of.KafkaSink(
    kafka,
    os.environ["OUT"],
    key="key",
    producer={"linger.ms": 0},
    transaction_timeout=os.environ.get("TIMEOUT"),
)


def read(spark, topic):
    return of.KafkaSource(
        kafka,
        topic,
        value=of.Json("id int"),
        key=of.Text(),
        max_records_per_epoch=int(os.environ["PER_EPOCH"]),
    ).load(spark)


@job.stream(sinks=[sink])
def both(spark):
    left, right = read(spark, os.environ["IN"]), read(spark, os.environ["IN2"])
    if os.environ["SHAPE"] == "union":
        return left.withColumn("side", F.lit("left")).unionByName(right.withColumn("side", F.lit("right")))
    right = right.select(F.col("id").alias("other"), F.col("key").alias("other_key"))
    return left.join(right, F.col("id") == F.col("other")).select("key", "id", "other_key")


if __name__ == "__main__":
    job.main(until=os.environ.get("UNTIL", "caught-up"))
