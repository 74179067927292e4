"""The counting job of a database: a running count for each key, in state; the newest of each is in table counts."""

import os

from pyspark.sql import functions as F  # noqa: N812

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job(
    "counts",
    checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="200 ms", retain=int(os.environ["RETAIN"])),
    output_mode="update",
    spark={"spark.sql.shuffle.partitions": "2"},
)
sink = of.DatabaseSink(os.environ["DATABASE"], "counts", key="key", create_table=True)


@job.stream(sinks=[sink])
def counted(spark):
    records = of.KafkaSource(
        kafka, os.environ["IN"], value=of.Raw(), key=of.Text(), max_records_per_epoch=int(os.environ["PER_EPOCH"])
    ).load(spark)
    return records.groupBy("key").agg(F.count("*").alias("n"))


if __name__ == "__main__":
    job.main(until=os.environ.get("UNTIL", "caught-up"))
