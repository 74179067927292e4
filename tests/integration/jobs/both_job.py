"""The copy job with two sinks: every record of IN to the topic OUT, and its id and key to the table DATABASE.

With KEYED the table has one row for each id, which says by whom it was written.
"""

import os

from pyspark.sql import functions as F  # noqa: N812

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job("both", checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="200 ms"))

topic = of.KafkaSink(
    kafka,
    os.environ["OUT"],
    key="key",
    value=of.Text(),
    value_columns=["value"],
    producer={"linger.ms": 0},
    transaction_timeout=os.environ.get("TIMEOUT"),
)
how = {"key": "id"} if "KEYED" in os.environ else {}
table = of.DatabaseSink(os.environ["DATABASE"], "payments", create_table="NO_TABLE" not in os.environ, **how)


@job.stream(sinks=[topic] if "NO_SINK" in os.environ else [topic, table])
def both(spark):
    records = of.KafkaSource(
        kafka, os.environ["IN"], value=of.Text(), key=of.Text(), max_records_per_epoch=int(os.environ["PER_EPOCH"])
    ).load(spark)
    rows = records.selectExpr("key", "value", "cast(get_json_object(value, '$.id') as bigint) as id")
    return rows.withColumn("writer", F.lit(os.environ.get("BY", ""))) if "KEYED" in os.environ else rows


if __name__ == "__main__":
    job.main(until=os.environ.get("UNTIL", "caught-up"), takeover=os.environ.get("TAKEOVER"))
