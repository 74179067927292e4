"""A schema registry's client: schemas by id, versions of a subject, and one that is registered.

confluent-kafka's client speaks; here its failures become ours, and schemas become whole: what they refer to in other
subjects stands in them. It keeps nothing. Must not know: which ids a job knows, checkpoints.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from onceflow.connectors.registry import protoc
from onceflow.errors import (
    ConfigurationError,
    OnceflowError,
    RegistryError,
    RegistryRightsError,
    RegistryUnavailableError,
    SetupError,
)
from onceflow.formats.avro_schema import dumps, inlined, parse
from onceflow.formats.registry import SchemaRegistry
from onceflow.formats.schemas import SchemaType, WritingSchema, schema_type_of
from onceflow.masking import in_text
from onceflow.options.given import plain
from onceflow.twophase.forms import OTHER_FORM

_WITHIN_S = 4.0
"""A request, of which a start makes few: that a registry is away is told within five seconds."""
_NOT_FOUND = 404
_REFUSED = (401, 403)
_INCOMPATIBLE = (409, 422)


class _GoneError(Exception):
    """What a schema refers to is not there, or not yet."""


class RegistryClient:
    """One registry, in the driver. Every method raises ``RegistryError``s; of a schema that is none ConfigurationError.

    Args:
        registry: Which one.

    Raises:
        SetupError: Its client is not installed.
        ConfigurationError: A setting that its client does not take.
    """

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise SetupError(
                f"the client of a schema registry is not installed: {error}",
                harmless="always: nothing was started",
                cause="onceflow was installed without its extra registry",
                action="pip install 'onceflow[registry]'",
            ) from None
        try:
            self._client: Any = SchemaRegistryClient(_settings(registry))
        except (ValueError, TypeError, OSError) as error:
            raise ConfigurationError(
                f"{registry.describe()} cannot be asked: {in_text(str(error))}",
                harmless="always: nothing was started",
                cause="a setting of SchemaRegistry",
                action="correct it",
            ) from None

    def close(self) -> None:
        """Let go of its connections."""
        self._client.close()

    def look(self) -> None:
        """Look whether it answers, and takes the login."""
        with self._translating("its types of schemas"):
            self._client.get_schema_types()

    def schema(self, schema_id: int) -> str | None:
        """The schema of an id, whole, of whichever type it is; None where it, or what it refers to, is not there."""
        with self._translating(f"schema {schema_id}"), contextlib.suppress(_GoneError):
            found = self._found(lambda: self._client.get_schema(schema_id))
            return None if found is None else self._whole(found, f"schema {schema_id}")
        return None

    def is_still(self, schema_id: int, text: str) -> bool | None:
        """Whether an id has the schema that ``schema`` gave; None where that is not there any more."""
        with self._translating(f"schema {schema_id}"), contextlib.suppress(_GoneError):
            found = self._found(lambda: self._client.get_schema(schema_id))
            if found is None:
                return None
            known, of = json.loads(text), schema_type_of(text)
            if (found.schema_type or "AVRO") != of:
                return False
            try:
                if of == "PROTOBUF" and self._texts(found) == known["protobuf"]["texts"]:
                    return True  # what was compiled once is known without protoc
                now = json.loads(self._whole(found, f"schema {schema_id}"))
            except ConfigurationError:
                return False
            if of == "PROTOBUF":  # a registry may lay out its texts anew
                return bool(now["protobuf"]["compiled"] == known["protobuf"]["compiled"])
            return bool(now == known)
        return None

    def version(self, subject: str, version: int | None, schema_type: SchemaType) -> WritingSchema | None:
        """A version of a subject, None for its newest; None where it, or what it refers to, is not there."""
        with self._translating(f"subject {subject}"), contextlib.suppress(_GoneError):
            found = self._found(
                lambda: (
                    self._client.get_latest_version(subject)
                    if version is None
                    else self._client.get_version(subject, version)
                )
            )
            if found is None:
                return None
            has = found.schema.schema_type or "AVRO"
            if has != schema_type:
                raise self._of_another_type(f"subject {subject}", has, schema_type)
            return WritingSchema(int(found.schema_id), self._whole(found.schema, f"subject {subject}"))
        return None

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject, oldest first; empty where there is none."""
        with self._translating(f"subject {subject}"):
            return sorted(self._found(lambda: self._client.get_versions(subject)) or [])

    def registered(self, subject: str, text: str) -> int | None:
        """The id of a schema that stands under a subject as it is; None where it does not."""
        with self._translating(f"subject {subject}"):
            found = self._found(lambda: self._client.lookup_schema(subject, self._avro(text)))
            return None if found is None else int(found.schema_id)

    def require_compatible(self, subject: str, text: str) -> None:
        """Refuse a schema that the subject's rule does not take; one of a subject that is not there is taken."""
        with self._translating(f"subject {subject}"):
            if not self._found(lambda: self._client.get_versions(subject)):
                return
            if not self._client.test_compatibility(subject, self._avro(text)):
                raise self._incompatible(subject, "")

    def register(self, subject: str, text: str) -> int:
        """Register a schema; its id."""
        with self._translating(f"subject {subject}"):
            return int(self._client.register_schema(subject, self._avro(text)))

    def _avro(self, text: str) -> Any:
        from confluent_kafka.schema_registry import Schema  # noqa: PLC0415 - an extra

        return Schema(text, "AVRO")

    def _found(self, ask: Any) -> Any:
        from confluent_kafka.schema_registry.error import SchemaRegistryError  # noqa: PLC0415 - an extra

        try:
            return ask()
        except SchemaRegistryError as error:
            # A proxy's page, or another server's, has no code of the registry's.
            if error.http_status_code == _NOT_FOUND and error.error_code not in (None, -1, _NOT_FOUND):
                return None
            raise

    def _whole(self, schema: Any, what: str) -> str:
        """A schema with those that it refers to in itself."""
        found = schema.schema_type or "AVRO"
        whose = f"{what} of {self._registry.describe()}"
        try:
            if found == "AVRO":
                return self._whole_avro(schema, whose, ())
            if found == "JSON":
                return json.dumps({"json_schema": json.loads(schema.schema_str)}, sort_keys=True)
            if found == "PROTOBUF" and protoc.is_there():
                return protoc.compiled(self._texts(schema), whose).dumps()
        except RecursionError:
            raise ConfigurationError(
                f"{whose} is nested too deeply",
                harmless="always: nothing was read or written by it",
                cause="a schema that no program has made for its records",
                action="look at who has registered it; Raw() hands on the bytes",
            ) from None
        # Where the extra protobuf is not installed, no source of this job is of Protobuf.
        raise self._of_another_type(what, found, "what can be read here")

    def _of_another_type(self, what: str, found: str, asked: str) -> ConfigurationError:
        return ConfigurationError(
            f"{what} of {self._registry.describe()} is {found}, and {asked} was asked for",
            harmless="always: nothing was read or written by it",
            cause="the subject, or the topic's records, are of another format",
            action="name the subject that is meant; Raw() hands on the bytes",
        )

    def _whole_avro(self, schema: Any, whose: str, inside: tuple[tuple[str, int], ...]) -> str:
        others = {}
        for reference in schema.references or ():
            at = (str(reference.subject), int(reference.version))
            if at in inside:
                continue
            other = self._referred(reference)
            others[str(reference.name)] = json.loads(self._whole_avro(other, whose, (*inside, at)))
        try:
            own = json.loads(schema.schema_str)
        except OTHER_FORM:
            own = str(schema.schema_str)  # the registry may hand on the name of a primitive type as it is
        text = dumps(inlined(own, others))
        if not inside:
            parse(text, whose)
        return text

    def _texts(self, schema: Any) -> dict[str, str]:
        """A schema of Protobuf and those that it refers to, each under the name that it is imported by."""
        texts = {protoc.MAIN: str(schema.schema_str)}

        def add(each: Any) -> None:
            for reference in each.references or ():
                if str(reference.name) not in texts:
                    other = self._referred(reference)
                    texts[str(reference.name)] = str(other.schema_str)
                    add(other)

        add(schema)
        return texts

    def _referred(self, reference: Any) -> Any:
        found = self._found(lambda: self._client.get_version(str(reference.subject), int(reference.version)))
        if found is None:
            raise _GoneError
        return found.schema

    @contextlib.contextmanager
    def _translating(self, what: str) -> Iterator[None]:
        from confluent_kafka.schema_registry.error import (  # noqa: PLC0415 - an extra
            OAuthTokenError,
            SchemaRegistryError,
        )

        try:
            yield
        except OnceflowError:
            raise
        except SchemaRegistryError as error:
            raise self._translated(what, error) from None
        except OAuthTokenError as error:
            raise self._away(what, f"no token was had: {in_text(str(error))}") from None
        except OTHER_FORM:
            raise self._away(what, "what answers there is no registry: it is no JSON, or of another form") from None
        except Exception as error:
            if not type(error).__module__.startswith(("http", "ssl", "builtins", "anyio")):
                raise
            raise self._away(what, f"{type(error).__name__}: {in_text(str(error))}") from None

    def _translated(self, what: str, error: Any) -> RegistryError:
        said = in_text(str(error.error_message or ""))[:300]
        if error.http_status_code in _REFUSED:
            return RegistryRightsError(
                f"{self._registry.describe()} refused {what}: {error.http_status_code} {said}",
                harmless="always: nothing was read or written",
                cause="the login (username, token or oauth_…), or its rights on that subject",
                action="correct the login, or give it the right to read the subject, and, to register, to write it",
            )
        if error.http_status_code in _INCOMPATIBLE:
            return self._incompatible(what.removeprefix("subject "), said)
        return self._away(what, f"it answered {error.http_status_code} {said}")

    def _incompatible(self, subject: str, said: str) -> RegistryError:
        return RegistryError(
            f"{self._registry.describe()} does not take the schema for subject {subject}"
            f"{f': {said}' if said else ': it is not compatible with the versions there'}",
            harmless="always: nothing was registered or written",
            cause="the columns, or the sink's schema, have changed in a way that the subject's rule does not allow",
            action="give new fields a default, or keep the old ones; or write to another subject",
            subject=subject,
        )

    def _away(self, what: str, why: str) -> RegistryUnavailableError:
        return RegistryUnavailableError(
            f"{self._registry.describe()} did not say {what}: {why}",
            harmless="the registry comes back: nothing was read or written by what is not known",
            cause="it is down, or has no network, or url= names something else",
            action="look at the registry. A job goes on without it as long as its records name schemas that are in "
            "the checkpoint",
            registry=self._registry.name,
        )


def _settings(registry: SchemaRegistry) -> dict[str, Any]:
    """The client's, in Confluent's words."""
    found: dict[str, Any] = {"url": ",".join(registry.url), "timeout": _WITHIN_S, "max.retries": 0}
    if registry.username is not None:
        found["basic.auth.user.info"] = f"{registry.username}:{plain(registry.password)}"
    if registry.token is not None:
        found |= {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": plain(registry.token)}
    if registry.oauth_client_id is not None:
        found |= {
            "bearer.auth.credentials.source": "OAUTHBEARER",
            "bearer.auth.client.id": registry.oauth_client_id,
            "bearer.auth.client.secret": plain(registry.oauth_client_secret),
            "bearer.auth.issuer.endpoint.url": registry.oauth_token_endpoint,
            "bearer.auth.scope": registry.oauth_scope or "",
        }
    if "bearer.auth.credentials.source" in found:
        found["bearer.auth.logical.cluster"] = registry.logical_cluster or "none"
    for name, value in {
        "ssl.ca.location": registry.ssl_ca,
        "ssl.certificate.location": registry.ssl_certificate,
        "ssl.key.location": registry.ssl_key,
    }.items():
        if value is not None:
            found[name] = value
    return found
