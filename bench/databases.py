"""``python -m bench.databases``: rows a second into PostgreSQL, exactly once, beside Spark's JDBC writer.

Both write the same payments to the same server with the same durability; then Kafka and PostgreSQL in one commit,
beside two jobs that each write to one of them. The figures go into bench/results/latest.json. Must not know: how a
system works.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
from bench import machine
from bench.peer_jars import POSTGRESQL_DRIVER, fetched
from bench.processor import ProcessorTime
from bench.stage import ALL, Assignment, Stage, stage
from bench.workload import Payments, fill
from tests.support.postgres import Postgres, running

RESULTS = Path(__file__).resolve().parent / "results" / "latest.json"
_COLUMNS = "id text, user_id text, amount numeric(18,2), event_time timestamptz"
_PATIENCE_S = 600


class Table:
    """The payments, the server, and a table for each run.

    Args:
        here: Where the systems run.
        server: The database.
        records: How many payments.
    """

    def __init__(self, here: Stage, server: Postgres, records: int, seed: int) -> None:
        self._here = here
        self._server = server
        self._given = Payments(records, seed)
        self._topic = here.topic(f"payments-{records}")
        fill(here.servers, self._topic, self._given)
        cents = sum(int(self._given.block(*borders)[1].sum()) for borders in self._given.blocks())
        self._right = (records, records, cents)
        self._driver = str(fetched(POSTGRESQL_DRIVER))

    def run(self, system: str, *works: str) -> dict[str, Any]:
        """Works of a system at the same time: until the last of them has ended.

        Args:
            system: Its name.
            works: ``table``, ``copy-payments``, or ``both``.
        """
        records = self._given.records
        table = f"payments_{time.time_ns()}"
        self._ask(f"create table {table} ({_COLUMNS})")
        told = [self._assignment(system, work, table) for work in works]
        began = time.monotonic()
        with ExitStack() as stack:
            processes = [stack.enter_context(self._here.run(ALL[system], assignment)) for assignment in told]
            with ProcessorTime(lambda: [pid for process in processes for pid in process.tree()]) as processor:
                codes = [process.wait(_PATIENCE_S) for process in processes]
            seconds = time.monotonic() - began
            faults = [process.tail() for process, code in zip(processes, codes, strict=True) if code != 0]
        fault = "\n".join(faults) or self._fault(table, works)
        self._ask(f"drop table {table}")
        for assignment in told:
            self._here.clear(assignment)
        return {
            "system": system,
            "works": list(works),
            "records": records,
            "seconds": round(seconds, 3),
            "processor_s": round(processor.seconds, 2),
            "void": fault or None,
        }

    def _assignment(self, system: str, work: str, table: str) -> Assignment:
        more = {"database": self._server.url(), "table": table, "jars": (self._driver,)}
        return self._here.assignment(ALL[system], work, self._topic, records=self._given.records, **more)

    def _fault(self, table: str, works: tuple[str, ...]) -> str | None:
        if works == ("copy-payments",):
            return None
        asked = f"select count(*), count(distinct id), sum(amount * 100)::bigint from {table}"  # noqa: S608 - our name
        found = self._ask(asked)
        return None if found == self._right else f"{found} instead of {self._right}"

    def _ask(self, statement: str) -> Any:
        with psycopg.connect(self._server.url(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchone() if cursor.description else None


CASES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("onceflow", ("table",)),
    ("spark", ("table",)),
    ("onceflow", ("both",)),
    ("onceflow", ("table", "copy-payments")),
)
"""A system, and the works that it does at the same time."""


def main() -> int:
    """Measure in turns and write the results; 1 if a run was void."""
    parser = argparse.ArgumentParser(prog="python -m bench.databases", description=__doc__)
    parser.add_argument("--sizes", nargs=2, type=int, metavar=("SMALL", "LARGE"), default=(500_000, 2_000_000))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    load = machine.load()
    runs: list[dict[str, Any]] = []
    with running() as server, stage() as here:
        tables = [Table(here, server, records, asked.seed) for records in asked.sizes]
        for system in ("onceflow", "spark"):
            tables[0].run(system, "table")  # to be read from disk, and forgotten
        for number in range(asked.rounds):
            turn = [*CASES[number % len(CASES) :], *CASES[: number % len(CASES)]]
            for table in tables:
                for system, works in turn:
                    made = table.run(system, *works) | {"round": number + 1}
                    runs.append(made)
                    print(json.dumps(made), flush=True)
    results = json.loads(RESULTS.read_text())
    results["databases"] = {
        "machine": machine.machine(),
        "postgres": "PostgreSQL, fsync on, synchronous_commit on, its defaults",
        "driver": f"{POSTGRESQL_DRIVER.name} {POSTGRESQL_DRIVER.rev}",
        "rounds": asked.rounds,
        "seed": asked.seed,
        "load_before": load,
        "rows": summary(runs),
        "runs": runs,
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    for row in results["databases"]["rows"]:
        print(row)
    return 1 if any(run["void"] for run in runs) else 0


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each case: the median whole-run rate of the large size, and the warm rate, by the difference of the sizes."""
    rows = []
    for system, works in CASES:
        mine = [run for run in runs if (run["system"], tuple(run["works"])) == (system, works) and not run["void"]]
        sizes = sorted({run["records"] for run in mine})
        if len(sizes) != 2:
            continue
        small, large = (median(run["seconds"] for run in mine if run["records"] == size) for size in sizes)
        warm = round((sizes[1] - sizes[0]) / (large - small)) if large > small else None
        spent = median(run["processor_s"] for run in mine if run["records"] == sizes[1])
        rows.append(
            {
                "system": system,
                "works": list(works),
                "records": sizes[1],
                "runs": len(mine),
                "seconds": large,
                "whole_rate": round(sizes[1] / large),
                "warm_rate": warm,
                "processor_s": spent,
            }
        )
    return rows


if __name__ == "__main__":
    sys.exit(main())
