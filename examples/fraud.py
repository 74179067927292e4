"""Real-time transaction risk control: one alert for each user with more than ten payments in a one-minute window."""

import os

from pyspark.sql import functions as F

import onceflow as of

kafka = of.KafkaCluster(os.environ.get("KAFKA", "localhost:9092"))
job = of.Job("fraud-alerts", checkpointing=of.Checkpointing("checkpoints/fraud-alerts", interval="1s"))


@job.stream(sinks=[of.KafkaSink(kafka, "alerts", key="user_id", create_topic=of.NewTopic(partitions=4))])
def alerts(spark):
    payments = of.KafkaSource(
        kafka,
        "transactions",
        value=of.Json("user_id string, amount decimal(18,2), event_time timestamp"),
        on_malformed="skip",
    ).load(spark)
    return (
        payments.withWatermark("event_time", "10 seconds")
        .groupBy(F.window("event_time", "1 minute"), "user_id")
        .agg(F.count("*").alias("transactions"), F.sum("amount").alias("total"))
        .where("transactions > 10")
    )


if __name__ == "__main__":
    job.main()
