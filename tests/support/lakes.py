"""Tables of Iceberg and Delta to try a sink on: what the sink gets, and what others do to the table meanwhile."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyspark.sql.types import LongType, StringType, StructField, StructType

from onceflow.connectors.lake.sinks import DeltaSink, IcebergSink
from onceflow.testing import World

FIELDS = StructType([StructField("key", StringType()), StructField("amount", LongType())])


class LakeWorld(World):
    """A table with a key and an amount, which its sink makes."""

    folder: Path
    fields = FIELDS

    def output(self) -> StructType:
        return self.fields

    def rows(self, keys):
        return pa.RecordBatch.from_pydict({"key": list(keys), "amount": [1] * len(keys)})

    def open_transactions(self, job_id):
        return len(self.lists(job_id))

    def lists(self, job_id: str = "*") -> list[Path]:
        """Lists of attempts that are there."""
        return sorted(self.folder.glob(f"**/_onceflow/attempts/{job_id}/**/*.json"))

    def data(self) -> list[Path]:
        """Data files that the sink wrote, whatever has become of them."""
        return sorted(self.folder.glob("**/onceflow/**/*.parquet"))

    def visible(self):
        try:
            return [] if (found := self.read()) is None else found.column("key").to_pylist()
        except KeyError:  # it has no columns yet
            return []

    def whole(self):
        """Each row, by column."""
        return [] if (found := self.read()) is None else found.to_pylist()


class IcebergWorld(LakeWorld):
    """A table of an SQL catalog in a file."""

    secrets = ("s3-geheim",)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}",
            "s3.secret-access-key": "s3-geheim",
        }

    def sink(self) -> IcebergSink:
        return IcebergSink("lake", "bank.payments", properties=self.settings, create_table=True)

    def second_sink(self) -> IcebergSink:
        return IcebergSink("lake", "bank.payments", properties=self.settings, name="second")

    def catalog(self):
        return load_catalog("lake", **self.settings)

    def table(self):
        return self.catalog().load_table("bank.payments")

    def read(self) -> pa.Table | None:
        try:
            return self.table().scan().to_arrow()
        except NoSuchTableError:
            return None

    def append(self, rows: pa.Table) -> None:
        """What another writer does, until it was first."""
        while True:
            with suppress(CommitFailedException):
                return self.table().append(rows)

    def tidy_up(self) -> None:
        """What others do to keep a table in order: its rows in other files, no older version."""
        self.table().overwrite(self.table().scan().to_arrow())
        table = self.table()
        older = [s.snapshot_id for s in table.snapshots() if s.snapshot_id != table.current_snapshot().snapshot_id]
        if older:
            table.maintenance.expire_snapshots().by_ids(older).commit()

    def drop(self) -> None:
        """Drop the table and all files."""
        where = self.table().location().removeprefix("file://")
        self.catalog().drop_table("bank.payments")
        shutil.rmtree(where)

    def put_back(self) -> None:
        """As a backup of before the newest version does it: the catalog names the metadata of before."""
        with sqlite3.connect(self.folder / "catalog.db") as file:
            file.execute("update iceberg_tables set metadata_location = previous_metadata_location")

    def upgrade(self) -> None:
        """Another engine makes it a table of format version 3; pyiceberg reads such ones, and makes none."""
        old = Path(self.table().metadata_location.removeprefix("file://"))
        new = old.with_name(f"99999-{old.name}")
        new.write_text(json.dumps(json.loads(old.read_text()) | {"format-version": 3, "next-row-id": 1000}))
        with sqlite3.connect(self.folder / "catalog.db") as file:
            file.execute("update iceberg_tables set metadata_location = ?", [f"file://{new}"])

    def versions(self) -> list[dict[str, Any]]:
        """What the table's history says of each version."""
        return [dict(s.summary.additional_properties) for s in self.table().snapshots()]


class DeltaWorld(LakeWorld):
    """A table in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "payments"

    def sink(self) -> DeltaSink:
        return DeltaSink(self.path, create_table=True)

    def second_sink(self) -> DeltaSink:
        return DeltaSink(self.path, name="second")

    def table(self) -> DeltaTable:
        return DeltaTable(self.path)

    def read(self) -> pa.Table | None:
        try:
            return self.table().to_pyarrow_table()
        except TableNotFoundError:
            return None

    def append(self, rows: pa.Table) -> None:
        """What another writer does."""
        write_deltalake(self.path, rows, mode="append")

    def tidy_up(self) -> None:
        """What others do to keep a table in order: its rows in other files, no file that the newest does not name."""
        self.table().optimize.compact()
        self.table().create_checkpoint()
        self.table().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)

    def drop(self) -> None:
        """Drop the table and all files."""
        shutil.rmtree(self.path)

    def put_back(self) -> None:
        """As a backup of before the newest version does it."""
        max((self.path / "_delta_log").glob("*.json")).unlink()

    def upgrade(self, feature: str, *, readers: bool = False) -> None:
        """Another engine gives it a feature, of which its readers may have to know, too."""
        log = self.path / "_delta_log"
        version = max(int(each.stem) for each in log.glob("*.json")) + 1
        features = {"writerFeatures": [feature]} | ({"readerFeatures": [feature]} if readers else {})
        protocol = {"minReaderVersion": 3 if readers else 1, "minWriterVersion": 7, **features}
        (log / f"{version:020d}.json").write_text(json.dumps({"protocol": protocol}) + "\n")

    def versions(self) -> list[dict[str, Any]]:
        """What the table's history says of each version."""
        return self.table().history()
