"""An existing PySpark program: views of pages by ten minutes. After a death its sink may write an epoch twice."""

import os

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

KAFKA = os.environ.get("KAFKA", "localhost:9092")
spark = SparkSession.builder.appName("views").getOrCreate()
records = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", KAFKA)
    .option("subscribe", "views")
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", os.environ.get("PER_EPOCH", "100000"))
    .load()
)
views = (
    records.select(F.from_json(F.col("value").cast("string"), "page string, at timestamp").alias("view"))
    .select("view.*")
    .withWatermark("at", "5 minutes")
    .groupBy(F.window("at", "10 minutes"), "page")
    .agg(F.count("*").alias("views"))
    .select(
        F.col("page").alias("key"),
        F.to_json(F.struct("page", F.unix_millis("window.start").alias("since"), "views")).alias("value"),
    )
)

query = (
    views.writeStream.queryName("views")
    .format("kafka")
    .option("kafka.bootstrap.servers", KAFKA)
    .option("topic", os.environ.get("OUT", "views-by-page"))
    .option("checkpointLocation", "checkpoints/views-before")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
