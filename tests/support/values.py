"""Values of each type of Spark's, extreme ones too: made as Arrow has them, and told as one thing whoever reads them.

Must not know: sinks, what is tested. A raw value is what Arrow holds: bytes of a text, days of a date, microseconds of
a time, so that there are values which Python has no form for.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
import struct
from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

TIMES = (TimestampType, TimestampNTZType)
INTEGERS = {ByteType(): 8, ShortType(): 16, IntegerType(): 32, LongType(): 64}
_ARROW: dict[DataType, pa.DataType] = {
    BooleanType(): pa.bool_(),
    ByteType(): pa.int8(),
    ShortType(): pa.int16(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    FloatType(): pa.float32(),
    DoubleType(): pa.float64(),
    BinaryType(): pa.binary(),
}
FIRST_DAY, END_DAY = -719_162, 2_932_897
FIRST, END = FIRST_DAY * 86_400_000_000, END_DAY * 86_400_000_000
"""The years 1 to 9999."""

_DAYS = st.one_of(
    st.sampled_from([0, -1, 1, FIRST_DAY, FIRST_DAY - 1, END_DAY - 1, END_DAY, 12_000_000, -141_428, 24_855]),
    st.integers(FIRST_DAY, END_DAY - 1),
    st.integers(-(2**30), 2**30),
)
_SECOND = 1_000_000
_WIDE = Context(prec=60)
_MICROS = st.one_of(
    st.sampled_from([0, -1, 1, 999_999, _SECOND, FIRST, FIRST - 1, END - 1, END, (1 << 31) * _SECOND - 1]),
    st.sampled_from([(1 << 31) * _SECOND, 1_700_000_000_000 * _SECOND, 2_100_000_000_000 * _SECOND]),
    st.integers(_SECOND, 2_000_000_000 * _SECOND),
    st.integers(FIRST, END - 1),
    st.integers(-(2**62), 2**62),
)
_TEXTS = st.one_of(
    st.sampled_from(
        ["", " ", "a ", " a", "\t", "\n", "\r\n", "null", "NULL", "\\N", "\\.", "a\n\\.\nb", "'", '"', "\\", "%s", "$1"]
    ),
    st.sampled_from(["\ufffd", "é😀", "e\u0301", "\u202e", "\ufeff", "\U0010ffff", "a\0b", "\x7f", "x" * 4_000]),
    st.text(max_size=12),
).map(lambda text: text.encode())
_BYTES = st.one_of(st.sampled_from([b"", b"\0", b"\xff", b"\\x00", bytes(range(256))]), st.binary(max_size=12))
_NO_TEXTS = st.sampled_from([b"\xff", b"a\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"])
_FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 0.1, 1 / 3, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 2.0**53 + 2]),
    st.sampled_from([math.inf, -math.inf, math.nan]),
    st.floats(),
)


_LARGEST_SINGLE = 3.4028234663852886e38


def _single(value: float) -> float:
    """The value that a float of four bytes has for it."""
    if abs(value) > _LARGEST_SINGLE and not math.isinf(value):
        return _LARGEST_SINGLE
    return float(struct.unpack("f", struct.pack("f", value))[0])


def raws(kind: DataType) -> st.SearchStrategy[Any]:  # noqa: C901 - a line for each type
    """Raw values of a type, without null at the top."""
    match kind:
        case BooleanType():
            return st.booleans()
        case ByteType() | ShortType() | IntegerType() | LongType():
            bits = INTEGERS[kind] - 1
            edges = st.sampled_from([-(2**bits), 2**bits - 1, 0, -1, 1])
            return edges | st.integers(-(2**bits), 2**bits - 1)
        case FloatType():
            return _FLOATS.map(_single)
        case DoubleType():
            return _FLOATS
        case DecimalType():
            most = 10**kind.precision - 1
            whole = st.sampled_from([0, 1, -1, most, -most]) | st.integers(-most, most)
            return whole.map(lambda number: Decimal(number).scaleb(-kind.scale, _WIDE))
        case StringType():
            return st.one_of(_TEXTS, _TEXTS, _TEXTS, _TEXTS, _NO_TEXTS)
        case BinaryType():
            return _BYTES
        case DateType():
            return _DAYS
        case TimestampType() | TimestampNTZType():
            return _MICROS
        case ArrayType():
            return st.lists(st.none() | raws(kind.elementType), max_size=3)
        case MapType():
            pair = st.tuples(raws(kind.keyType), st.none() | raws(kind.valueType))
            return st.lists(pair, max_size=3, unique_by=lambda item: repr(item[0]))
        case StructType():
            return st.tuples(*(st.none() | raws(field.dataType) for field in kind))
    raise AssertionError(kind)


SCALARS: list[DataType] = [*_ARROW, StringType(), DateType(), TimestampType(), TimestampNTZType()]
SCALARS += [DecimalType(15, 2), DecimalType(38, 18), DecimalType(38, 0), DecimalType(5, 5)]
HARD: list[DataType] = [StringType(), DateType(), TimestampType(), TimestampNTZType(), DoubleType(), BinaryType()]
"""Those of which most has gone wrong."""
KEYS: list[DataType] = [StringType(), LongType(), IntegerType(), BooleanType(), DecimalType(20, 4)]
"""Keys of maps that have a form in JSON."""

_FIELDS = ["a", "A b", "a.b", "ä", 'q"', "%", "x ", "`", "\\", "Größe😀"]


def kinds(depth: int = 2) -> st.SearchStrategy[DataType]:
    """Types, nested ones too."""
    scalars = st.sampled_from(SCALARS) | st.sampled_from(HARD)
    if not depth:
        return scalars
    inner = kinds(depth - 1)
    fields = st.lists(st.sampled_from(_FIELDS), min_size=1, max_size=3, unique=True)
    structs = fields.flatmap(
        lambda names: st.tuples(*(inner for _ in names)).map(
            lambda types: StructType([StructField(name, of) for name, of in zip(names, types, strict=True)])
        )
    )
    return st.one_of(scalars, inner.map(ArrayType), st.builds(MapType, st.sampled_from(KEYS), inner), structs)


def arrow(kind: DataType, raw: list[Any]) -> pa.Array:
    """Raw values as Arrow has them."""
    match kind:
        case StringType():
            return pa.array(raw, pa.binary()).view(pa.string())
        case DateType():
            return pa.array(raw, pa.int32()).cast(pa.date32())
        case TimestampType() | TimestampNTZType():
            return pa.array(raw, pa.int64()).cast(
                pa.timestamp("us", "UTC" if isinstance(kind, TimestampType) else None)
            )
        case DecimalType():
            return pa.array(raw, pa.decimal128(kind.precision, kind.scale))
        case ArrayType():
            return pa.ListArray.from_arrays(
                _offsets(raw), arrow(kind.elementType, [v for each in raw for v in each or ()])
            )
        case MapType():
            pairs = [pair for each in raw for pair in each or ()]
            keys, values = [key for key, _ in pairs], [value for _, value in pairs]
            return pa.MapArray.from_arrays(_offsets(raw), arrow(kind.keyType, keys), arrow(kind.valueType, values))
        case StructType():
            columns = [
                arrow(field.dataType, [None if each is None else each[place] for each in raw])
                for place, field in enumerate(kind)
            ]
            return pa.StructArray.from_arrays(
                columns, kind.names, mask=pa.array([each is None for each in raw], pa.bool_())
            )
    return pa.array(raw, _ARROW[kind])


def _offsets(raw: list[Any]) -> pa.Array:
    found, at = [], 0
    for each in raw:
        found.append(None if each is None else at)
        at += len(each or ())
    return pa.array([*found, at], pa.int32())


def scalars_of(kind: DataType, raw: Any) -> Iterator[tuple[DataType, Any]]:
    """All that is inside of a value, with its types; nulls left out."""
    if raw is None:
        return
    match kind:
        case ArrayType():
            for each in raw:
                yield from scalars_of(kind.elementType, each)
        case MapType():
            for key, value in raw:
                yield from scalars_of(kind.keyType, key)
                yield from scalars_of(kind.valueType, value)
        case StructType():
            for field, each in zip(kind, raw, strict=True):
                yield from scalars_of(field.dataType, each)
        case _:
            yield kind, raw


def is_text(raw: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


# -- one thing, whoever reads it ---------------------------------------------------------------------------------------


def of_raw(kind: DataType, raw: Any) -> Any:
    """A raw value in a form that is equal where the values are: numbers as numbers, floats by their bits."""
    if raw is None:
        return None
    match kind:
        case FloatType() | DoubleType():
            return _number(kind, raw)
        case DecimalType():
            return raw.normalize(_WIDE)
        case StringType():
            return raw.decode()
        case ArrayType():
            return [of_raw(kind.elementType, each) for each in raw]
        case MapType():
            pairs = [(of_raw(kind.keyType, key), of_raw(kind.valueType, value)) for key, value in raw]
            return sorted(pairs, key=repr)
        case StructType():
            return [of_raw(field.dataType, each) for field, each in zip(kind, raw, strict=True)]
    return raw


def _number(kind: DataType, value: float) -> str:
    return repr(_single(value) if isinstance(kind, FloatType) else float(value))


def of_python(kind: DataType, value: Any) -> Any:
    """The same of what a client or Arrow gives as a value of Python's."""
    if value is None:
        return None
    match kind:
        case BooleanType():
            return bool(value)
        case FloatType() | DoubleType():
            return _number(kind, value)
        case DecimalType():
            return Decimal(repr(value) if isinstance(value, float) else value).normalize(_WIDE)
        case BinaryType():
            return bytes(value)
        case DateType():
            return (value - dt.date(1970, 1, 1)).days
        case TimestampType() | TimestampNTZType():
            since = value.replace(tzinfo=dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
            return (since.days * 86_400 + since.seconds) * _SECOND + since.microseconds
        case ArrayType():
            return [of_python(kind.elementType, each) for each in value]
        case MapType():
            pairs = [(of_python(kind.keyType, key), of_python(kind.valueType, each)) for key, each in value]
            return sorted(pairs, key=repr)
        case StructType():
            return [of_python(field.dataType, value[field.name]) for field in kind]
    return value


_ISO = re.compile(r"([+-]?\d+)-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(Z|\+00:00)?)?")


def days_of(text: str) -> int:
    """The days since 1970 of a date's text, whatever its year: by the proleptic Gregorian calendar."""
    year, month, day = (int(part) for part in _ISO.fullmatch(text).groups()[:3])
    year -= month <= 2
    of_era = year - (era := year // 400) * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def text_of_days(days: int) -> str:
    """A date's text as Spark writes it, of the days since 1970: the opposite of ``days_of``."""
    era, of_era = divmod(days + 719_468, 146_097)
    of_years = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * of_years + of_years // 4 - of_years // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    year = of_years + era * 400 + (month <= 2)
    sign = "+" if year > 9_999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def micros_of(text: str) -> int:
    """The microseconds since 1970 of a time's text, which is in UTC or has no zone."""
    *_, hour, minute, second, fraction, _ = found = _ISO.fullmatch(text).groups()
    days = days_of("-".join(found[:3]))
    seconds = days * 86_400 + int(hour) * 3600 + int(minute) * 60 + int(second)
    return seconds * _SECOND + int((fraction or "").ljust(6, "0"))


def parsed(text: str | bytes) -> Any:
    """JSON, with its numbers as they are written."""
    return json.loads(text, parse_float=Decimal, object_pairs_hook=list)


def of_json(kind: DataType, value: Any) -> Any:
    """The same of what ``parsed`` gave."""
    if value is None:
        return None
    match kind:
        case FloatType() | DoubleType():
            return _number(kind, float(str(value).replace("Infinity", "inf")))
        case DecimalType():
            return Decimal(value).normalize(_WIDE)
        case BinaryType():
            return base64.b64decode(value, validate=True)
        case DateType():
            return days_of(value)
        case TimestampType() | TimestampNTZType():
            return micros_of(value)
        case ArrayType():
            return [of_json(kind.elementType, each) for each in value]
        case MapType():
            pairs = [(_of_key(kind.keyType, key), of_json(kind.valueType, each)) for key, each in value]
            return sorted(pairs, key=repr)
        case StructType():
            fields = dict(value)
            return [of_json(field.dataType, fields[field.name]) for field in kind]
    return value


def _of_key(kind: DataType, key: str) -> Any:
    match kind:
        case BooleanType():
            return {"true": True, "false": False}[key]
        case StringType():
            return key
        case DecimalType():
            return Decimal(key).normalize(_WIDE)
    return int(key)


def without_signs_of_zero(told: Any) -> Any:
    """The same with one zero, as SQL has it."""
    if isinstance(told, list | tuple):
        return type(told)(without_signs_of_zero(each) for each in told)
    return "0.0" if told == "-0.0" else told
