"""Keyed digests: sums that nobody makes, or reads, without the job's key.

Must not know: what a row is, sinks, receipts, where the key lies. docs/audit.md has the definition with test vectors.

A sum is never kept bare: of enough sums of known rows a lattice gives other rows with the same one. So each has a mask
of its own, which the key and a nonce give.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable

MASK = (1 << 128) - 1
"""Keyed digests are sums modulo 2**128."""


def key_of_rows(key: bytes, job_id: str) -> bytes:
    """The key of a job's keyed digests, of 32 bytes: a task that has it cannot sign receipts."""
    return hmac.digest(key, f"onceflow rows {job_id}".encode(), "sha256")


def id_of(key: bytes) -> str:
    """What tells a key of rows from others, 16 hex digits: sums under two keys are not added up."""
    return hmac.digest(key, b"id", "sha256")[:8].hex()


def keyed(key: bytes, hashes: Iterable[bytes]) -> int:
    """The keyed digest of rows of these messages' SHA-256: a sum, so order has no meaning."""
    digest, read = hmac.digest, int.from_bytes
    return sum(read(digest(key, b"row" + each, "sha256")[:16], "big") for each in hashes) & MASK


def masked(key: bytes, total: int) -> str:
    """A sum as it may be kept: 32 hex digits of a nonce, and 32 of the sum and the nonce's mask."""
    nonce = os.urandom(16)
    return f"{nonce.hex()}{(total + _mask(key, nonce)) & MASK:032x}"


def unmasked(key: bytes, kept: str) -> int:
    """The sum that ``masked`` has kept.

    Raises:
        ValueError: It is none.
    """
    if len(kept) != 64:
        raise ValueError(f"a keyed digest has 64 hex digits, not {len(kept)}")
    return (int(kept[32:], 16) - _mask(key, bytes.fromhex(kept[:32]))) & MASK


def _mask(key: bytes, nonce: bytes) -> int:
    return int.from_bytes(hmac.digest(key, b"mask" + nonce, "sha256")[:16], "big")
