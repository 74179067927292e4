"""Durations: how text, or a number of seconds, becomes milliseconds.

Must not know: which settings are durations.
"""

from __future__ import annotations

import re

from onceflow.errors import ConfigurationError

_UNITS_MS = {
    "ms": 1, "milli": 1, "millis": 1, "millisecond": 1, "milliseconds": 1,
    "": 1_000, "s": 1_000, "sec": 1_000, "second": 1_000, "seconds": 1_000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
}  # fmt: skip

_LONGEST_MS = 2**63 - 1
"""Java's."""


def duration_ms(value: str | float) -> int:
    """A duration in milliseconds: ``"5s"``, ``"10 min"``, ``"200 ms"``, or a number of seconds.

    Raises:
        ConfigurationError: It is no duration, negative, or longer than Java can count.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(value).lower())
    if match is None or match[2] not in _UNITS_MS:
        raise ConfigurationError(
            f"{value!r} is no duration",
            action='write a number and a unit: "200 ms", "5s", "10 min", "2 h", or a number of seconds',
        )
    found = float(match[1]) * _UNITS_MS[match[2]]
    if found > _LONGEST_MS:
        raise ConfigurationError(
            f"{value!r:.40} is longer than a duration can be, 292 million years",
            action="write fewer digits",
        )
    return round(found)
