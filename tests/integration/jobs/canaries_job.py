"""A job that is told a secret in each way that there is: it reads IN into OUT and a table, and fails once at a row."""

import json
import logging
import os
from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812

import onceflow as of

logging.getLogger().setLevel(logging.DEBUG)

login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "username": "job"}
kafka = of.KafkaCluster(os.environ["KAFKA"], **login, password={"env": "CANARY_KAFKA"})
job = of.Job(
    "canaries",
    checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="200 ms"),
    spark=json.loads(os.environ["SPARK"]),
)


def passed(value):
    """Fails once, at a record, with words of its own."""
    failed = Path(os.environ["FAILED"])
    if value == "poison" and not failed.exists():
        failed.touch()
        raise ValueError("a record is poisoned")
    return value


@job.stream(
    sinks=[
        of.KafkaSink(kafka, "out", value=of.Text(), value_columns=["value"]),
        of.DatabaseSink(os.environ["DATABASE"], "rows", create_table=True),
    ]
)
def canaries(spark):
    records = of.KafkaSource(kafka, "in", value=of.Text()).load(spark)
    return records.select(F.udf(passed, "string")("value").alias("value"))


if __name__ == "__main__":
    job.main()
