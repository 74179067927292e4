"""Spark's own Kafka source and sink (at-least-once), with the settings that onceflow gives to source and session.

Must not know: who measures it. Of onceflow it takes the pinned connector jars and Java's class archive, nothing else.
"""

import json
import os
import shlex
import sys
from urllib.parse import urlsplit

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

from onceflow.local import class_archive
from onceflow.local.jars import spark_jars

told = json.loads(sys.argv[1])
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
jars = spark_jars()
archive = class_archive.find(jars)
java = ["-XX:+UseParallelGC", "-XX:+UseTransparentHugePages", *(class_archive.options(archive) if archive else [])]
settings = {
    "spark.master": "local[*]",
    "spark.driver.extraClassPath": ":".join(map(str, [*jars, *told["jars"]])),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.local.dir": told["scratch"],
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Also onceflow's defaults; all of them help Spark's own sink as well.
    "spark.driver.memory": "2g",
    "spark.driver.defaultJavaOptions": shlex.join(java),
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    **told["spark"],
}
builder = SparkSession.builder.appName(f"bench-{told['work']}")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

reader = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", told["servers"])
    .option("subscribe", told["source"])
    .option("startingOffsets", "earliest")
    .option("kafka.fetch.max.wait.ms", "1")
    .options(**told["consumer"])
)
if told["per_epoch"]:
    reader = reader.option("maxOffsetsPerTrigger", told["per_epoch"])
records = reader.load()
if told["work"] == "table":
    schema = "id string, user_id string, amount decimal(18,2), event_time timestamp"
    output = records.select(F.from_json(F.col("value").cast("string"), schema).alias("payment")).select("payment.*")
elif told["work"] == "copy":
    output = records.select("key", "value")
else:
    schema = "user_id string, amount decimal(18,2), event_time timestamp"
    output = (
        records.select(F.from_json(F.col("value").cast("string"), schema).alias("payment"))
        .select("payment.*")
        .withWatermark("event_time", "10 seconds")
        .groupBy(F.window("event_time", "1 minute"), "user_id")
        .agg(F.count("*").alias("transactions"), F.sum("amount").alias("total"))
        .where("transactions > 10")
        .select(
            F.col("user_id").alias("key"),
            F.to_json(F.struct("window", "user_id", "transactions", "total")).alias("value"),
        )
    )


def into_table(batch, _):
    """As many connections as tasks at a time, which is onceflow's number, too."""
    of = urlsplit(told["database"])
    url = f"jdbc:postgresql://{of.hostname}:{of.port}{of.path}?reWriteBatchedInserts=true&sslmode=disable"
    login = {"user": of.username, "password": of.password, "driver": "org.postgresql.Driver"}
    batch.write.jdbc(url, told["table"], mode="append", properties={**login, "batchsize": "10000"})


if told["work"] == "table":
    writer = output.writeStream.foreachBatch(into_table)
else:
    writer = (
        output.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", told["servers"])
        .option("topic", told["sink"])
    )
writer = writer.option("checkpointLocation", told["checkpoint"]).outputMode("append")
if told["bounded"]:
    writer = writer.trigger(availableNow=True)
else:
    writer = writer.trigger(processingTime=f"{told['interval_ms']} milliseconds")
writer.start().awaitTermination()
spark.stop()
