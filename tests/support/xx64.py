"""XXH64 and Spark's way to feed it, one value at a time, as the published algorithm reads: to compare with."""

P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MASK = (1 << 64) - 1


def rotated(x, bits):
    return ((x << bits) | (x >> (64 - bits))) & MASK


def step(lane, word):
    return rotated((lane + word * P2) & MASK, 31) * P1 & MASK


def xx64(data, seed):
    """The hash of bytes."""
    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data) - 7, 8)]
    found = (seed + P5) & MASK
    if len(data) >= 32:
        lanes = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        while len(words) >= 4:
            lanes = [step(lane, word) for lane, word in zip(lanes, words, strict=False)]
            del words[:4]
        found = sum(rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        for lane in lanes:
            found = ((found ^ step(0, lane)) * P1 + P4) & MASK
    found = (found + len(data)) & MASK
    for word in words:
        found = (rotated(found ^ step(0, word), 27) * P1 + P4) & MASK
    rest = data[len(data) & ~7 :]
    if len(rest) >= 4:
        found = (rotated(found ^ (int.from_bytes(rest[:4], "little") * P1 & MASK), 23) * P2 + P3) & MASK
        rest = rest[4:]
    for octet in rest:
        found = rotated(found ^ (octet * P5 & MASK), 11) * P1 & MASK
    found = (found ^ found >> 33) * P2 & MASK
    found = (found ^ found >> 29) * P3 & MASK
    return found ^ found >> 32


def of_columns(*values):
    """The hash of a row's values: bytes, or None. Each with its null flag, as digests are made."""
    found = 42
    for value in values:
        if value is not None:
            found = xx64(value, found)
        found = xx64(int(value is None).to_bytes(4, "little"), found)
    return found


def of_record(destination, *values):
    """The digest of a Kafka record: its sink's topic before its columns."""
    found = xx64(destination.encode(), 42)
    for value in values:
        if value is not None:
            found = xx64(value, found)
        found = xx64(int(value is None).to_bytes(4, "little"), found)
    return found


def fitting(seed, wanted, begin=b""):
    """Bytes with this beginning (of 0, 8 or 16 bytes) and the wanted hash: a hash that is made for speed seals nothing.

    Each step of the last word is undone.
    """
    p1, p2, p3 = (pow(p, -1, 1 << 64) for p in (P1, P2, P3))
    state = (seed + P5 + len(begin) + 8) & MASK
    for i in range(0, len(begin), 8):
        state = (rotated(state ^ step(0, int.from_bytes(begin[i : i + 8], "little")), 27) * P1 + P4) & MASK
    found = wanted ^ wanted >> 32
    found = found * p3 & MASK
    found ^= found >> 29 ^ found >> 58
    found = found * p2 & MASK
    found ^= found >> 33
    found = rotated((found - P4) * p1 & MASK, 64 - 27) ^ state
    return begin + (rotated(found * p1 & MASK, 64 - 31) * p2 & MASK).to_bytes(8, "little")
