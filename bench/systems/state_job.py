"""A job with much state: the newest number and the text of each key are kept, and a key's change is written.

Must not know: who measures it. One argument: the assignment as JSON (see ``bench.stage.Assignment``).
"""

import json
import sys

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

import onceflow as of

told = json.loads(sys.argv[1])
kafka = of.KafkaCluster(told["servers"])
job = of.Job(
    "intervals",
    checkpointing=of.Checkpointing(told["checkpoint"], interval=f"{told['interval_ms']} ms", retain=2),
    output_mode="update",
    spark={
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": told["scratch"],
        "spark.sql.shuffle.partitions": "2",
        **told["spark"],
    },
)


@job.stream(sinks=[of.KafkaSink(kafka, told["sink"], key="key", value_columns=["changes", "bytes"])])
def changed(spark):
    records = of.KafkaSource(
        kafka, told["source"], value=of.Text(), key=of.Text(), max_records_per_epoch=told["per_epoch"]
    ).load(spark)
    kept = records.groupBy("key").agg(F.count("*").alias("changes"), F.max("value").alias("value"))
    # The text's length is written, or Spark would not keep the text; what fills the state is not written.
    return kept.where("changes > 1").select("key", "changes", F.length("value").alias("bytes"))


if __name__ == "__main__":
    job.main(until="caught-up" if told["bounded"] else "stopped")
