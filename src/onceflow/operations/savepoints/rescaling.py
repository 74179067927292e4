"""A savepoint in another number of shuffle partitions: a new one, made beside the old.

Must not know: how Spark rewrites state, any particular sink, how a command line looks.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from onceflow.checkpoint.contract import Where
from onceflow.checkpoint.folders import refused_between
from onceflow.checkpoint.s3 import s3_uri
from onceflow.errors import ConfigurationError
from onceflow.operations.savepoints.restoring import copied, refuse_newer
from onceflow.operations.savepoints.writing import Taken, beside, create, require_free, verify
from onceflow.spark.places import folder_at, place_at
from onceflow.spark.repartition import repartition

_ALL = 1 << 31


def refuse_in_s3(path: Where) -> None:
    """Refuse a savepoint in S3: Spark's repartition of state was not seen to end there.

    Raises:
        ConfigurationError: It is one.
    """
    uri = s3_uri(path)
    if uri is not None:
        raise ConfigurationError(
            f"the savepoint {uri} is not rescaled: it is in S3",
            harmless="always: nothing was changed",
            cause="in this version rescale works on a POSIX file system and on HDFS",
            action="copy its whole folder to a disk (aws s3 cp --recursive), rescale it there, and copy what was made "
            "back: onceflow savepoint verify tells whether a copy is whole",
        )


def rescale(session: SparkSession, path: Where, to: Where, partitions: int) -> Taken:
    """Make a savepoint with the same state in other partitions; what each key has is compared before and after.

    Args:
        session: A SparkSession.
        path: The savepoint; it stays as it is.
        to: The new one's folder.
        partitions: Shuffle partitions.

    Raises:
        ConfigurationError: It keeps no state, has that many, or is in S3; or Spark cannot repartition what it keeps.
        EpochFailedError: Spark did, and not rightly.
        CheckpointError: The savepoint is not what it was, or a file system failed.
    """
    refuse_in_s3(path)
    target = require_free(to)
    if type(target) is not type(folder_at(path)):
        raise refused_between(folder_at(path), target)
    manifest = verify(path)
    refuse_newer(manifest)
    if manifest.partitions in (None, partitions):
        raise ConfigurationError(
            f"savepoint {manifest.id} is not rescaled to {partitions} partitions",
            harmless="always: nothing was changed",
            cause="its plan keeps no state" if manifest.partitions is None else f"it has {manifest.partitions}",
            action="resume from it as it is",
        )
    with beside(target) as work:
        copied(path, manifest, work)
        place = place_at(work.where, retain=_ALL)
        repartition(session, place.checkpoint, partitions)
        return create(place, target.where, manifest.job, job_epoch=manifest.job_epoch)
