"""A state class with processing-time timers and a TTL: the first record of a key sets a timer, which writes the key.

The value of a key is kept with a TTL that is longer than the timer: a key whose value is gone is written as ``lost``.
"""

import os
from functools import partial

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

import onceflow as of

kafka = of.KafkaCluster(os.environ["KAFKA"])
job = of.Job(
    "timers",
    checkpointing=of.Checkpointing(os.environ["CHECKPOINT"], interval="500 ms"),
    spark={"spark.sql.shuffle.partitions": "2"},
)
AFTER_MS = 2_000


class Timers(StatefulProcessor):
    def init(self, handle):
        self.handle = handle
        self.first = handle.getValueState("first", "value string", 3_600_000)

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 - Spark's names
        value = min(row.value for row in rows)
        if not self.first.exists():
            self.first.update((value,))
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + AFTER_MS)
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802, N803 - Spark's names
        yield Row(key=key[0], value=self.first.get()[0] if self.first.exists() else "lost")

    def close(self):
        pass


sink = of.KafkaSink(kafka, os.environ["OUT"], key="key", value=of.Json(), producer={"linger.ms": 0})
read = partial(of.KafkaSource, kafka, os.environ["IN"], value=of.Text(), key=of.Text())


@job.stream(sinks=[sink])
def timed(spark):
    records = read(max_records_per_epoch=int(os.environ["PER_EPOCH"])).load(spark)
    by_key = records.groupBy("key")
    return by_key.transformWithState(Timers(), "key string, value string", "Append", "ProcessingTime")


if __name__ == "__main__":
    job.main(until=os.environ.get("UNTIL", "caught-up"))
