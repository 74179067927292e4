"""A pattern over state: three refused payments of a card, then one above 1,000, all within five minutes."""

import os

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

import onceflow as of

kafka = of.KafkaCluster(os.environ.get("KAFKA", "localhost:9092"))
job = of.Job("card-pattern", checkpointing=of.Checkpointing("checkpoints/card-pattern", interval="1s"))
payments = of.KafkaSource(
    kafka,
    "card-payments",
    value=of.Json("payment_id string, card string, amount long, refused boolean, at timestamp"),
    max_records_per_epoch=int(os.environ.get("PER_EPOCH", "100000")),
)
alerts = of.KafkaSink(kafka, "card-alerts", key="card", create_topic=of.NewTopic(partitions=2))
WITHIN_MS = 5 * 60 * 1000


class Pattern(StatefulProcessor):
    """Payments wait for the watermark: what comes out follows from their times, never from how they arrived."""

    def init(self, handle):
        self.handle = handle
        self.waiting = handle.getMapState("waiting", "at long, id string", "amount long, refused boolean")
        self.refused = handle.getListState("refused", "at long")

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 - Spark's names
        for row in rows:
            self.waiting.updateValue((row.at_ms, row.payment_id), (row.amount, row.refused))
            self.handle.registerTimer(row.at_ms)
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802, N803 - Spark's names
        now = expiredTimerInfo.getExpiryTimeInMs()
        before = [at for (at,) in self.refused.get() if at >= now - WITHIN_MS]  # in the place of a TTL
        for (at, payment), (amount, refused) in sorted(self.waiting.iterator()):
            if at == now:
                self.waiting.removeKey((at, payment))
                if refused:
                    before.append(at)
                elif amount > 1000 and len(before) >= 3:
                    yield Row(card=key[0], payment_id=payment, at=at)
        self.refused.put([(at,) for at in before]) if before else self.refused.clear()

    def close(self):
        pass


@job.stream(sinks=[alerts], sources=[payments])
def found(spark):
    stream = payments.load(spark).withWatermark("at", "1 minute").selectExpr("*", "unix_millis(at) as at_ms")
    by_card = stream.groupBy("card")
    return by_card.transformWithState(Pattern(), "card string, payment_id string, at long", "Append", "EventTime")


if __name__ == "__main__":
    job.main()
