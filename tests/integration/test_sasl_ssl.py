"""One KafkaCluster logs in all three clients at a broker with TLS and SASL, and says why where it cannot."""

import base64
import datetime as dt
import ipaddress
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import KafkaException, Producer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID
from kafka.admin import NewTopic, ScramMechanism, UserScramCredentialUpsertion
from pyspark.errors import StreamingQueryException

from onceflow.connectors.formats import Text
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.source import KafkaSource
from onceflow.errors import KafkaRightsError, KafkaUnavailableError
from onceflow.local.devcluster import DevCluster

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

PASSWORD = 'p"a\\ss; wo=rd,'
TOPIC = "payments"


def certificate(name, *, signed_by=None):
    """A certificate for 127.0.0.1 and its key; its own authority unless signed by another."""
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
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=signed_by is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
    )
    return builder.sign(issuer_key, hashes.SHA256()), key


def pem(what):
    if isinstance(what, x509.Certificate):
        return what.public_bytes(serialization.Encoding.PEM).decode()
    clear = serialization.NoEncryption()
    return what.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, clear).decode()


class Tokens:
    """An OAuth token endpoint: one client, tokens of an hour, signed by a key that the broker knows."""

    def __init__(self):
        self._key = rsa.generate_private_key(65537, 2048)
        outer = self

        class Endpoint(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                login = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
                good = login == f"job:{PASSWORD}"
                body = json.dumps({"access_token": outer.token(), "token_type": "Bearer", "expires_in": 3600}).encode()
                self.send_response(200 if good else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body) if good else 0))
                self.end_headers()
                self.wfile.write(body if good else b"")

            def log_message(self, *_):
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Endpoint)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def token(self):
        now = int(time.time())
        claims = {"sub": "job", "iat": now, "exp": now + 3600, "aud": "kafka", "iss": "test", "scope": "kafka"}
        head = ".".join(_base64(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "k"}, claims))
        return f"{head}.{_base64(self._key.sign(head.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def key_set(self):
        numbers = self._key.public_key().public_numbers()
        n, e = (_base64(number.to_bytes(-(-number.bit_length() // 8))) for number in (numbers.n, numbers.e))
        return json.dumps({"keys": [{"kty": "RSA", "kid": "k", "use": "sig", "alg": "RS256", "n": n, "e": e}]})


def _base64(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@pytest.fixture(scope="module")
def tokens():
    endpoint = Tokens()
    yield endpoint
    endpoint.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory, tokens):
    """Authorities and certificates as files, by name; ``other`` is an authority that signed nothing."""
    folder = tmp_path_factory.mktemp("pem")
    authority, other = certificate("authority"), certificate("other")
    server, client = certificate("broker", signed_by=authority), certificate("client", signed_by=authority)
    texts = {
        "ca": pem(authority[0]),
        "other": pem(other[0]),
        "server": pem(server[0]) + pem(server[1]),
        "client": pem(client[0]),
        "client_key": pem(client[1]),
        "key_set": tokens.key_set(),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return {name: str(folder / name) for name in texts}


@pytest.fixture(scope="module")
def secured(files):
    """A broker with listeners for passwords, for tokens and for client certificates, each with TLS."""
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
    }
    listeners = {"LOGIN": "SASL_SSL", "TOKEN": "SASL_SSL", "CERTIFICATE": "SSL"}
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://" + files["key_set"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", allowed)  # the broker reads key sets only from where it is told
        broker = DevCluster(settings=settings, extra_listeners=listeners).start()
    try:
        admin = KafkaCluster(broker.bootstrap_servers).admin()
        admin.create_topics([NewTopic(TOPIC, 1, 1)])
        admin.wait_for_topics([TOPIC])
        for name in ("SCRAM_SHA_256", "SCRAM_SHA_512"):
            credential = UserScramCredentialUpsertion("the=job,", ScramMechanism[name], PASSWORD)
            assert admin.alter_user_scram_credentials([credential]) == {"the=job,": None}
        admin.close()
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def logins(secured, files, tokens):
    """Ways to log in, by name: listener and settings."""
    sasl = {"security_protocol": "SASL_SSL", "ssl_ca": files["ca"], "password": PASSWORD}
    return {
        "PLAIN": ("LOGIN", {**sasl, "sasl_mechanism": "PLAIN", "username": "job"}),
        "SCRAM-SHA-256": ("LOGIN", {**sasl, "sasl_mechanism": "SCRAM-SHA-256", "username": "the=job,"}),
        "SCRAM-SHA-512": ("LOGIN", {**sasl, "sasl_mechanism": "SCRAM-SHA-512", "username": "the=job,"}),
        "OAUTHBEARER": (
            "TOKEN",
            {
                "security_protocol": "SASL_SSL",
                "ssl_ca": files["ca"],
                "sasl_mechanism": "OAUTHBEARER",
                "oauth_token_endpoint": tokens.url,
                "oauth_client_id": "job",
                "oauth_client_secret": PASSWORD,
                "oauth_scope": "kafka",
            },
        ),
        "certificate": (
            "CERTIFICATE",
            {
                "security_protocol": "SSL",
                "ssl_ca": files["ca"],
                "ssl_certificate": files["client"],
                "ssl_key": files["client_key"],
            },
        ),
    }


def cluster_of(secured, logins, way, **changes):
    listener, settings = logins[way]
    return KafkaCluster(secured.bootstrap(listener), **(settings | changes))


WAYS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "certificate"]


@pytest.mark.parametrize("way", WAYS)
def test_three_clients_log_in(secured, logins, spark, tmp_path, way):
    """The producer writes, the admin client looks, Spark reads: through one setting, with a password full of signs."""
    cluster = cluster_of(secured, logins, way)
    producer = Producer(cluster.for_librdkafka())
    producer.produce(TOPIC, way)
    assert producer.flush(30) == 0

    admin = cluster.admin(timeout_s=20)
    assert TOPIC in admin.list_topics()
    admin.close()

    rows = []
    query = (
        KafkaSource(cluster, TOPIC, value=Text())
        .load(spark)
        .writeStream.foreachBatch(lambda batch, _: rows.extend(row.value for row in batch.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert way in rows


@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_a_wrong_secret_is_said_soon(secured, logins, way):
    """A refused login is KafkaRightsError long before the time to reach a broker is over, and shows no secret."""
    secret = "oauth_client_secret" if way == "OAUTHBEARER" else "password"
    cluster = cluster_of(secured, logins, way, **{secret: "hunter2"})
    began = time.monotonic()
    with pytest.raises(KafkaRightsError) as raised:
        cluster.admin(timeout_s=60)
    assert time.monotonic() - began < 10
    assert ("oauth_token_endpoint=" if way == "OAUTHBEARER" else f"sasl_mechanism={way}") in raised.value.cause
    assert "hunter2" not in str(raised.value)


def test_a_wrong_password_ends_the_other_clients_too(secured, logins, spark, tmp_path):
    """Neither librdkafka nor Spark hangs on a wrong password; both say that authentication failed."""
    cluster = cluster_of(secured, logins, "PLAIN", password="hunter2")
    errors = []
    producer = Producer(cluster.for_librdkafka() | {"error_cb": errors.append})
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=2)
    producer.poll(0)
    assert LibrdkafkaError._AUTHENTICATION in {error.code() for error in errors}

    frame = KafkaSource(cluster, TOPIC, value=Text()).load(spark)
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(StreamingQueryException, match="SaslAuthenticationException") as raised:
        query.awaitTermination(60)
    assert "hunter2" not in str(raised.value)


def test_an_authority_that_did_not_sign_the_broker(secured, logins, files):
    """A broker whose certificate is signed by somebody else is not spoken to; the error names ssl_ca."""
    cluster = cluster_of(secured, logins, "PLAIN", ssl_ca=files["other"])
    with pytest.raises(KafkaUnavailableError, match="ssl_ca") as raised:
        cluster.admin(timeout_s=3)
    assert files["other"] in str(raised.value)
    assert "CERTIFICATE_VERIFY_FAILED" in str(raised.value)
