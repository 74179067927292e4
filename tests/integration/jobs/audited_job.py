"""A job for the audit: every record of IN to OUT, to MARKED with all that a record can say, and to a table."""

import os

from pyspark.sql import functions as F  # noqa: N812

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job("audited", checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="200 ms"))

plain = of.KafkaSink(kafka, os.environ["OUT"], key="key", value_columns=["id", "text", "amount"])
marked = of.KafkaSink(
    kafka,
    os.environ["MARKED"],
    value=of.Text(),
    value_columns=["text"],
    headers="told",
    timestamp="at",
    partition="place",
)
table = of.DatabaseSink(os.environ["DATABASE"], "seen", create_table=True)


@job.stream(sinks=[plain, marked, table])
def audited(spark):
    records = of.KafkaSource(
        kafka, os.environ["IN"], value=of.Text(), key=of.Text(), max_records_per_epoch=int(os.environ["PER_EPOCH"])
    ).load(spark)
    rows = records.selectExpr("key", "cast(get_json_object(value, '$.id') as bigint) as id").selectExpr(
        "key",
        "id",
        "case when id % 7 <> 0 then concat('text ', id, repeat('ä', cast(id % 50 as int))) end as text",
        "cast(id / 3 as double) as share",
        "cast(id / 7 as decimal(15,2)) as amount",
        "cast(id / -7 as decimal(38,6)) as exact",
        "cast(id % 100 as tinyint) as small",
        "id % 2 = 0 as even",
        "date_add(date'1969-12-01', cast(id % 90 as int)) as day",
        "timestamp_micros(id * 1000001 - 5000000) as moment",
        "case when id % 5 <> 0 then unhex(hex(id)) end as octets",
        "cast(id as float) as coarse",
    )
    one = F.struct(F.lit("id").alias("key"), F.col("id").cast("string").cast("binary").alias("value"))
    none = F.struct(F.lit('say "nothing" é').alias("key"), F.lit(None).cast("binary").alias("value"))
    told = rows.selectExpr("text", "cast(id % 2 as int) as place", "timestamp_millis(1767225600000 + id) as at", "id")
    return {plain: rows, marked: told.withColumn("told", F.array(one, none)).drop("id"), table: rows}


if __name__ == "__main__":
    job.main(until="caught-up")
