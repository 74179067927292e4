"""Where a savepoint or a checkpoint is, by its location: a path, or a URI on HDFS, for which Java is started.

Must not know: what is kept there.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from onceflow.checkpoint.contract import Where
from onceflow.checkpoint.folders import Folder, LocalFolder, folder_of
from onceflow.checkpoint.hdfs import hdfs_uri
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.store import local_path

_URI = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def place_at(location: str | os.PathLike[str], retain: int) -> Place:
    """The checkpoint at a location.

    Args:
        location: A path, a ``file:`` URI or an ``hdfs:`` URI.
        retain: As of ``Place.at``.

    Raises:
        ConfigurationError: The location is refused.
    """
    if hdfs_uri(location) is None:
        return Place.at(location, retain)
    from onceflow.spark.hadoop import opened  # noqa: PLC0415 - it loads Spark

    return opened(location, retain)


def folder_at(location: Where) -> Folder:
    """The folder at a location; nothing is made.

    Raises:
        ConfigurationError: The location is refused.
    """
    uri = hdfs_uri(location)
    if uri is None:
        is_uri = isinstance(location, str) and _URI.match(location)
        return LocalFolder(local_path(location) if is_uri else Path(location).absolute())
    from onceflow.spark.hadoop import store_at  # noqa: PLC0415 - as above

    return folder_of(store_at(uri))
