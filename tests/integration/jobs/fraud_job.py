"""The fraud job of the fault tests: an alert for each user with more payments in a minute than MORE_THAN says."""

import os

from pyspark.sql import functions as F  # noqa: N812

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job(
    "fraud",
    checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="200 ms"),
    spark={"spark.sql.shuffle.partitions": "2"},
)


@job.stream(sinks=[of.KafkaSink(kafka, os.environ["OUT"], key="user", producer={"linger.ms": 0})])
def alerts(spark):
    payments = of.KafkaSource(
        kafka,
        os.environ["IN"],
        value=of.Json("user string, amount long, at_ms long"),
        max_records_per_epoch=int(os.environ["PER_EPOCH"]),
    ).load(spark)
    return (
        payments.withColumn("at", F.timestamp_millis("at_ms"))
        .withWatermark("at", "10 seconds")
        .groupBy(F.window("at", "1 minute"), "user")
        .agg(F.count("*").alias("payments"), F.sum("amount").alias("total"))
        .where(F.col("payments") > int(os.environ["MORE_THAN"]))
        .select("user", F.unix_millis("window.end").alias("end_ms"), "payments", "total")
    )


if __name__ == "__main__":
    job.main(until=os.environ.get("UNTIL", "caught-up"))
