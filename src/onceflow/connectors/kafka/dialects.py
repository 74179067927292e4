"""A cluster's setting in the words of the three clients that talk to it.

Spark's source runs the Java client, the writers run librdkafka, and the driver administers with kafka-python;
each has its own names for the same thing. This file is the only one that knows them.

Must not know: Spark (the Java names are plain strings here), topics, transactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from onceflow.connectors.kafka.login_token import ClientCredentials
from onceflow.options.given import plain, read_pem

if TYPE_CHECKING:
    from onceflow.connectors.kafka.cluster import KafkaCluster

_JAAS = "org.apache.kafka.common.security"
_LOGIN_MODULES = {
    "PLAIN": f"{_JAAS}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_JAAS}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_JAAS}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_JAAS}.oauthbearer.OAuthBearerLoginModule",
}
_OIDC_HANDLER = f"{_JAAS}.oauthbearer.OAuthBearerLoginCallbackHandler"


def for_spark(cluster: KafkaCluster) -> dict[str, str]:
    """Options of Spark's Kafka connector: the Java client's names behind ``kafka.``."""
    options = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": cluster.security_protocol,
        "client.id": cluster.client_id,
    }
    if cluster.sasl_mechanism is not None:
        options["sasl.mechanism"] = cluster.sasl_mechanism
        options["sasl.jaas.config"] = _jaas(cluster, cluster.sasl_mechanism)
    if cluster.oauth_token_endpoint is not None:
        options["sasl.oauthbearer.token.endpoint.url"] = cluster.oauth_token_endpoint
        options["sasl.login.callback.handler.class"] = _OIDC_HANDLER
    if cluster.ssl_ca is not None:
        options["ssl.truststore.type"] = "PEM"
        options["ssl.truststore.location"] = cluster.ssl_ca
    if cluster.ssl_certificate is not None and cluster.ssl_key is not None:
        # Java takes certificate and key from one file, or as text (KIP-651); ours are two files.
        options["ssl.keystore.type"] = "PEM"
        options["ssl.keystore.certificate.chain"] = read_pem(cluster.ssl_certificate)
        options["ssl.keystore.key"] = read_pem(cluster.ssl_key)
    if cluster.ssl_key_password is not None:
        options["ssl.key.password"] = cluster.ssl_key_password.get_secret_value()
    return {f"kafka.{name}": value for name, value in options.items()}


def _jaas(cluster: KafkaCluster, mechanism: str) -> str:
    if mechanism == "OAUTHBEARER":
        login = {"clientId": cluster.oauth_client_id, "clientSecret": plain(cluster.oauth_client_secret)}
        if cluster.oauth_scope is not None:
            login["scope"] = cluster.oauth_scope
    else:
        login = {"username": cluster.username, "password": plain(cluster.password)}
    words = " ".join(f"{name}={_jaas_quoted(value or '')}" for name, value in login.items())
    return f"{_LOGIN_MODULES[mechanism]} required {words};"


def for_librdkafka(cluster: KafkaCluster) -> dict[str, str]:
    """Configuration for confluent-kafka's clients."""
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": cluster.security_protocol,
        "client.id": cluster.client_id,
    }
    if cluster.sasl_mechanism == "OAUTHBEARER":
        config |= {"sasl.mechanism": cluster.sasl_mechanism, "sasl.oauthbearer.method": "oidc"}
    elif cluster.sasl_mechanism is not None:
        config["sasl.mechanism"] = cluster.sasl_mechanism
    optional = {
        "sasl.username": cluster.username,
        "sasl.password": plain(cluster.password),
        "sasl.oauthbearer.token.endpoint.url": cluster.oauth_token_endpoint,
        "sasl.oauthbearer.client.id": cluster.oauth_client_id,
        "sasl.oauthbearer.client.secret": plain(cluster.oauth_client_secret),
        "sasl.oauthbearer.scope": cluster.oauth_scope,
        "ssl.ca.location": cluster.ssl_ca,
        "ssl.certificate.location": cluster.ssl_certificate,
        "ssl.key.location": cluster.ssl_key,
        "ssl.key.password": plain(cluster.ssl_key_password),
    }
    return config | {name: value for name, value in optional.items() if value is not None}


def for_kafka_python(cluster: KafkaCluster) -> dict[str, Any]:
    """Keyword arguments for kafka-python's ``KafkaAdminClient`` (one token provider per call)."""
    config: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap_servers.split(","),
        "security_protocol": cluster.security_protocol,
        "client_id": cluster.client_id,
        # Past this number it raises NodeNotReadyError and queues nothing; an epoch sends hundreds.
        "max_in_flight_requests_per_connection": 10_000,
        # With its own 30 s a broker that is back is left alone for up to half a minute; Java's is 1 s.
        "reconnect_backoff_max_ms": 1_000,
    }
    username = cluster.username
    if username is not None and cluster.sasl_mechanism != "PLAIN":
        # SCRAM's own escapes (RFC 5802, 5.1), which the other two clients make themselves.
        username = username.replace("=", "=3D").replace(",", "=2C")
    optional: dict[str, Any] = {
        "sasl_mechanism": cluster.sasl_mechanism,
        "sasl_plain_username": username,
        "sasl_plain_password": _unshown(cluster.password),
        "ssl_cafile": cluster.ssl_ca,
        "ssl_certfile": cluster.ssl_certificate,
        "ssl_keyfile": cluster.ssl_key,
        "ssl_password": _unshown(cluster.ssl_key_password),
    }
    if cluster.oauth_token_endpoint is not None:
        from kafka.net.sasl.oauth import AbstractTokenProvider  # noqa: PLC0415 - workers never need kafka-python

        AbstractTokenProvider.register(ClientCredentials)
        optional["sasl_oauth_token_provider"] = ClientCredentials(cluster)
    return config | {name: value for name, value in optional.items() if value is not None}


class _UnshownText(str):
    """Text that its repr hides: kafka-python logs its whole configuration at level DEBUG."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'**********'"


def _unshown(secret: SecretStr | None) -> str | None:
    return None if secret is None else _UnshownText(secret.get_secret_value())


def _jaas_quoted(value: str) -> str:
    """As Java's StreamTokenizer, which reads JAAS text, takes it back: C escapes inside double quotes."""
    for sign, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        value = value.replace(sign, escaped)
    return f'"{value}"'
