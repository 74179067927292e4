"""What ``onceflow doctor`` asks of a system: the contract's optional part for what settings mean for a job's times.

A start asks only what it may refuse. A person wants to know more: whether the job survives the downtime that is
expected of it, whether every client reaches every server, how clocks differ.

Must not know: any particular sink or source, how findings are shown.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onceflow.connectors.source_contract import Source
from onceflow.findings import Finding
from onceflow.twophase.names import DEFAULT_PREFIX


@dataclass(frozen=True, slots=True)
class Expected:
    """What time-outs and retentions have to bear.

    Attributes:
        timeout_s: After how long an epoch is given up; 0 where nothing but its transactions' time-out says so.
        longest_s: The longest epoch that is known.
        downtime_s: How long the job may be down between a decision and its commit.
        prefix: First part of the job's transactional ids: under it rights are tried.
        group: Where positions of sources that name no group are published for monitoring; None: none are published.
    """

    timeout_s: float
    longest_s: float
    downtime_s: float
    prefix: str = DEFAULT_PREFIX
    group: str | None = None

    @property
    def open_s(self) -> float:
        """How long a transaction may be open: for its epoch, and for a death just before the commit."""
        return self.timeout_s + self.longest_s + self.downtime_s


class ExaminableSink(ABC):
    """A sink's connection that tells what its system's settings mean for the job."""

    @abstractmethod
    def findings(self, expected: Expected) -> Sequence[Finding]:
        """What a start only warns of, and what it does not ask. What it refuses is not told again.

        It only looks, and tries what leaves nothing behind.

        Raises:
            OnceflowError: The system did not answer, or refused.
        """


class ExaminableSource(ABC):
    """The same of a source's connection."""

    @abstractmethod
    def findings(self, source: Source, expected: Expected) -> Sequence[Finding]:
        """As a sink's, of a source of this system; whether its records may be read is tried."""

    @abstractmethod
    def java_client(self) -> Mapping[str, str]:
        """The settings of the Java client by which Spark reads from this system."""
