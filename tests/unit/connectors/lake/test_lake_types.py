"""What goes into columns of lake tables: each type of Spark's as it is, or refused by name; and into which partitions.

Readers are not ours.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from pyiceberg import types as ice
from pyiceberg.expressions import EqualTo
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.transforms import (
    DayTransform,
    IdentityTransform,
)
from pyspark.sql.types import (
    ArrayType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from onceflow.connectors.lake import delta_fit, iceberg_fit
from onceflow.errors import ConfigurationError, LakeRightsError, PreCommitError, RowRefusedError
from onceflow.testing import conformance
from onceflow.testing.trial import Trial
from onceflow.twophase.messages import Outcome, Reply
from onceflow.twophase.participants import Participant
from tests.support.lake_types import (
    BY,
    EACH,
    INNER,
    KINDS,
    ROWS,
    SPEC,
    Partitioned,
    PartitionedDelta,
    made,
)
from tests.support.lakes import DeltaWorld, IcebergWorld

WORLDS = {"iceberg": IcebergWorld, "delta": DeltaWorld}


def one_column(world, kind):
    """The world, with a table of one column that is made for a type."""
    world.fields = StructType([StructField("v", kind)])
    return world


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("kind", "arrow", "values"), KINDS, ids=[kind.simpleString() for kind, _, _ in KINDS])
def test_what_is_written_is_read_again(kind, arrow, values, world, tmp_path):
    """To the last digit, with nulls, in a column that create_table=True makes; in files whose statistics are right."""
    world = one_column(WORLDS[world](tmp_path), kind)
    values = [*values, None]
    with Trial(world) as t:
        start = t.start()
        writer = start.open()
        for each in values:
            writer.write(pa.RecordBatch.from_arrays([pa.array([each], arrow)], ["v"]))
        sealed = start.seal([start.report(writer.prepare(), [str(i) for i in range(len(values))])])
        assert start.committer.check(sealed, start.run(), 0.0) is None
        t.commit(start, sealed)
    readers = [pq.read_table(world.data()[0]), world.read()]
    if kind == ArrayType(INNER) and isinstance(world, IcebergWorld):
        readers.pop()  # pyiceberg (0.12) reads a null list of structs as an empty one, also what it wrote itself
    for reader in readers:
        found = reader.column("v")
        if pa.types.is_timestamp(arrow):  # Python has no form for the last ones in Berlin
            assert found.type.tz == (arrow.tz and "UTC")
            assert found.cast(pa.int64()).to_pylist() == pa.array(values, arrow).cast(pa.int64()).to_pylist()
            continue
        read = found.to_pylist()
        assert read == values
        assert [math.copysign(1, v) for v in read if v == 0.0] == [math.copysign(1, v) for v in values if v == 0.0]


@pytest.mark.parametrize("world", WORLDS)
def test_nan_stays_one(world, tmp_path):
    """It is neither null nor a bound."""
    world = one_column(WORLDS[world](tmp_path), DoubleType())
    with Trial(world) as t:
        start = t.start()
        writer = start.open()
        writer.write(pa.RecordBatch.from_pydict({"v": [math.nan, 1.0]}))
        t.commit(start, start.seal([start.report(writer.prepare(), ["a", "b"])]))
    assert [math.isnan(v) for v in world.read().column("v").to_pylist()] == [True, False]


TEXT = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
NESTED_TEXT = {
    "string": (StringType(), TEXT),
    "struct": (StructType([StructField("t", StringType())]), pa.StructArray.from_arrays([TEXT], ["t"])),
    "array": (ArrayType(StringType()), pa.ListArray.from_arrays([0, 1, 2], TEXT)),
    "keys": (MapType(StringType(), LongType()), pa.MapArray.from_arrays([0, 1, 2], TEXT, pa.array([1, 2]))),
    "values": (MapType(LongType(), StringType()), pa.MapArray.from_arrays([0, 1, 2], pa.array([1, 2]), TEXT)),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("where", NESTED_TEXT)
def test_a_text_that_is_not_utf_8(where, world, tmp_path):
    """Nobody could read its file: the row is refused by its column and type, at the top and inside."""
    kind, column = NESTED_TEXT[where]
    world = one_column(WORLDS[world](tmp_path), kind)
    with Trial(world) as t:
        writer = t.start().open()
        why = r"column v \(.*string.*\) has a text that is not UTF-8"
        with pytest.raises(RowRefusedError, match=why) as told:
            writer.write(pa.RecordBatch.from_arrays([column], ["v"]))
        writer.abort()
    assert not told.value.retriable
    assert world.data() == []


def of_days(*days):
    return pa.array(days, pa.int32()).cast(pa.date32())


def of_seconds(*seconds, tz="UTC"):
    return pa.array([each * 1_000_000 for each in seconds], pa.int64()).cast(pa.timestamp("us", tz))


OUTSIDE = [
    (DateType(), of_days(0, 2_932_897)),
    (DateType(), of_days(-719_163)),
    (TimestampType(), of_seconds(2_100_000_000_000)),
    (TimestampType(), of_seconds(0, -62_135_596_801)),
    (TimestampNTZType(), of_seconds(253_402_300_800, tz=None)),
    (ArrayType(DateType()), pa.ListArray.from_arrays([0, 1], of_days(2_932_897))),
]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("kind", "column"), OUTSIDE, ids=[kind.simpleString() for kind, _ in OUTSIDE])
def test_a_date_or_time_outside_of_the_years_1_to_9999(kind, column, world, tmp_path):
    """The row is refused as a row, by its column and type, and not as a store that did not answer."""
    world = one_column(WORLDS[world](tmp_path), kind)
    with Trial(world) as t:
        writer = t.start().open()
        with pytest.raises(RowRefusedError, match=r"column v \(.*\) has a (date|time) outside of the years 1 to 9999"):
            writer.write(pa.RecordBatch.from_arrays([column], ["v"]))
        writer.abort()


@pytest.mark.parametrize("world", WORLDS)
def test_a_type_that_no_column_has(world, tmp_path):
    """It is refused by the column's name before anything is made of it."""
    with (
        Trial(one_column(WORLDS[world](tmp_path), DayTimeIntervalType())) as t,
        pytest.raises(ConfigurationError, match=r"column v: .* interval"),
    ):
        t.start()


FITS = [
    (IntegerType(), LongType(), True),
    (LongType(), IntegerType(), False),
    (FloatType(), DoubleType(), True),
    (DoubleType(), FloatType(), False),
    (DecimalType(10, 2), DecimalType(12, 2), True),
    (DecimalType(10, 2), DecimalType(9, 2), False),
    (DecimalType(10, 2), DecimalType(12, 3), False),
    (TimestampType(), TimestampNTZType(), False),
    (TimestampNTZType(), TimestampType(), False),
    (StringType(), LongType(), False),
    (LongType(), StringType(), False),
    (DateType(), TimestampType(), False),
    (ArrayType(IntegerType()), ArrayType(LongType()), True),
    (ArrayType(LongType()), ArrayType(IntegerType()), False),
    (MapType(StringType(), LongType()), MapType(StringType(), IntegerType()), False),
    (INNER, StructType([StructField("a", LongType())]), False),
]


@pytest.mark.parametrize(
    ("output", "column", "fits"), FITS, ids=[f"{a.simpleString()} to {b.simpleString()}" for a, b, _ in FITS]
)
def test_a_column_that_would_change_values(output, column, fits):
    """It is found for both formats; wider ones are taken."""
    assert (iceberg_fit.misfit(output, iceberg_fit.type_for(column, "v")) is None) is fits
    assert (delta_fit.misfit(output, column) is None) is fits


@pytest.mark.parametrize("world", WORLDS)
def test_an_output_that_does_not_fit(world, tmp_path):
    """A start says so by the column's name, with both types."""
    world = one_column(WORLDS[world](tmp_path), IntegerType())
    with Trial(world) as t:
        t.start()
        one_column(world, LongType())
        with pytest.raises(ConfigurationError, match="column v: bigint does not go into int as it is"):
            t.start()


@pytest.mark.parametrize("world", WORLDS)
def test_a_wider_column_gets_its_own_type(world, tmp_path):
    """Files have the table's types, so every reader finds what the table says."""
    world = one_column(WORLDS[world](tmp_path), ArrayType(LongType()))
    with Trial(world) as t:
        t.start()
        one_column(world, ArrayType(IntegerType()))
        start = t.start()
        writer = start.open()
        writer.write(pa.RecordBatch.from_arrays([pa.array([[1, None]], pa.list_(pa.int32()))], ["v"]))
        t.commit(start, start.seal([start.report(writer.prepare(), ["a"])]))
    assert world.read().column("v").to_pylist() == [[1, None]]


@pytest.mark.parametrize("world", WORLDS)
def test_a_column_that_the_table_does_not_have(world, tmp_path):
    """It is refused by its name; one that only the table has is null in what is written."""
    world = one_column(WORLDS[world](tmp_path), LongType())
    with Trial(world) as t:
        t.start()
        world.fields = StructType([StructField("other", LongType())])
        with pytest.raises(ConfigurationError, match="column other is not in the table"):
            t.start()


# -- Iceberg's tables -------------------------------------------------------------------------------------------------


OF_FILES = (
    "a_commit_shows_each_row_once",
    "a_refused_row_fails_the_precommit",
    "a_failed_task_leaves_nothing_visible",
    "a_precommit_survives_its_process",
)


@pytest.fixture(scope="module")
def partitioned(tmp_path_factory):
    return Partitioned(tmp_path_factory.mktemp("partitioned"))


@pytest.mark.parametrize("check", [c for c in conformance.CHECKS if c.name in OF_FILES], ids=str)
def test_a_partitioned_table_keeps_the_contract(check, partitioned):
    """What depends on files holds with several of a task; and a row that the table does not take fails its epoch."""
    check(partitioned)


@pytest.mark.parametrize("by", SPEC, ids=[f"{t} of {i}" for i, t in SPEC])
def test_each_transform_puts_rows_where_readers_look(by, tmp_path):
    """What is asked for by the column's value is found: a reader passes over the other partitions."""
    world = Partitioned(tmp_path, by=[by])
    with Trial(world) as t:
        start = t.start()
        keys = t.keys(40)
        t.commit(start, start.prepare(keys))
    table = world.table()
    whole = table.scan().to_arrow().to_pylist()
    assert sorted(row["key"] for row in whole) == sorted(keys)
    name = ROWS.find_field(by[0]).name
    for value in {row[name] for row in whole if row[name] is not None}:
        told = value.isoformat() if hasattr(value, "isoformat") else value
        if isinstance(value, bytes | Decimal):
            from pyiceberg.expressions import EqualTo, literal

            found = table.scan(EqualTo(name, literal(value))).to_arrow()
        else:
            found = table.scan(f"{name} = {told!r}").to_arrow()
        assert len(found) == sum(row[name] == value for row in whole), value
    assert len(table.scan(f"{name} is null").to_arrow()) == sum(row[name] is None for row in whole)
    partitions = {tuple(row["partition"].values()) for row in table.inspect.partitions().to_pylist()}
    assert len(partitions) == len(world.data())


@pytest.mark.parametrize(
    ("by", "schema", "why"),
    [
        ([(1, IdentityTransform())], IcebergSchema(ice.NestedField(1, "key", ice.DoubleType())), "0 and -0"),
        (
            [(2, IdentityTransform())],
            IcebergSchema(
                ice.NestedField(1, "key", ice.StructType(ice.NestedField(2, "inner", ice.LongType(), required=False)))
            ),
            "inside of another",
        ),
    ],
)
def test_a_partition_that_cannot_be_written_rightly(by, schema, why, tmp_path):
    """It is refused by its name."""
    world = Partitioned(tmp_path, by=by, schema=schema)
    world.fields = StructType([])
    with Trial(world) as t, pytest.raises(ConfigurationError, match=f"partitioned by p0: .*{why}"):
        t.start()


def test_a_required_column_that_the_output_does_not_have(tmp_path):
    """It is refused by its name."""
    world = Partitioned(tmp_path)
    world.fields = StructType([StructField("amount", LongType())])
    with (
        Trial(world) as t,
        pytest.raises(ConfigurationError, match="column key takes no null, and the output does not"),
    ):
        t.start()


def test_a_null_in_a_required_column(tmp_path):
    """The row is refused by the column's name, and its values are not told."""
    with Trial(Partitioned(tmp_path)) as t:
        writer = t.start().open()
        with pytest.raises(RowRefusedError, match="column key takes no null, and 1 rows have one") as told:
            writer.write(t.world.refused(["geheim", "other"]))
        assert "geheim" not in str(told.value)
        writer.abort()


def test_a_table_that_is_altered_after_the_decision(tmp_path):
    """Another partition spec, or a column that is gone: the commit is refused until it is put back, and then made."""
    world = Partitioned(tmp_path)
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        prepared = start.prepare(keys)
        with world.table().update_spec() as spec:
            spec.remove_field("p1")
        with pytest.raises(PreCommitError, match="partition spec"):
            start.committer.check(prepared, start.run(), 0.0)
        assert start.committer.commit(prepared)[prepared[0].id] is Reply.REFUSED
        assert "partition spec" in str(start.committer.refusal(prepared))
        assert start.committer.outcomes(prepared)[prepared[0].id].outcome is Outcome.OPEN
        with world.table().update_spec() as spec:
            spec.add_field("at", DayTransform(), "p1")
        t.commit(start, prepared)
        later = start.prepare(t.keys(), epoch=1)
        with world.table().update_schema() as schema:
            schema.rename_column("amount", "total")
            schema.add_column("more", ice.LongType())
        assert start.committer.check(later, start.run(1), 0.0) is None  # a column is known by its id
        with world.table().update_schema() as schema:
            schema.delete_column("total")
        with pytest.raises(PreCommitError, match="columns of the table are gone: amount"):
            start.committer.check(later, start.run(1), 0.0)
    assert sorted(world.visible()) == sorted(keys)


@pytest.mark.parametrize("what", ["spec", "column", "null", "place"])
def test_a_table_that_is_altered_while_a_start_runs(what, tmp_path):
    """Files are made as the table was at the start: an epoch of another shape is refused before it is decided."""
    world = Partitioned(tmp_path)
    with Trial(world) as t:
        start = t.start()
        if what == "spec":
            with world.table().update_spec() as spec:
                spec.remove_field("p1")
                spec.add_field("price", IdentityTransform(), "p9")
        elif what == "column":
            for change in ("delete_column", "add_column"):
                with world.table().update_schema() as schema:
                    getattr(schema, change)("amount", *([ice.LongType()] if change == "add_column" else []))
        elif what == "place":
            with world.table().transaction() as change:
                change.set_properties({"write.data.path": f"file://{tmp_path}/elsewhere"})
        else:
            with world.table().update_schema(allow_incompatible_changes=True) as schema:
                schema.update_column("amount", required=True)
        told = {"spec": "partition spec is 1 now", "column": "are gone: amount", "null": "may have one: amount"}
        told["place"] = f"belong into file://{tmp_path}/elsewhere now"
        prepared = start.prepare(t.keys())
        with pytest.raises(PreCommitError, match=told[what]):
            start.committer.check(prepared, start.run(), 0.0)


@pytest.mark.parametrize("decided", [False, True])
def test_a_table_that_gets_a_newer_format_while_a_start_runs(decided, tmp_path):
    """Nothing that is decided for it could ever be committed: it is refused, and not tried again for ever."""
    world = IcebergWorld(tmp_path)
    with Trial(world) as t:
        start = t.start()
        prepared = start.prepare(t.keys())
        if decided:
            assert start.committer.check(prepared, start.run(), 0.0) is None
        world.upgrade()
        if decided:
            assert start.committer.commit(prepared)[prepared[0].id] is Reply.REFUSED
            assert "format version is 3" in start.committer.refusal(prepared).what
        else:
            with pytest.raises(PreCommitError, match="format version is 3"):
                start.committer.check(prepared, start.run(), 0.0)


@pytest.mark.parametrize("feature", ["clustering", "domainMetadata", "vacuumProtocolCheck"])
def test_a_delta_table_with_a_feature_that_the_library_does_not_write(feature, tmp_path):
    """It is refused at the start and before the decision, and not taken for others that are always faster."""
    world = DeltaWorld(tmp_path)
    with Trial(world) as t:
        start = t.start()
        prepared = start.prepare(t.keys())
        world.upgrade(feature, readers=feature == "vacuumProtocolCheck")
        with pytest.raises(PreCommitError, match=f"it has the feature {feature}"):
            start.committer.check(prepared, start.run(), 0.0)
    refused = pytest.raises(ConfigurationError, match=f"it has the feature {feature}")
    with contextlib.closing(world.sink().connect()) as connection, refused:
        connection.make_output(world.output())


def test_a_delta_table_that_the_library_cannot_read_any_more(tmp_path):
    """That passes by no waiting: a start is refused, and so is a commit, in the library's words."""
    world = DeltaWorld(tmp_path)
    with Trial(world) as t:
        start = t.start()
        prepared = start.prepare(t.keys())
        assert start.committer.check(prepared, start.run(), 0.0) is None
        world.upgrade("new", readers=True)
        assert start.committer.commit(prepared)[prepared[0].id] is Reply.REFUSED
        assert "Feature 'new' is not supported" in start.committer.refusal(prepared).what
        with pytest.raises(LakeRightsError, match="Feature 'new' is not supported") as raised:
            world.sink().connect()
    assert not raised.value.retriable
    assert "the library" in (raised.value.cause or "")


def test_a_time_without_a_zone_in_a_map_is_no_column_that_delta_makes(tmp_path):
    """It is refused by the column's name, also deep inside, and is nothing that passes."""
    for kind in (MapType(StringType(), TimestampNTZType()), ArrayType(MapType(TimestampNTZType(), StringType()))):
        with contextlib.closing(DeltaWorld(tmp_path).sink().connect()) as connection:
            with pytest.raises(ConfigurationError, match="cannot be made: column v") as raised:
                connection.make_output(StructType([StructField("key", StringType()), StructField("v", kind)]))
            assert not raised.value.retriable


IN = [StructField("a", LongType()), StructField("b", LongType())]


class Nested(IcebergWorld):
    """A table of columns with fields inside, and of a plain one."""

    fields = StructType(
        [
            StructField("key", StringType()),
            StructField("v", LongType()),
            StructField("s", StructType(IN)),
            StructField("l", ArrayType(StructType(IN))),
            StructField("m", MapType(StringType(), StructType(IN))),
        ]
    )

    def rows(self, keys):
        inside = {"a": 1, "b": 2}
        row = {"v": 3, "s": inside, "l": [inside], "m": [("x", inside)]}
        kinds = pa.struct([("a", pa.int64()), ("b", pa.int64())])
        kinds = {"v": pa.int64(), "s": kinds, "l": pa.list_(kinds), "m": pa.map_(pa.string(), kinds)}
        columns = {name: pa.array([row[name]] * len(keys), kind) for name, kind in kinds.items()}
        return pa.RecordBatch.from_pydict({"key": pa.array(keys, pa.string()), **columns})


def renamed_and_made(path, to):
    """A field gets another name, and its old one is another field's."""
    return [lambda schema: schema.rename_column(path, to), add(path)]


def add(path):
    return lambda schema: schema.add_column(path, ice.LongType())


def drop(path):
    return lambda schema: schema.delete_column(path)


INSIDE = {
    "a field of a struct is another one": ([drop(("s", "b")), add(("s", "b"))], "are gone: s.b"),
    "a field of a list's structs": ([drop(("l", "b")), add(("l", "b"))], "are gone: l.element.b"),
    "a field of a map's structs": ([drop(("m", "b")), add(("m", "b"))], "are gone: m.value.b"),
    "a column's name is another one's": (renamed_and_made("v", "v_old"), "another column is called: v"),
    "a field's name is another one's": (renamed_and_made(("s", "b"), "b_old"), "another column is called: s.b"),
    "and its struct has another name": (
        [*renamed_and_made(("s", "b"), "b_old"), lambda schema: schema.rename_column("s", "t")],
        "another column is called: s.b",
    ),
}


@pytest.mark.parametrize("what", INSIDE)
def test_a_field_that_is_another_one_while_a_start_runs(what, tmp_path):
    """Readers find values by a field's id: those of an epoch would be null, or stand under another name, for good."""
    changes, why = INSIDE[what]
    world = Nested(tmp_path)
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        t.commit(start, start.prepare(keys))
        waiting, prepared = start.prepare(t.keys(), epoch=1), start.prepare(t.keys(), epoch=2)
        for change in changes:
            with world.table().update_schema() as schema:
                change(schema)
        with pytest.raises(PreCommitError, match=why) as told:
            start.committer.check(prepared, start.run(2), 0.0)
        assert told.value.retriable, "the next start writes the fields that are there now"
        assert start.committer.commit(waiting)[waiting[0].id] is Reply.REFUSED
        assert why in str(start.committer.refusal(waiting))
    assert sorted(world.visible()) == sorted(keys)


def test_a_field_that_only_gets_another_name(tmp_path):
    """It is known by its id, on each level; and so is one that is there beside it."""
    world = Nested(tmp_path)
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        prepared = start.prepare(keys)
        for path in (("s", "b"), ("l", "b"), ("m", "b"), "v", "s"):
            with world.table().update_schema() as schema:
                schema.rename_column(path, "renamed" if path != "s" else "t")
        with world.table().update_schema() as schema:
            schema.add_column(("t", "more"), ice.LongType())
        assert start.committer.check(prepared, start.run(), 0.0) is None
        t.commit(start, prepared)
    assert world.read().column("t").to_pylist() == [{"a": 1, "renamed": 2, "more": None}] * len(keys)


def test_a_field_inside_that_takes_no_null_from_now_on(tmp_path):
    """Files may have one there."""
    world = Nested(tmp_path)
    with Trial(world) as t:
        start = t.start()
        prepared = start.prepare(t.keys())
        with world.table().update_schema(allow_incompatible_changes=True) as schema:
            schema.update_column(("s", "b"), required=True)
        with pytest.raises(PreCommitError, match=r"may have one: s\.b"):
            start.committer.check(prepared, start.run(), 0.0)


def test_what_an_older_version_has_decided_is_committed_by_its_columns_alone(tmp_path):
    """It kept the ids of columns, and nothing of what is inside of them."""
    world = Nested(tmp_path)
    with Trial(world) as t:
        start, keys = t.start(), t.keys()
        (prepared,) = start.prepare(keys)
        told = json.loads(json.dumps(prepared.to_json()))
        shape = told["transaction"]["sealed"]["shape"]
        shape["fields"] = [[name, i] for name, i, *_ in shape["fields"]]
        t.commit(start, [Participant.from_json(told)])
    assert sorted(world.visible()) == sorted(keys)


STRANGE = StructType([StructField("a-b", LongType()), StructField("c", LongType())])


@pytest.mark.parametrize(
    "kind", [STRANGE, ArrayType(STRANGE), MapType(StringType(), STRANGE)], ids=["", "in a list", "in a map"]
)
def test_a_field_whose_name_files_spell_otherwise(kind, tmp_path):
    """A field of a struct keeps its value, whatever its name; nulls, empty lists and pieces of a batch, too."""
    world = IcebergWorld(tmp_path)
    world.fields = StructType([StructField("key", StringType()), StructField("of", kind)])
    struct = pa.struct([("a-b", pa.int64()), ("c", pa.int64())])
    of = {"a-b": 7, "c": 8}
    arrow, values = struct, [None, of, {"a-b": None, "c": 1}]
    if isinstance(kind, ArrayType):
        arrow, values = pa.list_(struct), [[], [of, None, of], []]
    elif isinstance(kind, MapType):
        arrow, values = pa.map_(pa.string(), struct), [[], [("x", of), ("y", None)], []]
    rows = pa.RecordBatch.from_pydict({"key": ["0", "1", "2"], "of": pa.array(values, arrow)})
    with Trial(world) as t:
        start = t.start()
        writer = start.open()
        for piece in (rows.slice(1, 2), rows.slice(0, 1)):
            writer.write(piece)
        sealed = start.seal([start.report(writer.prepare(), ["0", "1", "2"])])
        assert start.committer.check(sealed, start.run(), 0.0) is None
        t.commit(start, sealed)
    found = sorted(world.read().to_pylist(), key=lambda row: row["key"])
    assert [row["of"] for row in found] == values


@pytest.mark.parametrize("kind", WORLDS)
def test_a_table_of_very_many_partitions(kind, tmp_path):
    """Each row is in the files of its own values, though their combinations are more than a number of 64 bits tells."""
    names, many = [f"p{i}" for i in range(7)], 700
    fields = StructType([StructField("key", LongType()), *(StructField(name, LongType()) for name in names)])
    world = WORLDS[kind](tmp_path)
    if kind == "delta":
        made(world, fields, partition_by=names)
    else:
        schema = IcebergSchema(*(ice.NestedField(i, f.name, ice.LongType()) for i, f in enumerate(fields, 1)))
        world = Partitioned(tmp_path, by=[(i, IdentityTransform()) for i in range(2, 9)], schema=schema)
    world.fields = fields
    columns = [pa.array([(i * prime) % many for i in range(many)]) for prime in (1, 3, 11, 13, 17, 19, 23, 29)]
    rows = pa.RecordBatch.from_arrays(columns, names=fields.names)
    with Trial(world) as t:
        form = t.start().connection.writer_factory().form
        found = {row["key"]: part for part, some in form.parts(rows) for row in some.to_pylist()}
    assert len(found) == many
    for row in rows.to_pylist():
        assert [int(value) for value in found[row["key"]]] == [row[name] for name in names]


# -- Delta's tables ---------------------------------------------------------------------------------------------------


def test_a_delta_table_with_partitions(tmp_path):
    """Each row comes back with the values of its partition, and a reader that asks for one finds all of it."""
    world = PartitionedDelta(tmp_path)
    with Trial(world) as t:
        start, keys = t.start(), t.keys(30)
        t.commit(start, start.seal([start.write(keys)]))
        wanted = [row for part in (keys[:15], keys[15:]) for row in world.rows(part).to_pylist()]
    found = sorted(world.read().select(BY.names).to_pylist(), key=lambda row: row["key"])
    assert found == sorted(wanted, key=lambda row: row["key"])
    old = world.table().to_pyarrow_table(filters=[("n", "=", -1), ("yes", "=", True)])
    assert len(old) == sum(row["n"] == -1 and row["yes"] for row in wanted)


@pytest.mark.parametrize("what", ["partition", "null"])
def test_a_delta_table_that_is_altered_while_a_start_runs(what, tmp_path):
    """Files are made as the table was at the start: an epoch of another shape is refused before it is decided."""
    world = PartitionedDelta(tmp_path)
    with Trial(world) as t:
        start = t.start()
        if what == "partition":
            rows = pa.table({name: world.rows(["x"]).column(name) for name in BY.names})
            write_deltalake(world.path, rows, partition_by=["n"], mode="overwrite", schema_mode="overwrite")
        else:
            strict = StructType([StructField("key", StringType(), nullable=False), *BY.fields[1:]])
            world.drop()
            DeltaTable.create(world.path, Schema.from_json(strict.json()), partition_by=BY.names[1:])
        prepared = start.prepare(t.keys())
        with pytest.raises(PreCommitError) as told:
            start.committer.check(prepared, start.run(), 0.0)
        assert ("partitioned by ['n'] now" if what == "partition" else "may have one: key") in told.value.what
        assert told.value.retriable, "the next start looks at the table as it is"


def test_a_text_that_is_empty_is_no_partition(tmp_path):
    """Delta would take it for null: the row is refused by the column's name."""
    world = DeltaWorld(tmp_path)
    made(world, world.fields, partition_by=["key"])
    with Trial(world) as t:
        writer = t.start().open()
        with pytest.raises(RowRefusedError, match="partitioned by key, and Delta takes an empty text"):
            writer.write(world.rows([""]))
        writer.abort()


RULES = {"delta.invariants": '{"expression": {"expression": "key > 1"}}'}


@pytest.mark.parametrize(
    ("fields", "how", "why"),
    [
        (BY, {"configuration": {"delta.setTransactionRetentionDuration": "interval 1 days"}}, "forgets which epochs"),
        (StructType([StructField("key", DoubleType()), *BY[1:]]), {"partition_by": ["key"]}, "partitioned by key"),
        (
            StructType([StructField("key", StringType(), nullable=True, metadata=RULES), *BY[1:]]),
            {},
            "a rule of its own",
        ),
    ],
)
def test_a_delta_table_that_cannot_be_written_rightly(fields, how, why, tmp_path):
    """It is refused, with the name of what it has."""
    world = made(DeltaWorld(tmp_path), fields, **how)
    world.fields = fields
    with Trial(world) as t, pytest.raises(ConfigurationError, match=why):
        t.start()


def test_a_delta_table_with_a_constraint(tmp_path):
    """Nobody would look whether rows keep it."""
    world = made(DeltaWorld(tmp_path), BY)
    world.fields = BY
    world.table().alter.add_constraint({"positive": "n > 0"})
    with Trial(world) as t, pytest.raises(ConfigurationError, match=r"delta\.constraints\.positive"):
        t.start()


def told_of(world):
    found = pa.table(world.table().get_add_actions(flatten=True)).to_pylist()
    names = ("min.key", "max.key", "min.amount", "max.amount", "null_count.amount")
    return [tuple(row.get(name) for name in names) for row in sorted(found, key=lambda row: row["num_records"])]


def test_statistics_of_delta_are_those_of_the_rows(tmp_path):
    """What is told of columns is how many nulls they have, and of all or none their smallest and largest values."""
    world = DeltaWorld(tmp_path)
    with Trial(world) as t:
        start = t.start()
        t.commit(start, start.prepare(["b" * 33], epoch=0))
        t.commit(start, start.prepare(["d", "c"], epoch=1))
    assert told_of(world) == [(None, None, None, None, 0), ("c", "d", 1, 1, 0)]


@pytest.mark.parametrize(("kind", "arrow", "values"), EACH, ids=[kind.simpleString() for kind, *_ in EACH])
@pytest.mark.parametrize("name", WORLDS)
def test_a_reader_finds_what_it_asks_for(name, kind, arrow, values, tmp_path):
    """A reader passes over files by their statistics, and over none that has a row of what is asked for."""
    world = WORLDS[name](tmp_path)
    world.fields = StructType([StructField("key", StringType()), StructField("v", kind)])
    with Trial(world) as t:
        start, reports = t.start(), []
        for number, value in enumerate([*values, None]):
            writer = start.open(number)
            held = pa.array([value, None, values[0]][: 1 + number % 3], arrow)
            writer.write(pa.RecordBatch.from_arrays([pa.array(["x"] * len(held)), held], ["key", "v"]))
            reports.append(start.report(writer.prepare(), ["x"] * len(held), number))
        t.commit(start, start.seal(reports))
    whole = world.read()
    for value in values:
        if repr(value) == "nan" or (name == "iceberg" and kind in (FloatType(), DecimalType(20, 10))):
            continue  # pyiceberg has no word for these
        wanted = pc.sum(pc.equal(whole.column("v"), pa.scalar(value, arrow))).as_py()
        assert wanted > 0
        if name == "iceberg":
            asked = value.isoformat() if isinstance(value, dt.date) else value
            found = world.table().scan(row_filter=EqualTo("v", asked)).to_arrow()
        else:
            found = world.table().to_pyarrow_dataset().to_table(filter=pc.field("v") == pa.scalar(value, arrow))
        assert len(found) == wanted


def test_a_partition_of_a_small_fraction(tmp_path):
    """Its value is told in digits: a reader need not know powers of ten."""
    fields = StructType([StructField("key", StringType()), StructField("v", DecimalType(20, 10))])
    world = made(DeltaWorld(tmp_path), fields, partition_by=["v"])
    world.fields = fields
    with Trial(world) as t:
        form = t.start().connection.writer_factory().form
        rows = pa.RecordBatch.from_arrays([["x"], pa.array([Decimal("1E-10")], pa.decimal128(20, 10))], ["key", "v"])
        assert [part for part, _ in form.parts(rows)] == [("0.0000000001",)]
