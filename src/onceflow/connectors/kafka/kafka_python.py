"""Every use of what kafka-python keeps private, each with its reason, and a check that it is there.

Must not know: topics, transactions, whose login it is. All of it was seen in kafka-python 3.0.12 (``KNOWN``): another
version may have changed it, so what is used is asked for before anything is sent.

* ``KafkaAdminClient._manager``, ``KafkaNetClient._manager``: the only way to send requests that have no method, and to
  give up waiting for an answer without closing the connection that others wait at (``wait_for``).
* ``KafkaConnectionManager.get_connection``: nothing public tells why a connection failed.
* ``KafkaConnectionManager._build_transport``, ``_sock_recv`` of its transports: what a broker says before it hangs up
  is dropped.
* ``KafkaConnectionManager._net``: a client whose construction failed leaves its thread running.
* The loggers of its connections: at level DEBUG they write each request, and its bytes, so passwords and tokens too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import kafka.errors as kafka_errors
from kafka.admin import KafkaAdminClient
from kafka.net import transport as transports
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslBytesRequest

from onceflow.connectors.kafka.login_refused import is_refused_certificate
from onceflow.errors import ConfigurationError

KNOWN = "3.0.12"

_REFUSED_LOGIN = (
    kafka_errors.AuthorizationError,
    kafka_errors.IllegalSaslStateError,
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
)


def _shows_no_login(record: logging.LogRecord) -> bool:
    """Whether a line may be logged: not a request that logs in, and no bytes of any, which may be of one."""
    secret = (SaslAuthenticateRequest, SaslBytesRequest, bytes, bytearray, memoryview)
    return not any(isinstance(arg, secret) for arg in record.args or ())


for _name in ("kafka.protocol.parser", "kafka.net.connection"):
    logging.getLogger(_name).addFilter(_shows_no_login)


def open_admin(config: dict[str, Any], timeout_s: float, failures: list[Exception]) -> Any:
    """A KafkaAdminClient; why connections failed is added to ``failures``.

    Raises:
        kafka.errors.KafkaTimeoutError: No connection in time; nothing is left open.
        ConfigurationError: Something private that is used is not there.
    """
    for owner in (transports.KafkaTCPTransport, transports.KafkaSSLTransport):
        _inside(owner, "_sock_recv")
    for name in ("get_connection", "_build_transport", "send", "run", "wait_for"):
        _inside(KafkaConnectionManager, name)
    opened: list[Any] = []

    def watched_client(**client_config: Any) -> Any:
        client = KafkaNetClient(**client_config)
        opened.append(client)
        manager = _inside(client, "_manager")
        connect, build_transport = manager.get_connection, manager._build_transport  # noqa: SLF001

        def watched(*args: Any, **kwargs: Any) -> Any:
            connection = connect(*args, **kwargs)
            connection.init_future.add_errback(failures.append)
            return connection

        async def last_words(*args: Any, **kwargs: Any) -> Any:
            transport = await build_transport(*args, **kwargs)
            transport._sock_recv = _data_before_error(transport._sock_recv)  # noqa: SLF001
            return transport

        manager.get_connection, manager._build_transport = watched, last_words  # noqa: SLF001
        return client

    try:
        admin = KafkaAdminClient(**config, bootstrap_timeout_ms=int(timeout_s * 1000), kafka_client=watched_client)
    except BaseException:
        for client in opened:
            client.close()
            _inside(_inside(client, "_manager"), "_net").stop()
        raise
    del manager_of(admin).get_connection  # back to the class's own
    return admin


def manager_of(admin: Any) -> Any:
    """What sends any request to any broker, and knows which versions the brokers have."""
    manager = _inside(admin, "_manager")
    _inside(manager, "broker_version_data")
    return manager


def is_refused_login(failure: Exception) -> bool:
    """Whether a connection failed since the broker refused who we are."""
    return isinstance(failure, _REFUSED_LOGIN) or is_refused_certificate(failure)


def _inside(owner: Any, name: str) -> Any:
    """Something private, or an error that says that it is gone."""
    try:
        return getattr(owner, name)
    except AttributeError:
        kind = owner if isinstance(owner, type) else type(owner)
        raise ConfigurationError(
            f"this kafka-python is not what onceflow knows: {kind.__name__} has no {name}",
            cause=f"kafka-python is {version('kafka-python')}; without this no request reaches the right broker, or "
            "nobody learns why a login failed",
            action=f"install kafka-python {KNOWN}",
        ) from None


def _data_before_error(receive: Callable[[], tuple[bytes, Any]]) -> Callable[[], tuple[bytes, Any]]:
    """Hand out what was received before the connection's end; the end is met again by the next call.

    kafka-python drops it. A broker says why it refuses a login and hangs up in one breath, so the reason was lost more
    often than not; so would be an answer that a broker gives before it stops.
    """

    def received() -> tuple[bytes, Any]:
        data, error = receive()
        return data, None if data else error

    return received
