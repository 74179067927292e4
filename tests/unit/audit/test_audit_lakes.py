"""The audit of lake tables: the files of each epoch, with the rows that were decided; and what others did to them."""

import copy
import json
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DATA_FILE_TYPE
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

from onceflow.audit import lakes
from onceflow.audit.verify import Asked, audit
from onceflow.cli.audit import plain
from onceflow.twophase.messages import Reply
from onceflow.twophase.records import Decide
from tests.support.audited_lake import FilledLake
from tests.support.audited_table import whats
from tests.support.keyed_rows import KEY
from tests.support.lake_tables import MADE
from tests.support.lakes import DeltaWorld, IcebergWorld
from tests.support.xx64 import fitting, xx64


@pytest.fixture(params=[IcebergWorld, DeltaWorld])
def filled(request, tmp_path):
    (tmp_path / "lake").mkdir()
    made = FilledLake(request.param(tmp_path / "lake"), tmp_path / "checkpoint", ["a", "bb", "c"], ["d"], ["é", ""])
    yield made
    made.start.close()


def test_a_table_as_it_was_decided_is_good(filled):
    """Each epoch by its own files, also some epochs alone."""
    report = filled.audit()
    assert report["findings"] == []
    assert (report["epochs"], report["rows"], report["read"]) == (3, 6, 6)
    assert filled.audit(first=1, last=2)["rows"] == 3


def test_with_the_key_each_row_is_proven_and_what_the_journal_alone_has_is_not_believed(filled):
    """Files of a decision that somebody wrote into the journal, which is not signed: their rows are unknown."""
    report = filled.audit(key=KEY)
    assert (report["findings"], report["rows"], report["keyed"]) == ([], 6, 6)
    made = filled.start.seal([filled.task(3, 0, ["thief"])], 3)
    filled.journal.append(Decide(1, 3, "v1\n{}\n3", (filled.sink.name,), tuple(made)))
    assert set(filled.start.committer.commit(made).values()) == {Reply.COMMITTED}
    report = filled.audit(key=KEY)
    assert (report["unknown"], report["keyed"], report["against"]) == (1, 6, "accidents")
    assert "are of attempts that no receipt has, and the journal does" in whats(report, "unknown")[0]


def test_a_value_that_was_changed_in_a_file_is_found(filled):
    """Of exactly the epoch that it is of."""
    (changed,) = (
        path for path in filled.world.data() if "/0/" in str(path) and "/1/0/" in str(path) and _has(path, "a")
    )
    table = pq.read_table(changed)
    schema = table.schema
    pq.write_table(pa.table([["a"], [2]], schema=schema), changed)
    report = filled.audit()
    assert (report["changed"], report["rows"], report["good"]) == (3, 3, False)
    assert "epoch 0: its 3 rows are not those that were decided" in whats(report, "changed")[0]


def _has(path, key):
    return key in pq.read_table(path).column(0).to_pylist()


def test_rows_of_somebody_else_are_counted_apart(filled):
    """They are no receipt's; ours are proven all the same."""
    filled.world.append(pa.table({"key": ["x", "y"], "amount": [1, 1]}))
    report = filled.audit()
    assert (report["foreign"], report["rows"], report["good"]) == (2, 6, False)


def test_files_of_a_job_before_the_trail_began_are_told_apart(filled):
    """A claimed savepoint brings no receipts: the job's own older files are a note, somebody else's are foreign."""
    older = filled.start.seal([filled.task(99, 0, ["older"])], 99)
    assert set(filled.start.committer.commit(older).values()) == {Reply.COMMITTED}
    report = filled.audit()
    assert (report["foreign"], report["good"], report["rows"]) == (0, True, 6)
    assert [t for t in whats(report, "note") if "before the first receipt" in t]
    filled.world.append(pa.table({"key": ["x"], "amount": [1]}))
    assert filled.audit()["foreign"] == 1


def test_a_version_that_was_put_back_misses_its_newest_epoch(filled):
    """The table is as it was before: rows that were decided are not there."""
    filled.world.put_back()
    report = filled.audit()
    assert (report["missing"], report["rows"]) == (2, 4)
    assert "epoch 2: 2 of 2 rows are not in the table's newest version" in whats(report, "missing")[0]


def test_a_table_that_was_tidied_up_is_unknown(filled):
    """Compaction writes rows into files of its own: which of them are whose, nobody can say."""
    filled.world.tidy_up()
    report = filled.audit()
    assert (report["missing"], report["foreign"], report["rows"]) == (0, 0, 0)
    assert (report["unknown"], len(whats(report, "note"))) == (6, 1)


def test_a_table_that_is_not_reached_is_unknown(filled):
    """It does not pass for good rows, and the reason is told."""
    filled.world.drop()
    report = filled.audit()
    assert (report["rows"], report["unknown"]) == (0, 6)


def test_a_data_file_that_was_made_to_fit_is_found_with_the_key(filled):
    """Another payment with the digest of the decided one takes no search; without the key bounds alone tell."""
    paid = "pay    10 to ann payment"
    filled.epoch(3, [paid])
    seed = xx64(filled.to.encode(), 42)
    forged = fitting(seed, xx64(paid.encode(), seed), b"pay 99999 to eve")
    (path,) = (each for each in filled.world.data() if _has(each, paid))
    size = path.stat().st_size
    schema = pq.read_table(path).schema
    binary = pa.large_binary() if pa.types.is_large_string(schema.field("key").type) else pa.binary()
    key = pa.array([forged], binary).view(schema.field("key").type)
    pq.write_table(pa.table([key, [1]], schema=schema), path)
    named_as_long(filled.world, size, path)
    blind, report = filled.audit(), filled.audit(key=KEY)
    assert (blind["against"], blind["keyed"]) == ("accidents", 0)
    assert [each for each in whats(blind, "changed") if "within which bounds" not in each] == []
    assert (report["good"], report["changed"], report["keyed"]) == (False, 1, 6)
    assert "epoch 3: its 1 rows were made to fit the digest" in whats(report, "changed")[0]


def test_a_text_that_is_none_keeps_no_row_from_being_looked_at(filled):
    """Parquet keeps any bytes in a column of texts; one of them made the whole table unknown, under exit code 0."""
    (path,) = (each for each in filled.world.data() if _has(each, "d"))
    schema = pq.read_table(path).schema
    binary = pa.large_binary() if pa.types.is_large_string(schema.field("key").type) else pa.binary()
    size = path.stat().st_size
    pq.write_table(pa.table([pa.array([b"\xff"], binary).view(schema.field("key").type), [1]], schema=schema), path)
    named_as_long(filled.world, size, path)
    report = filled.audit()
    assert (report["good"], report["changed"], report["rows"], report["unknown"]) == (False, 1, 5, 0)


@pytest.mark.parametrize("ours", [False, True])
def test_files_of_others_behind_a_head_that_was_cut_are_told(filled, ours):
    """Nobody can say any more whether an epoch before the first receipt had them: it is said, and proves nothing.

    A name like ours, which anybody gives a file, makes no proof of it.
    """
    cut_the_head(filled)
    if ours:
        older = filled.start.seal([filled.task(99, 0, ["thief"])], 99)
        assert set(filled.start.committer.commit(older).values()) == {Reply.COMMITTED}
    else:
        filled.world.append(pa.table({"key": ["thief"], "amount": [1]}))
    report = filled.audit(key=KEY)
    assert (report["rows"], report["keyed"], report["against"]) == (3, 3, "accidents")
    told = [t for kind in ("note", "unknown") for t in whats(report, kind) if "before the first receipt" in t]
    assert any(" rows in " in t for t in told)
    young = filled.audit(key=KEY, retention=timedelta(days=7))
    assert not young["good"]
    assert "receipt removed: the first 1" in whats(young, "receipt")[0]


def cut_the_head(filled):
    """The first receipt, by one who can write to the checkpoint: the journal, too."""
    (file,) = (filled.folder / "onceflow" / "audit").iterdir()
    file.write_text("".join(file.read_text().splitlines(keepends=True)[1:]))
    for path in (filled.folder / "onceflow" / "journal").glob("*.json"):
        path.unlink()


def named_as_long(world, before, path):
    """Delta's log names each file's length, and it is no more signed than the file is."""
    for log in world.folder.glob("**/_delta_log/*.json"):
        text = log.read_text()
        if path.name in text:
            log.write_text(text.replace(f'"size":{before}', f'"size":{path.stat().st_size}'))


def test_a_data_file_that_was_written_over_is_told_of_its_epoch(filled):
    """By one that is no Parquet, or of another length than the table names: the others are compared all the same."""
    (path,) = (each for each in filled.world.data() if _has(each, "d"))
    path.write_bytes(path.read_bytes()[:-9])
    report = filled.audit(key=KEY)
    assert (report["good"], report["changed"], report["keyed"], report["unknown"]) == (False, 1, 5, 0)
    assert f"{path.name} is no such file any more" in whats(report, "changed")[0]


def test_a_sink_that_was_renamed_has_its_older_rows_still(filled):
    """They are not somebody else's: the table's files have them, and the receipts say that they went here."""
    renamed = plain(filled.sink) | {"name": "called otherwise"}
    report = audit(Asked(filled.folder, [renamed], key=KEY)).report(shared=False)
    assert (report["findings"], report["rows"], report["keyed"]) == ([], 6, 6)
    filled.world.append(pa.table({"key": ["x"], "amount": [1]}))
    report = audit(Asked(filled.folder, [renamed], key=KEY)).report(shared=False)
    assert (report["good"], report["foreign"]) == (False, 1)


_DATA_FILE = [field.name for field in DATA_FILE_TYPE[2].fields]


def rewritten(world, change):
    """The table's newest version with another word of its first file, as who may write to the catalog makes it."""
    table = world.table()
    (old, *_) = (task.file for task in table.scan().plan_files())
    new = copy.copy(old)
    new._data = copy.deepcopy(old._data)
    for name, value in change.items():
        new._data[_DATA_FILE.index(name)] = value
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as made:
        made.delete_data_file(old)
        made.append_data_file(new)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"record_count": 9}, "how many rows it has"),
        ({"partition": Record("thief")}, "of which key it is"),
        ({"lower_bounds": {1: b"z"}}, "within which bounds its key are"),
        ({"upper_bounds": {2: (0).to_bytes(8, "little")}}, "within which bounds its amount"),
    ],
)
@pytest.mark.parametrize("key", [None, KEY])
def test_what_a_table_of_iceberg_says_of_a_file_against_its_rows_is_found(tmp_path, change, said, key):
    """Readers take counts, values of partitions and bounds from there: the rows are as they were, unseen."""
    (tmp_path / "lake").mkdir()
    world = IcebergWorld(tmp_path / "lake")
    schema = Schema(NestedField(1, "key", StringType()), NestedField(2, "amount", LongType()))
    world.catalog().create_namespace("bank")
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "p"))
    world.catalog().create_table("bank.payments", schema, partition_spec=spec)
    made = FilledLake(world, tmp_path / "checkpoint", ["a", "bb", "c"], ["d" * 40])
    honest = made.audit(key=key)
    assert (honest["good"], honest["findings"]) == (True, [])
    rewritten(world, change)
    report = made.audit(key=key)
    made.start.close()
    assert not report["good"], report
    assert said in whats(report, "changed")[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"numRecords": 9}, "how many rows it has"),
        ({"minValues": {"key": "z"}, "maxValues": {"key": "zz"}}, "within which bounds its columns are"),
        ({"nullCount": {"key": 1, "amount": 0}}, "its 1 rows are not those that were decided"),
    ],
)
def test_what_a_table_of_delta_says_of_a_file_against_its_rows_is_found(tmp_path, change, said):
    """In the newest file of its log."""
    (tmp_path / "lake").mkdir()
    made = FilledLake(DeltaWorld(tmp_path / "lake"), tmp_path / "checkpoint", ["a", "bb", "c"], ["d"])
    assert made.audit(key=KEY)["findings"] == []
    newest = max((tmp_path / "lake" / "payments" / "_delta_log").glob("*.json"))
    lines = [json.loads(line) for line in newest.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["stats"] = json.dumps(json.loads(line["add"]["stats"]) | change)
    newest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = made.audit(key=KEY)
    made.start.close()
    assert not report["good"], report
    assert said in whats(report, "changed")[0]


@pytest.mark.parametrize("name", sorted(MADE))
def test_what_an_honest_table_says_of_its_files_is_so(name, tmp_path):
    """Of each type, from edge to edge, with nulls, and in partitions."""
    made = MADE[name](tmp_path)
    sink = plain(made.world.sink())
    files = list((lakes._iceberg if made.is_iceberg else lakes._delta)(sink))
    assert len(files) > 3
    assert [said for file in files if (said := file.belied(file.rows()))] == []
