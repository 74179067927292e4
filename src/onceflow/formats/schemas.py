"""Schemas that formats ask for: which ids are known here, and what a start has settled.

A schema by its id never changes. So a job keeps each one that it reads by in its checkpoint, and an epoch that is run
again reads by the same ones, whatever has become of the registry.
Must not know: where they are kept, the registry's client, how an epoch commits.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from onceflow.errors import ConfigurationError, UnknownSchemaError
from onceflow.formats.contract import PartOfRecord
from onceflow.formats.registry import SchemaRegistry

SchemaType = Literal["AVRO", "PROTOBUF", "JSON"]
"""A registry's words."""


def schema_type_of(text: str) -> SchemaType:
    """Of a schema as a checkpoint keeps it."""
    found = json.loads(text)
    keys = set(found) if isinstance(found, dict) else set()
    return "PROTOBUF" if keys == {"protobuf"} else "JSON" if keys == {"json_schema"} else "AVRO"


@dataclass(frozen=True, slots=True)
class ReadingSchemas:
    """What records of one subject are read by.

    Attributes:
        reader: The schema whose fields become columns.
        writers: By id, those that records may have been written by.
        absent: Ids that the registry did not have when a record named them; such a record is malformed.
    """

    reader: str
    writers: Mapping[int, str] = field(default_factory=dict)
    absent: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class WritingSchema:
    """What records of one subject are written by.

    Attributes:
        id: Its id.
        text: The schema.
    """

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class WantedSchema:
    """One that a record names, and that was not known when it was read.

    Attributes:
        registry: The registry's name.
        id: The schema's id.
        where: Where the record is, in words.
    """

    registry: str
    id: int
    where: str


def wanted_by(error: UnknownSchemaError) -> WantedSchema:
    """What a query was ended by, to be looked up before it begins again."""
    of = error.facts
    where = f"topic {of['topic']}, partition {of['partition']}, offset {of['offset']}"
    return WantedSchema(of["registry"], of["schema"], where)


class Schemas(ABC):
    """Where formats ask, for one start of a job."""

    @abstractmethod
    def reading(
        self,
        registry: SchemaRegistry,
        subject: str,
        schema_type: SchemaType,
        *,
        reader: str | None,
        version: int | None,
        fails: bool,
    ) -> ReadingSchemas:
        """What records are read by.

        Args:
            registry: Where.
            subject: Whose newest version, or which one, says what becomes columns.
            schema_type: What the records are.
            reader: The schema that says it instead.
            version: The version of the subject; None is the newest at the first start of a checkpoint, and stays.
            fails: A record of which the registry does not have the schema ends the job; else it is malformed for ever.

        Raises:
            OnceflowError: The registry did not answer, or has none.
        """

    @abstractmethod
    def writing(
        self, registry: SchemaRegistry, subject: str, schema_type: SchemaType, *, text: str, register: bool
    ) -> WritingSchema:
        """What records are written by.

        Args:
            registry: Where.
            subject: Under which subject it stands; registered there at a start, if it is not and ``register`` says so.
            schema_type: What the records are.
            text: The schema; "" takes the subject's newest one.
            register: See above; whether it is compatible is asked before.

        Raises:
            OnceflowError: The registry did not answer, refused it, or has none.
        """


_present: ContextVar[Schemas | None] = ContextVar("_present", default=None)


@contextmanager
def asking(schemas: Schemas) -> Iterator[None]:
    """Formats that are used inside ask there."""
    token = _present.set(schemas)
    try:
        yield
    finally:
        _present.reset(token)


def present_schemas(registry: SchemaRegistry, subject: str) -> Schemas:
    """Where a format asks that is used now.

    Raises:
        ConfigurationError: It is used outside of a job; names what it wanted to know.
    """
    found = _present.get()
    if found is None:
        raise ConfigurationError(
            f"subject {subject} of {registry.describe()} is asked for outside of a job",
            harmless="always: nothing was read",
            cause="the schemas that are read by are kept in the job's checkpoint, and only a Job loads its sources "
            "knowing which checkpoint that is",
            action="load the source in the stream function of a Job; or give the schema itself, Avro(schema=…), where "
            "records have no id before them",
        )
    return found


def subject_of(given: str | None, part: PartOfRecord) -> str:
    """The registry's name for what is in a topic.

    Args:
        given: What the format was given; None for ``<topic>-value`` or ``<topic>-key``.
        part: Which bytes are asked for.

    Raises:
        ConfigurationError: It is not given, and more than one topic is read.
    """
    if given is not None:
        return given
    if len(part.topics) != 1:
        raise ConfigurationError(
            "a subject is needed where more than one topic is read by a registry",
            cause=f"topics={', '.join(part.topics)}, subject=None",
            action="give subject=: whose schema says what becomes columns. Each record is read by its own "
            "id, of whichever subject",
        )
    return f"{part.topics[0]}-{part.part}"
