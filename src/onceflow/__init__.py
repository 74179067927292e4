"""onceflow: end-to-end exactly-once for PySpark Structured Streaming.

Public names in the order in which a record meets them.
"""

from onceflow.job import Job, start
from onceflow.kafka.cluster import KafkaCluster
from onceflow.settings import Checkpointing
from onceflow.sink.contract import Guarantee
from onceflow.sink.kafka import KafkaSink, NewTopic
from onceflow.source.formats import Json, Raw, Text
from onceflow.source.kafka import KafkaSource

__version__ = "0.1.0"

__all__ = [
    "Checkpointing",
    "Guarantee",
    "Job",
    "Json",
    "KafkaCluster",
    "KafkaSink",
    "KafkaSource",
    "NewTopic",
    "Raw",
    "Text",
    "start",
]
