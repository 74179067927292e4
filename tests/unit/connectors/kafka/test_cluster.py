"""KafkaCluster: one setting, three translations, no secret shown."""

import importlib.util
import logging
import pickle
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from confluent_kafka import KafkaException, Producer
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI
from pyspark import cloudpickle

from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.login_refused import is_refused_certificate, login_refused, of_producer
from onceflow.connectors.kafka.produce import open_producer
from onceflow.connectors.kafka.sink import KafkaSink
from onceflow.connectors.kafka.sink_connection import KafkaSinkConnection
from onceflow.connectors.kafka.source import KafkaSource, explain
from onceflow.errors import (
    ConfigurationError,
    KafkaRightsError,
    KafkaUnavailableError,
    PreCommitError,
    RefusedSettingError,
)
from onceflow.formats.text_format import Raw

SECRET = 'p"a\\ss; word'
OAUTH = {
    "sasl_mechanism": "OAUTHBEARER",
    "oauth_token_endpoint": "https://login.example/token",
    "oauth_client_id": "job",
    "oauth_client_secret": SECRET,
}


def with_password(mechanism="PLAIN", **more):
    settings = {"security_protocol": "SASL_PLAINTEXT", "username": "user", "password": SECRET} | more
    return KafkaCluster("broker:9092", sasl_mechanism=mechanism, **settings)


@pytest.fixture
def pem(tmp_path):
    ca, certificate, key = tmp_path / "ca.pem", tmp_path / "certificate.pem", tmp_path / "key.pem"
    ca.write_text("-----BEGIN CERTIFICATE-----\nca\n-----END CERTIFICATE-----\n")
    certificate.write_text("-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----\n")
    key.write_text("-----BEGIN PRIVATE KEY-----\nours\n-----END PRIVATE KEY-----\n")
    return {"ssl_ca": ca, "ssl_certificate": certificate, "ssl_key": key}


def test_an_address_is_enough():
    """A cluster without security takes one word, and each client is told just that."""
    cluster = KafkaCluster("localhost:9092")
    assert cluster.for_spark() == {
        "kafka.bootstrap.servers": "localhost:9092",
        "kafka.security.protocol": "PLAINTEXT",
        "kafka.client.id": "onceflow",
    }
    assert cluster.for_librdkafka() == {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "PLAINTEXT",
        "client.id": "onceflow",
    }
    assert cluster.for_kafka_python()["bootstrap_servers"] == ["localhost:9092"]


@pytest.mark.parametrize("servers", [["a:1", "b:2"], " a:1 , b:2 "])
def test_several_servers(servers):
    """A list and a text with commas mean the same cluster."""
    assert KafkaCluster(servers) == KafkaCluster("a:1,b:2")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_in_three_languages(mechanism):
    """SCRAM reaches each client under its own names."""
    cluster = with_password(mechanism)
    jaas = cluster.for_spark()["kafka.sasl.jaas.config"]
    assert jaas.startswith("org.apache.kafka.common.security.scram.ScramLoginModule required")
    assert cluster.for_librdkafka()["sasl.mechanism"] == mechanism
    assert cluster.for_librdkafka()["sasl.password"] == SECRET
    assert cluster.for_kafka_python()["sasl_mechanism"] == mechanism
    assert cluster.for_kafka_python()["sasl_plain_password"] == SECRET


def test_jaas_values_are_quoted():
    """Quotes and backslashes of a password cannot end the JAAS value or add to it."""
    jaas = with_password().for_spark()["kafka.sasl.jaas.config"]
    assert jaas.endswith(' required username="user" password="p\\"a\\\\ss; word";')


def test_scram_names_are_escaped_for_kafka_python():
    """kafka-python puts the name into the SCRAM message as it is: "=" and "," must be escaped before."""
    cluster = with_password("SCRAM-SHA-256", username="a=b,c")
    assert cluster.for_kafka_python()["sasl_plain_username"] == "a=3Db=2Cc"
    assert with_password("PLAIN", username="a=b,c").for_kafka_python()["sasl_plain_username"] == "a=b,c"


def test_tls_in_three_languages(pem):
    """PEM files reach each client in the way it can read them."""
    cluster = KafkaCluster("broker:9093", security_protocol="SSL", ssl_key_password=SECRET, **pem)
    spark = cluster.for_spark()
    assert spark["kafka.ssl.truststore.type"] == spark["kafka.ssl.keystore.type"] == "PEM"
    assert spark["kafka.ssl.truststore.location"] == str(pem["ssl_ca"])
    assert spark["kafka.ssl.keystore.key"] == pem["ssl_key"].read_text()
    assert spark["kafka.ssl.key.password"] == SECRET
    assert cluster.for_librdkafka()["ssl.ca.location"] == str(pem["ssl_ca"])
    assert cluster.for_librdkafka()["ssl.key.location"] == str(pem["ssl_key"])
    assert cluster.for_kafka_python()["ssl_cafile"] == str(pem["ssl_ca"])
    assert cluster.for_kafka_python()["ssl_password"] == SECRET


def test_oauth_in_three_languages():
    """Client credentials go to what two clients have built in, and to our provider for the third."""
    cluster = KafkaCluster("broker:9092", security_protocol="SASL_SSL", oauth_scope="kafka", **OAUTH)
    spark = cluster.for_spark()
    assert spark["kafka.sasl.oauthbearer.token.endpoint.url"] == OAUTH["oauth_token_endpoint"]
    assert 'clientId="job"' in spark["kafka.sasl.jaas.config"]
    assert cluster.for_librdkafka()["sasl.oauthbearer.method"] == "oidc"
    assert cluster.for_librdkafka()["sasl.oauthbearer.scope"] == "kafka"
    assert cluster.for_kafka_python()["sasl_oauth_token_provider"].extensions() == {}


@pytest.fixture
def token_endpoint():
    """A token endpoint that knows one client; ``seen`` holds the requests."""
    seen: list[tuple[str, str]] = []

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            seen.append((self.headers["Authorization"], body))
            good = self.headers["Authorization"] == "Basic am9iOmdvb2Q="  # job:good
            self.send_response(200 if good else 401)
            self.end_headers()
            if good:
                self.wfile.write(b'{"access_token": "token-%d", "expires_in": 3600}' % len(seen))

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/token", seen
    server.shutdown()
    thread.join()
    server.server_close()


def token_provider(endpoint, secret):
    settings = OAUTH | {"oauth_token_endpoint": endpoint, "oauth_client_secret": secret}
    cluster = KafkaCluster("broker:9092", security_protocol="SASL_SSL", oauth_scope="kafka", **settings)
    return cluster.for_kafka_python()["sasl_oauth_token_provider"]


def test_a_token_is_used_again(token_endpoint):
    """Many connections in the life of one token ask the endpoint once."""
    endpoint, seen = token_endpoint
    provider = token_provider(endpoint, "good")
    assert [provider.token(), provider.token()] == ["token-1", "token-1"]
    assert seen == [("Basic am9iOmdvb2Q=", "grant_type=client_credentials&scope=kafka")]


def test_a_refused_client_is_said_without_its_secret(token_endpoint):
    """A wrong client secret is KafkaRightsError with the endpoint's status, and does not show the secret."""
    with pytest.raises(KafkaRightsError, match="401") as raised:
        token_provider(token_endpoint[0], "hunter2").token()
    assert "hunter2" not in str(raised.value)


def test_secrets_from_elsewhere(monkeypatch, tmp_path):
    """A secret can stand in the environment or in a file, whose last line end does not count."""
    monkeypatch.setenv("THE_PASSWORD", SECRET)
    (tmp_path / "password").write_text(SECRET + "\n")
    given = with_password()
    assert with_password(password={"env": "THE_PASSWORD"}) == given
    assert with_password(password={"file": str(tmp_path / "password")}) == given


@pytest.mark.parametrize(
    ("password", "said"),
    [
        ({"env": "NO_SUCH_VARIABLE"}, "NO_SUCH_VARIABLE is not set"),
        ({"file": "/no/such/file"}, "cannot read the file /no/such/file"),
        ({"vault": "x"}, '{"env": NAME}'),
    ],
)
def test_a_secret_that_is_not_there(password, said):
    """A secret that cannot be read is said at construction, with the place where it was looked for."""
    with pytest.raises(ConfigurationError, match="password") as raised:
        with_password(password=password)
    assert said in str(raised.value)


@pytest.mark.parametrize("login", ["password", "token", "key"])
def test_no_login_shows_its_secret(pem, login):
    """Not repr, str, description, JSON, what kafka-python logs of its configuration, a sink, a source, or a writer."""
    cluster = {
        "password": with_password,
        "token": lambda: KafkaCluster("broker:9092", security_protocol="SASL_SSL", **OAUTH),
        "key": lambda: KafkaCluster("broker:9092", security_protocol="SSL", ssl_key_password=SECRET, **pem),
    }[login]()
    sink, source = KafkaSink(cluster, "alerts"), KafkaSource(cluster, "payments", value=Raw())
    shown = [repr(cluster), str(cluster), str(cluster.description()), cluster.model_dump_json()]
    shown += [str(cluster.for_kafka_python()), repr(sink), sink.describe(), repr(source)]
    shown.append(repr(KafkaSinkConnection(sink, None).writer_factory()))
    assert not [text for text in shown if "word" in text.replace("password", "")]


def test_no_error_shows_a_secret(caplog):
    """Not one of a broker that is away, with all logs on, nor one of a setting that cannot work."""
    shown = []
    with caplog.at_level(logging.DEBUG), pytest.raises(KafkaUnavailableError) as raised:
        KafkaCluster(f"127.0.0.1:{free_port()}", **LOGIN).admin(timeout_s=0.2)
    shown += [str(raised.value), caplog.text]
    with pytest.raises(ConfigurationError) as refused:
        KafkaCluster("broker:9092", password=SECRET, sasl_mechanism=SECRET)
    shown.append(str(refused.value))
    with pytest.raises(ConfigurationError) as refused:
        KafkaCluster("broker:9092", password=[SECRET])
    shown.append(str(refused.value))
    assert not [text for text in shown if "word" in text.replace("password", "")]


LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "username": "user", "password": SECRET}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_no_broker_is_said_in_time():
    """Where nobody listens, admin() says so when its time is over."""
    address = f"127.0.0.1:{free_port()}"
    before = set(threading.enumerate())
    with pytest.raises(KafkaUnavailableError, match=r"answered within 0\.3 s") as raised:
        KafkaCluster(address).admin(timeout_s=0.3)
    assert raised.value.facts["bootstrap_servers"] == address
    deadline = time.monotonic() + 30
    while [one for one in set(threading.enumerate()) - before if "kafka" in one.name.lower()]:
        assert time.monotonic() < deadline, "the client's thread goes on"
        time.sleep(0.01)


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_it_travels_to_workers(dumps):
    """A pickle brings the whole cluster, secrets too, to Spark's workers."""
    cluster = with_password()
    there = pickle.loads(dumps(cluster))  # noqa: S301 - our own bytes
    assert there == cluster
    assert hash(there) == hash(cluster)
    assert there.for_librdkafka() == cluster.for_librdkafka()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"bootstrap_servers": "broker"}, "not host:port"),
        ({"bootstrap_servers": ""}, "not host:port"),
        ({"security_protocol": "TLS"}, "security_protocol"),
        ({"username": "x", "password": "y"}, "would send no login"),
        ({"ssl_ca": True}, "ssl_ca"),
        ({"ssl_ca": "/no/such.pem"}, "cannot read the file /no/such.pem"),
        ({"security_protocol": "SASL_SSL"}, "needs a SASL mechanism"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "username": "x"}, "needs password"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}, "Kerberos (GSSAPI)"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-1"}, "sasl_mechanism"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "needs oauth_token_endpoint"),
        ({"security_protocol": "SASL_SSL", **OAUTH, "username": "x"}, "takes no password"),
        ({"security_protocol": "SASL_SSL", **OAUTH, "oauth_token_endpoint": "ftp://tokens"}, "http"),
        ({"security_protocol": "SASL_SSL", **OAUTH, "oauth_token_endpoint": "file:///run/token"}, "from a file"),
        ({"security_protocol": "SASL_SSL", **OAUTH, "oauth_token_endpoint": lambda: "token"}, "from a callback"),
        ({"security_protocol": "SSL", "ssl_key_password": "x"}, "without an ssl_key"),
    ],
)
def test_bad_settings_are_said_at_once(settings, said):
    """What cannot work is ConfigurationError at construction, with a cause and what to do."""
    with pytest.raises(ConfigurationError, match="KafkaCluster") as raised:
        KafkaCluster(**({"bootstrap_servers": "broker:9092"} | settings))
    assert said in raised.value.what
    assert raised.value.cause
    assert raised.value.action


def test_kerberos_is_refused_since_librdkafka_lacks_it():
    """The refusal names what to do, and its reason is true of the wheel that is installed; kafka-python could do it."""
    with pytest.raises(ConfigurationError, match="GSSAPI") as raised:
        KafkaCluster("broker:9092", security_protocol="SASL_SSL", sasl_mechanism="GSSAPI")
    assert "one more listener" in raised.value.action
    with pytest.raises(KafkaException, match="No provider for SASL mechanism GSSAPI"):
        Producer({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"})
    with pytest.raises(KafkaException, match="libsasl2 not available at build time"):
        Producer({"builtin.features": "sasl_gssapi"})
    if importlib.util.find_spec("gssapi") is None:
        with pytest.raises(RuntimeError, match="GSSAPI lib not found"):
            SaslMechanismGSSAPI(host="broker", sasl_kerberos_service_name="kafka")


def test_a_token_callback_is_refused_at_the_sink_too():
    """Librdkafka's callback would serve one of the three clients."""
    with pytest.raises(RefusedSettingError, match="oauth_cb") as raised:
        KafkaSink(KafkaCluster("broker:9092"), "alerts", producer={"oauth_cb": lambda _: ("token", 0)})
    assert "oauth_token_endpoint" in raised.value.action


@pytest.mark.parametrize(
    "said",
    [
        "Receive failed: error:0A000416:SSL routines::ssl/tls alert certificate unknown: SSL alert number 46",
        "Receive failed: error:0A000412:SSL routines::ssl/tls alert bad certificate: SSL alert number 42",
        "KafkaConnectionError: [SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca (_ssl.c:2580)",
        "Received fatal alert: certificate_expired",
    ],
)
def test_a_refused_certificate_is_told_by_the_alert(said):
    """Each client's words for a broker that does not take our certificate; an unknown authority of ours is not that."""
    assert is_refused_certificate(said)
    assert not is_refused_certificate("certificate verify failed: unable to get local issuer certificate")


def test_a_login_that_a_job_had_says_that_a_start_reads_anew():
    """Whoever refuses, the error says that the running job keeps what it has read, and shows no secret."""
    java = "Caused by: org.apache.kafka.common.errors.SaslAuthenticationException: invalid credentials\n\tat java"
    errors = [
        of_producer("invalid credentials", with_password("SCRAM-SHA-512").for_librdkafka()),
        login_refused("invalid credentials", servers="here:9092", login={"username": "me"}),
        explain(java),
    ]
    for error in errors:
        assert isinstance(error, KafkaRightsError)
        assert "invalid credentials" in error.what
        assert "start the job again" in error.action
        assert SECRET not in str(error)
    assert "\tat" not in errors[-1].what


def test_files_that_do_not_fit_any_more_are_named(pem):
    """What was replaced under a running job by something else fails in the worker's next producer, with the files."""
    with pytest.raises(PreCommitError, match=r"Failed to create producer: ssl\.") as raised:
        open_producer(KafkaCluster("broker:9092", security_protocol="SSL", **pem).for_librdkafka())
    assert str(pem["ssl_certificate"]) in raised.value.cause
    assert raised.value.retriable


def test_tls_settings_that_do_nothing_are_refused(pem):
    """A certificate without TLS would be a false comfort; so would one without its key."""
    with pytest.raises(ConfigurationError, match="would not encrypt"):
        KafkaCluster("broker:9092", ssl_ca=pem["ssl_ca"])
    with pytest.raises(ConfigurationError, match="ssl_certificate and ssl_key together"):
        KafkaCluster("broker:9092", security_protocol="SSL", ssl_certificate=pem["ssl_certificate"])


@pytest.mark.parametrize("password", [None, b"of the key"])
def test_a_key_that_java_cannot_decrypt_is_said_early(pem, password):
    """What everybody encrypts keys with today (PBES2) fails in Java 17, hours later on a worker if not here."""
    key = ec.generate_private_key(ec.SECP256R1())
    hidden = NoEncryption() if password is None else BestAvailableEncryption(password)
    pem["ssl_key"].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden))
    if password is None:
        assert KafkaCluster("broker:9092", security_protocol="SSL", **pem).ssl_key == str(pem["ssl_key"])
        return
    with pytest.raises(ConfigurationError, match="PBES2"):
        KafkaCluster("broker:9092", security_protocol="SSL", ssl_key_password="of the key", **pem)


def test_a_key_that_java_cannot_read_is_said_early(pem):
    """A PKCS #1 key would work for two of three clients; the error has the command that converts it."""
    pem["ssl_key"].write_text("-----BEGIN RSA PRIVATE KEY-----\nours\n-----END RSA PRIVATE KEY-----\n")
    with pytest.raises(ConfigurationError, match="openssl pkcs8"):
        KafkaCluster("broker:9092", security_protocol="SSL", **pem)


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ("http://localhost:9092", 'http:// is not how brokers are named: write "localhost:9092"'),
        ("kafka://localhost:9092/x", 'write "localhost:9092"'),
        ("PLAINTEXT://broker:9092", 'write "broker:9092"'),
        ("kafka://user:hunter2@broker:9092", 'write "broker:9092"'),
        ("https://broker", 'write "host:9092"'),
        ("user:hunter2@broker:9092", 'write "broker:9092", with username='),
        ("broker:0", '"broker:0" is not host:port'),
        ("broker:65536", '"broker:65536" is not host:port'),
        ("broker:٣", "is not host:port"),
        ("bro ker:9092", "is not host:port"),
        ("broker:9092/x", "is not host:port"),
        ("a:1,http://b:2", 'write "b:2"'),
    ],
)
def test_an_address_that_no_client_would_find_is_refused_at_once(server, said):
    """A URL above all, which would hang; a password in it is not shown."""
    with pytest.raises(ConfigurationError) as raised:
        KafkaCluster(server)
    assert said in raised.value.what
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "server", ["broker:9092", "10.0.0.1:9092", "[::1]:9092", "my_broker-1.example:1", "bücher.example:9"]
)
def test_addresses_as_brokers_have_them_are_taken(server):
    """Names, numbers of both kinds, and names that are not ASCII."""
    assert KafkaCluster(server).bootstrap_servers == server
