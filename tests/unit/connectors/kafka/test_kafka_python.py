"""What kafka-python keeps private: a version that has changed it is refused, with its name."""

import logging

import pytest
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaTCPTransport
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslBytesRequest

from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.errors import ConfigurationError


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (KafkaTCPTransport, "_sock_recv"),
        (KafkaConnectionManager, "get_connection"),
        (KafkaConnectionManager, "_build_transport"),
        (KafkaConnectionManager, "send"),
    ],
)
def test_a_changed_inside_is_refused_before_anything_is_sent(monkeypatch, owner, name):
    """Not met in the middle of a commit, and not taken for a broker that does not answer."""
    monkeypatch.delattr(owner, name)
    with pytest.raises(ConfigurationError, match=f"{owner.__name__} has no {name}"):
        KafkaCluster("127.0.0.1:1").admin(timeout_s=30)


def test_a_client_without_a_manager_is_refused(monkeypatch):
    """It is made anew for each connection, so it is asked then."""

    def bare(self, **_):
        """As a version that keeps its connections elsewhere would."""

    monkeypatch.setattr(KafkaNetClient, "__init__", bare)
    monkeypatch.setattr(KafkaNetClient, "close", bare)
    with pytest.raises(ConfigurationError, match="KafkaNetClient has no _manager"):
        KafkaCluster("127.0.0.1:1").admin(timeout_s=30)


@pytest.mark.parametrize("kind", [SaslAuthenticateRequest, SaslBytesRequest])
def test_a_login_is_in_no_log(caplog, kind):
    """At level DEBUG kafka-python logs each request, and its bytes: of PLAIN the password, of OAUTHBEARER the token."""
    parser = KafkaProtocol(client_id="c")
    with caplog.at_level(logging.DEBUG):
        login = kind(b"\0user\0hunter2")
        if kind is SaslAuthenticateRequest:
            login.API_VERSION = 2
        parser.send_request(login)
        assert b"hunter2" in parser.send_bytes()
        logging.getLogger("kafka.net.connection").debug("%s Request %d: %s", "c", 1, login)
        request = MetadataRequest(topics=[])
        request.API_VERSION = 10
        parser.send_request(request)
    assert "MetadataRequest" in caplog.text
    assert "hunter2" not in caplog.text
