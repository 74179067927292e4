"""The copy job of a bank: in by a password and a locked client key, out by tokens; with loud logs and a shown plan."""

import json
import logging
import os

import onceflow as of

job = of.Job(
    "bank",
    checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="200 ms"),
    spark={
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": os.environ["EVENTS"],
    },
)
source, sink = (of.KafkaCluster(**json.loads(os.environ[name])) for name in ("KAFKA_IN", "KAFKA_OUT"))


@job.stream(sinks=[of.KafkaSink(sink, os.environ["OUT"], value=of.Text(), create_topic=of.NewTopic(1))])
def copied(spark):
    spark.sparkContext.setLogLevel("INFO")
    frame = of.KafkaSource(source, os.environ["IN"], value=of.Text()).load(spark)
    frame.explain(extended=True)
    return frame


if __name__ == "__main__":
    logging.basicConfig(level=logging.DEBUG)
    logging.getLogger("py4j").setLevel(logging.INFO)  # it would log every call of Java with its arguments
    logging.getLogger("bank").info("%r %s %s", source, sink, [source.description(), sink.description()])
    job.main(until="caught-up")
