"""One read for several outputs: what is read together gives the rows that each branch gives alone."""

import datetime as dt
from collections import Counter
from functools import reduce

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType

from onceflow.spark.one_read import read_once
from onceflow.spark.plan import require_streamable

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def parent(spark):
    """Rows of many types, with nulls in each."""
    day = dt.date(2026, 1, 1)
    rows = [
        (
            i,
            i % 4,
            None if i % 5 == 0 else f"u{i % 3}",
            None if i % 7 == 0 else {"a": i, "b": [str(i), None]},
            [i, None, i + 1],
            None if i % 6 == 0 else day + dt.timedelta(i),
            "7" if i % 3 else "no number",
        )
        for i in range(60)
    ]
    schema = "id int, m int, user string, s struct<a: int, b: array<string>>, l array<int>, d date, text string"
    return spark.createDataFrame(rows, schema).where("id < 55").withColumn("more", F.col("id") + 1)


def marked(frame: DataFrame, number: int) -> DataFrame:
    """A branch as an output has it: names of its own, and a last column that is null in no row."""
    named = frame.toDF(*(f"b{number}_{i}" for i in range(len(frame.columns))))
    return named.select("*", F.lit(number).alias(f"b{number}_mark"))


def rows_of(rows: list[Row], like: DataFrame) -> Counter:
    """Those of a branch among all rows."""
    *columns, mark = like.columns
    return Counter(str([row[column] for column in columns]) for row in rows if row[mark] is not None)


def united(frames) -> DataFrame:
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)


def check(*frames: DataFrame, together) -> DataFrame:
    """The union of what is read together has each branch's rows; which branches are, is as said."""
    branches = [marked(frame, i) for i, frame in enumerate(frames)]
    reads = read_once(branches)
    assert reads.together == together
    union = united(reads.frames)
    rows = union.collect()
    for branch in branches:
        assert rows_of(rows, branch) == rows_of(branch.collect(), branch)
    return union


def scans(frame: DataFrame) -> int:
    """How often the rows that all starts from are read."""
    return frame._jdf.queryExecution().optimizedPlan().toString().count("LogicalRDD")


SHAPES = {
    "nothing done": lambda p: p,
    "columns": lambda p: p.select("id", "user"),
    "filter": lambda p: p.where("m = 1"),
    "filter of nulls": lambda p: p.where("user = 'u1'"),
    "no row passes": lambda p: p.where("id < 0"),
    "two filters": lambda p: p.where("m > 0").select("id", (F.col("m") * 2).alias("n")).where("n < 6"),
    "relied on": lambda p: p.where("m <> 0").select((F.lit(12) / F.col("m")).alias("q")).where("q > 4"),
    "cast behind a filter": lambda p: p.where("text <> 'no number'").select(F.col("text").cast("int").alias("n")),
    "fails for others": lambda p: p.where("m = 2").withColumn(
        "x", F.when(F.col("m") != 2, F.raise_error(F.lit("a row that was filtered"))).otherwise(F.col("user"))
    ),
    "nested": lambda p: p.where("s is not null").select("s.a", F.element_at("s.b", 1).alias("e"), F.to_json("s")),
    "functions of functions": lambda p: p.select(
        "id", F.transform("l", lambda x: F.coalesce(x, F.lit(0)) + F.col("m")), F.create_map("id", "user")
    ).where("id > 3"),
    "renamed, replaced, dropped": lambda p: (
        p.withColumnRenamed("user", "name").withColumn("id", F.col("id") * 10).drop("s", "l").where("id >= 100")
    ),
    "structs": lambda p: p.select(F.date_format("d", "yyyy"), F.struct("id", "d").alias("n")).where("n.d is null"),
    "stacked": lambda p: reduce(lambda f, i: f.withColumn("m", F.col("m") + F.col("m") + i), range(12), p),
}


@pytest.mark.faults
@pytest.mark.parametrize("name", SHAPES)
def test_a_branch_has_the_rows_that_it_has_alone(parent, name):
    """Beside one that takes all, one that takes a few, and itself; what they start from is read once."""
    frames = [SHAPES[name](parent), parent, parent.where("m = 3").select("more"), SHAPES[name](parent)]
    union = check(*frames, together=((0, 1, 2, 3),))
    assert scans(union) == 1


@pytest.mark.faults
def test_all_of_them_together(parent):
    """Whatever they do, one pass has the rows of each."""
    union = check(*(shape(parent) for shape in SHAPES.values()), together=(tuple(range(len(SHAPES))),))
    assert scans(union) == 1


def test_what_lies_behind_a_filter_may_rely_on_it(parent):
    """A function that fails for rows that its branch's filter keeps from it is not asked for them."""
    names = ("relied on", "cast behind a filter", "fails for others", "filter of nulls")
    union = check(parent, *(SHAPES[name](parent) for name in names), together=((0, 1, 2, 3, 4),))
    assert scans(union) == 1


def test_a_row_that_no_branch_takes_is_not_handed_over(parent):
    """A pass has no row that is nobody's."""
    union = check(parent.where("m = 1"), parent.where("m = 2"), together=((0, 1),))
    assert union.count() == parent.where("m in (1, 2)").count()


def test_what_is_done_before_the_outputs_part_is_done_once(parent):
    """A Python function, chance, and an explosion below the branches are theirs together, with the same values."""
    shouted = F.udf(lambda x: None if x is None else x.upper(), StringType())
    common = parent.withColumn("user", shouted("user")).withColumn("r", F.rand()).withColumn("x", F.explode("l"))
    branches = [marked(common.where("m = 1").select("id", "x", "r"), 0), marked(common.select("id", "x", "r"), 1)]
    reads = read_once(branches)
    assert reads.together == ((0, 1),)
    union = united(reads.frames)
    assert scans(union) == 1
    rows = [row for row in union.collect() if row.b0_mark is not None]
    assert rows
    assert all((row.b0_0, row.b0_1, row.b0_2) == (row.b1_0, row.b1_1, row.b1_2) for row in rows)


APART = {
    "a Python function": lambda p: p.where("user is not null").select(F.udf(lambda x: x.upper())("user")),
    "chance": lambda p: p.where(F.rand() < 2),
    "many rows of one": lambda p: p.select(F.explode("l")),
    "rows of others": lambda p: p.where("m = 1").union(p.where("m = 2")),
    "an aggregation": lambda p: p.groupBy("m").count(),
    "a subquery": lambda p: p.where("id = (select max(id) from range(5))"),
    "another order": lambda p: p.sort("id"),
    "no duplicates": lambda p: p.dropDuplicates(["m"]).select("m"),
    "a side": lambda p: p.join(p.sparkSession.range(3).toDF("side"), F.col("side") == F.col("m")),
}


def test_what_is_more_than_selecting_and_filtering_reads_for_itself(parent):
    """The others are read together all the same."""
    apart = [make(parent) for make in APART.values()]
    check(*apart, parent.where("m = 1"), parent.select("id"), together=((len(apart), len(apart) + 1),))


def test_spark_takes_what_is_read_together_as_a_stream(spark):
    """In update mode it takes no limit in one, so there each branch reads for itself."""
    ticks = spark.readStream.format("rate").load()
    branches = [marked(ticks.where("value > 1"), 0), marked(ticks.select("value"), 1)]
    for mode, together in (("append", ((0, 1),)), ("update", ())):
        reads = read_once(branches, mode)
        assert reads.together == together
        require_streamable(united(reads.frames), mode)


def test_columns_of_one_name_are_told_apart(parent):
    """A join leaves two of a name, and a user may have taken ours."""
    right = parent.sparkSession.range(40).withColumn("_onceflow_branch", F.col("id") % 4)
    common = parent.join(right, parent["id"] == right["id"]).withColumn("y", F.col("more") * 2)
    first = common.where(right["id"] > 5).select(parent["id"], right["id"].alias("other"), "_onceflow_branch")
    check(first.where("other < 20"), common.where("_onceflow_branch = 1").select("y"), together=((0, 1),))


def test_two_parents_are_two_reads(spark, parent):
    """What has nothing in common shares nothing; of several groups each has a pass of its own."""
    other = spark.createDataFrame([(i, i % 2) for i in range(10)], "id int, m int").where("id > 1")
    frames = [other.where("m = 0"), parent.where("m = 1"), other.select("id"), parent.select("user")]
    assert scans(check(*frames, together=((0, 2), (1, 3)))) == 2
    check(spark.range(3).select("id"), parent.select("id"), together=())


def test_a_row_that_a_branch_cannot_take_still_fails(parent):
    """What fails alone fails together."""
    branches = [marked(parent.select(F.col("text").cast("int")), 0), marked(parent.select("id"), 1)]
    with pytest.raises(PySparkException, match="CAST_INVALID_INPUT"):
        united(read_once(branches).frames).collect()
