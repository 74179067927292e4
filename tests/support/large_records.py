"""Records that are as large as it is told."""

from confluent_kafka import KafkaException, Producer


def send(cluster, topic, values, **config):
    """Write the values into partition 0."""
    settings = {"message.max.bytes": 100_000_000, "queue.buffering.max.kbytes": 200_000, "batch.size": 1_000_000}
    producer = Producer(cluster.for_librdkafka() | settings | config)
    failed = []
    for value in values:
        while True:
            try:
                producer.produce(topic, value, b"k", 0, on_delivery=lambda error, _: failed.append(error))
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(120) == 0
    failed = [error for error in failed if error is not None]
    if failed:
        raise KafkaException(failed[0])
