"""What a source is: where records come from, and what its system says of a position.

Must not know: any particular source, the journal, how Spark runs tasks. What sinks are is in ``contract``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onceflow.connectors.contract import Sink
from onceflow.errors import ConfigurationError, OnceflowError, SourceDataLostError
from onceflow.formats.registry import SchemaRegistry
from onceflow.twophase.layout import LayoutSource, Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """What a source's system says about one position of it.

    Attributes:
        topics: What is read there, with lasting ids.
        losses: Of what is needed and gone, an error each.
        needed: The position that was asked for, moved behind what is lost.
        end: The end that was asked for, moved likewise.
    """

    topics: tuple[Topic, ...]
    losses: tuple[SourceDataLostError, ...]
    needed: str
    end: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """Records of an epoch that a source left out because they could not be read.

    Attributes:
        records: How many.
        first: Where a few of them are, and why they cannot be read, in words without anything of their content.
        read: Of how many that were read.
    """

    records: int = 0
    first: tuple[str, ...] = ()
    read: int = 0


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Where the malformed records of a source go: a sink, which takes part in the same epochs as the job's others.

    What it gets of each is the record as it was read, with where it was and why it cannot be read; docs/formats.md says
    how. Sources may share a sink; an output of the job may not share it with them.

    Args:
        sink: The sink.

    Raises:
        ConfigurationError: It is no sink.
    """

    sink: Sink

    def __post_init__(self) -> None:
        if not isinstance(self.sink, Sink):
            raise ConfigurationError(
                f"DeadLetter has no sink, but something of type {type(self.sink).__name__}",
                action='give one, for example DeadLetter(KafkaSink(kafka, "dead-letters"))',
            )


class Source(ABC):
    """Where records come from: a description, with nothing open. Positions are lines of Spark's ``offsets/N``.

    Attributes:
        group: Where positions are published for monitoring; None: in the job's own group.
        dead_letter: Where malformed records go, or None.
    """

    group: str | None
    dead_letter: DeadLetter | None = None

    @property
    @abstractmethod
    def system(self) -> Hashable:
        """Which system; sources that give the same share a connection."""

    @property
    def registries(self) -> Sequence[SchemaRegistry]:
        """Where its formats ask for schemas."""
        return ()

    @abstractmethod
    def connect(self) -> SourceConnection:
        """Connect in the driver. Called again for every start, and once more for publishing.

        Raises:
            OnceflowError: The system was not reached.
        """

    @abstractmethod
    def describe(self) -> str:
        """What is read, in a few words, without secrets."""

    def malformed(self, observed: Mapping[str, Any]) -> Malformed:  # noqa: ARG002 - the contract's signature
        """What of an epoch the source left out because it could not be read.

        Args:
            observed: ``observedMetrics`` of Spark's ``StreamingQueryProgress``.
        """
        return Malformed()

    def dead_letters(self) -> DataFrame | None:
        """The malformed records of a source that has a ``dead_letter`` and stands in a plan; one row for each.

        Its columns are ``reason``, ``topic``, ``partition``, ``offset``, ``timestamp``, and ``key``, ``value`` and
        ``headers`` as they were read.
        """
        return None

    def reads(self, destination: str) -> bool:  # noqa: ARG002 - the contract's signature
        """Whether it reads what a sink on its system writes.

        Args:
            destination: The sink's.
        """
        return False

    def overlaps(self, other: Source) -> bool:  # noqa: ARG002 - the contract's signature
        """Whether another source is known to read some of the same records, on its own.

        Args:
            other: The other one.
        """
        return False


class SourceConnection(ABC):
    """A connection to the system of one or more sources. One thread at a time calls it."""

    system_id: str
    """The system's lasting id, which no other system has."""

    @abstractmethod
    def look(self, source: Source, needed: str, end: str, known: LayoutSource | None) -> SourcePosition:
        """What stands at a position of a source now, and what is lost of what is still needed.

        Args:
            source: One of this system.
            needed: The first position that is needed, "" for none.
            end: The one after the last, "" for none.
            known: What stood there before, or None.

        Raises:
            ConfigurationError: Something to be read does not exist, and nothing is known of it.
            OnceflowError: The system did not answer, or refused.
        """

    @abstractmethod
    def topics(self, positions: Sequence[str]) -> list[Mapping[str, Topic]]:
        """For each position, by name, what it names as it is now; what is gone is left out. One request for all."""

    @abstractmethod
    def publish(self, group: str, positions: Sequence[str]) -> None:
        """Tell a group's watchers where its sources stand; of several, the one that is farthest behind counts.

        Raises:
            OnceflowError: It was not taken.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection."""


@dataclass(frozen=True, slots=True)
class EpochLimit:
    """How many records a source may read for an epoch, where its job knows what it can do in its time.

    Attributes:
        records: For a source without a limit of its own.
        most: For every source, or None.
    """

    records: int = 900_000
    most: int | None = None

    def of(self, given: int | None) -> int:
        """The limit of a source."""
        records = given or self.records
        return records if self.most is None else min(records, self.most)


_limit: ContextVar[EpochLimit] = ContextVar("_limit", default=EpochLimit())  # noqa: B039 - it is frozen


@contextmanager
def limited(limit: EpochLimit) -> Iterator[None]:
    """Sources that are loaded inside read no more than this for an epoch."""
    token = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(token)


def present_limit() -> EpochLimit:
    """The limit that holds where a source is loaded."""
    return _limit.get()


@dataclass(frozen=True, slots=True)
class Connector:
    """What a system's connector tells a running job beside its sources and sinks.

    Attributes:
        find: From what stands in Spark's plan, the name of a source and its options in lower case, to the source; one
            object for each source of the plan. None for what the connector did not make.
        explain: Our error for what Spark's reader of this system says in a failed query's message, or None.
    """

    find: Callable[[str, Mapping[str, str]], Source | None]
    explain: Callable[[str], OnceflowError | None]
