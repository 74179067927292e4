"""A running count for each key: to a table, by an upsert; every change to the topic OUT."""

import os

from pyspark.sql import functions as F  # noqa: N812

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job(
    "totals",
    checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="200 ms"),
    output_mode="update",
    spark={"spark.sql.shuffle.partitions": "2"},
)

topic = of.KafkaSink(kafka, os.environ["OUT"], key="key", producer={"linger.ms": 0})
making = "NO_TABLE" not in os.environ
table = of.DatabaseSink(os.environ["DATABASE"], "totals", key="key", create_table=making)


@job.stream(sinks=[topic] if "NO_SINK" in os.environ else [topic, table])
def totals(spark):
    records = of.KafkaSource(
        kafka, os.environ["IN"], value=of.Raw(), key=of.Text(), max_records_per_epoch=int(os.environ["PER_EPOCH"])
    ).load(spark)
    return records.groupBy("key").agg(F.count("*").alias("n"))


if __name__ == "__main__":
    job.main(until="caught-up", takeover=os.environ.get("TAKEOVER"))
