"""Targets: what brokers, and who writes records, hand to Python: pages of a log, listeners, tokens, texts in rows.

Not here: the formats of keys, values and headers. Python only names Spark's functions for them; Spark's Java reads the
bytes.
"""

from __future__ import annotations

import io
import json
import socket
import struct
import time
from pathlib import Path
from typing import Self
from unittest import mock

import pyarrow as pa

from onceflow.audit import batches, hashes
from onceflow.audit.records import keys_and_values
from onceflow.connectors.kafka import listeners, login_refused, login_token, offsets, source
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.errors import KafkaError, OnceflowError
from onceflow.execution import carried
from onceflow.formats import arrow_values, refused
from onceflow.spark import raised, sentences
from tests.fuzz.target import Target

_UNREADABLE = (batches.BatchError, OSError, ValueError, IndexError, struct.error)
"""What ``audit/topics.py`` takes for a topic that cannot be read."""


def _page(data: bytes, _: Path) -> None:
    """A page of a log: who reads it looks at each batch in each way."""
    for batch in batches.batches(data):
        for _ in batch.records():
            pass
        assert batch.commits in (True, False)
        plain = batch.behind(batch.first + 1)
        if not batch.is_control:
            keys, values = keys_and_values(plain.data, [plain.count], [len(plain.data)])
            seeds = hashes.seeds(plain.count)
            hashes.add_texts(hashes.add_texts(seeds, keys), values)


def _pages() -> list[bytes]:
    from kafka.record.default_records import DefaultRecordBatchBuilder

    made = []
    for codec, transactional in ((0, 1), (1, 0), (0, 0)):
        builder = DefaultRecordBatchBuilder(2, codec, transactional, 7, 1, 0, 100_000)
        for n in range(3):
            headers = [("h", b"x"), ("n", None)] if n else []
            builder.append(n, 1_700_000_000_000 + n, None if n == 1 else b"key", b'{"a": 1}' * 4, headers)
        made.append(bytes(builder.build()))
    head, plain = bytearray(made[2][:61]), made[2][61:]
    for number, name in ((2, "snappy"), (3, "lz4"), (4, "zstd")):
        if name == "snappy":
            packed = pa.Codec(name).compress(plain, asbytes=True)
            made.append(_batch(head, number, packed))
            framed = batches._XERIAL + bytes(8) + struct.pack(">i", len(packed)) + packed
            made.append(_batch(head, number, framed))
            continue
        with pa.CompressedOutputStream(out := io.BytesIO(), name) as stream:
            stream.write(plain)
            stream.flush()
            packed = b"" if out.closed else out.getvalue()
        made.append(_batch(head, number, packed or pa.Codec(name).compress(plain, asbytes=True)))
    return [*made, made[0] + made[1]]


def _batch(head: bytearray, codec: int, records: bytes) -> bytes:
    made = bytearray(head)
    struct.pack_into(">i", made, 8, len(records) + 49)
    struct.pack_into(">h", made, 21, codec)
    return bytes(made) + records


class _Answering:
    """A broker's end of a connection: it says what it was given, whatever it is asked."""

    def __init__(self, says: bytes) -> None:
        self._says, self._at = says, 0

    def recv(self, size: int) -> bytes:
        given = self._says[self._at : self._at + size]
        self._at += len(given)
        return given

    def sendall(self, _: bytes) -> None:
        """It listens to nothing."""

    def close(self) -> None:
        """It goes."""


class _Listening(_Answering):
    """What listens where a broker should."""

    def settimeout(self, _: float) -> None:
        """It answers at once."""

    def getsockopt(self, *_: int) -> int:
        """By which TLS begins: it speaks none."""
        raise OSError("no TLS")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """It goes."""


_PLAIN = KafkaCluster("localhost:9092")


def _listener(data: bytes, _: Path) -> None:
    """Whoever listens at a broker's address, and need not be one."""
    with mock.patch.object(socket, "create_connection", side_effect=lambda *_: _Listening(data)):
        listeners._look(_PLAIN, "localhost:9092", time.monotonic() + 60)


def _listener_seeds() -> list[bytes]:
    versions = struct.pack(">iihi", 10, 1, 0, 0)
    shaken = struct.pack(">ihi", 1, 33, 2) + b"\0\5PLAIN\0\3ABC"
    return [
        versions + struct.pack(">i", len(shaken)) + shaken,
        versions + struct.pack(">iihi", 10, 1, 34, 0),
        b"HTTP/1.1 400 x\r\n",
    ]


_OAUTH = KafkaCluster(
    "localhost:9092",
    security_protocol="SASL_SSL",
    sasl_mechanism="OAUTHBEARER",
    oauth_token_endpoint="https://login.example/token",
    oauth_client_id="i",
    oauth_client_secret="s",
)


def _token(data: bytes, _: Path) -> None:
    """What a token's endpoint answers to the driver."""
    with mock.patch("urllib.request.urlopen", return_value=io.BytesIO(data)):
        login_token.ClientCredentials(_OAUTH).token()


def _arrow(data: bytes, _: Path) -> None:
    """Texts that are any bytes, and times of any year, in Arrow's columns."""
    lines = data.split(b"\n")
    texts = pa.array(lines, pa.binary()).cast(pa.large_binary()).view(pa.large_string())
    numbers = pa.array(memoryview(data[: len(data) // 8 * 8]).cast("q").tolist(), pa.int64())
    for column in (
        texts,
        pa.StructArray.from_arrays([texts], ["a"]),
        *(numbers.view(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
        pa.array(memoryview(data[: len(data) // 4 * 4]).cast("i").tolist(), pa.int32()).view(pa.date32()),
    ):
        arrow_values.trouble("a", column)


def _messages(data: bytes, _: Path) -> None:
    """The text of a failed query, in which rows, names and tracebacks stand as they were written."""
    text = data.decode("utf-8", "replace")
    error = RuntimeError(text)
    told = [
        carried.find(text),
        source.explain(text),
        refused.refused_from(text),
        sentences.raised_in_worker(text),
        sentences.two_drivers(text),
        sentences.of_values(text),
        sentences.other_python(text),
        sentences.no_buffer(text),
        login_refused.in_spark(text),
        offsets.data_lost_from(text),
        sentences.no_stream(text or "x", "append"),
    ]
    sentences.sentence(error)
    raised.in_a_task(text)
    sentences.application_ended(text)
    for each in filter(None, told):
        carried.add_line(each)
        raise each  # the first, to be looked at as it is shown


def _message_seeds() -> list[bytes]:
    error = KafkaError("a row 'x'", harmless="h", cause="c", action="a", topic="t", partition=3)
    carried.add_line(error)
    marked = json.dumps({"topic": "t", "partition": 0, "offset": 5, "reason": "r"})
    told = [
        f"Traceback (most recent call last):\nonceflow.errors.KafkaError: {error}\n{error.__notes__[0]}\n\tat org",
        source._MARKER + marked,
        refused._RAISED + json.dumps({"column": "a", "type": "string"}) + " the plan",
        "[CONCURRENT_STREAM_LOG_UPDATE] x",
        "[CAST_INVALID_INPUT] The value 'x' of the type SQLSTATE: 22018\nwas called from\n/home/job.py:12",
        "Could not read records in offset [3, 9) for topic partition t-0",
        "Starting offset for t-0 was 3 but consumer reset to 9",
        "SaslAuthenticationException: no. ModuleNotFoundError: No module named 'abc'",
        "An error occurred while calling o1.\n: org.x: [X] Distinct aggregations SQLSTATE: 42;",
        "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext",
    ]
    return [each.encode() for each in told]


TARGETS = (
    Target("kafka-page", _page, _UNREADABLE, _pages),
    Target("kafka-listener", _listener, (), _listener_seeds),
    Target("kafka-token", _token, (KafkaError,), lambda: [b'{"access_token": "x", "expires_in": 60}']),
    Target("arrow", _arrow, (), lambda: [b"text\nmore text here, and more", b"\xff\xfe12345678" * 8]),
    Target("messages", _messages, (OnceflowError,), _message_seeds),
)
