"""onceflow: end-to-end exactly-once for PySpark Structured Streaming.

What a job is written with, and what a sink of one's own is written against: ``Sink`` and what it makes and is told
(docs/sinks.md says how); last, what operators' tools see of its system, where it lets them look.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from onceflow.version import VERSION

if TYPE_CHECKING:
    from onceflow.connectors.contract import (
        Committer,
        DeadLetter,
        Guarantee,
        Run,
        Shard,
        Sink,
        SinkConnection,
        Writer,
        WriterFactory,
    )
    from onceflow.connectors.database.sink import DatabaseSink
    from onceflow.connectors.formats import Json, Raw, Text
    from onceflow.connectors.inspection import (
        Held,
        InputRange,
        Inspectable,
        Inspection,
        Looked,
        LostInput,
        Origin,
        Phase,
        Place,
        Seen,
        Shown,
        SourceInspection,
        Waited,
    )
    from onceflow.connectors.kafka.cluster import KafkaCluster
    from onceflow.connectors.kafka.sink import KafkaSink, NewTopic
    from onceflow.connectors.kafka.source import KafkaSource
    from onceflow.connectors.lake.sinks import DeltaSink, IcebergSink
    from onceflow.connectors.shards import OpenShard, ShardCommitter
    from onceflow.flinksql import sql
    from onceflow.job import Job, start
    from onceflow.options.checkpointing import Checkpointing
    from onceflow.options.restarting import ExponentialDelay, FailureRate, FixedDelay, NoRestart
    from onceflow.program import show_log
    from onceflow.supervision.signals import Stopped
    from onceflow.twophase.messages import Evidence, Outcome, Reply
    from onceflow.twophase.participants import Part, Participant, ParticipantId, TaskReport

__version__ = VERSION

_MODULES = {
    "connectors.contract": (
        "Committer",
        "DeadLetter",
        "Guarantee",
        "Run",
        "Shard",
        "Sink",
        "SinkConnection",
        "Writer",
        "WriterFactory",
    ),
    "connectors.database.sink": ("DatabaseSink",),
    "connectors.formats": ("Json", "Raw", "Text"),
    "connectors.inspection": (
        "Held",
        "InputRange",
        "Inspectable",
        "Inspection",
        "Looked",
        "LostInput",
        "Origin",
        "Phase",
        "Place",
        "Seen",
        "Shown",
        "SourceInspection",
        "Waited",
    ),
    "connectors.kafka.cluster": ("KafkaCluster",),
    "connectors.kafka.sink": ("KafkaSink", "NewTopic"),
    "connectors.kafka.source": ("KafkaSource",),
    "connectors.lake.sinks": ("DeltaSink", "IcebergSink"),
    "connectors.shards": ("OpenShard", "ShardCommitter"),
    "flinksql": ("sql",),
    "job": ("Job", "start"),
    "options.checkpointing": ("Checkpointing",),
    "options.restarting": ("ExponentialDelay", "FailureRate", "FixedDelay", "NoRestart"),
    "program": ("show_log",),
    "supervision.signals": ("Stopped",),
    "twophase.messages": ("Evidence", "Outcome", "Reply"),
    "twophase.participants": ("Part", "Participant", "ParticipantId", "TaskReport"),
}
"""Where each public name is: loaded when it is asked for, since Spark and Kafka's clients take their time to load."""


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            value = globals()[name] = getattr(importlib.import_module(f"onceflow.{module}"), name)
            return value
    raise AttributeError(f"module 'onceflow' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "Checkpointing",
    "Committer",
    "DatabaseSink",
    "DeadLetter",
    "DeltaSink",
    "Evidence",
    "ExponentialDelay",
    "FailureRate",
    "FixedDelay",
    "Guarantee",
    "Held",
    "IcebergSink",
    "InputRange",
    "Inspectable",
    "Inspection",
    "Job",
    "Json",
    "KafkaCluster",
    "KafkaSink",
    "KafkaSource",
    "Looked",
    "LostInput",
    "NewTopic",
    "NoRestart",
    "OpenShard",
    "Origin",
    "Outcome",
    "Part",
    "Participant",
    "ParticipantId",
    "Phase",
    "Place",
    "Raw",
    "Reply",
    "Run",
    "Seen",
    "Shard",
    "ShardCommitter",
    "Shown",
    "Sink",
    "SinkConnection",
    "SourceInspection",
    "Stopped",
    "TaskReport",
    "Text",
    "Waited",
    "Writer",
    "WriterFactory",
    "show_log",
    "sql",
    "start",
]
