"""What a sink of one's own is written against: ``Sink`` and what it makes and is told (docs/sinks.md says how).

Must not know: any particular sink.
"""

from onceflow.connectors.contract import Committer, Run, Shard, Sink, SinkConnection, Writer, WriterFactory
from onceflow.connectors.marks import Marks
from onceflow.connectors.shards import OpenShard, ShardCommitter
from onceflow.twophase.messages import Evidence, Outcome, Reply
from onceflow.twophase.participants import Part, Participant, ParticipantId, TaskReport

__all__ = [
    "Committer",
    "Evidence",
    "Marks",
    "OpenShard",
    "Outcome",
    "Part",
    "Participant",
    "ParticipantId",
    "Reply",
    "Run",
    "Shard",
    "ShardCommitter",
    "Sink",
    "SinkConnection",
    "TaskReport",
    "Writer",
    "WriterFactory",
]
