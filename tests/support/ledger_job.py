"""A job over a ledger of its own, as operators' tools look at it."""

import pyarrow as pa

from onceflow.checkpoint.identity import Mark
from onceflow.connectors.contract import Run, Shard
from onceflow.connectors.kafka.client import TopicMetadata as KafkaTopic
from onceflow.connectors.kafka.committer import KafkaCommitter
from onceflow.operations.transactions.access import Operator
from onceflow.options.checkpointing import Checkpointing
from onceflow.twophase.messages import Appended
from onceflow.twophase.participants import TaskReport
from onceflow.twophase.records import Decide
from tests.simulation.fake_broker import FakeBroker, FakeClient
from tests.support.histories import part
from tests.support.ledger_sink import LedgerSink
from tests.support.starts import identify, place_of

HEAD = "v1\n{}\n"


class KafkaOut:
    """A Kafka sink on a fake cluster with topics that hold offsets 100 to 199."""

    participates, name, destination, system_id = True, "out", "out", FakeClient.cluster_id

    def attach(self):
        return self

    def committer(self, prefix, job_id):
        return KafkaCommitter(OneOfEach(FakeBroker(lambda: 0.0)), self.name, "out", prefix, job_id, 60_000)

    def close(self):
        """Nothing is open."""


class OneOfEach(FakeClient):
    """Each topic has one partition."""

    admin = None

    def topics(self, names):
        return {name: KafkaTopic(name, f"{name}-1", {0: 0}) for name in names}


class LedgerJob:
    """A job on a ledger that died after its first epoch's decision, and the operator who comes to it.

    Args:
        folder: For the checkpoint and the ledger.
        sink: The sink; the example's by default.
        beside: Other sinks of the job.
    """

    def __init__(self, folder, sink=None, beside=()):
        self.path, self.folder = str(folder / "ledger.sqlite"), folder / "checkpoint"
        self.sink = sink or LedgerSink(self.path)
        self.beside, connection = list(beside), self.sink.connect()
        systems = sorted({connection.system_id, *(sink.system_id for sink in beside)})
        self.job_id = identify(self.folder, systems=",".join(systems)).job_id
        self.committer = connection.committer("onceflow", self.job_id)
        self.place = place_of(self.folder)
        self.place.records.make()
        self.place.journal.start(self.job_id)
        self.committer.marks().write(Mark(1, self.place.journal.start_nonce, -1).dumps())
        self.write(0, "a")
        (self.decided,) = self.committer.seal([self.write(1, "b")], self.run(1))
        self.append(Decide(1, 0, HEAD + '{"t":{"0":5}}', ("ledger",), (self.decided,)))

    def run(self, incarnation, epoch=0):
        return Run(self.job_id, "onceflow", incarnation, epoch)

    def write(self, shard, key, incarnation=1):
        writer = self.sink.connect().writer_factory()(Shard(self.run(incarnation), shard, 0))
        writer.write(pa.RecordBatch.from_pydict({"key": [key]}))
        return TaskReport("ledger", shard, 0, (part(shard, sink="ledger"),), writer.prepare())

    def append(self, record):
        assert self.place.journal.append(record) == Appended()

    def operator(self, **more):
        return Operator(Checkpointing(self.folder), "onceflow", [self.sink, *self.beside], "payments", **more)
