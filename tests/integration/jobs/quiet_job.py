"""The copy job with a quiet sink beside it: each record of IN to the topic OUT, and ids from 1,000,000 to a table."""

import os

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job("quiet", checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="100 ms", retain=3))
topic = of.KafkaSink(
    kafka, os.environ["OUT"], key="key", value=of.Text(), value_columns=["value"], producer={"linger.ms": 0}
)
table = of.DatabaseSink(os.environ["DATABASE"], "alerts", create_table=True)


@job.stream(sinks=[topic, table])
def quiet(spark):
    records = of.KafkaSource(
        kafka, os.environ["IN"], value=of.Text(), key=of.Text(), max_records_per_epoch=int(os.environ["PER_EPOCH"])
    ).load(spark)
    rows = records.selectExpr("key", "value", "cast(get_json_object(value, '$.id') as bigint) as id")
    return {topic: rows, table: rows.where("id >= 1000000")}


if __name__ == "__main__":
    job.main(until=os.environ.get("UNTIL", "caught-up"), takeover=os.environ.get("TAKEOVER"))
