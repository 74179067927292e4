"""``python -m bench.fraud_formats``: the fraud job over payments in JSON and in Avro by a registry, ours and Flink's.

Each system in turn, from its start to its end; every alert is counted. Results go to
``bench/results/fraud_formats.json``.
Must not know: how a system works.
"""

from __future__ import annotations

import argparse
import io
import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import fastavro
from bench import machine
from bench.processor import ProcessorTime
from bench.stage import ALL, Stage, System, missing, stage
from bench.throughput import Input
from bench.workload import START_MS, Payments
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from onceflow.local.devregistry import DevRegistry

RESULTS = Path(__file__).resolve().parent / "results" / "fraud_formats.json"
_SCHEMA = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "user_id", "type": "string"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}},
        {"name": "event_time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
_PLAIN = fastavro.parse_schema(json.loads(json.dumps(_SCHEMA).replace('"logicalType"', '"of"')))
_PATIENCE_S = 600


class InAvro(Payments):
    """The same payments, in Avro behind the id of their schema."""

    schema_id = 0

    def rows(self, first: int, last: int) -> list[tuple[int, bytes, bytes]]:
        """Partition, key and value of the payments ``first`` to ``last - 1``."""
        return [(partition, key, self._of(json.loads(value))) for partition, key, value in super().rows(first, last)]

    def _of(self, payment: dict[str, Any]) -> bytes:
        out, cents = io.BytesIO(), round(payment["amount"] * 100)
        day, time = payment["event_time"][8:10], payment["event_time"][11:23]
        ms = (int(day) - 1) * 86_400_000 + int(time[:2]) * 3_600_000 + int(time[3:5]) * 60_000
        ms += int(time[6:8]) * 1000 + int(time[9:])
        whole = payment | {"amount": cents.to_bytes(8, "big", signed=True), "event_time": START_MS + ms}
        fastavro.schemaless_writer(out, _PLAIN, whole)
        return b"\0" + struct.pack(">I", self.schema_id) + out.getvalue()


def measured(here: Stage, registry: str, systems: list[System], records: int, rounds: int) -> Iterator[dict[str, Any]]:
    """Runs, in the order in which they were made. Round 0 is not counted."""
    in_avro = InAvro(records)
    avro = Input(here, in_avro)
    name = f"{avro.topic}-value"
    of_avro = SchemaRegistryClient({"url": registry}).register_schema(name, Schema(json.dumps(_SCHEMA), "AVRO"))
    if of_avro != InAvro.schema_id:
        raise RuntimeError(f"the schema is {of_avro}, and records were written as of {InAvro.schema_id}")
    given = {"json": (Input(here, Payments(records)), ""), "avro": (avro, registry)}
    for number in range(rounds + 1):
        turn = [*systems[number % len(systems) :], *systems[: number % len(systems)]]
        for form, (of, url) in given.items():
            for system in turn:
                yield {"round": number, "format": form, "system": system.name} | _one(here, system, of, url, records)


def _one(here: Stage, system: System, given: Input, registry: str, records: int) -> dict[str, Any]:
    assignment = here.assignment(
        system, "fraud", given.topic, per_epoch=records // 4, records=records, registry=registry
    )
    with here.run(system, assignment) as process, ProcessorTime(process.tree) as processor:
        code = process.wait(_PATIENCE_S)
    fault = None if code == 0 else f"exit code {code}: ...{process.tail()}"
    fault = fault or given.fault(here, "fraud", assignment.sink)
    here.clear(assignment)
    return {"processor_s": round(processor.seconds, 2), "void": fault}


def main() -> int:
    """The figures, as a file. 1 if an alert was lost or doubled, or a system is not there."""
    parser = argparse.ArgumentParser(prog="python -m bench.fraud_formats", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--systems", nargs="+", default=["onceflow", "flink"])
    asked = parser.parse_args()
    systems = [ALL[name] for name in asked.systems]
    if gone := [why for why in map(missing, systems) if why]:
        print("\n".join(gone))
        return 1
    told: dict[str, Any] = machine.head() | {"records": asked.records, "runs": []}
    with stage() as here, DevRegistry(here.folder / "registry") as registry:
        InAvro.schema_id = 1  # the registry is new
        for run in measured(here, registry.url, systems, asked.records, asked.rounds):
            told["runs"].append(run)
            print(json.dumps(run), flush=True)
    counted = [run for run in told["runs"] if run["round"]]
    told["processor_s"] = {
        f"{form} {system.name}": median(
            run["processor_s"] for run in counted if (run["format"], run["system"]) == (form, system.name)
        )
        for form in ("json", "avro")
        for system in systems
    }
    told["load_after"] = machine.load()
    RESULTS.write_text(json.dumps(told, indent=1) + "\n")
    print(json.dumps(told["processor_s"]))
    return int(any(run["void"] for run in told["runs"]))


if __name__ == "__main__":
    sys.exit(main())
