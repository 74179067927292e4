"""As much of Kafka's protocol as an auditor needs: who leads a partition, and its record batches as they are there.

Must not know: receipts, what the records are for. A client library hands out records, and keeps what is asked here:
which producer wrote a batch, and what is no record. So requests are made and answers read by hand, each version that is
fixed here being one that brokers from 2.8 to 4.x have.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import socket
import ssl
import struct
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar
from uuid import UUID

from onceflow.audit.records import BITS

_Answer = TypeVar("_Answer")
_FETCH, _LIST_OFFSETS, _METADATA, _HANDSHAKE, _CONFIGS, _AUTHENTICATE = 1, 2, 3, 17, 32, 36
_TIMEOUT_S = 30.0
EARLIEST, LATEST = -2, -1
OFFSET_OUT_OF_RANGE = 1
_MOVED = (3, 5, 6, 9, 100)  # the partition is not there yet, or has no leader, or another one
_MOVED_FOR_S, _PAUSE_S = 10.0, 0.25
_AT_ONCE = 1 << 20
_MOST_ROUNDS = 1_000_000
"""Of SCRAM. Kafka's own are 4,096 unless said otherwise; whoever says more wants our processor."""
_LARGEST = 1 << 28
"""Of a batch that was unpacked, in bytes: clients pack some megabytes, and a gigabyte of zeros is a page."""


class KafkaAnswerError(Exception):
    """A broker said no, or nothing that is understood."""


class _MovedError(KafkaAnswerError):
    """The broker that was asked does not lead the partition."""


def _refused(topic: str, partition: int, code: int) -> KafkaAnswerError:
    kind = _MovedError if code in _MOVED else KafkaAnswerError
    return kind(f"{topic}-{partition}: the broker answers with error {code}")


class _Reader:
    """Takes an answer apart, from its beginning to its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, form: str) -> Any:
        values = struct.unpack(">" + form, self.raw(struct.calcsize(">" + form)))
        return values[0] if len(values) == 1 else values

    def raw(self, length: int) -> bytes:
        if not 0 <= length <= len(self._data) - self._at:
            raise KafkaAnswerError("a broker's answer ends in the middle")
        self._at += length
        return self._data[self._at - length : self._at]

    def text(self) -> str | None:
        length = self.take("h")
        return None if length < 0 else self.raw(length).decode(errors="replace")

    def octets(self) -> bytes:
        length = self.take("i")
        return b"" if length < 0 else self.raw(length)

    def count(self) -> int:
        return max(0, int(self.take("i")))

    def varint(self) -> int:
        value = 0
        for shift in range(0, BITS, 7):
            octet = self.raw(1)[0]
            value |= (octet & 0x7F) << shift
            if octet < 0x80:
                return value
        raise KafkaAnswerError("a broker's answer has a number that is too long")

    def compact_text(self) -> str | None:
        length = self.varint()
        return None if length == 0 else self.raw(length - 1).decode(errors="replace")

    def compact_count(self) -> int:
        return max(0, self.varint() - 1)

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.raw(self.varint())


def _text(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">h", -1)
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


# -- a connection ---------------------------------------------------------------------------------


class _Connection:
    """One broker. Requests go one after the other."""

    def __init__(self, host: str, port: int, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._number = 0
        plain = socket.create_connection((host, port), _TIMEOUT_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        protocol = settings.get("security.protocol", "PLAINTEXT").upper()
        self._socket: socket.socket = (
            _tls(settings).wrap_socket(plain, server_hostname=host) if "SSL" in protocol else plain
        )
        try:
            if protocol.startswith("SASL"):
                self._log_in()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def ask(self, api: int, version: int, body: bytes, *, flexible: bool = False) -> _Reader:
        self._number += 1
        head = struct.pack(">hhi", api, version, self._number) + _text("onceflow-audit") + (b"\0" if flexible else b"")
        self._socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        (length,) = struct.unpack(">i", self._receive(4))
        answer = _Reader(self._receive(length))
        if answer.take("i") != self._number:
            raise KafkaAnswerError("a broker answered another request")
        if flexible:
            answer.tags()
        return answer

    def _receive(self, length: int) -> bytes:
        if length < 0:
            raise KafkaAnswerError("what listens there is no Kafka broker")
        data = bytearray()
        while len(data) < length:  # as it comes: of what is only said no room is made
            got = self._socket.recv(min(length - len(data), _AT_ONCE))
            if not got:
                raise KafkaAnswerError("a broker closed the connection: it may speak another security.protocol")
            data += got
        return bytes(data)

    def _log_in(self) -> None:
        mechanism = self._settings["sasl.mechanism"]
        answer = self.ask(_HANDSHAKE, 1, _text(mechanism))
        if answer.take("h"):
            offered = ", ".join(filter(None, (answer.text() for _ in range(answer.count()))))
            raise KafkaAnswerError(f"the broker takes no login by {mechanism}, but by {offered}")
        if mechanism == "PLAIN":
            self._say(f"\0{self._settings['sasl.username']}\0{self._settings['sasl.password']}".encode())
        elif mechanism == "OAUTHBEARER":
            self._say(f"n,,\x01auth=Bearer {_token(self._settings)}\x01\x01".encode())
        else:
            self._scram("sha256" if mechanism.endswith("256") else "sha512")

    def _say(self, said: bytes) -> bytes:
        answer = self.ask(_AUTHENTICATE, 1, struct.pack(">i", len(said)) + said)
        code, message = answer.take("h"), answer.text()
        if code:
            raise KafkaAnswerError(f"the broker refused the login: {message}")
        return answer.octets()

    def _scram(self, kind: str) -> None:
        """RFC 5802."""
        user = self._settings["sasl.username"].replace("=", "=3D").replace(",", "=2C")
        first = f"n={user},r={secrets.token_hex(16)}"
        try:
            challenge = self._say(f"n,,{first}".encode()).decode()
            told = dict(part.split("=", 1) for part in challenge.split(","))
            salt, rounds, nonce = base64.b64decode(told["s"]), int(told["i"]), told["r"]
        except (ValueError, KeyError):
            raise KafkaAnswerError("the broker's challenge is none of SCRAM's") from None
        if not 0 < rounds <= _MOST_ROUNDS:
            raise KafkaAnswerError(f"the broker asks for {rounds} rounds of SCRAM, and at most {_MOST_ROUNDS} are made")
        salted = hashlib.pbkdf2_hmac(kind, self._settings["sasl.password"].encode(), salt, rounds)
        client = hmac.digest(salted, b"Client Key", kind)
        last = f"c=biws,r={nonce}"
        whole = f"{first},{challenge},{last}".encode()
        signature = hmac.digest(hashlib.new(kind, client).digest(), whole, kind)
        proof = bytes(a ^ b for a, b in zip(client, signature, strict=True))
        answer = self._say(f"{last},p={base64.b64encode(proof).decode()}".encode())
        theirs = hmac.digest(hmac.digest(salted, b"Server Key", kind), whole, kind)
        if answer != b"v=" + base64.b64encode(theirs):
            raise KafkaAnswerError("the broker does not know the password that it took")


def _tls(settings: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.get("ssl.ca.location"))
    certificate = settings.get("ssl.certificate.location")
    if certificate:
        context.load_cert_chain(certificate, settings.get("ssl.key.location"), settings.get("ssl.key.password"))
    return context


def _token(settings: Mapping[str, str]) -> str:
    """By client credentials (RFC 6749, 4.4)."""
    asked = {"grant_type": "client_credentials"}
    if "sasl.oauthbearer.scope" in settings:
        asked["scope"] = settings["sasl.oauthbearer.scope"]
    who = f"{settings['sasl.oauthbearer.client.id']}:{settings['sasl.oauthbearer.client.secret']}"
    request = urllib.request.Request(  # noqa: S310 - the address is the job's own setting
        settings["sasl.oauthbearer.token.endpoint.url"],
        urllib.parse.urlencode(asked).encode(),
        {"Authorization": f"Basic {base64.b64encode(who.encode()).decode()}"},
    )
    context = _tls(settings) if request.type == "https" else None
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=context) as answer:  # noqa: S310 - likewise
        return str(json.load(answer)["access_token"])


# -- a cluster ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now: its id, and each partition's leader."""

    name: str
    id: str
    leaders: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Page:
    """What a fetch of one partition gave.

    Attributes:
        log_start: The first offset that is there.
        stable: The last stable offset: what readers of committed records see ends here.
        aborted: Aborted transactions that reach into the page: producer id, and first offset.
        records: Record batches, the last one perhaps cut short.
        refused: The offset is outside of the log.
    """

    log_start: int
    stable: int
    aborted: tuple[tuple[int, int], ...]
    records: bytes
    refused: bool = False


class Cluster:
    """A cluster, by a client's settings under librdkafka's names. A context manager: it holds connections.

    Raises:
        KafkaAnswerError, OSError: It was not reached, or refused.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._connections: dict[int, _Connection] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._first = self._connect_to_any()
        self.id = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        for connection in (self._first, *self._connections.values()):
            connection.close()

    def _connect_to_any(self) -> _Connection:
        said: list[str] = []
        for address in self._settings["bootstrap.servers"].split(","):
            host, _, port = address.strip().rpartition(":")
            try:
                return _Connection(host.strip("[]"), int(port), self._settings)
            except (OSError, KafkaAnswerError) as error:
                said.append(f"{address}: {error}")
        raise KafkaAnswerError("; ".join(said))

    def topic(self, name: str) -> Topic | None:
        """A topic as it is now, None where there is none."""
        data = name.encode()
        asked = (
            _varint(2) + bytes(16) + _varint(len(data) + 1) + data + b"\0" + struct.pack(">???", *([False] * 3)) + b"\0"
        )
        answer = self._first.ask(_METADATA, 10, asked, flexible=True)
        answer.take("i")
        for _ in range(answer.compact_count()):
            node, host, port = answer.take("i"), answer.compact_text(), answer.take("i")
            answer.compact_text()
            answer.tags()
            if host is not None:
                self._addresses[node] = (host, port)
        self.id = answer.compact_text() or ""
        answer.take("i")
        found = None
        for _ in range(answer.compact_count()):
            code, named, topic_id, _ = (
                answer.take("h"),
                answer.compact_text(),
                UUID(bytes=answer.raw(16)),
                answer.take("?"),
            )
            leaders = {}
            for _ in range(answer.compact_count()):
                _, number, leader, _ = answer.take("hiii")
                for _ in range(3):
                    answer.raw(4 * answer.compact_count())
                answer.tags()
                leaders[number] = leader
            answer.take("i")
            answer.tags()
            if code == 0 and named == name:
                found = Topic(name, str(topic_id), leaders)
        return found

    def compacts(self, name: str) -> bool:
        """Whether a topic is compacted."""
        asked = struct.pack(">ib", 1, 2) + _text(name) + struct.pack(">i", 1) + _text("cleanup.policy") + b"\0"
        answer = self._first.ask(_CONFIGS, 1, asked)
        answer.take("i")
        for _ in range(answer.count()):
            _, _, _, _ = answer.take("h"), answer.text(), answer.take("b"), answer.text()
            for _ in range(answer.count()):
                key, value = answer.text(), answer.text()
                answer.take("?b?")
                for _ in range(answer.count()):
                    _, _, _ = answer.text(), answer.text(), answer.take("b")
                if key == "cleanup.policy":
                    return "compact" in (value or "")
        return False

    def offset(self, topic: Topic, partition: int, when: int) -> int:
        """The earliest, or the latest offset, of the log as it is, not of what can be read."""
        return self._of_the_leader(topic, lambda now: self._offset(now, partition, when))

    def fetch(self, topic: Topic, partition: int, offset: int, most: int) -> Page:
        """What a reader of committed records gets from an offset on."""
        return self._of_the_leader(topic, lambda now: self._fetch(now, partition, offset, most))

    def _of_the_leader(self, topic: Topic, ask: Callable[[Topic], _Answer]) -> _Answer:
        """Ask the partition's leader, which may be another one since the topic was looked up."""
        deadline = time.monotonic() + _MOVED_FOR_S
        while True:
            try:
                return ask(topic)
            except _MovedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_S)
                now = self.topic(topic.name)
                topic = now if now is not None and now.id == topic.id else topic

    def _offset(self, topic: Topic, partition: int, when: int) -> int:
        asked = struct.pack(">ibi", -1, 0, 1) + _text(topic.name) + struct.pack(">iiiq", 1, partition, -1, when)
        answer = self._leader(topic, partition).ask(_LIST_OFFSETS, 5, asked)
        answer.take("i")
        for _ in range(answer.count()):
            answer.text()
            for _ in range(answer.count()):
                _, code, _, offset, _ = answer.take("ihqqi")
                if code:
                    raise _refused(topic.name, partition, code)
                return int(offset)
        raise KafkaAnswerError(f"{topic.name}-{partition}: the broker tells no offset")

    def _fetch(self, topic: Topic, partition: int, offset: int, most: int) -> Page:
        asked = (
            struct.pack(">iiiibii", -1, 250, 1, most, 1, 0, -1)
            + struct.pack(">i", 1)
            + _text(topic.name)
            + struct.pack(">iiiqqi", 1, partition, -1, offset, -1, most)
            + struct.pack(">i", 0)
            + _text("")
        )
        answer = self._leader(topic, partition).ask(_FETCH, 11, asked)
        answer.take("i")
        code, _ = answer.take("hi")
        for _ in range(answer.count()):
            answer.text()
            for _ in range(answer.count()):
                _, code, _, stable, log_start = answer.take("ihqqq")
                aborted = tuple(answer.take("qq") for _ in range(answer.count()))
                answer.take("i")
                records = answer.octets()
                if code == OFFSET_OUT_OF_RANGE:
                    return Page(log_start, stable, (), b"", refused=True)
                if code:
                    raise _refused(topic.name, partition, code)
                return Page(log_start, stable, aborted, records)
        raise KafkaAnswerError(f"{topic.name}-{partition}: the broker answers a fetch with error {code}")

    def _leader(self, topic: Topic, partition: int) -> _Connection:
        node = topic.leaders.get(partition, -1)
        if node not in self._addresses:
            raise _MovedError(f"{topic.name}-{partition} has no leader")
        if node not in self._connections:
            self._connections[node] = _Connection(*self._addresses[node], self._settings)
        return self._connections[node]


# -- record batches -------------------------------------------------------------------------------

_HEAD = struct.Struct(">qiibIhiqqqhii")
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_CODECS = {1: "gzip", 3: "lz4", 4: "zstd"}
_SNAPPY = 2
_MOST_SNAPPED = 64
"""So many bytes become one at most: three name a copy of sixty-four."""
_XERIAL = b"\x82SNAPPY\x00"


@dataclass(frozen=True, slots=True)
class Batch:
    """A record batch's head, and its records as bytes."""

    first: int
    last: int
    attributes: int
    base_time: int
    max_time: int
    producer: tuple[int, int]
    count: int
    data: bytes

    @property
    def is_transactional(self) -> bool:
        """Whether it is of a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it holds a transaction's mark, and no record."""
        return bool(self.attributes & _CONTROL)

    @property
    def commits(self) -> bool:
        """Whether that mark says COMMIT."""
        key = next((key for _, key, *_ in self.records()), None) if self.is_control else b""
        if key is None:
            raise KafkaAnswerError(f"the batch at offset {self.first} is to hold a transaction's mark, and has none")
        return key[2:4] == b"\x00\x01"

    def records(self) -> Iterator[tuple[int, bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]]:
        """Offset, key, value, time and headers of each record."""
        data = self.plain()
        at = 0
        own_time = not self.attributes & 0x08
        for _ in range(self.count):
            _, at = _signed(data, at)
            delta_t, at = _signed(data, at + 1)
            delta_o, at = _signed(data, at)
            key, at = _octets(data, at)
            value, at = _octets(data, at)
            some, at = _signed(data, at)
            headers: list[tuple[str, bytes | None]] = []
            for _ in range(some):
                name, at = _octets(data, at)
                content, at = _octets(data, at)
                headers.append(((name or b"").decode("utf-8", "replace"), content))
            yield self.first + delta_o, key, value, self.base_time + delta_t if own_time else self.max_time, headers

    def behind(self, offset: int) -> Batch:
        """Its records from an offset on: a broker hands out whole batches, and readers pass over what is before."""
        if self.first >= offset:
            return self
        data, at, left = self.plain(), 0, self.count
        while left:
            length, behind = _signed(data, at)
            _, delta_at = _signed(data, behind + 1)
            if self.first + _signed(data, delta_at)[0] >= offset:
                break
            if length < 0:
                raise KafkaAnswerError(f"the batch at offset {self.first} has a record of {length} bytes")
            at, left = behind + length, left - 1
        return replace(self, attributes=self.attributes & ~0x07, count=left, data=data[at:])

    def plain(self) -> bytes:
        """Its records, not compressed."""
        codec = self.attributes & 0x07
        if codec == 0:
            return self.data
        import pyarrow as pa  # noqa: PLC0415 - most topics are not compressed

        if codec == _SNAPPY:
            return _unsnapped(self.data)
        if codec not in _CODECS:
            raise KafkaAnswerError(f"the batch at offset {self.first} is packed by codec {codec}, which is none")
        with pa.CompressedInputStream(pa.BufferReader(self.data), _CODECS[codec]) as stream:
            data = bytearray()
            while more := stream.read(_AT_ONCE):  # it makes room for what it is asked for
                data += more
                if len(data) > _LARGEST:
                    raise KafkaAnswerError(f"the batch at offset {self.first} unpacks to more than {_LARGEST} bytes")
        return bytes(data)


def batches(data: bytes) -> Iterator[Batch]:
    """The whole batches of a fetch.

    Raises:
        KafkaAnswerError: One is of a format before Kafka had transactions, or is none.
    """
    at = 0
    while at + _HEAD.size <= len(data):
        base, length, _, magic, _, attributes, delta, base_t, max_t, pid, epoch, _, count = _HEAD.unpack_from(data, at)
        end = at + 12 + length
        if end > len(data):
            return
        if end < at + _HEAD.size:
            raise KafkaAnswerError(f"the batch at offset {base} has {length} bytes, and its head alone has more")
        if magic != 2:
            raise KafkaAnswerError(f"the batch at offset {base} is of message format {magic}")
        body = data[at + _HEAD.size : end]
        yield Batch(base, base + delta, attributes, base_t, max_t, (pid, epoch), count, body)
        at = end


def _signed(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number, and where the next thing begins."""
    octet = data[at]
    if octet < 0x80:
        return (octet >> 1) ^ -(octet & 1), at + 1
    value = octet & 0x7F
    for shift in range(7, BITS, 7):
        at += 1
        octet = data[at]
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
    raise KafkaAnswerError("a record has a number that is too long")


def _octets(data: bytes, at: int) -> tuple[bytes | None, int]:
    """What stands behind its length, None for the length -1; and where the next thing begins."""
    length, at = _signed(data, at)
    if length == -1:
        return None, at
    if not 0 <= length <= len(data) - at:
        raise KafkaAnswerError(f"a record is to have {length} bytes more, and {len(data) - at} are there")
    return data[at : at + length], at + length


def _unsnapped(data: bytes) -> bytes:
    """Java frames snappy's blocks; librdkafka may write one alone."""
    if not data.startswith(_XERIAL):
        return _one_block(data)
    found, at = [], 16
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        if length < 0:
            raise KafkaAnswerError(f"a block of snappy is to have {length} bytes")
        found.append(_one_block(data[at + 4 : at + 4 + length]))
        at += 4 + length
    return b"".join(found)


def _one_block(data: bytes) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - likewise

    length = _Reader(data).varint()
    if length > _MOST_SNAPPED * len(data):
        raise KafkaAnswerError(f"a block of snappy, {len(data)} bytes, is to unpack to {length}")
    return bytes(pa.Codec("snappy").decompress(data, length))
