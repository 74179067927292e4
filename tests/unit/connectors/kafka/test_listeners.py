"""What is told of an address where no broker answers, by sockets that behave like what may stand there."""

import contextlib
import socket
import threading

import pytest

from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.listeners import in_words, look_at, unanswered


@contextlib.contextmanager
def standing(behave):
    """Something that listens: ``behave(connection)`` is called with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = threading.Event()

        def serve():
            while not ended.is_set():
                with contextlib.suppress(OSError):
                    connection, _ = server.accept()
                    with connection:
                        behave(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        port = server.getsockname()[1]
        yield f"127.0.0.1:{port}"
        ended.set()
        with socket.create_connection(("127.0.0.1", port)):
            pass
        thread.join()


def why(address, **settings):
    return look_at(KafkaCluster(address, **settings), [address])[address]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_nothing_listens():
    """The usual case: by Kafka's clients' word for it, too."""
    look = why(f"127.0.0.1:{free_port()}")
    assert look.why == "connection refused (ECONNREFUSED): nothing listens there"
    assert not look.is_mistake


def test_a_host_that_is_not_known():
    """By its name; where looking it up takes long, that is said instead."""
    look = why("no-such-host.invalid:9092")
    assert look.why.startswith(("there is no host no-such-host.invalid", "its name was not looked up"))


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_somebody_who_takes_the_connection_and_is_silent(protocol):
    """A stopped process: its kernel still takes connections."""
    ended = threading.Event()
    with standing(lambda _: ended.wait()) as address:
        assert why(address, security_protocol=protocol).why == "it takes the connection and gives no answer"
        assert unanswered(KafkaCluster(address), [address])
        ended.set()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "it hangs up"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "what listens there is no Kafka broker"),
        (b"220 smtp.example ready\r\n", "what listens there is no Kafka broker"),
        (b"\x15\x03\x03\x00\x02\x02\x0a", "it speaks TLS"),
        (b"\x00\x00\x00\x0a\x00", "it hangs up"),
    ],
)
def test_somebody_who_is_no_broker(answer, said):
    """A proxy without a broker behind it, a web server, another service, one that speaks TLS to nobody."""

    def behave(connection):
        connection.recv(1_000)
        connection.sendall(answer)

    with standing(behave) as address:
        look = why(address)
        assert said in look.why
        assert not look.is_mistake
        assert unanswered(KafkaCluster(address), [address])


def test_all_addresses_are_looked_at_together():
    """Each has its own reason, in the order in which they are given."""
    ports = [free_port() for _ in range(2)]
    servers = f"127.0.0.1:{ports[0]},no-such-host.invalid:1,127.0.0.1:{ports[1]}"
    looks = look_at(KafkaCluster(servers), servers.split(","))
    assert list(looks) == servers.split(",")
    assert in_words(looks).count("connection refused") == 2
