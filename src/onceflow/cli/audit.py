"""``onceflow audit FILE``: is what consumers can see what the job has decided?

Must not know: how that is proven. It tells the auditor, which knows nothing of a job, where to look, in plain values.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceflow.checkpoint.forward_key import ForwardKey
from onceflow.cli.job_file import find_job
from onceflow.cli.open_checkpoint import begin_java, place_of
from onceflow.cli.output import OutputForm, OutputOption, tell_json
from onceflow.masking import in_one_line
from onceflow.options.auditing import ANCHOR, Auditing
from onceflow.storage.locations import is_elsewhere, local_path

if TYPE_CHECKING:
    from onceflow.audit.anchors import Place as Anchors
    from onceflow.audit.files import Files
    from onceflow.audit.findings import Findings
    from onceflow.audit.verify import Asked
    from onceflow.checkpoint.spark_files import StateBefore
    from onceflow.connectors.contract import Sink
    from onceflow.job import Job
    from onceflow.storage.store import Store


def audit(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The Python file that makes the Job.", show_default=False)
    ],
    job: Annotated[str | None, typer.Option("--job", help="The job's name, if FILE makes several.")] = None,
    epochs: Annotated[
        str | None, typer.Option(metavar="A..B", help="These epochs only; A.. and ..B are taken, too.")
    ] = None,
    shared: Annotated[
        bool, typer.Option("--shared", help="Others write to the same topics and tables: that is no difference.")
    ] = False,
    after: Annotated[
        str | None,
        typer.Option(metavar="NUMBER:HASH", help="The newest receipt that an earlier audit told: it must be there."),
    ] = None,
    recompute: Annotated[
        str | None, typer.Option(metavar="A..B", help="Run the plan again over what these epochs read.")
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option("--from", metavar="SAVEPOINT", help="The state to begin with; else the checkpoint's own."),
    ] = None,
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Prove from outside that what consumers can see is what was decided; end with 1 where it is not, or nothing was.

    It reads the receipts of the job's epochs and then topics and tables, beside a job that runs, too. docs/audit.md
    says what it proves, and what not.
    """
    from onceflow.audit.verify import Asked  # noqa: PLC0415 - it loads numpy
    from onceflow.audit.verify import audit as run  # noqa: PLC0415 - likewise

    if recompute is not None and epochs is not None:
        raise typer.BadParameter("--recompute names its epochs itself; leave --epochs away")
    if begin is not None and recompute is None:
        raise typer.BadParameter("--from names the state for --recompute", param_hint="--from")
    first, last = read_range(epochs if recompute is None else recompute)
    before = None if after is None else read_receipt(after)
    found = find_job(file, job)
    kept, place = Auditing.from_environment(), files_of(found)
    if recompute is None:
        sinks = [plain(sink) for sink in found.sinks if sink.participates]
        anchors = anchors_of(kept, sinks)
        findings = run(
            Asked(place, sinks, first, last, kept.key, kept.retention, before, anchors, found.name, forward_of(kept))
        )
    else:
        if begin is not None:
            begin_java(found, location=begin)
        findings = run_again(found, Asked(place, [], first, last, kept.key, kept.retention, before), begin)
    if output is OutputForm.JSON:
        tell_json(findings.report(shared=shared))
    else:
        for line in lines(findings, shared=shared):
            typer.echo(line)
    if not findings.is_good(shared=shared):
        raise typer.Exit(1)


def anchors_of(kept: Auditing, sinks: Sequence[Mapping[str, Any]]) -> Anchors | None:
    """Where the job anchors its receipts, in the auditor's words."""
    from onceflow.audit.anchors import InFile, InTopic  # noqa: PLC0415 - it loads numpy

    if kept.anchor_file is not None:
        return InFile(kept.anchor_file)
    if not kept.anchor_topic:
        return None
    connect = next((s["connect"] for s in sorted(sinks, key=lambda s: str(s["name"])) if s["kind"] == "kafka"), None)
    if connect is None:
        raise typer.BadParameter(f"{ANCHOR} names a topic, and no sink of the job writes to Kafka", param_hint=ANCHOR)
    return InTopic(kept.anchor_topic, connect)


def forward_of(kept: Auditing) -> tuple[int, bytes] | None:
    """Number and key of the first receipt that must be sealed."""
    if kept.forward_key_file is None:
        return None
    return ForwardKey.read(kept.forward_key_file).first


def files_of(job: Job) -> Path | Files:
    """A job's checkpoint for the auditor: its folder; on HDFS, which takes Java, and in S3, who reads there."""
    location = job.checkpointing.location
    return Elsewhere(place_of(job).checkpoint.store) if is_elsewhere(location) else local_path(location)


class Elsewhere:
    """A checkpoint that is on no disk, for the auditor: what it cannot reach by itself is read by its store.

    Args:
        store: The checkpoint's folder.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def __str__(self) -> str:
        """Where the checkpoint is."""
        return str(self._store.path())

    def names(self, folder: str) -> list[str]:
        """What is in a folder of the checkpoint."""
        return self._below(folder).names()

    def contents(self, folder: str, names: Sequence[str]) -> list[bytes | None]:
        """The contents of files in a folder."""
        return self._below(folder).contents(names)

    def _below(self, folder: str) -> Store:
        found = self._store
        for part in folder.split("/"):
            found = found.below(part)
        return found


def run_again(job: Job, asked: Asked, begin: str | None) -> Findings:
    """Compare what the plan gives when it is run again with what was decided, by the receipts of the epochs."""
    from onceflow.audit.findings import Findings  # noqa: PLC0415 - as above
    from onceflow.audit.verify import receipts_of  # noqa: PLC0415 - likewise

    findings = Findings()
    receipts = receipts_of(asked, findings)
    findings.epochs = len(receipts)
    if not receipts:
        return findings
    with state_before(job, receipts, begin, first=asked.first) as before:
        results = job.recompute(receipts, before)
    for each in results:
        if each.decided == each.now:
            findings.rows += each.now[0]
            continue
        told = (
            f"sink {each.sink}, epoch {each.epoch}: run again it gives {each.now[0]} rows with digest "
            f"{each.now[1]:016x}; decided were {each.decided[0]} with {each.decided[1]:016x}"
        )
        findings.add("changed", told, max(each.decided[0], each.now[0]), each.sink, each.epoch)
    return findings


def read_receipt(text: str) -> tuple[int, str]:
    """``NUMBER:HASH`` of a receipt."""
    number, _, hashed = text.partition(":")
    if not number.isdigit() or re.fullmatch("[0-9a-f]{64}", hashed) is None:
        raise typer.BadParameter(
            f"a receipt is NUMBER:HASH, with 64 hex digits, as an audit tells it, not {text!r}", param_hint="--after"
        )
    return int(number), hashed


@contextmanager
def state_before(
    job: Job, receipts: Sequence[Mapping[str, Any]], begin: str | None, *, first: int | None = None
) -> Iterator[StateBefore | None]:
    """The state that the first of these epochs began with, or an older one; None where the job keeps none.

    Args:
        job: Whose.
        receipts: Of the epochs; one at least.
        begin: A savepoint to begin with; None: what the checkpoint retains.
        first: An older epoch to begin with.
    """
    from onceflow.operations.savepoints.rerunning import lay_out  # noqa: PLC0415 - as above

    place, epochs = place_of(job), [receipt["epoch"] for receipt in receipts]
    if begin is None and not place.checkpoint.is_stateful():
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="onceflow-recompute-") as folder:
        path = Path(folder) / "checkpoint"
        path.mkdir()
        # An open end is where it can begin: nothing is known of what the checkpoint does not retain.
        first, key = min(epochs) if first is None else first, Auditing.from_environment().key
        yield lay_out(place, first, max(epochs), path, begin, key)


def read_range(text: str | None) -> tuple[int | None, int | None]:
    """``A..B`` as numbers; None for an open end."""
    if text is None:
        return None, None
    first, dots, last = text.partition("..")
    if not dots or not (first + last).isdigit() or not all(end == "" or end.isdigit() for end in (first, last)):
        raise typer.BadParameter(f"epochs are A..B, A.. or ..B, not {text!r}", param_hint="--epochs")
    return (int(first) if first else None), (int(last) if last else None)


def plain(sink: Sink) -> dict[str, Any]:
    """Where a sink writes, in values that the auditor understands; of a sink of one's own, its name.

    Of a Kafka sink ``cluster`` tells clusters and logins apart, and ``connect`` opens a connection.
    """
    kind = type(sink).__name__
    told: dict[str, Any] = {"name": sink.name, "kind": kind, "destination": sink.destination}
    known: Any = sink
    if kind == "KafkaSink":
        shown = json.dumps(known.cluster.description(), sort_keys=True)
        told |= {"kind": "kafka", "topic": known.topic, "cluster": shown, "connect": known.cluster.connection}
    elif kind == "DatabaseSink":
        told |= {
            "kind": "database",
            "url": known.url.render_as_string(hide_password=False),
            "schema": known.schema,
            "table": known.table,
            "table_schema": known.table_schema,
            "key": list(known.key),
        }
    elif kind == "IcebergSink":
        told |= {"kind": "iceberg", "catalog": known.catalog, "table": known.table, "properties": known.properties}
    elif kind == "DeltaSink":
        told |= {"kind": "delta", "path": known.path, "storage_options": dict(known.storage_options)}
    return told


def lines(findings: Findings, *, shared: bool) -> list[str]:
    """An audit for people."""
    report = findings.report(shared=shared)
    told = [in_one_line(f"{each.kind}: {each.what}") for each in findings.found]
    counted = ", ".join(f"{report[name]:,} {name}" for name in ("missing", "changed", "foreign", "unknown"))
    told.append(f"{report['epochs']:,} epochs, {report['rows']:,} rows as they were decided; {counted}")
    good = f"good against {report['against']}: what can be seen is what was decided"
    word = good if report["good"] else "NOT what was decided"
    if any(findings.of("nothing")):
        word = "NOTHING was compared"
    elif report["good"] and any(findings.of("unknown")):
        word = "no difference; not all could be looked at"
    if findings.head:
        told.append(f"the newest receipt is {findings.head}; kept elsewhere, it is the next audit's --after")
    return [*told, word]
