"""Calls that a type checker must accept: every setting, and each form that it takes."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import onceflow as of

of.Checkpointing("checkpoints/alerts")
of.Checkpointing(Path("checkpoints/alerts"), interval="200 ms", retain=10)
of.Checkpointing("checkpoints/alerts", interval=0.5)

kafka = of.KafkaCluster("localhost:9092")
secured = of.KafkaCluster(
    ["a:9093", "b:9093"],
    security_protocol="SASL_SSL",
    sasl_mechanism="SCRAM-SHA-512",
    username="alerts",
    password={"env": "KAFKA_PASSWORD"},
    ssl_ca=Path("ca.pem"),
)
of.KafkaCluster("a:9093", security_protocol="SSL", ssl_key="key.pem", ssl_key_password={"file": Path("secret")})
job = of.Job("fraud-alerts", checkpointing=of.Checkpointing("checkpoints/fraud-alerts", interval="1s"))
alerts = of.KafkaSink(kafka, "alerts", key="user_id", create_topic=of.NewTopic(partitions=4))


@job.stream(sinks=[alerts])
def one(spark: SparkSession) -> DataFrame:
    """One output."""
    dead = of.DeadLetter(of.KafkaSink(kafka, "dead"))
    of.KafkaSource(kafka, "orders", value=of.Text(), on_malformed=dead)
    return of.KafkaSource(kafka, "transactions", value=of.Json("user_id string"), on_malformed="skip").load(spark)


@job.stream()
def several(spark: SparkSession) -> dict[of.KafkaSink, DataFrame]:
    """Several outputs."""
    return {alerts: one(spark)}


@job.stream
def bare(spark: SparkSession) -> dict[of.KafkaSink, DataFrame]:
    """Without parentheses."""
    return several(spark)


source = of.KafkaSource(kafka, "transactions", value=of.Raw())


@job.stream(sources=[source])
def declared(spark: SparkSession) -> DataFrame:
    """A source that is looked at before Spark is started."""
    return source.load(spark)


frames: dict[of.KafkaSink, DataFrame] = bare(SparkSession.builder.getOrCreate())

try:
    job.run(until="caught-up", takeover="claim")
except of.Stopped as stopped:
    print(stopped.signal.name, stopped.clean)
job.main()
