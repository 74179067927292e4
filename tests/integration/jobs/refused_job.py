"""A job of the fault tests: a table and a topic that do not take each row, and a topic for what either refuses.

SHAPE says what goes to them: ``copy``, or ``count``: the newest count of each name, of a plan that keeps state.
"""

import os

from pyspark.sql import functions as F  # noqa: N812

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
counts = os.environ["SHAPE"] == "count"
job = of.Job(
    "refused",
    checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="100 ms"),
    output_mode="update" if counts else "append",
    spark={"spark.sql.shuffle.partitions": "2"},
)


def topic(name, **more):
    return of.KafkaSink(kafka, os.environ[name], name=name.lower(), producer={"linger.ms": 0}, **more)


table = of.DatabaseSink(
    os.environ["DATABASE"], "people", key="name" if counts else None, on_refused=topic("NOT_IN_TABLE", key="id")
)
out = topic("OUT", key="name", on_refused=topic("NOT_IN_OUT"))
source = of.KafkaSource(
    kafka,
    os.environ["IN"],
    value=of.Json("id long, name string, size int"),
    max_records_per_epoch=int(os.environ["PER_EPOCH"]),
)


@job.stream(sinks=[table, out], sources=[source])
def people(spark):
    rows = source.load(spark).withColumn("text", F.expr("repeat('x', size)")).drop("size")
    if counts:
        rows = rows.groupBy("name").agg(F.max("id").alias("id"), F.max("text").alias("text"))
    return rows


if __name__ == "__main__":
    job.main(until="caught-up")
