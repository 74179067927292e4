"""The window job of the fault tests: events counted by minute, written when the watermark has passed."""

import os

from pyspark.sql import functions as F  # noqa: N812

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job(
    "window",
    checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="100 ms"),
    spark={"spark.sql.shuffle.partitions": "2"},
)


@job.stream(sinks=[of.KafkaSink(kafka, os.environ["OUT"], key="user", producer={"linger.ms": 0})])
def counted(spark):
    events = of.KafkaSource(
        kafka,
        os.environ["IN"],
        value=of.Json("user string, at long"),
        max_records_per_epoch=int(os.environ["PER_EPOCH"]),
    ).load(spark)
    delay = os.environ.get("DELAY", "10 seconds")
    counts = events.withColumn("time", F.timestamp_seconds("at")).withWatermark("time", delay)
    return (
        counts.groupBy(F.window("time", "1 minute"), "user")
        .agg(F.count("*").alias("n"))
        .select("user", F.unix_seconds("window.end").alias("end"), "n")
    )


if __name__ == "__main__":
    job.main(until=os.environ.get("UNTIL", "caught-up"))
