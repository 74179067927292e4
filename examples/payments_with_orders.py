"""Payments with their orders: paid within 15 minutes, not paid in that time, and payments that came too late."""

import os

from pyspark.sql import functions as F

import onceflow as of

kafka = of.KafkaCluster(os.environ.get("KAFKA", "localhost:9092"))
job = of.Job("settled-orders", checkpointing=of.Checkpointing("checkpoints/settled-orders", interval="1s"))
per_epoch = int(os.environ.get("PER_EPOCH", "100000"))
orders = of.KafkaSource(
    kafka,
    "orders",
    value=of.Json("order_id string, amount decimal(18,2), ordered_at timestamp"),
    max_records_per_epoch=per_epoch,
)
payments = of.KafkaSource(
    kafka,
    "payments",
    value=of.Json("payment_id string, paid_order string, paid_at timestamp"),
    max_records_per_epoch=per_epoch,
)
two = of.NewTopic(partitions=2)
paid = of.KafkaSink(kafka, "orders-paid", key="order_id", create_topic=two)
unpaid = of.KafkaSink(kafka, "orders-unpaid", key="order_id", create_topic=two)
late = of.KafkaSink(kafka, "payments-late", key="payment_id", create_topic=two)

IN_TIME = "order_id = paid_order and paid_at between ordered_at and ordered_at + interval 15 minutes"


@job.stream(sinks=[paid, unpaid, late], sources=[orders, payments])
def settled(spark):
    ordered = orders.load(spark).withWatermark("ordered_at", "5 minutes")
    received = payments.load(spark).withWatermark("paid_at", "5 minutes")
    in_time = F.expr(IN_TIME)
    # An outer join gives what has found no partner once the watermark says that none can come: by time alone.
    return {
        paid: ordered.join(received, in_time).select("order_id", "payment_id", "amount"),
        unpaid: ordered.join(received, in_time, "left_outer").where("payment_id is null").select("order_id", "amount"),
        late: received.join(ordered, in_time, "left_outer").where("order_id is null").select("payment_id"),
    }


if __name__ == "__main__":
    job.main()
