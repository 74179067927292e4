"""A job of the fault tests whose late rows, of what SHAPE says, go to topic LATE; those of a to LATE_A, all to COPY."""

import os

from pyspark.sql import functions as F  # noqa: N812

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job(
    "late",
    checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="100 ms"),
    output_mode=os.environ.get("MODE", "append"),
    spark={"spark.sql.shuffle.partitions": "2"},
)


def sink(name):
    producer = {"linger.ms": 0}
    return of.KafkaSink(
        kafka, os.environ[name], name=name.lower(), producer=producer, transaction_timeout=os.environ.get("TIMEOUT")
    )


out, late, late_a, copy = sink("OUT"), sink("LATE"), sink("LATE_A"), sink("COPY")
source = of.KafkaSource(
    kafka,
    os.environ["IN"],
    value=of.Json("id int, who string, s long"),
    max_records_per_epoch=int(os.environ["PER_EPOCH"]),
    max_ahead=None,
)
SHAPES = {
    "tumbling": lambda rows: rows.groupBy(F.window("at", "10 seconds"), "who").count(),
    "sliding": lambda rows: rows.groupBy("who", F.window("at", "10 seconds", "5 seconds")).count(),
    "session": lambda rows: rows.groupBy(F.session_window("at", "3 seconds"), "who").count(),
    "instants": lambda rows: rows.groupBy("at").count(),
    "distinct": lambda rows: rows.dropDuplicates(["who", "at"]).select("who", "s"),
    "within": lambda rows: rows.dropDuplicatesWithinWatermark(["who"]),
}


@job.stream(sinks=[out, late, late_a, copy], sources=[source])
def outputs(spark):
    rows = source.load(spark).withColumn("at", F.timestamp_seconds("s")).withWatermark("at", "5 seconds")
    counted = SHAPES[os.environ["SHAPE"]](rows)
    behind = of.late_rows(counted)
    window = next((name for name in behind.columns if "window" in name), None)
    start = F.lit(None).cast("long") if window is None else F.col(f"{window}.start").cast("long")
    return {
        out: counted,
        late: behind.select("id", "who", "s", start.alias("start")),
        late_a: behind.where("who = 'a'").select((F.col("id") + 1).alias("more")),
        copy: rows.select("id"),
    }


if __name__ == "__main__":
    job.main(until="caught-up")
