"""Checkpoints for tests, as Spark and a job leave them: offsets, commits, state by ids, and a real journal.

State is of one operator with two partitions. Versions up to 2 are changelogs from nothing; version 3 is a snapshot that
names a shared file; those behind it are changelogs that rest on it.
"""

import io
import json
import zipfile
from pathlib import Path

import pyarrow as pa

from onceflow.checkpoint.identity import JobIdentity, create_identity
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.restored import read_restored
from onceflow.launch.ownership import require_complete
from onceflow.operations.savepoints import reading, restoring, resuming, writing
from onceflow.spark.locations import folder_at, place_at
from onceflow.storage.tree import Folder, folder_of
from onceflow.twophase.layout import Layout, LayoutSource, StateOperator, Topic
from onceflow.twophase.participants import Part, Participant
from onceflow.twophase.records import Decide, LayoutRecord

JOB = "0123456789ab"
LAYOUT = Layout(
    (LayoutSource(("alerts",), "cluster", "kafka:payments", "0", (Topic("payments", "id-1", 2),), 0),),
    (StateOperator(("alerts",), "stateStoreSave:key", "0"),),
)
SNAPSHOT = 3


def offsets(epoch: int, partitions: int = 2) -> str:
    """What ``offsets/<epoch>`` holds: ten records of each partition an epoch."""
    head = {"batchWatermarkMs": 0, "conf": {"spark.sql.shuffle.partitions": str(partitions)}}
    at = 10 * (epoch + 1)
    return "\n".join(["v1", json.dumps(head), json.dumps({"payments": {"0": at, "1": at}})])


def state_id(version: int, partition: int) -> str:
    """The id of a version of a partition."""
    return f"{version:08d}-{partition}"


def make(folder: Path, epochs: int, *, state: bool = True, decide: bool = True, system: str = "cluster") -> Place:
    """A checkpoint with so many epochs done."""
    place = Place.at(folder, retain=100)
    place.ours.make()
    place.records.make()
    create_identity(place.ours, JobIdentity(JOB, place.uri, system, "onceflow"))
    write(folder / "metadata", json.dumps({"id": "the query"}))
    write(folder / "sources" / "0" / "0", '\0v1\n{"payments":{"0":0,"1":0}}')
    place.journal.start(JOB)
    place.journal.append(LayoutRecord(1, LAYOUT))
    if state:
        told = {"operatorInfo": {"operatorId": 0}, "stateStoreInfo": [{"storeName": "default", "numPartitions": 2}]}
        write(folder / "state" / "0" / "_metadata" / "metadata", "v1\n" + json.dumps(told))
        write(folder / "state" / "0" / "0" / "_metadata" / "schema", "a schema")
    for epoch in range(epochs):
        run(place, epoch, state=state, decide=decide)
    return place


def run(
    place: Place,
    epoch: int,
    *,
    state: bool = True,
    decide: bool = True,
    recorded: bool = True,
    incarnation: int = 1,
) -> None:
    """One more epoch: planned, decided and recorded as done."""
    folder = place.checkpoint.folder
    write(folder / "offsets" / str(epoch), offsets(epoch))
    if decide:
        of = Participant("alerts", f"handle-{epoch}", (Part("alerts", 0, 5, epoch, ""),), {"id": f"handle-{epoch}"})
        place.journal.append(Decide(incarnation, epoch, offsets(epoch), ("alerts",), (of,)))
    if state:
        for partition in (0, 1):
            _version(folder / "state" / "0" / str(partition), epoch + 1, partition)
    if recorded:
        ids = {"0": [[state_id(epoch + 1, partition)] for partition in (0, 1)]} if state else {}
        write(folder / "commits" / str(epoch), "v2\n" + json.dumps({"nextBatchWatermarkMs": 0, "stateUniqueIds": ids}))


def _version(folder: Path, version: int, partition: int) -> None:
    first = SNAPSHOT if version > SNAPSHOT else 1
    lineage = [{"version": v, "checkpointUniqueId": state_id(v, partition)} for v in range(first, version)]
    head = b"".join(len(text).to_bytes(2, "big") + text for text in (b"v3", json.dumps(lineage).encode()))
    write(folder / f"{version}_{state_id(version, partition)}.changelog", lz4(head + b"\xff" * 4))
    write(folder / f"{version}_{state_id(version, partition)}.changelog.crc", '{"algorithm":"CRC32C"}')
    if version == SNAPSHOT:
        with zipfile.ZipFile(data := io.BytesIO(), "w") as archive:
            shared = [{"localFileName": "000008.sst", "dfsSstFileName": "000008-a.sst", "sizeBytes": 3}]
            archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": shared, "numKeys": 1}))
        write(folder / f"{version}_{state_id(version, partition)}.zip", data.getvalue())
        write(folder / "SSTs" / "000008-a.sst", "sst")
        write(folder / "SSTs" / "000009-b.sst", "of another version")


def lz4(data: bytes) -> bytes:
    """Data as Java's block stream packs it, in blocks of 64 bytes, every second of them as it is."""
    out = b""
    for number, at in enumerate(range(0, len(data), 64)):
        block = data[at : at + 64]
        packed = pa.Codec("lz4_raw").compress(block, asbytes=True) if number % 2 else block
        kind = 0x25 if number % 2 else 0x15
        sizes = len(packed).to_bytes(4, "little") + len(block).to_bytes(4, "little")
        out += b"LZ4Block" + bytes([kind]) + sizes + b"\0" * 4 + packed
    return out


def write(path: Path, data: str | bytes) -> None:
    """A file, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def copied(place: Place, local: Path, epochs: int) -> Place:
    """A checkpoint elsewhere with so many epochs done: Spark's files of one on a disk, and a journal of its own."""
    make(local, epochs)
    source, to = Folder(local), folder_of(place.checkpoint.store)
    for path in source.files():
        if not path.startswith("onceflow/"):
            to.write(path, source.read(path))
    place.ours.make()
    place.records.make()
    create_identity(place.ours, JobIdentity(JOB, place.uri, "cluster", "onceflow"))
    place.journal.start(JOB)
    place.journal.append(LayoutRecord(1, LAYOUT))
    for epoch in range(epochs):
        place.journal.append(Decide(1, epoch, offsets(epoch), ("alerts",), ()))
    return place


def it_travels(of: Place, to: str, back: str) -> None:
    """A savepoint of a checkpoint, at one place and exported to another: the same files, and gone on from on both."""
    source = folder_of(of.checkpoint.store)
    savepoint = f"{to}/{of.checkpoint.newest_commit()}-s"
    manifest = writing.create(of, savepoint).manifest
    assert reading.verify(savepoint) == manifest
    files = folder_at(savepoint).below(reading.FILES)
    assert sorted(files.files()) == sorted(manifest.files)
    for path in manifest.files:
        assert files.read(path) == source.read(path)
    assert [name for name in of.ours.names() if name.startswith("savepoint-")] == []
    writing.export(savepoint, f"{back}/{manifest.id}")
    assert reading.verify(f"{back}/{manifest.id}") == manifest
    for at in (to, back):
        for number, taken in enumerate((savepoint, f"{back}/{manifest.id}")):
            new = place_at(f"{at}/n-{number}-{manifest.id}", 100)
            restored = restoring.restore(taken, manifest, new)
            require_complete(new)
            assert read_restored(new.ours) == restored
            assert new.checkpoint.newest_commit() == manifest.epoch
            assert new.checkpoint.offsets(manifest.epoch) == of.checkpoint.offsets(manifest.epoch)
        if to == back:
            break
    with resuming.opened(f"{of.uri}@1", f"{to}/new") as (temporary, older):
        assert (older.epoch, reading.verify(temporary).epoch) == (1, 1)
    assert not folder_at(temporary).is_taken()
    assert writing.dispose(savepoint) == []
    assert not folder_at(savepoint).is_taken()
