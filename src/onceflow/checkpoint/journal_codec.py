"""A record of the journal as the bytes of its file, and back.

Must not know: what a record means, who may append it, where it is kept. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from onceflow.storage import envelope
from onceflow.twophase.layout import Cut, Kept, Layout, LayoutSource, StateOperator, Topic, Watermark
from onceflow.twophase.participants import Participant, ParticipantId
from onceflow.twophase.records import (
    Claim,
    Decide,
    LayoutRecord,
    Newest,
    Record,
    Recut,
    Replay,
    ReplayBegin,
    Resolve,
    Skip,
    Start,
    Void,
)

FORMAT = 3
"""3: participants by handle, with their parts. Format 2 knew one transaction for each task, by the task's number, and
format 1 lacks what a start compares: checkpoints of both are refused."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A record in its slot.

    Attributes:
        slot: The number in the file's name; grows by one.
        nonce: Random, made by the writer: tells who wrote the file.
        kept_from: From this slot on no record may be missing; older ones but starts may have been purged.
        record: The record.
    """

    slot: int
    nonce: str
    kept_from: int
    record: Record


def encode(entry: JournalEntry) -> bytes:
    """An entry as the bytes of its file."""
    return envelope.seal(
        {
            "format": FORMAT,
            "place": entry.slot,
            "nonce": entry.nonce,
            "kept_from": entry.kept_from,
            "kind": _KINDS[type(entry.record)],
            "record": _record_to_json(entry.record),
        }
    )


def decode(data: bytes, slot: int) -> JournalEntry:
    """The entry in a file's bytes.

    Raises:
        OTHER_FORM: The file is torn, or was changed, or stands in another slot (a ValueError).
    """
    body = envelope.unseal(data, FORMAT)
    if body["place"] != slot:
        raise ValueError(f"it was written as slot {body['place']}")
    return JournalEntry(slot, str(body["nonce"]), int(body["kept_from"]), _READERS[body["kind"]](body["record"]))


_KINDS: dict[type, str] = {
    Start: "start",
    LayoutRecord: "layout",
    Recut: "recut",
    Skip: "skip",
    Decide: "decide",
    Void: "void",
    ReplayBegin: "replay-begin",
    Replay: "replay",
    Resolve: "resolve",
}


def _record_to_json(record: Record) -> dict[str, Any]:
    match record:
        case Start(incarnation, job_id, claim, systems, left):
            told: dict[str, Any] = {"incarnation": incarnation, "job_id": job_id}
            told |= {"systems": dict(systems)} if systems else {}
            told |= {"left": _newest_to_json(left)} if left else {}
            return told if claim is None else told | _claim_to_json(claim)
        case LayoutRecord(incarnation, layout):
            return {"incarnation": incarnation, "layout": asdict(layout)}
        case Recut(incarnation, epoch, limit):
            return {"incarnation": incarnation, "epoch": epoch, "limit": limit}
        case Skip(incarnation, epoch, before, offsets):
            return {"incarnation": incarnation, "epoch": epoch, "before": before, "offsets": offsets}
        case Void(incarnation, epoch):
            return {"incarnation": incarnation, "epoch": epoch}
        case ReplayBegin(incarnation, epoch, replay):
            return {"incarnation": incarnation, "epoch": epoch, "replay": replay}
        case Decide(incarnation, epoch, offsets, sinks, participants, took_ms, about, newest):
            return {
                "incarnation": incarnation,
                "epoch": epoch,
                "offsets": offsets,
                "sinks": list(sinks),
                "participants": [p.to_json() for p in participants],
                "took_ms": took_ms,
                "about": about,
                "newest": _newest_to_json(newest),
            }
        case Replay(incarnation, epoch, replay, scope, participants, kept, about):
            return {
                "incarnation": incarnation,
                "epoch": epoch,
                "replay": replay,
                "scope": scope,
                "participants": [p.to_json() for p in participants],
                "kept": [list(p) for p in kept],
                "about": about,
            }
        case Resolve(incarnation, epoch, choice, chosen, who, why):
            named = [list(p) for p in chosen]
            return {
                "incarnation": incarnation,
                "epoch": epoch,
                "choice": choice,
                "participants": named,
                "who": who,
                "why": why,
            }


def _participants(value: Any) -> tuple[Participant, ...]:
    return tuple(Participant.from_json(v) for v in value)


def _ids(value: Any) -> tuple[ParticipantId, ...]:
    return tuple(ParticipantId((str(sink), str(handle))) for sink, handle in value)


def _layout(value: Any) -> Layout:
    return Layout(
        tuple(
            LayoutSource(
                _texts(v["outputs"]),
                str(v["system"]),
                str(v["reads"]),
                str(v["path"]),
                tuple(Topic(str(t["name"]), str(t["id"]), int(t["partitions"])) for t in v["topics"]),
                int(v["same_as"]),
            )
            for v in value["sources"]
        ),
        tuple(StateOperator(_texts(v["outputs"]), str(v["shape"]), str(v["path"])) for v in value["states"]),
        _kept_states(value.get("kept")),  # of before it was written down
        str(value.get("vocabulary", "")),
        _mark(value.get("mark")),
        _cut(value.get("cut")),
        _cut(value.get("read")),
    )


def _mark(value: Any) -> Watermark | None:
    return None if value is None else Watermark(int(value["delay_ms"]), _texts(value["rows"]))


def _cut(value: Any) -> Cut | None:
    return None if value is None else Cut(int(value["at_ms"]), _texts(value["rows"]))


def _kept_states(value: Any) -> tuple[Kept, ...] | None:
    if value is None:
        return None
    return tuple(
        Kept(
            _texts(v["outputs"]),
            str(v["operator"]),
            None if v["columns"] is None else _texts(v["columns"]),
            _texts(v["names"]),
            _texts(v.get("narrowed", ())),
            tuple((str(name), str(means)) for name, means in v.get("given", ())),
        )
        for v in value
    )


def _claim_to_json(claim: Claim) -> dict[str, Any]:
    return {"claimed": True, "given_up": list(claim.given_up), "known": _newest_to_json(claim.known)}


def _newest_to_json(newest: Iterable[Newest]) -> list[list[Any]]:
    return [[n.sink, n.handle, n.incarnation, n.epoch, n.rows] for n in newest]


def _newest(value: Any) -> tuple[Newest, ...]:
    return tuple(Newest(str(s), str(h), int(i), int(e), int(rows)) for s, h, i, e, rows in value)


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(v) for v in value)


def _about(value: Mapping[str, Any]) -> str:
    """What a start said of itself, which receipts read as JSON: an object with one for each sink; "" of older ones."""
    about = str(value.get("about", ""))
    if about and not all(isinstance(of, dict) for of in json.loads(about)["sinks"].values()):
        raise ValueError("what its start said of itself is of another form")
    return about


_READERS: dict[str, Callable[[dict[str, Any]], Record]] = {
    "start": lambda v: Start(
        int(v["incarnation"]),
        str(v["job_id"]),
        # Of a claim from before it said what is known: nothing is asked of that sink until it has new rows.
        Claim(_texts(v.get("given_up", ())), _newest(v.get("known", ()))) if v.get("claimed") else None,
        # Of a start from before it said so: nothing is asked of a sink that has another name since.
        {str(sink): str(system) for sink, system in v.get("systems", {}).items()},
        _newest(v.get("left", ())),
    ),
    "layout": lambda v: LayoutRecord(int(v["incarnation"]), _layout(v["layout"])),
    "recut": lambda v: Recut(int(v["incarnation"]), int(v["epoch"]), int(v["limit"])),
    "skip": lambda v: Skip(int(v["incarnation"]), int(v["epoch"]), str(v["before"]), str(v["offsets"])),
    "void": lambda v: Void(int(v["incarnation"]), int(v["epoch"])),
    "replay-begin": lambda v: ReplayBegin(int(v["incarnation"]), int(v["epoch"]), int(v["replay"])),
    "decide": lambda v: Decide(
        int(v["incarnation"]),
        int(v["epoch"]),
        str(v["offsets"]),
        _texts(v["sinks"]),
        _participants(v["participants"]),
        int(v["took_ms"]),
        _about(v),
        # Of a journal from before a decision said it: nothing is asked of a sink that was quiet since.
        _newest(v.get("newest", ())),
    ),
    "replay": lambda v: Replay(
        int(v["incarnation"]),
        int(v["epoch"]),
        int(v["replay"]),
        v["scope"],
        _participants(v["participants"]),
        _ids(v["kept"]),
        _about(v),
    ),
    "resolve": lambda v: Resolve(
        int(v["incarnation"]),
        int(v["epoch"]),
        v["choice"],
        _ids(v["participants"]),
        str(v["who"]),
        str(v["why"]),
    ),
}
