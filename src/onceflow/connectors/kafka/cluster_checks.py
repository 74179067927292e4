"""Which settings of a cluster go together; every other combination is refused with the reason.

Must not know: how a client is told of them, and how a single value may be given.
"""

from __future__ import annotations

import base64
import urllib.parse
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from onceflow.errors import ConfigurationError
from onceflow.options.given import read_pem

if TYPE_CHECKING:
    from onceflow.connectors.kafka.cluster import KafkaCluster


def require_consistent(cluster: KafkaCluster) -> None:
    """Refuse what cannot work together.

    Raises:
        ConfigurationError: It names the settings, and what to do.
    """
    _require_login(cluster)
    _require_tls(cluster)
    if cluster.ssl_key is not None:
        _require_key(cluster, cluster.ssl_key)


def _require_login(cluster: KafkaCluster) -> None:
    password_login = {"username": cluster.username, "password": cluster.password}
    oauth = {
        "oauth_token_endpoint": cluster.oauth_token_endpoint,
        "oauth_client_id": cluster.oauth_client_id,
        "oauth_client_secret": cluster.oauth_client_secret,
    }
    scope = {"oauth_scope": cluster.oauth_scope}
    if not cluster.security_protocol.startswith("SASL_"):
        _require_not_given(
            cluster,
            {"sasl_mechanism": cluster.sasl_mechanism, **password_login, **oauth, **scope},
            "would send no login",
            "set security_protocol to SASL_SSL, or remove the login",
        )
    elif cluster.sasl_mechanism is None:
        raise _wrong(cluster, "needs a SASL mechanism", "set sasl_mechanism (PLAIN, SCRAM-SHA-256, …)")
    elif cluster.sasl_mechanism == "OAUTHBEARER":
        _require_given(cluster, oauth)
        _require_not_given(cluster, password_login, "takes no password", "remove username and password")
        if urllib.parse.urlsplit(cluster.oauth_token_endpoint or "").scheme not in {"https", "http"}:
            raise _wrong(cluster, "needs an http(s) URL in oauth_token_endpoint", "give the token endpoint's URL")
    else:
        _require_given(cluster, password_login)
        _require_not_given(cluster, {**oauth, **scope}, "uses no OAuth", "remove the oauth_* settings")


def _require_tls(cluster: KafkaCluster) -> None:
    if not cluster.security_protocol.endswith("SSL"):
        _require_not_given(
            cluster,
            {
                "ssl_ca": cluster.ssl_ca,
                "ssl_certificate": cluster.ssl_certificate,
                "ssl_key": cluster.ssl_key,
                "ssl_key_password": cluster.ssl_key_password,
            },
            "would not encrypt",
            "set security_protocol to SSL or SASL_SSL, or remove the ssl_* settings",
        )
    if (cluster.ssl_certificate is None) != (cluster.ssl_key is None):
        raise _wrong(cluster, "needs ssl_certificate and ssl_key together", "give both files, or none")
    if cluster.ssl_key is None and cluster.ssl_key_password is not None:
        raise _wrong(cluster, "has an ssl_key_password without an ssl_key", "give ssl_key, or remove its password")


def _require_key(cluster: KafkaCluster, path: str) -> None:
    text = read_pem(path)
    if "-----BEGIN PRIVATE KEY" not in text and "-----BEGIN ENCRYPTED PRIVATE KEY" not in text:
        raise _wrong(
            cluster,
            f"has a private key in {path} that Java cannot read: not PKCS #8",
            "convert it with: openssl pkcs8 -topk8 -nocrypt",
        )
    if _is_pbes2(text):
        raise _wrong(
            cluster,
            f"has a private key in {path} that Java's Kafka client cannot decrypt: PBES2",
            "give it without a password, in a file that only the job may read (openssl pkcs8 -topk8 "
            "-nocrypt), or encrypt it as Java can read it (openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES)",
        )


def _is_pbes2(pem: str) -> bool:
    """Whether a PEM key is encrypted by PBES2 (RFC 8018), for which Java 17 has no SecretKeyFactory."""
    _, begin, rest = pem.partition("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    der = base64.b64decode(rest.partition("-----END")[0]) if begin else b""
    return b"\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d" in der[:40]


def _require_not_given(cluster: KafkaCluster, settings: dict[str, Any], what: str, action: str) -> None:
    if given := [name for name, value in settings.items() if value is not None]:
        raise _wrong(cluster, f"{what}, but {', '.join(given)} is given", action)


def _require_given(cluster: KafkaCluster, settings: dict[str, Any]) -> None:
    if missing := [name for name, value in settings.items() if value is None or value == SecretStr("")]:
        raise _wrong(cluster, f"needs {' and '.join(missing)}", f"set {', '.join(missing)}")


def _wrong(cluster: KafkaCluster, what: str, action: str) -> ConfigurationError:
    return ConfigurationError(
        f"KafkaCluster({cluster.bootstrap_servers!r}) {what}",
        cause=f"security_protocol={cluster.security_protocol}, sasl_mechanism={cluster.sasl_mechanism}",
        action=action,
        bootstrap_servers=cluster.bootstrap_servers,
    )
