"""Sessions of users: clicks that are less than ten minutes apart, counted when no more can come."""

import os

from pyspark.sql import functions as F

import onceflow as of

kafka = of.KafkaCluster(os.environ.get("KAFKA", "localhost:9092"))
job = of.Job("sessions", checkpointing=of.Checkpointing("checkpoints/sessions", interval="1s"))
clicks = of.KafkaSource(
    kafka,
    "clicks",
    value=of.Json("user_id string, at timestamp"),
    max_records_per_epoch=int(os.environ.get("PER_EPOCH", "100000")),
)
written = of.KafkaSink(kafka, "user-sessions", key="user_id", create_topic=of.NewTopic(partitions=2))


@job.stream(sinks=[written], sources=[clicks])
def by_session(spark):
    return (
        clicks.load(spark)
        .withWatermark("at", "5 minutes")
        .groupBy(F.session_window("at", "10 minutes").alias("session"), "user_id")
        .agg(F.count("*").alias("clicks"))
        .select(
            "user_id",
            F.unix_millis("session.start").alias("start"),
            F.unix_millis("session.end").alias("end"),
            "clicks",
        )
    )


if __name__ == "__main__":
    job.main()
