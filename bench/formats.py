"""CPU that reading costs by format: a million payments as JSON, as Avro by one schema and by one of five, as Protobuf.

    python -m bench.formats --records 1000000 --rounds 5

What a source does with the bytes of a record, from memory and in one thread, without Kafka: parsing, the looks whether
its schema is known and whether it is malformed, and all of its columns. Seconds are of Java and of its Python workers
(user and system), the rounds' order changes. A decimal is a text in Protobuf, which has none. Results go to
``bench/results/formats.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import struct
import sys
from pathlib import Path
from typing import Any

import psutil
from bench.machine import head, load
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

from onceflow.connectors.registry import protoc
from onceflow.formats import avro_format
from onceflow.formats.avro_schema import dumps, of_columns
from onceflow.formats.contract import PartOfRecord, RecordReading
from onceflow.formats.json_format import Json
from onceflow.formats.protobuf_format import Protobuf
from onceflow.local.jars import spark_jars

RESULTS = Path(__file__).parent / "results" / "formats.json"
_VALUE = PartOfRecord(("payments",), "value")
_SCHEMAS = 5
_PROTO = """
syntax = "proto3"; import "google/protobuf/timestamp.proto";
message Payment {
  string user_id = 1; string amount = 2; google.protobuf.Timestamp paid_at = 3; int32 shop = 4; string currency = 5;
}
"""


def _session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", ",".join(map(str, spark_jars())))
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


def _payments(spark: SparkSession, records: int) -> DataFrame:
    return spark.range(records).select(
        F.concat(F.lit("user-"), F.col("id") % 1000).alias("user_id"),
        (F.col("id") % 90_000 / 100).cast("decimal(18,2)").alias("amount"),
        F.timestamp_millis(F.col("id") + 1_767_225_600_000).alias("paid_at"),
        F.col("id").cast("int").alias("shop"),
        F.lit("EUR").alias("currency"),
    )


def _read(blobs: DataFrame, form: RecordReading, records: int) -> None:
    parsed = blobs.select("value", form.parsed(F.col("value")).alias("it"), F.spark_partition_id().alias("barrier"))
    seen, unknown = F.spark_partition_id() != F.col("barrier"), form.unknown(F.col("value"))
    known = parsed if unknown is None else parsed.where(unknown.isNull() | seen)
    good = known.where(~_malformed(form) | seen)
    columns = form.columns(F.col("it"))
    read = good.select(*columns)
    (row,) = read.agg(F.count(F.lit(1)).alias("n"), *(F.max(name) for name in read.columns)).collect()
    if row.n != records:
        raise RuntimeError(f"{records - row.n} of {records} records were taken for malformed")


def _malformed(form: RecordReading) -> Column:
    found = form.malformed(F.col("value"), F.col("it"), None)
    return F.lit(False) if found is None else found


def _cpu_s() -> float:
    """Of Java's process, and of the Python workers below it, which live on."""
    times = [each.cpu_times() for each in psutil.Process().children(recursive=True)]
    return float(sum(each.user + each.system for each in times))


def measured(records: int, rounds: int) -> dict[str, Any]:
    """CPU seconds of each round, by format."""
    spark = _session()
    rows = _payments(spark, records)
    fields = rows.schema.fields
    schema = of_columns(fields)
    body = avro_format.Avro(dumps(schema)).encode(fields, _VALUE)
    framed = rows.select(F.concat(F.lit(b"\0" + struct.pack(">I", _SCHEMAS)), body).alias("value")).cache()
    as_json = rows.select(Json().encode(fields, _VALUE).alias("value")).cache()
    ddl = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)

    def avro_of(schemas: int) -> RecordReading:
        known = {_SCHEMAS - n: dumps(schema) for n in range(schemas)}
        return avro_format.reading_by(dumps(schema), known, frozenset(), "registry")

    proto = Protobuf(protoc.compiled({protoc.MAIN: _PROTO}, "the bench's").compiled, message="Payment")
    of_proto = rows.withColumn("amount", F.col("amount").cast("string"))
    as_proto = of_proto.select(proto.encode(of_proto.schema.fields, _VALUE).alias("value")).cache()
    ways = {
        "json": (as_json, Json(ddl)),
        "protobuf": (as_proto, proto.reading(_VALUE)),
        "avro by one schema": (framed, avro_of(1)),
        "avro by one of five": (framed, avro_of(_SCHEMAS)),
    }
    for blobs, form in ways.values():  # classes are loaded, code is compiled, bytes are made
        blobs.count()
        _read(blobs, form, records)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        for name in list(ways)[:: 1 if number % 2 else -1]:
            before = _cpu_s()
            _read(*ways[name], records)
            found[name].append(round(_cpu_s() - before, 2))
    spark.stop()
    return {name: {"seconds": each, "median": statistics.median(each)} for name, each in found.items()}


def main() -> int:
    """Measure, and write it down."""
    parser = argparse.ArgumentParser(prog="python -m bench.formats", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    told = {**head(), "records": asked.records}
    told |= {"cpu": measured(asked.records, asked.rounds), "load_after": load()}
    RESULTS.write_text(json.dumps(told, indent=1) + "\n")
    print(json.dumps(told["cpu"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
