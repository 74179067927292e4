"""Puts the demo together: broker, payments, job, kills, and the judgement.

Everything lies in one temporary folder, which goes when all is well and stays, with the logs, when it is not. No
process is left, however it ends.

Must not know: what is right and what is wrong; ``verify`` judges.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

import onceflow as of
from onceflow import testing
from onceflow.demo.board import Board
from onceflow.demo.chaos import JOB_PREFIX, SLOW, Chaos, CrashSwitch, OpenTransactions
from onceflow.demo.payments import Payments
from onceflow.demo.producer import PaymentProducer
from onceflow.demo.reader import Follower, read_all
from onceflow.demo.report import Report
from onceflow.demo.supervisor import Supervisor
from onceflow.demo.verify import Topic, judge
from onceflow.errors import KafkaError
from onceflow.local.devcluster import DevCluster

JOB, SCRIPT = Path(__file__).with_name("fraud.py"), Path(__file__).with_name("fraud.sql")
PAYMENTS, ALERTS = "transactions", "alerts"  # the topics, as the job names them

_PARTITIONS = 4
_LOOK_S = 0.1
_QUIET_S = 3.0  # after the last alert that must come: one too many would show
_STUCK_S = 60.0


def run_demo(board: Board, *, records: int, seed: int, chaos: bool, sql: bool = False) -> Report:
    """Run it.

    Args:
        board: Is told of everything.
        records: Committed payments.
        seed: Of payments and moments.
        chaos: Whether to kill.
        sql: Whether it is the job in SQL.

    Raises:
        OnceflowError: The demo itself could not run; that says nothing about the job's result.
    """
    payments = Payments(records, seed)
    board.set(target=records)
    folder = Path(tempfile.mkdtemp(prefix="onceflow-demo-"))
    keep = False
    try:
        report = _run(board, folder, payments, seed, chaos=chaos, sql=sql)
        keep = report.verdict != "PASS"
    except Exception:
        keep = True
        raise
    finally:
        if keep:
            board.say(f"logs and data stay in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return report


def _run(board: Board, folder: Path, payments: Payments, seed: int, *, chaos: bool, sql: bool) -> Report:
    with contextlib.ExitStack() as stack:
        board.say("the broker is started")
        board.set(broker="starting")
        cluster = DevCluster(folder / "kafka")
        stack.callback(cluster.stop)
        cluster.start()
        board.set(broker="running")
        servers = cluster.bootstrap_servers
        # SQL's tables are of topics that are there.
        _make_topics(servers, (PAYMENTS, ALERTS) if sql else (PAYMENTS,))

        switch = CrashSwitch(folder)
        environment = {"KAFKA": servers} | switch.environment | _temporary_files(folder / "tmp")
        brokers = f"onceflow.kafka.bootstrap.servers={servers}"
        arguments = ["sql", str(SCRIPT), "-D", brokers] if sql else ["run", str(JOB)]
        supervisor = Supervisor(arguments, folder, environment, board)
        stack.callback(supervisor.close)
        producer = PaymentProducer(servers, PAYMENTS, payments, board)
        stack.callback(producer.close)
        supervisor.start()
        producer.pace = SLOW if chaos else 1.0  # the kills should fall among payments, and the job has yet to start
        producer.start()
        supervisor.wait_ready()

        follower = Follower(servers, ALERTS, lambda seen: board.set(alerts=seen))
        transactions = OpenTransactions(servers, lambda count: board.set(job_open=count))
        killer = Chaos(supervisor, cluster, transactions, switch, producer, board, seed)
        threads: list[Follower | OpenTransactions | Chaos] = [follower, transactions, *([killer] if chaos else [])]
        for thread in threads:
            stack.callback(thread.close)
            thread.start()

        _wait_for_all(supervisor, producer, killer if chaos else None)
        expected = len(producer.totals.alerts())
        board.set(alerts_expected=expected)
        board.say("all payments are written")
        _wait_for_alerts(supervisor, follower, expected)
        board.set(job="stopping")
        exit_code = supervisor.stop()
        board.set(job="stopped")
        for thread in threads:
            thread.close()
        board.say("an independent reader recomputes every alert")
        findings = judge(_read(servers, PAYMENTS), _read(servers, ALERTS), follower.seen, producer.totals)
        return Report(
            seed=seed,
            chaos=chaos,
            findings=findings,
            open_transactions=_open_transactions(servers),
            kills=killer.kills,
            starts=supervisor.starts,
            unplanned_ends=supervisor.unplanned_ends,
            exit_code=exit_code,
            seconds=board.seconds(),
        )


def _temporary_files(folder: Path) -> dict[str, str]:
    """Environment that keeps the temporary files of Python, Spark and Java in a folder: SIGKILL leaves them behind."""
    folder.mkdir()
    java = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} -Djava.io.tmpdir={folder}".strip()
    return {"TMPDIR": str(folder), "SPARK_LOCAL_DIRS": str(folder), "JDK_JAVA_OPTIONS": java}


def _make_topics(servers: str, names: Sequence[str]) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for made in admin.create_topics([NewTopic(name, _PARTITIONS, 1) for name in names]).values():
        made.result(30)


def _wait_for_all(supervisor: Supervisor, producer: PaymentProducer, killer: Chaos | None) -> None:
    """Until everything is written and all kills are done."""
    while not (producer.done.wait(_LOOK_S) and (killer is None or killer.done.wait(_LOOK_S))):
        _raise_failures(supervisor, producer, killer)
    _raise_failures(supervisor, producer, killer)


def _raise_failures(supervisor: Supervisor, producer: PaymentProducer, killer: Chaos | None) -> None:
    if supervisor.failure is not None:
        raise supervisor.failure
    if producer.failure is not None:
        raise KafkaError(
            f"the producer of payments failed: {producer.failure}",
            cause="the demo's broker did not come back in time: a machine under load",
            action="run the demo again; --no-chaos leaves the broker alone",
        )
    if killer is not None and killer.failure is not None:
        raise killer.failure


def _wait_for_alerts(supervisor: Supervisor, follower: Follower, expected: int) -> None:
    """Until the alerts are there and the job is quiet; or until it has done nothing for a minute."""
    waiting_since = time.monotonic()
    while supervisor.failure is None:
        last = max([waiting_since, *(line.at for line in supervisor.lines())])
        if time.monotonic() - last > (_QUIET_S if len(follower.seen) >= expected else _STUCK_S):
            return
        time.sleep(_LOOK_S)
    raise supervisor.failure


def _read(servers: str, topic: str) -> Topic:
    return Topic(read_all(servers, topic, "read_committed"), read_all(servers, topic, "read_uncommitted"))


def _open_transactions(servers: str) -> int:
    with testing.OpenTransactions(of.KafkaCluster(servers), JOB_PREFIX) as transactions:
        return transactions.count()
