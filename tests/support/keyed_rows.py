"""Keyed digests, value by value, as docs/audit.md defines them: to compare with."""

import hashlib
import hmac

KEY = b"0123456789abcdef0123456789abcdef"


def message(*values):
    """A row's message: its values as netstrings, a dash for null."""
    return b"".join(b"-" if value is None else str(len(value)).encode() + b":" + value + b"," for value in values)


def of_rows(key, job, rows):
    """The keyed digest of rows, each a list of values, of a job."""
    mine = hmac.new(key, f"onceflow rows {job}".encode(), "sha256").digest()
    made = (hmac.new(mine, b"row" + hashlib.sha256(message(*row)).digest(), "sha256").digest() for row in rows)
    return sum(int.from_bytes(each[:16], "big") for each in made) % (1 << 128)


def kept(key, job, total, nonce=bytes(range(16))):
    """A sum as it is kept: a nonce, and the sum with its mask."""
    mine = hmac.new(key, f"onceflow rows {job}".encode(), "sha256").digest()
    mask = int.from_bytes(hmac.new(mine, b"mask" + nonce, "sha256").digest()[:16], "big")
    return f"{nonce.hex()}{(total + mask) % (1 << 128):032x}"
