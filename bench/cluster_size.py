"""What an epoch on a large cluster would be in bytes and requests, by the real codec; nothing runs but this process.

``python -m bench.cluster_size`` prints the table of docs/clusters.md. A model: it counts what the protocol sends and
keeps, and measures only bytes that are made here.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass

from onceflow.checkpoint.journal_codec import JournalEntry, encode
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.prepared import Handle, PreparedTransaction, Witness
from onceflow.connectors.kafka.transactional_id import name_transaction
from onceflow.twophase.participants import Part, Participant, TaskReport
from onceflow.twophase.records import Decide

MARKER_BYTES = 78
"""A control batch with its one record."""
BROKERS = 10


@dataclass(frozen=True)
class Size:
    """Of one epoch.

    Attributes:
        slots: Tasks that run at once: executors times their cores.
        tasks: Of the epoch: one for each slot, or where the plan keeps state one for each of its partitions.
        source: Partitions that it reads, all with records.
        sink: Partitions of the sink's topic, all of which each transaction writes to.
        stateful: Whether a part is a shuffle's partition, or one of the source's.
    """

    slots: int
    tasks: int
    source: int
    sink: int
    stateful: bool = False


def decision(size: Size) -> tuple[bytes, int]:
    """A decision as the journal keeps it, and the bytes of the tasks' reports."""
    topic, job, cluster = "transactions", uuid.uuid4().hex[:12], uuid.uuid4().hex[:22]
    parts_of: list[list[Part]] = [[] for _ in range(size.tasks)]
    for i in range(size.tasks if size.stateful else size.source):
        origin = f"shuffle {i}" if size.stateful else f"0:{topic}-{i}[123456789012,123456789912)"
        parts_of[i % size.tasks].append(Part("alerts", i, 900, (i + 1) * 0x9E3779B97F4A7C15 & (1 << 64) - 1, origin))
    offsets = "v1\n{}\n" + json.dumps({topic: {str(i): 123456789912 for i in range(size.source)}})
    partitions = frozenset(Partition("alerts", i) for i in range(size.sink))
    participants, reported = [], 0
    for n, parts in enumerate(parts_of):
        name = name_transaction("onceflow", job, 12, "alerts", n, 123456, 0)
        handle, witness = Handle(name, 4_000_000 + n, 12), Witness(Partition("alerts", n % size.sink), 12345678901)
        prepared = PreparedTransaction(handle, partitions, witness)
        reported += len(TaskReport("alerts", n, 0, tuple(parts), prepared.to_json()).dumps())
        sealed = prepared.sealed(cluster, str(uuid.uuid4())).to_json()
        participants.append(Participant("alerts", str(handle), tuple(parts), sealed))
    record = Decide(12, 123456, offsets, ("alerts",), tuple(participants), 1000)
    return encode(JournalEntry(123456, uuid.uuid4().hex, 123000, record)), reported


def row(size: Size) -> str:
    """A line of the table."""
    data, reported = decision(size)
    markers = size.tasks * size.sink
    counts = (size.slots, size.source, size.sink, size.tasks, size.tasks * BROKERS, markers)
    megabytes = (each / 1e6 for each in (markers * MARKER_BYTES, reported, len(data)))
    cells = [*(f"{each:,}" for each in counts), *(f"{each:.2g}" for each in megabytes)]
    cells.insert(2, "yes" if size.stateful else "no")
    return f"| {' | '.join(cells)} |"


SIZES = (
    Size(2, 2, 4, 4),
    Size(400, 400, 10_000, 24),
    Size(400, 400, 10_000, 100),
    Size(400, 400, 10_000, 1_000),
    Size(400, 1_600, 10_000, 100),
    Size(400, 400, 10_000, 100, stateful=True),
    Size(400, 2_000, 10_000, 100, stateful=True),
)


def main() -> None:
    """Print it."""
    head = "slots", "source partitions", "state", "sink partitions", "transactions", "connections", "markers"
    print(f"| {' | '.join((*head, 'markers, MB', 'reports, MB', 'decision, MB'))} |")
    print("|" + "---:|" * 10)
    for size in SIZES:
        print(row(size))


if __name__ == "__main__":
    main()
