"""The example of Kafka and PostgreSQL in one commit, on real ones, its driver killed ten times at random moments.

    python -m tests.examples.kafka_and_postgres --seed 7

The last line is one JSON object. What must be there is told by the producer's transactions and by a reader of the input
that shares nothing with the job; the epochs by the job's journal and the database's ledger.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg
from confluent_kafka.admin import AdminClient, NewTopic

import onceflow as of
from onceflow import testing
from onceflow.checkpoint.place import Place
from onceflow.demo.board import Board, Event
from onceflow.demo.payments import Payments
from onceflow.demo.producer import PaymentProducer
from onceflow.demo.reader import read_all
from onceflow.demo.supervisor import Supervisor
from onceflow.demo.verify import Topic, judge, read_payment
from onceflow.local.devcluster import DevCluster
from tests.support.postgres import running

JOB = Path(__file__).parents[2] / "examples" / "fraud_to_kafka_and_postgres.py"
INPUT, ALERTS, TABLE = "transactions", "alerts", "payments"
_SLOW = 0.05
"""The payments' pace while kills are due, so that they fall among them."""

_WITHIN_S = 5.0
"""A kill comes so long after a start's first epoch, at most."""

_RECOVERS_S = 120.0
_STUCK_S = 60.0
_QUIET_S = 3.0
_RETAIN = 100  # epochs, as the job's journal


@dataclass(frozen=True, slots=True)
class Counted:
    """What is there.

    Attributes:
        payments: Committed payments in the input.
        rows: Rows of the table.
        alerts: Alerts that a read_committed reader finds.
        lost: Payments without a row, and alerts that must be there and are not.
        duplicated: Rows and alerts beyond the first.
        wrong: Rows that are no payment, and alerts of other contents than the payments give.
        epochs: Decided epochs with rows for the table.
        epochs_apart: Epochs that only one of journal and ledger has.
        left: Transactions of the job that are open, and rows that are staged.
        kills: Of the driver.
        seed: Of payments and moments.
    """

    payments: int
    rows: int
    alerts: int
    lost: int
    duplicated: int
    wrong: int
    epochs: int
    epochs_apart: int
    left: int
    kills: int
    seed: int

    @property
    def good(self) -> bool:
        """Whether everything is there once, and nothing else."""
        return self.rows == self.payments and not (
            self.lost or self.duplicated or self.wrong or self.epochs_apart or self.left
        )


def main() -> int:
    """Run it; 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.examples.kafka_and_postgres", description=__doc__)
    parser.add_argument("--records", type=int, default=20_000, help="committed payments")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    board = Board(on_event=_print)
    folder = Path(tempfile.mkdtemp(prefix="onceflow-example-"))
    counted = run(board, folder, records=asked.records, kills=asked.kills, seed=asked.seed)
    if counted.good:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"logs and checkpoint stay in {folder}", flush=True)
    print(json.dumps(asdict(counted)), flush=True)
    return 0 if counted.good else 1


def _print(event: Event) -> None:
    print(f"{event.at:7.1f} s  {event.text}", flush=True)


def run(board: Board, folder: Path, *, records: int, kills: int, seed: int) -> Counted:
    """Run the job, kill it, and count what is there in the end."""
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(running())
        cluster = DevCluster(folder / "kafka")
        stack.callback(cluster.stop)
        cluster.start()
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        admin.create_topics([NewTopic(INPUT, 4, 1)])[INPUT].result(30)
        supervisor = Supervisor(["run", str(JOB)], folder, {"KAFKA": servers, "DATABASE": database.url()}, board)
        stack.callback(supervisor.close)
        producer = PaymentProducer(servers, INPUT, Payments(records, seed), board)
        stack.callback(producer.close)
        supervisor.start()
        producer.pace = _SLOW
        producer.start()
        supervisor.wait_ready()
        _kill(supervisor, producer, kills, random.Random(seed))
        while not producer.done.wait(0.1):
            _raise_failures(supervisor, producer)
        _raise_failures(supervisor, producer)
        board.say("all payments are written")
        _wait_until_quiet(supervisor, servers, len(producer.totals.alerts()))
        supervisor.stop()
        return _count(folder, servers, database.url(), producer, kills=kills, seed=seed)


def _kill(supervisor: Supervisor, producer: PaymentProducer, kills: int, moments: random.Random) -> None:
    """SIGKILL of the driver with all that it has started, each time at a random moment after a start's first epoch."""
    for _ in range(kills):
        start = supervisor.starts
        at = supervisor.wait_epoch(start, 0.0, _RECOVERS_S)
        _raise_failures(supervisor, producer)
        if at is None:
            raise RuntimeError(f"start {start} finished no epoch in {_RECOVERS_S:g} s\n{supervisor.log_tail()}")
        time.sleep(moments.uniform(0, _WITHIN_S))  # a random moment is meant
        supervisor.kill("a random moment")
        supervisor.wait_gone(start, _RECOVERS_S)
    producer.pace = 1.0


def _wait_until_quiet(supervisor: Supervisor, servers: str, expected: int) -> None:
    """Until all alerts are there and the job has nothing to do; or until it has done nothing for a minute."""
    began = time.monotonic()
    while supervisor.failure is None:
        last = max([began, *(line.at for line in supervisor.lines())])
        quiet = time.monotonic() - last
        if quiet > _STUCK_S or (quiet > _QUIET_S and len(read_all(servers, ALERTS, "read_committed")) >= expected):
            return
        time.sleep(0.5)
    raise supervisor.failure


def _raise_failures(supervisor: Supervisor, producer: PaymentProducer) -> None:
    for failure in (supervisor.failure, producer.failure):
        if failure is not None:
            raise failure


def _count(folder: Path, servers: str, url: str, producer: PaymentProducer, *, kills: int, seed: int) -> Counted:
    payments, alerts = _read(servers, INPUT), _read(servers, ALERTS)
    found = judge(payments, alerts, (), producer.totals)
    if found.payments_missing:
        raise RuntimeError(f"the input is not what was written: {found.payments_missing} payments differ")
    written = Counter(
        (p.number, p.user_id, p.cents, p.event_ms)
        for p in (read_payment(record.value) for record in payments.committed)
        if p is not None
    )
    with psycopg.connect(url) as connection:
        rows = Counter(
            (number, user, int(amount.scaleb(2)), round(at.timestamp() * 1000))
            for number, user, amount, at in connection.execute(
                "select number, user_id, amount, event_time from payments"
            ).fetchall()
        )
        ledger = {
            (epoch, int(count))
            for epoch, count in connection.execute("select epoch, rows from onceflow_ledger").fetchall()
        }
        staged = connection.execute("select count(*) from payments_onceflow_staged").fetchone()
    decided = _decided(folder)
    with testing.OpenTransactions(of.KafkaCluster(servers), "onceflow-") as transactions:
        left = transactions.count() + (staged[0] if staged else 0)
    return Counted(
        payments=written.total(),
        rows=rows.total(),
        alerts=found.alerts_found,
        lost=found.lost + (written - rows).total(),
        duplicated=found.duplicated + sum(count - 1 for count in rows.values()),
        wrong=found.wrong + len(set(rows) - set(written)),
        epochs=len(ledger),
        epochs_apart=len(ledger ^ decided),
        left=left,
        kills=kills,
        seed=seed,
    )


def _decided(folder: Path) -> set[tuple[int, int]]:
    """Each decided epoch with rows for the table, and how many: by the journal, and its receipts of what it purged."""
    journal = Place.at(folder / "checkpoints" / "fraud-and-payments", _RETAIN).journal
    job = journal.history()[0].job_id
    held = [(receipt.epoch, [(p.id[0], p.rows) for p in receipt.participants]) for receipt in journal.receipts()]
    held += [(decided.epoch, [(p.sink, p.rows) for p in decided.effective]) for decided in journal.decided_epochs(job)]
    rows = {epoch: sum(count for sink, count in mine if sink == TABLE) for epoch, mine in held}
    return {(epoch, count) for epoch, count in rows.items() if count}


def _read(servers: str, topic: str) -> Topic:
    return Topic(read_all(servers, topic, "read_committed"), read_all(servers, topic, "read_uncommitted"))


if __name__ == "__main__":
    sys.exit(main())
