"""A job without Spark and without a broker: real launch, driver, rules, journal and task, a ledger; a topic in memory.

Must not know: which errors it is used for. ``work`` does what Spark does: it plans an epoch (``offsets/N``), hands it
to the driver, and records it (``commits/N``).
"""

from __future__ import annotations

import itertools
import json
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from onceflow.checkpoint.spark_files import positions
from onceflow.connectors.contract import Shard, Sink, SinkConnection
from onceflow.connectors.kafka.offsets import Bounds, data_lost
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.source_contract import Connector, SourcePosition
from onceflow.errors import OnceflowError
from onceflow.execution.driver import Driver
from onceflow.execution.failures import EpochEnded
from onceflow.execution.means import Means, Surroundings
from onceflow.execution.source_check import Sources
from onceflow.execution.task import DIGEST, PARTITION, Output, Task, output_column
from onceflow.launch.limit import epoch_limit
from onceflow.launch.ownership import require_complete
from onceflow.launch.request import StartRequest, place_of
from onceflow.launch.taking_over import finish_decided, require_early, take_over
from onceflow.options.checkpointing import Checkpointing
from onceflow.spark.plan import Leaf
from onceflow.twophase.layout import Topic
from onceflow.twophase.messages import Evidence, Outcome, Ran, Reply
from tests.support.ledger_sink import LedgerCommitter, LedgerSink, opened, visible

FRAME = object()  # nobody looks into it


class Died(Exception):  # noqa: N818 - it is what it is
    """The driver is dead."""


class Orders:
    """A topic of numbered orders, of which the first may be gone."""

    system_id, system, group = "memory", "memory", None

    def __init__(self, records: int) -> None:
        self.first, self.end = 0, records

    def connect(self):
        return self

    def look(self, _source, needed, end, _known):
        begin = json.loads(needed)["orders"]["0"] if needed else 0
        lost = data_lost(Partition("orders", 0), wanted=begin, held=Bounds(self.first, self.end))
        moved = json.dumps({"orders": {"0": max(begin, self.first)}})
        return SourcePosition((Topic("orders", "1", 1),), (lost,) if begin < self.first else (), moved, end)

    def topics(self, asked):
        return [{"orders": Topic("orders", "1", 1)} for _ in asked]

    def close(self):
        """Nothing is held open."""


class Watched(LedgerCommitter):
    """The example sink's committer, to which something may happen, or which its system does not answer."""

    def __init__(self, shop: Shop, *of: str) -> None:
        super().__init__(*of)
        self._shop = shop

    def check(self, participants, run, age_s):
        self._shop.happens("check")
        return super().check(participants, run, age_s)

    def commit(self, participants):
        self._shop.happens("commit")
        return {p.id: self._shop.answer for p in participants} if self._shop.answer else super().commit(participants)

    def outcomes(self, participants):
        if self._shop.answer is Reply.RETRY:
            return {p.id: Evidence(Outcome.UNKNOWN, "it does not answer", passing=True) for p in participants}
        return super().outcomes(participants)


class Shop:
    """A job that copies orders into the ledger. Each start makes a driver, as a process would.

    Attributes:
        row: The plan: what is written for an order. It may raise.
        meanwhile: What happens once, at the moment of its name: ``check``, ``commit``.
        answer: What the sink's system answers to commits; None for what the ledger says.
        ends: Where Spark has read to; None where it cannot be told.
        leap_s: By so much the drivers' clock goes on each time that somebody looks at it.
    """

    def __init__(self, folder: Path, records: int = 3, *, stateful: bool = False) -> None:
        self.folder, self.ledger = folder / "checkpoint", str(folder / "ledger.sqlite")
        self.orders = Orders(records)
        self.row: Callable[[int], str] = "order {}".format
        self.meanwhile: dict[str, Callable[[], object]] = {}
        self.answer: Reply | None = None
        self.leap_s = 0.0
        self.timeout = "10 min"
        self.retain = 100
        self.ends: frozenset[str] | None = None
        self.sink = LedgerSink(self.ledger)
        self.sink.committer = lambda *of: Watched(self, *of)
        self.sinks: list[Sink] = [self.sink]
        self._drivers: list[Driver] = []
        for name in ("offsets", "commits", *(["state/0"] if stateful else [])):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "metadata").write_text('{"id": "a query"}')

    # -- what the tests look at -----------------------------------------------------------------------

    def written(self) -> list[str]:
        """What a reader of the ledger sees, in order."""
        return sorted(visible(self.ledger))

    def all_orders(self) -> list[str]:
        """What it should be."""
        return sorted(map(self.row, range(self.orders.end)))

    def happens(self, moment: str) -> None:
        self.meanwhile.pop(moment, lambda: None)()

    def somebody(self, does: str) -> None:
        """Somebody else's tool is at work in the ledger."""
        with opened(self.ledger) as file:
            file.execute(does)

    # -- what a process does --------------------------------------------------------------------------

    def start(self, takeover=None) -> Driver:
        """A start: of what ``launch`` does, all but Spark's part."""
        means = Means(around=self._around)
        plan = StartRequest(
            "shop", Checkpointing(self.folder, timeout=self.timeout, retain=self.retain), takeover=takeover, limits=True
        )
        place = place_of(plan, means)
        require_complete(place, whatever_is_undone=takeover == "as-new")
        finish_decided(self.sinks, plan, means)
        connector = Connector(lambda *_: self.orders, lambda _: None)
        names = tuple(sink.name for sink in self.sinks)
        sources = Sources([Leaf(names, "orders", {}, "path")], (), (), [connector])
        require_early(place, sources, plan)
        self._most = epoch_limit(plan, self.sinks, means).most
        connections = {sink.name: sink.connect() for sink in self.sinks}
        self.look_at_outputs(connections)
        driver = take_over(place, connections, plan, means)
        self._drivers.append(driver)
        outputs = tuple(Output(name, of.writer_factory()) for name, of in connections.items())

        def run(_plan, action, of, _records, _threads):
            batch = self.batch(range(self._at(action.epoch - 1), self._at(action.epoch)))
            task = Task(outputs, of, action.write, action.silent)
            reports = task.write_shard(Shard(of, 0, 0), [pa.RecordBatch.from_pydict(batch)])
            return Ran(tuple(reports), names, 1, ("",), ends=self.ends)

        driver.settle(run, sources, cuts=plan.limits)
        return driver

    def look_at_outputs(self, connections: Mapping[str, SinkConnection]) -> None:
        """What a start asks of its sinks before it takes over; the ledger needs nothing."""

    def batch(self, orders: range) -> dict[str, pa.Array]:
        """What Spark's plan makes of some orders: a column for each that a sink's writer gets."""
        rows = [self.row(n) for n in orders]
        return {
            PARTITION: pa.array([0] * len(rows), pa.int32()),
            output_column(0, "key"): pa.array(rows),
            output_column(0, DIGEST): pa.array([zlib.crc32(row.encode()) for row in rows], pa.int64()),
        }

    def work(self, driver: Driver) -> None:
        """Epoch after epoch until nothing is new: the one that is planned and not recorded comes first."""
        while True:
            newest = driver._checkpoint.newest_commit()
            epoch = 0 if newest is None else newest + 1
            plan = self.folder / "offsets" / str(epoch)
            if epoch == 0:
                self._keep_beginning()
            if not plan.exists():
                begin = max(self._at(epoch - 1), self.orders.first)
                end = min(self.orders.end, begin + (self._most or self.orders.end))
                if begin == end:
                    return
                plan.write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps({"orders": {"0": end}})}')
            try:
                driver(FRAME, epoch)
            except EpochEnded:
                raise driver.failure from None
            self.happens("record")
            (self.folder / "commits" / str(epoch)).write_text("v1\n{}")

    def run(self, takeover=None) -> OnceflowError | None:
        """A whole life of the job: None when all is done, else the error that ended it."""
        try:
            self.work(self.start(takeover))
        except (OnceflowError, Died) as error:
            return error if isinstance(error, OnceflowError) else None
        finally:
            self.close()
        return None

    def dies_at(self, moment: str) -> None:
        """A life that ends at a moment."""

        def die():
            raise Died

        self.meanwhile[moment] = die
        assert self.run() is None
        assert not self.meanwhile, "it came there"

    def close(self) -> None:
        while self._drivers:
            self._drivers.pop().close()

    def _around(self, sinks: int) -> Surroundings:
        ticks = itertools.count()
        return replace(Surroundings.of_process(sinks), now=lambda: time.monotonic() + self.leap_s * next(ticks))

    def _keep_beginning(self) -> None:
        begin = self.folder / "sources" / "0"
        begin.mkdir(parents=True, exist_ok=True)
        if not (begin / "0").exists():
            (begin / "0").write_text("\0v1\n" + json.dumps({"orders": {"0": self.orders.first}}))

    def _at(self, epoch: int) -> int:
        if epoch < 0:
            begin = self.folder / "sources" / "0" / "0"
            return json.loads(begin.read_text().rpartition("\n")[2])["orders"]["0"]
        return json.loads(positions((self.folder / "offsets" / str(epoch)).read_text())[0])["orders"]["0"]
