"""The chain of receipts, read from its files and checked: is any of them changed, gone, or in another's place?

Must not know: sinks, how a checkpoint's files are reached. It reads two folders of one by their formats:
``onceflow/audit`` (docs/audit.md) and, for what is decided and not receipted yet, ``onceflow/journal``.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from onceflow.audit.files import Files
from onceflow.audit.findings import Findings

FORMAT = 1
_TRAIL, _RECORDS = "onceflow/audit", "onceflow/journal"
_LARGEST = 1 << 30
"""Of an unpacked file, in bytes; a day's receipts are some megabytes."""
_FARTHEST = 100_000_000
"""So many keys are made one after the other at most, some minutes' work."""
_HEX = re.compile("[0-9a-f]{16}")
_PART = (int, int, _HEX, str)
_PARTICIPANT = {"sink": str, "handle": str, "rows": int, "digest": _HEX, "parts": [_PART], "transaction": dict}
_RECEIPT = {
    "number": int,
    "before": str,
    "before_at": str,
    "at": str,
    "job": str,
    "epoch": int,
    "hash": str,
    "sources": [{"start": str | None, "end": str}],
    "sinks": dict,
    "participants": [_PARTICIPANT],
    "replays": int,
    "choices": [{"choice": str, "participants": [list], "who": str, "why": str, "epoch": int}],
}
"""What a receipt of this format has, as far as it is looked at."""
_KAFKA = {
    "producer_id": int,
    "producer_epoch": int,
    "partitions": [(str, int)],
    "witness": {"topic": str, "partition": int, "offset": int, "topic_id": str},
}
"""Of a transaction of Kafka's."""
_WRITTEN = {"sink": str, "handle": str, "parts": [list], "transaction": dict}
_OF_JOURNAL = {
    "start": {"job_id": str},
    "decide": {"epoch": int, "participants": [_WRITTEN]},
    "resolve": {"epoch": int, "choice": str},
    "replay-begin": {"epoch": int},
    "replay": {"epoch": int, "participants": [_WRITTEN]},
}
"""Likewise of the journal's records, by their kind."""
_NAME = re.compile(r"(\d+)-([0-9a-f]*)-(\d+)\.jsonl(?:\.gz)?")


@dataclass
class Chain:
    """What is in a checkpoint.

    Attributes:
        receipts: Those that count, in order.
        decided: Of the journal: what is decided, by job and epoch; each with its participants.
        chosen: Of the journal: what an operator has chosen, by job, epoch and choice.
        replayed: Of the journal: epochs that were to be written again, by job.
        others: Participants of receipts that do not count, of epochs of which another one does: known, whatever became
            of them.
        superseded: Those receipts, and such of epochs of which none counts.
        in_journal: Those of everything in the journal, which is not signed: likewise.
    """

    receipts: list[Mapping[str, Any]] = field(default_factory=list)
    decided: dict[tuple[str, int], Mapping[str, Any]] = field(default_factory=dict)
    chosen: set[tuple[str, int, str]] = field(default_factory=set)
    replayed: set[tuple[str, int]] = field(default_factory=set)
    others: list[Mapping[str, Any]] = field(default_factory=list)
    superseded: list[Mapping[str, Any]] = field(default_factory=list)
    in_journal: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether it begins with the job's first rows: no receipt is gone, and no journal had forgotten some."""
        first = self.receipts[0] if self.receipts else None
        return first is not None and first["number"] == 1 and all(s["start"] is not None for s in first["sources"])


@dataclass(frozen=True, slots=True)
class _Line:
    file: str
    number: int
    body: Mapping[str, Any] | None
    last: bool

    @property
    def where(self) -> str:
        return f"{self.file} line {self.number}"


def read(
    checkpoint: Files,
    findings: Findings,
    *,
    key: bytes | None = None,
    retention: timedelta | None = None,
    after: tuple[int, str] | None = None,
    forward: tuple[int, bytes] | None = None,
) -> Chain:
    """Read the chain and check it.

    Args:
        checkpoint: Its files.
        findings: Where what is wrong goes.
        key: Of the signatures; None checks none.
        retention: How long receipts are to be kept: a head that was cut sooner is told.
        after: A receipt that was there before, by number and hash: the chain must have it, or be younger than it.
        forward: Number and key of the first receipt that must be sealed; None asks for no seal.
    """
    chain = Chain()
    _journal(checkpoint, chain)  # first: a record goes only behind its receipt
    # Of a file that is there plain and packed one is enough: they are the same.
    names = sorted(name for name in checkpoint.names(_TRAIL) if _NAME.fullmatch(name))
    files = {(int(m[1]), int(m[3]), m[2]): name for name in names if (m := _NAME.fullmatch(name))}
    order = sorted(files)
    held = checkpoint.contents(_TRAIL, [files[which] for which in order])
    lines = [
        list(_lines(files[which], data if data is not None else _packed(checkpoint, files[which])))
        for which, data in zip(order, held, strict=True)
    ]
    there = {line.body["hash"] for of in lines for line in of if line.body is not None}
    at: dict[str, int] = {}
    for of in lines:
        _continue(chain, of, at, there, findings, key)
    counted = {(body["job"], body["epoch"]) for body in chain.receipts}
    # Who names an older receipt in a file of his own makes all behind it count no more: their rows are nobody's then.
    chain.others += [p for b in chain.superseded if (b["job"], b["epoch"]) in counted for p in b["participants"]]
    _head(chain, findings, retention)
    _order(chain, findings)
    if after is not None:
        _has(chain, *after, findings)
    if forward is not None:
        _seals(chain, *forward, findings)
    _against_the_journal(chain, findings)
    return chain


def chosen(body: Mapping[str, Any], p: Mapping[str, Any]) -> str:
    """What an operator has chosen for rows that are not there, in words; "" where nobody has."""
    for choice in body["choices"]:
        # One that names nobody is about what the source had lost: of what was decided it gives up nothing.
        named = choice["epoch"] == body["epoch"] and [p["sink"], p["handle"]] in choice["participants"]
        if choice["choice"] in ("count-as-written", "give-up-rows") and named:
            return f"{choice['who']} has chosen {choice['choice']}: {choice['why']}"
    return ""


def _packed(checkpoint: Files, name: str) -> bytes:
    """A file that was packed, or let go, since the folder was listed."""
    (data,) = checkpoint.contents(_TRAIL, [f"{name}.gz"])
    return data or b""


def _lines(name: str, data: bytes) -> Iterator[_Line]:
    lines = (_unpacked(data) if data.startswith(b"\x1f\x8b") else data).splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        last = number == len(lines)
        try:
            body = json.loads(line)
            whole = (
                isinstance(body, dict) and line.endswith(b"\n") and (body.get("format") != FORMAT or _is_receipt(body))
            )
            yield _Line(name, number, body if whole else None, last)
        except (ValueError, RecursionError):
            yield _Line(name, number, None, last)


def _unpacked(data: bytes) -> bytes:
    """What was packed, of at most so many bytes: a file of nothing but zeros unpacks to a thousand times its size."""
    unpacking = zlib.decompressobj(wbits=31)
    try:
        return unpacking.decompress(data, _LARGEST)
    except zlib.error:
        return b"torn"


def _is_receipt(body: Mapping[str, Any]) -> bool:
    return (
        fits(body, _RECEIPT)
        and body["number"] > 0
        and all(map(_is_rule, body["sinks"].values()))
        and all(map(_has_attempts, body["participants"]))
        and all(p["sink"] in body["sinks"] for p in body["participants"])
    )


def _is_rule(rule: Any) -> bool:
    """How a sink's rows are hashed, where that is known."""
    if not isinstance(rule, dict) or not all(fits(rule.get(name, []), [(str, str)]) for name in ("columns", "fields")):
        return False
    return not rule.get("columns") or isinstance(rule.get("destination"), str)


def _has_attempts(p: Mapping[str, Any]) -> bool:
    """Of a database, or of a lake table; of a sink of a user's own a transaction may say anything."""
    return fits(p["transaction"].get("attempts", []), [list])


def _are_parts(parts: Sequence[Any]) -> bool:
    """Number, rows, digest, origin; and a keyed digest, where there was a key."""
    return all(fits(part[:4], (int, int, int, str)) and all(isinstance(k, str) for k in part[4:]) for part in parts)


def is_of_kafka(transaction: Mapping[str, Any]) -> bool:
    """Whether a participant's transaction is one of Kafka's."""
    return fits(transaction, _KAFKA)


def fits(value: Any, form: Any) -> bool:
    """Whether a value of JSON has a form: a type, a pattern, a list of one form, a row of several, an object."""
    if isinstance(form, dict):
        return isinstance(value, dict) and all(name in value and fits(value[name], of) for name, of in form.items())
    if isinstance(form, re.Pattern):
        return isinstance(value, str) and form.fullmatch(value) is not None
    if isinstance(form, tuple):
        return isinstance(value, list) and len(value) == len(form) and all(map(fits, value, form))
    if isinstance(form, list):
        return isinstance(value, list) and all(fits(each, form[0]) for each in value)
    return isinstance(value, form) and not isinstance(value, bool)


def _continue(
    chain: Chain,
    lines: list[_Line],
    at: dict[str, int],
    there: set[str],
    findings: Findings,
    key: bytes | None,
) -> None:
    """Go on with one start's file: its first receipt names the one behind which the chain goes on."""
    for line in lines:
        body = line.body
        if body is None:
            if line.last:  # whoever wrote it died on the way; the next start makes it again
                findings.add("note", f"{line.where} is torn: it was being written, or a power cut took its end")
            else:
                findings.add("receipt", f"receipt changed: {line.where} is no receipt any more")
            continue
        _one(line, body, findings, key)
        if body.get("format") != FORMAT:
            continue
        before = body["before"]
        if not at:
            at[before] = -1  # a newer start may begin where the chain does: it found none of these
        if before in at and at[before] < len(chain.receipts) - 1 and line.number == 1:
            _superseded(chain, at[before] + 1, at)
        elif chain.receipts and before != chain.receipts[-1]["hash"]:
            _jump(chain.receipts[-1], line, body, there, findings)
        at[body["hash"]] = len(chain.receipts)
        chain.receipts.append(body)


def _one(line: _Line, body: Mapping[str, Any], findings: Findings, key: bytes | None) -> None:
    if body.get("format") != FORMAT:
        findings.add("unknown", f"{line.where} has format {body.get('format')}, and this audit reads {FORMAT}")
        return
    found = hashlib.sha256(canonical(body, "hash", "signature", "seal")).hexdigest()
    named = f"receipt {body['number']} (epoch {body['epoch']}, {line.where})"
    if found != body["hash"]:
        findings.add("receipt", f"receipt changed: {named} does not have its hash", epoch=body["epoch"])
    if key is None:
        return
    signed = hmac.new(key, str(body["hash"]).encode(), hashlib.sha256).hexdigest()
    if "signature" not in body:
        findings.add("receipt", f"receipt not signed: {named}", epoch=body["epoch"])
    elif not hmac.compare_digest(signed.encode(), str(body["signature"]).encode()):
        findings.add("receipt", f"receipt signed with another key, or changed: {named}", epoch=body["epoch"])


def canonical(body: Mapping[str, Any], *without: str) -> bytes:
    """What a hash or a signature is made over: JSON with sorted keys, no blanks, in ASCII, less what is made of it."""
    said = {name: value for name, value in body.items() if name not in without}
    return json.dumps(said, sort_keys=True, separators=(",", ":")).encode()


def _superseded(chain: Chain, first: int, at: dict[str, int]) -> None:
    """A newer start goes on before these: a replaced driver's, which the newer start has written again."""
    for body in chain.receipts[first:]:
        at.pop(body["hash"], None)
        chain.superseded.append(body)
    del chain.receipts[first:]


def _jump(last: Mapping[str, Any], line: _Line, body: Mapping[str, Any], there: set[str], findings: Findings) -> None:
    """A receipt does not name the one that it stands behind."""
    here = f"{line.where} (receipt {body['number']}, epoch {body['epoch']})"
    if body["before"] in there or body["number"] <= last["number"]:
        told = f"receipts reordered: {here} stands behind receipt {last['number']}"
    elif body["number"] > last["number"] + 1:
        told = f"receipt removed: {last['number'] + 1} to {body['number'] - 1}, before {here}"
    else:
        told = f"receipt changed: {here} does not name receipt {last['number']} as it is"
    findings.add("receipt", told, epoch=body["epoch"])


def _head(chain: Chain, findings: Findings, retention: timedelta | None) -> None:
    """What lies before the first receipt that is there: let go of by retention, or cut."""
    if not chain.receipts or chain.receipts[0]["number"] == 1:
        return
    first = chain.receipts[0]
    gone, until = first["number"] - 1, first["before_at"]
    if is_younger(until, retention):
        findings.add("receipt", f"receipt removed: the first {gone}, up to {until}, younger than audit.retention")
    else:
        findings.add("note", f"the chain begins at receipt {first['number']}; {gone} up to {until} were let go")


def _has(chain: Chain, number: int, hashed: str, findings: Findings) -> None:
    """A receipt that an auditor has seen is there as it was: its signature may be made anew, his note may not."""
    held = {body["number"]: body["hash"] for body in chain.receipts}
    named = f"receipt {number} with hash {hashed}, which an earlier audit has seen"
    if number in held:
        if held[number] != hashed:
            findings.add("receipt", f"receipt changed: {named}, has hash {held[number]} now")
    elif held and number < min(held):
        told = f"{named}, is not there: the chain begins at receipt {min(held)}"
        findings.add("unknown", f"{told}, and that the ones before were let go is the checkpoint's own word")
    else:
        findings.add("receipt", f"receipt removed: {named}, is gone: {what_is_there(held, number)}")


def _seals(chain: Chain, number: int, key: bytes, findings: Findings) -> None:
    """Each receipt has the seal of its number, whose key the job has forgotten behind it."""
    for body in sorted(chain.receipts, key=lambda body: int(body["number"])):
        if body["number"] < number:
            continue
        if body["number"] - number > _FARTHEST:
            findings.add("receipt", f"receipt changed: {body['number']} is too far behind the one before it")
            return
        while number < body["number"]:
            number, key = number + 1, hmac.digest(key, b"onceflow next", "sha256")
        named = f"receipt {number} (epoch {body['epoch']})"
        made = hmac.new(key, str(body["hash"]).encode(), hashlib.sha256).hexdigest()
        if "seal" not in body:
            findings.add("receipt", f"receipt not sealed: {named}", epoch=body["epoch"])
        elif not hmac.compare_digest(made.encode(), str(body["seal"]).encode()):
            findings.add("receipt", f"receipt changed, or sealed with another key: {named}", epoch=body["epoch"])


def what_is_there(numbers: Collection[int], number: int) -> str:
    """In the place of a receipt that is gone."""
    if not numbers:
        return "no receipt is there"
    first, last = min(numbers), max(numbers)
    return f"the chain ends at receipt {last}" if number > last else f"the chain goes from receipt {first} to {last}"


def is_younger(at: str, retention: timedelta | None) -> bool:
    """Also what is no time: nobody knows then that it is old enough. Without a retention nothing is."""
    if retention is None:
        return False
    try:
        return datetime.fromisoformat(at) > datetime.now(UTC) - retention
    except (ValueError, TypeError):  # TypeError: a time without a zone
        return True


def _order(chain: Chain, findings: Findings) -> None:
    """Numbers and epochs grow, and each range begins where the one before it ended."""
    for last, body in zip(chain.receipts, chain.receipts[1:], strict=False):
        grows = body["number"] == last["number"] + 1
        linked = body["before"] == last["hash"]  # else it is told already
        if linked and not grows:
            told = (
                f"receipt {body['number']} (epoch {body['epoch']}) names receipt {last['number']} as the one before it"
            )
            findings.add("receipt", f"receipt removed, or numbered anew: {told}", epoch=body["epoch"])
        if body["job"] != last["job"] or not (grows or linked):
            continue
        if body["epoch"] <= last["epoch"]:
            told = f"epoch {body['epoch']} (receipt {body['number']}) comes behind epoch {last['epoch']}"
            findings.add("receipt", f"receipts reordered: {told}", epoch=body["epoch"])
        skipped = any(choice["choice"] in ("skip", "give-up-rows") for choice in body["choices"])
        starts, ends = ([s[which] for s in of["sources"]] for of, which in ((body, "start"), (last, "end")))
        if starts != ends and not skipped:
            told = f"epoch {body['epoch']} does not begin where epoch {last['epoch']} ended"
            findings.add("receipt", f"a range is in no receipt: {told}", epoch=body["epoch"])


# -- the journal ----------------------------------------------------------------------------------


def _journal(checkpoint: Files, chain: Chain) -> None:
    job = ""
    names = checkpoint.names(_RECORDS)
    records = sorted(name for name in names if name.endswith(".json") and name.removesuffix(".json").isdigit())
    for data in checkpoint.contents(_RECORDS, records):
        try:
            entry = json.loads(data or b"")
            kind, record = entry["kind"], entry["record"]
            whole = kind not in _OF_JOURNAL or fits(record, _OF_JOURNAL[kind])
            if kind in ("decide", "replay"):
                whole = whole and all(_has_attempts(p) and _are_parts(p["parts"]) for p in record["participants"])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue  # purged since the folder was listed; one that is spoiled stops the job, which says so
        if not whole:
            continue  # likewise
        if kind == "start":
            job = record["job_id"]
        elif kind == "decide":
            chain.decided[job, record["epoch"]] = record
            chain.in_journal += record["participants"]
        elif kind == "resolve":
            chain.chosen.add((job, record["epoch"], record["choice"]))
        elif kind == "replay-begin":
            chain.replayed.add((job, record["epoch"]))
        elif kind == "replay":
            chain.decided.pop((job, record["epoch"]), None)  # which of all count is for its receipt to say
            chain.in_journal += record["participants"]


def _against_the_journal(chain: Chain, findings: Findings) -> None:
    """What the journal still knows must have its receipt, with the same rows; only the newest epoch may have none."""
    epochs = sorted(epoch for _, epoch in chain.decided)
    if not chain.receipts and len(epochs) > 1:
        told = f"epochs {epochs[0]} to {epochs[-1]} are decided in the journal, and not one receipt is in {_TRAIL}"
        why = "the folder was removed or emptied, or a version from before there were receipts has written the journal"
        findings.add("receipt", f"receipt removed: {told} ({why})")
        return
    receipted = {(body["job"], body["epoch"]): body for body in chain.receipts}
    newest = max(epochs, default=-1)
    let_go = [body for body in chain.receipts[:1] if body["number"] > 1]
    for (job, epoch), record in chain.decided.items():
        body = receipted.get((job, epoch))
        if body is None:
            if epoch < newest and not any(first["epoch"] > epoch for first in let_go):
                told = f"epoch {epoch} is decided in the journal and has no receipt"
                why = "it was removed, or its start has not written it yet"
                findings.add("receipt", f"receipt removed: {told} ({why})", epoch=epoch)
            continue
        told = _not_in_the_journal(body, chain, is_oldest=epoch == epochs[0] < newest)
        if told:
            findings.add("receipt", f"receipt changed: receipt {body['number']} says {told}", epoch=epoch)
        there, here = _rows(record["participants"]), _rows(body["participants"])
        if there != here:
            told = f"receipt {body['number']} and the journal differ about epoch {epoch}"
            findings.add("receipt", f"receipt changed: {told}", epoch=epoch)


def _not_in_the_journal(body: Mapping[str, Any], chain: Chain, *, is_oldest: bool) -> str:
    """What a receipt says that somebody has done, where the journal still has its epoch's decision and knows nothing.

    Whoever rewrites the newest receipt alone, which no other names yet, could let rows be gone by it. Of the
    oldest decision that the journal has, with newer ones behind it, a choice may be purged already.
    """
    if body["replays"] and (body["job"], body["epoch"]) not in chain.replayed:
        return "that the epoch was written again, and the journal knows of no replay"
    if is_oldest:
        return ""  # choices of before its decision are purged before that
    mine = (c["choice"] for c in body["choices"] if c["choice"] != "skip" and c["epoch"] == body["epoch"])
    unknown = [choice for choice in mine if (body["job"], body["epoch"], choice) not in chain.chosen]
    return f"that an operator has chosen {unknown[0]}, and the journal knows of no such choice" if unknown else ""


def _rows(participants: Iterable[Mapping[str, Any]]) -> set[tuple[str, str, int, int]]:
    found = set()
    for p in participants:
        parts = p["parts"]
        digests = [int(d, 16) if isinstance(d, str) else d for _, _, d, *_ in parts]
        found.add((p["sink"], p["handle"], sum(rows for _, rows, *_ in parts), sum(digests) % (1 << 64)))
    return found
