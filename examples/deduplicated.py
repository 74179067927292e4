"""Events that their sender repeats, each id once: a repetition comes within half an hour, or counts as new."""

import os

import onceflow as of

kafka = of.KafkaCluster(os.environ.get("KAFKA", "localhost:9092"))
job = of.Job("deduplicated", checkpointing=of.Checkpointing("checkpoints/deduplicated", interval="1s"))
events = of.KafkaSource(
    kafka,
    "events",
    value=of.Json("id string, amount long, at timestamp"),
    max_records_per_epoch=int(os.environ.get("PER_EPOCH", "100000")),
)
once = of.KafkaSink(kafka, "events-once", key="id", create_topic=of.NewTopic(partitions=2))


@job.stream(sinks=[once], sources=[events])
def deduplicated(spark):
    # Which row of an id passes is the one that comes first, and that may be another one when an epoch runs again. So
    # the rows of an id must be the same in all that is written; a repetition here differs in its time alone.
    repeated = events.load(spark).withWatermark("at", "30 minutes")
    return repeated.dropDuplicatesWithinWatermark(["id"]).select("id", "amount")


if __name__ == "__main__":
    job.main()
