"""The auditor's hash, made of many rows at once, is XXH64 as Spark feeds it."""

import random

import numpy as np
import pytest

from onceflow.audit import hashes
from onceflow.audit.batches import Batch
from onceflow.audit.hashes import Texts
from onceflow.audit.tables import hash_rows
from onceflow.audit.topics import digests, headers_text
from tests.support.xx64 import of_columns, of_record, xx64


def test_the_published_vectors():
    """Of what we compare with: values that the algorithm's own page has."""
    assert xx64(b"", 0) == 0xEF46DB3751D8E999
    assert xx64(b"abc", 0) == 0x44BC2CF5AD770999


def test_texts_of_every_length():
    """Nulls, empty ones, all lengths around the borders of words and stripes, with any seed."""
    draw = random.Random(1)
    lengths = [*range(70), 95, 96, 97, 127, 128, 129, 1000]
    values = [None, *(draw.randbytes(n) for n in lengths)]
    draw.shuffle(values)
    seeds = np.array([draw.getrandbits(64) for _ in values], np.uint64)
    found = hashes.add_texts(seeds, Texts.of(values)).tolist()
    assert found == [int(s) if v is None else xx64(v, int(s)) for s, v in zip(seeds, values, strict=True)]


@pytest.mark.parametrize("value", [0, 1, -1, 2**31 - 1, -(2**31)])
def test_numbers(value):
    """As their bytes, the lowest first: four of a number up to 32 bits, eight of a longer one."""
    seeds = hashes.seeds(1)
    assert hashes.add_ints(seeds, np.array([value])).tolist() == [xx64(value.to_bytes(4, "little", signed=True), 42)]
    assert hashes.add_longs(seeds, np.array([value])).tolist() == [xx64(value.to_bytes(8, "little", signed=True), 42)]


def test_the_digest_of_records():
    """Value and key with their null flags, behind the topic."""
    values, keys = [b"a" * n for n in range(50)] + [None], [None if n % 3 else b"k%d" % n for n in range(51)]
    (found,) = digests(
        '["t",[["value","binary"],["key","binary"]]]', {"value": Texts.of(values), "key": Texts.of(keys)}, 51
    )
    assert found.tolist() == [of_record("t", v, k) for v, k in zip(values, keys, strict=True)]


def test_what_a_record_does_not_show_has_several_digests():
    """Whether a row named its topic cannot be seen: both ways to read it are offered."""
    formula = '["t",[["value","binary"],["topic","string"]]]'
    named, left = digests(formula, {"value": Texts.of([b"v", b"v"]), "topic": [b"t", b"u"]}, 2)
    assert named.tolist() == [of_record("t", b"v", b"t"), of_record("t", b"v", b"u")]
    assert left.tolist() == [of_record("t", b"v", None), of_record("t", b"v", b"u")]
    assert headers_text([("a", b"1"), ("b", None)]) == b'[{"key":"a","value":"MQ=="},{"key":"b"}]'


def test_the_hash_of_a_tables_row():
    """Values as drivers give them become what they were when the job wrote them."""
    fields = [["s", "string"], ["n", "bigint"], ["d", "decimal(18,2)"], ["big", "decimal(38,0)"], ["t", "timestamp"]]
    rows = [("x", 7, "1.50", -129, "2026-01-01 00:00:00.000001+00:00"), (None,) * 5]
    found = hash_rows(fields, list(zip(*rows, strict=True))).tolist()
    long = (1_767_225_600_000_001).to_bytes(8, "little")
    first = of_columns(b"x", (7).to_bytes(8, "little"), (150).to_bytes(8, "little"), b"\xff\x7f", long)
    assert found == [first, of_columns(None, None, None, None, None)]


def test_of_a_batch_that_was_cut_only_what_is_behind_the_cut_counts():
    """A broker hands out the whole batch in which the log begins; readers do not see what is before."""
    records = b"".join(map(_record, range(5)))
    batch = Batch(100, 104, 0x10, 0, 0, (1, 0), 5, records)
    assert [offset for offset, *_ in batch.behind(103).records()] == [103, 104]
    assert batch.behind(103).count == 2
    assert batch.behind(100) is batch


def _record(number):
    """A record of a key and a value of one byte each, behind its length."""
    body = bytes([0, 0, 2 * number, 2, 107, 2, 118, 0])
    return bytes([2 * len(body)]) + body
