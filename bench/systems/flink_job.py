"""Flink SQL through PyFlink, EXACTLY_ONCE, RocksDB, incremental checkpoints: the same two works.

Must not know: who measures it, onceflow. It runs in Flink's own environment. Started again on the same checkpoint
folder, it goes on from the newest completed checkpoint there.
"""

import json
import sys
from pathlib import Path

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

told = json.loads(sys.argv[1])
folder = Path(told["checkpoint"])
folder.mkdir(parents=True, exist_ok=True)
settings = {
    "pipeline.jars": "file://" + told["flink_jar"],
    "parallelism.default": "2",
    "execution.checkpointing.interval": f"{told['interval_ms']} ms",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.storage": "filesystem",
    "execution.checkpointing.dir": folder.as_uri(),
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "execution.checkpointing.incremental": "true",
    "state.backend.type": "rocksdb",
    "io.tmp.dirs": told["scratch"],
    "table.local-time-zone": "UTC",
}
completed = sorted(folder.glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime)
if completed:
    settings["execution.state-recovery.path"] = completed[-1].parent.as_uri()
    print(f"going on from {completed[-1].parent.name}", file=sys.stderr)
configuration = Configuration()
for name, value in settings.items():
    configuration.set_string(name, value)
tables = TableEnvironment.create(
    EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
)


def options(**more):
    """The WITH clause of a table in Kafka; the consumer's settings are those that every JVM system gets."""
    named = {"connector": "kafka", "properties.bootstrap.servers": told["servers"]} | more
    return ", ".join(f"'{name}' = '{value}'" for name, value in named.items())


source = {f"properties.{name.removeprefix('kafka.')}": value for name, value in told["consumer"].items()}
source |= {"topic": told["source"], "scan.startup.mode": "earliest-offset", "properties.group.id": told["sink"]}
if told["bounded"]:
    source["scan.bounded.mode"] = "latest-offset"
sink = {
    "topic": told["sink"],
    "sink.delivery-guarantee": "exactly-once",
    "sink.transactional-id-prefix": told["sink"],
    "properties.transaction.timeout.ms": str(told["transaction_timeout_ms"] or 900_000),
}
if told["work"] == "copy":
    raw = {
        "key.format": "raw",
        "key.fields": "k",
        "value.format": "raw",
        "value.fields-include": "EXCEPT_KEY",
    }
    tables.execute_sql(f"CREATE TABLE source (k BYTES, v BYTES) WITH ({options(**source, **raw)})")
    tables.execute_sql(f"CREATE TABLE sink (k BYTES, v BYTES) WITH ({options(**sink, **raw)})")
    query = "INSERT INTO sink SELECT k, v FROM source"
else:
    json_format = {"value.format": "json", "value.json.timestamp-format.standard": "ISO-8601"}
    of_source, time = json_format | {"value.json.ignore-parse-errors": "true"}, "TIMESTAMP_LTZ(3)"
    if told["registry"]:  # an instant of Avro's is a TIMESTAMP to Flink, in UTC
        of_source, time = (
            {"value.format": "avro-confluent", "value.avro-confluent.url": told["registry"]},
            "TIMESTAMP(3)",
        )
    keyed = {"key.format": "raw", "key.fields": "user_id"}
    tables.execute_sql(
        f"CREATE TABLE source (user_id STRING, amount DECIMAL(18, 2), event_time {time}, "
        "WATERMARK FOR event_time AS event_time - INTERVAL '10' SECOND) "
        f"WITH ({options(**source, **of_source)})"
    )
    tables.execute_sql(
        "CREATE TABLE sink (window_start TIMESTAMP(3), user_id STRING, transactions BIGINT, total DECIMAL(38, 2)) "
        f"WITH ({options(**sink, **json_format, **keyed)})"
    )
    query = (
        "INSERT INTO sink SELECT window_start, user_id, COUNT(*), SUM(amount) "
        "FROM TUMBLE(TABLE source, DESCRIPTOR(event_time), INTERVAL '1' MINUTE) "
        "GROUP BY window_start, window_end, user_id HAVING COUNT(*) > 10"
    )
tables.execute_sql(query).wait()
