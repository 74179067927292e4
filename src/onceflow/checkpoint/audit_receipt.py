"""A decided epoch as the audit's receipt: what was read, by which plan, and what each sink got. Pure.

Must not know: Kafka, how receipts are chained and kept, what a participant's transaction says.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from onceflow.checkpoint.spark_files import positions
from onceflow.twophase.forms import OTHER_FORM
from onceflow.twophase.keyed import MASK, id_of, key_of_rows, masked, unmasked
from onceflow.twophase.layout import Layout, LayoutSource, folders
from onceflow.twophase.participants import Participant
from onceflow.twophase.records import (
    Decide,
    DecidedEpoch,
    LayoutRecord,
    Record,
    Replay,
    ReplayBegin,
    Resolve,
    Skip,
    Start,
)

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Finished:
    """A decided epoch, with all that the journal says of it.

    Attributes:
        job_id: Whose.
        incarnation: The start that decided it.
        epoch: As replays and an operator's choices left it.
        first: The slot of its first record.
        last: Of its last.
        choices: An operator's, in order: Resolve and Skip.
        layout: What stood at Spark's positions.
        about: What the start that made its rows said of code, settings and sinks; JSON text.
    """

    job_id: str
    incarnation: int
    epoch: DecidedEpoch
    first: int
    last: int
    choices: tuple[Resolve | Skip, ...] = ()
    layout: Layout = field(default_factory=Layout)
    about: str = ""


def finished(records: Mapping[int, Record], after: int) -> Iterator[Finished]:
    """The decided epochs among the journal's records whose decision stands behind a slot, oldest first.

    Args:
        records: By slot.
        after: The last slot that has its receipt.
    """
    job_id, layout = "", Layout()
    early: list[tuple[int, Resolve | Skip]] = []  # what was said of an epoch before its decision
    now: Finished | None = None
    for slot in sorted(records):
        record = records[slot]
        match record:
            case Start():
                job_id = record.job_id
            case LayoutRecord():
                layout = record.layout
            case Decide():
                if now is not None and now.first > after:
                    yield now
                decided = DecidedEpoch(record.epoch, record.offsets, record.sinks, record.participants)
                said = [(at, each) for at, each in early if each.epoch == record.epoch]
                first = min([slot, *(at for at, _ in said)])
                choices = tuple(each for _, each in said)
                now = Finished(job_id, record.incarnation, decided, first, slot, choices, layout, record.about)
                early = []
            case Resolve() | Skip() if now is None or record.epoch > now.epoch.epoch:
                early.append((slot, record))
            case Resolve() | Skip() | Replay() | ReplayBegin() if now is not None:
                now = _and(now, slot, record)
    if now is not None and now.first > after:
        yield now


def _and(of: Finished, slot: int, record: Resolve | Skip | Replay | ReplayBegin) -> Finished:
    epoch, choices, about = of.epoch, of.choices, of.about
    match record:
        case ReplayBegin():
            epoch = replace(epoch, replays=record.replay)
        case Replay():
            epoch = epoch.replaced_by(record)
            mixed = bool(record.kept) and _rules(about) != _rules(record.about)
            # Rows of two makings: of neither all digests could be made again.
            about = json.dumps({**json.loads(record.about), "sinks": {}}) if mixed and record.about else record.about
        case Resolve():
            epoch, choices = epoch.resolved_by(record), (*choices, record)
        case Skip():
            epoch, choices = epoch.skipped_by(record), (*choices, record)
    return replace(of, epoch=epoch, last=slot, choices=choices, about=about)


def _rules(about: str) -> Any:
    return json.loads(about)["sinks"] if about else {}


def receipt(
    of: Finished,
    before: Mapping[str, Any] | None,
    begins: Callable[[int], str] | None,
    at: str,
    key: bytes | None = None,
) -> dict[str, Any]:
    """The receipt of an epoch, without its hash.

    Args:
        of: The epoch.
        before: The receipt before it, or None.
        begins: Where Spark has a source begin before its first epoch, by the source's number; None where the journal
            has forgotten what came before, so that nobody knows where this epoch's range begins.
        at: Now.
        key: The audit's; None: it has no keyed digests.
    """
    keyed = None if key is None else _Keyed(key_of_rows(key, of.job_id), of.epoch)
    told = json.loads(of.about) if of.about else {}
    decided = of.epoch
    return {
        "format": FORMAT,
        "number": 1 if before is None else before["number"] + 1,
        "before": "" if before is None else before["hash"],
        "before_at": "" if before is None else before["at"],
        "at": at,
        "job": of.job_id,
        "name": told.get("name", ""),
        "version": told.get("version", ""),
        "code": told.get("code", ""),
        "settings": told.get("settings", ""),
        "epoch": decided.epoch,
        "incarnation": of.incarnation,
        "places": [of.first, of.last],
        "planned": _planned(decided.offsets),
        "sources": _sources(of, before, begins),
        "sinks": _sinks(decided, told.get("sinks", {}), {} if before is None else before["sinks"], keyed),
        "participants": [_participant(p, keyed) for p in sorted(decided.effective, key=lambda p: p.id)],
        "replays": decided.replays,
        "choices": [_choice(choice) for choice in of.choices],
    }


def _planned(offsets: str) -> dict[str, Any]:
    """Of Spark's plan of the epoch: its hash, and what a run again needs beside the ranges."""
    lines = offsets.splitlines()
    told: Any = {}
    with contextlib.suppress(*OTHER_FORM):  # Spark refuses it
        told = dict(json.loads(lines[1]))
    return {
        "sha256": hashlib.sha256(offsets.encode()).hexdigest(),
        "time_ms": told.get("batchTimestampMs"),
        "watermark_ms": told.get("batchWatermarkMs"),
    }


def _sources(
    of: Finished, before: Mapping[str, Any] | None, begins: Callable[[int], str] | None
) -> list[dict[str, Any]]:
    """What was read, position by position: from where the receipt before it ended."""
    # Epochs between the two gave no rows, and what they read is this one's: so nothing lies between two receipts.
    ends = positions(of.epoch.offsets)
    moved = next((c.before for c in reversed(of.choices) if isinstance(c, Skip)), "")
    if moved:
        starts: Sequence[str | None] = positions(moved)
    elif before is not None:
        starts = [source["end"] for source in before["sources"]]
    elif begins is not None:
        starts = [begins(number) or None for number in folders(of.layout.sources)]
    else:
        starts = [None] * len(ends)
    known = [*of.layout.sources, *(LayoutSource((), "", "", "") for _ in ends)]
    return [_source(known[i], starts[i] if i < len(starts) else None, end) for i, end in enumerate(ends)]


def _source(source: LayoutSource, start: str | None, end: str) -> dict[str, Any]:
    to, ids = _counters(end), {topic.name: topic.id for topic in source.topics}
    since = None if start is None else _counters(start)
    ranges = [
        # A partition that is new to a source is read from its first record.
        [topic, ids.get(topic, ""), number, None if since is None else since.get((topic, number), 0), at]
        for (topic, number), at in sorted(to.items())
    ]
    return {
        "outputs": list(source.outputs),
        "cluster": source.system,
        "reads": source.reads,
        "ranges": ranges,
        "start": start,
        "end": end,
    }


def _counters(position: str) -> dict[tuple[str, int], int]:
    try:
        nested = json.loads(position)
        return {(name, int(number)): int(at) for name, of in nested.items() for number, at in of.items()}
    except OTHER_FORM:
        return {}  # a source that is not Kafka's; its position stands in start and end


def _sinks(
    decided: DecidedEpoch, told: Mapping[str, Any], before: Mapping[str, Any], keyed: _Keyed | None
) -> dict[str, Any]:
    """Each sink's rows and digest, and how the digest is made."""
    totals = {} if keyed is None else {name: keyed.total(name, before.get(name, {})) for name in decided.sinks}
    rows = dict.fromkeys(decided.sinks, 0)
    digests = dict.fromkeys(decided.sinks, 0)
    for p in decided.effective:
        rows[p.sink] = rows.get(p.sink, 0) + p.rows
        digests[p.sink] = (digests.get(p.sink, 0) + p.digest) & ((1 << 64) - 1)
    return {
        name: {"rows": rows[name], "digest": _hex(digests[name]), **totals.get(name, {}), **told.get(name, {})}
        for name in sorted(rows)
    }


class _Keyed:
    """The keyed digests of an epoch, read of its parts once.

    Args:
        key: Of the job's rows.
        decided: The epoch.
    """

    def __init__(self, key: bytes, decided: DecidedEpoch) -> None:
        self._key = key
        self._decided = decided
        self._sums = {p.id: self._sum(p) for p in decided.effective}

    def _sum(self, p: Participant) -> int | None:
        try:
            return sum(unmasked(self._key, part.keyed) for part in p.parts) & MASK
        except ValueError:  # some part has none
            return None

    def of(self, p: Participant) -> dict[str, Any]:
        """Of a participant; nothing where some part has none."""
        found = self._sums[p.id]
        return {} if found is None else {"keyed": masked(self._key, found)}

    def total(self, name: str, before: Mapping[str, Any]) -> dict[str, Any]:
        """Rows and keyed digest of all that a sink got under this key: a table is compared as a whole.

        Behind rows without one the count begins anew, and so it does under another key.
        """
        gone = self._decided.given_up | self._decided.forgotten
        mine = [p for p in self._decided.effective if p.sink == name and p.id not in gone]
        made = [found for p in mine if (found := self._sums[p.id]) is not None]
        if len(made) < len(mine):
            return {}
        rows, total = self._until(before)
        total = (total + sum(made)) & MASK
        return {"total": [rows + sum(p.rows for p in mine), masked(self._key, total), id_of(self._key)]}

    def _until(self, before: Mapping[str, Any]) -> tuple[int, int]:
        """Rows and digest that the receipt before tells; none where it has no such thing: anybody may have made it."""
        try:
            rows, kept, of = before["total"]
            return (int(rows), unmasked(self._key, kept)) if of == id_of(self._key) else (0, 0)
        except OTHER_FORM:
            return (0, 0)


def _participant(p: Participant, keyed: _Keyed | None) -> dict[str, Any]:
    return {
        "sink": p.sink,
        "handle": p.handle,
        "rows": p.rows,
        "digest": _hex(p.digest),
        **({} if keyed is None else keyed.of(p)),
        "parts": [[part.number, part.rows, _hex(part.digest), part.origin] for part in p.parts],
        "transaction": dict(p.transaction),
    }


def _choice(choice: Resolve | Skip) -> dict[str, Any]:
    if isinstance(choice, Skip):
        return {"choice": "skip", "participants": [], "who": "", "why": "", "epoch": choice.epoch}
    named = [list(who) for who in choice.participants]
    return {"choice": choice.choice, "participants": named, "who": choice.who, "why": choice.why, "epoch": choice.epoch}


def _hex(digest: int) -> str:
    return f"{digest:016x}"  # JSON's numbers end at 2**53 elsewhere
