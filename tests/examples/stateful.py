"""An example on a real Kafka, over records from a seed, and whether all that it must write is there once.

    python -m tests.examples.stateful hourly_sales --records 4000 --seed 7 --die D5@1,D7@1

The last line is one JSON object. What must be there is made again from the topics themselves (``expected``). With
``--die`` the job is killed at each crash point, one after the other, and started again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import onceflow as of
from onceflow import testing
from onceflow.demo.reader import read_all
from onceflow.local.devcluster import DevCluster
from onceflow.local.devregistry import DevRegistry
from onceflow.local.jars import spark_jars
from tests.examples import expected, inputs
from tests.examples.avro import Codec
from tests.examples.expected import HOUR, MINUTE, Rows, Values
from tests.examples.process import ended

ROOT = Path(__file__).parents[2]
RUN_WITHIN_S = 420.0
_CHUNK = 150
_EPOCHS = 5
_DAY = datetime(2026, 1, 2, tzinfo=UTC)

Read = Mapping[str, Values]


@dataclass(frozen=True)
class Output:
    """Of one sink: its columns, and what must be in it."""

    columns: tuple[str, ...]
    expected: Callable[[Read], Rows]


@dataclass(frozen=True)
class Case:
    """An example.

    Attributes:
        make: Its input.
        outputs: By topic.
        tables: Whether it writes the sales to tables, too.
        environment: What it is told.
        session: It is a program with a session of its own.
        before: The program that it was before, which must write the same.
        registry: Its records are in Avro, by a schema registry.
    """

    make: inputs.Make
    outputs: Mapping[str, Output]
    tables: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    session: bool = False
    before: str = ""
    registry: bool = False


_BY_HOUR = ("category", "hour", "sales", "total")


def _hours(read: Read) -> Rows:
    return expected.by_window(read["sales"], "category", "sold_at", HOUR)


def _views(read: Read) -> Rows:
    rows = expected.by_window(read["views"], "page", "at", 10 * MINUTE)
    return Counter({row[:3]: n for row, n in rows.items()})


CASES: Mapping[str, Case] = {
    "hourly_sales": Case(inputs.sales, {"sales-by-hour": Output(_BY_HOUR, _hours)}),
    "payments_with_orders": Case(
        inputs.orders_and_payments,
        {
            "orders-paid": Output(
                ("order_id", "payment_id", "amount"), lambda read: expected.paid(read["orders"], read["payments"])
            ),
            "orders-unpaid": Output(
                ("order_id", "amount"), lambda read: expected.unpaid(read["orders"], read["payments"])
            ),
            "payments-late": Output(("payment_id",), lambda read: expected.late(read["orders"], read["payments"])),
        },
    ),
    "card_pattern": Case(
        inputs.card_payments,
        {"card-alerts": Output(("card", "payment_id", "at"), lambda read: expected.alerts(read["card-payments"]))},
    ),
    "sessions": Case(
        inputs.clicks,
        {
            "user-sessions": Output(
                ("user_id", "start", "end", "clicks"), lambda read: expected.sessions(read["clicks"])
            )
        },
    ),
    "deduplicated": Case(
        inputs.events, {"events-once": Output(("id", "amount"), lambda read: expected.once(read["events"]))}
    ),
    "enriched": Case(
        inputs.payments_and_rates,
        {
            "payments-in-dollars": Output(
                ("payment_id", "dollars"), lambda read: expected.in_dollars(read["payments-abroad"], read["rates"])
            )
        },
    ),
    "several_totals": Case(
        inputs.sales,
        {
            "totals-by-category": Output(("category", "since", "sales", "total"), _hours),
            "totals-by-store": Output(
                ("store", "since", "sales", "total"),
                lambda read: expected.by_window(read["sales"], "store", "sold_at", 20 * MINUTE),
            ),
        },
    ),
    "existing_after": Case(
        inputs.views,
        {"views-by-page": Output(("page", "since", "views"), _views)},
        session=True,
        before="existing_before",
    ),
    "fan_out": Case(inputs.sales, {"sales-fan-out": Output(_BY_HOUR, _hours)}, tables=True),
    "avro_payments": Case(
        inputs.payments_in_avro,
        {
            "avro-totals": Output(
                ("user_id", "hour", "payments", "total"),
                lambda read: expected.by_window(read["avro-payments"], "user_id", "paid_at", HOUR),
            )
        },
        registry=True,
    ),
    "backfill": Case(
        inputs.sales_of_days,
        {
            "sales-by-hour-again": Output(
                _BY_HOUR, lambda read: expected.of_day(_hours(read), int(_DAY.timestamp() * 1000))
            )
        },
        environment={"DAY": _DAY.date().isoformat()},
    ),
}


@dataclass
class Seen:
    """One start of the job: where it was to die, whether it did, and what its log says of what it found."""

    point: str
    died: bool
    found: str


@dataclass
class Verdict:
    """What is there.

    Attributes:
        example: Which.
        records: Committed records of its input.
        rows: Rows of all its outputs.
        lost: Rows that must be there and are not.
        wrong: Rows that must not be there, and those that are there more than once.
        left: Transactions of the job that are open.
        epochs: How many Spark has recorded.
        seed: Of the input.
        starts: Of the job.
    """

    example: str
    records: int
    rows: int
    lost: int
    wrong: int
    left: int
    epochs: int
    seed: int
    starts: list[Seen]
    differences: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether all is there once, and nothing else."""
        return self.rows > 0 and not (self.lost or self.wrong or self.left)


class Run:
    """One example, over one input.

    Args:
        name: The example.
        servers: A broker's address. The example's topics are made there.
        folder: Where the job runs.
        records: About so many are written.
        seed: Of the input.
        settings: Of Spark, for all starts.
    """

    def __init__(
        self, name: str, servers: str, folder: Path, *, records: int, seed: int, settings: Mapping[str, str]
    ) -> None:
        self.case, self.name, self.servers, self.folder, self.seed = CASES[name], name, servers, folder, seed
        self.starts: list[Seen] = []
        self.codec: Codec | None = None
        self._mark = folder / "died"
        self._made = self.case.make(records, random.Random(seed))
        self.environment = {
            "KAFKA": servers,
            "LAKE": str(folder / "lake"),
            "PER_EPOCH": str(max(50, max(map(len, self._made.values())) // _EPOCHS)),
            "PYSPARK_PYTHON": sys.executable,
            "ONCEFLOW_CRASH_MARK": str(self._mark),
            # What is killed is started by this runner, and seen.
            "ONCEFLOW__RESTART_STRATEGY__TYPE": "none",
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            **self.case.environment,
        }
        (folder / "lake").mkdir(parents=True, exist_ok=True)
        if settings:
            conf = folder / "conf"
            conf.mkdir(exist_ok=True)
            (conf / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
            self.environment["SPARK_CONF_DIR"] = str(conf)
        if self.case.session:
            jars = ",".join(map(str, spark_jars()))
            self.environment["PYSPARK_SUBMIT_ARGS"] = (
                f"--master local[2] --conf spark.sql.shuffle.partitions=2 --jars {jars} pyspark-shell"
            )

    # -- input ------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Make the topics and write all records, some beside them in transactions that are aborted."""
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        # Else a broker takes records of January for older than its seven days.
        topics = [NewTopic(topic, 2, 1, config={"retention.ms": "-1"}) for topic in self._made]
        if self.case.session:
            topics += [NewTopic(topic, 2, 1) for topic in (*self.case.outputs, *self._before_topics())]
        for made in admin.create_topics(topics).values():
            made.result(60)
        for topic, records in self._made.items():
            self._write(topic, records)
        self.close(2)

    def close(self, days: int) -> None:
        """Write what closes all before, in each topic and partition."""
        for topic in self._made:
            self._write(topic, [inputs.closers(topic, days)] * 2, aborting=False)

    def _write(self, topic: str, records: list[inputs.Record], *, aborting: bool = True) -> None:
        producer = Producer(
            {"bootstrap.servers": self.servers, "transactional.id": f"fill-{topic}", "linger.ms": 5, "log_level": 0}
        )
        producer.init_transactions(60)
        for first in range(0, len(records), _CHUNK):
            chunk = records[first : first + _CHUNK]
            # The program before reads what is aborted, too.
            for commit in (True, False) if aborting and not self.case.before else (True,):
                producer.begin_transaction()
                for number, record in enumerate(chunk if commit else chunk[:20]):
                    at = int(record.at.timestamp() * 1000)
                    value = self._encoded(topic, record, is_late=first * 2 >= len(records))
                    producer.produce(topic, value, partition=number % 2, timestamp=at)
                producer.flush(60)
                (producer.commit_transaction if commit else producer.abort_transaction)(60)

    def _encoded(self, topic: str, record: inputs.Record, *, is_late: bool) -> str | bytes:
        if self.codec is None:
            return json.dumps(record.value)
        return self.codec.encode(topic, record.value, int(is_late))

    # -- the job ----------------------------------------------------------------------------------

    def start(self, point: str = "", *options: str) -> Seen:
        """Run the job over what is there: to a crash point, or to its end."""
        log = self.folder / f"job-{len(self.starts):02d}.log"
        code = self._run(self.name, log, {"ONCEFLOW_CRASH": point} if point else {}, *options)
        text = log.read_text(errors="replace")
        died = code == -signal.SIGKILL and self._mark.exists()
        self._mark.unlink(missing_ok=True)
        if not died and code != 0:
            raise RuntimeError(f"{self.name} ended with {code}:\n{text[-6_000:]}")
        seen = Seen(point, died, found_in(text))
        self.starts.append(seen)
        return seen

    def resume(self, point: str) -> Seen:
        """From a savepoint of the checkpoint begin a new job in a folder of its own, and run that from now on."""
        (checkpoint,) = (self.folder / "checkpoints").iterdir()
        savepoint = self.folder / "savepoint"
        taking = [sys.executable, "-m", "onceflow", "savepoint", "create", str(checkpoint), str(savepoint)]
        subprocess.run(taking, env=os.environ | self.environment, check=True, stdout=subprocess.DEVNULL)
        self.folder /= "resumed"
        self.folder.mkdir()
        return self.start(point, "-s", str(savepoint), "--yes")

    def settle(self) -> None:
        """Let every source move its watermark once more: a restart forgets those of sources without new records."""
        self.close(3)
        self.start()

    def before(self) -> None:
        """Run the program that the example was before, if there is one."""
        if self.case.before:
            log = self.folder / "before.log"
            code = self._run(self.case.before, log, {"OUT": self._before_topics()[0]})
            if code != 0:
                raise RuntimeError(f"{self.case.before} ended with {code}:\n{log.read_text(errors='replace')[-6_000:]}")

    def _run(self, name: str, log: Path, environment: Mapping[str, str], *options: str) -> int:
        file = str(ROOT / "examples" / f"{name}.py")
        command = [sys.executable, file] if self.case.session else [sys.executable, "-m", "onceflow", "run", file]
        if not self.case.session:
            command += ["--until", "caught-up", *options]
        return ended(command, log, self.environment | environment, RUN_WITHIN_S)

    def _before_topics(self) -> list[str]:
        return [f"{topic}-before" for topic in self.case.outputs] if self.case.before else []

    def wait_expired(self) -> int:
        """Wait until all transactions that the job has left open have expired; how many there were."""
        with testing.OpenTransactions(of.KafkaCluster(self.servers), "onceflow-") as transactions:
            were, deadline = transactions.count(), time.monotonic() + 300
            while transactions.count():
                if time.monotonic() > deadline:
                    raise RuntimeError("the transactions did not expire in five minutes")
                time.sleep(0.5)
            return were

    @property
    def newest_epoch(self) -> int:
        """The newest one that Spark has recorded."""
        folders = (self.folder / "checkpoints").glob("*/commits")
        return max(
            int(file.name)
            for folder in folders
            if "before" not in str(folder)
            for file in folder.iterdir()
            if file.name.isdigit()
        )

    # -- what is there ----------------------------------------------------------------------------

    def judge(self) -> Verdict:
        """Compare all outputs with what the topics say."""
        read = {topic: _values(self.servers, topic, self.codec) for topic in self._made}
        rows: Rows = Counter()
        lost, wrong, differences = 0, 0, []
        for name, found, wanted in self._outputs(read):
            missing, strange = wanted - found, found - wanted
            rows.update({(name, *row): n for row, n in found.items()})
            lost, wrong = lost + missing.total(), wrong + strange.total()
            differences += [f"{name}: lost {row}" for row in list(missing)[:3]]
            differences += [f"{name}: not expected {row}" for row in list(strange)[:3]]
        with testing.OpenTransactions(of.KafkaCluster(self.servers), "onceflow-") as transactions:
            left = transactions.count()
        return Verdict(
            example=self.name,
            records=sum(map(len, read.values())),
            rows=rows.total(),
            lost=lost,
            wrong=wrong,
            left=left,
            epochs=self.newest_epoch + 1,
            seed=self.seed,
            starts=self.starts,
            differences=differences,
        )

    def _outputs(self, read: Read) -> Iterator[tuple[str, Rows, Rows]]:
        for topic, output in self.case.outputs.items():
            wanted = output.expected(read)
            yield topic, _found(self.servers, topic, output.columns, self.codec), wanted
            if self.case.before:
                yield f"{topic}-before", _found(self.servers, f"{topic}-before", output.columns), wanted
        if self.case.tables:
            wanted = expected.copied(read["sales"])
            with psycopg.connect(self.environment["DATABASE"]) as connection:
                rows = connection.execute("select id, category, amount from sales").fetchall()
            yield "PostgreSQL", Counter(rows), wanted
            yield "Iceberg", Counter(self._lake()), wanted

    def _lake(self) -> Iterator[tuple[Any, ...]]:
        from pyiceberg.catalog import load_catalog  # only one example needs it

        catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{self.environment['LAKE']}/catalog.db")
        for row in catalog.load_table("shop.sales").scan().to_arrow().to_pylist():
            yield row["id"], row["category"], row["amount"]


_WHAT_A_START_FOUND = (
    (r"epoch \d+ is committed: its plan runs once more", "committed; the plan ran once more for its state"),
    (r"a decided transaction is proven lost", "expired: written again"),
    (r"aborting (\d+) transactions", "{} transactions aborted, the epoch run again"),
    (r"is decided and not done", "decided: committed by the start"),
)


def found_in(log: str) -> str:
    """What a start has found of the one before, in a few words."""
    for pattern, words in _WHAT_A_START_FOUND:
        if found := re.search(pattern, log):
            return words.format(*found.groups())
    return "nothing undone"


def _values(servers: str, topic: str, codec: Codec | None = None) -> list[Mapping[str, Any]]:
    return [
        json.loads(record.value, parse_float=Decimal) if codec is None else codec.decode(record.value)
        for record in read_all(servers, topic, "read_committed")
        if record.value is not None
    ]


def _found(servers: str, topic: str, columns: tuple[str, ...], codec: Codec | None = None) -> Rows:
    rows = Counter(tuple(value.get(column) for column in columns) for value in _values(servers, topic, codec))
    # What closes the rest is of no interest, and whether it is closed itself neither.
    return Counter({row: n for row, n in rows.items() if not any(str(v).startswith(inputs.CLOSING) for v in row)})


@contextlib.contextmanager
def prepared(
    name: str,
    folder: Path,
    *,
    records: int,
    seed: int,
    servers: str = "",
    broker: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Run]:
    """A filled input and what the example needs: a broker, unless there is one, and its database."""
    with contextlib.ExitStack() as stack:
        if not servers:
            servers = stack.enter_context(DevCluster(settings=broker or {})).bootstrap_servers
        run = Run(name, servers, folder, records=records, seed=seed, settings=settings or {})
        if run.case.tables:
            from tests.support.postgres import running  # only one example needs it

            run.environment["DATABASE"] = stack.enter_context(running()).url()
        if run.case.registry:
            registry = stack.enter_context(DevRegistry(folder / "registry"))
            run.environment["REGISTRY"], run.codec = registry.url, Codec(registry.url)
        run.fill()
        yield run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.examples.stateful", description=__doc__)
    parser.add_argument("example", choices=[*CASES, "all"])
    parser.add_argument("--records", type=int, default=3_000, help="about so many are written")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--die", default="", help="crash points, with commas between: D5@1,D7@3")
    asked = parser.parse_args(arguments)
    good = True
    for name in CASES if asked.example == "all" else [asked.example]:
        folder = Path(tempfile.mkdtemp(prefix=f"onceflow-{name}-"))
        with prepared(name, folder, records=asked.records, seed=asked.seed) as run:
            run.before()
            for point in filter(None, asked.die.split(",")):
                seen = run.start(point)
                print(f"{point}: {'killed' if seen.died else 'not reached'}; before: {seen.found}", flush=True)
            run.start()
            if asked.die:
                run.settle()
            verdict = run.judge()
        good = good and verdict.good
        if verdict.good:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"logs and checkpoint stay in {folder}", flush=True)
        print(json.dumps(asdict(verdict) | {"verdict": "PASS" if verdict.good else "FAIL"}), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
