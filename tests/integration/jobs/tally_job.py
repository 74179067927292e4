"""The counting job with a state class: a running count for each key, in its own state; every change goes to OUT."""

import os

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job(
    "tally",
    checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="200 ms"),
    output_mode="update",
    spark={"spark.sql.shuffle.partitions": "2"},
)


class Tally(StatefulProcessor):
    def init(self, handle):
        self.n = handle.getValueState("n", "n long")

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 - Spark's names
        before = self.n.get()[0] if self.n.exists() else 0
        self.n.update((before + sum(1 for _ in rows),))
        yield Row(key=key[0], n=self.n.get()[0])

    def close(self):
        pass


sink = of.KafkaSink(kafka, os.environ["OUT"], key="key", producer={"linger.ms": 0})


@job.stream(sinks=[sink])
def tallied(spark):
    records = of.KafkaSource(
        kafka, os.environ["IN"], value=of.Raw(), key=of.Text(), max_records_per_epoch=int(os.environ["PER_EPOCH"])
    ).load(spark)
    return records.groupBy("key").transformWithState(Tally(), "key string, n long", "Update", "None")


if __name__ == "__main__":
    job.main(until=os.environ.get("UNTIL", "caught-up"), takeover=os.environ.get("TAKEOVER"))
