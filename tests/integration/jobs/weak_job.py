"""The copy job of the fault tests with an at-least-once sink on OUT, and beside it an exactly-once one on EXACT."""

import os

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job("weak", checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="200 ms"))


def sink(topic, **more):
    return of.KafkaSink(
        kafka, topic, key="key", value=of.Raw(), value_columns=["value"], producer={"linger.ms": 0}, **more
    )


sinks = [sink(os.environ["OUT"], guarantee="at-least-once")]
if "EXACT" in os.environ:
    sinks.append(sink(os.environ["EXACT"], transaction_timeout=os.environ.get("TIMEOUT")))


@job.stream(sinks=sinks)
def copied(spark):
    return of.KafkaSource(
        kafka, os.environ["IN"], value=of.Raw(), metadata=["key"], max_records_per_epoch=int(os.environ["PER_EPOCH"])
    ).load(spark)


if __name__ == "__main__":
    job.main(until=os.environ.get("UNTIL", "caught-up"))
