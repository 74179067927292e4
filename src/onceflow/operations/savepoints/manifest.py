"""What a savepoint says of itself: whose it is, of which epoch, and each of its files with its size and SHA-256.

Must not know: where it is kept, Spark. Pure: the manifest is a value, and bytes are made of it and read again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from onceflow.storage import envelope
from onceflow.twophase.forms import OTHER_FORM

FORMAT = 1
NAME = "manifest.json"
"""The file whose presence makes a folder a savepoint: it is written last."""


@dataclass(frozen=True, slots=True)
class HeldFile:
    """One file."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A savepoint's.

    Attributes:
        id: Random; names this savepoint, also where it was exported.
        created_at: When (ISO 8601, UTC).
        job: The job's name, "" where it was not known.
        job_id: Its id.
        checkpoint: The URI of the checkpoint that it was taken of.
        prefix: First part of the job's transactional ids.
        systems: Ids of the systems of the sinks that take part, as ``job.json`` has them.
        epoch: The newest epoch in it; all of it is done.
        job_epoch: The newest epoch of the job in it: the same, or, where the savepoint was rescaled, one before, since
            Spark counts that as an epoch.
        offsets: What ``offsets/<epoch>`` holds: how far the sources are read.
        sinks: The sinks that got its rows.
        versions: Of onceflow and of PySpark.
        formats: Of the journal, and of Spark's ``offsets/`` and ``commits/``.
        partitions: Shuffle partitions, in which the state is kept; None where the plan keeps none.
        files: By their path in the savepoint.
        signature: By whom has the job's key (``signing``); "" for none.
    """

    id: str
    created_at: str
    job: str
    job_id: str
    checkpoint: str
    prefix: str
    systems: str
    epoch: int
    job_epoch: int
    offsets: str
    sinks: tuple[str, ...]
    versions: Mapping[str, str]
    formats: Mapping[str, str]
    partitions: int | None
    files: Mapping[str, HeldFile]
    signature: str = ""

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(held.size for held in self.files.values())

    def dumps(self) -> bytes:
        """The bytes of its file."""
        body = {"format": FORMAT} | asdict(self)
        if not self.signature:  # as an older version has it
            del body["signature"]
        return envelope.seal(body)

    @classmethod
    def loads(cls, data: bytes) -> Self:
        """Read what ``dumps`` wrote.

        Raises:
            OtherFormatError: Another version made it.
            OTHER_FORM: It is torn, or was changed.
        """
        body = envelope.unseal(data, FORMAT)
        return cls(
            str(body["id"]),
            str(body["created_at"]),
            str(body["job"]),
            str(body["job_id"]),
            str(body["checkpoint"]),
            str(body["prefix"]),
            str(body["systems"]),
            int(body["epoch"]),
            int(body["job_epoch"]),
            str(body["offsets"]),
            tuple(str(name) for name in body["sinks"]),
            _texts(body["versions"]),
            _texts(body["formats"]),
            None if body["partitions"] is None else int(body["partitions"]),
            {_within(path): HeldFile(int(held["size"]), str(held["sha256"])) for path, held in body["files"].items()},
            str(body.get("signature", "")),
        )


def differences(manifest: Manifest, found: Mapping[str, HeldFile]) -> list[str]:
    """What a folder's files differ in from their manifest, a line for each: missing, changed, added."""
    told = [f"{path} is missing" for path in sorted(set(manifest.files) - set(found))]
    told += [f"{path} was added" for path in sorted(set(found) - set(manifest.files))]
    for path in sorted(set(manifest.files) & set(found)):
        was, now = manifest.files[path], found[path]
        if was.size != now.size:
            told.append(f"{path} was changed: it has {now.size} bytes and had {was.size}")
        elif was != now:
            told.append(f"{path} was changed: its SHA-256 is another one")
    return told


def shuffle_partitions(offsets: str) -> int | None:
    """The shuffle partitions that an offsets file names, None where it names none."""
    try:
        conf = json.loads(offsets.splitlines()[1])["conf"]
        return int(conf["spark.sql.shuffle.partitions"])
    except OTHER_FORM:
        return None


def _within(path: str) -> str:
    """A file's path, if it stays in the folder: a stranger may have made the manifest, and files are deleted by it.

    Raises:
        ValueError: It leads out.
    """
    if "\0" in path or "\\" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(f"it names a file outside of its folder, {path!r}")
    return path


def _texts(value: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(text) for name, text in value.items()}
