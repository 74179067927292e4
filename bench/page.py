"""``python -m bench.page``: docs/benchmarks.md and its plots, from bench/results/latest.json and bench/notes.md.

Must not know: how the figures were made. What is said about them by hand stands in notes.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.chart import bars
from bench.stage import ALL

_HERE = Path(__file__).resolve().parent
RESULTS, NOTES, DOCS = _HERE / "results" / "latest.json", _HERE / "notes.md", _HERE.parent / "docs"

_GOALS = (
    ("fraud_vs_spark", "warm rate of the fraud job, ours : Spark's own sink", 0.95, ">="),
    ("copy_vs_spark", "warm rate of the copy, ours : Spark's own sink", 0.95, ">="),
    ("fraud_vs_flink", "warm rate of the fraud job, ours : Flink", 1.0, ">="),
    ("copy_vs_flink", "warm rate of the copy, ours : Flink", 0.8, ">="),
    ("fraud_vs_quix", "warm rate of the fraud job, ours : Quix Streams", 1.0, ">="),
    ("latency_p99_vs_flink", "p99 latency, ours back to back : Flink with checkpoints every second", 1.0, "<="),
    ("recovery_vs_flink", "time away after SIGKILL, ours : Flink", 1.0, "<="),
)

_MANY, _MANY_S = 512, 0.5


def main() -> int:
    """Write the page; 1 if there are no results."""
    if not RESULTS.exists():
        print(f"{RESULTS} is not there: run make bench", file=sys.stderr)
        return 1
    results = json.loads(RESULTS.read_text())
    DOCS.mkdir(exist_ok=True)
    sections = [make(results) for name, make in _SECTIONS.items() if results.get(name)]
    notes = NOTES.read_text() if NOTES.exists() else ""
    (DOCS / "benchmarks.md").write_text("\n\n".join([_head(results), *sections, _made(results), notes]).rstrip() + "\n")
    return 0


def _head(results: dict[str, Any]) -> str:
    lines = []
    for name, what, goal, sense in _GOALS:
        value = results["ratios"].get(name)
        if value is not None:
            lines.append(_goal(what, value, goal, sense))
    lines += [
        _goal(f"commit of {_MANY} participants, seconds", row["commit_ms"] / 1000, _MANY_S, "<=")
        for row in results.get("participants", [])
        if row["participants"] == _MANY and row["void"] is None
    ]
    goals = "\n".join(lines)
    return f"""# What exactly-once costs

<!-- Made by `make bench-page` from bench/results/latest.json and bench/notes.md; do not edit. -->

Every system runs on the same machine, broker and input, as a process of its own; they take turns. Each output is read
back by an independent read_committed consumer and compared with what it must be; a run whose output is wrong counts
for nothing. Repeat it with `make bench`; `make bench ARGS="--help"` says what can be chosen.

| | measured | goal | met |
|---|---:|---:|---|
{goals}"""


def _goal(what: str, value: float, goal: float, sense: str) -> str:
    met = value >= goal if sense == ">=" else value <= goal
    return f"| {what} | {value:.2f} | {sense} {goal:g} | {'yes' if met else '**no**'} |"


def _throughput(results: dict[str, Any]) -> str:
    rows = results["throughput"]
    works = list(dict.fromkeys(row["work"] for row in rows))
    _plot(
        "benchmarks-throughput.svg",
        "Warm throughput",
        [(w, [(r["title"], r["warm_rate"] or 0) for r in rows if r["work"] == w]) for w in works],
        "records a second",
    )
    table = _table(
        ("work", "system", "records", "runs", "whole run, /s", "warm, /s", "seconds, least to most"),
        rows,
        lambda r: (
            r["work"],
            r["title"],
            f"{r['records']:,}",
            r["runs"],
            f"{r['whole_rate']:,}",
            f"{r['warm_rate']:,}" if r["warm_rate"] else "-",
            f"{r['seconds_spread'][0]:.1f} to {r['seconds_spread'][1]:.1f}",
        ),
    )
    return f"""## Throughput

*copy*: topic to topic, unchanged, with its keys. *fraud*: the job of the README (JSON, one-minute windows by user,
RocksDB). Values of 110 bytes, 4 partitions. The whole run counts from the process's start to its end; the warm rate is
the difference of two sizes by the difference of their median times, which takes the start out. All systems on the JVM
read with the same consumer settings; Flink checkpoints every second. Quix Streams is pure Python and gets a twentieth
of the records.

![Warm throughput](benchmarks-throughput.svg)

{table}"""


def _latency(results: dict[str, Any]) -> str:
    rows = results["latency"]
    _plot(
        "benchmarks-latency.svg",
        "Latency, from produce to visible under read_committed",
        [(f"{r['title']}, {_every(r)}", [("p50", r["p50_ms"]), ("p99", r["p99_ms"])]) for r in rows],
        "milliseconds, at 5,000 records a second",
    )
    table = _table(
        ("system", "checkpoints", "p50, ms", "p90, ms", "p99, ms", "most, ms"),
        rows,
        lambda r: (r["title"], _every(r), *(f"{r[k]:,.0f}" for k in ("p50_ms", "p90_ms", "p99_ms", "max_ms"))),
    )
    return f"""## Latency

The time of sending is in each record; a read_committed consumer compares it with its own clock, the same one. Only
records sent after a warm-up count, and each must come exactly once.

![Latency](benchmarks-latency.svg)

{table}"""


def _recovery(results: dict[str, Any]) -> str:
    table = _table(
        ("system", "first new record after, s", "caught up after, s"),
        results["recovery"],
        lambda r: (r["title"], f"{r['recovery_s']:.1f}", f"{r['caught_up_s']:.1f}"),
    )
    return f"""## Recovery

SIGKILL to the whole process tree at 5,000 records a second, and started again at once: how long until a record is
committed by the new process. Each record must still come exactly once.

{table}"""


def _participants(results: dict[str, Any]) -> str:
    rows = results["participants"]
    _plot(
        "benchmarks-participants.svg",
        "Commit of one epoch, by participants",
        [("", [(f"{r['participants']}", r["commit_ms"]) for r in rows])],
        "milliseconds",
    )
    table = _table(
        ("participants", "epochs", "prepare, ms", "decide, ms", "commit, ms", "most, ms", "epoch, ms"),
        [row for row in rows if row["void"] is None],
        lambda r: (
            r["participants"],
            r["epochs"],
            *(f"{r[k]:,.0f}" for k in ("prepare_ms", "decide_ms", "commit_ms", "commit_max_ms", "whole_ms")),
        ),
    )
    return f"""## Many participants

Epochs of ten records for each source partition: one participant, that is one transaction, for each partition. Medians;
prepare holds Spark's tasks and the opening of one producer in each.

![Commit](benchmarks-participants.svg)

{table}"""


def _history(results: dict[str, Any]) -> str:
    table = _table(
        ("epochs before", "files", "kB", "reading the journal, ms", "append, ms", "start to first record, s"),
        [row for row in results["history"] if row["void"] is None],
        lambda r: (
            f"{r['epochs']:,}",
            r["files"],
            f"{r['bytes'] / 1000:,.0f}",
            r["read_journal_ms"],
            r["append_ms"] if r["epochs"] > 1 else "-",
            r["start_s"],
        ),
    )
    return f"""## Long history

What lies in a checkpoint after so many epochs, and how long a start takes then. One epoch is real; the others are
synthetic: the real journal appended its decision again under their numbers, and Spark's own newest hundred files were
laid beside it.

{table}"""


def _memory(results: dict[str, Any]) -> str:
    table = _table(
        ("work", "records in the epoch", "driver, Python, MB", "driver and executor, JVM, MB", "worker, MB"),
        [row for row in results["memory"] if row["void"] is None],
        lambda r: (
            r["work"],
            f"{r['records']:,}",
            *(f"{r[k]:,}" for k in ("driver_python_mb", "driver_java_mb", "worker_mb")),
        ),
    )
    return f"""## Memory

The most that each process ever had resident, in a run of one epoch.

{table}"""


def _made(results: dict[str, Any]) -> str:
    on, versions = results["machine"], results["versions"]
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    processor, gigabytes = on.get("processor", "unknown processor"), on.get("memory_gb", "?")
    parts = "\n".join(
        f"| {name} | {made['at'][:16].replace('T', ' ')} | {made['load_before']} | {made['arguments']['rounds']} |"
        for name, made in results["parts"].items()
    )
    void = [
        f"* {run['work']}, {ALL[run['system']].title}, {run['records']:,} records: {run['void']}"
        for run in results.get("runs", [])
        if run["void"] is not None
    ]
    told = (
        "\n\nRuns of the throughput part that do not count, because of their output:\n\n" + "\n".join(void)
        if void
        else ""
    )
    return f"""## Made on

{processor}, {on["cores"]} cores, {gigabytes} GB, Java {on["java"]}, Python {on["python"]}, {on["system"]}. Seed
{results["seed"]}. {named}. Every single run is in `bench/results/latest.json`.

| part | begun, UTC | load average before | rounds |
|---|---|---|---:|
{parts}{told}"""


_SECTIONS: dict[str, Callable[[dict[str, Any]], str]] = {
    "throughput": _throughput,
    "latency": _latency,
    "recovery": _recovery,
    "participants": _participants,
    "history": _history,
    "memory": _memory,
}


def _every(row: dict[str, Any]) -> str:
    return f"every {row['interval_ms']:,} ms" if row["interval_ms"] else "back to back"


def _plot(name: str, title: str, groups: Sequence[tuple[str, Sequence[tuple[str, float]]]], unit: str) -> None:
    (DOCS / name).write_text(bars(title, groups, unit))


def _table(
    head: Sequence[str], rows: Sequence[dict[str, Any]], cells: Callable[[dict[str, Any]], Sequence[object]]
) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, cells(row)))} |" for row in rows)])


if __name__ == "__main__":
    sys.exit(main())
