"""A broker that gives no answer is told, with its address and the reason, and so is its return; on a real broker."""

import logging
import re
import socket
import threading
import time

import pytest
from kafka.admin import NewTopic

import onceflow as of
from onceflow.connectors import silence
from onceflow.connectors.kafka import connecting, watch
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.listeners import look_at
from onceflow.control.standing import JobStatus
from onceflow.errors import ConfigurationError, KafkaUnavailableError
from onceflow.local.devcluster import DevCluster
from onceflow.metrics.health import Health
from tests.support.advice import parts_of
from tests.support.harness import Pipeline, kafka_asked_for, wait_until
from tests.support.logins import certificate, pem

pytestmark = pytest.mark.kafka

LOGIN = {"sasl_mechanism": "PLAIN", "username": "job", "password": "hunter2"}


@pytest.fixture(scope="module")
def own():
    """A broker of this file's own, which is stopped and killed."""
    with DevCluster(**kafka_asked_for()) as running:
        yield running


@pytest.fixture
def lines(caplog):
    """What onceflow says."""
    caplog.set_level(logging.INFO, "onceflow")
    return lambda: [record.getMessage() for record in caplog.records]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def said(lines, pattern):
    return any(re.search(pattern, line) for line in lines())


# ---- while a connection is open ----


@pytest.mark.parametrize("how", ["stopped", pytest.param("killed", marks=pytest.mark.faults)])
def test_a_broker_that_falls_silent_and_its_return_are_told(own, lines, how):
    """With its address and the reason, whoever waits for it; one line each. Nor is the job ready in between."""
    address, health = own.bootstrap_servers, Health(1.0, time.monotonic)
    running = JobStatus("orders", "file:/checkpoint", "RUNNING")
    health.heard()
    with KafkaClient(of.KafkaCluster(address)):
        assert health.reasons(running) == []
        if how == "stopped":
            own.pause()
        else:
            own.kill()
        try:
            wait_until(lambda: said(lines, f"{address} gives no answer"), what="the line of its silence")
            wait_until(lambda: health.reasons(running), what="a job that is not ready")
            assert f"Kafka broker {address} gives no answer" in health.reasons(running)[0]
            health.heard()  # another broker does its work
            assert health.reasons(running) == []
        finally:
            own.resume() if how == "stopped" else own.restart()
        wait_until(lambda: said(lines, f"{address} is back"), what="the line of its return")
        wait_until(lambda: not silence.lasting(None), what="that nothing is silent")
    reason = "takes the connection and gives no answer" if how == "stopped" else "connection refused"
    assert [line for line in lines() if "gives no answer (" in line and reason in line]
    assert sum("is back after" in line for line in lines()) == 1


def test_nothing_is_watched_when_the_last_connection_is_closed(own, lines):
    """The thread ends; a second close does no harm."""
    cluster = of.KafkaCluster(own.bootstrap_servers)
    first, second = KafkaClient(cluster), KafkaClient(cluster)
    first.close()
    first.close()
    assert cluster in watch._watches
    second.close()
    assert cluster not in watch._watches


# ---- before there is one ----


def test_what_is_connected_to_is_said_at_once_and_only_once(own, lines, monkeypatch):
    """Also where no broker ever answers."""
    monkeypatch.setattr(connecting, "_announced", set())
    cluster = of.KafkaCluster(own.bootstrap_servers)
    for _ in range(2):
        cluster.admin().close()
    assert lines().count(f"connecting to Kafka at {own.bootstrap_servers}") == 1


def test_a_start_without_a_broker_says_what_it_waits_for(own, lines):
    """The address, the reason and until when; the error at the end has them, too, and the right address is let in."""
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(KafkaUnavailableError, match="ECONNREFUSED") as raised:
        of.KafkaCluster(address).admin(timeout_s=5)
    assert said(lines, rf"no broker answers yet \({address}: connection refused.*\), trying until \d\d:\d\d:\d\d")
    assert raised.value.retriable
    error = parts_of(raised.value, KafkaUnavailableError, f"bootstrap_servers={address}", "security_protocol=PLAINTEXT")
    assert error.action.startswith("check that the address")
    of.KafkaCluster(own.bootstrap_servers).admin().close()


def test_an_unknown_host_is_told_by_its_name(lines):
    """Beside one where nobody listens: each address has its own reason."""
    port = free_port()
    servers = f"no-such-host.invalid:9092,127.0.0.1:{port}"
    with pytest.raises(KafkaUnavailableError, match=r"no-such-host\.invalid"):
        of.KafkaCluster(servers).admin(timeout_s=5)
    assert said(
        lines, rf"no-such-host\.invalid:9092: (there is no host|its name was not).*127.0.0.1:{port}: connection re"
    )


def test_a_start_goes_on_when_the_broker_comes(own, lines):
    """A line says that it answers, after the one that it did not."""
    address = own.bootstrap_servers
    own.kill()
    try:
        found = []
        opening = threading.Thread(target=lambda: found.append(of.KafkaCluster(address).admin(timeout_s=60)))
        opening.start()
        wait_until(lambda: said(lines, "no broker answers yet"), what="the line")
    finally:
        own.restart()
    opening.join(60)
    found[0].close()
    assert said(lines, f"Kafka at {address} answers")


# ---- settings that are not the listener's ----


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """A broker with a listener of each protocol."""
    folder = tmp_path_factory.mktemp("pem")
    authority = certificate("authority")
    server = certificate("broker", signed_by=authority)
    (folder / "ca").write_text(pem(authority[0]))
    (folder / "server").write_text(pem(server[0]) + pem(server[1]))
    module = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_job="hunter2";'
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server"),
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": module,
        "listener.name.both.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.both.plain.sasl.jaas.config": module,
    }
    listeners = {"TLS": "SSL", "LOGIN": "SASL_PLAINTEXT", "BOTH": "SASL_SSL"}
    with DevCluster(settings=settings, extra_listeners=listeners, **kafka_asked_for()) as running:
        at = {"PLAINTEXT": running.bootstrap_servers}
        at |= {protocol: running.bootstrap(name) for name, protocol in listeners.items()}
        yield at, str(folder / "ca")


def client_of(protocol, address, ca):
    login = LOGIN if protocol.startswith("SASL") else {}
    tls = {"ssl_ca": ca} if protocol.endswith("SSL") else {}
    return of.KafkaCluster(address, security_protocol=protocol, **login, **tls)


PROTOCOLS = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
OURS = [each if each == "SSL" else pytest.param(each, marks=pytest.mark.faults) for each in PROTOCOLS]


@pytest.mark.parametrize(
    "ours", ["SSL", *(pytest.param(each, marks=pytest.mark.faults) for each in PROTOCOLS if each != "SSL")]
)
def test_a_listener_of_another_protocol_is_named(several, ours):
    """Each client at each listener: the error names both protocols and the address, never a secret; none waits."""
    at, ca = several
    for theirs, address in at.items():
        cluster = client_of(ours, address, ca)
        if theirs == ours:
            cluster.admin(timeout_s=20).close()
            assert look_at(cluster, [address])[address].why == ""
            continue
        with pytest.raises(
            ConfigurationError, match=f"{address}: it speaks {theirs}, and security_protocol is {ours}"
        ) as raised:
            cluster.admin(timeout_s=60)
        assert f"security_protocol='{theirs}'" in raised.value.action
        assert "hunter2" not in str(raised.value)
        assert not raised.value.retriable


def test_a_mechanism_that_the_listener_does_not_have_is_named(several):
    """With those that it has."""
    at, _ = several
    cluster = of.KafkaCluster(
        at["SASL_PLAINTEXT"], security_protocol="SASL_PLAINTEXT", **LOGIN | {"sasl_mechanism": "SCRAM-SHA-256"}
    )
    with pytest.raises(ConfigurationError, match="one logs in there by PLAIN, and sasl_mechanism is SCRAM-SHA-256"):
        cluster.admin(timeout_s=60)


# ---- a job ----


@pytest.mark.spark
def test_a_running_job_says_that_its_broker_is_gone_and_goes_on_when_it_is_back(own, tmp_path, processes):
    """In its log, by the address; then it writes what came meanwhile, each record once."""
    cluster = of.KafkaCluster(own.bootstrap_servers)
    admin = cluster.admin()
    for topic in ("silent-in", "silent-out"):
        admin.create_topics([NewTopic(topic, 2, 1)])
        admin.wait_for_topics([topic])
    admin.close()
    p = Pipeline(cluster, "silent-in", "silent-out", tmp_path / "checkpoint")
    p.send(100)
    process = p.start(UNTIL="stopped")
    processes.append(process)
    log = process.log
    wait_until(lambda: "epoch 0: 100 in" in log.read_text(), 120, "the first epoch")
    assert f"connecting to Kafka at {own.bootstrap_servers}" in log.read_text()
    own.pause()
    try:
        wait_until(
            lambda: f"{own.bootstrap_servers} gives no answer" in log.read_text(), what="the line of its silence"
        )
    finally:
        own.resume()
    wait_until(lambda: f"{own.bootstrap_servers} is back" in log.read_text(), what="the line of its return")
    p.send(100)
    wait_until(lambda: len(p.read()) == 200, 120, "the second hundred")
    process.terminate()
    p.end(process)
    p.check_output()
