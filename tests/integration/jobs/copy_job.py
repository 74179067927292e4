"""The copy job of the fault tests: every record of IN to OUT, unchanged; stateless."""

import os

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job(
    "copy",
    checkpointing=of.Checkpointing(
        os.environ["CHECKPOINT"], interval="200 ms", retain=int(os.environ.get("RETAIN", "100"))
    ),
)


@job.stream(sinks=[of.KafkaSink(kafka, os.environ["OUT"], key="key", value=of.Raw(), value_columns=["value"],
                                producer={"linger.ms": 0}, transaction_timeout=os.environ.get("TIMEOUT"))])  # fmt: skip
def copied(spark):
    return of.KafkaSource(
        kafka, os.environ["IN"], value=of.Raw(), metadata=["key"], max_records_per_epoch=int(os.environ["PER_EPOCH"])
    ).load(spark)


if __name__ == "__main__":
    job.main(until=os.environ.get("UNTIL", "caught-up"), takeover=os.environ.get("TAKEOVER"))
