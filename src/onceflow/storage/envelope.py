"""The form of our durable files: one JSON object with the number of its format and a SHA-256 over all the rest.

Must not know: what the object says, or where the files are kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from onceflow.errors import CheckpointConflictError, CheckpointCorruptError
from onceflow.storage.files import Where
from onceflow.twophase.forms import OTHER_FORM


class OtherFormatError(ValueError):
    """Made by another version."""

    def __init__(self, found: int, ours: int) -> None:
        self.found = found
        self.ours = ours
        super().__init__(f"it has format {found}, this version reads format {ours}")


def seal(body: Mapping[str, Any]) -> bytes:
    """The bytes of a file that holds ``body``, which names its ``format``."""
    return json.dumps({**body, "sha256": _checksum(body)}, indent=1).encode() + b"\n"


def unseal(data: bytes, ours: int) -> dict[str, Any]:
    """What ``seal`` was given.

    Raises:
        OtherFormatError: Its format is not ``ours``.
        OTHER_FORM: The file is torn, or was changed.
    """
    if not data:
        raise ValueError("the file is empty")
    body = json.loads(data)
    if not isinstance(body, dict):
        raise TypeError("the file holds no JSON object")
    found = body.get("format")
    if isinstance(found, int) and found != ours:  # before the checksum: another version may make that otherwise
        raise OtherFormatError(found, ours)
    if body.pop("sha256", None) != _checksum(body):
        raise ValueError("its checksum does not match its content")
    return body


@contextlib.contextmanager
def named(path: Where, spoiled: Callable[[Where, str], CheckpointCorruptError]) -> Iterator[None]:
    """Whatever is wrong with a file that is read inside becomes an error of ours that names it.

    Args:
        path: Where the file is.
        spoiled: Its error for a file that cannot be used, from the path and what is wrong.
    """
    try:
        yield
    except OtherFormatError as error:
        raise _other_format(path, error.found, error.ours) from None
    except OTHER_FORM as error:
        raise spoiled(path, str(error)) from error


def _other_format(path: Where, found: int, ours: int) -> CheckpointConflictError:
    if found > ours:
        cause = "a newer version of onceflow wrote this checkpoint"
        action = "run the job with that version or a newer one"
    else:
        cause = "an older version of onceflow wrote this checkpoint, which kept less than a start compares now"
        action = "let that version finish and stop the job, then start it with a new checkpoint folder; or go on with "
        action += "that version"
    return CheckpointConflictError(
        f"{path} has format {found}, this version reads format {ours}",
        harmless="always for the data: nothing was changed",
        cause=cause,
        action=action,
        file=str(path),
    )


def _checksum(body: Mapping[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
