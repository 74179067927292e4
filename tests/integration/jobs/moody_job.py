"""The copy job of a test that makes it fail.

Each file ``fail-*`` in MOODS fails one task, and while ``slow`` is there a task does not end. A record that is no JSON
fails its epoch, or is left out with MALFORMED=skip.
"""

import os
import time
from pathlib import Path

import pandas as pd
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job("moody", checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="200 ms"))
moods = Path(os.environ["MOODS"])


@F.pandas_udf(LongType())
def moodily(ids: pd.Series) -> pd.Series:
    for each in sorted(moods.glob("fail-*")):
        each.unlink()
        raise RuntimeError(f"in a mood: {each.name}")
    while (moods / "slow").exists():
        time.sleep(0.05)
    return ids


@job.stream(sinks=[of.KafkaSink(kafka, os.environ["OUT"], key="key", value_columns=["id"], producer={"linger.ms": 0})])
def copied(spark):
    records = of.KafkaSource(
        kafka,
        os.environ["IN"],
        value=of.Json("id long"),
        key=of.Text(),
        max_records_per_epoch=int(os.environ["PER_EPOCH"]),
        on_malformed=os.environ.get("MALFORMED", "fail"),
    ).load(spark)
    return records.select("key", moodily("id").alias("id"))


if __name__ == "__main__":
    job.main(until=os.environ.get("UNTIL", "caught-up"))
