"""Typed settings, and how text becomes one: durations, and the checkpoint's.

Must not know: Spark, Kafka. One table says which of Flink's keys is which field.
"""

from __future__ import annotations

import os
import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from onceflow.errors import ConfigurationError

_UNITS_MS = {
    "ms": 1, "milli": 1, "millis": 1, "millisecond": 1, "milliseconds": 1,
    "": 1_000, "s": 1_000, "sec": 1_000, "second": 1_000, "seconds": 1_000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
}  # fmt: skip


def duration_ms(value: str | float) -> int:
    """A duration in milliseconds: ``"5s"``, ``"10 min"``, ``"200 ms"``, or a number of seconds.

    Raises:
        ConfigurationError: It is no duration, or negative.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(value).lower())
    if match is None or match[2] not in _UNITS_MS:
        raise ConfigurationError(
            f"{value!r} is no duration",
            action='write a number and a unit: "200 ms", "5s", "10 min", "2 h", or a number of seconds',
        )
    return round(float(match[1]) * _UNITS_MS[match[2]])


def _duration(value: Any) -> Any:
    return duration_ms(value) if isinstance(value, str | int | float) else value


class Checkpointing(BaseModel):
    """Where a job's checkpoint is and how often one is made.

    Attributes:
        location: A path on a local or shared POSIX file system, or a ``file:`` URI.
        interval_ms: Time between the beginnings of two epochs, given as ``interval``: ``"5s"``, ``"200 ms"``, or
            seconds; 0: one after the other without a pause. Flink: ``execution.checkpointing.interval``.
        retain: Epochs whose files are kept. Spark: ``spark.sql.streaming.minBatchesToRetain``.

    Raises:
        ConfigurationError: A value that cannot work.
    """

    model_config = ConfigDict(frozen=True)

    location: str
    interval_ms: Annotated[int, BeforeValidator(_duration)] = Field(alias="interval", ge=0)
    retain: Annotated[int, Field(ge=2)]

    # Each setting by name, so that a type checker finds a misspelt one; a number for an interval means seconds.
    def __init__(self, location: str | os.PathLike[str], *, interval: str | float = "1s", retain: int = 100) -> None:
        try:
            super().__init__(location=os.fspath(location), interval=interval, retain=retain)
        except ValidationError as error:
            first = error.errors()[0]
            setting = ".".join(str(part) for part in first["loc"])
            raise ConfigurationError(
                f"Checkpointing: {setting}: {first['msg']}",
                cause=f"{setting} is {first.get('input')!r}",
                action='write for example Checkpointing("checkpoints/alerts", interval="5s")',
            ) from None
