"""A checkpoint by its location, for commands: on HDFS it takes Java, which nothing else here should load.

Must not know: what a checkpoint consists of.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from onceflow.checkpoint.place import Place, is_elsewhere

if TYPE_CHECKING:
    from onceflow.job import Job

Opened = Callable[[str | os.PathLike[str], int], Place]


def way_to(location: str) -> Opened:
    """What opens the checkpoint there."""
    if not is_elsewhere(location):
        return Place.at
    from onceflow.spark.hadoop import opened  # noqa: PLC0415 - it loads Spark

    return opened


def way_of(job: Job, settings: Mapping[str, str] = MappingProxyType({})) -> Opened:
    """What opens a job's checkpoint; on HDFS by Java with the job's settings, those of a session behind this, too."""
    options = job.options.under(settings)
    location = options.checkpointing.location
    if is_elsewhere(location):
        from onceflow.spark.hadoop import begin  # noqa: PLC0415 - it loads Spark

        begin(location, job.name, {**job.spark_settings, **options.spark})
    return way_to(location)


def place_of(job: Job, settings: Mapping[str, str] = MappingProxyType({})) -> Place:
    """A job's checkpoint."""
    checkpointing = job.options.under(settings).checkpointing
    return way_of(job, settings)(checkpointing.location, checkpointing.retain)
