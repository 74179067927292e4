"""Spark's ``xxhash64`` over many rows at once: what the digests of decided rows are made of.

Must not know: where rows come from. It stands on the published algorithm (XXH64), and on how Spark feeds it: each
column's hash is the seed of the next one's, the first seed is 42, and a null leaves the hash as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

SEED = 42
MASK = (1 << 64) - 1
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


@dataclass(frozen=True, slots=True)
class Texts:
    """Many byte strings: stretches of one buffer. A negative length is null."""

    data: bytes
    starts: I64
    lengths: I64

    @classmethod
    def of(cls, values: Sequence[bytes | None]) -> Texts:
        """From single values."""
        lengths = np.array([-1 if v is None else len(v) for v in values], np.int64)
        ends = np.cumsum(np.maximum(lengths, 0))
        return cls(b"".join(v for v in values if v), ends - np.maximum(lengths, 0), lengths)

    def single(self) -> list[bytes | None]:
        """The values, one by one."""
        stretches = zip(self.starts.tolist(), self.lengths.tolist(), strict=True)
        return [None if length < 0 else self.data[start : start + length] for start, length in stretches]


def seeds(count: int) -> U64:
    """The hash of nothing, for so many rows."""
    return np.full(count, SEED, np.uint64)


def add_texts(hashes: U64, texts: Texts) -> U64:
    """Go on with a column of strings or bytes."""
    found = hashes.copy()
    there = np.flatnonzero(texts.lengths >= 0)
    # The longest first: those with another word to come are always the first ones.
    order = there[np.argsort(-texts.lengths[there], kind="stable")]
    if len(order):
        found[order] = _long_and_short(texts, texts.starts[order], texts.lengths[order], hashes[order])
    return found


def add_longs(hashes: U64, values: I64, nulls: NDArray[np.bool_] | None = None) -> U64:
    """Go on with a column of 64-bit numbers."""
    made = hashes + _P5 + np.uint64(8)
    made ^= _rotated(values.astype(np.int64).view(np.uint64) * _P2, 31) * _P1
    made = _mixed(_rotated(made, 27) * _P1 + _P4)
    return made if nulls is None else np.where(nulls, hashes, made)


def add_ints(hashes: U64, values: NDArray[Any], nulls: NDArray[np.bool_] | None = None) -> U64:
    """Go on with a column of numbers of at most 32 bits, or of booleans."""
    made = hashes + _P5 + np.uint64(4)
    made ^= (values.astype(np.int64).view(np.uint64) & np.uint64(0xFFFFFFFF)) * _P1
    made = _mixed(_rotated(made, 23) * _P2 + _P3)
    return made if nulls is None else np.where(nulls, hashes, made)


def _long_and_short(texts: Texts, starts: I64, lengths: I64, seed: U64) -> U64:
    padded = texts.data + bytes(8)
    # Eight bytes from any place on, whatever its alignment.
    longs: U64 = np.ndarray((len(padded) - 7,), np.dtype("<u8"), padded, strides=(1,))
    ints: NDArray[np.uint32] = np.ndarray((len(padded) - 3,), np.dtype("<u4"), padded, strides=(1,))
    octets = np.frombuffer(padded, np.uint8)
    at = starts.copy()
    found = seed + _P5
    long = int(np.searchsorted(-lengths, -32, "right"))
    if long:
        found[:long] = _stripes(longs, at[:long], lengths[:long], seed[:long])
        at[:long] += lengths[:long] & ~np.int64(31)
    found += lengths.astype(np.uint64)
    left = lengths & 31
    for word in range(3):
        which = np.flatnonzero(left >= 8 * (word + 1))
        if len(which):
            key = _rotated(longs[at[which]] * _P2, 31) * _P1
            found[which] = _rotated(found[which] ^ key, 27) * _P1 + _P4
            at[which] += 8
    which = np.flatnonzero((left & 7) >= 4)
    if len(which):
        found[which] ^= ints[at[which]].astype(np.uint64) * _P1
        found[which] = _rotated(found[which], 23) * _P2 + _P3
        at[which] += 4
    for octet in range(3):
        which = np.flatnonzero((left & 3) > octet)
        if len(which):
            found[which] ^= octets[at[which]].astype(np.uint64) * _P5
            found[which] = _rotated(found[which], 11) * _P1
            at[which] += 1
    return _mixed(found)


def _stripes(longs: U64, at: I64, lengths: I64, seed: U64) -> U64:
    lanes = [seed + _P1 + _P2, seed + _P2, seed.copy(), seed - _P1]
    stripes = lengths >> 5
    for stripe in range(int(stripes[0])):
        going = int(np.searchsorted(-stripes, -stripe, "left"))  # those with more stripes than this
        for lane in range(4):
            word = longs[at[:going] + (32 * stripe + 8 * lane)]
            word *= _P2
            word += lanes[lane][:going]
            lanes[lane][:going] = _rotated(word, 31)
            lanes[lane][:going] *= _P1
    found = _rotated(lanes[0], 1) + _rotated(lanes[1], 7) + _rotated(lanes[2], 12) + _rotated(lanes[3], 18)
    for each in lanes:
        found = (found ^ (_rotated(each * _P2, 31) * _P1)) * _P1 + _P4
    return found


def _rotated(values: U64, bits: int) -> U64:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _mixed(values: U64) -> U64:
    values = (values ^ (values >> np.uint64(33))) * _P2
    values = (values ^ (values >> np.uint64(29))) * _P3
    return values ^ (values >> np.uint64(32))
