"""S3: the client of a bucket, with the settings and credentials that the field knows.

Must not know: Spark, what the files hold. No credential is kept here or told by anything here.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from onceflow.errors import ConfigurationError, SetupError
from onceflow.storage.store import Store

if TYPE_CHECKING:
    from obstore.store import S3Config

    from onceflow.storage.objects import Bucket

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


def store_at(uri: str) -> Store:
    """The store of a folder in S3.

    Raises:
        SetupError: The libraries are missing.
        ConfigurationError: There are no credentials.
    """
    return Store(uri, _bucket(uri.removeprefix("s3a://").partition("/")[0]))


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

    from onceflow.storage.objects import Bucket  # noqa: PLC0415 - the same

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
    rights = "s3:ListBucket of the bucket; s3:GetObject, s3:PutObject, s3:DeleteObject below the folder"
    return Bucket(client, f"s3a://{name}", _remover(session, at, name), rights)


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
