"""One place in Kafka: a partition of a topic.

Must not know: anything else. Spark's workers load it as well as the driver.
"""

from __future__ import annotations

from typing import NamedTuple


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"
