"""A prepared Kafka transaction, and its durable form: what a task hands to the driver and the journal keeps.

Must not know: a client of Kafka, the journal. Spark's workers load it. It is the only file that knows the JSON.

Reading never fails. What stands in a journal may be another sink's, another version's or edited by hand, and an
operator must be able to look at it all the same; so it becomes a value that says what is not understood. It can be
shown, and is never committed or aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from onceflow.connectors.kafka.partition import Partition

VERSION = 1
"""Of the JSON. Whatever has another one is not understood."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Handle:
    """The identity of exactly one transaction: one producer epoch holds one transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    def __str__(self) -> str:
        return f"{self.transactional_id}@{self.producer_id}/{self.producer_epoch}"

    def to_json(self) -> dict[str, Any]:
        """The handle as JSON values: all that an abort needs; ``read_handle`` is the inverse."""
        return {
            "version": VERSION,
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
        }


@dataclass(frozen=True, slots=True)
class Witness:
    """Where a transaction's last acknowledged record is.

    Attributes:
        partition: The partition.
        offset: The record's offset.
        cluster_id: Kafka's id of the cluster; "" until the committer has sealed it.
        topic_id: The topic's UUID, likewise: a topic that was deleted and made again has another.
    """

    partition: Partition
    offset: int
    cluster_id: str = ""
    topic_id: str = ""

    def __str__(self) -> str:
        return f"{self.partition}@{self.offset}"


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A transaction that its writer has left open, with all that is needed to end it and to find out how it ended.

    Attributes:
        handle: Which one it is.
        partitions: Where it wrote.
        witness: Where its last record is.
    """

    handle: Handle
    partitions: frozenset[Partition]
    witness: Witness

    def sealed(self, cluster_id: str, topic_id: str) -> PreparedTransaction:
        """With the ids of the witness's cluster and topic, which only the driver knows."""
        return replace(self, witness=replace(self.witness, cluster_id=cluster_id, topic_id=topic_id))

    def to_json(self) -> dict[str, Any]:
        """The transaction as JSON values; ``read`` is the inverse."""
        return self.handle.to_json() | {
            "partitions": [list(partition) for partition in sorted(self.partitions)],
            "witness": {
                "topic": self.witness.partition.topic,
                "partition": self.witness.partition.number,
                "offset": self.witness.offset,
                "cluster_id": self.witness.cluster_id,
                "topic_id": self.witness.topic_id,
            },
        }


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """What stands in the place of a prepared transaction and is none that this version knows.

    Attributes:
        why: What is not understood.
        transactional_id: The name that it gives itself, or "": to be shown, for nothing else.
    """

    why: str
    transactional_id: str = ""


def read(value: object) -> PreparedTransaction | NotUnderstood:
    """Read what ``PreparedTransaction.to_json`` wrote. Never raises, whatever it is given."""
    return _tolerant(_transaction, value)


def read_handle(value: object) -> Handle | NotUnderstood:
    """Read which transaction it is, and no more. Never raises, whatever it is given."""
    return _tolerant(_handle, value)


def _tolerant(strict: Callable[[Mapping[str, Any]], _T], value: object) -> _T | NotUnderstood:
    if not isinstance(value, Mapping):
        return NotUnderstood("it is no JSON object")
    try:
        return strict(value)
    except ValueError as error:
        name = value.get("transactional_id")
        return NotUnderstood(str(error), name if isinstance(name, str) else "")


# What follows reads strictly, and says by a ValueError what is strange.


def _handle(value: Mapping[str, Any]) -> Handle:
    if "version" not in value:
        raise ValueError("it has no version: another sink's, or written by another version of onceflow")
    version = _number(value, "version")
    if version != VERSION:
        raise ValueError(f"it has version {version}, and this onceflow knows version {VERSION}")
    return Handle(_text(value, "transactional_id"), _number(value, "producer_id"), _number(value, "producer_epoch"))


def _transaction(value: Mapping[str, Any]) -> PreparedTransaction:
    handle = _handle(value)
    pairs, witness = value.get("partitions"), value.get("witness")
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise ValueError("its partitions are no list of topics and numbers")
    if not isinstance(witness, Mapping):
        raise ValueError("its witness is no JSON object")  # noqa: TRY004 - one exception for all that is strange
    return PreparedTransaction(
        handle,
        frozenset(_partition({"topic": topic, "partition": number}) for topic, number in pairs),
        Witness(
            _partition(witness), _number(witness, "offset"), _text(witness, "cluster_id"), _text(witness, "topic_id")
        ),
    )


def _partition(value: Mapping[str, Any]) -> Partition:
    return Partition(_text(value, "topic"), _number(value, "partition"))


def _text(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key)
    if not isinstance(found, str):
        raise ValueError(f"its {key} is no text")  # noqa: TRY004
    return found


def _number(value: Mapping[str, Any], key: str) -> int:
    found = value.get(key)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 1 << 63:
        raise ValueError(f"its {key} is no number of Kafka's")
    return found
