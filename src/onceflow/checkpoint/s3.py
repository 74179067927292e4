"""S3: which location is one, and the client of a bucket, with the settings and credentials that the field knows.

Must not know: Spark, what the files hold. No credential is kept here or told by anything here.

The one name of a place is its ``s3a:`` URI, since Spark writes it into the checkpoint's own files; ``s3:`` is the same.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from onceflow.checkpoint.contract import uri_at
from onceflow.errors import ConfigurationError, SetupError

if TYPE_CHECKING:
    from obstore.store import S3Config

    from onceflow.checkpoint.objects import Bucket, BucketStore

_LOCATION = re.compile(r"s3a?:/", re.IGNORECASE)
_FORM = re.compile(r"(?i:s3a?)://([a-z0-9][a-z0-9.-]+[a-z0-9])((?:/+[A-Za-z0-9._@+=,-]+)+)/*")
_REGION = "us-east-1"
_PATIENCE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Service:
    """Where S3 is.

    Attributes:
        endpoint: Its address; "" for AWS's own of the region.
        region: The region.
    """

    endpoint: str
    region: str


def s3_uri(location: str | os.PathLike[str]) -> str | None:
    """The one URI of a checkpoint in S3; None for a location that is none.

    Raises:
        ConfigurationError: It begins as one, and names no folder there in the one form that is taken.
    """
    text = os.fspath(location)
    if not _LOCATION.match(text):
        return None
    told = (
        "in S3 a checkpoint is s3://BUCKET/FOLDER (s3a:// is the same place). A bucket's name has small letters, "
        "digits, dots and hyphens; a name in the path has letters, digits and . _ @ + = , - alone"
    )
    return uri_at(text, _FORM, "s3a", told, "s3://bucket/checkpoints/alerts")


def store_at(uri: str) -> BucketStore:
    """The store of a folder in S3.

    Raises:
        SetupError: The libraries are missing.
        ConfigurationError: There are no credentials.
    """
    from onceflow.checkpoint.objects import BucketStore  # noqa: PLC0415 - an extra

    name, _, folder = uri.removeprefix("s3a://").partition("/")
    return BucketStore(_bucket(name), folder)


def service(environment: Mapping[str, str] = os.environ) -> Service:
    """Where S3 is, by the environment or the profile that AWS's own tools take it from.

    Raises:
        SetupError: The libraries are missing.
        ConfigurationError: There is no such profile.
    """
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or ""
    return Service(endpoint.rstrip("/"), environment.get("AWS_REGION") or _session().region_name or _REGION)


@functools.cache
def _bucket(name: str) -> Bucket:
    """One for all stores of a bucket: it keeps the credentials, renews them, and is tried once."""
    session, at = _session(), service()
    from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415 - an extra
    from obstore.store import S3Store  # noqa: PLC0415 - the same

    from onceflow.checkpoint.objects import Bucket  # noqa: PLC0415 - the same

    if session.get_credentials() is None:
        raise ConfigurationError(
            f"there are no credentials for the bucket {name}",
            harmless="always: nothing was started",
            cause="neither the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), nor a profile (AWS_PROFILE, "
            "~/.aws), nor a role of the machine, the container or a web identity gives any",
            action="give the process one of them, as for AWS's own tools",
        )
    # Not every service has the deletion of many at once.
    told: S3Config = {"region": at.region, "conditional_put": "etag", "disable_bulk_delete": True}
    if at.endpoint:
        told["endpoint"] = at.endpoint
    client = S3Store(
        name,
        config=told,
        credential_provider=Boto3CredentialProvider(session, ttl=timedelta(minutes=1)),
        client_options={"allow_http": at.endpoint.lower().startswith("http:")},
        retry_config={"retry_timeout": _PATIENCE, "backoff": {"max_backoff": timedelta(seconds=2)}},
    )
    return Bucket(client, f"s3a://{name}", _remover(session, at, name))


def _remover(session: Any, at: Service, bucket: str) -> Callable[[str], None]:
    """What removes the object that Hadoop's S3A makes for a folder: obstore takes the slash at the key's end away."""
    import botocore.exceptions  # noqa: PLC0415 - an extra
    from botocore.config import Config  # noqa: PLC0415 - the same

    @functools.cache
    def client() -> Any:
        style = Config(s3={"addressing_style": "path"}) if at.endpoint else None
        return session.client("s3", endpoint_url=at.endpoint or None, region_name=at.region, config=style)

    def remove(key: str) -> None:
        try:
            client().delete_object(Bucket=bucket, Key=f"{key}/")
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
            raise OSError(str(error)) from None

    return remove


@functools.cache
def _session() -> Any:
    try:
        import boto3  # noqa: PLC0415 - an extra
        import botocore.exceptions  # noqa: PLC0415 - the same
        import obstore  # noqa: F401, PLC0415 - the same
    except ImportError as error:
        raise SetupError(
            f"a checkpoint in S3 needs Python's {error.name}",
            harmless="always: nothing was started",
            cause="onceflow was installed without its extra s3",
            action="pip install '.[s3]' in onceflow's folder, or pip install obstore boto3",
        ) from None
    try:
        return boto3.Session()
    except botocore.exceptions.ProfileNotFound as error:
        raise ConfigurationError(
            f"S3 cannot be reached: {error}",
            harmless="always: nothing was started",
            cause="AWS_PROFILE names it, and neither ~/.aws/config nor ~/.aws/credentials has it",
            action="correct AWS_PROFILE, or write the profile",
        ) from None
