"""``python -m bench.soak_page``: docs/soak.md and its plot, from bench/results/soak.json.

Must not know: how the figures were made.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench import growth
from bench.chart import lines

_HERE = Path(__file__).resolve().parent
RESULTS, DOCS = _HERE / "results" / "soak.json", _HERE.parent / "docs"
NOTES = _HERE / "soak_notes.md"

_PLOTTED = (
    ("fraud-alerts", "RSS driver"),
    ("fraud-alerts", "RSS java"),
    ("fraud-alerts", "heap java"),
    ("fraud-alerts", "bytes journal"),
    ("fraud-alerts", "bytes journal receipts"),
    ("fraud-alerts", "bytes audit"),
    ("fraud-alerts", "bytes state"),
    ("fraud-alerts", "files temporary files"),
    ("three-sinks", "RSS driver"),
    ("three-sinks", "RSS java"),
    ("three-sinks", "heap java"),
    ("three-sinks", "bytes journal"),
    ("three-sinks", "bytes journal receipts"),
    ("three-sinks", "bytes audit"),
    ("three-sinks", "bytes state"),
    ("systems", "rows onceflow_ledger"),
    ("systems", "rows onceflow_attempts"),
    ("systems", "bytes payments_onceflow_staged"),
    ("systems", "bytes __transaction_state"),
    ("systems", "transactional ids"),
)


def main() -> int:
    """Write the page again; 1 if there are no results."""
    if not RESULTS.exists():
        print(f"{RESULTS} is not there: run make soak", file=sys.stderr)
        return 1
    write(json.loads(RESULTS.read_text()))
    return 0


def write(results: dict[str, Any]) -> None:
    """The page and its plot."""
    plots = [
        (f"{job}: {name}", each["hours"], each["values"])
        for job, name in _PLOTTED
        if (each := results["series"][job].get(name)) is not None
    ]
    (DOCS / "soak.svg").write_text(lines("Soak", plots, "over hours; RSS and heap in MB"))
    (DOCS / "soak.md").write_text(page(results))


def page(results: dict[str, Any]) -> str:
    """The page's text."""
    notes = NOTES.read_text().strip() if NOTES.exists() else ""
    tables = "\n\n".join(f"### {job}\n\n{_table(series)}" for job, series in results["series"].items())
    return f"""# Soak: what grows when a job runs for long

<!-- Made by `make soak` from bench/results/soak.json and bench/soak_notes.md; do not edit. -->

`make soak HOURS=…` runs two jobs side by side, each under `onceflow run --supervise`: the fraud job of the examples
([examples/fraud.py](../examples/fraud.py)), and one that writes each epoch to Kafka, PostgreSQL and Iceberg
([bench/systems/soak_job.py](../bench/systems/soak_job.py)). Their state has a bound: windows of a minute, and a
watermark. Payments come at a steady rate. Each driver gets SIGKILL at random moments from a seed, until two thirds of
the time are over: the rest is one life, long enough to tell whether a process grows. HOURS may be a fraction, or days.

Samples are taken every quarter of an hour, in a short run more often. At the end an independent reader compares each
output with the payments, `onceflow audit` proves each job's, and [bench/growth.py](../bench/growth.py) judges each
series:

* The first {growth.WARM_UP:.0%} are the warm-up and are left out. The rest is cut into two halves of time; the slope
  of a half is the median of the slopes between its samples.
* A series **grows** where the second half's slope is above 0 and not under {growth.FLATTENS:.0%} of the first half's,
  the second half rises by more than {growth.RISES:.0%} of the first half's median, and its highest sample is above
  the first half's highest. Else it is bounded. With fewer than {growth.LEAST} samples nothing is said.
* Series of a process (RSS, live heap, descriptors, threads) are judged on its longest life alone. Outputs, epochs and
  lag are shown, not judged.

## The run

{_made(results)}

| output | lost | doubled | strange |
|---|---:|---:|---:|
{_outputs(results)}

| audit | verdict | epochs | rows |
|---|---|---:|---:|
{_audits(results)}

![Soak](soak.svg)

{notes}

## Each series

Slopes are by the hour, behind the warm-up: of the first half and of the second.

{tables}
"""


def _made(results: dict[str, Any]) -> str:
    machine, versions = results["machine"], results["versions"]
    kills = " and ".join(f"{count} times ({job})" for job, count in results["kills"].items())
    run = (
        f"{results['hours']:g} hours from {results['begun']} to {results['ended']}, "
        f"{results['payments']:,} payments, {results['rate']:g} a second, seed {results['seed']}. "
        f"Drivers were killed {kills}."
    )
    on = (
        f"{machine['cores']} cores of {machine.get('processor', 'an unknown processor')}, "
        f"{machine.get('memory_gb', '?')} GB, Java {machine['java']}, Python {machine['python']}, "
        f"{', '.join(f'{name} {version}' for name, version in versions.items())}; "
        f"load before {results['load_before']}, after {results['load_after']}."
    )
    return f"{run}\n{on}"


def _outputs(results: dict[str, Any]) -> str:
    return "\n".join(
        f"| {name} | {each['lost']} | {each['doubled']} | {each['strange']} |"
        for name, each in results["outputs"].items()
    )


def _audits(results: dict[str, Any]) -> str:
    return "\n".join(
        f"| {name} | {'good' if each.get('good') else '**not good**'} | {each.get('epochs', 0):,} | "
        f"{each.get('rows', 0):,} |"
        for name, each in results["audits"].items()
    )


def _table(series: dict[str, Any]) -> str:
    head = "| series | verdict | first | last | highest | slope 1 | slope 2 |\n|---|---|---:|---:|---:|---:|---:|"
    return "\n".join([head, *(_row(name, each) for name, each in series.items())])


def _row(name: str, each: dict[str, Any]) -> str:
    says = "**grows**" if each["says"] == "grows" else each["says"]
    values = each["values"]
    numbers = [f"{value:,.0f}" for value in (values[0], values[-1], max(values))]
    numbers += [f"{slope:,.4g}" for slope in each["by_the_hour"]]
    return f"| {name} | {says} | {' | '.join(numbers)} |"


if __name__ == "__main__":
    sys.exit(main())
