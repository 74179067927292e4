"""Targets: what a job leaves behind itself, which a stranger may have made: checkpoints and savepoints.

Each seal is put right behind a change, as whoever means it would do: else nothing came behind the checksum.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import io
import itertools
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from onceflow.audit import chain, tables, topics
from onceflow.audit.files import OnDisk
from onceflow.audit.findings import Findings
from onceflow.checkpoint import deleting, family, identity, restored, state_names, state_schemas
from onceflow.checkpoint.failures import Failures
from onceflow.checkpoint.journal_codec import JournalEntry, decode, encode
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.receipts import Receipts
from onceflow.checkpoint.refusals import Refusals
from onceflow.checkpoint.spark_files import (
    SparkCheckpoint,
    canonical,
    partition_lags,
    positions,
    reads_beyond,
    records_between,
    watermark_behind,
    with_positions,
)
from onceflow.checkpoint.statistics import Statistics
from onceflow.checkpoint.trail import Trail, digest
from onceflow.connectors.database.staged import Staged as DatabaseStaged
from onceflow.connectors.kafka import prepared
from onceflow.connectors.kafka.offsets import from_json
from onceflow.connectors.kafka.transactional_id import parse_transactional_id
from onceflow.connectors.lake.staged import LakeStaged
from onceflow.errors import ConfigurationError, OnceflowError
from onceflow.operations.savepoints import reading, state_files
from onceflow.operations.savepoints.manifest import HeldFile, Manifest, shuffle_partitions
from onceflow.spark.locations import folder_at
from onceflow.storage import envelope, making
from onceflow.storage.store import Store
from onceflow.twophase.forms import OTHER_FORM
from onceflow.twophase.participants import Part, Participant, ParticipantId, TaskReport
from onceflow.twophase.records import (
    Claim,
    Decide,
    HistoryError,
    LayoutRecord,
    Newest,
    Recut,
    Replay,
    ReplayBegin,
    Resolve,
    Skip,
    Start,
    Void,
)
from tests.fuzz.target import Target, kept, named, put
from tests.support import checkpoints

_JOB = "0123456789ab"


def resealed(data: bytes) -> bytes:
    """An object of JSON with the checksum that it should have, its text else as it is; anything else as it is."""
    try:
        body = json.loads(data)
        if not isinstance(body, dict):
            return data
        body.pop("sha256", None)
        found = envelope._checksum(body)
    except (ValueError, RecursionError):
        return data
    return data.rstrip()[:-1] + (b"," if body else b"") + b'"sha256":"' + found.encode() + b'"}'


def unsealed(files: list[bytes]) -> list[bytes]:
    """Sealed files without their checksums, in one line."""
    bodies = [json.loads(data) for data in files]
    return [json.dumps({k: v for k, v in body.items() if k != "sha256"}).encode() for body in bodies]


# -- the journal and what it is made of -----------------------------------------------------------


def _journal_record(data: bytes, _: Path) -> None:
    with contextlib.suppress(ValueError, RecursionError):
        place = json.loads(data)["place"] if data.startswith(b"{") and b'"place"' in data else 1
        data = resealed(data)
        decode(data, place if isinstance(place, int) else 1)
        return
    decode(data, 1)


def _journal(data: bytes, folder: Path) -> None:
    """A whole journal, one record of it changed: what a start, an operator's tool and the audit's trail ask of it."""
    records = kept("*count-D7*/onceflow/journal/*.json", 40)
    by_place = {json.loads(each)["place"]: each for each in records}
    changed = resealed(data)
    at = max(by_place)
    with contextlib.suppress(ValueError, RecursionError, KeyError, TypeError):
        told = json.loads(changed)["place"]
        at = told if isinstance(told, int) and 0 < told <= max(by_place) + 1 else at
    for place, each in (by_place | {at: changed}).items():
        put(folder, f"onceflow/journal/{place:020d}.json", each)
    place = Place.at(folder, retain=100)
    place.journal.starts()
    place.journal.given_up()
    place.journal.decided_offsets()
    place.journal.receipts(waiting=True)
    entries = place.journal.history()[1]
    place.journal.decided_epochs(_JOB)
    records_by_place = {entry.slot: entry.record for entry in entries}
    Trail(Store(folder / "audit")).waiting(records_by_place, 1 << 62)


def _receipts(data: bytes, folder: Path) -> None:
    name, content = named(data, b"00000000000000000001-00000000000000000003.json")
    put(folder, name, resealed(content))
    receipts = Receipts(Store(folder))
    receipts.are_whole()
    receipts.read()


def _receipt_seeds() -> list[bytes]:
    line = {
        "place": 2,
        "kind": "replay",
        "incarnation": 1,
        "epoch": 4,
        "participants": [["alerts", "h-1", 5, 77]],
        "kept": [["alerts", "h-0"]],
        "choice": "",
        "about": [["alerts", "h-1"]],
    }
    body = {"format": 1, "receipts": [json.dumps(line)]}
    return [b"00000000000000000001-00000000000000000003.json\n" + json.dumps(body).encode()]


def _trail(data: bytes, folder: Path) -> None:
    name, content = named(data, b"0000000001-bb545cc0-000001.jsonl")
    put(folder, name, _rehashed(content))
    trail = Trail(Store(folder), retention=None)
    trail.waiting({}, 1 << 62)
    trail._let_go()


def _chain(data: bytes, folder: Path) -> None:
    """As ``onceflow audit`` reads it: whatever is wrong is told, and nothing is raised."""
    name, content = named(data, b"0000000001-bb545cc0-000001.jsonl")
    put(folder, f"onceflow/audit/{name}", _rehashed(content))
    for number, each in enumerate(kept("*count-D7*/onceflow/journal/*.json", 6), 1):
        put(folder, f"onceflow/journal/{number:020d}.json", each)
    found = chain.read(OnDisk(folder), Findings(), key=b"0123456789abcdef")
    for body in found.receipts:
        for participant in body["participants"]:
            chain.chosen(body, participant)
            tables._hash_of(participant)
    names = {p["sink"] for body in found.receipts for p in body["participants"]}
    list(topics.transactions(found.receipts, names))


def _chain_journal(data: bytes, folder: Path) -> None:
    """The journal's records, as the audit reads them."""
    for number, each in enumerate(data.split(b"\n"), 1):
        put(folder, f"onceflow/journal/{number:020d}.json", each)
    for each in kept("*count-D7*/onceflow/audit/*.jsonl", 1):
        put(folder, "onceflow/audit/0000000001-bb545cc0-000001.jsonl", each)
    findings = Findings()
    chain.read(OnDisk(folder), findings)
    findings.report(shared=False)


def _rehashed(content: bytes) -> bytes:
    """Receipts with the hashes that they should have; where one is none, as it is."""
    lines = []
    for line in content.split(b"\n"):
        try:
            body = json.loads(line)
            lines.append(json.dumps(body | {"hash": digest(body)}, sort_keys=True, separators=(",", ":")).encode())
        except (ValueError, TypeError, AttributeError, RecursionError):
            lines.append(line)
    return b"\n".join(lines)


def _trail_seeds() -> list[bytes]:
    name = b"0000000001-bb545cc0-000001.jsonl"
    files = kept("*/onceflow/audit/*.jsonl", 6)
    return [name + b"\n" + each for each in files] + [name + b".gz\n" + gzip.compress(files[0], mtime=0)]


# -- small files of a checkpoint -------------------------------------------------------------------


def _identity(data: bytes, folder: Path) -> None:
    put(folder, "job.json", resealed(data))
    identity.read_identity(Store(folder))


def _marks(data: bytes, _: Path) -> None:
    """What a broker or a database keeps for a job, outside of its checkpoint."""
    text = data.decode("utf-8", "replace")
    identity.Mark.loads(text)
    identity.NameMark.loads(text).dumps()
    parse_transactional_id(text, "onceflow", _JOB)


_SMALL = {
    "restored.json": restored.read_restored,
    "deleting.json": deleting.read_deleting,
    "targets.json": family.read_targets,
    "told.json": family.accepted,
    "children/0123456789ab.json": lambda store: family._children(store.below("children")),
    "manifest.json.making": lambda store: making.read_making(store, "manifest.json"),
}


def _small_files(data: bytes, folder: Path) -> None:
    """Where a checkpoint comes from, who its relatives are, who makes or deletes it: the first line says which file."""
    name, _, content = data.partition(b"\n")
    which = name.decode("utf-8", "replace")
    which = which if which in _SMALL else "restored.json"
    put(folder, which, resealed(content))
    _SMALL[which](Store(folder))


def _small_seeds() -> list[bytes]:
    identity_ = {"format": 1, "job_id": _JOB, "checkpoint": "file:/c", "cluster_id": "c", "prefix": "p", "left": ""}
    target = {"sink": "a", "system": "s", "destination": "t", "decides": True}
    made = {
        "restored.json": restored.RestoredFrom("s-1", 4, _JOB, claimed=True, with_state=True, parent="file:/c").dumps(),
        "deleting.json": envelope.seal(identity_),
        "targets.json": envelope.seal({"format": 1, "targets": [target]}),
        "told.json": envelope.seal({"format": 1, "jobs": {_JOB: 4}}),
        "children/0123456789ab.json": envelope.seal(
            {"format": 1, "job_id": _JOB, "checkpoint": "file:/c", "epoch": 3, "targets": [target]}
        ),
        "manifest.json.making": making.Making("0011223344556677", "host", 12, "2026-01-01T00:00:00+00:00").dumps(),
    }
    return [name.encode() + b"\n" + unsealed([data])[0] for name, data in made.items()]


def _lines(data: bytes, folder: Path) -> None:
    """What is kept for people: it is never refused."""
    for name in ("current.jsonl", "before.jsonl"):
        put(folder, name, data)
    put(folder, "newest.json", resealed(data))
    store = Store(folder)
    Statistics(store).read()
    Failures(store).read()
    Refusals(store).read()


def _lines_seeds() -> list[bytes]:
    refused = {"format": 1, "epoch": 1, "offsets": "x", "error": "E", "answer": "a", "starts": 1, "since": "2026"}
    failed = {"at": "2026", "error": "E", "what": "w", "followed_by": "ended", "pid": 1, "epoch": 1, "recorded": None}
    files = kept("*/onceflow/statistics/current.jsonl", 4) + kept("*/onceflow/failures/current.jsonl", 4)
    return [*files, json.dumps(refused).encode(), json.dumps(failed).encode()]


# -- Spark's own files -----------------------------------------------------------------------------


def _spark_files(data: bytes, folder: Path) -> None:
    """A checkpoint of two epochs, of which the file that the first line names is another: what a start asks of it."""
    name, content = named(data.replace(b"/", b"%", data.partition(b"\n")[0].count(b"/")), b"offsets%1")
    for path, held in (_spark_checkpoint() | {name.replace("%", "/"): content}).items():
        if not any(part in ("", ".", "..") for part in path.split("/")):
            with contextlib.suppress(OSError):  # a folder is there by that name, or a file where a folder should be
                put(folder, path, held)
    checkpoint = SparkCheckpoint.at(folder)
    checkpoint.has_run()
    checkpoint.has_state_without_ids()
    checkpoint.query_id()
    checkpoint.watermark()
    checkpoint.read_nothing(1)
    checkpoint.shuffle_partitions()
    checkpoint.initial_offsets(0)
    checkpoint.other_than({0: "x", 1: "y"})
    checkpoint.beginning()
    checkpoint.require_complete(dict)
    checkpoint.mend(dict)
    shuffle_partitions(checkpoint.offsets(1))
    positions(checkpoint.offsets(1))


@functools.cache
def _spark_checkpoint() -> dict[str, bytes]:
    offsets = next(each for each in kept("*/checkpoint/offsets/1", 40) if each.startswith(b"v1"))
    commit = b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}'
    return {
        "offsets/0": offsets,
        "offsets/1": offsets,
        "commits/0": commit,
        "commits/1": commit,
        "metadata": kept("*/checkpoint/metadata", 1)[0],
        "sources/0/0": kept("*/sources/0/0", 1)[0],
    }


def _spark_seeds() -> list[bytes]:
    found = [name.encode() + b"\n" + data for name, data in _spark_checkpoint().items()]
    found += [b"commits/1\n" + each for each in kept("*/checkpoint/commits/*", 8)]
    return [*found, b"offsets/2\n" + _spark_checkpoint()["offsets/1"], b"offsets/007\nv1", b"commits/\xc2\xb2\nv1"]


def _positions(data: bytes, _: Path) -> None:
    """Two texts of offsets, a line of ``%%`` between them."""
    first, _, second = (part.decode("utf-8", "replace") for part in data.partition(b"\n%%\n"))
    watermark_behind(first)
    for a, b in zip(positions(first), positions(second), strict=False):
        records_between(a, b)
        reads_beyond(a, b)
        canonical(a)
    with_positions(first, ["{}"])
    partition_lags({"endOffset": first, "latestOffset": second})
    for line in positions(second):
        with contextlib.suppress(ConfigurationError):
            from_json(line)


def _position_seeds() -> list[bytes]:
    offsets = kept("*/checkpoint/offsets/*", 20)
    texts = [each for each in offsets if each.startswith(b"v1")]
    return [a + b"\n%%\n" + b for a, b in itertools.pairwise(texts)] + [b'v1\n{}\n{"logOffset":3}\n%%\n{"t":{"0":4}}']


def _states(data: bytes, folder: Path) -> None:
    """An operator's metadata and its schemas."""
    put(folder, "state/0/_metadata/v2/0", data)
    put(folder, "state/0/_metadata/metadata", data)
    put(folder, "state/0/0/_metadata/schema", data)
    put(folder, "state/1/0/_metadata/schema", data)
    store = Store(folder)
    state_names.names_in(store)
    state_schemas.bring_home(store)
    state_schemas.require_schemas(store)


def _state_seeds() -> list[bytes]:
    made = {
        "operatorPropertiesJson": json.dumps({"stateVariables": [{"stateName": "a"}]}),
        "stateStoreInfo": [{"storeName": "default", "stateSchemaFilePaths": ["file:/o/state/0/_stateSchema/x"]}],
    }
    found = kept("*/state/*/_metadata/metadata", 3) + kept("*/_metadata/schema", 5) + kept("*/_metadata/v2/*", 3)
    return [*found, b"v2\n" + json.dumps(made).encode()]


def _state_contents(data: bytes, folder: Path) -> None:
    """What a savepoint takes: a commit names versions of state; the input is one of their files."""
    which, _, content = data.partition(b"\n")
    files = {
        "state/0/_metadata/metadata": b'v1\n{"stateStoreInfo":[{"storeName":"default"}]}',
        "state/0/0/2_b.changelog": _changelog(),
        "state/0/0/1_a.zip": _snapshot(),
        "commit": b'v2\n{"stateUniqueIds":{"0":[["b"]]}}',
    }
    chosen = [*files][which[0] % len(files)] if which else "commit"
    for name, held in (files | {chosen: content, "state/0/0/SSTs/000008-a.sst": b"sst"}).items():
        put(folder, name, held)
    commit = (folder / "commit").read_text("utf-8", "replace")
    for path in state_files.files_of(state_files.Listed(folder_at(folder)), 1, commit):
        assert not path.startswith("/"), path
        assert ".." not in path.split("/"), path


def _state_content_seeds() -> list[bytes]:
    changelogs = kept("*/state/*/*.changelog", 3)
    return [
        b'\3\nv2\n{"stateUniqueIds":{"0":[["b"]]}}',
        b'\0\nv1\n{"stateStoreInfo":[{"storeName":"default"}]}',
        b"\1\n" + _changelog(),
        *(b"\1\n" + each for each in changelogs if len(each) < 4_000),
        b"\2\n" + _snapshot(),
    ]


def _changelog() -> bytes:
    lineage = b'[{"version":1,"checkpointUniqueId":"a"}]'
    return checkpoints.lz4(b"\0\2v3" + len(lineage).to_bytes(2, "big") + lineage + b"\xff" * 4)


def _snapshot() -> bytes:
    with zipfile.ZipFile(data := io.BytesIO(), "w") as archive:
        archive.writestr("metadata", 'v1\n{"sstFiles":[{"dfsSstFileName":"000008-a.sst"}]}')
    return data.getvalue()


# -- savepoints --------------------------------------------------------------------------------------


_OF_SAVEPOINT = b"v1\n{}\n{}"


def _savepoint(data: bytes, folder: Path) -> None:
    path = folder / "s"
    put(path, "manifest.json", resealed(data))
    for name in ("offsets/0", "onceflow/job.json"):
        put(path, f"files/{name}", _OF_SAVEPOINT)
    reading.found(folder)
    reading.unfinished(folder)
    reading.verify(path)


def _savepoint_seeds() -> list[bytes]:
    held = HeldFile(len(_OF_SAVEPOINT), hashlib.sha256(_OF_SAVEPOINT).hexdigest())
    made = Manifest(
        "s-1", datetime(2026, 1, 1, tzinfo=UTC).isoformat(), "fraud", _JOB, "file:/c", "onceflow", "cluster", 4, 4,
        "v1\n{}\n{}", ("alerts",), {"onceflow": "0.1.0"}, {"journal": "3"}, 2,
        {"offsets/0": held, "onceflow/job.json": held},
    )  # fmt: skip
    return unsealed([made.dumps()])


# -- what crosses a crash ------------------------------------------------------------------------------


def _reports(data: bytes, _: Path) -> None:
    text = data.decode("utf-8", "replace")
    read = TaskReport.loads(text)
    assert TaskReport.loads(read.dumps()) == read


def _participants(data: bytes, _: Path) -> None:
    assert Participant.from_json(json.loads(data)).digest >= 0


def _prepared(data: bytes, _: Path) -> None:
    """They never raise, whatever they are given."""
    with contextlib.suppress(ValueError, RecursionError):
        value: Any = json.loads(data)
        _never(prepared.read, value)
        _never(prepared.read_handle, value)
        if isinstance(value, dict):
            for read in (LakeStaged.read, DatabaseStaged.read):
                told = _never(read, value)
                if told is not None:
                    _never(told.to_json)


def _never(read: Any, *args: Any) -> Any:
    try:
        return read(*args)
    except (ValueError, RecursionError) as error:  # else it were taken for one of the JSON
        raise AssertionError(f"it raises {type(error).__name__}") from error


def _prepared_seeds() -> list[bytes]:
    kafka = {
        "version": 1,
        "transactional_id": "t",
        "producer_id": 1,
        "producer_epoch": 2,
        "partitions": [["t", 0]],
        "witness": {"topic": "t", "partition": 0, "offset": 5, "cluster_id": "c", "topic_id": "i"},
    }
    lake = {
        "kind": "onceflow lake",
        "table": "t",
        "attempts": [["j", "s", "1-2-3-4-0123456789abcde", 5, "d"]],
        "sealed": {
            "handle": "h",
            "incarnation": 1,
            "epoch": 2,
            "seat": "s",
            "shape": {"a": 1},
            "after": "",
            "claimed": 0,
        },
    }
    target = {
        "schema": None,
        "table": "t",
        "staged": "s",
        "columns": ["a"],
        "key": ["a"],
        "deletes": False,
        "direct": False,
        "ordered": "",
    }
    table = {
        "kind": "onceflow database",
        "system": "s",
        "attempts": [["a", 5, 77]],
        "sealed": {"incarnation": 1, "epoch": 2, "target": target, "after": "", "claimed": 0},
    }
    return [json.dumps(each).encode() for each in (kafka, lake, table)]


def _participant_seeds() -> list[bytes]:
    of = [
        {"sink": "a", "handle": "h", "parts": [[0, 5, 77, "t-0"]], "transaction": json.loads(each)}
        for each in _prepared_seeds()
    ]
    return [json.dumps(each).encode() for each in of]


def _report_seeds() -> list[bytes]:
    of = {"sink": "a", "task": 0, "attempt": 1, "parts": [[0, 5, 77, "t-0"]], "transaction": {"id": "x"}}
    return [json.dumps(of).encode(), json.dumps(of | {"transaction": None}).encode()]


def _journal_seeds() -> list[bytes]:
    """Those that are kept, and one of each kind that is rare, behind the newest of the journal above."""
    place = len(kept("*count-D7*/onceflow/journal/*.json", 40)) + 1
    offsets = checkpoints.offsets(7)
    of = Participant("alerts", "h-1", (Part("alerts", 0, 5, 77, "t-0"),), {"id": "h-1"})
    newest, who = Newest("alerts", "h-0", 1, 6, 5), ParticipantId(("alerts", "h-1"))
    made = (
        Start(2, _JOB, Claim(("alerts",), (newest,)), {"alerts": "cluster"}, (newest,)),
        Recut(1, 7, 3), Skip(1, 7, offsets, offsets), Void(1, 7), ReplayBegin(1, 7, 1),
        Decide(1, 7, offsets, ("alerts",), (of,), 5, '{"sinks":{}}', (newest,)),
        Replay(1, 7, 1, "parts", (of,), (who,), '{"sinks":{}}'), Resolve(1, 7, "give-up-rows", (who,), "ann", "gone"),
        LayoutRecord(1, checkpoints.LAYOUT),
    )  # fmt: skip
    rare = [encode(JournalEntry(place, "0" * 32, 1, record)) for record in made]
    return unsealed([*kept("*/onceflow/journal/*.json", 8), *rare])


TARGETS = (
    Target("journal-record", _journal_record, OTHER_FORM, _journal_seeds),
    Target("journal", _journal, (OnceflowError, HistoryError), _journal_seeds),
    Target("receipts", _receipts, (OnceflowError,), _receipt_seeds),
    Target("trail", _trail, (OnceflowError,), _trail_seeds),
    Target("audit-chain", _chain, (), _trail_seeds),
    Target(
        "audit-journal",
        _chain_journal,
        (),
        lambda: [b"\n".join(_journal_seeds())],
    ),
    Target("identity", _identity, (OnceflowError,), lambda: unsealed(kept("*/onceflow/job.json", 3))),
    Target(
        "marks",
        _marks,
        (),
        lambda: [
            b'{"incarnation":1,"nonce":"a","epoch":4}',
            b'{"jobs":[["0123456789ab","file:/c"]]}',
            b"onceflow-0123456789ab-1-alerts-0-1-0",
        ],
    ),
    Target("small-files", _small_files, (OnceflowError,), _small_seeds),
    Target("lines", _lines, (), _lines_seeds),
    Target("spark-files", _spark_files, (OnceflowError,), _spark_seeds),
    Target("positions", _positions, (OnceflowError,), _position_seeds),
    Target("states", _states, (OnceflowError,), _state_seeds),
    Target("state-contents", _state_contents, (state_files.UnreadableStateError, OSError), _state_content_seeds),
    Target("savepoint", _savepoint, (OnceflowError,), _savepoint_seeds),
    Target("reports", _reports, OTHER_FORM, _report_seeds),
    Target("participants", _participants, OTHER_FORM, _participant_seeds),
    Target("prepared", _prepared, (), _prepared_seeds),
)


def _one_line(data: bytes) -> bytes:
    return json.dumps(json.loads(data)).encode()
