"""``python -m bench.page``: docs/benchmarks.md and its plots, from bench/results/latest.json and bench/notes.md.

Must not know: how the figures were made. What is said about them by hand stands in notes.md. A figure that the results
do not have is "not measured yet" on the page.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.chart import bars, stacked
from bench.latency import LATENCY_CASES
from bench.ratios import ratios
from bench.scale import PHASES
from bench.stage import ALL

_HERE = Path(__file__).resolve().parent
RESULTS, NOTES, DOCS = _HERE / "results" / "latest.json", _HERE / "notes.md", _HERE.parent / "docs"

_GOALS: tuple[tuple[str, str, float | None, str], ...] = (
    ("fraud_vs_spark", "warm rate of the fraud job, ours : Spark's own sink", 0.95, ">="),
    ("copy_vs_spark", "warm rate of the copy, ours : Spark's own sink", 0.95, ">="),
    ("fraud_vs_flink", "warm rate of the fraud job, ours : Flink", 1.1, ">="),
    ("copy_vs_flink", "warm rate of the copy, ours : Flink", 0.9, ">="),
    ("fraud_vs_quix", "warm rate of the fraud job, ours : Quix Streams", 1.0, ">="),
    ("copy_processor_vs_spark", "processor time of a record of the copy, ours : Spark's own sink", None, "<="),
    ("copy_processor_vs_flink", "processor time of a record of the copy, ours : Flink", None, "<="),
    ("fraud_processor_vs_spark", "processor time of a record of the fraud job, ours : Spark's own sink", None, "<="),
    ("fraud_processor_vs_flink", "processor time of a record of the fraud job, ours : Flink", None, "<="),
    ("latency_p99_vs_flink", "p99 latency, ours back to back : Flink with checkpoints every second", 0.5, "<="),
    ("latency_p99_200ms_vs_flink", "p99 latency, ours : Flink, both every 200 ms", None, "<="),
    ("latency_p99_1000ms_vs_flink", "p99 latency, ours : Flink, both every second", 1.35, "<="),
    ("latency_p99_5000ms_vs_flink", "p99 latency, ours : Flink, both every 5 seconds", None, "<="),
    ("recovery_vs_flink", "time away after SIGKILL, ours : Flink", 0.8, "<="),
    ("prepare_128_vs_4", "prepare of an epoch of 128 partitions : of 4", 3.0, "<="),
    ("prepare_512_vs_4", "prepare of an epoch of 512 partitions : of 4", 12.0, "<="),
)
"""A ratio, what it is, its goal if there is one, and which side of it is good."""

_MANY, _MANY_S = 512, 0.5
_ABSENT = "not measured yet"


def main() -> int:
    """Write the page; 1 if there are no results."""
    if not RESULTS.exists():
        print(f"{RESULTS} is not there: run make bench", file=sys.stderr)
        return 1
    results = json.loads(RESULTS.read_text())
    DOCS.mkdir(exist_ok=True)
    sections = [
        f"## {title}\n\n{make(results) if results.get(name) else _absent(name)}"
        for name, (title, make) in _SECTIONS.items()
    ]
    notes = NOTES.read_text() if NOTES.exists() else ""
    (DOCS / "benchmarks.md").write_text("\n\n".join([_head(results), *sections, _made(results), notes]).rstrip() + "\n")
    return 0


def _absent(name: str) -> str:
    if name == "before":
        return "Not measured yet; `make bench-before` does."
    if name == "databases":
        return "Not measured yet; `make bench-databases` does."
    return f'Not measured yet; `make bench ARGS="--parts {name}"` does.'


def _head(results: dict[str, Any]) -> str:
    found = ratios(results)
    lines = [_goal(what, found[name], goal, sense) for name, what, goal, sense in _GOALS]
    many = [row for row in results.get("participants", []) if _partitions(row) == (_MANY, _MANY) and not row["void"]]
    commit_s = many[0]["commit_ms"] / 1000 if many else None
    of_128 = [row for row in results.get("participants", []) if _partitions(row) == (128, 128) and not row["void"]]
    first_s = of_128[0].get("first_epoch_ms", 0) / 1000 or None if of_128 else None
    lines.append(_goal("first epoch of 128 partitions, seconds", first_s, 5.0, "<="))
    small: dict[str, Any] = next(
        (row for row in results.get("before", {}).get("rows", []) if row["partitions"] == 4), {}
    )
    lines.append(_goal("an epoch of 40 records in 4 partitions, now : before", small.get("whole_ms_ratio"), 0.65, "<="))
    lines.append(_goal(f"commit of an epoch of {_MANY} partitions, seconds", commit_s, _MANY_S, "<="))
    goals = "\n".join(lines)
    return f"""# What exactly-once costs

<!-- Made by `make bench-page` from bench/results/latest.json and bench/notes.md; do not edit. -->

Every system runs on the same machine, broker and input, as a process of its own; they take turns. Each output is read
back by an independent read_committed consumer and compared with what it must be; a run whose output is wrong counts
for nothing. Repeat it with `make bench`; `make bench ARGS="--help"` says what can be chosen.

| | measured | goal | met |
|---|---:|---:|---|
{goals}"""


def _goal(what: str, value: float | None, goal: float | None, sense: str) -> str:
    measured = _ABSENT if value is None else f"{value:.2f}"
    if value and (value < 0.01 or (goal is not None and (value <= goal) != (round(value, 2) <= goal))):
        measured = f"{value:.3f}"  # else it would contradict what stands beside it
    if value is None or goal is None:
        met = "-"
    else:
        met = "yes" if (value >= goal if sense == ">=" else value <= goal) else "**no**"
    return f"| {what} | {measured} | {'-' if goal is None else f'{sense} {goal:g}'} | {met} |"


def _throughput(results: dict[str, Any]) -> str:
    rows = results["throughput"]
    works = list(dict.fromkeys(row["work"] for row in rows))
    _plot(
        "benchmarks-throughput.svg",
        "Warm throughput",
        [(w, [(r["title"], r["warm_rate"] or 0) for r in rows if r["work"] == w]) for w in works],
        "records a second",
    )
    head = ("work", "system", "records", "runs", "whole run, /s", "warm, /s", "seconds, least to most", _PROCESSOR)
    table = _table(
        head,
        rows,
        lambda r: (
            r["work"],
            r["title"],
            f"{r['records']:,}",
            r["runs"],
            f"{r['whole_rate']:,}",
            f"{r['warm_rate']:,}" if r["warm_rate"] else "-",
            f"{r['seconds_spread'][0]:.1f} to {r['seconds_spread'][1]:.1f}",
            _spent(r),
        ),
    )
    return f"""\
*copy*: topic to topic, unchanged, with its keys. *fraud*: the job of the README (JSON, one-minute windows by user,
RocksDB). Values of 110 bytes, 4 partitions. The whole run counts from the process's start to its end; the warm rate is
the difference of two sizes by the difference of their median times, which takes the start out. All systems on the JVM
read with the same consumer settings, but for `fetch.max.wait.ms`, which is short for those on Spark; Flink checkpoints
every second. Quix Streams is pure Python and gets a twentieth of the records. Processor time is that of all processes
of a system, without the broker, and warm as the rate is.

![Warm throughput](benchmarks-throughput.svg)

{table}"""


def _sizes(results: dict[str, Any]) -> str:
    rows = results["sizes"]
    table = _table(
        ("bytes", "system", "records", "warm, /s", "warm, MB/s", _PROCESSOR),
        rows,
        lambda r: (
            f"{r['value_bytes']:,}",
            r["title"],
            f"{r['records']:,}",
            f"{r['warm_rate']:,}" if r["warm_rate"] else "-",
            f"{r['warm_mb']:,}" if r["warm_mb"] else "-",
            _spent(r),
        ),
    )
    return f"""\
The copy again, with values of other lengths; one round, so a figure is one run of each of two sizes.

{table}"""


def _latency(results: dict[str, Any]) -> str:
    rows = results["latency"]
    measured = {(row["system"], row["interval_ms"]): row for row in rows}
    cases = [{"title": ALL[name].title, "interval_ms": ms} | measured.get((name, ms), {}) for name, ms in LATENCY_CASES]
    _plot(
        "benchmarks-latency.svg",
        "Latency, from produce to visible under read_committed",
        [(f"{r['title']}, {_every(r)}", [("p50", r["p50_ms"]), ("p99", r["p99_ms"])]) for r in rows],
        "milliseconds, at 5,000 records a second",
    )
    table = _table(
        ("system", "checkpoints", "p50, ms", "p90, ms", "p99, ms", "most, ms"),
        cases,
        lambda r: (r["title"], _every(r), *(_number(r, name) for name in ("p50_ms", "p90_ms", "p99_ms", "max_ms"))),
    )
    return f"""\
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
    return f"""\
SIGKILL to the whole process tree at 5,000 records a second, and started again at once: how long until a record is
committed by the new process. Each record must still come exactly once.

{table}"""


def _participants(results: dict[str, Any]) -> str:
    rows = [row for row in results["participants"] if row["void"] is None]
    phases = [(_which(row), [*_phases(row), ("Spark", _rest(row))]) for row in rows]
    (DOCS / "benchmarks-epoch.svg").write_text(stacked("An epoch, by source partitions", phases, "milliseconds"))
    _plot(
        "benchmarks-participants.svg",
        "Commit of one epoch, by source partitions",
        [("", [(_which(row), row["commit_ms"]) for row in rows])],
        "milliseconds",
    )
    columns = ("first_epoch_ms", "prepare_ms", "decide_ms", "commit_ms", "commit_max_ms", "whole_ms")
    spent = ("first epoch, ms", "prepare, ms", "decide, ms", "commit, ms", "most, ms", "epoch, ms")
    table = _table(
        ("partitions", "with records", "transactions", "epochs", *spent),
        rows,
        lambda r: (
            *_partitions(r),
            f"{r['participants']:g}",
            r["epochs"],
            *(_number(r, name) for name in columns),
        ),
    )
    return f"""\
Epochs of ten records for each source partition that has any. Medians of what comes after the first two epochs; the
first epoch, which a restart waits for, has a column of its own. Prepare holds Spark's tasks and the opening of one
producer in each; what an epoch takes beside its phases is Spark's own.

![Epoch](benchmarks-epoch.svg)

![Commit](benchmarks-participants.svg)

{table}"""


def _before(results: dict[str, Any]) -> str:
    measured = results["before"]
    table = _table(
        ("partitions", "pairs", *(f"{what}, before → now" for what in ("first epoch, ms", "prepare, ms", "epoch, ms"))),
        [row for row in measured["rows"] if row["pairs"]],
        lambda r: (
            r["partitions"],
            r["pairs"],
            *(
                f"{r[f'{name}_before']:,.0f} → {r[f'{name}_now']:,.0f} ({r[f'{name}_ratio']:.2f})"
                for name in ("first_epoch_ms", "prepare_ms", "whole_ms")
            ),
        ),
    )
    return f"""\
The same epochs by the code of commit {measured["commit"]}, in which every partition had a task and a transaction of its
own, and by that of {measured["now"]}: in turns on one machine, {measured["rounds"]} rounds, by `make bench-before`. In
brackets the median of the rounds' ratios. Load average before: {measured["load_before"]}.

{table}"""


def _databases(results: dict[str, Any]) -> str:
    measured = results["databases"]
    titles = {
        ("onceflow", "table"): "onceflow into PostgreSQL, exactly-once",
        ("spark", "table"): "Spark's JDBC writer in foreachBatch, at-least-once",
        ("onceflow", "both"): "onceflow into PostgreSQL and Kafka, one commit",
        ("onceflow", "table copy-payments"): "two jobs of onceflow at once, one into each",
    }
    table = _table(
        ("", "records", "runs", "whole run, s", "whole run, /s", "warm, /s", "processor s"),
        measured["rows"],
        lambda r: (
            titles[r["system"], " ".join(r["works"])],
            f"{r['records']:,}",
            r["runs"],
            f"{r['seconds']:.1f}",
            f"{r['whole_rate']:,}",
            f"{r['warm_rate']:,}" if r["warm_rate"] else "-",
            f"{r['processor_s']:.1f}",
        ),
    )
    warm = {(r["system"], *r["works"]): r["warm_rate"] for r in measured["rows"]}
    ours, theirs = warm.get(("onceflow", "table")), warm.get(("spark", "table"))
    ratio = f"{ours / theirs:.2f}" if ours and theirs else _ABSENT
    return f"""\
Payments from Kafka into a table of {measured["postgres"]}, in turns on one machine, {measured["rounds"]} rounds,
seed {measured["seed"]}, by `make bench-databases`. Spark's JDBC writer ({measured["driver"]}) has
`reWriteBatchedInserts=true`, batches of 10,000 and as many connections. Each table is compared with what it must hold.
Warm: the difference of two sizes. Ours : JDBC, warm: **{ratio}** (goal >= 1.2). Load average before:
{measured["load_before"]}.

{table}"""


def _partitions(row: dict[str, Any]) -> tuple[int, int]:
    """How many, and how many with records; older results have every partition filled, and a participant each."""
    partitions: int = row["partitions"] if "partitions" in row else row["participants"]
    return partitions, row.get("filled", partitions)


def _which(row: dict[str, Any]) -> str:
    partitions, filled = _partitions(row)
    return f"{partitions}" if filled == partitions else f"{partitions}, {filled} with records"


def _phases(row: dict[str, Any]) -> list[tuple[str, float]]:
    return [(phase, row[f"{phase}_ms"]) for phase in PHASES if f"{phase}_ms" in row]


def _rest(row: dict[str, Any]) -> float:
    """What no phase of ours has."""
    rest: float = row["whole_ms"] - sum(spent for _, spent in _phases(row))
    return max(0.0, rest)


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
    return f"""\
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
    return f"""\
The most that each process ever had resident, in a run of one epoch.

{table}"""


def _made(results: dict[str, Any]) -> str:
    on, versions = results["machine"], results["versions"]
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    processor, gigabytes = on.get("processor", "unknown processor"), on.get("memory_gb", "?")
    parts = "\n".join(
        f"| {name} | {made['at'][:16].replace('T', ' ')} | {made['load_before']} | {_rounds(name, made)} |"
        for name, made in results["parts"].items()
    )
    void = [
        f"* {run['work']}, {ALL[run['system']].title}, {run['records']:,} records: {run['void']}"
        for run in [*results.get("runs", []), *results.get("sizes_runs", [])]
        if run["void"] is not None
    ]
    told = (
        "\n\nRuns of throughput and sizes that do not count, because of their output:\n\n" + "\n".join(void)
        if void
        else ""
    )
    return f"""## Made on

{processor}, {on["cores"]} cores, {gigabytes} GB, Java {on["java"]}, Python {on["python"]}, {on["system"]}. Seed
{results["seed"]}. {named}. Every single run is in `bench/results/latest.json`.

| part | begun, UTC | load average before | rounds |
|---|---|---|---:|
{parts}{told}"""


_SECTIONS: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "throughput": ("Throughput", _throughput),
    "sizes": ("Sizes of records", _sizes),
    "latency": ("Latency", _latency),
    "recovery": ("Recovery", _recovery),
    "participants": ("Many partitions", _participants),
    "before": ("Before and after: as many transactions as task slots", _before),
    "databases": ("Into a database", _databases),
    "history": ("Long history", _history),
    "memory": ("Memory", _memory),
}


_PROCESSOR = "processor s per million, warm"


def _spent(row: dict[str, Any]) -> str:
    spent = row.get("processor_s_per_million")
    return _ABSENT if spent is None else f"{spent:.1f}"


def _number(row: dict[str, Any], name: str) -> str:
    return f"{row[name]:,.0f}" if row.get(name) is not None else _ABSENT


def _rounds(part: str, made: dict[str, Any]) -> int:
    """Some parts take one round, whatever was asked."""
    rounds: int = made["arguments"]["rounds"] if part in ("throughput", "latency", "recovery") else 1
    return rounds


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
