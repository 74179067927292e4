"""The counting job of the fault tests: a running count for each key, in state; every change goes to OUT."""

import os

from pyspark.sql import functions as F  # noqa: N812

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job(
    "count",
    checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="200 ms"),
    output_mode="update",
    spark={"spark.sql.shuffle.partitions": "2"},
)


sink = of.KafkaSink(
    kafka,
    os.environ["OUT"],
    key="key",
    producer={"linger.ms": 0},
    transaction_timeout=os.environ.get("TIMEOUT"),
)


@job.stream(sinks=[sink])
def counted(spark):
    records = of.KafkaSource(
        kafka, os.environ["IN"], value=of.Raw(), key=of.Text(), max_records_per_epoch=int(os.environ["PER_EPOCH"])
    ).load(spark)
    return records.groupBy("key").agg(F.count("*").alias("n"))


if __name__ == "__main__":
    job.main(until=os.environ.get("UNTIL", "caught-up"))
