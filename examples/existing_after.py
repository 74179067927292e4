"""The same program with onceflow: one option for the source, and one call in the place of its `writeStream`."""

import logging
import os

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import onceflow as of

logging.basicConfig(level=logging.INFO)
logging.getLogger("py4j").setLevel(logging.WARNING)
KAFKA = os.environ.get("KAFKA", "localhost:9092")
spark = SparkSession.builder.appName("views").config("spark.authenticate", "true").getOrCreate()
records = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", KAFKA)
    .option("subscribe", "views")
    .option("startingOffsets", "earliest")
    .option("kafka.isolation.level", "read_committed")
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

query = of.start(
    views,
    sinks=[
        of.KafkaSink(
            of.KafkaCluster(KAFKA),
            os.environ.get("OUT", "views-by-page"),
            key="key",
            value=of.Text(),
            value_columns=["value"],
        )
    ],
    name="views",
    checkpointing=of.Checkpointing("checkpoints/views-after"),
    until="caught-up",
)
query.awaitTermination()
