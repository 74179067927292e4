"""Typed settings of the checkpoint.

Must not know: Spark, Kafka.
"""

from __future__ import annotations

import os
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from onceflow.errors import ConfigurationError
from onceflow.options.durations import duration_ms


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
