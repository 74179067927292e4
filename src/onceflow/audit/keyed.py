"""Keyed digests of rows, made anew: what nobody who lacks the job's key makes fit another row.

Must not know: where rows come from, how receipts are kept. docs/audit.md has the definition: a row's message is its
values as netstrings, its digest 16 bytes of HMAC-SHA-256 over the message's SHA-256, and sums are kept under masks.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onceflow.audit.hashes import U64

MASK = (1 << 128) - 1
NULL = b"-"
_HEX = re.compile("[0-9a-f]{64}")


def key_of_rows(key: bytes, job: str) -> bytes:
    """The key of a job's rows."""
    return hmac.new(key, b"onceflow rows " + job.encode(), hashlib.sha256).digest()


def id_of(key: bytes) -> str:
    """What tells a key of rows from others."""
    return hmac.new(key, b"id", hashlib.sha256).digest()[:8].hex()


def kept(key: bytes, told: Any) -> int | None:
    """The sum that a receipt keeps under a mask; None where it keeps none."""
    if not isinstance(told, str) or not _HEX.fullmatch(told):
        return None
    mask = hmac.new(key, b"mask" + bytes.fromhex(told[:32]), hashlib.sha256).digest()[:16]
    return (int(told[32:], 16) - int.from_bytes(mask, "big")) & MASK


def decided(key: bytes | None, body: Mapping[str, Any], p: Mapping[str, Any]) -> tuple[bytes, int] | None:
    """The key of the rows of a receipt's participant, and their keyed digest; None where one of the two is missing."""
    of_rows = None if key is None else key_of_rows(key, body["job"])
    total = None if of_rows is None else kept(of_rows, p.get("keyed"))
    return None if of_rows is None or total is None else (of_rows, total)


def texts(values: Sequence[bytes | None]) -> list[bytes]:
    """Values that are told by their bytes, as netstrings."""
    return [NULL if value is None else b"%d:%b," % (len(value), value) for value in values]


def numbers(hashes: U64, nulls: Sequence[bool]) -> list[bytes]:
    """Values of at most eight bytes, of which no two have the same XXH64: told by it, as a signed decimal number."""
    signed = hashes.view(np.int64).tolist()
    return texts([None if null else b"%d" % each for each, null in zip(signed, nulls, strict=True)])


def digests(key: bytes, destination: str, columns: Sequence[Sequence[bytes]]) -> list[int]:
    """The keyed digest of each row; of several rows it is their sum modulo 2**128.

    Args:
        key: The job's, for rows.
        destination: What stands before the values, "" for nothing.
        columns: The values of each column, as netstrings.
    """
    first = texts([destination.encode()])[0] if destination else b""
    rows = (hashlib.sha256(first + b"".join(row)).digest() for row in zip(*columns, strict=True))
    return [int.from_bytes(hmac.digest(key, b"row" + row, hashlib.sha256)[:16], "big") for row in rows]
