"""onceflow: end-to-end exactly-once for PySpark Structured Streaming.

What a job is written with. What a sink of one's own needs is in ``onceflow.sinks``, and what operators' tools see of
its system in ``onceflow.inspection``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from onceflow.version import VERSION

if TYPE_CHECKING:
    from onceflow.connectors.contract import Guarantee
    from onceflow.connectors.database.sink import DatabaseSink
    from onceflow.connectors.kafka.cluster import KafkaCluster
    from onceflow.connectors.kafka.sink import KafkaSink, NewTopic
    from onceflow.connectors.kafka.source import KafkaSource
    from onceflow.connectors.lake.sinks import DeltaSink, IcebergSink
    from onceflow.connectors.source_contract import DeadLetter
    from onceflow.flinksql import sql
    from onceflow.formats.avro_format import Avro
    from onceflow.formats.contract import Format, PartOfRecord, RecordReading
    from onceflow.formats.csv_format import Csv
    from onceflow.formats.debezium_format import Debezium
    from onceflow.formats.json_format import Json
    from onceflow.formats.json_schema_format import JsonSchema
    from onceflow.formats.protobuf_format import Protobuf
    from onceflow.formats.registry import SchemaRegistry
    from onceflow.formats.text_format import Raw, Text
    from onceflow.job import Job, start
    from onceflow.options.checkpointing import Checkpointing
    from onceflow.options.restarting import ExponentialDelay, FailureRate, FixedDelay, NoRestart
    from onceflow.program import show_log
    from onceflow.spark.late_rows import late_rows
    from onceflow.supervision.signals import Stopped

__version__ = VERSION

_MODULES = {
    "connectors.contract": ("Guarantee",),
    "connectors.source_contract": ("DeadLetter",),
    "connectors.database.sink": ("DatabaseSink",),
    "connectors.kafka.cluster": ("KafkaCluster",),
    "connectors.kafka.sink": ("KafkaSink", "NewTopic"),
    "connectors.kafka.source": ("KafkaSource",),
    "connectors.lake.sinks": ("DeltaSink", "IcebergSink"),
    "flinksql": ("sql",),
    "formats.avro_format": ("Avro",),
    "formats.contract": ("Format", "PartOfRecord", "RecordReading"),
    "formats.csv_format": ("Csv",),
    "formats.debezium_format": ("Debezium",),
    "formats.json_format": ("Json",),
    "formats.json_schema_format": ("JsonSchema",),
    "formats.protobuf_format": ("Protobuf",),
    "formats.registry": ("SchemaRegistry",),
    "formats.text_format": ("Raw", "Text"),
    "job": ("Job", "start"),
    "options.checkpointing": ("Checkpointing",),
    "options.restarting": ("ExponentialDelay", "FailureRate", "FixedDelay", "NoRestart"),
    "program": ("show_log",),
    "spark.late_rows": ("late_rows",),
    "supervision.signals": ("Stopped",),
}
"""Where each public name is: loaded when it is asked for, since Spark and Kafka's clients take their time to load."""


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            value = globals()[name] = getattr(importlib.import_module(f"onceflow.{module}"), name)
            return value
    for room in ("sinks", "inspection"):  # where what was here before the first release has gone
        if not name.startswith("_") and name in importlib.import_module(f"onceflow.{room}").__all__:
            raise AttributeError(f"onceflow.{name} is onceflow.{room}.{name} now")
    raise AttributeError(f"module 'onceflow' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "Avro",
    "Checkpointing",
    "Csv",
    "DatabaseSink",
    "DeadLetter",
    "Debezium",
    "DeltaSink",
    "ExponentialDelay",
    "FailureRate",
    "FixedDelay",
    "Format",
    "Guarantee",
    "IcebergSink",
    "Job",
    "Json",
    "JsonSchema",
    "KafkaCluster",
    "KafkaSink",
    "KafkaSource",
    "NewTopic",
    "NoRestart",
    "PartOfRecord",
    "Protobuf",
    "Raw",
    "RecordReading",
    "SchemaRegistry",
    "Stopped",
    "Text",
    "late_rows",
    "show_log",
    "sql",
    "start",
]
