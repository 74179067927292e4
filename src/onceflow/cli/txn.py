"""``onceflow txn list|describe|abort|resolve|write-again FILE``: a job's transactions, for whoever looks after it.

Must not know: what may be aborted or chosen, or how. It asks before anything is done.
"""

from __future__ import annotations

import dataclasses
import getpass
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceflow.cli.audit import files_of, state_before
from onceflow.cli.help import PLAIN, Group
from onceflow.cli.job_file import find_job
from onceflow.cli.open_checkpoint import begin_java
from onceflow.cli.output import OutputForm, OutputOption, tell_json
from onceflow.connectors.inspection import Held, Origin, Phase, PlaceInSystem, Seen
from onceflow.errors import ConfigurationError
from onceflow.spark.locations import place_at
from onceflow.twophase.messages import Outcome
from onceflow.twophase.participants import ParticipantId
from onceflow.twophase.records import Choice

if TYPE_CHECKING:
    from onceflow.checkpoint.spark_files import StateBefore
    from onceflow.job import Job
    from onceflow.operations.transactions.access import Operator
    from onceflow.operations.transactions.inventory import Account, Inventory, OwnTransaction
    from onceflow.operations.transactions.resolution import KnownParticipant, UndoneEpoch

app = typer.Typer(
    help="A job's transactions: look at them, abort what lingers, and decide what the job could not.",
    cls=Group,
    **PLAIN,
)

FENCE = "A start will be appended: a job that runs on this checkpoint ends."

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="The Python file that makes the Job.", show_default=False)
]
JobOption = Annotated[str | None, typer.Option("--job", help="The job's name, if FILE makes several.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@app.command("list")
def list_(file: FileArgument, job: JobOption = None, output: OutputOption = OutputForm.TEXT) -> None:
    """List the job's transactions that are open or decided, and foreign ones that keep readers of its topics waiting.

    docs/transactions.md says what the words mean, docs/protocol.md has all of them.
    """
    from onceflow.operations.transactions.inventory import take_inventory  # noqa: PLC0415 - it loads Spark

    with _operator(file, job) as operator:
        found = take_inventory(operator)
    if output is OutputForm.JSON:
        tell_json(_inventory_json(found))
        return
    for line in _inventory_lines(found):
        typer.echo(line)


@app.command()
def describe(
    file: FileArgument,
    transactional_id: Annotated[str, typer.Argument(metavar="ID", help="As `txn list` shows it.")],
    job: JobOption = None,
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Tell everything known of one transactional id: coordinator, journal, and what the log proves."""
    from onceflow.operations.transactions.inventory import describe_transaction  # noqa: PLC0415 - it loads Spark

    with _operator(file, job) as operator:
        found = describe_transaction(operator, transactional_id)
    if output is OutputForm.JSON:
        tell_json(_account_json(found))
        return
    typer.echo(found.transactional_id)
    if found.ours is None:
        typer.echo("  not of this job: it is never touched")
    else:
        ours = found.ours
        shard = "" if ours.shard is None else f"  shard {ours.shard}"
        typer.echo(f"  sink {ours.sink}{shard}  incarnation {ours.incarnation}  {ours.epoch}")
    if found.now is None:
        typer.echo("  its coordinator does not know it")
    else:
        standing = "" if found.standing is None else f", {found.standing}"
        typer.echo(f"  now {found.now.state}{standing}, {found.now.writer}")
        timeout = "" if found.now.timeout_s is None else f"time-out {found.now.timeout_s:g} s, "
        typer.echo(f"  {timeout}{_age(found.now)}")
        typer.echo(f"  partitions {_places(found.now.places)}")
    for mention in found.mentions:
        typer.echo(
            f"  journal slot {mention.slot}: {mention.kind} of epoch {mention.epoch} by incarnation "
            f"{mention.incarnation}, {mention.rows} rows"
        )
    if found.evidence is not None:
        typer.echo(f"  outcome {found.evidence.outcome.value}: {found.evidence.why}; last record {found.witness}")
    for line in _hold_lines(found.holds):
        typer.echo(line)


@app.command("abort")
def abort_(
    file: FileArgument,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="As `txn list` shows them.")] = None,
    all_lingering: Annotated[bool, typer.Option("--all-lingering", help="All that linger.")] = False,
    claim: Annotated[
        bool,
        typer.Option(
            "--claim", help="Also those of the newest start: take over from it first; a job that runs will end."
        ),
    ] = False,
    yes: YesOption = False,
    job: JobOption = None,
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Abort lingering transactions of the job. What is decided is refused: starting the job commits it."""
    from onceflow.operations.transactions.aborting import AbortReport, abort, doomed  # noqa: PLC0415 - it loads Spark

    if bool(ids) == all_lingering:
        raise typer.BadParameter("name transactions, or give --all-lingering")
    named = ids or None
    with _operator(file, job) as operator:
        chosen = doomed(operator, named, claim=claim)
        if chosen or claim:
            told = [f"  {line}" for t in chosen for line in _own_lines(t)]
            if claim:
                told.insert(0, FENCE)
            _ask([*told, f"{len(chosen)} transactions will be aborted."], yes)
            report = abort(operator, named, claim=claim)
        else:
            report = AbortReport(None, (), ())
    if output is OutputForm.JSON:
        left = [_own_json(t) | {"error": why} for t, why in report.still_open]
        tell_json({"started": report.started, "aborted": [_own_json(t) for t in report.aborted], "still_open": left})
    else:
        typer.echo(f"aborted {len(report.aborted)} transactions")
        for t, why in report.still_open:
            typer.echo(f"still {t.seen.state}: {t.seen.id} ({why})")
    if report.still_open:
        raise typer.Exit(1)


@app.command("resolve")
def resolve_(
    file: FileArgument,
    epoch: Annotated[int | None, typer.Argument(metavar="[EPOCH]", help="The epoch that stopped the job.")] = None,
    choice: Annotated[
        Choice | None,
        typer.Option(help="What shall count in the place of the missing evidence."),
    ] = None,
    participant: Annotated[
        list[str] | None,
        typer.Option(metavar="SINK:HANDLE", help="Only this one of the unknown ones, as shown here; may be repeated."),
    ] = None,
    why: Annotated[str, typer.Option(help="The reason; kept in the journal.")] = "",
    who: Annotated[str | None, typer.Option(help="Who chose; user@host by default.", show_default=False)] = None,
    yes: YesOption = False,
    job: JobOption = None,
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Show what is known of an epoch that stopped the job; with --choice, record what shall count."""
    from onceflow.operations.transactions.resolution import meant, resolve, undone_epoch  # noqa: PLC0415 - it loads Spark

    if choice is not None and (epoch is None or not why.strip()):
        raise typer.BadParameter("a choice needs the EPOCH and --why")
    with _operator(file, job, partial=True) as operator:
        found = undone_epoch(operator, epoch)
        if choice is None or found is None:
            _tell_epoch(found, output)
            return
        named = None if participant is None else [_participant(text) for text in participant]
        about = meant(found, choice, named)
        told = f"{choice} for {_names(about) or 'the whole'} of epoch {found.epoch}"
        _ask(
            [*_epoch_lines(found), *_cost_lines(found, choice, about), FENCE, f"Then is recorded, for good: {told}."],
            yes,
        )
        record = resolve(operator, found.epoch, choice, of=about or None, who=who or _me(), why=why)
    if output is OutputForm.JSON:
        tell_json({"recorded": dataclasses.asdict(record)})
    else:
        typer.echo(f"recorded: {told}; now start the job")


@app.command("write-again")
def write_again_(
    file: FileArgument,
    yes: YesOption = False,
    job: JobOption = None,
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Write again what a sink's database or table has lost since it was put back to an older state, into it alone.

    Each lost epoch is run again over what it has read, first without writing: rows that are not those that were decided
    end it. It takes Java's and Spark's start.
    """
    from onceflow.audit.findings import Findings  # noqa: PLC0415 - it loads numpy
    from onceflow.audit.verify import Asked, receipts_of  # noqa: PLC0415 - likewise
    from onceflow.operations.transactions import writing_again  # noqa: PLC0415 - it loads Spark

    found = find_job(file, job)
    with _operator(file, job) as operator:
        lost = writing_again.lost_rows(operator)
        for sink, of in lost.items():
            typer.echo(f"sink {sink} has lost epoch {of.epochs[-1].epoch} to {of.newest.epoch}: {of.words}", err=True)
        written: list[int] = []
        if lost:
            known = [*receipts_of(Asked(files_of(found), []), Findings()), *writing_again.waiting_receipts(operator)]
            receipts = writing_again.receipts_for(operator, lost, known)
            with _state_before(found, receipts, lost) as before:
                writing_again.require_same(lost, found.recompute(receipts, before))
            _ask(["Run again, they give what was decided. They are written again, into these sinks alone.", FENCE], yes)
            again = writing_again.begin(operator, lost)
            with _state_before(found, receipts, lost) as before:
                for epoch in found.write_again(receipts, again, before):
                    typer.echo(f"epoch {epoch} is there again", err=True)
                    written.append(epoch)
    if output is OutputForm.JSON:
        each = {sink: [_json(epoch) for epoch in reversed(of.epochs)] for sink, of in lost.items()}
        tell_json({"lost": each, "written": written})
    else:
        typer.echo(f"written again: {len(written)} epochs" if lost else "no sink has lost anything")


@contextmanager
def _state_before(
    job: Job, receipts: Sequence[Mapping[str, Any]], lost: Mapping[str, Any]
) -> Iterator[StateBefore | None]:
    """The state that the first of these epochs began with; None where the job keeps none."""
    from onceflow.operations.transactions.writing_again import without_state  # noqa: PLC0415 - it loads Spark

    with ExitStack() as stack:
        try:
            before = stack.enter_context(state_before(job, receipts, None))
        except ConfigurationError as error:
            raise without_state(lost, error) from None
        yield before


@contextmanager
def _operator(file: Path, job: str | None, *, partial: bool = False) -> Iterator[Operator]:
    from onceflow.operations.transactions.access import Operator  # noqa: PLC0415 - it loads Spark

    found = find_job(file, job)
    about = (found.checkpointing, found.transactional_id_prefix, found.sinks, found.name)
    begin_java(found)
    with Operator(*about, partial=partial, opened=place_at) as operator:
        yield operator


def _ask(lines: Iterable[str], yes: bool) -> None:
    """Show on standard error what will be done, and go on only when the person says so."""
    for line in lines:
        typer.echo(line, err=True)
    if not yes and not sys.stdin.isatty():
        raise typer.BadParameter("nothing was done: there is no terminal to ask at", param_hint="--yes")
    if not yes:
        typer.confirm("Go on?", abort=True, err=True)


def _participant(text: str) -> ParticipantId:
    sink, _, handle = text.partition(":")  # a sink's name holds no colon
    if not sink or not handle:
        raise typer.BadParameter(f"--participant is SINK:HANDLE, as `onceflow txn resolve` shows it, not {text!r}")
    return ParticipantId((sink, handle))


def _me() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


# -- lines and JSON -------------------------------------------------------------------------------


def _inventory_lines(found: Inventory) -> Iterator[str]:
    undone = "" if found.undone_epoch is None else f"; epoch {found.undone_epoch} is decided and not done"
    yield f"job {found.name} ({found.job_id}), incarnation {found.incarnation}{undone}"
    yield f"ours, open or of the epoch that is decided and not done: {len(found.ours)}"
    for own in found.ours:
        yield from (f"  {line}" for line in _own_lines(own))
    yield f"foreign, in the way of readers: {len(found.foreign)}"
    for other in found.foreign:
        name = other.id or "a producer that no coordinator names"
        yield f"  {name}  {other.state}  {_age(other)}  {other.writer}"
        yield from _hold_lines(other.holds)
    for sentence in found.unseen:
        yield f"not looked at: {sentence}"


def _own_lines(own: OwnTransaction) -> Iterator[str]:
    seen, origin = own.seen, own.origin
    epoch = origin.epoch if own.epoch is None else f"epoch {own.epoch}"
    shard = "" if origin.shard is None else f"shard {origin.shard}  "
    yield (
        f"{seen.id}  {seen.state}  {own.standing}  {epoch}  incarnation {origin.incarnation}  sink {origin.sink}  "
        f"{shard}{_age(seen)}"
    )
    if own.is_lost:
        yield "    aborted: it expired, or somebody ended it; the job writes its rows again when it is started"
    yield from _hold_lines(seen.holds)


def _hold_lines(holds: Iterable[Held]) -> Iterator[str]:
    for held in holds:
        yield f"    holds {held.place} {held.words}"


def _tell_epoch(found: UndoneEpoch | None, output: OutputForm) -> None:
    if output is OutputForm.JSON:
        each = [] if found is None else [_json(p) | {"evidence": _json(p.evidence)} for p in found.participants]
        tell_json({"undone": None if found is None else _json(found) | {"participants": each}})
        return
    for line in ["nothing is undone"] if found is None else _epoch_lines(found):
        typer.echo(line)


def _cost_lines(found: UndoneEpoch, choice: Choice, about: Sequence[ParticipantId]) -> Iterator[str]:
    """What a choice may cost, in numbers."""
    if choice == "give-up-rows":
        records = sum(each.end - each.start for each in found.lost if not each.remade)
        remade = sorted({each.partition.name for each in found.lost if each.remade})
        rows = sum(p.rows for p in found.participants if p.id in about)
        yield f"{rows} rows of this epoch are given up: no sink will ever have them."
        for topic in remade:
            yield (
                f"Topic {topic} was deleted and made again: all that the old one held behind the job's position is "
                "lost, and nobody can say how many records that was."
            )
        if records or not remade:
            yield f"At most {records} records of the source were lost unread, or are not counted in any state."
        for sentence in found.unseen:
            yield f"Not looked at, so there may be more: {sentence}."
    if choice in ("count-as-written", "write-again"):
        for sink, rows in _rows_by_sink(p for p in found.participants if p.id in about).items():
            yield (
                f"{rows} rows of sink {sink} count as written: those that are not there never will be."
                if choice == "count-as-written"
                else f"{rows} rows of sink {sink} are written again: those that are there come twice."
            )
    if choice == "write-again" and (found.lost or found.loss_accepted):
        again = sum(p.rows for p in found.participants if p.id in about)
        still_open = sum(p.rows for p in found.participants if p.evidence.outcome is Outcome.OPEN)
        yield (
            f"The source has lost records that the job needs: up to {again + still_open} rows may not come again, and "
            f"no sink will ever have them. {still_open} of them are in open transactions, which are aborted for it; "
            "with count-as-written those are committed."
        )
    if choice == "accept-state":
        if all(p.outcome is not Outcome.ABORTED for p in found.participants):
            yield "The output stands as it is; the state goes on from a run with other rows than it shows."
        elif found.rows_untold:
            yield (
                f"Of {found.rows_untold} rows that are visible nobody knows what was read for them: up to so many "
                "inputs may be lost, and up to so many doubled."
            )
        else:
            yield "What the visible rows were made of is known: every other input is written once. None is lost."


def _epoch_lines(found: UndoneEpoch) -> Iterator[str]:
    if not found.decided:
        yield f"epoch {found.epoch} comes next; it is not decided; incarnation {found.incarnation}"
        yield from _lost_lines(found)
        return
    replaying = ", is being written again" if found.replaying else ""
    state = "stateful" if found.stateful else "stateless"
    accepted = " (its state is accepted)" if found.state_accepted else ""
    yield f"epoch {found.epoch} is decided and not done{replaying}; {state}{accepted}; incarnation {found.incarnation}"
    for each in found.sources:
        yield f"  reads {each.partition} from {each.start} to {each.end - 1}"
    yield from _lost_lines(found)
    yield from _visible_lines(found)
    for p in found.participants:
        chosen = f"; chosen: {p.choice}" if p.choice is not None else ""
        yield f"  {':'.join(p.id)}  {p.rows} rows in {_places(p.partitions)}, last {p.witness}"
        passing = ", may still become known" if p.evidence.passing else ""
        yield f"    {p.evidence.outcome.value}{passing}: {p.evidence.why}{chosen}"


_SAID = {
    Outcome.COMMITTED: "visible",
    Outcome.OPEN: "prepared",
    Outcome.ABORTED: "lost",
    Outcome.UNKNOWN: "untold",
}


def _visible_lines(found: UndoneEpoch) -> Iterator[str]:
    """What is visible where, in numbers."""
    for sink, rows in _rows_by_sink(found.participants).items():
        mine = [p for p in found.participants if p.id[0] == sink]
        by = {said: sum(p.rows for p in mine if p.evidence.outcome is outcome) for outcome, said in _SAID.items()}
        yield f"  sink {sink}: of {rows} rows " + ", ".join(f"{n} {said}" for said, n in by.items() if n)


def _rows_by_sink(participants: Iterable[KnownParticipant]) -> dict[str, int]:
    rows: dict[str, int] = {}
    for p in participants:
        rows[p.id[0]] = rows.get(p.id[0], 0) + p.rows
    return rows


def _lost_lines(found: UndoneEpoch) -> Iterator[str]:
    for each in found.lost:
        why = " (the topic was made again)" if each.remade else ""
        yield f"  the source has lost {each.partition} from {each.start} to before {each.end}{why}"
    for sentence in found.unseen:
        yield f"  not looked at: {sentence}"


def _inventory_json(found: Inventory) -> dict[str, Any]:
    ours, foreign = [_own_json(t) for t in found.ours], [_foreign_json(t) for t in found.foreign]
    return {
        "job": found.name,
        "job_id": found.job_id,
        "incarnation": found.incarnation,
        "undone_epoch": found.undone_epoch,
        "ours": ours,
        "foreign": foreign,
        "unseen": list(found.unseen),
    }


def _own_json(own: OwnTransaction) -> dict[str, Any]:
    seen = own.seen
    return {
        "transactional_id": seen.id,
        "handle": seen.handle,
        "state": seen.state,
        "standing": own.standing.value,
        "name": _origin_json(own.origin),
        "epoch": own.epoch,
        "outcome": None if own.evidence is None else own.evidence.outcome.value,
        "age_s": seen.age_s,
        "partitions": _plain(seen.places),
        "holds": _holds_json(seen.holds),
        "cluster_id": own.system.id,
    } | _json_of(seen.details)


def _foreign_json(seen: Seen) -> dict[str, Any]:
    told = {"transactional_id": seen.id or None} | _json_of(seen.details)
    return told | {"state": seen.state, "age_s": seen.age_s, "holds": _holds_json(seen.holds)}


def _account_json(found: Account) -> dict[str, Any]:
    now = found.now
    return _json(found) | {
        "ours": None if found.ours is None else _origin_json(found.ours),
        "now": None
        if now is None
        else {"state": now.state, "handle": now.handle, "partitions": _plain(now.places)} | _json_of(now.details),
        "age_s": found.age_s,
        "holds": _holds_json(found.holds),
    }


def _origin_json(origin: Origin) -> dict[str, Any]:
    told = {"sink": origin.sink, "incarnation": origin.incarnation, "shard": origin.shard}
    return told | _json_of(origin.details)


def _holds_json(holds: Iterable[Held]) -> list[dict[str, Any]]:
    return [_json_of(held.details) or {"place": str(held.place), "words": held.words} for held in holds]


def _json(value: Any) -> dict[str, Any]:
    """A dataclass as JSON values."""
    return {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value)}


def _json_of(told: Mapping[str, Any]) -> dict[str, Any]:
    """What a system tells as JSON values."""
    return {key: _plain(each) for key, each in told.items()}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return _json(value)
    if isinstance(value, Mapping):
        return _json_of(value)
    if isinstance(value, frozenset):
        return sorted(_plain(each) for each in value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return getattr(value, "value", value)


def _age(seen: Seen) -> str:
    if seen.age_s is not None:
        return f"open for {seen.age_s:.0f} s"
    return "not open" if seen.phase is Phase.OVER else "open"


def _places(places: Iterable[PlaceInSystem]) -> str:
    return ", ".join(map(str, sorted(places, key=lambda place: (place.name, place.number or 0)))) or "none"


def _names(of: Iterable[ParticipantId]) -> str:
    return ", ".join(map(":".join, of))
