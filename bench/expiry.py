"""``python -m bench.expiry``: a job dies between its decision and its commit, and the broker expires the transactions.

The same input and the same story for onceflow and for Flink: killed there, down until the broker has aborted what was
decided, started again. Then every alert is counted. Must not know: how either of them recovers.

onceflow dies by its own crash point D5 (decision durable, nothing committed). Flink has no such point, so its commits
are held back by a proxy in front of the broker: when the first one comes, its checkpoint is complete, and Flink is
killed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import machine, reading
from bench.proxy import Proxy
from bench.stage import ALL, Assignment, Process, Stage, missing, stage
from bench.workload import Alert, Payments, send
from confluent_kafka import Producer
from kafka import KafkaAdminClient

from onceflow.local.devcluster import FAST_EXPIRY

RESULTS = Path(__file__).resolve().parent / "results" / "peer-expiry.json"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "expiry.md"

RECORDS = 40_000
STEP_US = 10_000  # forty thousand payments are 400 seconds of event time
CHUNK = 4_000  # what is written at once, and what an epoch takes
TIMEOUT_MS = 30_000  # the transactions'; an epoch of a cold job on a busy machine takes 10 s
_CRASH_EPOCH = 5
_VISIBLE_BEFORE = 30  # alerts that Flink has committed before its commits are held back
_PATIENCE_S = 240.0
_ABORT_EVERY = "transaction.abort.timed.out.transaction.cleanup.interval.ms"


def main() -> int:
    """Both systems, the file and the page. 1 if onceflow lost or doubled anything, 2 if the story did not happen."""
    parser = argparse.ArgumentParser(prog="python -m bench.expiry", description=__doc__)
    parser.add_argument("--systems", nargs="+", choices=("onceflow", "flink"), default=["onceflow", "flink"])
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if absent := [why for name in asked.systems if (why := missing(ALL[name]))]:
        print("\n".join(absent), file=sys.stderr)
        return 2
    results: dict[str, Any] = machine.head() | {
        "seed": asked.seed,
        "payments": RECORDS,
        "transaction_timeout_ms": TIMEOUT_MS,
    }
    payments = Payments(RECORDS, asked.seed, STEP_US)
    port, front = _free_ports(2)
    settings = {
        # Overdue transactions are aborted at once instead of within 10 s. Their ids are remembered, as on any broker.
        _ABORT_EVERY: FAST_EXPIRY[_ABORT_EVERY],
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},FRONT://127.0.0.1:{front}",
    }
    with stage(port=port, settings=settings, extra_listeners={"FRONT": "PLAINTEXT"}) as here:
        behind = int(here.cluster.bootstrap("FRONT").rpartition(":")[2])
        for name in asked.systems:
            print(f"== {ALL[name].title}", flush=True)
            if name == "onceflow":
                results[name] = _onceflow(here, payments)
            else:
                with Proxy(front, behind) as proxy:
                    results[name] = _flink(here, payments, proxy, f"127.0.0.1:{front}")
            print(json.dumps(results[name], indent=1), flush=True)
    if set(asked.systems) == {"onceflow", "flink"}:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        PAGE.write_text(page(results))
    if any(not results[name]["happened"] for name in asked.systems):
        return 2
    ours = results.get("onceflow", {"alerts_lost": 0, "alerts_doubled_or_strange": 0})
    return 1 if ours["alerts_lost"] or ours["alerts_doubled_or_strange"] else 0


# -- the two stories --------------------------------------------------------------------------------


def _onceflow(here: Stage, payments: Payments) -> dict[str, Any]:
    system = ALL["onceflow"]
    source = here.topic("payments-onceflow")
    send_all(here, source, payments)
    assignment = here.assignment(
        system, "fraud", source, per_epoch=CHUNK, interval_ms=200, transaction_timeout_ms=TIMEOUT_MS
    )
    with here.run(system, assignment, {"ONCEFLOW_CRASH": f"D5@{_CRASH_EPOCH}"}) as process:
        _require_end(process, expected=False)
    before = reading.alerts_of(here.servers, assignment.sink)
    open_ones = _open_transactions(here, "onceflow-")
    print(f"  killed at D5 of epoch {_CRASH_EPOCH}; decided and uncommitted transactions: {len(open_ones)}", flush=True)
    down = _wait_for_expiry(here, "onceflow-")
    began = time.monotonic()
    with here.run(system, assignment) as process:
        code = process.wait(_PATIENCE_S)
        if code is None:
            process.kill()
        seconds = time.monotonic() - began
    result = _verdict(payments, before, reading.alerts_of(here.servers, assignment.sink))
    result |= {"transactions_expired": len(open_ones), "down_s": round(down, 1), "restart_s": round(seconds, 1)}
    records = _journal(Path(assignment.checkpoint))
    result |= {"exit_code": code, "journal": records, "happened": bool(open_ones) and records["replay"] > 0}
    return result | {"said": _telling(assignment, r"incarnation|replay|expired|written again|lost|rror")}


def _flink(here: Stage, payments: Payments, proxy: Proxy, front: str) -> dict[str, Any]:
    system = ALL["flink"]
    source = here.topic("payments-flink")
    assignment = here.assignment(
        system, "fraud", source, interval_ms=1_000, bounded=False, transaction_timeout_ms=TIMEOUT_MS, servers=front
    )
    producer = Producer({"bootstrap.servers": here.servers, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
    before: Counter[Alert] = Counter()
    with here.run(system, assignment) as process:
        for first in range(0, payments.records, CHUNK):
            send(producer, source, payments.rows(first, min(first + CHUNK, payments.records)))
            producer.flush(30)
            before = reading.alerts_of(here.servers, assignment.sink)
            if before.total() >= _VISIBLE_BEFORE:
                proxy.hold_commits()
            # The next chunk when this one was taken in: two checkpoints later, or a commit is held.
            if proxy.one_is_held.wait(20.0 if first == 0 else 2.5):
                break
            if not process.running():
                raise RuntimeError(f"Flink ended: {process.tail()}")
        proxy.one_is_held.wait(30)
        process.kill()
        sent = min(first + CHUNK, payments.records)
        before = reading.alerts_of(here.servers, assignment.sink)
        open_ones = _open_transactions(here, assignment.sink)
        print(f"  commits held: {proxy.held}; killed; open transactions: {len(open_ones)}", flush=True)
        proxy.pass_all()
    down = _wait_for_expiry(here, assignment.sink)
    for first in range(sent, payments.records, CHUNK):
        send(producer, source, payments.rows(first, min(first + CHUNK, payments.records)))
    producer.flush(30)
    began = time.monotonic()
    with here.run(system, assignment, {}) as process:
        found = _until_quiet(here, assignment.sink, process)
        seconds = time.monotonic() - began
    result = _verdict(payments, before, found)
    result |= {"transactions_expired": len(open_ones), "down_s": round(down, 1), "restart_s": round(seconds, 1)}
    result |= {"commits_held": proxy.held, "happened": proxy.held > 0 and bool(open_ones) and bool(found - before)}
    return result | {"said": _telling(assignment, r"going on from|KafkaCommitter|to FAILED|^Caused by")}


# -- parts ------------------------------------------------------------------------------------------


def _verdict(payments: Payments, before: Counter[Alert], found: Counter[Alert]) -> dict[str, Any]:
    right = payments.alerts()
    lost, strange = right - found, found - right
    return {
        "alerts_right": right.total(),
        "alerts_visible_at_the_kill": before.total(),
        "alerts_visible_at_the_end": found.total(),
        "alerts_lost": lost.total(),
        "alerts_doubled_or_strange": strange.total(),
        "lost_for_example": [list(alert) for alert in sorted(lost)[:3]],
    }


def send_all(here: Stage, topic: str, payments: Payments) -> None:
    producer = Producer({"bootstrap.servers": here.servers, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
    send(producer, topic, payments.rows(0, payments.records))
    producer.flush(60)


def _require_end(process: Process, *, expected: bool) -> None:
    code = process.wait(_PATIENCE_S)
    if code is None or (code == 0) is not expected:
        raise RuntimeError(f"ended with {code}: {process.tail(40)}")


def _journal(checkpoint: Path) -> Counter[str]:
    """How many records of each kind the journal holds: ``replay`` says that an epoch was written again."""
    files = (checkpoint / "onceflow" / "journal").glob("*.json")
    return Counter(json.loads(path.read_text())["kind"] for path in files)


def _open_transactions(here: Stage, prefix: str) -> list[str]:
    """Transactional ids whose transaction is open, asked of the broker by another client than the systems' own."""
    admin = KafkaAdminClient(bootstrap_servers=here.servers)
    try:
        listed = admin.list_transactions(state_filters=["Ongoing", "PrepareCommit", "PrepareAbort"])
    finally:
        admin.close()
    text = json.dumps(listed, default=str)
    return sorted(set(re.findall(rf"\b{re.escape(prefix)}[\w.-]*", text)))


def _wait_for_expiry(here: Stage, prefix: str) -> float:
    """Wait until the broker has aborted every open transaction; how long that took in seconds."""
    began = time.monotonic()
    _wait_for(lambda: not _open_transactions(here, prefix), "the transactions to expire")
    return time.monotonic() - began


def _until_quiet(here: Stage, topic: str, process: Process) -> Counter[Alert]:
    """The alerts, when for 15 seconds no new one came: an unbounded job does not say when it is done."""
    found: Counter[Alert] = Counter()
    quiet_since = began = time.monotonic()
    while time.monotonic() - quiet_since < 15 or time.monotonic() - began < 40:
        if not process.running():
            raise RuntimeError(f"it ended: {process.tail()}")
        now = reading.alerts_of(here.servers, topic)
        if now != found:
            found, quiet_since = now, time.monotonic()
        if time.monotonic() - began > _PATIENCE_S:
            break
        time.sleep(0.5)
    return found


def _wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited in vain for {what}")
        time.sleep(0.2)


def _telling(assignment: Assignment, pattern: str) -> list[str]:
    """The lines of a system's logs that speak of the loss."""
    place = Path(assignment.scratch).parent
    logs = [path.read_text(errors="replace") for path in sorted(place.glob("*.*"))]
    found = [line for log in logs for line in log.splitlines() if re.search(pattern, line)]
    plain = [re.sub(r"^[\d/-]+ [\d:,.]+ +", "", line).replace(str(place), "")[:420] for line in found]
    return list(dict.fromkeys(plain))[:8]


def _free_ports(count: int) -> list[int]:
    """Free ports below those that the system gives to outgoing connections."""
    found: list[int] = []
    for port in random.sample(range(20_000, 32_000), 500):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError("no free port")


# -- the page ---------------------------------------------------------------------------------------

_ROWS = (
    ("alerts that are right", "alerts_right"),
    ("visible when the job was killed", "alerts_visible_at_the_kill"),
    ("transactions that expired", "transactions_expired"),
    ("visible at the end", "alerts_visible_at_the_end"),
    ("**lost**", "alerts_lost"),
    ("**doubled or strange**", "alerts_doubled_or_strange"),
)


def page(results: dict[str, Any]) -> str:
    """docs/expiry.md from the figures."""
    ours, flink = results["onceflow"], results["flink"]
    versions, count, made = results["versions"], f"{results['payments']:,}", results["made"][:10]
    timeout = f"{results['transaction_timeout_ms'] / 1000:g} s"
    table = "\n".join(f"| {title} | {ours[key]:,} | {flink[key]:,} |" for title, key in _ROWS)
    said = "\n".join(f"    {line}" for line in ours["said"])
    journal = ", ".join(f"{count} {kind}" for kind, count in sorted(ours["journal"].items()))
    theirs = "\n".join(f"    {line}" for line in flink["said"])
    return f"""# An expired transaction is written again

<!-- Made by `make peer-expiry` from bench/results/peer-expiry.json; do not edit. -->

A job has decided an epoch (Flink: completed a checkpoint), and is killed before its transactions are committed. It
stays down until the broker has aborted them, because they are older than their time-out. Then it is started again.

The input ({count} payments, for the fraud job) and the time-out ({timeout}) are the same for both.
onceflow {versions["onceflow"]} is killed at its crash point `D5`; Flink {versions["apache-flink"]} when a proxy in
front of the broker sees, and holds, a commit (`EndTxn`). Both go on from their own newest checkpoint.
Made {made}, seed {results["seed"]}.

| | onceflow | Flink |
|---|---:|---:|
{table}

Flink's checkpoint counts the records as read and the transaction is gone: nothing is left to write them from. The
journal of onceflow names the range of the source that the lost transactions held, and so they are written again.

Its journal holds {journal}. What its log says of it:

{said or "    (nothing)"}

What Flink said:

{theirs or "    (nothing)"}

Repeat it with `make peer-expiry`.
"""


if __name__ == "__main__":
    sys.exit(main())
