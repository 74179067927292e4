"""The schemas of one start: what the checkpoint has, what the registry is asked for beside it, and when that is kept.

Must not know: formats' bytes, Spark, how an epoch commits.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal

from onceflow.checkpoint.schemas import Kept, KeptSchemas, SchemaOfId, SchemaOfReader, SchemaOfWriter
from onceflow.connectors.registry.client import RegistryClient
from onceflow.errors import CheckpointConflictError, ConfigurationError, RegistryError
from onceflow.formats.avro_schema import dumps, parse
from onceflow.formats.registry import SchemaRegistry, require_one_each
from onceflow.formats.schemas import ReadingSchemas, Schemas, SchemaType, WantedSchema, WritingSchema, schema_type_of
from onceflow.waiting import turns

log = logging.getLogger(__name__)

_NEWEST = 50
"""So many versions of a subject are read ahead: records of older ones are looked up when they come."""
_PAUSE_S = 1.0
_ABSENT_S = 20.0
"""An id that the registry does not have may be one that has not reached all of its servers yet."""


class StartSchemas(Schemas):
    """Those of one start.

    Args:
        kept: The checkpoint's.
        wanted: What records have named, and the checkpoint does not have.

    Attributes:
        may: A sink's schema that is not known may be registered; or it is only looked whether it could be, and no row
            is written by it; or neither, where epochs are run again: they were written by one that is known.
    """

    def __init__(self, kept: KeptSchemas, wanted: Sequence[WantedSchema] = ()) -> None:
        self._kept = kept
        self._wanted = tuple(wanted)
        self.may: Literal["register", "look", "neither"] = "neither"
        self._known: list[Kept] | None = None
        self._learned: list[Kept] = []
        self._registries: dict[str, SchemaRegistry] = {}
        self._clients: dict[str, RegistryClient] = {}

    def close(self) -> None:
        """Let go of the registries."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def keep(self) -> None:
        """Write what was learned into the checkpoint: before the query that was made with it begins.

        Raises:
            CheckpointError: It could not be written.
        """
        for each in self._learned:
            self._kept.keep(each)
        self._learned.clear()

    def look(self, registries: Sequence[SchemaRegistry]) -> None:
        """Look at the registries before anything is begun; of one whose schemas the checkpoint has, that may be away.

        Raises:
            OnceflowError: One does not answer, refuses the login, or is another one than before.
        """
        for registry in registries:
            self._enter(registry)
            if not any(each.registry == registry.name for each in self._kept_before()):
                self._client(registry).look()

    # -- what formats ask -------------------------------------------------------------------------

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
        """As the contract says. What the checkpoint has is compared with what the registry has, where that answers."""
        self._enter(registry)
        if reader is None:
            reader = self._reader(registry, subject, schema_type, version)
        if self._is_new(registry):
            self._learn_versions(registry, subject, schema_type)
        for wanted in self._wanted:
            if wanted.registry == registry.name and wanted.id not in self._of(registry):
                self._learn(SchemaOfId(registry.name, wanted.id, self._looked_up(registry, wanted, fails=fails)))
        known = self._of(registry)
        writers = {
            schema_id: text
            for schema_id, text in known.items()
            if text is not None and schema_type_of(text) == schema_type
        }
        return ReadingSchemas(reader, writers, frozenset(set(known) - set(writers)))

    def writing(
        self, registry: SchemaRegistry, subject: str, schema_type: SchemaType, *, text: str, register: bool
    ) -> WritingSchema:
        """As the contract says. What the checkpoint has for the same question is not asked for again."""
        self._enter(registry)
        # A subject's newest is asked for by its type too: another format at the sink asks for another one.
        asked = text if schema_type == "AVRO" else schema_type
        for each in self._all():
            if isinstance(each, SchemaOfWriter) and (each.registry, each.subject, each.asked) == (
                registry.name,
                subject,
                asked,
            ):
                return WritingSchema(each.id, each.text)
        if self.may == "neither":
            raise ConfigurationError(
                f"no schema by which subject {subject} of {registry.describe()} was written like this is known",
                harmless="always: nothing was written",
                cause="the columns, or the sink's schema, are others than those of the epochs that are run again",
                action="take the code and settings with which the epochs were written",
                subject=subject,
            )
        found = self._written(registry, subject, schema_type, text, register=register)
        self._learn(SchemaOfWriter(registry.name, subject, asked, found.id, found.text))
        return found

    def _written(
        self, registry: SchemaRegistry, subject: str, schema_type: SchemaType, text: str, *, register: bool
    ) -> WritingSchema:
        client = self._client(registry)
        if not text:
            found = client.version(subject, None, schema_type)
            if found is None:
                raise _no_subject(registry, subject)
            return found
        text = dumps(parse(text, "the sink's schema"))
        there = client.registered(subject, text)
        if there is not None:
            return WritingSchema(there, text)
        if not register:
            raise ConfigurationError(
                f"the sink's schema does not stand under subject {subject} of {registry.describe()}",
                harmless="always: nothing was registered or written",
                cause="register=False, and no version of the subject is this schema",
                action="register it by your own way, or give the sink Avro(…, register=True)",
                subject=subject,
            )
        client.require_compatible(subject, text)
        if self.may == "look":
            return WritingSchema(0, text)
        made = client.register(subject, text)
        log.info("registered the sink's schema under subject %s of %s: it is %d", subject, registry.describe(), made)
        return WritingSchema(made, text)

    # -- reading ----------------------------------------------------------------------------------

    def _reader(self, registry: SchemaRegistry, subject: str, schema_type: SchemaType, version: int | None) -> str:
        asked = f"{subject}{_at(version)}"
        kept = next(
            (
                each.text
                for each in self._all()
                if isinstance(each, SchemaOfReader) and (each.registry, each.subject) == (registry.name, asked)
            ),
            None,
        )
        if kept is not None:
            return kept
        found = self._client(registry).version(subject, version, schema_type)
        if found is None:
            raise _no_subject(registry, asked)
        self._learn(SchemaOfReader(registry.name, asked, found.text))
        self._learn_id(registry, found)
        return found.text

    def _is_new(self, registry: SchemaRegistry) -> bool:
        """Whether no start has read the versions of a subject ahead."""
        return not any(isinstance(each, SchemaOfId) and each.registry == registry.name for each in self._kept_before())

    def _learn_versions(self, registry: SchemaRegistry, subject: str, schema_type: SchemaType) -> None:
        client = self._client(registry)
        for version in client.versions(subject)[-_NEWEST:]:
            try:
                found = client.version(subject, version, schema_type)
            except ConfigurationError as error:  # a record of it says what follows
                log.warning("version %d of subject %s cannot be read: %s", version, subject, error.what)
                continue
            if found is not None:
                self._learn_id(registry, found)

    def _looked_up(self, registry: SchemaRegistry, wanted: WantedSchema, *, fails: bool) -> str | None:
        """The schema of an id that a record has named; None when it has not come for a while, or cannot be read."""
        why = f"{registry.describe()} does not have it"
        for _ in turns(_ABSENT_S, _PAUSE_S):
            try:
                text = self._client(registry).schema(wanted.id)
            except ConfigurationError as error:
                why = error.what
                break
            if text is not None:
                log.info("schema %d of %s is new here: it is read by from now on", wanted.id, registry.describe())
                return text
        if fails:
            raise RegistryError(
                f"the record at {wanted.where} is of schema {wanted.id}, by which it cannot be read: {why}",
                harmless="for what is visible: it stays as it is; but every start meets the record again",
                cause="it was written by way of another registry, or its schema was deleted, or is of another format, "
                "or it only looks as if it began with a schema's id",
                action='restore the schema; or set on_malformed="skip", or a DeadLetter, at the source',
                registry=registry.name,
                schema=wanted.id,
            )
        log.warning(
            "the record at %s is of schema %d: such records are malformed for this checkpoint: %s",
            wanted.where,
            wanted.id,
            why,
        )
        return None

    def _compare(self, registry: SchemaRegistry) -> None:
        """Refuse a registry whose ids mean other schemas than those of the checkpoint; one that is away may be."""
        known = {schema_id: text for schema_id, text in self._of(registry).items() if text is not None}
        written = {
            each.id: each for each in self._all() if isinstance(each, SchemaOfWriter) and each.registry == registry.name
        }
        for schema_id, text in sorted({**{n: each.text for n, each in written.items()}, **known}.items()):
            try:
                is_still = self._is_still(registry, schema_id, text, written.get(schema_id))
            except RegistryError as error:
                log.warning("%s: the job goes on with the schemas that its checkpoint has", error.what)
                return
            if is_still is None:
                log.warning(
                    "%s does not have schema %d any more, by which this job goes: it goes on with its own copy",
                    registry.describe(),
                    schema_id,
                )
            elif not is_still:
                raise CheckpointConflictError(
                    f"schema {schema_id} of {registry.describe()} is another one than this checkpoint has gone by",
                    harmless="never: records would be read, or written, as what they are not",
                    cause="another registry answers under this address or name, or this one was emptied and filled "
                    "again",
                    action="name the registry that is meant; a job that is to go by another one gives it a name of "
                    "its own: SchemaRegistry(url, name=…)",
                    registry=registry.name,
                    schema=schema_id,
                )

    def _is_still(
        self, registry: SchemaRegistry, schema_id: int, text: str, written: SchemaOfWriter | None
    ) -> bool | None:
        client = self._client(registry)
        # Of what a sink asked for the registry says itself whether it is the same: it may have laid it out anew.
        of_avro = written is not None and written.asked and schema_type_of(text) == "AVRO"
        if written is not None and of_avro and client.registered(written.subject, text) == schema_id:
            return True
        return client.is_still(schema_id, text)

    # -- what is known ----------------------------------------------------------------------------

    def _enter(self, registry: SchemaRegistry) -> None:
        require_one_each([*self._registries.values(), registry])
        if registry.name not in self._registries:
            self._registries[registry.name] = registry
            self._compare(registry)

    def _kept_before(self) -> list[Kept]:
        if self._known is None:
            self._known = list(self._kept.read())
        return self._known

    def _all(self) -> list[Kept]:
        return [*self._kept_before(), *self._learned]

    def _of(self, registry: SchemaRegistry) -> dict[int, str | None]:
        return {
            each.id: each.text
            for each in self._all()
            if isinstance(each, SchemaOfId) and each.registry == registry.name
        }

    def _learn(self, kept: Kept) -> None:
        if kept not in self._all():
            self._learned.append(kept)

    def _learn_id(self, registry: SchemaRegistry, found: WritingSchema) -> None:
        if found.id not in self._of(registry):
            self._learn(SchemaOfId(registry.name, found.id, found.text))

    def _client(self, registry: SchemaRegistry) -> RegistryClient:
        if registry.name not in self._clients:
            self._clients[registry.name] = RegistryClient(registry)
        return self._clients[registry.name]


def _at(version: int | None) -> str:
    return "" if version is None else f"@{version}"


def _no_subject(registry: SchemaRegistry, subject: str) -> ConfigurationError:
    return ConfigurationError(
        f"{registry.describe()} has no schema under subject {subject}",
        harmless="always: nothing was read or written",
        cause="no such subject or version; without subject= it is <topic>-value or <topic>-key",
        action="name the subject (subject=), or give the schema itself (schema=)",
        subject=subject,
    )
