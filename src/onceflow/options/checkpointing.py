"""Typed settings of the checkpoint.

Must not know: Spark, Kafka. Defaults are the catalogue's; it says what each setting is in Flink and becomes in Spark.
"""

from __future__ import annotations

import logging
import os
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from onceflow.errors import ConfigurationError
from onceflow.options.arguments import checked
from onceflow.options.catalogue import setting
from onceflow.options.durations import duration_ms

log = logging.getLogger(__name__)

Mode = Literal["EXACTLY_ONCE", "AT_LEAST_ONCE"]
OnCancel = Literal["RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION"]

_LONG_MS = 3_600_000
_INTERVAL: str = setting("checkpointing.interval").default
_RETAIN: int = setting("checkpointing.retain").default
_TIMEOUT: str = setting("checkpointing.timeout").default
_MIN_PAUSE: str = setting("checkpointing.min_pause").default
_MODE: Any = setting("checkpointing.mode").default
_MAX_CONCURRENT: int = setting("checkpointing.max_concurrent").default
_ON_CANCEL: Any = setting("checkpointing.on_cancel").default
_INCREMENTAL: bool = setting("checkpointing.incremental").default
_COMPRESSION: bool = setting("checkpointing.compression").default
_TOLERABLE: int = setting("checkpointing.tolerable_failures").default
_PUBLISH: bool = setting("checkpointing.publish_offsets").default


def _duration(value: Any) -> Any:
    return duration_ms(value) if isinstance(value, str | int | float) else value


class Checkpointing(BaseModel):
    """Where a job's checkpoint is and how often one is made (docs/settings.md).

    Attributes:
        location: Where the checkpoint is: a path on a local or shared POSIX file system, ``hdfs://nn:8020/folder`` or
            ``s3://bucket/folder``. docs/stores.md says what each rests on. A relative path is looked for in the folder
            in which the program was started: from another one it is a checkpoint that is not there.
        interval_ms: Time between the beginnings of two epochs; 0 is one after the other without a pause. Given as
            ``interval``: ``"5s"``, ``"200 ms"``, or seconds.
        timeout_ms: An epoch that is not ready for its decision after so long is cancelled and counts as failed.
            Given as ``timeout``.
        mode: The guarantee of sinks that name none and know both: ``EXACTLY_ONCE`` or ``AT_LEAST_ONCE``.
        max_concurrent: Epochs at a time: 1, since Spark begins one when the one before is recorded.
        min_pause_ms: The least time between the end of an epoch and the beginning of the next. Given as
            ``min_pause``.
        retain: Epochs whose files are kept, at least 2.
        tolerable_failures: Epochs in a row that may fail before their decision, each followed by a restart that the
            restart strategy does not count. For a ``Job``.
        publish_offsets: After each epoch the offsets of a ``KafkaSource`` are written to a consumer group, which shows
            the job's lag: its ``group``, or ``onceflow-lag-`` and the job's name.
        on_cancel: What ``onceflow cancel`` leaves of the job: ``RETAIN_ON_CANCELLATION``, or with
            ``DELETE_ON_CANCELLATION`` neither checkpoint nor marks, once what is decided is committed.
        incremental: Of state an epoch writes what it has changed (RocksDB's changelogs), and now and then all of it;
            else all, each time.
        compression: Whether RocksDB compresses state (lz4).

    Raises:
        ConfigurationError: A value that cannot work.
    """

    model_config = ConfigDict(frozen=True)

    location: str
    interval_ms: Annotated[int, BeforeValidator(_duration)] = Field(alias="interval", ge=0)
    timeout_ms: Annotated[int, BeforeValidator(_duration)] = Field(alias="timeout", ge=1)
    mode: Mode
    max_concurrent: Annotated[int, Field(ge=1, le=1)]
    min_pause_ms: Annotated[int, BeforeValidator(_duration)] = Field(alias="min_pause", ge=0)
    retain: Annotated[int, Field(ge=2)]
    tolerable_failures: Annotated[int, Field(ge=0)]
    publish_offsets: bool
    on_cancel: OnCancel
    incremental: bool
    compression: bool

    # Each setting by name, so that a type checker finds a misspelt one; a number for an interval means seconds.
    @checked
    def __init__(
        self,
        location: str | os.PathLike[str],
        *,
        interval: str | float = _INTERVAL,
        timeout: str | float = _TIMEOUT,
        mode: Mode = _MODE,
        max_concurrent: int = _MAX_CONCURRENT,
        min_pause: str | float = _MIN_PAUSE,
        retain: int = _RETAIN,
        tolerable_failures: int = _TOLERABLE,
        publish_offsets: bool = _PUBLISH,
        on_cancel: OnCancel = _ON_CANCEL,
        incremental: bool = _INCREMENTAL,
        compression: bool = _COMPRESSION,
    ) -> None:
        given = {
            "location": _path(location),
            "interval": interval,
            "timeout": timeout,
            "mode": mode,
            "max_concurrent": max_concurrent,
            "min_pause": min_pause,
            "retain": retain,
            "tolerable_failures": tolerable_failures,
            "publish_offsets": publish_offsets,
            "on_cancel": on_cancel,
            "incremental": incremental,
            "compression": compression,
        }
        try:
            super().__init__(**given)
        except ValidationError as error:
            finding = error.errors()[0]
            name = str(finding["loc"][0])
            ours = finding.get("ctx", {}).get("error")
            why = ours.what if isinstance(ours, ConfigurationError) else f"{given[name]!r} {_WRONG[name]}"
            raise _wrong(name, given[name], why) from None
        if isinstance(interval, int | float) and self.interval_ms > _LONG_MS:
            log.warning(
                "Checkpointing(interval=%s) is %.3g hours: a number means seconds. If milliseconds are meant, write "
                'interval="%s ms"',
                interval,
                self.interval_ms / 3_600_000,
                interval,
            )


_WRONG = {
    "location": "is no path",
    "interval": "is no duration: give a number of seconds, or a number and a unit",
    "timeout": "is no duration of at least 1 ms",
    "max_concurrent": "is not 1; Spark begins an epoch when the one before is recorded, so none overlap",
    "min_pause": "is no duration: give a number of seconds, or a number and a unit",
    "retain": "is no whole number from 2 on",
    "tolerable_failures": "is no whole number from 0 on",
    "publish_offsets": "is neither True nor False",
}

_EXAMPLE = {
    "location": 'Checkpointing("/data/checkpoints/alerts")',
    "interval": 'Checkpointing("checkpoints/alerts", interval="5s")',
    "timeout": 'Checkpointing("checkpoints/alerts", timeout="10 min")',
    "max_concurrent": 'Checkpointing("checkpoints/alerts")',
    "min_pause": 'Checkpointing("checkpoints/alerts", min_pause="500 ms")',
    "tolerable_failures": 'Checkpointing("checkpoints/alerts", tolerable_failures=3)',
    "retain": f'Checkpointing("checkpoints/alerts", retain={_RETAIN})',
}


def _path(location: Any) -> str:
    """A location as text. An empty one would be the folder that the program happens to run in."""
    try:
        text = os.fspath(location)
    except TypeError:
        text = b""
    if not isinstance(text, str) or not text.strip():
        raise _wrong("location", location, "is empty" if text == "" else f"{location!r} is no path of a folder")
    return text


def _wrong(name: str, given: object, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"Checkpointing cannot be made: {name}: {why}",
        harmless="always: nothing was started",
        cause=f"{name} is {given!r}",
        action=f"write for example {_EXAMPLE[name]}",
        setting=name,
    )
