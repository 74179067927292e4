"""How single values of a cluster's setting may be given: servers, mechanisms, tokens.

Must not know: which values go together.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from onceflow.errors import ConfigurationError

_HOST = re.compile(r"[\w.-]+|\[[\da-fA-F:.%\w]+\]")


def _servers(value: Any) -> Any:
    """``["a:1", "b:2"]`` and ``" a:1 , b:2 "`` both become ``"a:1,b:2"``."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple) or not all(isinstance(server, str) for server in value):
        raise ValueError('must be "host:port" or several of them, with commas between or as a list')
    servers = [server.strip() for server in value]
    for server in servers:
        _require_server(server)
    return ",".join(servers)


def _no_kerberos(value: Any) -> Any:
    """Kerberos by its name, so that who has such brokers reads why, and what to do."""
    if value == "GSSAPI":
        raise ConfigurationError(
            "KafkaCluster cannot log in by Kerberos (GSSAPI)",
            cause="sasl_mechanism=GSSAPI; the writers' librdkafka, as confluent-kafka's wheel has it, is built without "
            "Cyrus SASL, so only the reading half of a job could log in",
            action="give the brokers one more listener, with client certificates, SCRAM or OAUTHBEARER, for this job "
            "(a broker takes each of its listeners with a login of its own), and name that one; see docs/security.md",
        )
    return value


def _no_callback(value: Any) -> Any:
    """A function or a file that gives tokens, by what it is: the JVM that reads cannot use it."""
    given = "a callback" if callable(value) else "a file" if str(value).lower().startswith("file:") else None
    if given is not None:
        raise ConfigurationError(
            f"KafkaCluster takes no token from {given}",
            cause="Spark reads by Kafka's Java client, which cannot call Python, and reads a token's file once: "
            "when that token expires, the running job could not log in any more",
            action="give the endpoint of the tokens, http(s)://…, with oauth_client_id and oauth_client_secret; all "
            "clients renew their tokens there",
        )
    return value


def _require_server(server: str) -> None:
    """Refuse what is no ``host:port``; a URL may hold a password, which is not shown."""
    scheme, is_url, rest = server.rpartition("://")
    shown = rest.rpartition("@")[2].partition("/")[0]
    host, _, port = shown.rpartition(":")
    good = bool(host) and port.isascii() and port.isdecimal() and 0 < int(port) < 65_536
    if is_url:
        raise ValueError(f'{scheme}:// is not how brokers are named: write "{shown if good else "host:9092"}"')
    if "@" in server:
        raise ValueError(f'an address has no login: write "{shown}", with username= and password=')
    if not good or shown != server or not _HOST.fullmatch(host):
        raise ValueError(f'"{shown}" is not host:port')


Mechanism = Annotated[Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"], BeforeValidator(_no_kerberos)]
TokenEndpoint = Annotated[str, BeforeValidator(_no_callback)]
Servers = Annotated[str, BeforeValidator(_servers)]
