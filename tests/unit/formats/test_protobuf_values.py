"""Protobuf's records and values, beside Google's own library: equal, or refused by name; never another value."""

import pickle
import re
import struct
import subprocess
from decimal import Decimal
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceflow.connectors.registry import protoc
from onceflow.errors import ConfigurationError, RegistryUnavailableError
from onceflow.formats.protobuf_reading import Decoder, ReadingPlan
from onceflow.formats.protobuf_schema import kind_of, message_in, path_of, readable, schema_of
from onceflow.formats.protobuf_writing import Encoder, WritingPlan, head_of
from tests.support.protobuf import class_of, framed, schema_from

MONEY = 'syntax = "proto3"; package money; message Amount { int64 units = 1; int32 nanos = 2; }'
BANK = """
syntax = "proto3"; package bank;
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; import "money.proto";
// import "none.proto"; is no import
message Payment {
  string user = 1; uint64 number = 2; fixed32 small = 3; google.protobuf.Timestamp at = 4;
  enum Kind { CARD = 0; CASH = 1; } Kind kind = 5; map<string, money.Amount> by = 6; optional int32 maybe = 7;
  repeated int32 many = 8; oneof one { string text = 9; money.Amount amount = 10; }
  google.protobuf.Int64Value wrapped = 11; double ratio = 12; bytes raw = 13; repeated money.Amount parts = 14;
  message In { bool yes = 1; } In in = 15;
}
message Other { int32 n = 1; message Inner { int32 n = 1; } }
"""
WHOLE = {
    "int32": (-(2**31), 2**31 - 1),
    "sint32": (-(2**31), 2**31 - 1),
    "sfixed32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "fixed32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "sint64": (-(2**63), 2**63 - 1),
    "sfixed64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
    "fixed64": (0, 2**64 - 1),
}
OTHERS = {"float": [0.5], "double": [0.1], "bool": [True], "string": ["ä"], "bytes": [b"\xff"], "In": [{"n": 1}]}


@pytest.fixture(scope="module")
def bank():
    return schema_from(BANK, money=MONEY)


def decoder(schema, name, writers=None):
    return Decoder(ReadingPlan(schema, name, writers))


def text_of(kind, label="", syntax="proto3"):
    """A message M with one field f."""
    return f'syntax = "{syntax}"; message M {{ {label} {kind} f = 1; message In {{ optional int32 n = 1; }} }}'


@cache
def one(kind, label=""):
    """A message M with one field f."""
    return schema_from(text_of(kind, label))


def value_of(schema, data):
    """The one field, or why there is none."""
    found, why = decoder(schema, "M")(data)
    return why if found is None else found[0]


def test_each_type_has_one_of_sparks(bank):
    """Numbers have the type that holds all of them; a schema of Google's classes is the same."""
    message = message_in(bank, None, "it")
    assert kind_of(message).simpleString() == (
        "struct<user:string,number:decimal(20,0),small:bigint,at:timestamp,kind:string,"
        "by:map<string,struct<units:bigint,nanos:int>>,maybe:int,many:array<int>,text:string,"
        "amount:struct<units:bigint,nanos:int>,wrapped:bigint,ratio:double,raw:binary,"
        "parts:array<struct<units:bigint,nanos:int>>,in:struct<yes:boolean>>"
    )
    again = schema_of(class_of(bank, "bank.Payment").DESCRIPTOR)
    assert kind_of(message_in(again, "bank.Payment", "it")) == kind_of(message)


def test_a_record_is_read_as_google_wrote_it(bank):
    """Extreme numbers, times before 1970, messages inside; what is not there is null only where the schema tells."""
    made = class_of(bank, "bank.Payment")
    full = made(user="ä", number=2**64 - 1, small=2**32 - 1, kind=1, many=[1, -1], amount={}, wrapped={}, ratio=0.1)
    full.at.seconds, full.at.nanos, full.raw = -1, 999_999_999, b"\xff"
    full.by["a"].units = 5
    full.parts.add().nanos = 3
    read = decoder(bank, "bank.Payment")
    values = (
        "ä",
        Decimal(2**64 - 1),
        2**32 - 1,
        -1,
        "CASH",
        {"a": (5, 0)},
        None,
        [1, -1],
        None,
        (0, 0),
        0,
        0.1,
        b"\xff",
    )
    values = ("ä", Decimal(2**64 - 1), 2**32 - 1, -1, "CASH", {"a": (5, 0)}, None, [1, -1], None, (0, 0), 0, 0.1)
    assert read(full.SerializeToString()) == ((*values, b"\xff", [(0, 3)], None), None)
    nothing = ("", Decimal(0), 0, None, "CARD", {}, None, [], None, None, None, 0.0, b"", [], None)
    assert read(b"") == (nothing, None)
    assert pickle.loads(pickle.dumps(read))(bytearray())[0] == nothing  # noqa: S301 - as Spark's workers get it


@settings(max_examples=300)
@given(st.data())
def test_whatever_goes_in_comes_out(bank, data):
    """Values, through our bytes, and through Google's of the same message."""
    whole = {name: st.integers(*WHOLE[name]) for name in ("uint64", "fixed32", "int32", "int64")}
    amount = st.tuples(whole["int64"], whole["int32"])
    row = (
        data.draw(st.text()),
        Decimal(data.draw(whole["uint64"])),
        data.draw(whole["fixed32"]),
        data.draw(st.none() | st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)),
        data.draw(st.sampled_from(["CARD", "CASH"])),
        data.draw(st.dictionaries(st.text(), amount)),
        data.draw(st.none() | whole["int32"]),
        data.draw(st.lists(whole["int32"])),
        None,
        data.draw(st.none() | amount),
        data.draw(st.none() | whole["int64"]),
        data.draw(st.floats(allow_nan=False)),
        data.draw(st.binary()),
        data.draw(st.lists(amount)),
        data.draw(st.none() | st.tuples(st.booleans())),
    )
    units = (("units", ()), ("nanos", ()))
    names = [field.name for field in message_in(bank, None, "it").fields]
    inner = {"by": units, "amount": units, "parts": units, "in": (("yes", ()),)}
    columns = tuple((name, inner.get(name, ())) for name in names)
    written, *refused = Encoder(WritingPlan(bank, "bank.Payment", b"", columns))(row)
    assert refused == [None, None]
    read = decoder(bank, "bank.Payment")
    assert read(written) == (row, None)
    assert read(class_of(bank, "bank.Payment").FromString(written).SerializeToString()) == (row, None)


@pytest.mark.parametrize("label", ["", "optional", "repeated"])
def test_a_writers_value_is_the_readers_or_malformed(label):
    """Each type by each, at its extremes, by their numbers: equal, or told by the field; never another value."""
    kinds = {**{kind: [*ends, 1] for kind, ends in WHOLE.items()}, **OTHERS}
    schemas = {kind: one(kind, label) for kind in kinds}
    for (writer, values), reader in product(kinds.items(), kinds):
        for value in values:
            made = class_of(schemas[writer], "M")(f=[value] if label == "repeated" else value)
            data = framed(7, made.SerializeToString())
            found, why = decoder(schemas[reader], "M", {7: schemas[writer]})(data)
            if found is None:
                assert "f" in why
                assert not (writer in WHOLE and reader in WHOLE and WHOLE[reader][0] <= value <= WHOLE[reader][1])
                assert reader != writer
                continue
            (got,) = found[0] if label == "repeated" else found
            expected = {"In": lambda v: (v["n"],)}.get(writer, lambda v: v)(value)
            if {writer, reader} == {"string", "bytes"}:
                expected = value.encode() if reader == "bytes" else value.decode()
            assert got == expected, (writer, reader)


@pytest.mark.parametrize("writer", [*WHOLE, *OTHERS])
def test_without_a_writers_schema_another_type_on_the_wire_is_told(writer):
    """What the wire tells apart is malformed, in messages inside too; what it does not is what the schema says."""
    wire = {"float": 5, "double": 1, "fixed32": 5, "sfixed32": 5, "fixed64": 1, "sfixed64": 1}
    wire |= dict.fromkeys(("string", "bytes", "In"), 2)
    value = OTHERS[writer][0] if writer in OTHERS else 1
    data = class_of(one(writer), "M")(f=value).SerializeToString()
    for reader in [*WHOLE, *OTHERS]:
        if wire.get(writer, 0) != wire.get(reader, 0):
            assert value_of(one(reader), data) == "field f is not of its schema's type"
            outer = schema_from(f'syntax = "proto3"; message M {{ In f = 1; message In {{ {reader} f = 1; }} }}')
            if reader != "In":
                inside = b"\x0a" + bytes([len(data)]) + data
                assert value_of(outer, inside) == "field f.f is not of its schema's type"


@pytest.mark.parametrize(
    ("text", "data", "why"),
    [
        (text_of("int32"), None, "it is null, a tombstone"),
        (text_of("int32"), b"\x08", "it is no record of the schema"),
        (text_of("string"), b"\x0a\x05ab", "it is no record of the schema"),
        (text_of("string"), b"\x0a\x01\xff", "it is no record of the schema"),
        (text_of("string", "optional", "proto2"), b"\x0a\x01\xff", "field f has a text that is not UTF-8"),
        (text_of("int32", "required", "proto2"), b"", "a field that is required is not there"),
        (
            'syntax = "proto3"; message M { E f = 1; enum E { A = 0; } }',
            b"\x08\x07",
            "field f has a number that the reader's enum has no name for",
        ),
        (
            'syntax = "proto2"; message M { optional E f = 1; enum E { A = 0; } }',
            b"\x08\x07",
            "field f is not of its schema's type",
        ),
    ],
)
def test_what_is_no_record_is_told(text, data, why):
    """By names of fields alone."""
    assert value_of(schema_from(text), data) == why


@pytest.mark.parametrize(("seconds", "nanos"), [(253_402_300_800, 0), (-62_135_596_801, 0), (0, -1), (0, 10**9)])
def test_a_time_that_is_none_is_told(bank, seconds, nanos):
    """Out of the years 1 to 9999, or with a fraction that is none: it would be another time."""
    made = class_of(bank, "bank.Payment")(at={"seconds": seconds, "nanos": nanos})
    assert decoder(bank, "bank.Payment")(made.SerializeToString()) == (None, "field at is no time")


def test_a_merged_record_is_what_google_makes_of_it(bank):
    """Bytes of two records are one: the last value, all of what repeats, messages joined, the last of a oneof."""
    made = class_of(bank, "bank.Payment")
    one_, two = made(user="a", many=[1], amount={"units": 1}), made(user="b", many=[2], text="t")
    both = one_.SerializeToString() + two.SerializeToString()
    values, _ = decoder(bank, "bank.Payment")(both)
    assert (values[0], values[7], values[8], values[9]) == ("b", [1, 2], "t", None)


def test_records_are_read_by_the_schema_of_their_id(bank):
    """Fields are found by their numbers; a schema that does not fit, another message, no place, no id: each told."""
    newer = schema_from(BANK.replace("string user = 1;", "string owner = 1; string more = 99;"), money=MONEY)
    other = schema_from(BANK.replace("uint64 number = 2;", "string number = 2;"), money=MONEY)
    none = schema_from('syntax = "proto3"; message X { int32 n = 1; }')
    read = decoder(bank, "bank.Payment", {1: bank, 2: newer, 3: other, 4: none})
    data = class_of(newer, "bank.Payment")(owner="u", more="m").SerializeToString()
    assert read(framed(2, data))[0][0] == "u"
    assert read(framed(2, data, b"\x02\x00"))[0][0] == "u"  # the long form of the first message
    for record, why in {
        framed(3, b""): "schema 3 does not fit the reader's: field number is string, and the reader's is uint64",
        framed(1, b"", b"\x02\x02"): "it is of another message of schema 1 than bank.Payment",
        framed(1, b"", b"\x80"): "it has no place of its message behind its schema's id",
        framed(9, b""): "schema 9 is not in the registry, or is none of Protobuf that can be read",
        b"": "it is empty",
        b"\x01\0\0\0\x01\0": "it does not begin with a schema's id, the byte 0 and four more",
    }.items():
        assert read(record) == (None, why)
    assert "it has no message bank.Payment" in read(framed(4, b""))[1]


def test_a_place_is_written_as_confluent_reads_it(bank):
    """Beside confluent-kafka's own reader of it."""
    confluent = pytest.importorskip("confluent_kafka.schema_registry.protobuf")
    for name, place in {
        "bank.Payment": [0],
        "bank.Other": [1],
        "bank.Other.Inner": [1, 0],
    }.items():
        message = message_in(bank, name, "it")
        head = head_of(300, message)
        assert head[:5] == b"\0" + struct.pack(">I", 300)
        expected = bytearray()
        confluent.ProtobufSerializer._encode_varints(buffer := _Buffer(), list(path_of(message)), zigzag=True)
        expected = bytes(buffer)
        assert head[5:] == expected
        assert list(path_of(message)) == place


class _Buffer(bytearray):
    """What confluent's writer writes to."""

    def write(self, data):
        self.extend(data)


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("user", None, "is null, and the schema's field is not optional"),
        ("number", -1, "has a value that uint64 does not hold"),
        ("number", Decimal(2**64), "has a value that uint64 does not hold"),
        ("kind", "GOLD", "is none of the enum's names"),
        ("by", {"a": None}, "has a null inside"),
        ("many", None, "is null, and a repeated field is not"),
        ("many", [None], "has a null inside"),
        ("many", [2**31], "does not hold"),
        ("at", 253_402_300_800_000_000, "does not hold"),
        ("text", "both", "of which one at most may have a value"),
    ],
)
def test_a_row_without_a_form_is_refused_by_its_column(bank, column, value, why):
    """Instead of a default, a number that wrapped round, or the last of a oneof."""
    row = {"user": "u", "number": 1, "kind": "CARD", "by": {}, "many": [], "at": 0, "text": None, "amount": (1,)}
    columns = tuple((name, (("units", ()),) if name in ("by", "amount") else ()) for name in row)
    write = Encoder(WritingPlan(bank, "bank.Payment", b"", columns))
    assert write(list(row.values()))[1:] == (None, None)
    data, named, reason = write(list({**row, column: value}.values()))
    assert data is None
    assert named == column
    assert why in reason


def test_equal_rows_are_equal_bytes(bank):
    """Whatever order a map has: an epoch that is run again gives the same bytes."""
    write = Encoder(WritingPlan(bank, "bank.Payment", b"", (("by", (("units", ()),)),)))
    assert write([{"a": (1,), "b": (2,)}]) == write([{"b": (2,), "a": (1,)}])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('syntax = "proto3"; message A { repeated A a = 1; }', "A is inside of itself"),
        ('syntax = "proto3"; message A { B b = 1; message B {} }', "message A.B of field b has no fields"),
        ('syntax = "proto3"; message A { int32 a = 1; int32 A = 2; }', "has two fields A"),
        ('syntax = "proto3"; enum E { A = 0; }', "it has no message"),
        ('syntax = "proto3"; message A { Nope a = 1; }', '"Nope" is not defined'),
        ('syntax = "proto3"; import "gone.proto"; message A { int32 a = 1; }', "it imports gone.proto"),
        (
            'syntax = "proto3"; import "google/protobuf/struct.proto"; message A { google.protobuf.Struct s = 1; }',
            "itself",
        ),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused(text, why):
    """By what is wrong with it."""
    with pytest.raises(ConfigurationError) as error:
        readable(message_in(schema_from(text), None, "it"), "it")
    assert why in error.value.what


def test_a_minus_zero_is_there():
    """It is on the wire, though it equals the default."""
    data = class_of(one("double"), "M")(f=-0.0).SerializeToString()
    found, _ = decoder(one("double", "repeated"), "M", {7: one("double")})(framed(7, data))
    assert str(found[0]) == "[-0.0]"


def test_another_name_of_an_enums_number_is_refused():
    """It would be read as the first."""
    schema = schema_from(
        'syntax = "proto3"; message M { E f = 1; enum E { option allow_alias = true; A = 0; B = 0; C = 1; } }'
    )
    write = Encoder(WritingPlan(schema, "M", b"", (("f", ()),)))
    assert [write([name])[0] is None for name in "ABC"] == [False, True, False]


@pytest.mark.parametrize("inside", ["int32 IsInitialized = 1;", "int32 HasField = 1;", "int32 FromString = 1;"])
def test_a_name_of_googles_library_is_refused(inside):
    """In the reader's schema and in a writer's: the library could not be asked any more."""
    schema = schema_from(f'syntax = "proto3"; message M {{ {inside} }}')
    with pytest.raises(ConfigurationError, match="one of Google's library's own"):
        readable(message_in(schema, "M", "it"), "it")
    _, why = decoder(one("int32"), "M", {7: schema})(framed(7, b""))
    assert "one of Google's library's own" in why


def test_a_place_without_an_end_is_told_at_once(bank):
    """However long the record is."""
    read = decoder(bank, "bank.Payment", {1: bank})
    for place in (b"\xff" * 4_000_000, b"\x82" + b"\x80" * 4 + b"\x01", b"\xfe\xff\xff\xff\x0f"):
        assert read(framed(1, b"", place)) == (None, "it has no place of its message behind its schema's id")


def test_a_message_of_that_name_in_another_package_is_another_one():
    """Its records are malformed to a reader whose message has no package."""
    reader = schema_from('syntax = "proto3"; message Payment { int32 n = 1; }')
    other = schema_from('syntax = "proto3"; package refunds; message Payment { int32 n = 1; }')
    _, why = decoder(reader, "Payment", {1: other})(framed(1, b"\x08\x07"))
    assert "it has no message Payment" in why


def test_names_that_are_in_nobodys_way_are_taken():
    """Google's library has such methods, and nothing here asks by them; a message inside may have any name."""
    text = 'syntax = "proto3"; message M { int32 Clear = 1; HasField f = 2; message HasField { int32 ByteSize = 1; } }'
    schema = schema_from(text)
    readable(message_in(schema, "M", "it"), "it")
    data = class_of(schema, "M")(Clear=5, f={"ByteSize": 6}).SerializeToString()
    assert decoder(schema, "M")(data) == ((5, (6,)), None)
    write = Encoder(WritingPlan(schema, "M", b"", (("Clear", ()), ("f", (("ByteSize", ()),)))))
    assert write([5, (6,)])[0] == data


def test_that_protoc_was_not_asked_is_no_verdict(monkeypatch):
    """A machine without room is told as that: the schema is not taken for none."""

    def ended(*_, **__):
        return subprocess.CompletedProcess([], -9, "", "")

    monkeypatch.setattr(protoc.subprocess, "run", ended)
    with pytest.raises(RegistryUnavailableError, match="signal 9"):
        schema_from(text_of("bool", "optional"))


def test_a_message_is_found_by_its_full_name():
    """Also where its package, repeated, names another one."""
    schema = schema_from(
        'syntax = "proto3"; package a; message M { int32 n = 1; } message a { message M { string s = 1; } }'
    )
    assert [field.name for field in message_in(schema, "a.M", "it").fields] == ["n"]
    assert [field.name for field in message_in(schema, "a.a.M", "it").fields] == ["s"]


def test_a_place_that_programs_count_differently_is_none():
    """Behind a map, whose entry is a message to some: such records are malformed, by the reason."""
    schema = schema_from('syntax = "proto3"; message O { map<string, int32> m = 1; message X { int32 n = 1; } }')
    _, why = decoder(schema, "O.X", {1: schema})(framed(1, b"", b"\x04\x00\x00"))
    assert "programs count its place differently" in why


def test_what_a_writer_has_beside_the_readers_fields_is_passed_over(bank):
    """Whatever it is: Spark needs no type for it."""
    more = "google.protobuf.Struct more = 90; Payment self = 91; int32 USER = 92; Nothing none = 93; message Nothing {}"
    text = BANK.replace("string user = 1;", f"string user = 1; {more}").replace(
        "// import", 'import "google/protobuf/struct.proto"; // import'
    )
    newer = schema_from(text, money=MONEY)
    made = class_of(newer, "bank.Payment")(user="u", self={"user": "inner"}, none={}, USER=5)
    made.more["a"] = 1
    found, why = decoder(bank, "bank.Payment", {1: newer})(framed(1, made.SerializeToString()))
    assert (found[0], why) == ("u", None)


def test_a_text_of_a_registry_is_compiled_as_it_was_meant(monkeypatch, tmp_path):
    """Maps as their entries, an import behind an address, what Confluent and Google have; in a folder of others."""
    (tmp_path / "grpc_tools").mkdir()
    (tmp_path / "grpc_tools" / "protoc.py").write_text("raise SystemExit('another one ran')")
    monkeypatch.chdir(tmp_path)
    schema = schema_from(
        """
        syntax = "proto3"; option go_package = "https://example.org/x"; import "money.proto";
        import "google/type/date.proto"; import "confluent/meta.proto";
        message M {
          repeated ByEntry by = 1; google.type.Date day = 2; money.Amount amount = 3;
          message ByEntry { option map_entry = true; string key = 1; int64 value = 2; }
        }
        """,
        money=MONEY,
    )
    assert kind_of(message_in(schema, "M", "it"))["by"].dataType.simpleString() == "map<string,bigint>"
    data = class_of(schema, "M")(by={"a": 1}).SerializeToString()
    assert value_of(schema, data) == {"a": 1}


@pytest.mark.parametrize("name", ["@/etc/passwd", ".", "..", "/etc/x.proto", "a/../../x.proto", "--version"])
def test_a_name_that_protoc_would_take_for_something_else_is_refused(name):
    """An option, a file of options, a place outside of the folder: nothing of it is in the words."""
    text = f'syntax = "proto3"; import "{name}"; message M {{ int32 f = 1; }}'
    with pytest.raises(ConfigurationError) as error:
        protoc.compiled({protoc.MAIN: text, name: text_of("int32")}, "it")
    assert "root:" not in str(error.value)
    assert "it refers to a file" in error.value.what


def test_the_page_says_what_each_type_is_read_as():
    """Each row of docs/formats.md that names types of the language."""
    page = Path("docs/formats.md").read_text().partition("| in Protobuf | column |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in page.splitlines()[2:]]
    seen = set()
    for types, columns in rows:
        named = [each for each in re.findall(r"`([a-z0-9]+)`", types) if each in {*WHOLE, *OTHERS}]
        told = [each.strip() for each in columns.split(",")] if "decimal" not in columns else [columns]
        for at, each in enumerate(named):
            (field,) = kind_of(message_in(one(each), "M", "it")).fields
            assert field.dataType.simpleString() == told[at if len(told) > 1 else 0], each
            seen.add(each)
    assert seen == {*WHOLE, *OTHERS} - {"In"}
