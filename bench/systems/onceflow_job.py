"""onceflow, as a user writes it: the unchanged copy, and the fraud job of the README.

Must not know: who measures it. One argument: the assignment as JSON (see ``bench.stage.Assignment``).
"""

import json
import sys
from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

import onceflow as of

told = json.loads(sys.argv[1])
kafka = of.KafkaCluster(told["servers"])
job = of.Job(
    f"bench-{told['work']}-{Path(told['checkpoint']).parent.name}",  # a database keeps the names of jobs
    checkpointing=of.Checkpointing(told["checkpoint"], interval=f"{told['interval_ms']} ms"),
    spark={"spark.sql.session.timeZone": "UTC", "spark.local.dir": told["scratch"], **told["spark"]},
)
topic = {
    "guarantee": told["guarantee"],
    "transaction_timeout": told["transaction_timeout_ms"] and f"{told['transaction_timeout_ms']} ms",
}


def copied(spark):
    return of.KafkaSource(
        kafka, told["source"], value=of.Raw(), metadata=["key"], max_records_per_epoch=told["per_epoch"]
    ).load(spark)


def alerts(spark):
    payments = of.KafkaSource(
        kafka,
        told["source"],
        value=of.Avro(registry=of.SchemaRegistry(told["registry"]))
        if told["registry"]
        else of.Json("user_id string, amount decimal(18,2), event_time timestamp"),
        on_malformed="skip",
        max_records_per_epoch=told["per_epoch"],
    ).load(spark)
    return (
        payments.withWatermark("event_time", "10 seconds")
        .groupBy(F.window("event_time", "1 minute"), "user_id")
        .agg(F.count("*").alias("transactions"), F.sum("amount").alias("total"))
        .where("transactions > 10")
    )


def payments(spark):
    return of.KafkaSource(
        kafka,
        told["source"],
        value=of.Json("id string, user_id string, amount decimal(18,2), event_time timestamp"),
        max_records_per_epoch=told["per_epoch"],
    ).load(spark)


works = {"table": ("table",), "copy-payments": ("topic",), "both": ("table", "topic")}.get(told["work"])
if works:
    sinks = {
        "table": lambda: of.DatabaseSink(told["database"], told["table"]),
        "topic": lambda: of.KafkaSink(kafka, told["sink"], key="user_id", **topic),
    }
    job.stream(sinks=[sinks[each]() for each in works])(payments)
elif told["work"] == "copy":
    job.stream(sinks=[of.KafkaSink(kafka, told["sink"], key="key", value=of.Raw(), value_columns=["value"], **topic)])(
        copied
    )
else:
    job.stream(sinks=[of.KafkaSink(kafka, told["sink"], key="user_id", **topic)])(alerts)

if __name__ == "__main__":
    job.main(until="caught-up" if told["bounded"] else "stopped")
