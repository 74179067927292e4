"""Typed settings of the checkpoint.

Must not know: Spark, Kafka. Defaults are the catalogue's; it says what each setting is in Flink and becomes in Spark.
"""

from __future__ import annotations

import os
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from onceflow.errors import ConfigurationError
from onceflow.options.catalogue import setting
from onceflow.options.durations import duration_ms

_INTERVAL: str = setting("checkpointing.interval").default
_RETAIN: int = setting("checkpointing.retain").default


def _duration(value: Any) -> Any:
    return duration_ms(value) if isinstance(value, str | int | float) else value


class Checkpointing(BaseModel):
    """Where a job's checkpoint is and how often one is made (docs/settings.md).

    Attributes:
        location: Where the checkpoint is, on a local or shared POSIX file system; a ``file:`` URI is taken, too.
        interval_ms: Time between the beginnings of two epochs; 0 is one after the other without a pause. Given as
            ``interval``: ``"5s"``, ``"200 ms"``, or seconds.
        retain: Epochs whose files are kept, at least 2.

    Raises:
        ConfigurationError: A value that cannot work.
    """

    model_config = ConfigDict(frozen=True)

    location: str
    interval_ms: Annotated[int, BeforeValidator(_duration)] = Field(alias="interval", ge=0)
    retain: Annotated[int, Field(ge=2)]

    # Each setting by name, so that a type checker finds a misspelt one; a number for an interval means seconds.
    def __init__(
        self, location: str | os.PathLike[str], *, interval: str | float = _INTERVAL, retain: int = _RETAIN
    ) -> None:
        try:
            super().__init__(location=os.fspath(location), interval=interval, retain=retain)
        except ValidationError as error:
            first = error.errors()[0]
            which = ".".join(str(part) for part in first["loc"])
            raise ConfigurationError(
                f"Checkpointing: {which}: {first['msg']}",
                cause=f"{which} is {first.get('input')!r}",
                action='write for example Checkpointing("checkpoints/alerts", interval="5s")',
            ) from None
