"""Spark's own way to S3, Hadoop's S3A: it is told what our client is told, and both must see one place.

Must not know: what the files hold, the journal, sinks.

Of Spark's file managers the one for streams that can be aborted is not for us: where it fails to write a file it logs a
line and says that it has written it. Nor is the one on ``FileContext``: it makes a client of S3A for each of its own.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from typing import Any

from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.errors import CheckpointStoreError, ConfigurationError
from onceflow.spark.internals import is_there
from onceflow.storage.locations import s3_uri
from onceflow.storage.s3 import service

_S3A = "spark.hadoop.fs.s3a."
_CREDENTIALS = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    # What AWS's tools take: the environment, a web identity, a profile, the container's or the machine's role.
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
)


def settings(location: str | os.PathLike[str]) -> dict[str, str]:
    """What a session begins with whose checkpoint is in S3, nothing for another one; the user's settings go before.

    Raises:
        ConfigurationError: The location is refused.
        SetupError: The libraries are missing.
    """
    if s3_uri(location) is None:
        return {}
    at = service()
    found = {
        _S3A + "aws.credentials.provider": ",".join(_CREDENTIALS),
        _S3A + "endpoint.region": at.region,
        # Hadoop's default reads ahead by another library, which small files have no use for.
        _S3A + "input.stream.type": "classic",
        # Snapshots of state are files that Hadoop would bring there by a client of its own, asynchronous and with
        # another way to say what is sent; where a service does not understand that one, they wait without end, and
        # nothing tells. So they go the way of all other files.
        _S3A + "optimized.copy.from.local.enabled": "false",
    }
    if at.endpoint:
        found |= {
            _S3A + "endpoint": at.endpoint,
            _S3A + "path.style.access": "true",
            _S3A + "connection.ssl.enabled": str(not at.endpoint.lower().startswith("http:")).lower(),
        }
    return found


def require_reached(session: Any, checkpoint: SparkCheckpoint) -> None:
    """See to it that Spark finds in a checkpoint in S3 what our client writes there; no other one is looked at.

    Two services may have a bucket of one name: the journal would be in the one, and Spark's files in the other.

    Raises:
        ConfigurationError: It does not, or lacks S3A.
    """
    store, name = checkpoint.store, f".tmp-{uuid.uuid4().hex}"
    if not store.fs.spark_is_apart:
        return
    store.make()
    store.create(name, b"")
    try:
        why = is_there(session, str(store.path(name)))
    finally:
        with contextlib.suppress(CheckpointStoreError):
            store.remove(name)
    if why:
        raise ConfigurationError(
            f"Spark does not reach the checkpoint {store.path()}: {why}",
            harmless="always: nothing was started",
            cause="the session lacks Hadoop's S3A, or its endpoint, region or credentials are others than those of the "
            "environment (AWS_ENDPOINT_URL, AWS_REGION, AWS_PROFILE), by which onceflow has just written there",
            action='start it with the jars that `onceflow jars --s3` prints (spark-submit --jars "$(onceflow jars '
            '--s3)"), and give spark.hadoop.fs.s3a.endpoint and the like the same values: docs/stores.md',
            checkpoint=str(store.path()),
        )
