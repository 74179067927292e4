"""One setting for a Kafka cluster, translated for the three clients that talk to it.

Spark's source runs the Java client, the writers run librdkafka, and the driver administers with kafka-python;
each has its own names for the same thing. This file is the only one that knows them.

Must not know: Spark (the Java names are plain strings here), transactions; of topics, only what they may be called.
"""

from __future__ import annotations

import base64
import json
import os
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, SecretStr, ValidationError, model_validator

from onceflow.errors import ConfigurationError, KafkaRightsError, KafkaUnavailableError

__all__ = ["KafkaCluster"]

_JAAS = "org.apache.kafka.common.security"
_LOGIN_MODULES = {
    "PLAIN": f"{_JAAS}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_JAAS}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_JAAS}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_JAAS}.oauthbearer.OAuthBearerLoginModule",
}
_OIDC_HANDLER = f"{_JAAS}.oauthbearer.OAuthBearerLoginCallbackHandler"
_TOKEN_TIMEOUT_S = 10.0
_TOPIC_NAME = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: object) -> bool:
    """Whether Kafka lets a topic be called so."""
    return isinstance(name, str) and _TOPIC_NAME.fullmatch(name) is not None


def _servers(value: Any) -> Any:
    """``["a:1", "b:2"]`` and ``" a:1 , b:2 "`` both become ``"a:1,b:2"``."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple) or not all(isinstance(server, str) for server in value):
        raise ValueError('must be "host:port" or several of them, with commas between or as a list')
    servers = [server.strip() for server in value]
    for server in servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f'"{server}" is not host:port')
    return ",".join(servers)


def _secret(value: Any) -> Any:
    """A secret given by where it is (``{"env": NAME}``, ``{"file": PATH}``) becomes the secret itself."""
    match value:
        case {"env": str(name)} if len(value) == 1:
            if not os.environ.get(name):
                raise ValueError(f"the environment variable {name} is not set or is empty")
            return SecretStr(os.environ[name])
        case {"file": str() | Path() as path} if len(value) == 1:
            try:
                text = Path(path).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ValueError(f"cannot read the file {path}: {type(error).__name__}") from None
            return SecretStr(text.rstrip("\r\n"))
        case dict():
            raise ValueError('must be the secret itself, {"env": NAME} or {"file": PATH}')
        case _:
            return value


def _readable(value: Any) -> Any:
    """The path of a PEM file, made absolute; it must be there now."""
    if not isinstance(value, str | Path):
        return value
    path = Path(value).expanduser().absolute()
    if "-----BEGIN " not in _read_pem(path):
        raise ValueError(f"{path} is not a PEM file (no line -----BEGIN …)")
    return str(path)


def _read_pem(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="latin-1")
    except OSError as error:
        raise ValueError(f"cannot read the file {path}: {type(error).__name__}") from None


Servers = Annotated[str, BeforeValidator(_servers)]
Secret = Annotated[SecretStr, BeforeValidator(_secret)]
PemFile = Annotated[str, BeforeValidator(_readable)]


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
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = None
    username: str | None = None
    password: Secret | None = None
    oauth_token_endpoint: str | None = None
    oauth_client_id: str | None = None
    oauth_client_secret: Secret | None = None
    oauth_scope: str | None = None
    ssl_ca: PemFile | None = None
    ssl_certificate: PemFile | None = None
    ssl_key: PemFile | None = None
    ssl_key_password: Secret | None = None
    client_id: str = "onceflow"

    def __init__(self, bootstrap_servers: str | list[str], **settings: Any) -> None:
        try:
            super().__init__(bootstrap_servers=bootstrap_servers, **settings)
        except ValidationError as error:
            raise _configuration_error(error) from None  # pydantic's own text could carry a secret

    @model_validator(mode="after")
    def _combinations(self) -> Self:
        sasl = self.security_protocol.startswith("SASL_")
        password_login = {"username": self.username, "password": self.password}
        oauth = {
            "oauth_token_endpoint": self.oauth_token_endpoint,
            "oauth_client_id": self.oauth_client_id,
            "oauth_client_secret": self.oauth_client_secret,
        }
        scope = {"oauth_scope": self.oauth_scope}
        if sasl and self.sasl_mechanism is None:
            self._refuse("needs a SASL mechanism", "set sasl_mechanism (PLAIN, SCRAM-SHA-256, …)")
        if not sasl:
            self._refuse_given(
                {"sasl_mechanism": self.sasl_mechanism, **password_login, **oauth, **scope},
                "would send no login",
                "set security_protocol to SASL_SSL, or remove the login",
            )
        elif self.sasl_mechanism == "OAUTHBEARER":
            self._refuse_missing(oauth)
            self._refuse_given(password_login, "takes no password", "remove username and password")
            if urllib.parse.urlsplit(self.oauth_token_endpoint or "").scheme not in {"https", "http"}:
                self._refuse("needs an http(s) URL in oauth_token_endpoint", "give the token endpoint's URL")
        else:
            self._refuse_missing(password_login)
            self._refuse_given({**oauth, **scope}, "uses no OAuth", "remove the oauth_* settings")
        ssl_files = {"ssl_ca": self.ssl_ca, "ssl_certificate": self.ssl_certificate, "ssl_key": self.ssl_key}
        if not self.security_protocol.endswith("SSL"):
            self._refuse_given(
                {**ssl_files, "ssl_key_password": self.ssl_key_password},
                "would not encrypt",
                "set security_protocol to SSL or SASL_SSL, or remove the ssl_* settings",
            )
        if (self.ssl_certificate is None) != (self.ssl_key is None):
            self._refuse("needs ssl_certificate and ssl_key together", "give both files, or none")
        if self.ssl_key is None and self.ssl_key_password is not None:
            self._refuse("has an ssl_key_password without an ssl_key", "give ssl_key, or remove its password")
        if self.ssl_key is not None:
            text = _read_pem(self.ssl_key)
            if "-----BEGIN PRIVATE KEY" not in text and "-----BEGIN ENCRYPTED PRIVATE KEY" not in text:
                self._refuse(
                    f"has a private key in {self.ssl_key} that Java cannot read: not PKCS #8",
                    "convert it with: openssl pkcs8 -topk8 -nocrypt",
                )
            if _is_pbes2(text):
                self._refuse(
                    f"has a private key in {self.ssl_key} that Java's Kafka client cannot decrypt: PBES2",
                    "give it without a password, in a file that only the job may read (openssl pkcs8 -topk8 "
                    "-nocrypt), or encrypt it as Java can read it (openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES)",
                )
        return self

    def _refuse_given(self, settings: dict[str, Any], what: str, action: str) -> None:
        if given := [name for name, value in settings.items() if value is not None]:
            self._refuse(f"{what}, but {', '.join(given)} is given", action)

    def _refuse_missing(self, settings: dict[str, Any]) -> None:
        if missing := [name for name, value in settings.items() if value is None or value == SecretStr("")]:
            self._refuse(f"needs {' and '.join(missing)}", f"set {', '.join(missing)}")

    def _refuse(self, what: str, action: str) -> None:
        shown = f"security_protocol={self.security_protocol}, sasl_mechanism={self.sasl_mechanism}"
        raise ConfigurationError(
            f"KafkaCluster({self.bootstrap_servers!r}) {what}.",
            cause=shown,
            action=f"{action[0].upper()}{action[1:]}.",
            bootstrap_servers=self.bootstrap_servers,
        )

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What was given, for repr and str; pydantic masks the secrets."""
        return ((name, value) for name, value in super().__repr_args__() if value is not None)

    def description(self) -> dict[str, str]:
        """Every setting that is given, secrets left out: may be shown to anybody, and JSON can hold it."""
        secrets = {"password", "oauth_client_secret", "ssl_key_password"}
        return {str(name): str(value) for name, value in self if value is not None and name not in secrets}

    def for_spark(self) -> dict[str, str]:
        """Options of Spark's Kafka connector: the Java client's names behind ``kafka.``."""
        options = {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": self.security_protocol,
            "client.id": self.client_id,
        }
        if self.sasl_mechanism is not None:
            options["sasl.mechanism"] = self.sasl_mechanism
            options["sasl.jaas.config"] = self._jaas(self.sasl_mechanism)
        if self.oauth_token_endpoint is not None:
            options["sasl.oauthbearer.token.endpoint.url"] = self.oauth_token_endpoint
            options["sasl.login.callback.handler.class"] = _OIDC_HANDLER
        if self.ssl_ca is not None:
            options["ssl.truststore.type"] = "PEM"
            options["ssl.truststore.location"] = self.ssl_ca
        if self.ssl_certificate is not None and self.ssl_key is not None:
            # Java takes certificate and key from one file, or as text (KIP-651); ours are two files.
            options["ssl.keystore.type"] = "PEM"
            options["ssl.keystore.certificate.chain"] = _read_pem(self.ssl_certificate)
            options["ssl.keystore.key"] = _read_pem(self.ssl_key)
        if self.ssl_key_password is not None:
            options["ssl.key.password"] = self.ssl_key_password.get_secret_value()
        return {f"kafka.{name}": value for name, value in options.items()}

    def _jaas(self, mechanism: str) -> str:
        if mechanism == "OAUTHBEARER":
            login = {"clientId": self.oauth_client_id, "clientSecret": _plain(self.oauth_client_secret)}
            if self.oauth_scope is not None:
                login["scope"] = self.oauth_scope
        else:
            login = {"username": self.username, "password": _plain(self.password)}
        words = " ".join(f"{name}={_jaas_quoted(value or '')}" for name, value in login.items())
        return f"{_LOGIN_MODULES[mechanism]} required {words};"

    def for_librdkafka(self) -> dict[str, str]:
        """Configuration for confluent-kafka's clients."""
        config = {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": self.security_protocol,
            "client.id": self.client_id,
        }
        if self.sasl_mechanism == "OAUTHBEARER":
            config |= {"sasl.mechanism": self.sasl_mechanism, "sasl.oauthbearer.method": "oidc"}
        elif self.sasl_mechanism is not None:
            config["sasl.mechanism"] = self.sasl_mechanism
        optional = {
            "sasl.username": self.username,
            "sasl.password": _plain(self.password),
            "sasl.oauthbearer.token.endpoint.url": self.oauth_token_endpoint,
            "sasl.oauthbearer.client.id": self.oauth_client_id,
            "sasl.oauthbearer.client.secret": _plain(self.oauth_client_secret),
            "sasl.oauthbearer.scope": self.oauth_scope,
            "ssl.ca.location": self.ssl_ca,
            "ssl.certificate.location": self.ssl_certificate,
            "ssl.key.location": self.ssl_key,
            "ssl.key.password": _plain(self.ssl_key_password),
        }
        return config | {name: value for name, value in optional.items() if value is not None}

    def for_kafka_python(self) -> dict[str, Any]:
        """Keyword arguments for kafka-python's ``KafkaAdminClient`` (one token provider per call)."""
        config: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers.split(","),
            "security_protocol": self.security_protocol,
            "client_id": self.client_id,
            # Past this number it raises NodeNotReadyError and queues nothing; an epoch sends hundreds.
            "max_in_flight_requests_per_connection": 10_000,
        }
        username = self.username
        if username is not None and self.sasl_mechanism != "PLAIN":
            # SCRAM's own escapes (RFC 5802, 5.1), which the other two clients make themselves.
            username = username.replace("=", "=3D").replace(",", "=2C")
        optional: dict[str, Any] = {
            "sasl_mechanism": self.sasl_mechanism,
            "sasl_plain_username": username,
            "sasl_plain_password": _unshown(self.password),
            "ssl_cafile": self.ssl_ca,
            "ssl_certfile": self.ssl_certificate,
            "ssl_keyfile": self.ssl_key,
            "ssl_password": _unshown(self.ssl_key_password),
        }
        if self.oauth_token_endpoint is not None:
            from kafka.net.sasl.oauth import AbstractTokenProvider  # noqa: PLC0415 - workers never need kafka-python

            AbstractTokenProvider.register(_ClientCredentials)
            optional["sasl_oauth_token_provider"] = _ClientCredentials(self)
        return config | {name: value for name, value in optional.items() if value is not None}

    def admin(self, *, timeout_s: float = 30.0) -> Any:
        """Open kafka-python's ``KafkaAdminClient`` on this cluster; the caller closes it.

        Args:
            timeout_s: How long to try to reach a broker, in seconds.

        Raises:
            KafkaRightsError: The broker refused the login.
            KafkaUnavailableError: No broker answered in time (also: the TLS handshake failed).
        """
        from kafka.errors import KafkaTimeoutError  # noqa: PLC0415 - workers never need kafka-python

        deadline = time.monotonic() + timeout_s
        round_s = 1.0
        while True:
            failures: list[Exception] = []
            try:
                # kafka-python retries a refused login until its time is over, and then says only "unable to
                # bootstrap". So give it a little time, look at why its connections failed, and go on.
                round_s = max(0.1, min(round_s, deadline - time.monotonic()))
                return _open_admin(self.for_kafka_python(), round_s, failures)
            except KafkaTimeoutError as error:
                for failure in failures:
                    if isinstance(failure, KafkaRightsError):  # from our own token provider
                        raise failure from error
                    if _is_refused_login(failure):
                        raise self._login_refused(failure) from error
                if time.monotonic() >= deadline:
                    raise self._unreachable(timeout_s, failures[-1] if failures else None) from error
                round_s *= 2

    def _login_refused(self, failure: Exception) -> KafkaRightsError:
        name = f"username={self.username}" if self.username else f"oauth_client_id={self.oauth_client_id}"
        return KafkaRightsError(
            f"The Kafka cluster {self.bootstrap_servers} refused our login: {failure}",
            cause=f"sasl_mechanism={self.sasl_mechanism}, {name}",
            action="Check the name and its secret, and that this listener offers the mechanism.",
            bootstrap_servers=self.bootstrap_servers,
        )

    def _unreachable(self, timeout_s: float, failure: Exception | None) -> KafkaUnavailableError:
        last = "" if failure is None else f" The last attempt: {failure}"
        return KafkaUnavailableError(
            f"No broker of the Kafka cluster {self.bootstrap_servers} answered within {timeout_s:g} s.{last}",
            harmless="the brokers are just starting: try again.",
            cause=f"bootstrap_servers={self.bootstrap_servers}, security_protocol={self.security_protocol}, "
            f"ssl_ca={self.ssl_ca}",
            action="Check that the address and the listener's protocol are right, and that ssl_ca has signed the "
            "brokers' certificates.",
            bootstrap_servers=self.bootstrap_servers,
            timeout_s=timeout_s,
        )


def _open_admin(config: dict[str, Any], timeout_s: float, failures: list[Exception]) -> Any:
    """A KafkaAdminClient; why connections failed is added to ``failures``.

    Raises:
        kafka.errors.KafkaTimeoutError: No connection in time; nothing is left open.
    """
    from kafka.admin import KafkaAdminClient  # noqa: PLC0415 - workers never need kafka-python
    from kafka.net.compat import KafkaNetClient  # noqa: PLC0415

    opened: list[Any] = []

    def watched_client(**client_config: Any) -> Any:
        client = KafkaNetClient(**client_config)
        opened.append(client)
        manager = client._manager  # noqa: SLF001 - nothing public tells why a connection failed
        connect, build_transport = manager.get_connection, manager._build_transport  # noqa: SLF001

        def watched(*args: Any, **kwargs: Any) -> Any:
            connection = connect(*args, **kwargs)
            connection.init_future.add_errback(failures.append)
            return connection

        async def last_words(*args: Any, **kwargs: Any) -> Any:
            transport = await build_transport(*args, **kwargs)
            transport._sock_recv = _data_before_error(transport._sock_recv)  # noqa: SLF001
            return transport

        manager.get_connection, manager._build_transport = watched, last_words  # noqa: SLF001
        return client

    try:
        admin = KafkaAdminClient(**config, bootstrap_timeout_ms=int(timeout_s * 1000), kafka_client=watched_client)
    except BaseException:
        for client in opened:  # a failed __init__ leaves its thread running
            client.close()
            client._manager._net.stop()  # noqa: SLF001
        raise
    del admin._manager.get_connection  # noqa: SLF001 - back to the class's own
    return admin


def _data_before_error(receive: Callable[[], tuple[bytes, Any]]) -> Callable[[], tuple[bytes, Any]]:
    """Hand out what was received before the connection's end; the end is met again by the next call.

    kafka-python 3.0.12 drops it. A broker says why it refuses a login and hangs up in one breath, so the reason
    was lost more often than not; so would be an answer that a broker gives before it stops.
    """

    def received() -> tuple[bytes, Any]:
        data, error = receive()
        return data, None if data else error

    return received


def _is_refused_login(failure: Exception) -> bool:
    from kafka.errors import (  # noqa: PLC0415 - workers never need kafka-python
        AuthorizationError,
        IllegalSaslStateError,
        SaslAuthenticationFailedError,
        UnsupportedSaslMechanismError,
    )

    refused = (AuthorizationError, IllegalSaslStateError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError)
    return isinstance(failure, refused)


class _ClientCredentials:
    """A token provider for kafka-python; the other two clients have this grant (RFC 6749, 4.4) built in."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._endpoint = cluster.oauth_token_endpoint or ""
        login = f"{cluster.oauth_client_id}:{_plain(cluster.oauth_client_secret)}"
        self._authorization = "Basic " + base64.b64encode(login.encode()).decode("ascii")
        form = {"grant_type": "client_credentials"}
        if cluster.oauth_scope is not None:
            form["scope"] = cluster.oauth_scope
        self._form = urllib.parse.urlencode(form).encode("ascii")
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = 0.0

    def token(self) -> str:
        """A token with at least a fifth of its life before it."""
        with self._lock:
            if time.monotonic() >= self._renew_at:
                self._token, lifetime_s = self._fetch()
                self._renew_at = time.monotonic() + 0.8 * lifetime_s
            return self._token

    def extensions(self) -> dict[str, str]:
        """None; kafka-python asks."""
        return {}

    def _fetch(self) -> tuple[str, float]:
        request = urllib.request.Request(  # noqa: S310 - KafkaCluster lets only http and https through
            self._endpoint, self._form, {"Authorization": self._authorization, "Accept": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=_TOKEN_TIMEOUT_S) as response:  # noqa: S310
                reply = json.load(response)
            return str(reply["access_token"]), float(reply.get("expires_in", 60))
        except (urllib.error.URLError, OSError, ValueError, KeyError, TypeError) as error:
            status = f" {error.code}" if isinstance(error, urllib.error.HTTPError) else ""
            raise KafkaRightsError(
                f"The token endpoint gave no access token ({type(error).__name__}{status}).",
                cause=f"oauth_token_endpoint={self._endpoint}",
                action="Check the endpoint, and that the client id and secret are known to it.",
                endpoint=self._endpoint,
            ) from None


class _UnshownText(str):
    """Text that its repr hides: kafka-python logs its whole configuration at level DEBUG."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'**********'"


def _is_pbes2(pem: str) -> bool:
    """Whether a PEM key is encrypted by PBES2 (RFC 8018), for which Java 17 has no SecretKeyFactory."""
    _, begin, rest = pem.partition("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    der = base64.b64decode(rest.partition("-----END")[0]) if begin else b""
    return b"\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d" in der[:40]


def _plain(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _unshown(secret: SecretStr | None) -> str | None:
    return None if secret is None else _UnshownText(secret.get_secret_value())


def _jaas_quoted(value: str) -> str:
    """As Java's StreamTokenizer, which reads JAAS text, takes it back: C escapes inside double quotes."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        value = value.replace(plain, escaped)
    return f'"{value}"'


def _configuration_error(error: ValidationError) -> ConfigurationError:
    """Our four parts from pydantic's findings, without the values that were given."""
    findings = error.errors(include_url=False, include_input=False)
    for finding in findings:
        if isinstance(ours := finding.get("ctx", {}).get("error"), ConfigurationError):
            return ours
    names = [".".join(str(part) for part in finding["loc"]) for finding in findings]
    said = "; ".join(
        f"{name}: {finding['msg'].removeprefix('Value error, ')}" for name, finding in zip(names, findings, strict=True)
    )
    return ConfigurationError(
        f"KafkaCluster cannot be made: {said}.",
        cause=f"the setting {', '.join(names)}",
        action=f"Correct it. Settings are: {', '.join(KafkaCluster.model_fields)}.",
        settings=names,
    )
