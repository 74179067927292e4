"""The dev cluster is a real Kafka that keeps its data through SIGKILL and cannot outlive its owner."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import onceflow
from onceflow.errors import ConfigurationError, SetupError
from onceflow.local.devcluster import FAST_EXPIRY, DevCluster
from onceflow.local.jars import broker_jars, java_executable

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """One broker for the tests that leave it running as it was."""
    with DevCluster(tmp_path_factory.mktemp("one"), settings=FAST_EXPIRY) as cluster:
        yield cluster


def until(condition, seconds=30.0):
    """Poll ``condition`` until it holds, and fail if it does not in time."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)
    return found


def is_gone(pid):
    """No such process, or a zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() == b""
    except OSError:
        return True


def create(servers, topic, replicas=1):
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1, replicas)])[topic].result(20)


def produce(servers, topic, values):
    """Produce in one transaction."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic, "enable.sparse.connections": False})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.commit_transaction(30)


def consume(servers, topic, count):
    """The first ``count`` committed values."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"{topic}-{os.getpid()}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    values: list[str] = []

    def all_there():
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value().decode())
        return len(values) >= count

    try:
        until(all_there)
    finally:
        consumer.close()
    return values


def test_records_survive_a_sigkill_and_the_address_stays(one):
    """Committed transactions are there after SIGKILL and restart, under the same port."""
    servers = one.bootstrap_servers
    create(servers, "kept")
    produce(servers, "kept", ["a", "b"])
    pid = one.pid()
    one.kill()
    assert one.pid() is None
    assert is_gone(pid)
    with pytest.raises(SetupError, match="broker 0 does not run"):
        one.pause()
    one.restart()
    assert one.bootstrap_servers == servers
    produce(servers, "kept", ["c"])
    assert consume(servers, "kept", 3) == ["a", "b", "c"]


def test_it_listens_on_this_machine_only(one):
    """Every listening socket of the broker is bound to 127.0.0.1."""
    ports = {
        port for named in json.loads((one.data_dir / "cluster.json").read_text())["ports"] for port in named.values()
    }
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    listening = {
        line[1].partition(":")[0] for line in lines if line[3] == "0A" and int(line[1].partition(":")[2], 16) in ports
    }
    # IPv4, or IPv4 written as IPv6; addresses are little-endian hex
    assert listening
    assert all(address.endswith("0100007F") for address in listening)


def test_a_paused_broker_answers_nothing_until_resumed(one):
    """SIGSTOP keeps the port open and the broker silent; SIGCONT brings it back with the same process."""
    pid = one.pid()
    one.pause()
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": one.bootstrap_servers, "log_level": 0}).list_topics(timeout=1)
    one.resume()
    assert AdminClient({"bootstrap.servers": one.bootstrap_servers}).list_topics(timeout=20).brokers
    assert one.pid() == pid


def test_a_second_start_on_the_same_directory_is_refused(one):
    """The error names the owner's pid and the directory, and the first cluster goes on."""
    with pytest.raises(SetupError) as refused:
        DevCluster(one.data_dir).start()
    assert f"process {os.getpid()}" in str(refused.value)
    assert str(one.data_dir) in str(refused.value)
    assert one.pid() is not None


def test_another_number_of_brokers_is_refused(tmp_path):
    """1 or 3, and a directory keeps the number it was made with."""
    with pytest.raises(ConfigurationError, match="1 or 3"):
        DevCluster(brokers=2)
    (tmp_path / "cluster.json").write_text(json.dumps({"cluster_id": "x", "ports": [{}]}))
    with pytest.raises(ConfigurationError, match=r"has 1 broker\(s\), not 3"):
        DevCluster(tmp_path, brokers=3).start()


@pytest.mark.faults
def test_a_folder_of_any_name(tmp_path):
    """Data and log lie in the folder that was named, whatever it is called; one that Kafka cannot have is refused."""
    folder = tmp_path / "my broker %20#ü 日本 😀\\n"
    with DevCluster(folder):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [folder.name]
    assert {"data", "metadata", "server.log"} <= {path.name for path in (folder / "broker-0").iterdir()}
    with pytest.raises(ConfigurationError, match="comma"):
        DevCluster(tmp_path / "a,b")


def test_a_taken_port_is_named(tmp_path):
    """Nothing is started on a port that another program holds."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SetupError, match=f"port {port} .* is taken"):
            DevCluster(tmp_path, port=port).start()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"num.io.threads": "none"}, r"could not format the storage of broker 0[\s\S]*num\.io\.threads"),
        ({"authorizer.class.name": "no.such.Class"}, r"ended right after its start[\s\S]*no\.such\.Class"),
    ],
)
def test_a_setting_that_kafka_refuses_is_told(tmp_path, setting, words):
    """A broker that does not come up is an error with Kafka's own words, and leaves the directory free."""
    with pytest.raises(SetupError, match=words):
        DevCluster(tmp_path, settings=setting).start()
    cluster = DevCluster(tmp_path)
    cluster._take_lock()
    cluster._free_lock()


def test_an_extra_listener_asks_for_a_password(tmp_path):
    """A second listener with SASL gets its own port; the wrong password is refused there, the right one works."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.asking.plain.sasl.jaas.config": f'{login} user_ada="right";',
    }
    with DevCluster(tmp_path, settings=settings, extra_listeners={"ASKING": "SASL_PLAINTEXT"}) as cluster:
        assert cluster.bootstrap("ASKING") != cluster.bootstrap_servers
        client = {
            "bootstrap.servers": cluster.bootstrap("ASKING"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ada",
            "log_level": 0,
        }
        assert AdminClient({**client, "sasl.password": "right"}).list_topics(timeout=20).brokers
        with pytest.raises(KafkaException):
            AdminClient({**client, "sasl.password": "wrong"}).list_topics(timeout=1)


OWNER = """
import signal, sys
from onceflow.local.devcluster import DevCluster
print(DevCluster(sys.argv[1]).start().pid(), flush=True)
signal.pause()
"""


def test_no_broker_outlives_a_killed_parent(tmp_path):
    """The parent dies by SIGKILL and can clean up nothing; its broker is gone, and the directory is free again."""
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            OWNER,
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        broker = int(parent.stdout.readline())
        assert not is_gone(broker)
        parent.send_signal(signal.SIGKILL)
    cluster = DevCluster(tmp_path)
    cluster._take_lock()
    assert is_gone(broker)
    cluster._free_lock()


@pytest.mark.faults
def test_three_brokers_form_a_cluster_that_survives_the_loss_of_one():
    """With one of three killed, transactions still commit and are read; the killed one comes back."""
    with DevCluster(brokers=3) as cluster:
        servers = cluster.bootstrap_servers
        assert servers.count(",") == 2
        create(servers, "three", replicas=3)
        produce(servers, "three", ["a"])
        cluster.kill(1)
        produce(servers, "three", ["b"])
        assert consume(servers, "three", 2) == ["a", "b"]
        cluster.restart(1)
        assert cluster.pid(1) is not None
        temporary = cluster.data_dir
    assert not temporary.exists()


def dev(*words, **more):
    """Run ``onceflow dev …`` as its own process."""
    return subprocess.run(
        [sys.executable, "-m", "onceflow.cli.main", "dev", *words],
        **more,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_dev_up_stays_until_down(tmp_path):
    """``up`` returns and the broker stays; ``status`` finds it, a second ``up`` says that it runs; ``down`` ends it."""
    where = ("--data-dir", str(tmp_path), "--output", "json")
    assert json.loads(dev("status", *where).stdout)["running"] is False
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    up = dev("up", "--port", str(port), *where)
    try:
        state = json.loads(up.stdout)
        assert state["running"] is True
        assert state["bootstrap_servers"] == f"127.0.0.1:{port}"
        pid = state["brokers"][0]["pid"]
        create(f"localhost:{port}", "from-outside")
        assert dev("status", *where).returncode == 0
        for again in (dev("up", *where), dev("up", "--port", str(port), "--brokers", "1", *where)):
            assert again.returncode == 0, again.stderr
            assert json.loads(again.stdout) == state
        folder = ("--data-dir", str(tmp_path))
        assert "topic orders with 2 partitions" in dev("topic", "orders", "--partitions", "2", *folder).stdout
        again = dev("topic", "orders", *folder)
        assert again.returncode == 1
        assert "topic orders was not made" in again.stderr
        wrote = dev("produce", "orders", "--key-before", "=", *folder, input="k1=a=1\nno key\n")
        assert wrote.returncode == 0, wrote.stderr
        read = [json.loads(line) for line in dev("consume", "orders", *where).stdout.splitlines()]
        assert {(each["key"], each["value"]) for each in read} == {("k1", "a=1"), (None, "no key")}
        assert sorted(dev("consume", "orders", *folder).stdout.splitlines()) == ["\tno key", "k1\ta=1"]
        for missing in (("produce", "nowhere"), ("consume", "nowhere")):
            assert "there is no topic nowhere" in dev(*missing, *folder, input="").stderr
        for other in (("--brokers", "3"), ("--port", str(port + 1)), ("--sasl-ssl",)):
            refused = dev("up", *other, *where)
            assert refused.returncode == 1
            assert "runs already, and not as asked" in refused.stderr
    finally:
        down = dev("down", *where)
    assert json.loads(down.stdout) == {"stopped": [pid]}
    assert is_gone(pid)
    assert dev("status", *where).returncode == 1
    assert json.loads(dev("down", *where).stdout) == {"stopped": []}


def connects(lines):
    """Run what a user would paste, and connect as the driver and the writers do."""
    names = {"onceflow": onceflow}
    exec("\n".join(lines), names)  # noqa: S102 - as above
    admin = names["kafka"].admin()
    admin.close()
    assert Producer(names["kafka"].for_librdkafka()).list_topics(timeout=30).brokers


@pytest.mark.faults
def test_dev_up_with_a_login(tmp_path):
    """The lines that ``up --sasl-ssl`` prints connect, in Python and for Kafka's tools; its secret is in no log.

    ``--mechanism`` prints those of SCRAM, also where it runs already, and Kafka's tools then log in by it.

    The listener is there again after ``down`` and a plain ``up``.
    """
    directory = tmp_path / "dev with a space"
    where = ("--data-dir", str(directory))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    try:
        first = dev("up", "--sasl-ssl", "--port", str(port), *where)
        assert first.returncode == 0, first.stderr
        assert json.loads(dev("down", *where, "--output", "json").stdout)["stopped"]
        told = dev("up", *where)
        assert told.stdout.partition("with TLS")[2] == first.stdout.partition("with TLS")[2]
        login = json.loads(dev("status", *where, "--output", "json").stdout)["login"]

        lines = [line.strip() for line in told.stdout.partition("with TLS")[2].splitlines()[1:]]
        *python, console = lines
        connects(python)
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            again = dev("up", "--mechanism", mechanism, *where)
            assert again.returncode == 0, again.stderr
            lines = [line.strip() for line in again.stdout.partition("with TLS")[2].splitlines()[1:]]
            assert f'sasl_mechanism="{mechanism}",' in lines
            connects(lines[:-1])

        words = shlex.split(console)[1:-1]  # without the tool, which is not among our jars, and what it is to do
        assert words == [
            "--bootstrap-server",
            login["bootstrap_servers"],
            "--command-config",
            login["client_properties"],
        ]
        tool = [java_executable(), "-cp", os.pathsep.join(map(str, broker_jars())), "kafka.admin.ConfigCommand", *words]
        asked = [*tool, "--describe", "--entity-type", "brokers", "--entity-name", "0"]
        found = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
        assert found.returncode == 0, found.stdout + found.stderr

        secret = Path(login["password_file"]).read_bytes()
        assert secret.decode() not in first.stdout + first.stderr + told.stdout + told.stderr
        holding = {path for path in directory.rglob("*") if path.is_file() and secret in path.read_bytes()}
        assert {path.name for path in holding} == {"password", "client.properties", "server.properties"}
        assert {path.stat().st_mode & 0o777 for path in holding} == {0o600}
        assert (directory / "login").stat().st_mode & 0o777 == 0o700
    finally:
        dev("down", *where)


def test_down_kills_no_stranger(tmp_path):
    """A pid file that now names another program's process is not believed."""
    (tmp_path / "broker-0").mkdir()
    (tmp_path / "cluster.json").write_text(json.dumps({"cluster_id": "x", "ports": [{"PLAINTEXT": 1}]}))
    with subprocess.Popen(["sleep", "60"]) as stranger:
        (tmp_path / "broker-0" / "pid").write_text(str(stranger.pid))
        assert json.loads(dev("down", "--data-dir", str(tmp_path), "--output", "json").stdout) == {"stopped": []}
        assert stranger.poll() is None
        stranger.terminate()


def test_a_cluster_id_that_looks_like_an_option_is_taken(tmp_path, monkeypatch):
    """Kafka's ids are base64url: one of 64 begins with "-", which the storage tool would take for an option."""

    class Dashed:
        bytes = b"\xfb" * 16

    monkeypatch.setattr("onceflow.local.devcluster.cluster.uuid.uuid4", lambda: Dashed)
    with DevCluster(tmp_path / "data"):
        assert json.loads((tmp_path / "data" / "cluster.json").read_text())["cluster_id"].startswith("-")
