"""The copy job on a machine that does some 250 records a second in each task; PER_EPOCH=0 sets no limit."""

import os
import time

import pandas as pd
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job(
    "slow",
    checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="0 s"),
    spark={"spark.master": "local[2]", "spark.sql.execution.arrow.maxRecordsPerBatch": "100"},
)
sink = of.KafkaSink(
    kafka,
    os.environ["OUT"],
    key="key",
    value=of.Raw(),
    value_columns=["value"],
    producer={"linger.ms": 0},
    transaction_timeout=os.environ["TIMEOUT"],
)


@F.pandas_udf(BinaryType())
def slowly(values: pd.Series) -> pd.Series:
    time.sleep(0.004 * len(values))  # the work that a record costs
    return values


@job.stream(sinks=[sink])
def copied(spark):
    limit = int(os.environ["PER_EPOCH"]) or None
    records = of.KafkaSource(
        kafka, os.environ["IN"], value=of.Raw(), metadata=["key"], max_records_per_epoch=limit
    ).load(spark)
    return records.select("key", slowly("value").alias("value"))


if __name__ == "__main__":
    job.main(until="caught-up")
