"""Every payment to a table of PostgreSQL and every alert to Kafka: of one epoch both, or neither."""

import os

from pyspark.sql import functions as F

import onceflow as of

kafka = of.KafkaCluster(os.environ.get("KAFKA", "localhost:9092"))
database = os.environ.get("DATABASE", "postgresql://job:secret@localhost/bank")
job = of.Job("fraud-and-payments", checkpointing=of.Checkpointing("checkpoints/fraud-and-payments", interval="1s"))

alerts = of.KafkaSink(kafka, "alerts", key="user_id", create_topic=of.NewTopic(partitions=4))
ledger = of.DatabaseSink(database, "payments", create_table=True)


@job.stream()
def risk_control(spark):
    payments = of.KafkaSource(
        kafka,
        "transactions",
        value=of.Json("number bigint, user_id string, amount decimal(18,2), event_time timestamp"),
        on_malformed="skip",
    ).load(spark)
    fraud = (
        payments.withWatermark("event_time", "10 seconds")
        .groupBy(F.window("event_time", "1 minute"), "user_id")
        .agg(F.count("*").alias("transactions"), F.sum("amount").alias("total"))
        .where("transactions > 10")
    )
    return {alerts: fraud, ledger: payments}


if __name__ == "__main__":
    job.main()
