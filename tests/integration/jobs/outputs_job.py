"""A job of the fault tests as its user edits it: OUTPUTS says, as JSON, what each sink gets and from which source.

Each output is a list: the sink's name, its topic, the source's topic, records an epoch, and what is done with them:
``copy``, or ``count`` by key. Outputs on one line of SAME read one source.
"""

import json
import os

from pyspark.sql import functions as F  # noqa: N812

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
other = of.KafkaCluster(os.environ.get("KAFKA2", os.environ["KAFKA"]))
job = of.Job(
    "outputs",
    checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="100 ms"),
    output_mode=os.environ.get("MODE", "append"),
    spark={"spark.sql.shuffle.partitions": "2"},
)


@job.stream()
def outputs(spark):
    made = {}
    for name, topic, source, limit, work in json.loads(os.environ["OUTPUTS"]):
        cluster = other if source.startswith("@") else kafka
        read = of.KafkaSource(
            cluster, source.lstrip("@"), value=of.Text(), key=of.Text(), max_records_per_epoch=limit
        ).load(spark)
        sink = of.KafkaSink(
            kafka,
            topic,
            name=name,
            key="key",
            value=of.Text() if work.startswith("copy") else of.Json(),
            value_columns=["value"] if work.startswith("copy") else None,
            producer={"linger.ms": 0},
            transaction_timeout=os.environ.get("TIMEOUT"),
        )
        does, _, argument = work.partition(":")
        if does == "count":
            made[sink] = read.groupBy("key").agg(F.count("*").alias("n"))
        elif does == "sum":
            made[sink] = read.groupBy("key").agg(F.sum(F.length("value")).alias("n"))
        else:
            made[sink] = read.where(F.expr(argument)) if argument else read
    return made


if __name__ == "__main__":
    job.main(until=os.environ.get("UNTIL", "caught-up"), takeover=os.environ.get("TAKEOVER") or None)
