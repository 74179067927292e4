"""A job that fails: by a record that its schema does not fit, or (FAULT=function) by an error of a user's function."""

import os

import pandas as pd
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job("failing", checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="200 ms"))


@F.pandas_udf(LongType())
def broken(ids: pd.Series) -> pd.Series:
    raise ValueError(f"a mistake of the user's, with {len(ids)} ids")


@job.stream(sinks=[of.KafkaSink(kafka, os.environ["OUT"], key="id")])
def numbers(spark):
    ids = of.KafkaSource(kafka, os.environ["IN"], value=of.Json("id long")).load(spark)
    return ids.select(broken("id").alias("id")) if os.environ["FAULT"] == "function" else ids


if __name__ == "__main__":
    job.main(until="caught-up")
