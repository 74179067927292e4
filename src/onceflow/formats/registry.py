"""SchemaRegistry: where schemas are by their ids, and how to log in there. A description, in which nothing is open.

Must not know: its client, what asks it, checkpoints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from onceflow.errors import ConfigurationError
from onceflow.masking import in_text
from onceflow.options.arguments import named
from onceflow.options.given import GivenSecret, PemFile, Secret, not_made

__all__ = ["SchemaRegistry"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class SchemaRegistry(BaseModel):
    """A schema registry that speaks Confluent's API (Confluent's own, Apicurio under ``/apis/ccompat/v7``, Karapace).

    The checkpoint keeps each schema that it has read by, under this registry's ``name`` and the schema's id. So the
    address may change, and the name may not; and two registries of one job need two names. Only the driver asks it.

    Args:
        url: Its address, or several of one registry: the next one is asked where one does not answer. They hold no
            login.
        name: What the checkpoint knows it by: letters, digits, ``_`` and ``-``.
        username: For basic authentication, with ``password``.
        password: Itself, or by where it is: ``{"env": NAME}``, ``{"file": PATH}``.
        token: A bearer token that lasts, likewise.
        oauth_token_endpoint: For tokens by client credentials (RFC 6749, 4.4), which are renewed there.
        oauth_client_id: For these.
        oauth_client_secret: For these.
        oauth_scope: For these, optional.
        logical_cluster: Of Confluent Cloud, with a token: ``lsrc-…``.
        ssl_ca: Authorities that sign the registry's certificate, as PEM; none takes those that are in use everywhere.
        ssl_certificate: Our own certificate as PEM, with ``ssl_key``.
        ssl_key: Our private key as PEM.

    Raises:
        ConfigurationError: A value or a combination that cannot work.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    url: tuple[str, ...]
    name: str = "registry"
    username: str | None = None
    password: Secret | None = None
    token: Secret | None = None
    oauth_token_endpoint: str | None = None
    oauth_client_id: str | None = None
    oauth_client_secret: Secret | None = None
    oauth_scope: str | None = None
    logical_cluster: str | None = None
    ssl_ca: PemFile | None = None
    ssl_certificate: PemFile | None = None
    ssl_key: PemFile | None = None

    @named
    def __init__(
        self,
        url: str | Sequence[str],
        *,
        name: str = "registry",
        username: str | None = None,
        password: GivenSecret | None = None,
        token: GivenSecret | None = None,
        oauth_token_endpoint: str | None = None,
        oauth_client_id: str | None = None,
        oauth_client_secret: GivenSecret | None = None,
        oauth_scope: str | None = None,
        logical_cluster: str | None = None,
        ssl_ca: str | Path | None = None,
        ssl_certificate: str | Path | None = None,
        ssl_key: str | Path | None = None,
    ) -> None:
        try:
            super().__init__(
                url=url.split(",") if isinstance(url, str) else url,
                name=name,
                username=username,
                password=password,
                token=token,
                oauth_token_endpoint=oauth_token_endpoint,
                oauth_client_id=oauth_client_id,
                oauth_client_secret=oauth_client_secret,
                oauth_scope=oauth_scope,
                logical_cluster=logical_cluster,
                ssl_ca=ssl_ca,
                ssl_certificate=ssl_certificate,
                ssl_key=ssl_key,
            )
        except ValidationError as error:
            raise not_made("SchemaRegistry", list(SchemaRegistry.model_fields), error) from None

    @field_validator("url")
    @classmethod
    def _bare(cls, url: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(each.strip() for each in url)

    @model_validator(mode="after")
    def _combinations(self) -> Self:
        wrong = [each for each in self.url if not each.startswith(("http://", "https://")) or "@" in each]
        oauth = [self.oauth_token_endpoint, self.oauth_client_id, self.oauth_client_secret]
        if not self.url or wrong:
            shown = ", ".join(in_text(each.rpartition("@")[2]) for each in wrong)
            raise ValueError(f"url is http://… or https://…, without a login in it; not {shown or 'nothing'}")
        if _NAME.fullmatch(self.name) is None:
            raise ValueError(f"name is letters, digits, _ and -, at most 64; not {self.name!r}")
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password go together")
        if any(oauth) and not all(oauth):
            raise ValueError("oauth_token_endpoint, oauth_client_id and oauth_client_secret go together")
        if sum(map(bool, (self.username, self.token, self.oauth_client_id))) > 1:
            raise ValueError("choose one login: username and password, token, or oauth_…")
        if (self.ssl_certificate is None) != (self.ssl_key is None):
            raise ValueError("ssl_certificate and ssl_key go together")
        return self

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What was given, for repr and str; pydantic masks the secrets."""
        args = ((name, value) for name, value in super().__repr_args__() if value is not None)
        return ((name, in_text(value) if isinstance(value, str) else value) for name, value in args)

    def describe(self) -> str:
        """The registry in a few words."""
        return f"schema registry {self.name} ({', '.join(map(in_text, self.url))})"


def _addresses(of: SchemaRegistry) -> str:
    return ", ".join(map(in_text, of.url))


def require_a_schema(
    kind: str, schema: object, registry: SchemaRegistry | None, of_registry: Mapping[str, Any]
) -> None:
    """Refuse a format without a schema, with two, or with a registry's arguments and none.

    Args:
        kind: The format's name.
        schema: What was given as its schema.
        registry: Its registry.
        of_registry: By name what only a registry has a use for; None or False where it was not given.

    Raises:
        ConfigurationError: It cannot work.
    """
    needs = [name for name, value in of_registry.items() if value not in (None, False)]
    if registry is None and (schema is None or needs):
        raise ConfigurationError(
            f"{kind} is given {' and '.join(needs)} without a registry" if needs else f"{kind} has no schema",
            cause=f"schema={'given' if schema is not None else None}, registry=None",
            action=f"give schema=, or registry=SchemaRegistry(url); {', '.join(of_registry)} are a registry's",
        )
    if schema is not None and of_registry["version"] is not None:
        raise ConfigurationError(
            f"{kind} is given a schema and a version: each says what becomes columns",
            cause=f"version={of_registry['version']}",
            action="leave one of them away",
        )


def require_one_each(registries: Sequence[SchemaRegistry]) -> None:
    """Refuse two registries of one name: the checkpoint could not tell their ids apart.

    Raises:
        ConfigurationError: Names them.
    """
    seen: dict[str, SchemaRegistry] = {}
    for registry in registries:
        other = seen.setdefault(registry.name, registry)
        if other != registry:
            raise ConfigurationError(
                f"two schema registries of this job are called {registry.name}",
                harmless="always: nothing was started",
                cause=f"their addresses, or logins, differ: {_addresses(other)} and {_addresses(registry)}",
                action="give one of them another name: SchemaRegistry(url, name=…); or make one object, and use it "
                "twice",
            )
