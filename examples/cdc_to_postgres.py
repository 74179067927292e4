"""A copy of three tables, from the changes that Debezium has put into Kafka: of one epoch all three, or none.

An older change never wins against a newer one, also where Debezium is started again and sends changes twice.
"""

import os

from pyspark.sql import functions as F

import onceflow as of

kafka = of.KafkaCluster(os.environ.get("KAFKA", "localhost:9092"))
database = os.environ.get("DATABASE", "postgresql://job:secret@localhost/copies")
prefix = os.environ.get("PREFIX", "bank")
tables = {
    "customer": "id bigint, name string, city string",
    "account": "id bigint, customer_id bigint, balance decimal(18,2), opened int",
    "booking": "id bigint, account_id bigint, amount decimal(18,2), booked_at timestamp, note string",
}
job = of.Job("cdc-to-postgres", checkpointing=of.Checkpointing("checkpoints/cdc-to-postgres", interval="1s"))
sources = {
    table: of.KafkaSource(
        kafka,
        f"{prefix}.public.{table}",
        value=of.Debezium(of.Json(columns)),
        max_records_per_epoch=int(os.environ.get("PER_EPOCH", "100000")),
    )
    for table, columns in tables.items()
}
copies = {
    table: of.DatabaseSink(
        database,
        table,
        key="id",
        delete_when="debezium_deleted",
        sequence_by="debezium_sequence",
        create_table=True,
    )
    for table in tables
}


@job.stream(sinks=list(copies.values()), sources=list(sources.values()))
def changes(spark):
    found = {table: source.load(spark) for table, source in sources.items()}
    # Debezium gives a date as its number of days.
    found["account"] = found["account"].withColumn("opened", F.date_from_unix_date("opened"))
    return {copies[table]: changed for table, changed in found.items()}


if __name__ == "__main__":
    job.main()
