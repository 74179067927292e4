"""Record batches as they stand in Kafka's log: who wrote each, and its records as bytes.

Must not know: how a broker is asked, receipts. Client libraries take records one by one, and some codecs only with
further libraries; an auditor reads millions, so he takes batches apart by himself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

from onceflow.audit.records import BITS

_AT_ONCE = 1 << 20
_LARGEST = 1 << 28
"""Of a batch that was unpacked, in bytes: clients pack some megabytes, and a gigabyte of zeros is a page."""


class BatchError(Exception):
    """Bytes that are no record batch."""


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
            raise BatchError(f"the batch at offset {self.first} is to hold a transaction's mark, and has none")
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
                raise BatchError(f"the batch at offset {self.first} has a record of {length} bytes")
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
            raise BatchError(f"the batch at offset {self.first} is packed by codec {codec}, which is none")
        with pa.CompressedInputStream(pa.BufferReader(self.data), _CODECS[codec]) as stream:
            data = bytearray()
            while more := stream.read(_AT_ONCE):  # it makes room for what it is asked for
                data += more
                if len(data) > _LARGEST:
                    raise BatchError(f"the batch at offset {self.first} unpacks to more than {_LARGEST} bytes")
        return bytes(data)


def batches(data: bytes) -> Iterator[Batch]:
    """The whole batches of a fetch.

    Raises:
        BatchError: One is of a format before Kafka had transactions, or is none.
    """
    at = 0
    while at + _HEAD.size <= len(data):
        base, length, _, magic, _, attributes, delta, base_t, max_t, pid, epoch, _, count = _HEAD.unpack_from(data, at)
        end = at + 12 + length
        if end > len(data):
            return
        if end < at + _HEAD.size:
            raise BatchError(f"the batch at offset {base} has {length} bytes, and its head alone has more")
        if magic != 2:
            raise BatchError(f"the batch at offset {base} is of message format {magic}")
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
    raise BatchError("a record has a number that is too long")


def _octets(data: bytes, at: int) -> tuple[bytes | None, int]:
    """What stands behind its length, None for the length -1; and where the next thing begins."""
    length, at = _signed(data, at)
    if length == -1:
        return None, at
    if not 0 <= length <= len(data) - at:
        raise BatchError(f"a record is to have {length} bytes more, and {len(data) - at} are there")
    return data[at : at + length], at + length


def _unsnapped(data: bytes) -> bytes:
    """Java frames snappy's blocks; librdkafka may write one alone."""
    if not data.startswith(_XERIAL):
        return _one_block(data)
    found, at = [], 16
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        if length < 0:
            raise BatchError(f"a block of snappy is to have {length} bytes")
        found.append(_one_block(data[at + 4 : at + 4 + length]))
        at += 4 + length
    return b"".join(found)


def _one_block(data: bytes) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - likewise

    length = _unsigned(data)
    if length > _MOST_SNAPPED * len(data):
        raise BatchError(f"a block of snappy, {len(data)} bytes, is to unpack to {length}")
    return bytes(pa.Codec("snappy").decompress(data, length))


def _unsigned(data: bytes) -> int:
    """The number that a block of snappy begins with."""
    value = 0
    for shift, octet in zip(range(0, BITS, 7), data, strict=False):
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            return value
    raise BatchError("a block of snappy does not say how long it is")
