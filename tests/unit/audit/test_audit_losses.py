"""What was lost or doubled in silence once, done again to a table behind a job's back: the audit tells each of it.

Must not know: how a job would notice it; here none runs.
"""

from __future__ import annotations

import shutil
import sqlite3

import pyarrow as pa
import pytest

from tests.support.audited_lake import FilledLake
from tests.support.audited_table import Filled
from tests.support.lakes import FIELDS, DeltaWorld, IcebergWorld, LakeWorld

FIRST = (["a", "bb", "ccc"],)
LATER = (["dddd"], ["é", "", "g"])


class Sqlite:
    """A database that is a file, and a backup of it from between the epochs."""

    def __init__(self, folder) -> None:
        self._file, self._backup = folder / "bank.db", folder / "backup.db"
        self.job = Filled(folder / "checkpoint", f"sqlite:///{self._file}", *FIRST)
        shutil.copy(self._file, self._backup)
        for epoch, keys in enumerate(LATER, len(FIRST)):
            self.job.epoch(epoch, keys)

    def does(self, *statements) -> None:
        with sqlite3.connect(self._file) as connection:
            for each in statements:
                connection.execute(each)

    def put_back(self) -> None:
        shutil.copy(self._backup, self._file)

    def made_again(self) -> None:
        made = "select sql from sqlite_master where name = 'payments'"
        with sqlite3.connect(self._file) as connection:
            (statement,) = connection.execute(made).fetchone()
        self.does("drop table payments", statement)


@pytest.mark.parametrize(
    ("harm", "counts"),
    [
        (lambda s: s.put_back(), {"missing": 4}),
        (lambda s: s.does("delete from payments"), {"missing": 7}),
        (lambda s: s.does("delete from payments where key = 'g'"), {"missing": 1}),
        (lambda s: s.does("insert into payments select * from payments where key = 'g'"), {"foreign": 1}),
        (
            lambda s: s.does(
                "insert into payments select * from payments where key = 'g'", "delete from payments where key = 'bb'"
            ),
            {"changed": 1},
        ),
        (lambda s: s.made_again(), {"missing": 7}),
        (lambda s: s.does("drop table payments"), {"missing": 7}),
        (lambda s: s.does("delete from onceflow_ledger"), {"missing": 7}),
        (
            lambda s: s.does("delete from onceflow_ledger where epoch = 2", "delete from payments where key > 'dddd'"),
            {"missing": 3},
        ),
        (
            lambda s: s.does(*(f"drop table onceflow_{name}" for name in ("ledger", "attempts", "marks"))),
            {"unknown": 7},
        ),
    ],
    ids=[
        "put back",
        "emptied",
        "a row deleted",
        "a row doubled",
        "a row doubled and another deleted",
        "dropped and made again",
        "dropped",
        "the ledger emptied",
        "an epoch taken out of both",
        "our tables dropped",
    ],
)
def test_of_a_database(tmp_path, harm, counts):
    """With how many rows, where it can be told; never as good."""
    system = Sqlite(tmp_path)
    assert system.job.audit()["good"]
    harm(system)
    report = system.job.audit()
    assert not report["good"]
    assert {kind: report[kind] for kind in counts} == counts


class Lake:
    """A lake table in a folder, and a backup of it from between the epochs."""

    def __init__(self, kind: type[LakeWorld], folder) -> None:
        self._folder, self._backup = folder / "lake", folder / "backup"
        self._folder.mkdir()
        self.world = kind(self._folder)
        self.job = FilledLake(self.world, folder / "checkpoint", *FIRST)
        shutil.copytree(self._folder, self._backup)
        for epoch, keys in enumerate(LATER, len(FIRST)):
            self.job.epoch(epoch, keys)

    def put_back(self) -> None:
        shutil.rmtree(self._folder)
        shutil.copytree(self._backup, self._folder)

    def emptied(self) -> None:
        self.world.table().delete()

    def deleted(self) -> None:
        self.world.table().delete("key = 'g'")

    def doubled(self) -> None:
        rows = self.world.read()
        self.world.append(rows.filter(pa.compute.equal(rows.column("key"), "g")))

    def made_again(self) -> None:
        self.world.drop()
        sink = self.world.sink()
        connection = sink.connect()
        connection.make_output(FIELDS)

    def without_a_file(self) -> None:
        self.world.data()[0].unlink()


@pytest.mark.parametrize("kind", [IcebergWorld, DeltaWorld])
@pytest.mark.parametrize(
    ("harm", "counts"),
    [
        ("put_back", {"missing": 4}),
        ("emptied", {"missing": 7}),
        ("deleted", {"missing": 1}),
        ("doubled", {"foreign": 1}),
        ("made_again", {"missing": 7}),
        ("without_a_file", {"unknown": 7}),
    ],
)
def test_of_a_lake_table(tmp_path, kind, harm, counts):
    """With how many rows, where it can be told; never as good."""
    lake = Lake(kind, tmp_path)
    assert lake.job.audit()["good"]
    getattr(lake, harm)()
    report = lake.job.audit()
    assert not report["good"]
    assert {kind: report[kind] for kind in counts} == counts


@pytest.mark.parametrize("kind", [IcebergWorld, DeltaWorld])
def test_as_many_rows_written_anew_as_are_gone_are_unknown(tmp_path, kind):
    """A row that was doubled by one who took another one's place: which rows a compaction has written nobody tells."""
    lake = Lake(kind, tmp_path)
    lake.doubled()
    lake.world.table().delete("key = 'bb'")
    report = lake.job.audit()
    assert (report["missing"], report["foreign"]) == (0, 0)
    assert report["unknown"] > 0
