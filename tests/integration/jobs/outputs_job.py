"""A job of the fault tests as its user edits it: OUTPUTS says, as JSON, what each output gets and from which source.

Each output is a list: its sinks' names, their topics, the source's topics (all of them with commas between), records an
epoch, and what is done with them: ``copy``, ``upper`` (case), or ``count`` or ``sum`` by key; behind a colon a filter.
With SAME outputs of one topic share one source. LISTED names the sinks that ``stream`` is told; with FAIL it raises.
"""

import json
import os

from pyspark.sql import functions as F  # noqa: N812

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
other = of.KafkaCluster(os.environ.get("KAFKA2", os.environ["KAFKA"]))
job = of.Job(
    "outputs",
    checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval=os.environ.get("INTERVAL", "100 ms")),
    output_mode=os.environ.get("MODE", "append"),
    spark={"spark.sql.shuffle.partitions": "2"},
)


def sink(name, topic, work):
    copied = work.startswith(("copy", "upper"))
    return of.KafkaSink(
        kafka,
        topic,
        name=name,
        key="key",
        value=of.Text() if copied else of.Json(),
        value_columns=["value"] if copied else None,
        producer={"linger.ms": 0},
        transaction_timeout=os.environ.get("TIMEOUT"),
    )


told = json.loads(os.environ["OUTPUTS"])
sinks = {
    name: sink(name, topic, work)
    for names, topics, _, _, work in told
    for name, topic in zip(names.split(","), topics.split(","), strict=True)
}


@job.stream(sinks=[sinks[name] for name in os.environ.get("LISTED", "").split(",") if name])
def outputs(spark):
    if "FAIL" in os.environ:
        raise ValueError("the stream function fails")
    made, loaded = {}, {}
    for names, _, source, limit, work in told:
        read = loaded.get(source) if "SAME" in os.environ else None
        if read is None:
            cluster = other if source.startswith("@") else kafka
            read = loaded[source] = of.KafkaSource(
                cluster, source.lstrip("@").split(","), value=of.Text(), key=of.Text(), max_records_per_epoch=limit
            ).load(spark)
        does, _, condition = work.partition(":")
        if condition:
            read = read.where(F.expr(condition))
        match does:
            case "count":
                read = read.groupBy("key").agg(F.count("*").alias("n"))
            case "sum":
                read = read.groupBy("key").agg(F.sum(F.length("value")).alias("n"))
            case "upper":
                read = read.withColumn("value", F.upper("value"))
        made |= {sinks[name]: read for name in names.split(",")}
    return made


if __name__ == "__main__":
    job.main(until=os.environ.get("UNTIL", "caught-up"), takeover=os.environ.get("TAKEOVER") or None)
