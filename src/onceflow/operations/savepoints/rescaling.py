"""A savepoint in another number of shuffle partitions: a new one, made beside the old.

Must not know: how Spark rewrites state, any particular sink, how a command line looks.
"""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from onceflow.checkpoint.place import Place
from onceflow.errors import ConfigurationError
from onceflow.operations.savepoints.restoring import copied, refuse_newer
from onceflow.operations.savepoints.writing import Taken, create, require_free, verify
from onceflow.spark.repartition import repartition

_ALL = 1 << 31


def rescale(session: SparkSession, path: Path, to: Path, partitions: int) -> Taken:
    """Make a savepoint with the same state in other partitions; what each key has is compared before and after.

    Args:
        session: A SparkSession.
        path: The savepoint; it stays as it is.
        to: The new one's folder.
        partitions: Shuffle partitions.

    Raises:
        ConfigurationError: It keeps no state, has that many, or Spark cannot repartition what it keeps.
        EpochFailedError: Spark did, and not rightly.
        CheckpointError: The savepoint is not what it was, or a file system failed.
    """
    manifest, to = verify(path), require_free(to)
    refuse_newer(manifest)
    if manifest.partitions in (None, partitions):
        raise ConfigurationError(
            f"savepoint {manifest.id} is not rescaled to {partitions} partitions",
            harmless="always: nothing was changed",
            cause="its plan keeps no state" if manifest.partitions is None else f"it has {manifest.partitions}",
            action="resume from it as it is",
        )
    work = to.with_name(f".unfinished-{to.name}-{secrets.token_hex(4)}")
    try:
        copied(path, manifest, work)
        repartition(session, work, partitions)
        return create(Place.at(work, retain=_ALL), to, manifest.job, job_epoch=manifest.job_epoch)
    finally:
        shutil.rmtree(work, ignore_errors=True)
