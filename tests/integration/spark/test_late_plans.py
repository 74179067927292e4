"""Late rows of many plans: with what the operator gives they are what a batch gives over the same rows, by groups."""

import json
import os
import random
from collections import Counter

import pytest
from pyspark.sql import functions as F  # noqa: N812

from onceflow.execution.outputs import DIGEST, Outputs, output_column
from onceflow.spark.internals import executed_plan, query_of
from onceflow.spark.late_rows import late_rows
from onceflow.spark.session import PINNED
from tests.support import checkpoints
from tests.support.rows import Rows

pytestmark = pytest.mark.spark
START, EPOCHS, EACH = 1_767_225_600, 6, 60
SCHEMA = "who string, n int, s long"


def in_sql(rows, _other):
    rows.createOrReplaceTempView("late_plans")
    return rows.sparkSession.sql(
        "select window(at, '10 seconds') as w, big, max(n) as greatest, count(*) as many "
        "from (select at, upper(who) as big, n from late_plans where n >= 0) group by window(at, '10 seconds'), big"
    )


def windows(rows, *keys):
    return rows.groupBy(F.window("at", "10 seconds"), *(keys or ("who",))).agg(F.count("*").alias("many"))


def enriched(rows, _other):
    names = rows.sparkSession.createDataFrame([("a", "x"), ("b", "y"), ("b", "z")], "who string, kind string")
    return windows(rows.join(F.broadcast(names), "who"), "kind")


def renamed(rows, _other):
    rows = rows.withColumnRenamed("at", "t").select("t", F.struct("who").alias("s"), "n")
    sliding = F.window("t", "10 seconds", "5 seconds", "2 seconds").alias("w")
    return rows.groupBy(sliding, "s.who").agg(F.count("*").alias("many"))


WINDOW = ("window.start", "who")
PLANS = {
    "plain": (lambda rows, _: windows(rows), WINDOW, WINDOW),
    "filtered above": (lambda rows, _: windows(rows).where("who <> 'a'"), WINDOW, WINDOW),
    "filtered below": (lambda rows, _: windows(rows.where("n % 3 <> 0")), WINDOW, WINDOW),
    "renamed": (renamed, ("w.start", "who"), ("window.start", "s.who")),
    "of one time": (lambda rows, _: rows.groupBy("at", "who").agg(F.count("*").alias("many")), *(("at", "who"),) * 2),
    "in SQL": (in_sql, ("w.start", "big"), ("window.start", "big")),
    "beside a static side": (enriched, ("window.start", "kind"), ("window.start", "kind")),
    "of two streams": (lambda rows, other: windows(rows.unionByName(other)), WINDOW, WINDOW),
}
"""What makes the result of two streams, and by which columns its groups are known, and those of late rows."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two folders of files, of which each is an epoch; the last ones end all windows."""
    made = []
    for seed in (1, 2):
        folder, numbers = tmp_path_factory.mktemp("rows"), random.Random(seed)
        for epoch in range(EPOCHS + 2):
            late = [-40, -7, 0, 0] if epoch < EPOCHS else [100_000 * epoch]
            rows = []
            for i in range(EACH if epoch < EPOCHS else 3):
                second = START + 20 * epoch + numbers.choice(late) + numbers.randrange(20)
                rows.append({"who": "abc"[numbers.randrange(3)], "n": i, "s": second})
            checkpoints.write(folder / f"{epoch}.json", "\n".join(map(json.dumps, rows)))
            os.utime(folder / f"{epoch}.json", (epoch, epoch))  # Spark takes the oldest first
        made.append(folder)
    return made


@pytest.mark.parametrize("mode", ["append", pytest.param("update", marks=pytest.mark.faults)])
@pytest.mark.parametrize("name", PLANS)
def test_result_and_late_rows_are_all_rows_of_each_group(spark, folders, tmp_path, name, mode):
    """Beside an output that reads the first stream again, and one that keeps state of the other one."""
    make, key, key_late = PLANS[name]
    session = spark.newSession()
    for setting, value in PINNED.items():
        session.conf.set(setting, value)

    def rows(folder, *, stream):
        reader = session.readStream.option("maxFilesPerTrigger", 1) if stream else session.read
        found = reader.schema(SCHEMA).json(str(folder)).withColumn("at", F.timestamp_seconds("s"))
        return found.withWatermark("at", "5 seconds")

    truth = Counter(counted(make(*(rows(folder, stream=False) for folder in folders)), key))
    one, other = (rows(folder, stream=True) for folder in folders)
    result = make(one, other)
    other_state = other.groupBy(F.window("at", "1 minute")).agg(F.max("n").alias("n"))
    late = late_rows(result).select(*(F.expr(each).alias(f"k{i}") for i, each in enumerate(key_late)))
    sinks = [Rows(each) for each in ("late", "result", "copy", "other")]
    copy = one.select("who").where("n = 1")
    whole = Outputs(dict(zip(sinks, [late, result, copy, other_state], strict=True)), [], mode=mode)
    found: dict[str, list] = {sink.name: [] for sink in sinks}

    def keep(batch, _epoch):
        frame = whole.of_epoch(batch, lambda: executed_plan(session, query_of(batch)))
        for row in frame.collect():
            for i, sink in enumerate(whole.sinks):
                if row[output_column(i, DIGEST)] is not None:
                    own = ((name.partition(output_column(i, "")), value) for name, value in row.asDict().items())
                    found[sink.name].append({name: value for (before, _, name), value in own if not before})

    query = whole.query.writeStream.foreachBatch(keep).outputMode(mode)
    query = query.option("checkpointLocation", f"file:{tmp_path / 'checkpoint'}").trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert query.exception() is None
    got: Counter = Counter()
    for row in found["result"]:
        where = tuple(inside(row, each) for each in key)
        got[where] = row["many"] if mode == "update" else got[where] + row["many"]
    got.update((row["k0"], row["k1"]) for row in found["late"])
    near = {where: many for where, many in truth.items() if where[0].timestamp() < START + 100_000}
    assert {where: many for where, many in got.items() if where in near} == near
    assert len(found["late"]) > 10
    assert found["copy"], "the output that reads along has its rows"


def counted(frame, key):
    rows = frame.select(*(F.expr(each).alias(f"k{i}") for i, each in enumerate(key)), "many").collect()
    return {tuple(row[:-1]): row[-1] for row in rows}


def inside(row, path):
    for name in path.split("."):
        row = row[name]
    return row
