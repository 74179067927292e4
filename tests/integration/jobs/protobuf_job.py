"""A job of the fault tests: payments in Protobuf by a registry, copied in Protobuf, and what is malformed aside."""

import os

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
registry = of.SchemaRegistry(os.environ["REGISTRY"])
job = of.Job("protobuf", checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="100 ms"))
aside = of.KafkaSink(kafka, os.environ["ASIDE"], name="aside", producer={"linger.ms": 0})
source = of.KafkaSource(
    kafka,
    os.environ["IN"],
    value=of.Protobuf(registry=registry),
    on_malformed=of.DeadLetter(aside),
    max_records_per_epoch=int(os.environ["PER_EPOCH"]),
)
out = of.KafkaSink(
    kafka, os.environ["OUT"], name="out", value=of.Protobuf(registry=registry), producer={"linger.ms": 0}
)


@job.stream(sinks=[out], sources=[source])
def payments(spark):
    return source.load(spark).dropDuplicates(["id", "at"]).select("id", "user", "at")


if __name__ == "__main__":
    job.main(until="caught-up")
