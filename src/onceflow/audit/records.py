"""Keys and values of many records at once, as stretches of the bytes that they came in.

Must not know: topics, who wrote them. Only the length that each record begins with is read one by one; the rest is read
of all of them together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onceflow.audit.hashes import I64, Texts

BITS = 70
"""The longest number has ten bytes, of seven bits each."""


def keys_and_values(data: bytes, counts: Sequence[int], ends: Sequence[int]) -> tuple[Texts, Texts]:
    """The keys, and the values, of batches that stand one behind the other.

    Args:
        data: Their records, not compressed.
        counts: How many each has.
        ends: Where each ends.

    Raises:
        IndexError, ValueError: They are no records, or cut short.
    """
    starts: list[int] = []
    at = 0
    for count, end in zip(counts, ends, strict=True):
        _scan(data, at, count, starts)
        at = end
    octets = np.frombuffer(data + bytes(10), np.uint8)  # the last record's numbers are read a little too far
    position = np.array(starts, np.int64) + 1  # behind the attributes
    for _ in range(2):  # time and offset, behind those of the batch
        _, position = _numbers(octets, position)
    key_lengths, position = _numbers(octets, position)
    _require(position, key_lengths, len(data))
    value_lengths, values = _numbers(octets, position + np.maximum(key_lengths, 0))
    _require(values, value_lengths, len(data))
    return Texts(data, position, key_lengths), Texts(data, values, value_lengths)


def _require(at: I64, lengths: I64, end: int) -> None:
    """Each stretch is there: of a length that is only said, a hash would be made for ever."""
    if np.any((lengths < -1) | (lengths > end - at)):
        raise ValueError("a record is cut short, or is none")


def _scan(data: bytes, at: int, count: int, starts: list[int]) -> None:
    """Where each record begins, behind its length."""
    add = starts.append
    for _ in range(count):
        octet = data[at]
        if octet < 0x80:
            length = octet >> 1
            at += 1
        else:
            length, shift = octet & 0x7F, 7
            while octet >= 0x80:
                if shift >= BITS:
                    raise ValueError("a record has a number that is too long")
                at += 1
                octet = data[at]
                length |= (octet & 0x7F) << shift
                shift += 7
            length >>= 1
            at += 1
        add(at)
        at += length


def _numbers(octets: np.ndarray[tuple[int], np.dtype[np.uint8]], at: I64) -> tuple[I64, I64]:
    """The zigzag number at each place, and where the next thing begins."""
    octet = octets[at].astype(np.int64)
    value, behind = octet & 0x7F, at + 1
    more = np.flatnonzero(octet >= 0x80)
    shift = 7
    while len(more):
        if shift >= BITS:
            raise ValueError("a record has a number that is too long")
        octet = octets[behind[more]].astype(np.int64)
        value[more] |= (octet & 0x7F) << shift
        behind[more] += 1
        more = more[octet >= 0x80]
        shift += 7
    return (value >> 1) ^ -(value & 1), behind
