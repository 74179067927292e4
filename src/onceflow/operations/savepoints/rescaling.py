"""A savepoint in another number of shuffle partitions: a new one, made beside the old.

Must not know: how Spark rewrites state, any particular sink, how a command line looks.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from onceflow.errors import ConfigurationError
from onceflow.operations.savepoints.reading import verify
from onceflow.operations.savepoints.restoring import copied, require_no_newer
from onceflow.operations.savepoints.writing import Taken, beside, create, require_free
from onceflow.spark.locations import place_at
from onceflow.spark.repartition import repartition
from onceflow.storage.files import Where
from onceflow.storage.tree import Folder

_ALL = 1 << 31


def rescale(session: SparkSession, path: Where, to: Where, partitions: int, key: bytes | None = None) -> Taken:
    """Make a savepoint with the same state in other partitions; what each key has is compared before and after.

    Args:
        session: A SparkSession.
        path: The savepoint; it stays as it is.
        to: The new one's folder.
        partitions: Shuffle partitions.
        key: Signs it, and the old one must be signed with it; None for none.

    Raises:
        ConfigurationError: It keeps no state, or has that many; or Spark cannot repartition what it keeps.
        EpochFailedError: Spark did, and not rightly.
        CheckpointError: The savepoint is not what it was, or a file system failed.
    """
    target = require_free(to)
    manifest = verify(path, key)
    require_no_newer(manifest)
    if manifest.partitions in (None, partitions):
        raise ConfigurationError(
            f"savepoint {manifest.id} is not rescaled to {partitions} partitions",
            harmless="always: nothing was changed",
            cause="its plan keeps no state" if manifest.partitions is None else f"it has {manifest.partitions}",
            action="resume from it as it is",
        )
    with _to_work_in(target) as work:
        copied(path, manifest, work)
        place = place_at(work.where, retain=_ALL)
        repartition(session, place.checkpoint, partitions)
        return create(place, target.where, manifest.job, job_epoch=manifest.job_epoch, key=key)


@contextlib.contextmanager
def _to_work_in(target: Folder) -> Iterator[Folder]:
    """A folder for Spark to rewrite state in: beside the savepoint's place; for one in S3 on this machine's disk.

    Spark writes each store anew several times on the way, which there was not seen to end; docs/stores.md says what is
    known of it.
    """
    if not target.fs.has_folders:
        with tempfile.TemporaryDirectory(prefix="onceflow-rescale-") as folder:
            yield Folder(Path(folder) / "checkpoint")
        return
    with beside(target) as work:
        yield work
