"""A job of the fault tests whose malformed records are dead letters, in topic DEAD.

SHAPE says what becomes of the others: ``copy``, ``two`` (even ids go to OUT, odd ones to OUT2), ``function`` (of
Python), or ``count`` by key. With TWICE they are read from IN and IN2, and share the topic of dead letters.
"""

import os

from pyspark.sql import functions as F  # noqa: N812

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
shape = os.environ.get("SHAPE", "copy")
job = of.Job(
    "dead",
    checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="100 ms"),
    output_mode="update" if shape == "count" else "append",
    spark={"spark.sql.shuffle.partitions": "2"},
)


def sink(topic, **more):
    return of.KafkaSink(kafka, topic, producer={"linger.ms": 0}, transaction_timeout=os.environ.get("TIMEOUT"), **more)


dead = of.DeadLetter(sink(os.environ["DEAD"], name="dead"))
out = sink(os.environ["OUT"], name="out", key="key", value_columns=["n" if shape == "count" else "id"])


def source(topic):
    return of.KafkaSource(
        kafka,
        topic,
        value=of.Json("id int"),
        key=of.Text(),
        on_malformed=dead,
        max_records_per_epoch=int(os.environ["PER_EPOCH"]),
    )


sources = [source(os.environ[name]) for name in ("IN", "IN2") if name in os.environ]


@job.stream(sinks=[out], sources=sources)
def outputs(spark):
    first, *others = (each.load(spark) for each in sources)
    records = first if not others else first.union(others[0])
    match shape:
        case "two":
            odd = sink(os.environ["OUT2"], name="odd", key="key", value_columns=["id"])
            return {out: records.where("id % 2 = 0"), odd: records.where("id % 2 = 1")}
        case "function":
            return {out: records.withColumn("id", F.udf(lambda number: number, "int")("id"))}
        case "count":
            return {out: records.groupBy("key").agg(F.count("*").alias("n"))}
        case _:
            return {out: records}


if __name__ == "__main__":
    job.main(until="caught-up")
