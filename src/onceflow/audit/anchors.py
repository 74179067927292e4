"""Anchors: what a job has told of its newest receipts in a place that only grows, compared with the chain.

Must not know: how a job writes them. Who writes to the checkpoint can write its receipts anew and cut their end; what
stands at the anchors' place he cannot change, as long as the place lets its writer append alone.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from onceflow.audit.chain import Chain, canonical, fits, is_younger, what_is_there
from onceflow.audit.cluster import EARLIEST, LATEST, Cluster, Connect, KafkaAnswerError
from onceflow.audit.findings import Findings
from onceflow.audit.topics import PAGE, UNREADABLE, is_torn, visible

FORMAT = 1
_ANCHOR = {"anchor": int, "job": str, "name": str, "number": int, "hash": str, "at": str}


@dataclass(frozen=True, slots=True)
class InFile:
    """Anchors in a file, a line for each."""

    path: Path

    def __str__(self) -> str:
        """As a person calls it."""
        return str(self.path)

    def lines(self) -> Iterable[tuple[str, bytes]]:
        """Each line with where it stands; errors are those of ``UNREADABLE``."""
        return [(f"{self} line {number}", line) for number, line in enumerate(self.path.read_bytes().splitlines(), 1)]


@dataclass(frozen=True, slots=True)
class InTopic:
    """Anchors in a topic, a record for each; ``connect`` opens a connection to its cluster."""

    topic: str
    connect: Connect

    def __str__(self) -> str:
        """As a person calls it."""
        return f"topic {self.topic}"

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """As of ``InFile``."""
        with Cluster(self.connect) as cluster:
            yield from _records(cluster, self.topic)


Place = InFile | InTopic


def _records(cluster: Cluster, name: str) -> Iterator[tuple[str, bytes]]:
    """The records that are there; behind them an error says what is not, or cannot be read."""
    topic = cluster.topic(name)
    if topic is None:
        raise KafkaAnswerError("it is not there, or may not be described")
    wrong: list[str] = []
    for number in sorted(topic.leaders):
        place = f"{name}-{number}"
        at, end = (cluster.offset(topic, number, which) for which in (EARLIEST, LATEST))
        if at:
            wrong.append(f"{place} begins at offset {at}: retention, or somebody, took what was before")
        gaps = 0
        while at < end:
            page = cluster.fetch(topic, number, at, PAGE)
            if page.refused and page.log_start > at:
                at = page.log_start
                wrong.append(f"{place} begins at offset {at} since it is read")
                continue
            before = at
            for batch, is_visible in visible(page):
                if batch.last < at:
                    continue
                gaps += is_torn(batch, at)
                for offset, _, value, _, _ in batch.behind(at).records() if is_visible else ():
                    yield f"{place} offset {offset}", value or b""
                at = batch.last + 1
            if at == before:
                wrong.append(f"{place} ends for readers at offset {at} of {end}: a transaction is open")
                break
        if gaps:
            wrong.append(f"{place} lacks records between others: it is, or was, compacted")
    if wrong:
        raise KafkaAnswerError("; ".join(wrong))


def read(place: Place, findings: Findings) -> list[tuple[str, bytes]]:
    """The lines; where they cannot be read, that is told."""
    found: list[tuple[str, bytes]] = []
    try:
        found.extend(place.lines())  # what was read before an error is kept
    except UNREADABLE as error:
        findings.add("unknown", f"the anchors at {place} were not all read: {type(error).__name__}: {error}")
    return found


@dataclass(frozen=True, slots=True)
class Anchors:
    """What is compared.

    Attributes:
        place: Where the anchors are.
        lines: They, read before the receipts were.
        job: The name of the job that is audited: not its receipts', which anybody may have made.
        key: Of the signatures; None checks none.
        retention: How long receipts are to be kept; None: nobody has said it.
    """

    place: Place
    lines: Sequence[tuple[str, bytes]]
    job: str
    key: bytes | None = None
    retention: timedelta | None = None


def check(told: Anchors, chain: Chain, findings: Findings) -> None:
    """Compare anchors with the receipts that are there.

    Args:
        told: The anchors.
        chain: The receipts.
        findings: Where what is wrong goes; ``anchored`` becomes the newest receipt that has its anchor.
    """
    held = {(body["job"], body["number"]): body["hash"] for body in chain.receipts}
    there: dict[str, list[int]] = {}
    for job, number in held:
        there.setdefault(job, []).append(number)
    seen: dict[tuple[str, int], str] = {}
    others: dict[str, int] = {}
    for where, body in _of_job(told, set(there), findings):
        job, number, hashed = body["job"], body["number"], body["hash"]
        named = f"receipt {number} with hash {hashed}, anchored at {where} ({body['at']})"
        if there and job not in there:
            others[job] = max(number, others.get(job, 0))
        elif seen.setdefault((job, number), hashed) != hashed:
            findings.add("receipt", f"receipt changed: {named}, and with hash {seen[job, number]} before that")
        elif held.get((job, number), hashed) != hashed:
            findings.add("receipt", f"receipt changed: {named}, has hash {held[job, number]} now")
        elif (job, number) in held:
            findings.anchored = max(findings.anchored, number)
        elif job not in there or number > min(there[job]) or is_younger(body["at"], told.retention):
            is_there = what_is_there(there.get(job, ()), number)
            findings.add("receipt", f"receipt removed: {named}, is gone: {is_there}")
    for job, number in sorted(others.items()):
        what = (
            f"job {job} of the same name has anchored receipts up to {number} at {told.place}, and none of them is here"
        )
        if findings.anchored:
            findings.add("unknown", f"{what}: audit its own checkpoint")
        else:
            findings.add("receipt", f"receipt removed, or of another job: {what}")
    if there and not findings.anchored and not any(findings.of("receipt")):
        findings.add("unknown", f"no anchor at {told.place} names a receipt that is here")


def _of_job(told: Anchors, jobs: set[str], findings: Findings) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Of the lines those that are anchors of this job, or of one of its name."""
    unsigned = 0
    for where, line in told.lines:
        body = _anchor(line)
        if body is None or (body["job"] not in jobs and body["name"] != told.job):
            continue  # of another job; or torn
        if told.key is not None and not _is_signed(body, told.key):
            unsigned += 1
            continue
        yield where, body
    if unsigned:
        what = f"{unsigned} anchors at {told.place} are not signed with this key, and were passed over"
        findings.add("unknown", what)


def _anchor(line: bytes) -> Mapping[str, Any] | None:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return body if fits(body, _ANCHOR) and body["anchor"] == FORMAT else None


def _is_signed(body: Mapping[str, Any], key: bytes) -> bool:
    made = hmac.new(key, b"anchor " + canonical(body, "signature"), hashlib.sha256).hexdigest()
    return hmac.compare_digest(made.encode(), str(body.get("signature")).encode())
