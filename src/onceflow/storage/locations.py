"""Which file system a location is on, and its one name there.

Must not know: how a file system is reached, what the files hold.

The one name of a place in S3 is its ``s3a:`` URI, since Spark writes it into the checkpoint's own files; ``s3:`` is the
same.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from onceflow.errors import ConfigurationError
from onceflow.masking import in_text

_URI = re.compile(r"(file|[a-z][a-z0-9+.-]*(?=:/)):", re.IGNORECASE)
_ELSEWHERE = {"hdfs": "on HDFS", "s3": "in S3", "s3a": "in S3"}
_OBJECT_STORES = ("s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "oss", "cosn", "obs")
_ON_HDFS = re.compile(r"hdfs:/", re.IGNORECASE)
_HDFS = re.compile(r"hdfs://([A-Za-z0-9._-]+(?::[0-9]+)?)((?:/+[A-Za-z0-9._~@+=,-]+)+)/*", re.IGNORECASE)
_IN_S3 = re.compile(r"s3a?:/", re.IGNORECASE)
_S3 = re.compile(r"(?i:s3a?)://([a-z0-9][a-z0-9.-]+[a-z0-9])((?:/+[A-Za-z0-9._@+=,-]+)+)/*")


def is_elsewhere(location: str | os.PathLike[str]) -> bool:
    """Whether a location is on HDFS or in S3, and on no POSIX file system.

    Raises:
        ConfigurationError: It is refused.
    """
    return hdfs_uri(location) is not None or s3_uri(location) is not None


def hdfs_uri(location: str | os.PathLike[str]) -> str | None:
    """The one URI of a checkpoint on HDFS; None for a location that is none.

    Raises:
        ConfigurationError: It begins as one, and names no folder there in the one form that is taken.
    """
    text = os.fspath(location)
    if not _ON_HDFS.match(text):
        return None
    told = (
        "on HDFS a checkpoint is hdfs://NAMENODE:PORT/FOLDER, or with the name of a name service in their place. Which "
        "NameNode must be said: without it, it would be a setting of the cluster's. A name in the path has letters, "
        "digits and . _ ~ @ + = , - alone"
    )
    return _uri_at(text, _HDFS, "hdfs", told, "hdfs://nn:8020/checkpoints/alerts")


def s3_uri(location: str | os.PathLike[str]) -> str | None:
    """The one URI of a checkpoint in S3; None for a location that is none.

    Raises:
        ConfigurationError: It begins as one, and names no folder there in the one form that is taken.
    """
    text = os.fspath(location)
    if not _IN_S3.match(text):
        return None
    told = (
        "in S3 a checkpoint is s3://BUCKET/FOLDER (s3a:// is the same place). A bucket's name has small letters, "
        "digits, dots and hyphens; a name in the path has letters, digits and . _ @ + = , - alone"
    )
    return _uri_at(text, _S3, "s3a", told, "s3://bucket/checkpoints/alerts")


def _uri_at(text: str, form: re.Pattern[str], scheme: str, told: str, example: str) -> str:
    """The one URI of a text; the form has two groups, host and path."""
    found = form.fullmatch(text)
    parts = found[2].split("/") if found else []
    if found is None or {".", ".."} & set(parts):
        raise _refused(text, told, f'write for example Checkpointing("{example}")')
    return f"{scheme}://{found[1]}/{'/'.join(filter(None, parts))}"


def local_path(checkpoint: str | os.PathLike[str]) -> Path:
    """The absolute path of a checkpoint given as a path, which is taken literally, or as a ``file:`` URI.

    A path without a scheme means the local file system, also where Spark's default is another one: the
    checkpoint's place must not depend on a setting of the cluster.

    Raises:
        ConfigurationError: The scheme is one whose exclusive creation is not supported, or the text names no file here.
    """
    text = path = os.fspath(checkpoint)
    uri = _URI.match(text)
    if uri is not None:
        if uri[1].lower() in _ELSEWHERE:
            raise not_here(text)
        if uri[1].lower() != "file":
            raise _untested(text, uri[1])
        path = text[uri.end() :]
        if path.startswith("//"):
            host, _, path = path[2:].partition("/")
            path = "/" + path
            if host not in ("", "localhost"):
                raise _no_path(text, f"a file: URI names a host here, {host!r}; write three slashes: file:///...")
        if "?" in path or "#" in path:
            raise _no_path(text, "in a URI ? and # end the path; write %3F and %23, or give the path without file:")
        path = os.fsdecode(unquote_to_bytes(os.fsencode(path)))
    if "\0" in path:
        raise _no_path(text, "no file system takes a zero byte in a name")
    return Path(os.path.realpath(path))


def file_uri(folder: Path) -> str:
    """The one ``file:`` URI of an absolute path, quoted; ``local_path`` takes it back."""
    return "file://" + quote(os.fsencode(folder))


def not_here(checkpoint: str) -> ConfigurationError:
    """The refusal of a checkpoint on HDFS or in S3 by what works on files of a POSIX file system alone."""
    whereabouts = _ELSEWHERE.get(checkpoint.partition(":")[0].lower(), "on a POSIX file system")
    return ConfigurationError(
        f"this cannot be done with the checkpoint {checkpoint}: it is {whereabouts}",
        harmless="always: nothing was changed",
        cause="what was asked for takes a folder of this machine's",
        action="name one on a POSIX file system; docs/stores.md says what is different on HDFS and in S3",
        checkpoint=checkpoint,
    )


def _untested(text: str, scheme: str) -> ConfigurationError:
    why = "it is none of those that this version was tested on: file, hdfs and s3"
    if scheme.lower() in _OBJECT_STORES:
        why = "of object stores only S3 was tested, with Hadoop's connector to it"
    return ConfigurationError(
        f"a checkpoint at {scheme}:// is refused",
        cause="the journal needs a store in which exactly one of two writers can create a file. The checkpoint is "
        f"{in_text(text)!r}, and {why}",
        action="give a path on a local or a shared POSIX file system that the driver sees on every host it may "
        "start on, a folder on HDFS (hdfs://nn:8020/checkpoints/alerts) or in S3 (s3://bucket/checkpoints/alerts)",
        checkpoint=in_text(text),
    )


def _no_path(text: str, why: str) -> ConfigurationError:
    return _refused(text, why, "correct the checkpoint's location")


def _refused(text: str, why: str, action: str) -> ConfigurationError:
    shown = in_text(text)  # Hadoop's older forms had a login
    return ConfigurationError(f"the checkpoint {shown!r} is refused", cause=why, action=action, checkpoint=shown)
