"""Outputs of one job as a stream, with what one read makes of them and without: each gets the same rows.

Beside ``test_one_read.py``, which looks at frames: here Spark numbers sources, keeps watermarks, takes what is empty
out of plans, and goes from epoch to epoch.
"""

import json
from collections import Counter

import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType

from onceflow.execution import outputs
from onceflow.spark.one_read import Reads
from tests.support.rows import Rows

pytestmark = [pytest.mark.spark, pytest.mark.faults]

SCHEMA = (
    "id int, m int, user string, s struct<a: int, b: array<string>>, l array<int>, at timestamp, text string, "
    "`do.t` int, `ba``ck` int"
)
EACH = 20
FILES = 3


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two folders of files, of which each is an epoch."""
    folders = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    for of, folder in enumerate(folders):
        for file in range(FILES):
            rows = []
            for i in range(file * EACH + of * 100, (file + 1) * EACH + of * 100):
                user, struct = (f"u{i % 3}" if i % 5 else None), ({"a": i, "b": [str(i), None]} if i % 7 else None)
                at = f"2026-01-01T00:{i % 60:02}:00Z"
                rows.append(
                    {"id": i, "m": i % 4, "user": user, "s": struct, "l": [i, None, i + 1] if i % 3 else [], "at": at}
                    | {"text": "7" if i % 3 else "no number", "do.t": i * 2, "ba`ck": i * 3}
                )
            (folder / f"{file}.json").write_text("\n".join(map(json.dumps, rows)))
    return folders


def load(spark, folder):
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))


def a_static_side(p):
    side = p.sparkSession.range(3).select(F.col("id").cast("int").alias("side")).cache()
    joined = p.join(side, p.m == side.side)
    left = p.join(F.broadcast(side), p.m == side.side, "left")
    return [joined.where("m = 1"), joined.select("id", "side"), p.where("m = 1"), left.where("side is null")]


def a_join_with_itself(p):
    one = p.select("id", "m", F.col("at").alias("ta")).withWatermark("ta", "1 minute")
    other = p.select(F.col("id").alias("its"), F.col("at").alias("tb")).withWatermark("tb", "1 minute")
    return [one.join(other, F.expr("id = its and ta = tb")), one.where("m = 1"), p.select("id")]


def views(p):
    spark = p.sparkSession
    p.createOrReplaceTempView("payments")
    spark.sql("create or replace temporary function twice(x int) returns int return x * 2")
    return [
        spark.sql("select id, twice(m) t from payments where m = 1"),
        spark.sql("select id from payments where twice(m) > 3"),
        spark.sql("with c as (select id, m from payments where m > 0) select * from c where m < 3"),
        spark.table("payments").select("id"),
    ]


up = F.udf(lambda x: None if x is None else x.upper(), StringType())
JOBS = {
    "columns change their names": lambda p, _: [
        p.select(F.col("id").alias("m"), F.col("m").alias("id")),
        p.select(F.col("m"), F.col("id")),
        p.withColumnRenamed("id", "other").withColumnRenamed("m", "id"),
    ],
    "two sources": lambda p, q: [p.where("m = 1"), q.where("m = 1"), p.select("id"), q.select("id")],
    "unions": lambda p, q: [
        p.where("m = 1").union(p.where("m = 2")),
        p.where("m = 1"),
        p.union(p).where("m = 3"),
        p.select("id").union(q.select("id")),
        p.where("m = 0").unionByName(p.where("m < 2")).select("id"),
    ],
    "an output of a union twice": lambda p, q: [
        (both := p.select("id", "m").union(q.select("id", "m"))).where("id > 5"),
        both.select("m"),
        p.select("id"),
    ],
    "python functions": lambda p, _: [
        p.select(up("user").alias("u")),
        (shouted := p.withColumn("user", up("user"))).where("user is not null"),
        shouted.select("id", "user"),
        p.where("m = 1"),
        p.select("id").mapInPandas(lambda frames: frames, "id int"),
        p.select(F.pandas_udf(lambda ids: ids + 1, "int")("id").alias("next")),
    ],
    "several rows of one": lambda p, _: [
        p.select("id", F.explode("l")),
        (each := p.withColumn("x", F.explode_outer("l"))).where("x is null"),
        each.select("x"),
        p.select("id", F.window("at", "5 minutes", "2 minutes")),
        p.select("id", F.window("at", "5 minutes")),
    ],
    "state": lambda p, _: [
        p.dropDuplicates(["m"]),
        p.limit(7),
        (late := p.withWatermark("at", "1 minute")).where("m = 1"),
        late.select("id"),
        late.groupBy(F.window("at", "5 minutes")).count(),
        late.dropDuplicatesWithinWatermark(["m"]).select("m"),
    ],
    "state below": lambda p, _: [(once := p.dropDuplicates(["m", "user"])).where("m = 1"), once.select("m")],
    "a join with itself": lambda p, _: a_join_with_itself(p),
    "a static side": lambda p, _: a_static_side(p),
    "names": lambda p, _: [
        p.select("`do.t`", "`ba``ck`"),
        p.select(F.col("`do.t`").alias("x.y"), F.col("`ba``ck`").alias("a`b")),
        p.where("`do.t` > 20"),
        p.select(F.col("ID").alias("Id"), "USER"),
    ],
    "one frame for two": lambda p, _: [(one := p.where("m = 1")), one, p, p],
    "steps of steps": lambda p, _: [
        (some := p.where("m > 0")).select("id"),
        (parts := some.select("id", "m", (F.lit(12) / F.col("m")).alias("q"))),
        parts.where("q > 4"),
        parts.where("q > 4").where("id > 10").select("q"),
        p.where("text = '7'").select(F.col("text").cast("int").alias("t")),
        p.where("m <> 0").where("12 / m > 4"),
    ],
    "one function of a lambda": lambda p, _: [
        p.where(F.size(grown := F.transform("l", lambda x: F.coalesce(x, F.lit(0)) + F.col("m"))) > 1).select(grown),
        p.select(grown.alias("f"), grown.alias("g")),
        p.where(F.exists(grown, lambda y: y > 20)),
    ],
    "views": lambda p, _: views(p),
    "columns of files": lambda p, _: [
        p.select("id", F.regexp_extract("_metadata.file_name", r"(\d)", 1).alias("file")),
        p,
        p.where("m = 1").select("_metadata.file_name"),
    ],
    "aliases and hints": lambda p, _: [
        p.alias("a").where("a.m = 1").select("a.id"),
        p.alias("b").select("b.id", "b.m"),
        p.repartition(3).where("m = 1"),
        p.hint("broadcast").select("id"),
        p.observe("seen", F.count(F.lit(1)).alias("rows")).where("m = 1"),
    ],
    "constants": lambda p, _: [
        p.select(F.lit(1).alias("x")),
        p.select(F.lit(None).cast("string").alias("x")),
        p.where(F.lit(None).cast("boolean")),
        p.where("id in (select cast(id as int) from range(5))"),
        p.where(F.col("at") < F.current_timestamp()).select("id"),
    ],
}
TOGETHER = {
    "two sources": "0+2 1+3",
    "python functions": "1+2",
    "state": "2+3",
    "state below": "",
    "a join with itself": "",
    "one frame for two": "0+1",
}


@pytest.mark.parametrize("name", JOBS)
def test_each_output_has_the_rows_that_it_has_when_it_reads_alone(name, spark, files, tmp_path, monkeypatch):
    """Whatever the outputs of a job do, and however often their source is read, each gets the same rows, epochs on."""
    with_one_read, together = rows_of(JOBS[name], spark, files, tmp_path / "one")
    assert TOGETHER.get(name, together) == together
    monkeypatch.setattr(outputs, "read_once", lambda branches, _mode: Reads(tuple(branches), ()))
    alone, _ = rows_of(JOBS[name], spark, files, tmp_path / "alone")
    assert with_one_read == alone
    assert any(alone.values())


def rows_of(job, spark, files, checkpoint):
    """What each output of a job gets of all files, and which are read together."""
    made = job(*(load(spark, folder) for folder in files))
    whole = outputs.Outputs({Rows(f"output{i}"): frame for i, frame in enumerate(made)}, [])
    found = {sink.name: Counter() for sink in whole.sinks}

    def keep(rows, _epoch):
        for row in rows.collect():
            columns = row.asDict()
            for i, sink in enumerate(whole.sinks):
                own = {name: value for name, value in columns.items() if name.startswith(outputs.output_column(i, ""))}
                if own[outputs.output_column(i, outputs.DIGEST)] is not None:
                    found[sink.name][repr(list(own.values()))] += 1

    query = whole.query.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    query = query.trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert query.exception() is None
    return found, whole.together
