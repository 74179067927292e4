"""A login that a broker or a token endpoint refused: how each client says it, and our error for it.

Must not know: topics, transactions, what the login was for. Spark's workers load it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from onceflow.errors import KafkaRightsError

# The alerts by which TLS refuses the other side's certificate (RFC 8446, 6.2), as OpenSSL and Java write them.
_CERTIFICATE = re.compile(
    r"alert:? (?:(?:bad|unsupported)[ _]certificate|certificate[ _]\w+|unknown[ _]ca\b|access[ _]denied)", re.IGNORECASE
)
_JAVA = re.compile(r"\b((?:SaslAuthentication|SslAuthentication|Login)Exception: [^\n]{0,300})")

AGAIN = (
    "if it worked before, the secret or the certificate was changed or has expired: start the job again, which reads "
    "both anew (a running job keeps what its start has read; see docs/security.md)"
)
"""What to do about a login that a job had."""


def login_refused(said: object, *, servers: str, login: Mapping[str, str | None]) -> KafkaRightsError:
    """The error for a refused login.

    Args:
        said: Who refused says so. Never a secret.
        servers: The cluster's addresses.
        login: By which settings; None where one is not given. Never a secret.
    """
    return KafkaRightsError(
        f"the Kafka cluster {servers} refused our login: {said}",
        harmless="for the data: what is decided is finished by the next start that is let in",
        cause=", ".join(f"{name}={value}" for name, value in login.items() if value is not None)
        or "this listener asks for a login",
        action=f"check the name and its secret or certificate, and that this listener takes this login; {AGAIN}",
        bootstrap_servers=servers,
    )


def is_refused_certificate(said: object) -> bool:
    """Whether a broker said, by TLS, that it does not take our certificate, or that it wants one."""
    return _CERTIFICATE.search(str(said)) is not None


def of_producer(said: object, config: Mapping[str, Any]) -> KafkaRightsError:
    """The error for a producer with this configuration."""
    names = ("sasl.mechanism", "sasl.username", "sasl.oauthbearer.client.id", "ssl.certificate.location")
    login = {name: config.get(name) for name in names}
    return login_refused(said, servers=str(config["bootstrap.servers"]), login=login)


def in_spark(message: str) -> KafkaRightsError | None:
    """What Spark's consumer says of a refused login, in a failed query's message."""
    said = _JAVA.search(message)
    if said is None:
        return None
    return KafkaRightsError(
        f"the login of Spark's consumer was refused: {said[1].strip()}",
        harmless="for the data: the next start that is let in goes on from the checkpoint",
        cause="the name, the secret or the certificate of the source's KafkaCluster, or its ssl_ca",
        action=f"check them, and that this listener takes this login; {AGAIN}",
    )
