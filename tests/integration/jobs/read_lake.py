"""Read a lake table by Spark: all rows into an Arrow file, and how many rows there are for each value of a column.

Must not know: onceflow, since it runs on other versions of Spark, too. Called with one argument, in JSON: ``settings``
of the session, ``table`` (a name in a catalog) or ``path`` (a Delta table), ``plain`` (columns to ask for), ``out``.
"""

import json
import os
import sys
from collections import Counter
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

told = json.loads(sys.argv[1])
os.environ["PYSPARK_PYTHON"] = sys.executable
builder = SparkSession.builder.master("local[2]")
for name, value in told["settings"].items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
rows = spark.table(told["table"]) if "table" in told else spark.read.format("delta").load(told["path"])

found = rows.toArrow()
with pa.OSFile(f"{told['out']}.arrow", "wb") as file, pa.ipc.new_file(file, found.schema) as writer:
    writer.write_table(found)

counts = {}
kinds = {column: rows.schema[column].dataType for column in told["plain"]}
binary = {column for column, kind in kinds.items() if kind.simpleString() == "binary"}
texts = rows.select(*(F.hex(c) if c in binary else F.col(c).cast("string") for c in kinds)).collect()
for column, of_rows in zip(kinds, zip(*texts, strict=True), strict=True):
    # What is asked for is a constant of the column's type: that is handed down to where files are passed over.
    constants = [F.lit(text) for text in sorted({text for text in of_rows if text is not None})]
    asked = [F.col(column) == (F.unhex(c) if column in binary else c.cast(kinds[column])) for c in constants]
    asked.append(F.col(column).isNull())
    each = [rows.where(one).select(F.lit(i).alias("i")) for i, one in enumerate(asked)]
    found = Counter(row.i for row in reduce(DataFrame.union, each).collect())
    counts[column] = [*sorted(found[i] for i in range(len(constants))), found[len(constants)]]
Path(f"{told['out']}.json").write_text(json.dumps(counts))
spark.stop()
