"""The brokers of the integration tests, one SparkSession for all of a run, and the means to fill and to drain a topic.

Most tests share one broker, with topics of their own. Those in which transactions expire have one for each file.
"""

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka import Producer
from kafka.admin import KafkaAdminClient, NewTopic
from pyspark.sql import SparkSession

from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.flinksql.pipelines import SESSION
from onceflow.local.devcluster import FAST_EXPIRY, DevCluster
from onceflow.local.jars import spark_jars
from onceflow.processes import kill_tree
from tests.support.harness import kafka_asked_for
from tests.support.hdfs import MiniHdfs
from tests.support.logins import Files, Tokens

ASKED_FOR = ("faults", "three", "clusters", "upgrades")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has a make target of its own, unless ``-m`` speaks of it: a default run stays short."""
    absent = [mark for mark in ASKED_FOR if mark not in config.option.markexpr]
    left_out = [item for item in items if any(item.get_closest_marker(mark) for mark in absent)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def broker() -> Iterator[DevCluster]:
    """A real broker; ``broker.bootstrap_servers`` is its address. Tests use topics of their own."""
    with DevCluster(**kafka_asked_for()) as running:
        yield running


@pytest.fixture(scope="session")
def cluster(broker: DevCluster) -> KafkaCluster:
    """The broker's setting."""
    return KafkaCluster(broker.bootstrap_servers)


@pytest.fixture(scope="session")
def admin(cluster: KafkaCluster) -> Iterator[KafkaAdminClient]:
    """An open kafka-python client."""
    client = cluster.admin()
    yield client
    client.close()


@pytest.fixture(scope="module")
def short_lived() -> Iterator[KafkaCluster]:
    """A broker of the file's own, which expires transactions within a fraction of a second of their time-out."""
    with DevCluster(settings=FAST_EXPIRY, **kafka_asked_for()) as running:
        yield KafkaCluster(running.bootstrap_servers)


@pytest.fixture(scope="module")
def client(short_lived: KafkaCluster) -> Iterator[KafkaClient]:
    """An open client of ``short_lived``."""
    with KafkaClient(short_lived) as opened:
        yield opened


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniHdfs]:
    """A real HDFS of the file's own."""
    made = MiniHdfs(tmp_path_factory.mktemp("hdfs") / "files")
    try:
        yield made.start()
    finally:
        made.kill()


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Jobs that run in the background; whatever is left of them is ended with the test."""
    running: list[subprocess.Popen[str]] = []
    yield running
    for process in running:
        if process.poll() is None:
            kill_tree(process.pid)
            process.wait()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A SparkSession with the connector's jars, on two cores."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("onceflow tests")
        .config("spark.jars", ",".join(str(jar) for jar in spark_jars()))
        .config("spark.ui.enabled", "false")
        .config("spark.authenticate", "true")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")  # the tests make queries fail on purpose
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _own_settings() -> Iterator[None]:
    """A job of SQL tells its session what Flink does; the next test has the session as Spark makes it."""
    yield
    session = SparkSession._instantiatedSession  # which the builder gives to whoever asks for one
    if session is not None:
        for setting in SESSION.keys() - {"spark.sql.session.timeZone"}:  # which all tests have at UTC
            session.conf.unset(setting)


@pytest.fixture
def new_topic(admin: KafkaAdminClient) -> Callable[..., str]:
    """``new_topic(partitions=1)`` makes a topic and gives its name."""

    def make(partitions: int = 1, name: str | None = None) -> str:
        name = name or f"test-{uuid.uuid4().hex[:10]}"
        # Else a broker that looks meanwhile takes records of other years for older than its seven days.
        admin.create_topics([NewTopic(name, partitions, 1, topic_configs={"retention.ms": "-1"})])
        admin.wait_for_topics([name])
        return name

    return make


@pytest.fixture
def produce(cluster: KafkaCluster) -> Callable[..., None]:
    """``produce(topic, values, partition=0, **more)`` writes records and waits until the broker has them all."""

    def write(topic: str, values: Sequence[bytes | str | None], partition: int = 0, **more: object) -> None:
        producer = Producer(cluster.for_librdkafka())
        for value in values:
            producer.produce(topic, value, partition=partition, **more)
        assert producer.flush(30) == 0

    return write


@pytest.fixture(scope="module")
def tokens() -> Iterator[Tokens]:
    """An endpoint that gives tokens, for the logins of a module's tests."""
    endpoint = Tokens()
    yield endpoint
    endpoint.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, tokens: Tokens) -> Files:
    """Certificates, keys and passwords as files, likewise."""
    return Files(tmp_path_factory.mktemp("pem"), tokens)
