"""What librdkafka is pointed at, and what is said where that is not known."""

import ctypes
from importlib.metadata import version

import confluent_kafka
import pyarrow as pa
import pytest

from onceflow.connectors.kafka import batch
from onceflow.connectors.kafka.batch import _messages

TEXTS = [b"first", None, b"", b"\x00\xff", b"last"]


def read(pointers, lengths):
    """The bytes that librdkafka would copy; None where there is no pointer."""
    pairs = zip(pointers.tolist(), lengths.tolist(), strict=True)
    return [ctypes.string_at(pointer, length) if pointer else None for pointer, length in pairs]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
@pytest.mark.parametrize(("begin", "end"), [(0, 5), (1, 4), (2, 3), (4, 5)])
def test_every_record_is_pointed_at(kind, begin, end):
    """Nulls stay apart from empty ones, and slices begin where they begin."""
    values, keys = pa.array(TEXTS, kind), pa.array(TEXTS[::-1], kind)
    messages = _messages(values[begin:end], keys[begin:end])
    assert read(messages["payload"], messages["len"]) == TEXTS[begin:end]
    assert read(messages["key"], messages["key_len"]) == TEXTS[::-1][begin:end]


def test_no_keys_are_null_keys():
    """A sink without a key sends none."""
    messages = _messages(pa.array([b"a", b"b"], pa.binary()), None)
    assert read(messages["key"], messages["key_len"]) == [None, None]


def test_only_empty_records_are_not_null():
    """Arrow may have no buffer at all for them."""
    messages = _messages(pa.array([b"", b""], pa.binary()), None)
    assert read(messages["payload"], messages["len"]) == [b"", b""]


def test_the_struct_is_librdkafkas():
    """Nine fields of rd_kafka_message_t, 72 bytes on every 64-bit system."""
    assert _messages(pa.array([b"a"], pa.binary()), None).dtype.itemsize == 72


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.int64()])
def test_what_is_not_bytes_is_refused(kind):
    """Its buffers would be read as if they were."""
    with pytest.raises(TypeError, match="records are bytes"):
        _messages(pa.array([None], kind), None)


@pytest.mark.parametrize(("known", "lines"), [({version("confluent-kafka")}, 0), ({"0.1"}, 1)])
def test_the_slow_way_is_said_once(monkeypatch, caplog, known, lines):
    """By the driver, which looks at the version that its workers look at, however many sinks there are."""
    assert version("confluent-kafka") == confluent_kafka.__version__
    monkeypatch.setattr(batch, "KNOWN", frozenset(known))
    batch.warn_where_unknown.cache_clear()
    for _ in range(3):
        batch.warn_where_unknown()
    batch.warn_where_unknown.cache_clear()
    assert [r.getMessage().startswith("confluent-kafka is") for r in caplog.records] == [True] * lines
