"""KafkaCluster: one setting for a Kafka cluster, whichever of the three clients talks to it.

How values may be given stands in ``cluster_values``, what goes together in ``cluster_checks``, and what each client
is told in ``dialects``.

Must not know: Spark, topics, transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from onceflow.connectors.kafka import dialects
from onceflow.connectors.kafka.cluster_checks import require_consistent
from onceflow.connectors.kafka.cluster_values import Mechanism, Servers, TokenEndpoint
from onceflow.errors import ConfigurationError
from onceflow.masking import in_text
from onceflow.options.arguments import named
from onceflow.options.given import GivenSecret, PemFile, Secret, not_made

__all__ = ["KafkaCluster"]

_SECRETS = frozenset({"password", "oauth_client_secret", "ssl_key_password"})


class KafkaCluster(BaseModel):
    """Where a Kafka cluster is and how to log in to it.

    ``KafkaCluster("localhost:9092")`` is enough for a cluster without security. A secret may be given as it
    is, or by where it is: ``password={"env": "KAFKA_PASSWORD"}`` or
    ``password={"file": "/run/secrets/kafka"}``, read once, here. A pickle of the object holds its secrets
    (Spark's workers need them); ``repr``, ``str``, ``description()`` and JSON never show them.

    The ``ssl_*`` files are PEM, and must be readable under the same path in the driver and on every worker.
    ``ssl_key`` is PKCS #8 ("BEGIN PRIVATE KEY", or "BEGIN ENCRYPTED PRIVATE KEY" other than PBES2), since Java
    reads no other.
    Without ``ssl_ca`` each client trusts its system's authorities. They must also trust the certificate of an
    OAuth token endpoint.

    Kerberos, and tokens from a callback or a file, are refused: not all three clients can have them. docs/security.md
    has each login, and what happens when a secret or a certificate changes under a running job.

    Args:
        bootstrap_servers: ``"host:port"``, several with commas between or as a list.
        security_protocol: Kafka's own names.
        sasl_mechanism: Needed if, and only if, the protocol is SASL_*.
        username: For PLAIN and SCRAM, with ``password``.
        password: For PLAIN and SCRAM.
        oauth_token_endpoint: For OAUTHBEARER by client credentials (RFC 6749, 4.4): the token endpoint's URL.
        oauth_client_id: For OAUTHBEARER.
        oauth_client_secret: For OAUTHBEARER.
        oauth_scope: For OAUTHBEARER, optional.
        ssl_ca: Authorities that sign the brokers' certificates.
        ssl_certificate: Our own certificate with its chain, where brokers ask for one; with ``ssl_key``.
        ssl_key: Our private key.
        ssl_key_password: Of ``ssl_key``, if it is encrypted.
        client_id: A name for brokers' logs and quotas.

    Raises:
        ConfigurationError: A value or a combination that cannot work.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    bootstrap_servers: Servers
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Mechanism | None = None
    username: str | None = None
    password: Secret | None = None
    oauth_token_endpoint: TokenEndpoint | None = None
    oauth_client_id: str | None = None
    oauth_client_secret: Secret | None = None
    oauth_scope: str | None = None
    ssl_ca: PemFile | None = None
    ssl_certificate: PemFile | None = None
    ssl_key: PemFile | None = None
    ssl_key_password: Secret | None = None
    client_id: str = "onceflow"

    @named
    def __init__(
        self,
        bootstrap_servers: str | list[str],
        *,
        security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT",
        sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = None,
        username: str | None = None,
        password: GivenSecret | None = None,
        oauth_token_endpoint: str | None = None,
        oauth_client_id: str | None = None,
        oauth_client_secret: GivenSecret | None = None,
        oauth_scope: str | None = None,
        ssl_ca: str | Path | None = None,
        ssl_certificate: str | Path | None = None,
        ssl_key: str | Path | None = None,
        ssl_key_password: GivenSecret | None = None,
        client_id: str = "onceflow",
    ) -> None:
        try:
            super().__init__(
                bootstrap_servers=bootstrap_servers,
                security_protocol=security_protocol,
                sasl_mechanism=sasl_mechanism,
                username=username,
                password=password,
                oauth_token_endpoint=oauth_token_endpoint,
                oauth_client_id=oauth_client_id,
                oauth_client_secret=oauth_client_secret,
                oauth_scope=oauth_scope,
                ssl_ca=ssl_ca,
                ssl_certificate=ssl_certificate,
                ssl_key=ssl_key,
                ssl_key_password=ssl_key_password,
                client_id=client_id,
            )
        except ValidationError as error:
            # pydantic's own text could carry a secret
            raise not_made("KafkaCluster", list(KafkaCluster.model_fields), error) from None
        except UnicodeEncodeError:
            raise ConfigurationError(
                "KafkaCluster cannot be made: a setting has characters that UTF-8 has not",
                cause="a variable of the environment, or a file's name, whose bytes are not UTF-8",
                action="write it in UTF-8",
            ) from None

    @model_validator(mode="after")
    def _combinations(self) -> Self:
        require_consistent(self)
        return self

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What was given, for repr and str; pydantic masks the secrets."""
        args = ((name, value) for name, value in super().__repr_args__() if value is not None)
        return ((name, in_text(value) if isinstance(value, str) else value) for name, value in args)

    def description(self) -> dict[str, str]:
        """Every setting that is given, secrets left out: may be shown to anybody, and JSON can hold it."""
        return {str(name): in_text(str(value)) for name, value in self if value is not None and name not in _SECRETS}

    @property
    def has_secret(self) -> bool:
        """Whether a login needs one. A private key is a file, which each machine reads for itself."""
        return any(value is not None for name, value in self if name in _SECRETS)

    def for_spark(self) -> dict[str, str]:
        """Options of Spark's Kafka connector: the Java client's names behind ``kafka.``."""
        return dialects.for_spark(self)

    def for_librdkafka(self) -> dict[str, str]:
        """Configuration for confluent-kafka's clients."""
        return dialects.for_librdkafka(self)

    def for_kafka_python(self) -> dict[str, Any]:
        """Keyword arguments for kafka-python's ``KafkaAdminClient`` (one token provider per call)."""
        return dialects.for_kafka_python(self)

    def admin(self, *, timeout_s: float = 30.0) -> Any:
        """Open kafka-python's ``KafkaAdminClient`` on this cluster; the caller closes it.

        Args:
            timeout_s: How long to try to reach a broker, in seconds.

        Raises:
            KafkaRightsError: The broker refused the login, or our certificate.
            KafkaUnavailableError: No broker answered in time (also: its certificate is not one that we trust).
            ConfigurationError: The listener speaks another protocol than ``security_protocol`` says, or offers no login
                by this mechanism; or kafka-python is a version whose inside is not known.
        """
        from onceflow.connectors.kafka.connecting import connect  # noqa: PLC0415 - workers never need kafka-python

        return connect(self, timeout_s)

    def connection(self) -> AbstractContextManager[Any]:
        """Open a connection for requests that others make: kafka-python's ``KafkaConnectionManager``, as a context.

        Raises:
            ConnectionError: None came to be; its text says why.
        """
        from onceflow.connectors.kafka.connecting import asking  # noqa: PLC0415 - as above

        return asking(self)
