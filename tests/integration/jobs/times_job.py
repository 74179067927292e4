"""The job of the tests of times: a running count for each key, of records whose time is not ahead of their epoch's."""

import os

from pyspark.sql import functions as F  # noqa: N812

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job(
    "times",
    checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="200 ms"),
    output_mode="update",
    spark={"spark.sql.shuffle.partitions": "2"},
)


@job.stream(sinks=[of.KafkaSink(kafka, os.environ["OUT"], key="key", producer={"linger.ms": 0})])
def counted(spark):
    records = of.KafkaSource(
        kafka,
        os.environ["IN"],
        value=of.Json("at timestamp", timestamp_format="epoch-millis"),
        key=of.Text(),
        on_malformed=os.environ.get("ON_MALFORMED", "skip"),
        max_ahead="1 s",
    ).load(spark)
    return records.groupBy("key").agg(F.count("*").alias("n"))


if __name__ == "__main__":
    job.main(until=os.environ.get("UNTIL", "caught-up"))
