"""onceflow: end-to-end exactly-once for PySpark Structured Streaming.

Public names in the order in which a record meets them.
"""

from onceflow.connectors.contract import Guarantee
from onceflow.connectors.formats import Json, Raw, Text
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.sink import KafkaSink, NewTopic
from onceflow.connectors.kafka.source import KafkaSource
from onceflow.job import Job, Stopped, start
from onceflow.options.checkpointing import Checkpointing

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
    "Stopped",
    "Text",
    "start",
]
