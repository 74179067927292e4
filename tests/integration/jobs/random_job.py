"""The copy job with a plan that is not deterministic: each run of an epoch gives other rows."""

import os

from pyspark.sql import functions as F  # noqa: N812

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job("random", checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="200 ms"))
sink = of.KafkaSink(
    kafka,
    os.environ["OUT"],
    value=of.Text(),
    producer={"linger.ms": 0},
    transaction_timeout=os.environ.get("TIMEOUT"),
)


@job.stream(sinks=[sink])
def randomised(spark):
    records = of.KafkaSource(
        kafka, os.environ["IN"], value=of.Text(), max_records_per_epoch=int(os.environ["PER_EPOCH"])
    ).load(spark)
    return records.select(F.concat_ws("|", "value", F.expr("uuid()")).alias("value"))


if __name__ == "__main__":
    job.main(until="caught-up")
