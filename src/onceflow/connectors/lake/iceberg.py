"""Iceberg, in the driver: a table of a catalog, looked at and changed by pyiceberg.

Must not know: Spark's tasks, decisions, when a change is tried again.

Pyiceberg (0.12) tries a commit that somebody was faster with again by itself, on top of whatever came first, also of
another driver's commit of the very same epoch. So a change goes through a catalog that passes on one commit and no
second one: the ledger is looked at first.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    TableAlreadyExistsError,
    UnauthorizedError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table as Iceberg

from onceflow.connectors.contract import SinkConnection
from onceflow.connectors.lake import iceberg_fields
from onceflow.connectors.lake.connection import LakeConnection
from onceflow.connectors.lake.iceberg_files import IcebergForm, data_file, data_location, staging_of
from onceflow.connectors.lake.iceberg_fit import misfit, type_for, unwritable, unwritable_version
from onceflow.connectors.lake.refusals import lacks_right, secrets_of, words
from onceflow.connectors.lake.staged import Moment
from onceflow.connectors.lake.table import BeatenError, Committed, LakeTable, Ledger, LedgerEntry, TableView
from onceflow.connectors.lake.writer import Form
from onceflow.errors import ConfigurationError, LakeRightsError, LakeUnavailableError, OnceflowError
from onceflow.twophase.forms import OTHER_FORM

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from onceflow.connectors.lake.sinks import IcebergSink

_REFUSALS = (NoSuchTableError, NoSuchNamespaceError, UnauthorizedError, ForbiddenError)
_HANDLE = "onceflow.handle"
_TARGET_BYTES = 512 << 20

CONNECTED_S, ANSWERED_S = 10.0, 60.0
"""For how long a REST catalog is waited for: then it did not answer, and is asked what it has done."""


def iceberg_connection(sink: IcebergSink, *, making: bool) -> SinkConnection:
    """Connect a sink.

    Args:
        sink: The description.
        making: Make the table where it is not there, without columns.

    Raises:
        LakeUnavailableError: The catalog did not answer.
        LakeRightsError: It refused, or the table is not there.
    """
    return LakeConnection(IcebergTable(sink, making=making), sink.name, create=making, adds=sink.adds_columns)


class IcebergTable(LakeTable):
    """One table of a catalog."""

    def __init__(self, sink: IcebergSink, *, making: bool) -> None:
        self.where = f"Iceberg table {sink.table}"
        self._sink = sink
        self._secrets = secrets_of(sink.properties)
        self._lock = threading.RLock()
        with self._asking("load its catalog"):
            try:
                self._catalog = load_catalog(sink.catalog, **sink.properties)
            except (ValueError, NotInstalledError) as error:
                raise ConfigurationError(
                    f"sink {sink.name}: catalog {sink.catalog} cannot be loaded: {self.words(error)}",
                    cause="properties=, or what pyiceberg's own files and variables say of this name",
                    action="give the catalog's type and address: "
                    'properties={"type": "sql", "uri": "sqlite:////lake/catalog.db", "warehouse": "file:///lake"}',
                ) from None
        _limit_waits(self._catalog)
        self._secrets = secrets_of({**sink.properties, **self._catalog.properties})
        try:
            table = self._load()
        except LakeRightsError:
            if not making:
                raise
            table = self._made()
        self._id = str(table.metadata.table_uuid)
        self.staging = staging_of(table.location(), table.properties, table.io.properties)

    @property
    def system_id(self) -> str:
        """The table's."""
        return self._id

    def look(self) -> TableView:
        """The table as it is now."""
        return _IcebergView(self._load(), self._catalog, self._lock)

    def make(self, fields: StructType) -> None:
        """Give the table columns, if it has none."""
        if not self.names():
            self.add(fields)

    def names(self) -> list[str]:
        """As the contract says."""
        return [field.name for field in self._load().schema().fields]

    def add(self, fields: StructType) -> None:
        """As the contract says."""
        kinds = [(field.name, type_for(field.dataType, field.name)) for field in fields.fields]
        with self._asking("give it columns"), self._load().update_schema() as schema:
            for name, kind in kinds:
                schema.add_column((name,), kind)

    def misfits(self, fields: StructType) -> list[str]:
        """As the contract says."""
        table = self._load()
        columns = {field.name: field for field in table.schema().fields}
        wrong = [f"column {f.name} is not in the table" for f in fields.fields if f.name not in columns]
        for f in fields.fields:
            why = misfit(f.dataType, columns[f.name].field_type) if f.name in columns else None
            wrong += [f"column {f.name}: {why}"] if why else []
        wrong += [
            f"column {name} takes no null, and the output does not have it"
            for name, field in columns.items()
            if field.required and name not in fields.names
        ]
        return wrong + unwritable(table.metadata)

    def form(self, names: Sequence[str]) -> tuple[Form, Mapping[str, Any]]:
        """As the contract says; the shape has the fields' ids, which outlive other names, and where files lie."""
        table = self._load()
        columns = {field.name: field for field in table.schema().fields}
        required = tuple(name for name in names if columns[name].required)
        form = IcebergForm(
            columns=tuple(names),
            required=required,
            target_bytes=int(table.properties.get("write.target-file-size-bytes", _TARGET_BYTES)),
            location=table.location(),
            properties=dict(table.properties),
            store=dict(table.io.properties),
            fields=Schema(*(columns[name] for name in names)).model_dump_json(),
            spec=table.spec().model_dump_json(),
        )
        mine = [columns[name] for name in names]
        data = data_location(table.location(), table.properties)
        shape = {"fields": iceberg_fields.written(mine), "required": list(iceberg_fields.required(mine))}
        return form, {"spec": table.spec().spec_id, **shape, "data": data}

    def words(self, error: BaseException) -> str:
        """As the contract says."""
        return words(error, self._secrets)

    def close(self) -> None:
        """Let go of the catalog's connections."""
        with suppress(Exception):
            self._catalog.close()

    def _load(self) -> Iceberg:
        with self._asking("load it"):
            return self._catalog.load_table(self._sink.table)

    def _made(self) -> Iceberg:
        """An empty one, without columns yet: what is written to has an id before its columns are known."""
        with self._asking("make it"):
            self._catalog.create_namespace_if_not_exists(self._sink.table.rpartition(".")[0])
            with suppress(TableAlreadyExistsError):
                return self._catalog.create_table(self._sink.table, Schema())
        return self._load()

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except OnceflowError:
            raise
        except Exception as error:  # noqa: BLE001 - each catalog and store has errors of its own
            if not isinstance(error, _REFUSALS) and not lacks_right(error):
                raise LakeUnavailableError(
                    f"sink {self._sink.name}: catalog {self._sink.catalog} did not answer when asked for {self.where} "
                    f"to {what}: {self.words(error)}",
                    harmless="for the data: what is decided stays beside the table, and the next start goes on",
                    cause="the catalog or its store is down or is not reached, or its settings (properties=) are wrong",
                    action="see to the catalog or correct its settings, then start the job again",
                ) from None
            raise LakeRightsError(
                f"sink {self._sink.name}: catalog {self._sink.catalog} refused when asked for {self.where} to {what}: "
                f"{self.words(error)}",
                harmless="for the data: nothing was changed",
                cause=f"the table is not there (create_table={self._sink.create_table}), the login is wrong, or a "
                "right is missing",
                action="create the table, pass create_table=True, or grant what docs/lake.md lists; then start again",
            ) from None


def _limit_waits(catalog: Catalog) -> None:
    """Let a REST catalog that says nothing any more be one that did not answer: pyiceberg (0.12) waits for ever."""
    session = getattr(catalog, "_session", None)
    if session is None:
        return
    send = session.send

    def sent(request: Any, **settings: Any) -> Any:
        return send(request, **settings | {"timeout": settings.get("timeout") or (CONNECTED_S, ANSWERED_S)})

    session.send = sent


class _OneCommit:
    """A catalog for one transaction: what somebody was faster with is not tried again behind our back."""

    def __init__(self, catalog: Catalog, lock: threading.RLock) -> None:
        self._catalog, self._lock = catalog, lock

    def commit_table(self, *args: Any) -> Any:
        try:
            with self._lock:
                return self._catalog.commit_table(*args)
        except CommitFailedException as error:
            raise BeatenError(str(error)) from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)


class _IcebergView(TableView):
    def __init__(self, table: Iceberg, catalog: Catalog, lock: threading.RLock) -> None:
        self._table = table
        self._once = _OneCommit(catalog, lock)

    @property
    def table_id(self) -> str:
        return str(self._table.metadata.table_uuid)

    def ledger(self, job: str, sink: str) -> Ledger | None:
        value = self._kept(job, sink)
        try:
            newest = None
            if value["handle"]:
                newest = Committed(Moment(int(value["start"]), int(value["epoch"])), str(value["handle"]))
            return Ledger(str(value["seat"]), newest)
        except OTHER_FORM:
            return None

    def ended(self, job: str, sink: str, attempts: frozenset[str]) -> frozenset[str]:
        return attempts.intersection(self._kept(job, sink).get("ended", ()))

    def _kept(self, job: str, sink: str) -> dict[str, Any]:
        try:
            value = json.loads(self._table.properties.get(_key(job, sink), "{}"))
        except OTHER_FORM:
            return {}
        return value if isinstance(value, dict) else {}

    def knows(self, handle: str) -> bool:
        snapshots = (snapshot.summary for snapshot in self._table.metadata.snapshots)
        return any(summary is not None and summary.get(_HANDLE) == handle for summary in snapshots)

    def objection(self, shape: Mapping[str, Any]) -> str | None:
        if newer := unwritable_version(self._table.metadata):
            return newer
        data = data_location(self._table.location(), self._table.properties)
        if data != shape["data"]:
            return f"the table's data files belong into {data} now, and these were written into {shape['data']}"
        spec = self._table.spec().spec_id
        if spec != shape["spec"]:
            return f"the table's partition spec is {spec} now, and its files were written for {shape['spec']}"
        return iceberg_fields.objection(shape["fields"], shape["required"], self._table.schema().fields)

    def change(self, entry: LedgerEntry, files: Sequence[Mapping[str, Any]]) -> None:
        newest = entry.ledger.newest
        told = {
            "seat": entry.ledger.seat,
            "start": newest.moment.incarnation if newest else 0,
            "epoch": newest.moment.epoch if newest else 0,
            "handle": newest.handle if newest else "",
            "ended": sorted(entry.ended.union(self._kept(entry.job, entry.sink).get("ended", ()))),
        }
        history = {f"onceflow.{name}": value for name, value in entry.properties.items()}
        change = self._to_change().transaction()
        # An entry without files is a snapshot, too: a catalog compares the newest snapshot, and not the properties.
        with change.update_snapshot(snapshot_properties=history).fast_append() as append:
            for each in files:
                append.append_data_file(data_file(each, self._table.metadata))
        change.set_properties({_key(entry.job, entry.sink): json.dumps(told)})
        change.commit_transaction()

    def _to_change(self) -> Iceberg:
        """The table without its older snapshots.

        Pyiceberg (0.12) copies all of them fifteen times for a commit, which took seconds where there were thousands.
        What it sends to the catalog is made of the newest alone, and the catalog has them all.
        """
        table, newest = self._table, self._table.current_snapshot()
        short = {"snapshots": [] if newest is None else [newest], "snapshot_log": []}
        metadata = table.metadata.model_copy(update=short)
        once = cast("Catalog", self._once)
        return Iceberg(table.name(), metadata, table.metadata_location, table.io, once, dict(table.config))

    def named(self, paths: frozenset[str]) -> frozenset[str]:
        wanted = {f"{data_location(self._table.location(), self._table.properties)}/{path}": path for path in paths}
        seen, found = set[str](), set[str]()
        for snapshot in self._table.metadata.snapshots:
            for manifest in snapshot.manifests(self._table.io):
                if manifest.manifest_path not in seen:
                    seen.add(manifest.manifest_path)
                    entries = manifest.fetch_manifest_entry(self._table.io, discard_deleted=False)
                    found |= {wanted[e.data_file.file_path] for e in entries if e.data_file.file_path in wanted}
        return frozenset(found)


def _key(job: str, sink: str) -> str:
    return f"onceflow.ledger.{job}.{sink}"
