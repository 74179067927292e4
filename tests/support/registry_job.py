"""A job whose records are of a registry's schemas."""

import dataclasses
import json

import onceflow as of
from onceflow.checkpoint.place import Place
from tests.support.harness import read_topic


@dataclasses.dataclass
class World:
    """A job that copies a topic of payments as JSON, with what it reads and writes."""

    cluster: of.KafkaCluster
    topic: str
    out: str
    where: str

    def run(self, form, select=None, **source):
        """One run to the end of what is there."""
        job = of.Job(f"copy-{self.topic}", checkpointing=of.Checkpointing(self.where, interval="100 ms"))
        read = of.KafkaSource(self.cluster, self.topic, value=form, **{"max_records_per_epoch": 2, **source})
        written = of.KafkaSink(self.cluster, self.out)

        @job.stream(sources=[read], sinks=[written])
        def copied(spark):
            frame = read.load(spark)
            return frame if select is None else select(frame)

        job.run(until="caught-up")
        return self.rows()

    def rows(self):
        return [json.loads(value) for _, value in read_topic(self.cluster, self.out)]

    @property
    def place(self):
        return Place.at(self.where, 10)

    def kept(self):
        return sorted(self.place.schemas.files())
