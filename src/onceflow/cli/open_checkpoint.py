"""A job's checkpoint, for commands: on HDFS it takes Java, and that begins with the job's settings.

Must not know: what a checkpoint consists of.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from onceflow.spark.locations import place_at
from onceflow.storage.locations import hdfs_uri

if TYPE_CHECKING:
    from onceflow.checkpoint.place import Place
    from onceflow.job import Job


def begin_java(job: Job, settings: Mapping[str, str] = MappingProxyType({}), location: str = "") -> None:
    """Start the Java by which a place on HDFS is reached, with the job's settings, and those of a session.

    Started otherwise it would stay as it is: with another memory than the job's, say.

    Args:
        job: The job whose session this Java will be, if one is made.
        settings: As of ``Job.run``.
        location: The place; that of the job's checkpoint if none is named.
    """
    options = job.options.under(settings)
    location = location or options.checkpointing.location
    if hdfs_uri(location) is not None:
        from onceflow.spark.hadoop import begin  # noqa: PLC0415 - it loads Spark

        begin(location, job.name, {**job.spark_settings, **options.spark})


def place_of(job: Job, settings: Mapping[str, str] = MappingProxyType({})) -> Place:
    """A job's checkpoint."""
    begin_java(job, settings)
    checkpointing = job.options.under(settings).checkpointing
    return place_at(checkpointing.location, checkpointing.retain)
