"""The copy job with every kind of sink: each record of IN goes to all of them.

The topic OUT, three tables of SQLite and an Iceberg and a Delta table in LAKE, two tables of the database POSTGRES.
"""

import os

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
lake, postgres, sqlite = os.environ["LAKE"], os.environ["POSTGRES"], f"sqlite:///{os.environ['LAKE']}/tables.db"
job = of.Job("fan", checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="200 ms"))
sinks = [
    of.KafkaSink(
        kafka, os.environ["OUT"], key="key", value=of.Text(), value_columns=["value"], producer={"linger.ms": 0}
    ),
    of.DatabaseSink(sqlite, "added", name="sqlite-added", create_table=True),
    of.DatabaseSink(sqlite, "keyed", key="id", name="sqlite-keyed", create_table=True),
    of.DatabaseSink(postgres, "added", name="postgres-added", create_table=True),
    of.DatabaseSink(postgres, "keyed", key="id", name="postgres-keyed", create_table=True),
    of.IcebergSink(
        "lake",
        "bank.payments",
        properties={"type": "sql", "uri": f"sqlite:///{lake}/catalog.db", "warehouse": f"file://{lake}"},
        create_table=True,
    ),
    of.DeltaSink(f"{lake}/delta", create_table=True),
]


@job.stream(sinks=sinks)
def fanned(spark):
    records = of.KafkaSource(
        kafka, os.environ["IN"], value=of.Text(), key=of.Text(), max_records_per_epoch=int(os.environ["PER_EPOCH"])
    ).load(spark)
    return records.selectExpr("key", "value", "cast(get_json_object(value, '$.id') as bigint) as id")


if __name__ == "__main__":
    job.main(until=os.environ.get("UNTIL", "caught-up"), takeover=os.environ.get("TAKEOVER"))
