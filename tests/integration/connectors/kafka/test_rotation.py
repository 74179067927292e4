"""Passwords, certificates and tokens that change under a running job: which client goes on, and what a restart does."""

import datetime as dt
import itertools
from pathlib import Path

import pytest
from confluent_kafka import Producer
from cryptography import x509
from kafka.admin import NewTopic
from pyspark.errors import StreamingQueryException

import onceflow as of
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.errors import KafkaRightsError
from tests.support.harness import logged_error, read_topic, wait_until
from tests.support.logins import (
    PASSWORD,
    bank,
    changed,
    restart,
    set_scram_password,
    ways,
)

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.faults]

# A broker that asks again who a client is: of SCRAM-SHA-256 every few seconds, of tokens when they expire.
ASKS_AGAIN = {
    "listener.name.login.scram-sha-256.connections.max.reauth.ms": "4000",
    "listener.name.token.oauthbearer.connections.max.reauth.ms": "3600000",
}


@pytest.fixture(scope="module")
def broker(files):
    with bank(files, ASKS_AGAIN) as running:
        yield running


@pytest.fixture
def logins(broker, files, tokens):
    return ways(broker, files, tokens)


class Copy:
    """A job that copies one topic to another; what goes in and comes out is seen without any login."""

    numbers = itertools.count()

    def __init__(self, spark, broker, folder, caplog):
        self._spark, self._folder, self._caplog = spark, folder, caplog
        self._seen_by = of.KafkaCluster(broker.bootstrap_servers)
        self._in, self._out = (f"{name}-{next(self.numbers)}" for name in ("in", "out"))
        admin = self._seen_by.admin()
        admin.create_topics([NewTopic(self._in, 1, 1), NewTopic(self._out, 1, 1)])
        admin.wait_for_topics([self._in, self._out])
        admin.close()
        self.sent = []
        self.query = None

    def send(self, *, arrives=True):
        """Send one record, and wait until it is copied."""
        self.sent.append(str(len(self.sent)).encode())
        producer = Producer(self._seen_by.for_librdkafka())
        producer.produce(self._in, self.sent[-1])
        assert producer.flush(30) == 0
        if arrives:
            wait_until(self._is_copied, what=f"record {self.sent[-1]}")

    def _is_copied(self):
        assert self.query.isActive, self.query.exception()
        return self.sent[-1] in self.copied()

    def copied(self):
        return [value for _, value in read_topic(self._seen_by, self._out)]

    def start(self, cluster, until="stopped"):
        self.query = of.start(
            of.KafkaSource(cluster, self._in, value=of.Text()).load(self._spark),
            sinks=[of.KafkaSink(cluster, self._out, value=of.Text())],
            name="copy",
            checkpointing=of.Checkpointing(self._folder / "checkpoint", interval="200 ms"),
            until=until,
        )

    def why_it_ended(self, *, sending=True):
        """The error that a job that is a program would end with; until then a record comes now and then."""
        wait_until(lambda: not self.query.isActive or (sending and self.send(arrives=False)), 120, "the job's end")
        with pytest.raises(StreamingQueryException):
            self.query.awaitTermination(120)
        return logged_error(self._caplog)

    def run_to_the_end(self, cluster):
        """Start it again over what is there; nothing is lost or doubled."""
        self.start(cluster, until="caught-up")
        assert self.query.awaitTermination(120)
        assert self.copied() == self.sent


@pytest.fixture
def copy(spark, broker, tmp_path, caplog):
    made = Copy(spark, broker, tmp_path, caplog)
    yield made
    if made.query is not None:
        made.query.stop()


def test_a_new_password_ends_the_job_at_its_next_epoch(broker, logins, copy, tmp_path):
    """Who is logged in stays so; the next epoch's writer logs in anew, with what the job has read at its start."""
    secret = tmp_path / "password"
    secret.write_text(PASSWORD)
    given = {"password": {"file": secret}}
    copy.start(changed(logins["SCRAM-SHA-512"], **given))
    copy.send()
    try:
        set_scram_password(broker, "another")
        secret.write_text("another")
        error = copy.why_it_ended()
        assert isinstance(error, KafkaRightsError)
        assert "refused our login" in str(error)
        assert "sasl.username=the=job," in str(error)
        assert "start the job again" in str(error)
        assert PASSWORD not in str(error)
        copy.run_to_the_end(changed(logins["SCRAM-SHA-512"], **given))
    finally:
        set_scram_password(broker, PASSWORD)


def test_a_broker_that_asks_again_ends_an_idle_job_too(broker, logins, copy):
    """With ``connections.max.reauth.ms`` Spark's consumer is asked for the password again, and has the old one."""
    copy.start(logins["SCRAM-SHA-256"])
    copy.send()
    try:
        set_scram_password(broker, "another")
        error = copy.why_it_ended(sending=False)
        assert isinstance(error, KafkaRightsError)
        assert "start the job again" in str(error)
        assert PASSWORD not in str(error)
        copy.run_to_the_end(changed(logins["SCRAM-SHA-256"], password="another"))
    finally:
        set_scram_password(broker, PASSWORD)


def test_a_certificate_that_was_replaced_in_time(broker, files, logins, copy):
    """Writers and driver read the files anew for each connection, Spark's consumer does not: it needs a start.

    It notices when it has to connect again: the broker looks at a certificate only then.
    """
    files.new_client("rotated", days=30 / 86_400)
    ends = x509.load_pem_x509_certificate(Path(files["rotated"]).read_bytes()).not_valid_after_utc
    cluster = changed(logins["certificate"], ssl_certificate=files["rotated"], ssl_key=files["rotated_key"])
    with KafkaClient(cluster) as client:
        copy.start(cluster)
        copy.send()
        files.new_client("rotated")
        wait_until(lambda: dt.datetime.now(dt.UTC) > ends, what="the old certificate's end")
        copy.send()
        restart(broker, files)
        assert client.brokers() == [0]
        error = copy.why_it_ended(sending=False)
    assert isinstance(error, KafkaRightsError)
    assert "Spark's consumer" in str(error)
    assert "start the job again" in str(error)
    copy.send(arrives=False)
    copy.run_to_the_end(cluster)


def test_tokens_are_renewed_until_the_endpoint_refuses(tokens, logins, copy):
    """Through three lives of its tokens a job goes on, though the broker closes connections of those that expired.

    A client secret that was changed ends it with the endpoint's or the broker's refusal.
    """
    tokens.lifetime_s = 8
    try:
        copy.start(logins["OAUTHBEARER"])
        began = dt.datetime.now(dt.UTC)
        while dt.datetime.now(dt.UTC) < began + dt.timedelta(seconds=25):
            copy.send()
        assert copy.copied() == copy.sent
        tokens.secret = "another"
        error = copy.why_it_ended()
        assert isinstance(error, KafkaRightsError)
        assert "start the job again" in str(error)
        assert PASSWORD not in str(error)
        copy.run_to_the_end(changed(logins["OAUTHBEARER"], oauth_client_secret="another"))
    finally:
        tokens.lifetime_s, tokens.secret = 3600, PASSWORD
