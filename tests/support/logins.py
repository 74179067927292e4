"""A broker with the logins of a bank: TLS with passwords, tokens or client certificates, on a listener each.

What changes under a running job is changed here: a certificate's file, a password, how long tokens live.
"""

import base64
import contextlib
import datetime as dt
import ipaddress
import json
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import MappingProxyType

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.local.devcluster import DevCluster

PASSWORD = 'p"a\\ss; wo=rd,'
KEY_PASSWORD = "opens-the-key"
SCRAM_USER = "the=job,"

Pair = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def certificate(name: str, *, signed_by: Pair | None = None, days: float = 1) -> Pair:
    """A certificate for 127.0.0.1 and its key; its own authority unless signed by another. It ends after ``days``."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer, issuer_key = (subject, key) if signed_by is None else (signed_by[0].subject, signed_by[1])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=2))
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=signed_by is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
    )
    return builder.sign(issuer_key, hashes.SHA256()), key


def pem(what: x509.Certificate | ec.EllipticCurvePrivateKey) -> str:
    """A certificate or a key as PEM."""
    if isinstance(what, x509.Certificate):
        return what.public_bytes(Encoding.PEM).decode()
    return what.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def encrypted(key: str) -> str:
    """A key under ``KEY_PASSWORD``, by the command that the refusal of other ciphers names."""
    command = ["openssl", "pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-passout", f"pass:{KEY_PASSWORD}"]
    return subprocess.run(command, input=key, capture_output=True, text=True, check=True).stdout


class Tokens:
    """An OAuth token endpoint: one client, tokens signed by a key that the broker knows.

    Attributes:
        lifetime_s: How long a token lives.
        signatures: Of the tokens that were given: no two have the same.
        secret: The client's.
    """

    def __init__(self) -> None:
        self.lifetime_s = 3600
        self.signatures: list[str] = []
        self.secret = PASSWORD
        self._key = rsa.generate_private_key(65537, 2048)
        outer = self

        class Endpoint(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                login = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
                good = login == f"job:{outer.secret}"
                body = json.dumps(outer.answer()).encode() if good else b""
                self.send_response(200 if good else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Endpoint)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self) -> dict[str, object]:
        """What the endpoint says to its client."""
        return {"access_token": self._token(), "token_type": "Bearer", "expires_in": self.lifetime_s}

    def _token(self) -> str:
        now = int(time.time())
        claims = {"sub": "job", "iat": now, "exp": now + self.lifetime_s, "aud": "kafka", "iss": "t", "scope": "kafka"}
        head = ".".join(_base64(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "k"}, claims))
        self.signatures.append(_base64(self._key.sign(head.encode(), padding.PKCS1v15(), hashes.SHA256())))
        return f"{head}.{self.signatures[-1]}"

    def key_set(self) -> str:
        """The JWKS by which the broker checks the tokens."""
        numbers = self._key.public_key().public_numbers()
        n, e = (_base64(number.to_bytes(-(-number.bit_length() // 8))) for number in (numbers.n, numbers.e))
        return json.dumps({"keys": [{"kty": "RSA", "kid": "k", "use": "sig", "alg": "RS256", "n": n, "e": e}]})


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Files:
    """Authorities, certificates and keys as files; ``other`` is an authority that signed nothing the broker has."""

    def __init__(self, folder: Path, tokens: Tokens) -> None:
        self._folder = folder
        self._authority, other = certificate("authority"), certificate("other")
        server = certificate("broker", signed_by=self._authority)
        self._write("ca", pem(self._authority[0]))
        self._write("other", pem(other[0]))
        self._write("server", pem(server[0]) + pem(server[1]))
        self._write("key_set", tokens.key_set())
        self.new_client("client")

    def new_client(self, name: str, *, days: float = 1, lock: bool = False) -> None:
        """Write a client's certificate and key, over the old ones if there are some; the key locked by a password."""
        client = certificate(name, signed_by=self._authority, days=days)
        self._write(name, pem(client[0]))
        self._write(f"{name}_key", encrypted(pem(client[1])) if lock else pem(client[1]))

    def __getitem__(self, name: str) -> str:
        return str(self._folder / name)

    def _write(self, name: str, text: str) -> None:
        whole = self._folder / f"{name}.new"
        whole.write_text(text)
        whole.rename(self._folder / name)


@contextlib.contextmanager
def bank(files: Files, more: Mapping[str, str] = MappingProxyType({})) -> Iterator[DevCluster]:
    """A broker with the listeners LOGIN (passwords), TOKEN and CERTIFICATE, all with TLS."""
    security = "org.apache.kafka.common.security"
    in_jaas = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": files["server"],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": files["ca"],
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.login.plain.sasl.jaas.config": (
            f'{security}.plain.PlainLoginModule required user_job="{in_jaas}";'
        ),
        "listener.name.login.scram-sha-256.sasl.jaas.config": f"{security}.scram.ScramLoginModule required;",
        "listener.name.login.scram-sha-512.sasl.jaas.config": f"{security}.scram.ScramLoginModule required;",
        "listener.name.token.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.token.oauthbearer.sasl.jaas.config": (
            f"{security}.oauthbearer.OAuthBearerLoginModule required;"
        ),
        "listener.name.token.oauthbearer.sasl.server.callback.handler.class": (
            f"{security}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        "listener.name.token.sasl.oauthbearer.jwks.endpoint.url": f"file://{files['key_set']}",
        "listener.name.token.sasl.oauthbearer.expected.audience": "kafka",
        "listener.name.certificate.ssl.client.auth": "required",
        **more,
    }
    listeners = {"LOGIN": "SASL_SSL", "TOKEN": "SASL_SSL", "CERTIFICATE": "SSL"}
    broker = DevCluster(settings=settings, extra_listeners=listeners)
    with _key_set_allowed(files):
        broker.start()
    try:
        set_scram_password(broker, PASSWORD)
        yield broker
    finally:
        broker.stop()


@contextlib.contextmanager
def _key_set_allowed(files: Files) -> Iterator[None]:
    """A broker that is started meanwhile reads this key set: only from where it is told does it read one."""
    with pytest.MonkeyPatch.context() as patch:
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{files['key_set']}"
        patch.setenv("JAVA_TOOL_OPTIONS", allowed)
        yield


def restart(broker: DevCluster, files: Files) -> None:
    """Kill the broker and start it again: every client has to connect and to log in anew."""
    broker.kill()
    with _key_set_allowed(files):
        broker.restart()


def set_scram_password(broker: DevCluster, password: str) -> None:
    """Give ``SCRAM_USER`` a password, over the old one if it has one."""
    admin = KafkaCluster(broker.bootstrap_servers).admin()
    for name in ("SCRAM_SHA_256", "SCRAM_SHA_512"):
        credential = UserScramCredentialUpsertion(SCRAM_USER, ScramMechanism[name], password)
        assert admin.alter_user_scram_credentials([credential]) == {SCRAM_USER: None}
    admin.close()


def ways(broker: DevCluster, files: Files, tokens: Tokens) -> dict[str, KafkaCluster]:
    """Each way to log in, by name."""
    tls = {"ssl_ca": files["ca"]}
    sasl = {**tls, "security_protocol": "SASL_SSL", "password": PASSWORD}
    own = {**tls, "security_protocol": "SSL"}
    login, token, mutual = (broker.bootstrap(name) for name in ("LOGIN", "TOKEN", "CERTIFICATE"))
    return {
        "PLAIN": KafkaCluster(login, **sasl, sasl_mechanism="PLAIN", username="job"),
        "SCRAM-SHA-256": KafkaCluster(login, **sasl, sasl_mechanism="SCRAM-SHA-256", username=SCRAM_USER),
        "SCRAM-SHA-512": KafkaCluster(login, **sasl, sasl_mechanism="SCRAM-SHA-512", username=SCRAM_USER),
        "OAUTHBEARER": KafkaCluster(
            token,
            **tls,
            security_protocol="SASL_SSL",
            sasl_mechanism="OAUTHBEARER",
            oauth_token_endpoint=tokens.url,
            oauth_client_id="job",
            oauth_client_secret=PASSWORD,
            oauth_scope="kafka",
        ),
        "certificate": KafkaCluster(mutual, **own, ssl_certificate=files["client"], ssl_key=files["client_key"]),
    }


def changed(cluster: KafkaCluster, **settings: object) -> KafkaCluster:
    """The same cluster with other settings."""
    given = {name: value for name, value in cluster if value is not None} | settings
    return KafkaCluster(given.pop("bootstrap_servers"), **given)
