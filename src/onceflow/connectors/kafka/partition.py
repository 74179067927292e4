"""Places in Kafka: a partition of a topic, and what topics may be called.

Must not know: anything else. Spark's workers load it as well as the driver.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TOPIC_NAME = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: object) -> bool:
    """Whether Kafka lets a topic be called so."""
    return isinstance(name, str) and _TOPIC_NAME.fullmatch(name) is not None


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"
