"""Offsets kept in a checkpoint, and bound to the rows by one durable decision: onceflow's way, from Kafka to Kafka.

What dies between the decision and the commit of the rows is finished by the next start; a second start ends the first.
"""

import os

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
source = of.KafkaSource(kafka, os.environ["IN"], value=of.Text(), max_records_per_epoch=200)
sink = of.KafkaSink(kafka, os.environ["OUT"], value=of.Text())
job = of.Job("offsets", checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="200 ms"))


@job.stream(sinks=[sink], sources=[source])
def copied(spark):
    return source.load(spark)


if __name__ == "__main__":
    job.main(until="caught-up")
