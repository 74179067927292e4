"""The copy job with three sinks: every record of IN to the topic OUT, and its id and key to two tables in LAKE."""

import os

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
lake = os.environ["LAKE"]
job = of.Job("lake", checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="200 ms"))

topic = of.KafkaSink(
    kafka,
    os.environ["OUT"],
    key="key",
    value=of.Text(),
    value_columns=["value"],
    producer={"linger.ms": 0},
    transaction_timeout=os.environ.get("TIMEOUT"),
)
iceberg = of.IcebergSink(
    "lake",
    "bank.payments",
    properties={"type": "sql", "uri": f"sqlite:///{lake}/catalog.db", "warehouse": f"file://{lake}"},
    create_table=True,
)
delta = of.DeltaSink(f"{lake}/delta", create_table=True)


@job.stream(sinks=[topic, iceberg, delta])
def copied(spark):
    records = of.KafkaSource(
        kafka, os.environ["IN"], value=of.Text(), key=of.Text(), max_records_per_epoch=int(os.environ["PER_EPOCH"])
    ).load(spark)
    rows = records.selectExpr("key", "value", "cast(get_json_object(value, '$.id') as bigint) as id")
    return rows.withColumn("inside", F.struct("id", F.array("key").alias("keys"))).withColumn(
        "by", F.create_map("key", "id")
    )


if __name__ == "__main__":
    job.main(until=os.environ.get("UNTIL", "caught-up"), takeover=os.environ.get("TAKEOVER"))
