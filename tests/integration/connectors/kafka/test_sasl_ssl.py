"""One KafkaCluster logs in all three clients at a broker with TLS and SASL, and says why where it cannot."""

import time

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import KafkaException, Producer
from kafka.admin import NewTopic
from pyspark.errors import StreamingQueryException

import onceflow as of
from onceflow.audit.verify import Asked, audit
from onceflow.cli.audit import plain
from onceflow.connectors.kafka.plain_writer import PlainWriter
from onceflow.connectors.kafka.source import KafkaSource, explain
from onceflow.connectors.kafka.writer import TransactionWriter
from onceflow.errors import KafkaRightsError, KafkaUnavailableError
from onceflow.formats.text_format import Text
from onceflow.spark import java_client
from tests.support.advice import parts_of
from tests.support.harness import read_topic
from tests.support.logins import KEY_PASSWORD, bank, changed, ways

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

TOPIC = "payments"


@pytest.fixture(scope="module")
def secured(files):
    """A broker with listeners for passwords, for tokens and for client certificates, each with TLS."""
    with bank(files) as broker:
        admin = of.KafkaCluster(broker.bootstrap_servers).admin()
        admin.create_topics([NewTopic(TOPIC, 1, 1)])
        admin.wait_for_topics([TOPIC])
        admin.close()
        yield broker


@pytest.fixture(scope="module")
def logins(secured, files, tokens):
    """Ways to log in, by name."""
    found = ways(secured, files, tokens)
    files.new_client("locked", lock=True)
    locked = {"ssl_certificate": files["locked"], "ssl_key": files["locked_key"], "ssl_key_password": KEY_PASSWORD}
    return {**found, "certificate with a locked key": changed(found["certificate"], **locked)}


WAYS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "certificate", "certificate with a locked key"]


IN_SHORT = ("SCRAM-SHA-256", "certificate")


@pytest.mark.parametrize(
    "way", [way if way in IN_SHORT else pytest.param(way, marks=pytest.mark.faults) for way in WAYS]
)
def test_a_job_logs_in(secured, logins, spark, tmp_path, way):
    """A whole job, so Spark's consumer, the writers and the driver, through one setting, with a password of signs.

    The auditor's own client logs in by the same, and proves each row.
    """
    cluster = logins[way]
    producer = Producer(cluster.for_librdkafka())
    producer.produce(TOPIC, way)
    assert producer.flush(30) == 0
    out = way.replace(" ", "-")
    sink = of.KafkaSink(cluster, out, value=Text(), create_topic=of.NewTopic(1))
    query = of.start(
        KafkaSource(cluster, TOPIC, value=Text()).load(spark),
        sinks=[sink],
        name=out,
        checkpointing=of.Checkpointing(tmp_path / "checkpoint"),
        until="caught-up",
    )
    assert query.awaitTermination(120)
    open_to_all = of.KafkaCluster(secured.bootstrap_servers)
    assert read_topic(open_to_all, out) == read_topic(open_to_all, TOPIC)
    report = audit(Asked(tmp_path / "checkpoint", [plain(sink)])).report(shared=False)
    assert report["findings"] == []
    assert report["rows"] == len(read_topic(open_to_all, out))


def test_the_doctor_tries_the_client_by_which_spark_reads(logins):
    """By each login, without Spark; of one that is refused the client's own words are told, without the secret."""
    refused = changed(logins["SCRAM-SHA-256"], password="hunter2")
    clusters = [logins[way] for way in WAYS] + [refused]
    told = [{name.removeprefix("kafka."): value for name, value in cluster.for_spark().items()} for cluster in clusters]
    *good, bad = java_client.tried(told)
    assert good == [""] * len(WAYS)
    assert "SaslAuthenticationException" in bad
    assert "hunter2" not in bad


@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_a_wrong_secret_is_said_soon(logins, way):
    """KafkaRightsError, long before the time to reach a broker is over, without the secret; the right one is taken."""
    secret = "oauth_client_secret" if way == "OAUTHBEARER" else "password"
    cluster = changed(logins[way], **{secret: "hunter2"})
    began = time.monotonic()
    with pytest.raises(KafkaRightsError) as raised:
        cluster.admin(timeout_s=60)
    assert time.monotonic() - began < 10
    assert ("oauth_token_endpoint=" if way == "OAUTHBEARER" else f"sasl_mechanism={way}") in raised.value.cause
    assert "hunter2" not in str(raised.value)
    assert parts_of(raised.value, KafkaRightsError).action.startswith("check the ")
    logins[way].admin().close()


def test_a_refused_certificate_is_said_soon(secured, logins, files):
    """So is a certificate that has expired, and one that is missing: the broker's TLS alert tells."""
    files.new_client("old", days=-1)
    for given in ({"ssl_certificate": files["old"], "ssl_key": files["old_key"]}, {}):
        cluster = of.KafkaCluster(
            secured.bootstrap("CERTIFICATE"), security_protocol="SSL", ssl_ca=files["ca"], **given
        )
        with pytest.raises(KafkaRightsError, match="alert") as raised:
            cluster.admin(timeout_s=60)
        assert given.get("ssl_certificate", "this listener asks for a login") in raised.value.cause


@pytest.mark.parametrize("guarantee", ["exactly-once", pytest.param("at-least-once", marks=pytest.mark.faults)])
@pytest.mark.parametrize(
    ("way", "said"), [("SCRAM-SHA-512", "credentials"), ("OAUTHBEARER", "token"), ("certificate", "alert")]
)
def test_a_writer_whose_login_is_refused_says_so(logins, files, guarantee, way, said):
    """Of both kinds, by whichever login: KafkaRightsError, which shows no secret and says that a start reads anew."""
    files.new_client("old", days=-1)
    wrong = {
        "SCRAM-SHA-512": {"password": "hunter2"},
        "OAUTHBEARER": {"oauth_client_secret": "hunter2"},
        "certificate": {"ssl_certificate": files["old"], "ssl_key": files["old_key"]},
    }
    config = changed(logins[way], **wrong[way]).for_librdkafka()
    with pytest.raises(KafkaRightsError, match=said) as raised:  # noqa: PT012 - either call may be the one
        if guarantee == "exactly-once":
            writer = TransactionWriter(f"refused-{way}", TOPIC, config, 60_000)
        else:
            writer = PlainWriter(TOPIC, config, checked=True)
        writer.write(pa.RecordBatch.from_pydict({"value": pa.array([b"never"])}))
        writer.prepare()
    writer.abort()
    assert "start the job again" in raised.value.action
    assert "hunter2" not in str(raised.value)


def test_a_wrong_password_ends_the_other_clients_too(logins, spark, tmp_path):
    """Neither librdkafka nor Spark hangs on a wrong password; both say that authentication failed."""
    cluster = changed(logins["PLAIN"], password="hunter2")
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
    assert isinstance(explain(str(raised.value)), KafkaRightsError)


def test_an_authority_that_did_not_sign_the_broker(logins, files):
    """A broker whose certificate is signed by somebody else is not spoken to; the error names ssl_ca."""
    cluster = changed(logins["PLAIN"], ssl_ca=files["other"])
    with pytest.raises(KafkaUnavailableError, match="ssl_ca") as raised:
        cluster.admin(timeout_s=3)
    assert files["other"] in str(raised.value)
    assert "CERTIFICATE_VERIFY_FAILED" in str(raised.value)


def test_a_plan_that_is_shown_shows_no_secret(logins, spark, capsys):
    """``explain`` of a source in a session of the user's own, before any job runs there."""
    own = spark.newSession()
    own.conf.unset("spark.sql.redaction.options.regex")
    frames = [KafkaSource(logins[way], TOPIC, value=Text()).load(own) for way in ("PLAIN", WAYS[-1], "OAUTHBEARER")]
    for frame in frames:
        frame.explain(extended=True)
    shown = capsys.readouterr().out
    assert TOPIC in shown
    assert not [secret for secret in ("wo=rd", KEY_PASSWORD, "PRIVATE KEY") if secret in shown]


def test_the_reader_in_the_jvm_reads_a_tokens_file_once(spark, tmp_path):
    """Why a file with a token is refused: a new token in it would never reach Kafka's Java client."""
    path = tmp_path / "token"
    path.write_text("first")
    jvm = spark.sparkContext._jvm
    secured = jvm.org.apache.kafka.common.security.oauthbearer.internals.secured
    reader = secured.FileTokenRetriever(jvm.java.io.File(str(path)).toPath())
    reader.init()
    assert reader.retrieve() == "first"
    path.write_text("second")
    assert reader.retrieve() == "first"
