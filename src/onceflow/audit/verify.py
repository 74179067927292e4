"""An audit from its beginning to its end: the chain, then each system that rows went to.

Must not know: how a command line looks. What it is given is plain: a checkpoint's files, and of each sink where it
writes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from onceflow.audit import anchors, chain, lakes, tables, topics
from onceflow.audit.anchors import Anchors, Place
from onceflow.audit.chain import Chain
from onceflow.audit.cluster import Cluster, KafkaAnswerError
from onceflow.audit.files import Files, OnDisk
from onceflow.audit.findings import Findings

Sink = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be audited.

    Attributes:
        checkpoint: The checkpoint's folder; or, where it is on no disk, who reads its files.
        sinks: Of each: ``name`` and ``kind``, and what that kind needs (docs/audit.md).
        first: The first epoch; None for the first that has a receipt.
        last: The last one; None for the newest.
        key: Of the receipts' signatures and of keyed digests; None checks none.
        retention: How long receipts are to be kept; None does not ask.
        after: The number and the hash of the newest receipt that an earlier audit has told; None for no such one.
        anchors: Where the job tells of its newest receipts; None for nowhere.
        job: Its name, by which its anchors are told from others'.
        forward: Number and key of the first receipt that must be sealed; None asks for no seal.
        patience_s: How long an open transaction may keep readers waiting.
    """

    checkpoint: Path | Files
    sinks: Sequence[Sink]
    first: int | None = None
    last: int | None = None
    key: bytes | None = None
    retention: timedelta | None = None
    after: tuple[int, str] | None = None
    anchors: Place | None = None
    job: str = ""
    forward: tuple[int, bytes] | None = field(default=None, repr=False)
    patience_s: float = 30.0

    @property
    def chain(self) -> dict[str, Any]:
        """What the chain is checked by."""
        return {"key": self.key, "retention": self.retention, "after": self.after, "forward": self.forward}

    @property
    def files(self) -> Files:
        """The checkpoint's files."""
        return OnDisk(self.checkpoint) if isinstance(self.checkpoint, Path) else self.checkpoint


def audit(asked: Asked) -> Findings:
    """Prove that what readers can see is what was decided, or tell what is not.

    It changes nothing, and may run beside the job. Receipts are read before the ends of topics are looked up, and
    checked up to there; and read once more behind that, since what is committed by then is known by then.
    """
    checked = chain.read(asked.files, Findings())
    with contextlib.ExitStack() as stack:
        findings = Findings(after=asked.after[0] if asked.after else 0)
        clusters = list(_clusters(asked, checked.receipts, stack, findings))
        told = [] if asked.anchors is None else anchors.read(asked.anchors, findings)
        known = chain.read(asked.files, findings, **asked.chain)
        if asked.anchors is not None:
            anchors.check(Anchors(asked.anchors, told, asked.job, asked.key, asked.retention), known, findings)
        _tell_of_another_job(known, asked, findings)
        if known.receipts:
            findings.head = f"{known.receipts[-1]['number']}:{known.receipts[-1]['hash']}"
        covered = {(body["job"], body["epoch"]) for body in checked.receipts}
        mine = [b for b in known.receipts if (b["job"], b["epoch"]) in covered and _asked_for(b["epoch"], asked)]
        findings.epochs = len(mine)
        looked_at = {sink["name"] for sink in asked.sinks if sink["kind"] in ("kafka", "database", "iceberg", "delta")}
        for cluster, ends, names in clusters:
            looked_at |= names
            scope = _scope(known, mine, asked, names)
            _tell_of_strange(mine, names, findings)
            since = partial(_known_by_now, asked, names, findings)
            topics.check(cluster, ends, scope, findings, since, patience_s=asked.patience_s)
        former = _gone(mine, asked.sinks)
        for sink in asked.sinks:
            if sink["kind"] == "database":
                whole = asked.first is None and asked.last is None
                looked_at |= tables.check(
                    sink, mine, lambda: chain.read(asked.files, Findings()), findings, asked.key, former, whole=whole
                )
            elif sink["kind"] in ("iceberg", "delta"):
                looked_at |= lakes.check(
                    sink, mine, lambda: chain.read(asked.files, Findings()), findings, asked.key, former
                )
        _tell_of_absent(mine, asked.sinks, looked_at, findings)
    _tell_of_nothing(asked, known, mine, findings)
    return findings


def receipts_of(asked: Asked, findings: Findings) -> list[Mapping[str, Any]]:
    """The receipts of the epochs that are asked for; what is wrong with the chain is told."""
    known = chain.read(asked.files, findings, **asked.chain)
    mine = [body for body in known.receipts if _asked_for(body["epoch"], asked)]
    if not mine:
        _tell_of_nothing(asked, known, mine, findings)
    return mine


def _tell_of_nothing(asked: Asked, known: Chain, mine: Sequence[Mapping[str, Any]], findings: Findings) -> None:
    """Where nothing was compared that is told, and what it may come from: silence would pass for a proof."""
    epochs = [body["epoch"] for body in known.receipts]
    unseen = sum(each.rows for each in findings.found if each.kind == "unknown")
    if mine and unseen and not findings.rows and not any(findings.of("missing", "changed", "foreign")):
        why = f"not one of the {unseen:,} rows of {len(mine):,} epochs could be looked at: the lines above say why"
    elif mine or any(findings.of("receipt")):
        return
    elif epochs:
        ends = f"{'' if asked.first is None else asked.first}..{'' if asked.last is None else asked.last}"
        why = (
            f"the receipts in {asked.checkpoint} are of epochs {min(epochs)} to {max(epochs)}, and {ends} was asked "
            "for: epochs without rows have none, and those older than ONCEFLOW_AUDIT_RETENTION are let go"
        )
    elif known.decided:
        (epoch,) = {epoch for _, epoch in known.decided}
        why = (
            f"epoch {epoch} is decided and has no receipt yet, and none is before it: it is being finished, or the job "
            "died in it; ask again when the job has gone on"
        )
    elif asked.files.names("onceflow/journal"):
        why = (
            f"the job in {asked.checkpoint} has decided no epoch that its journal knows, and no receipt is there: no "
            "epoch had rows so far, or the job has not run since there are receipts"
        )
    else:
        why = (
            f"no job has run in {asked.checkpoint}: the folder was deleted, its volume is not mounted, or its path is "
            "relative and the audit was started in another folder; ask where the job runs, or correct the path"
        )
    findings.add("nothing", why)


def _asked_for(epoch: int, asked: Asked) -> bool:
    return (asked.first is None or epoch >= asked.first) and (asked.last is None or epoch <= asked.last)


def _tell_of_another_job(known: Chain, asked: Asked, findings: Findings) -> None:
    """Jobs may share a key: another one's trail is whole, and signed, in the place of this one's."""
    name = known.receipts[-1].get("name") if known.receipts else ""
    if asked.job and name and name != asked.job:
        why = "it was renamed and has no receipt since, or another job's receipts stand here"
        findings.add("unknown", f"the newest receipt is of job {name}, and {asked.job} is audited: {why}")


def _gone(receipts: Iterable[Mapping[str, Any]], sinks: Sequence[Sink]) -> frozenset[str]:
    """Sinks of receipts that the job does not have now: they may be called otherwise."""
    return frozenset(p["sink"] for b in receipts for p in b["participants"]) - {sink["name"] for sink in sinks}


def _tell_of_absent(
    receipts: Iterable[Mapping[str, Any]], sinks: Sequence[Sink], able: Collection[str], findings: Findings
) -> None:
    """Rows of sinks that nobody can look at are unknown."""
    rows: dict[str, int] = {}
    for body in receipts:
        for p in body["participants"]:
            if p["sink"] not in able:
                rows[p["sink"]] = rows.get(p["sink"], 0) + p["rows"]
    kinds = {sink["name"]: sink["kind"] for sink in sinks}
    for name, count in sorted(rows.items()):
        why = (
            f"this audit cannot read a sink of kind {kinds[name]}" if name in kinds else "the job has no such sink now"
        )
        findings.add("unknown", f"sink {name}: {count} rows were not looked at: {why}", count, name)


def _tell_of_strange(receipts: Iterable[Mapping[str, Any]], names: frozenset[str], findings: Findings) -> None:
    """Rows of Kafka's sinks whose participants name no transaction of Kafka's cannot be looked for."""
    for body in receipts:
        for p in body["participants"]:
            if p["sink"] in names and not chain.is_of_kafka(p["transaction"]):
                told = f"receipt {body['number']} names no transaction of Kafka's: {p['rows']} rows were not looked at"
                findings.add("unknown", f"sink {p['sink']}: {told}", p["rows"], p["sink"], body["epoch"])


def _clusters(
    asked: Asked, receipts: Sequence[Mapping[str, Any]], stack: contextlib.ExitStack, findings: Findings
) -> Iterable[tuple[Cluster, topics.Ends, frozenset[str]]]:
    """Each cluster of the sinks, with where its topics end now, and the sinks' names."""
    by_cluster: dict[str, list[Sink]] = {}
    for sink in asked.sinks:
        if sink["kind"] == "kafka":
            by_cluster.setdefault(sink["cluster"], []).append(sink)
    for sinks in by_cluster.values():
        names = frozenset(sink["name"] for sink in sinks)
        written = {sink["topic"] for sink in sinks}
        for each in topics.transactions(receipts, names).values():
            if each.sink in names:  # a row may name its topic
                written |= {topic for topic, _ in each.partitions}
        try:
            cluster = stack.enter_context(Cluster(sinks[0]["connect"]))
            ends = topics.Ends(cluster, written)
            former = topics.transactions(receipts, _gone(receipts, asked.sinks)).values()
            # By the topic's id: another cluster's may have its name.
            yield cluster, ends, names | {each.sink for each in former if ends.has(each)}
        except (KafkaAnswerError, OSError) as error:
            for name in sorted(names):
                rows = sum(p["rows"] for b in receipts for p in b["participants"] if p["sink"] == name)
                findings.add("unknown", f"sink {name}: {rows} rows were not looked at: {error}", rows, name)


def _scope(known: Chain, mine: Sequence[Mapping[str, Any]], asked: Asked, names: frozenset[str]) -> topics.Scope:
    checked = {body["hash"] for body in mine}
    first = min((body["number"] for body in mine), default=0)
    earlier = [b for b in known.receipts if b["hash"] not in checked and b["number"] < first]
    later = [b for b in known.receipts if asked.last is not None and b["epoch"] > asked.last]
    rest = [b for b in known.receipts if b["hash"] not in checked]
    expected = topics.transactions(mine, names, asked.key)
    signed = {*topics.transactions(rest, names), *_producers(known.others)}
    unsigned = _producers(known.in_journal) - signed - expected.keys()
    return topics.Scope(
        expected=expected,
        earlier=topics.transactions(earlier, names),
        later=frozenset(topics.transactions(later, names)),
        known=frozenset((signed | unsigned) - expected.keys()),
        unsigned=frozenset() if asked.key is None else unsigned,
        whole=known.is_whole and not earlier,
    )


def _known_by_now(asked: Asked, names: frozenset[str], findings: Findings) -> dict[topics.Producer, bool]:
    """Each transaction that receipts or journal know by now, and whether there is a key and no receipt has it.

    What is wrong with receipts that have come since is told as well: whoever lays one there to be believed is found.
    """
    strange = Findings()
    by_now = chain.read(asked.files, strange, **asked.chain)
    told = {each.what for each in findings.found}
    for each in strange.of("receipt"):
        if each.what not in told:
            findings.add("receipt", each.what, epoch=each.epoch)
    signed = {*topics.transactions(by_now.receipts, names), *_producers(by_now.others)}
    return {who: asked.key is not None and who not in signed for who in signed | _producers(by_now.in_journal)}


def _producers(participants: Iterable[Mapping[str, Any]]) -> frozenset[topics.Producer]:
    told = (p["transaction"] for p in participants)
    return frozenset((of["producer_id"], of["producer_epoch"]) for of in told if chain.is_of_kafka(of))
