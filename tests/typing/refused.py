"""Calls that a type checker must refuse: each line says with which of mypy's error codes."""

from pyspark.sql import DataFrame, SparkSession

import onceflow as of

of.Checkpointing("checkpoints/alerts", intervall="1s")  # expect: call-arg
of.Checkpointing("checkpoints/alerts", retain="10")  # expect: arg-type
of.Checkpointing("checkpoints/alerts", "1s")  # expect: call-arg
of.Checkpointing()  # expect: call-arg

kafka = of.KafkaCluster("localhost:9092")
of.KafkaCluster()  # expect: call-arg
of.KafkaCluster("localhost:9092", user="alerts")  # expect: call-arg
of.KafkaCluster("localhost:9092", security_protocol="TLS")  # expect: arg-type
of.KafkaCluster("localhost:9092", password=1)  # expect: arg-type
of.KafkaSink(kafka, "alerts", keys="user_id")  # expect: call-arg
of.KafkaSource(kafka, "transactions", value=of.Raw(), on_malformed="ignore")  # expect: arg-type
of.NewTopic(partition=4)  # expect: call-arg

spark = SparkSession.builder.getOrCreate()
job = of.Job("fraud-alerts")  # expect: call-arg
job.run(until="finished")  # expect: arg-type
job.main(takeover="as_new")  # expect: arg-type


@job.stream(sinks=[kafka])  # expect: list-item
def elsewhere(spark: SparkSession) -> DataFrame:
    """A cluster is no sink."""
    return spark.readStream.load()


@job.stream()  # expect: type-var
def nothing(spark: SparkSession) -> None:
    """A stream function returns its stream."""


@job.stream  # expect: type-var
def query(spark: SparkSession) -> str:
    """Also without parentheses."""
    return spark.version


of.start({"alerts": elsewhere(spark)}, name="x", checkpointing=of.Checkpointing("x"))  # expect: arg-type
