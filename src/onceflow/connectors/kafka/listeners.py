"""What listens at a broker's address, asked by plain sockets: why it gives no answer, and which protocol it speaks.

Kafka's clients tell one that a connection failed; not of which address, nor that a listener was addressed in the wrong
protocol. No login is ever sent from here.

Must not know: any client's library, topics, transactions.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from onceflow.options.given import plain

if TYPE_CHECKING:
    from onceflow.connectors.kafka.cluster import KafkaCluster

LOOKS_FOR_S = 2.0

_API_VERSIONS, _SASL_HANDSHAKE = 18, 17
_NO_MECHANISM = 33  # UNSUPPORTED_SASL_MECHANISM: with the list of those that there are
_NO_SASL = 34  # ILLEGAL_SASL_STATE: a listener without logins
_TLS_ALERT, _HTTP = b"\x15\x03", b"HTTP"
_LARGEST = 1 << 20

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Look:
    """What was found at an address.

    Attributes:
        why: Why a client with the cluster's settings gets no answer; empty where it gets one.
        protocol: What the listener speaks, where that is another than the client's.
        mechanisms: How one may log in there, where the client's mechanism is none of them.
    """

    why: str = ""
    protocol: str = ""
    mechanisms: tuple[str, ...] = ()

    @property
    def is_mistake(self) -> bool:
        """Waiting mends nothing: a setting is not that of the listener."""
        return bool(self.protocol or self.mechanisms)


class _NoAnswerError(Exception):
    """Why there was no answer, in words."""


class _OtherProtocolError(_NoAnswerError):
    """Somebody answered, but not in this protocol."""


def addresses_of(servers: str) -> list[str]:
    """Each ``host:port`` of ``KafkaCluster.bootstrap_servers``."""
    return servers.split(",")


def look_at(cluster: KafkaCluster, addresses: Sequence[str]) -> dict[str, Look]:
    """Look at all at once; after two seconds each has an answer, if only that there was none.

    Args:
        cluster: How its clients would speak there.
        addresses: Where.
    """
    late = Look(f"its name was not looked up in {LOOKS_FOR_S:g} s")
    return _together(lambda address, deadline: _look(cluster, address, deadline), addresses, late)


def unanswered(cluster: KafkaCluster, addresses: Sequence[str]) -> dict[str, str]:
    """Those of the addresses where nobody answers now, and why; asked as ``look_at`` does."""
    found = _together(lambda address, deadline: _silence(cluster, address, deadline), addresses, "no answer")
    return {address: why for address, why in found.items() if why}


def _together(ask: Callable[[str, float], Found], addresses: Sequence[str], late: Found) -> dict[str, Found]:
    found: dict[str, Found] = {}

    def run(address: str) -> None:
        found[address] = ask(address, deadline)

    deadline = time.monotonic() + LOOKS_FOR_S
    threads = [threading.Thread(target=run, args=(a,), name="onceflow-look", daemon=True) for a in addresses]
    for thread in threads:
        thread.start()
    for thread in threads:  # looking up a name cannot be cut short
        thread.join(max(0.0, deadline + 0.2 - time.monotonic()))
    return {address: found.get(address, late) for address in addresses}


def _silence(cluster: KafkaCluster, address: str, deadline: float) -> str:
    try:
        with _opened(address, _context(cluster), deadline) as connection:
            _ask(connection, _API_VERSIONS, 0, b"", deadline)
    except _NoAnswerError as error:
        return str(error)
    return ""


def in_words(looks: Mapping[str, Look]) -> str:
    """Reasons by address, in one line."""
    return "; ".join(f"{address}: {look.why or 'it answers'}" for address, look in looks.items())


def _look(cluster: KafkaCluster, address: str, deadline: float) -> Look:
    ours = cluster.security_protocol
    try:
        spoken, mechanisms = _speaks(address, _context(cluster), cluster.sasl_mechanism or "", deadline)
    except _OtherProtocolError as error:
        other = _stranger() if not ours.endswith("SSL") else None
        try:
            spoken, mechanisms = _speaks(address, other, cluster.sasl_mechanism or "", deadline)
        except _NoAnswerError:
            return Look(str(error))
    except _NoAnswerError as error:
        return Look(str(error))
    if spoken != ours:
        return Look(f"it speaks {spoken}, and security_protocol is {ours}", protocol=spoken)
    if mechanisms:
        why = f"one logs in there by {' or '.join(mechanisms)}, and sasl_mechanism is {cluster.sasl_mechanism}"
        return Look(why, mechanisms=mechanisms)
    return Look()


def _speaks(address: str, tls: ssl.SSLContext | None, mechanism: str, deadline: float) -> tuple[str, tuple[str, ...]]:
    """What a listener speaks, with or without TLS; and how one may log in, if not by this mechanism.

    Raises:
        _NoAnswerError: It cannot be told, and why.
    """
    named = mechanism.encode()
    with _opened(address, tls, deadline) as connection:
        try:
            _ask(connection, _API_VERSIONS, 0, b"", deadline)
        except _OtherProtocolError:
            if tls is None:
                raise
            return "SSL", ()  # it wants a certificate of ours
        # Any listener answers this without knowing who asks; a mechanism's name is no login.
        answer = _ask(connection, _SASL_HANDSHAKE, 1, struct.pack(">h", len(named)) + named, deadline)
    try:
        (code,) = struct.unpack_from(">h", answer, 4)
        mechanisms = _strings(answer, 6) if code == _NO_MECHANISM else ()
    except struct.error:
        raise _NoAnswerError("what listens there is no Kafka broker") from None
    protocol = ("" if code == _NO_SASL else "SASL_") + ("PLAINTEXT" if tls is None else "SSL")
    return protocol, mechanisms


def _context(cluster: KafkaCluster) -> ssl.SSLContext | None:
    """TLS as the cluster's clients would have it, or None."""
    if not cluster.security_protocol.endswith("SSL"):
        return None
    context = ssl.create_default_context(cafile=cluster.ssl_ca)
    if cluster.ssl_certificate is not None:
        with contextlib.suppress(ssl.SSLError, OSError):  # the clients say it
            context.load_cert_chain(cluster.ssl_certificate, cluster.ssl_key, plain(cluster.ssl_key_password))
    return context


def _stranger() -> ssl.SSLContext:
    """TLS with whoever is there: only to see that it is spoken, nothing is told to it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@contextlib.contextmanager
def _opened(address: str, tls: ssl.SSLContext | None, deadline: float) -> Iterator[socket.socket]:
    """A connection.

    Raises:
        _NoAnswerError: There is none, and why.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        connection = socket.create_connection((host, int(port)), _left(deadline))
    except socket.gaierror as error:
        raise _NoAnswerError(f"there is no host {host} ({error.strerror})") from None
    except TimeoutError:
        raise _NoAnswerError("nobody takes the connection") from None
    except ConnectionRefusedError:
        raise _NoAnswerError("connection refused (ECONNREFUSED): nothing listens there") from None
    except OSError as error:
        raise _NoAnswerError(f"no connection ({error.strerror or error})") from None
    with connection:
        if tls is None:
            yield connection
            return
        with _translating():
            connection.settimeout(_left(deadline))
            secured = tls.wrap_socket(connection, server_hostname=host)
        with secured:
            yield secured


def _ask(connection: socket.socket, key: int, version: int, body: bytes, deadline: float) -> bytes:
    """Send a request; its answer, without the length.

    Raises:
        _NoAnswerError: There is none, or not one of Kafka's.
    """
    name = b"onceflow"
    request = struct.pack(">hhih", key, version, 1, len(name)) + name + body
    with _translating():
        connection.settimeout(_left(deadline))
        connection.sendall(struct.pack(">i", len(request)) + request)
        head = _received(connection, 4)
        if head.startswith(_TLS_ALERT):
            raise _OtherProtocolError("it speaks TLS")
        (length,) = struct.unpack(">i", head)
        if head == _HTTP or not 6 <= length <= _LARGEST:
            raise _NoAnswerError("what listens there is no Kafka broker")
        return _received(connection, length)


def _received(connection: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        more = connection.recv(length - len(received))
        if not more:
            raise _OtherProtocolError("it hangs up without an answer")
        received += more
    return received


@contextlib.contextmanager
def _translating() -> Iterator[None]:
    """What a socket raises, in words."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        why = f"its certificate is not trusted (CERTIFICATE_VERIFY_FAILED: {error.verify_message})"
        raise _NoAnswerError(why) from None
    except TimeoutError:
        raise _NoAnswerError("it takes the connection and gives no answer") from None
    except ssl.SSLError as error:
        raise _OtherProtocolError(f"TLS cannot be agreed on ({error.reason or error})") from None
    except OSError as error:
        raise _OtherProtocolError(f"it hangs up ({error.strerror or error})") from None


def _strings(answer: bytes, at: int) -> tuple[str, ...]:
    (count,) = struct.unpack_from(">i", answer, at)
    at += 4
    found = []
    for _ in range(count):
        (length,) = struct.unpack_from(">h", answer, at)
        found.append(answer[at + 2 : at + 2 + length].decode(errors="replace"))
        at += 2 + length
    return tuple(found)


def _left(deadline: float) -> float:
    return max(0.05, deadline - time.monotonic())
