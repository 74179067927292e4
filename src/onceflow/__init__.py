"""onceflow: end-to-end exactly-once for PySpark Structured Streaming.

What a job is written with, and what a sink of one's own is written against: ``Sink`` and what it makes and is told
(docs/sinks.md says how).
"""

from onceflow.connectors.contract import (
    Committer,
    Guarantee,
    Run,
    Shard,
    Sink,
    SinkConnection,
    Writer,
    WriterFactory,
)
from onceflow.connectors.formats import Json, Raw, Text
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.sink import KafkaSink, NewTopic
from onceflow.connectors.kafka.source import KafkaSource
from onceflow.job import Job, Stopped, start
from onceflow.options.checkpointing import Checkpointing
from onceflow.twophase.messages import Evidence, Outcome, Reply
from onceflow.twophase.participants import Part, Participant, ParticipantId, TaskReport

__version__ = "0.1.0"

__all__ = [
    "Checkpointing",
    "Committer",
    "Evidence",
    "Guarantee",
    "Job",
    "Json",
    "KafkaCluster",
    "KafkaSink",
    "KafkaSource",
    "NewTopic",
    "Outcome",
    "Part",
    "Participant",
    "ParticipantId",
    "Raw",
    "Reply",
    "Run",
    "Shard",
    "Sink",
    "SinkConnection",
    "Stopped",
    "TaskReport",
    "Text",
    "Writer",
    "WriterFactory",
    "start",
]
