"""What is at a location: a checkpoint, or a folder. On HDFS it takes Java, which nothing else here should load.

Must not know: what a checkpoint consists of, what is kept in a folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from onceflow.checkpoint.place import Place
from onceflow.storage import s3
from onceflow.storage.files import Where
from onceflow.storage.locations import hdfs_uri, local_path, s3_uri
from onceflow.storage.store import Store
from onceflow.storage.tree import Folder, folder_of

_URI = re.compile(r"file:|[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def place_at(location: str | os.PathLike[str], retain: int) -> Place:
    """The checkpoint at a location of any kind; on HDFS this process's Java is started for it, if it is not there.

    Args:
        location: A path, or a URI: ``file:``, ``hdfs:`` or ``s3:``.
        retain: As of ``Place.at``.

    Raises:
        ConfigurationError: The location is refused.
        SetupError: Java, or a library, is missing.
    """
    store = _store_elsewhere(location)
    return Place.at(location, retain) if store is None else Place.on(store, str(store.path()), retain)


def folder_at(location: Where) -> Folder:
    """The folder at a location of any kind, as of ``place_at``; a path is taken as it is. Nothing is made.

    Raises:
        ConfigurationError: The location is refused.
        SetupError: Java, or a library, is missing.
    """
    store = _store_elsewhere(location)
    if store is not None:
        return folder_of(store)
    is_uri = isinstance(location, str) and _URI.match(location)
    return Folder(local_path(location) if is_uri else Path(location).absolute())


def _store_elsewhere(location: str | os.PathLike[str]) -> Store | None:
    in_s3, on_hdfs = s3_uri(location), hdfs_uri(location)
    if in_s3 is not None:
        return s3.store_at(in_s3)
    if on_hdfs is None:
        return None
    from onceflow.spark.hadoop import store_at  # noqa: PLC0415 - it loads Spark

    return store_at(on_hdfs)
