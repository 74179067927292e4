"""The schemas that a job reads and writes by, in its checkpoint: each in a file of its own, which never changes.

A replay reads by these alone. So a schema is here, durable, before the query that knows it begins: before a task that
has read by it can report.
Must not know: registries' clients, formats, how an epoch commits.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

from onceflow.errors import CheckpointConflictError, CheckpointCorruptError
from onceflow.storage.store import Store
from onceflow.twophase.forms import OTHER_FORM

FOLDER = "schemas"
"""In our folder of the checkpoint."""

_FILE = re.compile(r"(id|read|write)\.[^/]+\.json")
_LONGEST = 100


@dataclass(frozen=True, slots=True)
class SchemaOfId:
    """What a registry has said of an id.

    Attributes:
        registry: Its name.
        id: The id.
        text: The schema; None where it had none.
    """

    registry: str
    id: int
    text: str | None

    @property
    def file(self) -> str:
        """Its file's name."""
        return f"id.{self.registry}.{self.id}.json"


@dataclass(frozen=True, slots=True)
class SchemaOfReader:
    """The schema whose fields became columns where nobody named one: a subject's newest, at the first start.

    Attributes:
        registry: Its name.
        subject: The subject.
        text: The schema.
    """

    registry: str
    subject: str
    text: str

    @property
    def file(self) -> str:
        """Its file's name."""
        return f"read.{self.registry}.{_named(self.subject)}.json"


@dataclass(frozen=True, slots=True)
class SchemaOfWriter:
    """The schema that a sink writes a subject by.

    Attributes:
        registry: Its name.
        subject: The subject.
        asked: What the sink asked for; "" for the subject's newest, at the start that asked first.
        id: Its id.
        text: The schema.
    """

    registry: str
    subject: str
    asked: str
    id: int
    text: str

    @property
    def file(self) -> str:
        """Its file's name."""
        asked = hashlib.sha256(self.asked.encode()).hexdigest()[:16]
        return f"write.{self.registry}.{_named(self.subject)}.{asked}.json"


Kept = SchemaOfId | SchemaOfReader | SchemaOfWriter
_KINDS: dict[str, type[Any]] = {"id": SchemaOfId, "read": SchemaOfReader, "write": SchemaOfWriter}


class KeptSchemas:
    """A checkpoint's.

    Args:
        store: The folder.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def files(self) -> list[str]:
        """The names of what is here."""
        return sorted(name for name in self._store.names() if _FILE.fullmatch(name))

    def read(self) -> Iterator[Kept]:
        """All of them.

        Raises:
            CheckpointCorruptError: A file is spoiled; the message names it.
            CheckpointStoreError: The file system failed.
        """
        for name in self.files():
            try:
                found = json.loads(self._store.read(name))
                kept: Kept = _KINDS[name.partition(".")[0]](**found)
                _require_form(kept)
                if kept.file != name:
                    raise ValueError(name)
            except OTHER_FORM:
                raise CheckpointCorruptError(
                    f"{self._store.path(name)} is no schema as onceflow keeps it",
                    harmless="never: records that were read by it could not be read again",
                    cause="the file was edited, renamed or cut",
                    action="put it back from a copy; a savepoint has it, too",
                    file=str(self._store.path(name)),
                ) from None
            yield kept

    def keep(self, kept: Kept) -> None:
        """Write one, durable. One that is there already as it is stays.

        Raises:
            CheckpointConflictError: Another one is there.
            CheckpointStoreError: The file system failed.
        """
        data = json.dumps(asdict(kept), sort_keys=True).encode()
        self._store.make()
        try:
            self._store.create(kept.file, data)
        except FileExistsError:
            if self._store.read(kept.file) == data:
                return
            raise CheckpointConflictError(
                f"{self._store.path(kept.file)} holds another schema than what was to be kept there",
                harmless="for the data: the query has not begun",
                cause="another start of the job has asked another registry",
                action="see to it that one runs, and that the registry's address is the one that is meant; start again",
                file=str(self._store.path(kept.file)),
            ) from None


def _named(subject: str) -> str:
    """A subject as part of a file's name: any letters, and of some length. A registry's name has no dot."""
    quoted = quote(subject, safe="")
    return quoted if len(quoted) <= _LONGEST else hashlib.sha256(subject.encode()).hexdigest()


def _require_form(kept: Kept) -> None:
    values = asdict(kept)
    if not all(isinstance(values.get(name, ""), str) for name in ("registry", "subject", "asked")):
        raise TypeError
    if not isinstance(values.get("id", 0), int):
        raise TypeError
    text = values["text"]
    if text is not None:
        json.loads(text)
    elif not isinstance(kept, SchemaOfId):
        raise ValueError("text")
