"""What librdkafka and brokers say against a record or a producer, as our errors.

Must not know: writers. Spark's workers load it. A row that is refused as it is would be refused by every start; a
broker that is away, or a writer that was fenced, is another matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onceflow.connectors.kafka.login_refused import is_refused_certificate
from onceflow.connectors.kafka.produce import ANY_PARTITION
from onceflow.errors import (
    KafkaRightsError,
    KafkaUnavailableError,
    OnceflowError,
    PreCommitError,
    RowRefusedError,
    WriterFencedError,
)

if TYPE_CHECKING:
    import pyarrow as pa


_HARMLESS = "always for what is visible: nothing of this epoch is; but every start meets the row again"


def require_times(topic: str, rows: pa.RecordBatch) -> None:
    """Refuse the one time that librdkafka (2.16) does not write: it takes 0 for "none", and sends the present time."""
    import pyarrow.compute as pc  # noqa: PLC0415 - only in a worker

    if "timestamp" in rows.schema.names and pc.any(pc.equal(rows.column("timestamp"), 0)).as_py():
        raise RowRefusedError(
            f"a row for topic {topic} has the time 1970-01-01T00:00:00Z, which cannot be written",
            harmless=_HARMLESS,
            cause="the column that the sink's timestamp= names holds it, and Kafka's client takes it for no time",
            action="give such rows another time, or null for the present one, in the stream function, and start the "
            "job again",
            topic=topic,
        )


def named_places(topic: str, rows: pa.RecordBatch) -> set[tuple[str, int]]:
    """Topics and partitions that the rows themselves name; empty where the sink's own topic is all."""
    import pyarrow as pa  # noqa: PLC0415 - only in a worker

    names = [name for name in ("topic", "partition") if name in rows.schema.names]
    if not names:
        return set()
    found = pa.Table.from_batches([rows.select(names)]).group_by(names).aggregate([]).to_pylist()
    places = set()
    for of in found:
        to, number = of.get("topic"), of.get("partition")
        places.add((topic if to is None else to, ANY_PARTITION if number is None else number))
    return places - {(topic, ANY_PARTITION)}


def no_such_topic() -> tuple[int, ...]:
    """The codes that say so."""
    from confluent_kafka import KafkaError  # noqa: PLC0415 - only in a worker

    return (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.TOPIC_EXCEPTION)  # noqa: SLF001


def nowhere(where: str, topic: str, said: object) -> RowRefusedError:
    """A row that names a place where nothing can be written."""
    return RowRefusedError(
        f"a row is for {where}, which is not there: {said}",
        harmless=_HARMLESS,
        cause="the column that the sink's topic= or partition= names holds it",
        action="make the topic or the partition; or give such rows another one, or null for the sink's own choice, in "
        "the stream function; then start the job again",
        topic=topic,
    )


def of_no_place(topic: str, sinks_topic: str, error: Any) -> RowRefusedError | None:
    """The error for a code that says so of a record. The sink's own topic is looked for at each start."""
    from confluent_kafka import KafkaError  # noqa: PLC0415 - only in a worker

    if error.code() == KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001
        return nowhere(f"a partition of topic {topic}", topic, error)
    if topic != sinks_topic and error.code() in no_such_topic():
        return nowhere(f"topic {topic}", topic, error)
    return None


def beneath(error: Exception) -> Exception:
    """The KafkaException that confluent-kafka raised SystemError over."""
    from confluent_kafka import KafkaException  # noqa: PLC0415 - only in a worker

    return error.__cause__ if isinstance(error.__cause__, KafkaException) else error


def of_the_record(topic: str, config: Mapping[str, Any], error: Exception | None) -> RowRefusedError | None:
    """The error for a record that is refused as it is, since trying again, unchanged, would be refused again.

    It is larger than the client or the broker takes, of a time that the broker does not take, or without a key in a
    compacted topic.
    """
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415 - only in a worker

    if not isinstance(error, KafkaException) or not isinstance(error.args[0], KafkaError):
        return None
    said = error.args[0]
    if said.code() == KafkaError.INVALID_RECORD:
        return RowRefusedError(
            f"a row for topic {topic} is refused by the broker as it is: {said}",
            harmless=_HARMLESS,
            cause="the row has no key, and its topic's cleanup.policy contains compact",
            action="give each row a key (KafkaSink(key=...)), or take compact from the topic's cleanup.policy; then "
            "start the job again",
            topic=topic,
        )
    if said.code() == KafkaError.INVALID_TIMESTAMP:
        return RowRefusedError(
            f"a row for topic {topic} has a time that the broker does not take: {said}",
            harmless=_HARMLESS,
            cause="the column that the sink's timestamp= names is too far from the present: the topic's "
            "message.timestamp.after.max.ms (an hour from Kafka 4.0 on) or message.timestamp.before.max.ms",
            action="raise that setting of the topic, or give such rows another time in the stream function; then start "
            "the job again",
            topic=topic,
        )
    if said.code() != KafkaError.MSG_SIZE_TOO_LARGE:
        return None
    most = config.get("message.max.bytes", 1_000_000)
    return RowRefusedError(
        f"a record for topic {topic} is larger than its producer ({most} bytes) or the broker takes: {said}",
        harmless=_HARMLESS,
        cause=f"message.max.bytes of this sink's producer is {most}; it follows max.message.bytes of the sink's topic, "
        "as it was at the start, unless producer= says otherwise",
        action="raise the topic's max.message.bytes (and message.max.bytes, if producer= has it), or make the record "
        "smaller; then start the job again",
        topic=topic,
    )


def is_refused_login(error: Any) -> bool:
    """Whether what librdkafka tells its callback is that a broker, or a token endpoint, refused our login."""
    from confluent_kafka import KafkaError  # noqa: PLC0415 - only in a worker

    return error.code() == KafkaError._AUTHENTICATION or is_refused_certificate(error.str())  # noqa: SLF001


def answer_of(topic: str, error: Exception | None) -> str:
    """What a broker has refused, and its code; "" where it did not answer, or what it says passes by itself.

    A code that is not known to stay passes: of a partition without a leader, a coordinator that loads, a full disk.
    """
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415 - only in a worker

    stays = {
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_REQUEST,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.SECURITY_DISABLED,
        KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
    }
    if not isinstance(error, KafkaException) or error.args[0].code() not in stays:
        return ""
    return f"topic {topic}: {error.args[0].name()} ({error.args[0].code()})"


def kind_of(error: Exception | None) -> type[OnceflowError]:
    """Which of our errors a KafkaException is."""
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415 - only in a worker

    if not isinstance(error, KafkaException):
        return PreCommitError
    code = error.args[0].code()
    if code in (
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    ):
        return KafkaRightsError
    if code in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):  # noqa: SLF001
        return KafkaUnavailableError
    if code in (
        KafkaError._FENCED,  # noqa: SLF001
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,
    ):
        return WriterFencedError
    return PreCommitError
