"""The walk's job: letters from two partitions, counted by kind, in state; every change goes to ``counts``.

Must not know: that somebody looks at it between its steps.
"""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job(
    "walk",
    checkpointing=of.Checkpointing("checkpoints/walk", interval="200 ms"),
    output_mode="update",
    spark={"spark.sql.shuffle.partitions": "2"},
)
letters = of.KafkaSource(kafka, "letters", value=of.Text(), max_records_per_epoch=4)
counts = of.KafkaSink(kafka, "counts", key="kind", create_topic=of.NewTopic(partitions=1))


@job.stream(sinks=[counts], sources=[letters])
def counted(spark: SparkSession) -> DataFrame:
    """How many vowels and how many consonants there were so far."""
    kind = F.when(F.col("value").isin("A", "E"), "vowels").otherwise("consonants")
    return letters.load(spark).groupBy(kind.alias("kind")).agg(F.count("*").alias("n"))


if __name__ == "__main__":
    job.main(until="caught-up")
