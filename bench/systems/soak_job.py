"""Three sinks in one epoch, for the soak: each payment to PostgreSQL, alerts to Kafka, the largest payments to Iceberg.

Must not know: who measures it. The state has a bound: windows of a minute, and a watermark.
"""

import os

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job("three-sinks", checkpointing=of.Checkpointing("checkpoints/three-sinks", interval="1s"))

alerts = of.KafkaSink(kafka, "three-alerts", key="user_id", create_topic=of.NewTopic(partitions=4))
ledger = of.DatabaseSink(os.environ["DATABASE"], "payments", create_table=True)
large = of.IcebergSink(
    "lake",
    "bank.large",
    properties={"type": "sql", "uri": f"sqlite:///{os.environ['LAKE']}/catalog.db", "warehouse": os.environ["LAKE"]},
    create_table=True,
)


@job.stream(sinks=[alerts, ledger, large])
def risk_control(spark):
    payments = of.KafkaSource(
        kafka,
        "transactions",
        value=of.Json("id string, user_id string, amount decimal(18,2), event_time timestamp"),
        on_malformed="skip",
    ).load(spark)
    fraud = (
        payments.withWatermark("event_time", "10 seconds")
        .groupBy(F.window("event_time", "1 minute"), "user_id")
        .agg(F.count("*").alias("transactions"), F.sum("amount").alias("total"))
        .where("transactions > 10")
    )
    return {alerts: fraud, ledger: payments, large: payments.where("amount >= 900")}


if __name__ == "__main__":
    job.main()
